# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as buffers: zero-copy, with their access, streams and lifetimes.

Importing this package imports no framework.
"""

from eagle.errors import BufferRefused
from eagle.interop.arrays import as_out_buffer, export_like, host_ptr
from eagle.interop.buffer import BufferView, Requirements, import_buffer
from eagle.interop.frameworks import Adapter, detect, origin_adapter, refuse_jax_written, to_cupy
from eagle.interop.streams import external_stream, refence

__all__ = ["Adapter", "BufferRefused", "BufferView", "Requirements", "as_out_buffer", "detect", "export_like",
           "external_stream", "host_ptr", "import_buffer", "origin_adapter", "refence", "refuse_jax_written", "to_cupy"]
