# SPDX-License-Identifier: Apache-2.0
"""Addresses and buffers for those who fill or read an array by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BufferRefused, refusal
from eagle.interop.buffer import Requirements, view_for
from eagle.interop.frameworks import detect, refuse_jax_written
from eagle.interop.held import refuse_permuted
from eagle.interop.streams import cupy_module

__all__ = ["as_out_buffer", "export_like", "host_ptr"]


def host_ptr(x: object, *, writable: bool = False) -> int:
    """The address of a contiguous array in host memory, valid as long as the caller keeps `x`.

    Raises TypeError for what is no array in host memory, BufferRefused for one that is not contiguous or, with
    `writable`, may not be written.
    """
    door = "eagle.interop.host_ptr"
    view = view_for(door, "x", x)
    if view.device[0] not in HOST_DEVICE_TYPES:
        raise TypeError(refusal(door, "x", f"{view.producer} on DLPack device type {view.device[0]}", "host memory",
                                "copy it to the host"))
    if clauses := view.refusals(Requirements(contiguous=True, writable=writable)):
        raise BufferRefused(f"{door}: x: {view.producer}: {'; '.join(clauses)}")
    return view.ptr


def as_out_buffer(out: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """A CUDA array as an array of CuPy of the same memory, to be filled in place.

    Raises TypeError for host memory, BufferRefused for an array of jax, and for another dtype, shape or memory order.
    """
    door = "eagle.interop.as_out_buffer"
    refuse_jax_written(out, "out")
    refuse_permuted(door, "out", out)
    adapter = detect(out)
    if adapter is None or not adapter.cuda:
        raise TypeError(refusal(door, "out", f"a {type(out).__name__} in host memory", "an array of a CUDA device",
                                "fill host memory with NumPy"))
    array = adapter.to_cupy(out)
    wanted = np.dtype(dtype)
    if array.dtype != wanted or array.shape != tuple(shape) or not array.flags.c_contiguous:
        order = "contiguous" if array.flags.c_contiguous else "not contiguous"
        raise BufferRefused(refusal(door, "out", f"{array.dtype} {array.shape}, {order}",
                                    f"{wanted} {tuple(shape)}, contiguous", "make it so"))
    return array


def export_like(like: object, native: Any) -> Any:
    """A copy of `native`, an array of NumPy or CuPy, in a fresh array of the framework `like` belongs to."""
    adapter = detect(like)
    source = detect(native)
    if source is not None:
        refuse_permuted("eagle.interop.export_like", "native", native)
    on_device = source is not None and source.cuda
    if adapter is None:
        return cupy_module("eagle.interop.export_like").asnumpy(native) if on_device else np.array(native)
    copy = native.copy() if on_device else np.array(native)
    return adapter.from_cupy(copy) if on_device else adapter.from_numpy(copy)
