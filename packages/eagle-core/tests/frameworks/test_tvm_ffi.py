# SPDX-License-Identifier: Apache-2.0
"""Tensors of apache-tvm-ffi, in and out."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from eagle.interop import Adapter, Requirements, detect, import_buffer

ffi = pytest.importorskip("tvm_ffi", reason="framework-missing: tvm_ffi")


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "int64", "int32", "int8", "uint64", "uint8"])
def test_both_ways(name: str) -> None:
    a = np.array([[0, 1, 1], [1, 0, 1]], dtype=name)
    tensor = ffi.from_dlpack(import_buffer(a))
    view = import_buffer(tensor, require=Requirements(dtype=name, shape=(2, 3), contiguous=True))
    assert view.ptr == a.ctypes.data and view.producer == "tvm_ffi.Tensor"
    b = np.asarray(view)
    a[1, 1] = 1
    assert b.tolist() == a.tolist()
    del a, tensor, view
    gc.collect()
    assert b.tolist() == [[0, 1, 1], [1, 1, 1]]


def test_bool_leaves_as_bytes() -> None:
    view = import_buffer(ffi.from_dlpack(import_buffer(np.array([True, False]))))
    assert view.dtype == "uint8" and np.asarray(view).tolist() == [1, 0]


def test_access_passes_through() -> None:
    a = np.arange(3.0)
    assert import_buffer(ffi.from_dlpack(import_buffer(a))).writable
    assert detect(ffi.from_dlpack(a)) == Adapter("dlpack", False)
