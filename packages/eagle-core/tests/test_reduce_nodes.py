# SPDX-License-Identifier: Apache-2.0
"""``eagle.reduce``: nodes over the canonical tree, against serial walks in Python and NumPy."""

from __future__ import annotations

import ctypes
import gc
import math
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from producers import CUDA, FAKE, Producer
from serial import SUM, cancelling, walk

import eagle
from eagle import BackendUnavailable, BufferRefused, LayoutError
from eagle.nodes import Node, get_node_kind

Array = np.ndarray[Any, Any]

FLOATS = ("float64", "float32")
INTEGERS = ("int64", "int32")
SIZES = (1, 2, 255, 256, 257, 600, 4095, 4096, 4097, 3 * 4096, 5 * 4096 + 300, 16384, 16385, 70_000)


@pytest.fixture(params=[1, 2, 3, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = eagle.set_num_threads(request.param)
    yield request.param
    eagle.set_num_threads(before)


def reduced(x: Array, op: str = "sum", **given: Any) -> Array:
    """What a node writes, over an array that held something else."""
    out = np.full(x.shape[1:] or 1, 1 if op == "all" else 7, x.dtype)
    assert eagle.reduce(x, out, op=op, **given)() is None  # type: ignore[func-returns-value]
    return out


def bits(values: Any) -> list[str]:
    return ["nan" if math.isnan(value) else float(value).hex() for value in np.ravel(values)]


def samples(seed: int, shape: int | tuple[int, ...], dtype: str) -> Array:
    """Values of any size, some of them special."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < (0.5, 1.0)[seed % 2]
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = np.ldexp(rng.normal(size=shape), rng.integers(-40, 40, shape)).astype(dtype)
    special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal])
    for _ in range(seed % 3):
        x.flat[rng.integers(0, x.size)] = special[rng.integers(0, len(special))]
    return x


def folded(x: Array, larger: bool) -> float:
    """max or min down the tree of the canonical sum, which says whose zero it is: of equals the right one; NaN where a
    sample is."""
    if np.isnan(x).any():
        return math.nan

    def pick(a: float, b: float) -> float:
        return a if (a > b if larger else a < b) else b

    level = []
    for begin in range(0, len(x), 4096):
        leaf = x[begin:begin + 4096].tolist()
        slots = leaf[:256]
        for i, term in enumerate(leaf[256:]):
            slots[i % 256] = pick(slots[i % 256], term)
        for off in (128, 64, 32, 16, 8, 4, 2, 1):
            for t in range(min(off, len(slots) - off)):
                slots[t] = pick(slots[t], slots[t + off])
        level.append(slots[0])
    while len(level) > 1:
        level = [pick(*level[i:i + 2]) if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


def expected(x: Array, op: str, comp: Array | None = None) -> Any:
    """What one column of samples reduces to."""
    if op == "all":
        return all(x.tolist())
    if x.dtype.kind == "i":
        if op != "sum":
            return (max if op == "max" else min)(x.tolist())
        size = 8 * x.dtype.itemsize
        return (sum(x.tolist()) + 2**(size - 1)) % 2**size - 2**(size - 1)
    return walk(SUM, x, comp) if op == "sum" else folded(x, op == "max")


def check(x: Array, op: str, comp: Array | None = None) -> None:
    given = {} if comp is None else {"comp": comp}
    columns = x.T if x.ndim == 2 else [x]
    companions = [None] * len(columns) if comp is None else comp.T if x.ndim == 2 else [comp]
    want = [expected(np.ascontiguousarray(column), op, lost) for column, lost in zip(columns, companions, strict=True)]
    got = reduced(x, op, **given)
    if x.dtype.kind == "f":
        assert bits(got) == bits(want)
    else:
        assert got.tolist() == want


# ---- worked numbers --------------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["compensated", "ordered", "auto"])
@pytest.mark.parametrize("n, want, want32", [
    (12, "0x1.55555558p-2", "0x1.55706ep-2"), (256, "0x1.5554p-2", "-0x1.6caac0p+4"),
    (600, "0x1.556p-2", "0x1.55p-2"), (1000, "0x1.5554p-2", "0x1.6e156p+10"), (4098, "0x1.554p-2", "0x1.56p-2"),
    (10000, "0x1.6ddp-2", "0x1.72p-2"),
])
def test_cancellation(n: int, want: str, want32: str, policy: str) -> None:
    assert reduced(cancelling(n, 80, np.float64), policy=policy)[0] == float.fromhex(want)
    assert reduced(cancelling(n, 26, np.float32), policy=policy)[0] == float.fromhex(want32)


@pytest.mark.smoke
def test_known_sums() -> None:
    assert reduced(np.array([1e16, 1, -1e16, 1])).tolist() == [2.0]
    assert bits(reduced(np.array([-0.0]))) == [(0.0).hex()]
    for n, want in (5, "0x1.45e666666663p+8"), (257, "-0x1.bbdbb33333334p+16"), (4097, "-0x1.7ef2bcccccccdp+19"):
        assert reduced(((np.arange(n) * 2654435761 % 1048583) - 524291) * 0.1)[0] == float.fromhex(want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("x, want", [([np.inf, 1.0], np.inf), ([np.inf, -np.inf], np.nan), ([1.0, np.nan], np.nan),
                                     ([-np.inf, -1.0], -np.inf)])
def test_infinities_and_nan_follow_ieee(x: list[float], want: float, dtype: str) -> None:
    for pad in (0, 300, 5000, 20_000):
        assert bits(reduced(np.array([0.0] * pad + x, dtype))) == bits(want)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_are_near_the_exact_ones(dtype: str) -> None:
    """A compensated sum of n terms is off by two roundings, and n^2 of their squares."""
    rng = np.random.default_rng(5)
    for n in SIZES:
        x = rng.normal(size=n).astype(dtype)
        exact, size = math.fsum(x), math.fsum(abs(x))
        eps = float(np.finfo(dtype).eps)
        assert abs(reduced(x)[0] - exact) <= 2 * eps * abs(exact) + (n * eps)**2 * size


# ---- every shape, op and dtype ---------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n", SIZES)
def test_one_line(n: int, threads: int) -> None:
    for number, dtype in enumerate((*FLOATS, *INTEGERS)):
        for op in ("sum", "max", "min"):
            check(samples(n + number, n, dtype), op)
        if dtype in FLOATS:
            check(samples(n + number, n, dtype), "sum", samples(n + number + 1, n, dtype))
    check(samples(n, n, "bool"), "all")
    check(np.ones(n, bool), "all")


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (3, 1000), (12, 70_000), (255, 65), (256, 9), (300, 17),
                                   (4096, 8), (4097, 9), (9000, 3), (20_000, 2), (20_000, 1)])
def test_columns(shape: tuple[int, int], threads: int) -> None:
    most = 200_000 // shape[0]  # columns the oracle walks
    for number, dtype in enumerate((*FLOATS, "int32", "bool")):
        x = samples(sum(shape) + number, shape, dtype)
        comp = samples(sum(shape) + number + 1, shape, dtype)
        for op in ("all",) if dtype == "bool" else ("sum", "max", "min"):
            if shape[1] <= most:
                check(x, op)
            elif op != "sum":
                assert np.array_equal(reduced(x, op), {"max": np.max, "min": np.min, "all": np.all}[op](x, 0),
                                      equal_nan=dtype in FLOATS)
            else:  # a column of its own is a line, which the other test knows
                got = reduced(x)
                for column in (0, 1, 63, 64, 1023, shape[1] // 2, shape[1] - 1):
                    assert bits(got[column:column + 1]) == bits(reduced(np.ascontiguousarray(x[:, column])))
        if dtype in FLOATS and shape[1] <= most:
            check(x, "sum", comp)


@settings(max_examples=150, deadline=None)
@given(n=st.one_of(st.integers(1, 600), st.integers(1, 20_000)), seed=st.integers(0, 2**32), columns=st.integers(0, 6),
       what=st.sampled_from([(dtype, op) for dtype in (*FLOATS, *INTEGERS) for op in ("sum", "max", "min")]
                            + [("bool", "all")]), companions=st.booleans(), team=st.integers(1, 4))
def test_random(n: int, seed: int, columns: int, what: tuple[str, str], companions: bool, team: int) -> None:
    dtype, op = what
    shape = (max(n // columns, 1), columns) if columns else (n,)
    x = samples(seed, shape, dtype)
    comp = samples(seed + 1, shape, dtype) if companions and op == "sum" and dtype in FLOATS else None
    before = x.tobytes()
    size = eagle.set_num_threads(team)
    try:
        check(x, op, comp)
    finally:
        eagle.set_num_threads(size)
    assert x.tobytes() == before


@settings(max_examples=100, deadline=None)
@given(x=st.lists(st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf]) | st.floats(width=32), min_size=1, max_size=9),
       op=st.sampled_from(["sum", "max", "min"]), dtype=st.sampled_from(FLOATS))
def test_few_samples(x: list[float], op: str, dtype: str) -> None:
    check(np.array(x, dtype), op)


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_give_nan_on(dtype: str) -> None:
    """Wherever it is, in any slot and leaf, and before or behind larger samples."""
    for n in (1, 2, 3, 255, 257, 4097, 20_000):
        for where in {0, 1 % n, n // 2, n - 1}:
            x = np.arange(n, dtype=dtype) - n // 2
            x[where] = np.nan
            for op in ("max", "min"):
                assert np.isnan(reduced(x, op)).all()
                if n > 2:
                    both = reduced(np.stack([x, x[::-1]], 1), op)
                    assert np.isnan(both).all()


@pytest.mark.parametrize("dtype, top", [("int32", 2**31), ("int64", 2**63)])
def test_sums_of_integers_wrap(dtype: str, top: int) -> None:
    assert reduced(np.array([top - 1, 1], dtype)).tolist() == [-top]
    assert reduced(np.full(2 * 4096, top - 1, dtype)).tolist() == [-2 * 4096]
    assert reduced(np.array([[-top], [-1]], dtype)).tolist() == [top - 1]


def test_all_takes_every_byte_but_zero_for_true() -> None:
    x = np.full(5000, 2, np.uint8).view(bool)
    out = np.zeros(1, bool)
    eagle.reduce(x, out, op="all")()
    assert out.view(np.uint8).tolist() == [1]
    x.view(np.uint8)[4999] = 0
    eagle.reduce(x, out, op="all")()
    assert out.view(np.uint8).tolist() == [0]


# ---- the node --------------------------------------------------------------------------------------------------------


def test_the_node() -> None:
    x, out, comp = np.ones((2, 3)), np.zeros(3), np.zeros((2, 3))
    node = eagle.reduce(x, out, comp=comp)
    assert isinstance(node, Node) and out.tolist() == [0.0] * 3
    assert (node.kind, node.label, node.grad) == ("reduce", "reduce", True)
    assert [plane[::2] for plane in node.reads] == [("x", "per_sample"), ("comp", "per_sample")]
    assert [plane[::2] for plane in node.writes] == [("out", "out")]
    assert node.reads[0].array is x and node.reads[1].array is comp and node.writes[0].array is out
    assert repr(node) == "<Node reduce: reads x (2, 3), comp (2, 3), writes out (3,)>"
    assert [plane.name for plane in eagle.reduce(x, out).reads] == ["x"]
    assert eagle.nodes.reduce is eagle.reduce
    for value in (1.0, 2.0):
        x[...] = value
        node()
        assert out.tolist() == [2 * value] * 3


def test_a_node_keeps_its_arrays() -> None:
    node = eagle.reduce(np.arange(100_000.0), np.zeros(1))
    gc.collect()
    node()
    assert node.writes[0].array.tolist() == [99_999 * 50_000.0]


def test_arrays_of_any_library() -> None:
    x, out = np.arange(5.0), np.zeros(1)
    eagle.reduce(Producer(x), Producer(out))()
    assert out.tolist() == [10.0]
    eagle.reduce(eagle.interop.import_buffer(x), out, op="max", device=0)()
    assert out.tolist() == [4.0]


@pytest.mark.parametrize("n", [3, 100_000])
def test_threads_may_share_a_node(n: int) -> None:
    x, out = np.random.default_rng(3).normal(size=n), np.zeros(1)
    node, want, wrong = eagle.reduce(x, out), walk(SUM, x), []

    def work() -> None:
        for _ in range(50):
            node()
            if out[0] != want:
                wrong.append(out[0])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_other_threads_run_meanwhile() -> None:
    node, interval = eagle.reduce(np.ones(20_000_000), out := np.zeros(1)), sys.getswitchinterval()
    stop, ready, turns = threading.Event(), threading.Event(), 0
    sys.setswitchinterval(10)  # so a thread only gets its turn when another gives the GIL up

    def other() -> None:
        nonlocal turns
        ready.set()
        while not stop.wait(1e-4):
            turns += 1

    try:
        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        before = turns
        node()
        assert turns > before and out[0] == 20_000_000
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40_000), columns=st.integers(1, 4), seed=st.integers(0, 99), data=st.data())
def test_a_native_entry_takes_any_cut(n: int, columns: int, seed: int, data: st.DataObject) -> None:
    """In any order, again and again: what a graph replays."""
    rows = -(-n // columns)
    x = samples(seed, (rows, columns), "float64")
    native = get_node_kind("reduce").native_entry
    assert native is not None
    node = eagle.reduce(x, out := np.zeros(columns))
    address, arguments, ((base, count, whole),) = native(node, None)
    assert (base, count) == (0, whole) and whole == (rows if columns == 1 else columns)
    table = (ctypes.c_uint64 * len(arguments))(*arguments)
    want = [walk(SUM, np.ascontiguousarray(column)) for column in x.T]
    for _ in range(3):
        cuts = sorted({0, whole, *data.draw(st.lists(st.integers(0, whole), max_size=6))})
        pieces = data.draw(st.permutations(list(zip(cuts, cuts[1:], strict=False))))
        out[:] = 5
        for begin, end in pieces:
            ENTRY(address)(ctypes.addressof(table), begin, end - begin, whole)
        assert bits(out) == bits(want)


def test_each_builder_has_its_own_memory() -> None:
    node = eagle.reduce(np.ones(10_000), np.zeros(1))
    native = get_node_kind("reduce").native_entry
    assert native is not None
    first, second = native(node, None), native(node, None)
    assert first[0] == second[0] and first[1][:3] == second[1][:3] and first[1][4] != second[1][4]


# ---- refusals --------------------------------------------------------------------------------------------------------


def read_only() -> Array:
    a = np.zeros(1)
    a.flags.writeable = False
    return a


X, OUT = np.ones(6), np.zeros(1)


def on_device(shape: tuple[int, ...], at: int = FAKE, ordinal: int = 0) -> Producer:
    return Producer(at, shape=shape, device=(CUDA, ordinal))


@pytest.mark.parametrize(("given", "raised", "text"), [
    ({"op": "mean"}, ValueError, r"op: found 'mean', wanted one of \['all', 'max', 'min', 'sum'\]"),
    ({"op": ["sum"]}, ValueError, r"op: found \['sum'\]"), ({"op": None}, ValueError, "op: found None"),
    ({"policy": "fast"}, ValueError, r"policy: found 'fast', wanted one of \['auto', 'compensated', 'ordered'\]"),
    ({"policy": None}, ValueError, "policy: found None"),
    ({"op": "max", "policy": "fast"}, ValueError, "policy: found 'fast'"),
    ({"x": [1.0]}, TypeError, "x: "), ({"out": 1.0}, TypeError, "out: "), ({"comp": [1.0]}, TypeError, "comp: "),
    ({"x": np.ones(6, np.int16)}, TypeError, r"x: found int16, wanted one of \['float32', 'float64', 'int32', 'int64"),
    ({"x": np.ones(6, bool)}, TypeError, "x: found bool"), ({"op": "all"}, TypeError, r"x: found float64, wanted one "
                                                           r"of \['bool'\], which op='all' takes"),
    ({"out": np.zeros(1, np.float32)}, TypeError, "out: found float32, wanted float64, the dtype of x"),
    ({"comp": np.ones(6, np.float32)}, TypeError, "comp: found float32, wanted float64"),
    ({"op": "max", "comp": np.ones(6)}, TypeError, "comp: found companions of op='max' of float64, wanted a sum of"),
    ({"x": np.ones(6, int), "out": np.zeros(1, int), "comp": np.ones(6, int)}, TypeError, "comp: found companions of"),
    ({"x": np.ones((1, 2, 3))}, LayoutError, r"x: found shape \(1, 2, 3\), wanted \(n,\) or \(rows, N\)"),
    ({"x": np.array(1.0)}, LayoutError, r"x: found shape \(\)"),
    ({"x": np.ones(0)}, LayoutError, r"x: found shape \(0,\), which holds no samples"),
    ({"x": np.ones((0, 3)), "out": np.zeros(3)}, LayoutError, "x: found shape .*no samples"),
    ({"x": np.ones((3, 0)), "out": np.zeros(0)}, LayoutError, "x: found shape .*no samples"),
    ({"out": np.zeros(6)}, LayoutError, r"out: found shape \(6,\), wanted \(1,\) for x of shape \(6,\)"),
    ({"out": np.array(0.0)}, LayoutError, r"out: found shape \(\), wanted \(1,\)"),
    ({"x": np.ones((2, 3))}, LayoutError, r"out: found shape \(1,\), wanted \(3,\) for x of shape \(2, 3\)"),
    ({"comp": np.ones(5)}, LayoutError, r"comp: found shape \(5,\), wanted \(6,\), the shape of x"),
    ({"x": np.ones(12)[::2]}, BufferRefused, "x: numpy.*contiguous.*; pass a contiguous array"),
    ({"x": np.ones((3, 2)).T, "out": np.zeros(3)}, BufferRefused, "x: .*contiguous"),
    ({"comp": np.ones(12)[::2]}, BufferRefused, "comp: .*contiguous"),
    ({"x": np.ones((2, 6)), "out": np.zeros(12)[::2]}, BufferRefused, "out: .*contiguous"),
    ({"x": np.zeros(49, np.uint8)[1:].view(np.float64)}, BufferRefused, "x: .*align"),
    ({"out": read_only()}, BufferRefused, "out: .*read-only.*; pass an array that may be written"),
    ({"out": X[:1]}, BufferRefused, "out: found an array that shares memory with x, wanted one of its own"),
    ({"out": X[5:]}, BufferRefused, "out: found an array that shares memory with x"),
    ({"x": np.ones(6), "comp": X, "out": X[2:3]}, BufferRefused, "out: found an array that shares memory with comp"),
    ({"device": 1}, BufferRefused, "device: found 1, wanted 0, where the arrays are"),
    ({"device": "cpu"}, TypeError, "device: found 'cpu', wanted the ordinal"),
    ({"device": True}, TypeError, "device: found True"), ({"device": -1}, BufferRefused, "device: found -1"),
    ({"x": on_device((6,))}, TypeError, "out: found an array on the host, wanted an array on device 0 of cuda, as x"),
    ({"out": on_device((1,))}, TypeError, "out: found an array on device 0 of cuda, wanted an array on the host"),
    ({"x": on_device((6,)), "out": on_device((1,), FAKE - 64, 1)}, BufferRefused,
     "out: found an array on device 1 of cuda, wanted an array on device 0 of cuda"),
    ({"x": on_device((6,)), "out": on_device((1,), FAKE - 64), "device": 1}, BufferRefused, "device: found 1, wanted"),
    ({"x": on_device((6,)), "out": on_device((1,), FAKE - 64)}, BackendUnavailable,
     "x: found an array on device 0 of cuda, wanted host memory"),
])
def test_refusals(given: dict[str, Any], raised: type[Exception], text: str) -> None:
    call = {"x": X, "out": OUT, **given}
    with pytest.raises(raised, match=rf"^eagle\.reduce: {text}"):
        eagle.reduce(call.pop("x"), call.pop("out"), **call)
    assert X.tolist() == [1.0] * 6 and OUT.tolist() == [0.0]


def test_arrays_beside_each_other_do_not_overlap() -> None:
    memory = np.ones(8)
    eagle.reduce(memory[1:7], memory[:1])()
    eagle.reduce(memory[1:7], memory[7:])()
    assert memory.tolist() == [6.0, *[1.0] * 6, 6.0]
    assert reduced(np.arange(4.0), comp=np.zeros(4)).tolist() == [6.0]
    x = np.arange(4.0)
    assert reduced(x, comp=x).tolist() == [12.0]  # both are only read


def test_arrays_that_changed_since() -> None:
    x, out = np.ones(6), np.zeros(1)
    node = eagle.reduce(x, out)
    out.flags.writeable = False
    with pytest.raises(BufferRefused, match=r"^eagle\.reduce: out: found an array that became read-only"):
        node()
    out.flags.writeable = True
    node()
    x.resize(100_000, refcheck=False)
    with pytest.raises(BufferRefused, match=r"^eagle\.reduce: x: found an array that moved or changed"):
        node()
    assert out.tolist() == [6.0]


def test_names_that_do_not_exist() -> None:
    call: Any = eagle.reduce
    with pytest.raises(TypeError):
        call(X, OUT, "sum")
    with pytest.raises(TypeError):
        call(X, OUT, axis=0)
