# SPDX-License-Identifier: Apache-2.0
"""Arrays of NVIDIA Warp on its CPU device, in and out."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from eagle.interop import Adapter, Requirements, detect, export_like, host_ptr, import_buffer

wp = pytest.importorskip("warp", reason="framework-missing: warp")
wp.config.quiet = True

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"]


@pytest.mark.parametrize("name", DTYPES)
def test_element_types(name: str) -> None:
    w = wp.array([0, 1, 1], dtype=getattr(wp, name), device="cpu")
    view = import_buffer(w, require=Requirements(dtype=name, shape=(3,), contiguous=True, writable=True))
    assert (view.ptr, view.access, view.producer) == (w.ptr, "read-write", "warp.array")
    assert np.asarray(view).tolist() == [0, 1, 1]
    assert wp.from_dlpack(view).ptr == w.ptr


def test_vectors_arrive_sample_major() -> None:
    w = wp.zeros(5, dtype=wp.vec3d, device="cpu")
    view = import_buffer(w)
    assert (view.shape, view.strides, view.dtype) == ((5, 3), (3, 1), "float64")
    np.asarray(view)[4, 1] = 7.0
    assert w.numpy()[4].tolist() == [0.0, 7.0, 0.0]


def test_what_one_side_writes_the_other_reads() -> None:
    a = np.arange(3.0)
    w = wp.from_dlpack(import_buffer(a))
    w.fill_(2.0)
    assert a.tolist() == [2.0] * 3
    del w
    gc.collect()
    assert import_buffer(a).moved() is False
    a.flags.writeable = False
    with pytest.raises(BufferError, match="found a read-only buffer"):
        wp.from_dlpack(import_buffer(a))


def test_an_array_lives_as_long_as_its_exports() -> None:
    w = wp.array(np.arange(1000.0), dtype=wp.float64, device="cpu")
    view = import_buffer(w)
    assert view.moved() is False
    a = np.from_dlpack(view)
    del w, view
    gc.collect()
    assert a.tolist() == [float(i) for i in range(1000)]


def test_the_adapter() -> None:
    w = wp.zeros(3, dtype=wp.float64, device="cpu")
    assert detect(w) == Adapter("dlpack", False)
    assert host_ptr(w, writable=True) == w.ptr
    result = export_like(w, np.arange(3.0))
    assert type(result) is np.ndarray and result.tolist() == [0.0, 1.0, 2.0]
