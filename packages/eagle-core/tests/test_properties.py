# SPDX-License-Identifier: Apache-2.0
"""Arrays of any dtype, order and content: run gives NumPy's bits or refuses, and writes nothing it should not."""

from __future__ import annotations

import warnings
from typing import Any

import kernels
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import eagle

DTYPES = st.one_of(hnp.integer_dtypes(endianness="?"), hnp.unsigned_integer_dtypes(endianness="?"),
                   hnp.floating_dtypes(endianness="?"), hnp.boolean_dtypes(), hnp.complex_number_dtypes(),
                   hnp.datetime64_dtypes(), hnp.unicode_string_dtypes())


def takes(array: np.ndarray[Any, Any], wanted: type) -> bool:
    """Whether a Real input plane of a kernel may be `array`: every value is exact in the kernel's type."""
    if not array.dtype.isnative or array.ndim > 1:
        return False
    if array.dtype.kind == "f":
        return array.dtype.itemsize <= np.dtype(wanted).itemsize
    return array.dtype.kind in "iu" and all(int(wanted(int(v))) == int(v) for v in array.flat)


@settings(max_examples=400, deadline=None)
@given(data=st.data(), precision=st.sampled_from([np.float64, np.float32]))
def test_inputs(data: st.DataObject, precision: type) -> None:
    dtype = data.draw(DTYPES)
    base = data.draw(hnp.arrays(dtype, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=9)))
    x = base[data.draw(hnp.basic_indices(base.shape))] if base.ndim else base
    if not isinstance(x, np.ndarray):
        return
    before = x.copy()
    plan = eagle.deploy(kernels.scale, scalar_type=np.dtype(precision).name)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", eagle.PerformanceWarning)
        try:
            got = plan.run(x=x, a=3.0, b=0.5)
        except (ValueError, TypeError) as refused:
            assert not takes(x, precision), refused
            assert "scale.run: Scalar 'x': found" in str(refused)
        else:
            assert takes(x, precision)
            want = precision(3.0) * x.astype(precision) + precision(0.5)
            np.testing.assert_array_equal(got, want)
            assert got.dtype == precision
    assert x.tobytes() == before.tobytes()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_outputs(data: st.DataObject) -> None:
    """Given outputs of any kind: written exactly when the kernel can write them in place, else left alone."""
    n = data.draw(st.integers(0, 12))
    memory = np.full(64, -7.0).astype(data.draw(st.sampled_from([np.float64, np.float32, np.int64])))
    start, step = data.draw(st.integers(0, 20)), data.draw(st.sampled_from([1, 1, 1, 2, -1]))
    out = memory[start:start + data.draw(st.sampled_from([n, n, n, n + 1]))][::step]
    out.flags.writeable = data.draw(st.sampled_from([True, True, False]))
    x = np.arange(float(n))
    fits = (out.dtype == np.float64 and out.shape == (n,) and out.flags.writeable and out.flags.c_contiguous)
    expected = memory.copy()
    if fits:
        expected[start:start + n] = 2.0 * x + 1.0
    try:
        assert eagle.deploy(kernels.scale).run(x=x, a=2.0, b=1.0, out=out) is out and fits
    except ValueError as refused:
        assert not fits, refused
    assert memory.tobytes() == expected.tobytes()


@settings(max_examples=200, deadline=None)
@given(n=st.integers(0, 500), cuts=st.lists(st.integers(0, 500), max_size=6), seed=st.randoms(use_true_random=False))
def test_any_partitions_in_any_order(n: int, cuts: list[int], seed: Any) -> None:
    edges = sorted({0, n, *(min(c, n) for c in cuts)})
    parts = [(lo, hi - lo, n) for lo, hi in zip(edges, edges[1:], strict=False)] or [(0, 0, n)]
    seed.shuffle(parts)
    x = np.random.default_rng(n).normal(size=n)
    got = eagle.deploy(kernels.scale, partitions=parts).run(x=x, a=1.5, b=0.25)
    assert got.tobytes() == (1.5 * x + 0.25).tobytes()
