# SPDX-License-Identifier: Apache-2.0
"""The canonical reduction against a serial walk of its tree in Python, bit for bit."""

from __future__ import annotations

import ctypes
import math
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serial import MAX, MIN, SUM, cancelling, walk

import eagle
from eagle import _core

FLOATS = [np.float64, np.float32]
Floats = np.ndarray[Any, Any]


def same(got: float, want: Any) -> bool:
    return math.isnan(got) and math.isnan(want) or got.hex() == float(want).hex()


def random(seed: int, n: int, dtype: type) -> Floats:
    """Any bits, mild values, cancelling ones or signed zeros, with a few special values among them."""
    rng = np.random.default_rng(seed)
    match seed % 4:
        case 0:
            x = rng.integers(0, 256, n * np.dtype(dtype).itemsize, np.uint8).view(dtype).copy()
            x[~np.isfinite(x)] = 1
        case 1:
            x = rng.normal(size=n).astype(dtype)
        case 2:
            x = np.ldexp(rng.integers(-9, 10, n).astype(dtype), rng.integers(-60, 60, n)).astype(dtype)
            x[:n // 2] = -x[n - n // 2:][::-1]
        case _:
            x = rng.choice(np.array([0.0, -0.0], dtype), n)
    info = np.finfo(dtype)
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, info.smallest_subnormal, -info.tiny, info.max, -info.max],
                       dtype)
    special = special[rng.integers(0, len(special), rng.integers(1, 4))]
    where = rng.integers(0, n, rng.integers(0, 4))
    x[where] = rng.choice(special, len(where))
    return x


@pytest.mark.parametrize("n, want, rounded, want32", [
    (12, "0x1.55555558p-2", "0x1.5555555555555p-2", "0x1.55706ep-2"),
    (256, "0x1.5554p-2", "0x1.555555549c555p-2", "-0x1.6caac0p+4"),
    (600, "0x1.556p-2", "0x1.5555555555555p-2", "0x1.55p-2"),
    (1000, "0x1.5554p-2", "0x1.55555556c3555p-2", "0x1.6e156p+10"),
    (4098, "0x1.554p-2", "0x1.5555555425555p-2", "0x1.56p-2"),
    (10000, "0x1.6ddp-2", "0x1.6dcd555555555p-2", "0x1.72p-2"),
])
def test_cancellation(n: int, want: str, rounded: str, want32: str) -> None:
    x = cancelling(n, 80, np.float64)
    assert math.fsum(x) == float.fromhex(rounded)
    assert _core.canonical(SUM, x, None) == float.fromhex(want) == walk(SUM, x)
    x = cancelling(n, 26, np.float32)
    assert _core.canonical(SUM, x, None) == float.fromhex(want32) == walk(SUM, x)


def test_known_sums() -> None:
    small = np.array([1e16, 1, -1e16, 1])
    assert _core.canonical(SUM, small, None) == 2 == walk(SUM, small)
    for n, want in (5, "0x1.45e666666663p+8"), (257, "-0x1.bbdbb33333334p+16"), (4097, "-0x1.7ef2bcccccccdp+19"):
        x = ((np.arange(n) * 2654435761 % 1048583) - 524291) * 0.1
        assert _core.canonical(SUM, x, None) == float.fromhex(want) == walk(SUM, x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("x, comp, want", [
    ([-0.0], None, 0.0),
    ([-0.0], [-0.0], -0.0),
    ([1.0], [2.0], 3.0),
    ([np.inf], [1.0], np.inf),
    ([np.inf, 1.0], [np.nan, np.nan], np.inf),
    ([np.inf, -np.inf], None, np.nan),
    ([1.0, np.nan], [1.0, 1.0], np.nan),
    ([1.0], [np.nan], np.nan),
    ([1.0] * 256 + [2.0] * 256, [0.25] * 512, 896.0),
])
def test_special_sums(x: list[float], comp: list[float] | None, want: float, dtype: type) -> None:
    companions = None if comp is None else np.array(comp, dtype)
    assert same(_core.canonical(SUM, np.array(x, dtype), companions), want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_overflow(dtype: type) -> None:
    """It happens where the tree's order brings it about, and stays."""
    big = np.finfo(dtype).max
    for x, want in ([big, big, -big, -big], 0), ([big] * 512 + [-big] * 512, math.inf), ([big, -big] * 512, math.nan):
        assert same(_core.canonical(SUM, np.array(x, dtype), None), want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_ignore_nan(dtype: type) -> None:
    for n in (1, 2, 3, 255, 257, 4097):
        x = np.arange(n, dtype=dtype) - n // 2
        for where in {0, 1 % n, n // 2, n - 1}:
            y = x.copy()
            y[where] = np.nan
            rest = np.delete(x, where)
            for op, best in (MAX, np.max), (MIN, np.min):
                assert same(_core.canonical(op, y, None), best(rest) if n > 1 else np.nan)
        assert math.isnan(_core.canonical(MAX, np.full(n, np.nan, dtype), None))
    for x, largest, smallest in ([0.0, -0.0], 0.0, 0.0), ([-0.0, 0.0], -0.0, -0.0), ([np.nan, -np.inf], *[-np.inf] * 2):
        assert same(_core.canonical(MAX, np.array(x, dtype), None), largest)
        assert same(_core.canonical(MIN, np.array(x, dtype), None), smallest)
    for n in 2, 257, 4097, 3 * 4096, 3 * 4096 + 1:  # of equals the first, whichever partials meet
        for first in 0.0, -0.0:
            x = np.full(n, -first, dtype)
            x[0] = first
            assert same(_core.canonical(MAX, x, None), first) and same(_core.canonical(MIN, x, None), first)


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_shape_of_the_tree(dtype: type) -> None:
    """All partly filled leaves of two rows, the edges of slots and leaves, and odd counts of leaves."""
    sizes = [*range(1, 515), *(m + d for m in (2048, 4096, 8192) for d in (-1, 0, 1)), 4096 + 255, 4096 + 257, 9000,
             3 * 4096, 5 * 4096 - 1, 7 * 4096 + 300]
    for n in sizes:
        x, comp = random(n, n, dtype), random(n + 1, n, dtype)
        assert same(_core.canonical(SUM, x, None), walk(SUM, x)), n
        assert same(_core.canonical(SUM, x, comp), walk(SUM, x, comp)), n
        if n < 300 or n > 4000:
            for op in MAX, MIN:
                assert same(_core.canonical(op, x, None), walk(op, x)), n


@settings(max_examples=150, deadline=None)
@given(n=st.one_of(st.integers(1, 9000), st.integers(1, 600)), seed=st.integers(0, 2**32),
       dtype=st.sampled_from(FLOATS), op=st.sampled_from([SUM, MAX, MIN]), companions=st.booleans())
def test_random(n: int, seed: int, dtype: type, op: int, companions: bool) -> None:
    x = random(seed, n, dtype)
    comp = random(seed + 1, n, dtype) if companions and op == SUM else None
    before = x.tobytes(), comp is not None and comp.tobytes()
    assert same(_core.canonical(op, x, comp), walk(op, x, comp))
    assert (x.tobytes(), comp is not None and comp.tobytes()) == before


@settings(max_examples=100, deadline=None)
@given(x=st.lists(st.floats(width=32), min_size=1, max_size=20), op=st.sampled_from([SUM, MAX, MIN]),
       dtype=st.sampled_from(FLOATS))
def test_few_samples(x: list[float], op: int, dtype: type) -> None:
    samples = np.array(x, dtype)
    assert same(_core.canonical(op, samples, None), walk(op, samples))


@pytest.fixture(scope="module", params=["-O0", "-O3 -march=native -ffp-contract=fast"])
def subtrees(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("subtrees") / "subtrees.so"
    subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-shared", "-fPIC", "-Wall", "-Wextra",
                    "-Werror", *request.param.split(), f"-I{Path(eagle.__file__).parent / 'include'}",
                    str(Path(__file__).with_name("subtrees.cpp")), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    library.sum_in_chunks.restype = library.sum_of_products.restype = ctypes.c_double
    library.sum_in_chunks.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]
    library.sum_of_products.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.vectors_agree.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    return library


def test_subtrees_join_to_the_same_bits(subtrees: ctypes.CDLL) -> None:
    for leaves in range(1, 9):
        for n in (4096 * leaves - 4095, 4096 * leaves - 1, 4096 * leaves):
            x, comp = random(4 * n + 2, n, np.float64), random(4 * n + 1, n, np.float64)
            want = walk(SUM, x, comp)
            for q in range(5):
                assert same(subtrees.sum_in_chunks(x.ctypes.data, comp.ctypes.data, n, q), want), (n, q)


def test_flags_and_callers_change_no_bit(subtrees: ctypes.CDLL) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 512))
    assert same(subtrees.sum_of_products(a.ctypes.data, b.ctypes.data), walk(SUM, a * b, np.zeros(512)))


def test_wider_vectors_change_no_bit(subtrees: ctypes.CDLL) -> None:
    rng = np.random.default_rng(2)
    x, comp = np.ldexp(rng.normal(size=(2, 4096 * 3)), rng.integers(-60, 60, (2, 4096 * 3)))
    for rows, columns in (1, 1), (7, 1), (256, 1), (700, 1), (4096, 1), (5, 3), (300, 3), (4096, 3):
        assert subtrees.vectors_agree(x.ctypes.data, comp.ctypes.data, rows, columns)


def test_fast_math_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "fast.cpp"
    source.write_text('#include "eagle/reduce/Canonical.h"\n')
    done = subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-ffast-math", "-fsyntax-only",
                           f"-I{Path(eagle.__file__).parent / 'include'}", str(source)], capture_output=True, text=True)
    assert done.returncode != 0 and "a canonical reduction needs IEEE arithmetic" in done.stderr


def test_other_threads_run_meanwhile() -> None:
    x = np.ones(20_000_000)
    interval = sys.getswitchinterval()
    stop, turns = threading.Event(), 0
    sys.setswitchinterval(10)  # so a thread only gets its turn when another gives the GIL up
    try:
        ready = threading.Event()

        def other() -> None:
            nonlocal turns
            ready.set()
            while not stop.wait(1e-4):
                turns += 1

        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        before = turns
        assert _core.canonical(SUM, x, None) == len(x)
        assert turns > before
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


ONE = np.ones(3)


@pytest.mark.parametrize("arguments, exception, message", [
    ((3, ONE, None), ValueError, "op: found 3, wanted 0 sum, 1 max, 2 min"),
    ((-1, ONE, None), ValueError, "op: found -1"),
    ((SUM, [1.0], None), TypeError, "x: found list, wanted a numpy array"),
    ((SUM, np.ones(3, np.int64), None), TypeError, "x: found int64, wanted float32 or float64"),
    ((SUM, np.ones(3, ">f8"), None), TypeError, "x: found >f8, wanted float32 or float64"),
    ((SUM, np.ones(3, np.longdouble), None), TypeError, "wanted float32 or float64"),
    ((SUM, np.ones((2, 2)), None), ValueError, "x: found 2 axes, wanted 1 of contiguous, aligned samples"),
    ((SUM, np.float64(1), None), TypeError, "x: found numpy.float64"),
    ((SUM, np.array(1.0), None), ValueError, "x: found 0 axes"),
    ((SUM, np.ones(4)[::2], None), ValueError, "contiguous, aligned"),
    ((SUM, np.zeros(25, np.uint8)[1:].view(np.float64), None), ValueError, "contiguous, aligned"),
    ((SUM, np.ones(0), None), ValueError, "x: found no samples, wanted one or more"),
    ((SUM, ONE, [1.0]), TypeError, "comp: found list"),
    ((SUM, ONE, np.ones(3, np.float32)), TypeError, "comp: found float32, wanted float64 as x has"),
    ((SUM, ONE, np.ones(4)), ValueError, "comp: found 4 samples, wanted 3 as x has"),
    ((SUM, ONE, np.ones(6)[::2]), ValueError, "comp: found 1 axes, wanted 1 of contiguous"),
    ((MAX, ONE, ONE), ValueError, "comp: found op 1, wanted companions of a sum"),
    ((SUM, ONE), TypeError, "canonical"),
])
def test_refusals(arguments: tuple[Any, ...], exception: type[Exception], message: str) -> None:
    with pytest.raises(exception) as refused:
        _core.canonical(*arguments)
    assert message in str(refused.value)
