# SPDX-License-Identifier: Apache-2.0
"""Inputs given broadcast over the lanes of a Grid, against NumPy: every door, every way to give an array."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import warnings
from typing import Any

import broadcast_kernels as kernels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagle
from eagle.errors import WARNED

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
CANARY = -1234.5
EDGE = 64
O58 = np.ones((5, 8))


@functools.cache
def deployed(kernel: Any) -> Any:
    return eagle.deploy(kernel)


class Fenced:
    """An output between canaries."""

    def __init__(self, shape: Shape, start: float = 0.0) -> None:
        self.all = np.full(math.prod(shape) + 2 * EDGE, CANARY)
        self.array = self.all[EDGE:-EDGE].reshape(shape)
        self.array[...] = start

    def check(self) -> None:
        assert (self.all[:EDGE] == CANARY).all() and (self.all[-EDGE:] == CANARY).all()


def full(head: Shape, lanes: Shape, axes: tuple[bool, ...], seed: int) -> Array:
    """Whole numbers, so that sums are exact in any order, that vary along `axes` of the lanes."""
    shape = (*head, *(extent if kept else 1 for extent, kept in zip(lanes, axes, strict=True)))
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(float)


def ways(array: Array, head: Shape, lanes: Shape, door: str) -> list[str]:
    """The ways to give `array`, which is `head` and as many axes as there are lanes."""
    lane = array.shape[len(head):]
    found = ["array"]
    if lane[0] == 1 and len(lane) > 1:
        found.append("fewer axes")
    if lane == lanes and array.ndim > len(head) + 1 and len(head) < 2:
        found.append("flat")
    if not head and set(lane) == {1}:
        found += ["number", "0-d"]
    if door != "bind":
        found += ["strided", "float32", "integers"] + ["list"] * (array.size > 0)
    return found


def give(array: Array, head: Shape, way: str) -> Any:
    """`array` in one of these ways, without a copy where the way allows."""
    lane = array.shape[len(head):]
    if way == "fewer axes":
        while len(lane) > 0 and lane[0] == 1 and (head or len(lane) > 1):
            lane = lane[1:]
        return array.reshape(head + lane)
    if way == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2]
    return {"array": array, "flat": array.reshape(*head, -1) if array.size else array, "number": array.sum().item(),
            "0-d": array.reshape(-1)[:1].reshape(()) if array.size else array, "float32": array.astype(np.float32),
            "integers": array.astype(np.int32), "list": array.tolist()}[way]


def rows_told(inputs: dict[str, Any], heads: dict[str, Shape], lanes: Shape) -> int | None:
    """The rows as the inputs say, the largest first; None where they say nothing."""
    strong, one = [], False
    for name, value in inputs.items():
        lane = np.shape(value)[len(heads[name]):]
        if len(lane) == len(lanes):
            rows = lane[0]
        elif lane in ((math.prod(lanes),), (math.prod(lanes[1:]),)):
            rows = lane[0] // math.prod(lanes[1:])
        else:
            continue
        one |= rows == 1
        strong += [rows] if rows != 1 else []
    return max(strong) if strong else 1 if one else None


@contextlib.contextmanager
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eagle.PerformanceWarning)
        yield


Y, N = True, False
TWO = [(a, b) for a in (Y, N) for b in (Y, N)]
# Each pattern is compiled once: these have every pattern of every input.
THREE = [
    {"x": (Y, Y, Y), "v": (N, N, N), "m": (Y, N, Y)}, {"x": (N, Y, N), "v": (N, N, Y), "m": (N, N, N)},
    {"x": (Y, N, N), "v": (N, Y, N), "m": (Y, Y, Y)}, {"x": (N, N, Y), "v": (N, Y, Y), "m": (Y, N, N)},
    {"x": (Y, N, Y), "v": (Y, Y, Y), "m": (N, Y, Y)}, {"x": (N, Y, Y), "v": (N, Y, Y), "m": (N, Y, N)},
    {"x": (Y, Y, N), "v": (N, N, N), "m": (Y, Y, N)}, {"x": (N, N, N), "v": (N, N, N), "m": (N, N, Y)},
]
DECLARED = [*THREE, {"x": (N, Y, N), "v": (Y, N, N), "m": (N, N, Y)}, {"x": (Y, N, N), "v": (Y, N, Y), "m": (N, Y, N)}]

Case = tuple[Any, Shape, dict[str, Shape], dict[str, tuple[bool, ...]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A kernel, its lanes, and the heads and axes of its inputs."""
    which = draw(st.sampled_from(["one", "two", "static", "three", "declared"]))
    rows = draw(st.integers(0, 6))
    kernel = getattr(kernels, which)
    if which in ("three", "declared"):
        heads: dict[str, Shape] = {"x": (), "v": (2,), "m": draw(st.sampled_from([(4,), (2, 2)]))}
        lanes = (rows if which == "three" else 2, 3, 4)
        return kernel, lanes, heads, draw(st.sampled_from(THREE if which == "three" else DECLARED))
    lanes = {"one": (rows,), "two": (rows, 8), "static": (4, 8)}[which]
    kept = st.sampled_from([axes[:len(lanes)] for axes in TWO])
    return kernel, lanes, {"x": (), "b": ()}, {"x": draw(kept), "b": draw(kept)}


def expected(inputs: dict[str, Array], lanes: Shape) -> Array:
    if "b" in inputs:
        return np.broadcast_to(inputs["x"] * inputs["b"], lanes)
    x, v = inputs["x"], inputs["v"]
    m = inputs["m"].reshape(2, 2, *inputs["m"].shape[-3:])
    return np.broadcast_to(x * v[0] + v[1] * m[1, 0] - m[0, 1], lanes)


@settings(max_examples=400, deadline=None)
@given(case=cases(), door=st.sampled_from(["run", "call", "bind"]), seed=st.integers(0, 99), data=st.data())
def test_numpy_says_what_broadcasting_is(case: Case, door: str, seed: int, data: st.DataObject) -> None:
    kernel, lanes, heads, axes = case
    plan = deployed(kernel)
    label = {"one": "row", "two": "row", "three": "a"}.get(kernel.name)
    inputs = {name: full(heads[name], lanes, axes[name], seed + i) for i, name in enumerate(axes)}
    values = {name: give(array, heads[name], data.draw(st.sampled_from(ways(array, heads[name], lanes, door))))
              for name, array in inputs.items()}
    told = rows_told(values, heads, lanes) == lanes[0] or label is None
    extra: dict[str, Any] = {}
    if label and lanes[0] and (not told or data.draw(st.booleans())) and data.draw(st.booleans()):
        extra[label], told = lanes[0], True
    fenced = Fenced(data.draw(st.sampled_from([lanes, (math.prod(lanes),)])), 7.0)
    if not told or door == "bind" or data.draw(st.booleans()):
        extra["y"] = fenced.array
    wanted = expected(inputs, lanes)
    if door == "bind":
        bound = plan.bind(**values, **extra)
        assert all(bound.planes[name] is value for name, value in values.items())
        assert bound.planes["y"] is fenced.array and bound.n == math.prod(lanes)
        bound.launch()
        fenced.check()
        assert fenced.array.reshape(lanes).tobytes() == wanted.tobytes()
        changing = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        for value in changing.values():  # a launch sees it
            value += 1.0
        assert all(np.shares_memory(value, inputs[name]) or value.size == 0 for name, value in changing.items())
        bound.launch()
        assert fenced.array.reshape(lanes).tobytes() == expected(inputs, lanes).tobytes()
        others = {name: full(heads[name], lanes, axes[name], seed + 7) for name in inputs}
        name = data.draw(st.sampled_from(sorted(inputs)))
        bound.rebind(**{name: others[name]}).launch()
        assert bound.planes[name] is others[name]
        assert fenced.array.reshape(lanes).tobytes() == expected(inputs | {name: others[name]}, lanes).tobytes()
    else:
        with quiet():
            found = plan.run(**values, **extra) if door == "run" else plan(**values, **extra)
        assert found is fenced.array if "y" in extra else found.shape == lanes
        assert found.reshape(lanes).tobytes() == wanted.tobytes()
    fenced.check()


@st.composite
def derived(draw: st.DrawFn) -> Case:
    if draw(st.booleans()):
        kept = st.sampled_from(TWO)
        return (kernels.two_vjp, (draw(st.integers(0, 6)), 8), {"x": (), "b": ()}, {"x": draw(kept), "b": draw(kept)})
    return kernels.three_vjp, (draw(st.integers(0, 6)), 3, 4), {"x": (), "v": (2,), "m": (2, 2)}, draw(
        st.sampled_from(THREE))


def pulled_back(inputs: dict[str, Array], seeds: Array) -> dict[str, Array]:
    """What each input would have to change by, summed over the lanes along which it does not vary."""
    zero = np.zeros(seeds.shape)
    x = inputs["x"]
    if "b" in inputs:
        each = {"x": seeds * inputs["b"], "b": seeds * x}
    else:
        v, m = inputs["v"], inputs["m"]
        each = {"x": seeds * v[0], "v": np.stack([zero + seeds * x, zero + seeds * m[1, 0]]),
                "m": np.stack([np.stack([zero, -seeds]), np.stack([zero + seeds * v[1], zero])])}
    return {name: np.asarray(sum_to(value, inputs[name].shape)) for name, value in each.items()}


def sum_to(value: Array, shape: Shape) -> Array:
    for axis, extent in enumerate(shape):
        if extent == 1 and value.shape[axis] != 1:
            value = value.sum(axis=axis, keepdims=True)
    return value.reshape(shape)


@settings(max_examples=250, deadline=None)
@given(case=derived(), door=st.sampled_from(["run", "call", "bind"]), seed=st.integers(0, 99), data=st.data())
def test_gradients_have_the_shape_of_their_inputs(case: Case, door: str, seed: int, data: st.DataObject) -> None:
    kernel, lanes, heads, axes = case
    inputs = {name: full(heads[name], lanes, axes[name], seed + i) for i, name in enumerate(axes)}
    values = {name: give(array, heads[name], data.draw(st.sampled_from(ways(array, heads[name], lanes, door))))
              for name, array in inputs.items()}
    seeds = full((), lanes, (True,) * len(lanes), seed + 9)
    planes = values | {"bar_y": seeds}
    wanted = pulled_back(inputs, seeds)
    fences: dict[str, Fenced] = {}
    for name, array in inputs.items():
        if door == "bind" or data.draw(st.booleans()):
            shapes = [np.shape(values[name]), array.shape]
            if array.shape[len(heads[name]):] != lanes:
                shapes += [(array.size,)]
            fences[f"bar_{name}"] = Fenced(data.draw(st.sampled_from(shapes)))
    given_out = {name: fence.array for name, fence in fences.items()}
    if door == "bind":
        bound = deployed(kernel).bind(**planes, **given_out)
        bound.launch()
        found = given_out
        assert all(bound.planes[name] is array for name, array in given_out.items())
    else:
        with quiet():
            plan = deployed(kernel)
            found = plan.run(**planes, **given_out) if door == "run" else plan(**planes, **given_out)
    for name in inputs:
        gradient = found[f"bar_{name}"]
        if f"bar_{name}" in fences:
            assert gradient is given_out[f"bar_{name}"]
            fences[f"bar_{name}"].check()
        elif inputs[name].shape[len(heads[name]):] != lanes:
            assert gradient.shape == np.shape(values[name])
        assert (gradient.reshape(inputs[name].shape) == wanted[name]).all()


SHAPES = [(), (0,), (1,), (4,), (5,), (8,), (32,), (40,), (0, 1), (0, 8), (1, 1), (1, 8), (4, 1), (4, 8), (5, 1),
          (5, 4), (5, 8), (8, 1), (8, 5), (8, 8), (1, 5, 8), (5, 8, 1), (5, 1, 8)]


def test_every_triple_of_shapes_is_right_or_refused() -> None:
    plan = deployed(kernels.two)

    def fits(shape: Shape, lanes: Shape) -> bool:
        return shape == (math.prod(lanes),) or len(shape) <= 2 and all(
            found in (1, extent) for found, extent in zip(shape[::-1], lanes[::-1], strict=False))

    for x, b, y in itertools.product(SHAPES, repeat=3):
        fenced = Fenced(y)
        lanes = (fenced.array.size // 8, 8)
        right = y in (lanes, (math.prod(lanes),)) and fits(x, lanes) and fits(b, lanes)
        with contextlib.nullcontext() if right else pytest.raises(eagle.LayoutError, match=r"two\.run: "):
            plan.run(x=np.ones(x), b=np.ones(b), y=fenced.array)
        assert (fenced.array == right).all()
        fenced.check()


# ---- the first extent ------------------------------------------------------------------------------------------------


class Five:
    def __index__(self) -> int:
        return 5

    def __repr__(self) -> str:  # in the name of a test, which is the same in each process
        return "Five()"


@pytest.mark.parametrize(("given_planes", "rows"), [
    ({"x": np.ones(40), "b": np.ones((1, 1))}, 5), ({"x": np.ones(40), "b": np.ones(8)}, 5),
    ({"x": np.ones((1, 8)), "b": 2.0}, 1), ({"x": np.ones(8), "b": 2.0}, 1), ({"x": np.ones(8), "b": np.ones(8)}, 1),
    ({"x": 2.0, "b": 2.0, "row": 3}, 3), ({"x": np.ones((1, 8)), "b": 2.0, "row": Five()}, 5),
    ({"x": 2.0, "b": np.ones(8), "y": np.ones((2, 8))}, 2), ({"x": 2.0, "b": np.ones(8), "y": np.ones(16)}, 2),
    ({"x": np.ones((0, 8)), "b": np.ones(8)}, 0), ({"x": np.ones(0), "b": np.ones((1, 8))}, 0),
    ({"x": np.ones((1, 1)), "b": 1.0}, 1), ({"x": np.float64(2.0), "b": np.ones((6, 1))}, 6)], ids=str)
def test_what_tells_the_rows(given_planes: dict[str, Any], rows: int) -> None:
    plan = deployed(kernels.two)
    for found in (plan.run(**given_planes), plan(**given_planes)):
        assert found.size == rows * 8
        assert (found == np.max(given_planes["b"]) * np.max(given_planes["x"], initial=0)).all()


def test_a_mask_and_a_sink_tell_the_rows() -> None:
    found = deployed(kernels.skipping).run(x=np.arange(8.0), done=np.zeros((5, 8), bool))
    assert (found == np.broadcast_to(np.arange(8.0) * 2, (5, 8))).all()
    out = np.zeros(5)
    assert deployed(kernels.sums).run(x=np.ones((1, 8)), b=np.ones(8), out=out) is out and (out == 8).all()


@pytest.mark.parametrize(("planes", "facts"), [
    ({"x": O58, "b": np.full((4, 1), 7.0)}, ["'b'", "(4, 1)", "(5, 8)", "'x'"]),
    ({"x": np.ones(40), "b": np.ones((4, 1))}, ["'b'", "(4, 1)", "(5, 8)"]),
    ({"x": O58, "b": np.ones((1, 5, 8))}, ["'b'", "(1, 5, 8)", "(5, 8)"]),
    ({"x": O58, "b": 1.0, "row": 4}, ["'x'", "(5, 8)", "(4, 8)", "row=4"]),
    ({"x": np.ones(8), "b": np.ones(5)}, ["'b'", "(5,)", "(1, 8)"]),
    ({"x": np.ones(36), "b": 1.0}, ["'x'", "(36,)", "(row, 8)"]),
    ({"x": 1.0, "b": 1.0}, ["none that tells", "row=..."]),
    ({"x": O58, "b": np.ones((4, 1)), "y": O58.copy()}, ["'b'", "(4, 1)", "(5, 8)"]),
    ({"x": O58, "b": 1.0, "y": np.ones((1, 8))}, ["'y'", "8 samples", "40"]),
    ({"x": 1.0, "b": 1.0, "y": np.ones((5, 1))}, ["'y'", "(5, 1)", "'row', 'col': 8"]),
    ({"x": 1.0, "b": 1.0, "row": 2**31}, ["(2147483648, 8)", "4294967295"])], ids=str)
def test_what_does_not_broadcast(planes: dict[str, Any], facts: list[str]) -> None:
    plan = deployed(kernels.two)
    for door in (plan.run, plan, plan.bind) if "y" in planes else (plan.run, plan):
        with pytest.raises(eagle.LayoutError) as caught:
            door(**planes)
        assert all(fact in str(caught.value) for fact in facts), str(caught.value)


def test_broadcasts_the_kernel_has_no_variant_for() -> None:
    with pytest.raises(eagle.LayoutError, match=r"inputs \['v'\]: found a broadcast .*np.broadcast_to"):
        deployed(kernels.vectors).run(x=O58, v=np.ones((2, 5, 1)))
    with pytest.raises(eagle.LayoutError, match=r"inputs \['b'\]: found a broadcast .*np.broadcast_to"):
        deployed(kernels.shifted).run(x=O58, b=np.ones(8), i=np.zeros(40, int))
    with pytest.raises(TypeError, match="'v': found the number"):
        deployed(kernels.vectors).run(x=O58, v=2.0)
    assert (deployed(kernels.vectors).run(x=O58, v=np.array([1.0, 3.0])) == np.array([1.0, 3.0])[:, None, None]).all()


# ---- values ----------------------------------------------------------------------------------------------------------


def test_run_converts_what_bind_refuses() -> None:
    plan, x = deployed(kernels.two), np.arange(40.0).reshape(5, 8)
    strided = np.arange(16.0)[::2]
    for b, text in ((strided, "not C-contiguous"), (np.arange(8, dtype=np.float32), "float32")):
        for door in (plan.run, plan):
            WARNED.clear()
            with pytest.warns(eagle.PerformanceWarning, match=f"'b' is {text}"):
                assert (door(x=x, b=b) == x * b).all()
    for b in ([1.0, 10.0, 100.0, 1.0, 2.0, 3.0, 4.0, 5.0], [[2.0]] * 5, [3], np.arange(8), np.arange(5)[:, None]):
        for door in (plan.run, plan):
            assert (door(x=x, b=b) == x * np.asarray(b)).all()
    for b, error, text in ((strided, eagle.BufferRefused, "strides"), ([1.0] * 8, TypeError, "builtins.list"),
                           (np.arange(8), eagle.BufferRefused, "int64"),
                           (np.ones(8, np.float32), eagle.BufferRefused, "float32")):
        with pytest.raises(error, match=f"two.bind: Scalar 'b': found .*{text}"):
            plan.bind(x=x, b=b, y=np.zeros((5, 8)))
    for b, error in ((True, ValueError), (1j, TypeError), ("2", TypeError), (np.ones(8, bool), ValueError),
                     (np.ma.ones(8), TypeError), ([1.0, [2.0]], TypeError), (None, TypeError)):
        for door in (plan.run, plan):
            with pytest.raises(error, match="'b'"):
                door(x=x, b=b)


def test_integers_are_exact() -> None:
    plan, x = deployed(kernels.whole), np.ones(40)
    i, k = np.arange(8, dtype=np.int16), np.arange(5)[:, None]
    assert (plan(x, i, k) == 1.0 + i * k).all() and (plan(x, 2, -3) == -5.0).all()
    for wrong in (2**31, 2.5, True):
        with pytest.raises(ValueError, match="'k'"):
            plan(x, 2, wrong)


# ---- bound plans -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_a_launch_sees_one_cell_change(shape: Shape) -> None:
    b, y = np.full(shape, 2.0), np.zeros((5, 8))
    bound = deployed(kernels.two).bind(x=O58, b=b, y=y)
    assert bound.planes["b"] is b and bound.names == ("y", "x", "b")
    b[...] = 3.0
    bound.launch()
    assert (y == 3).all()
    bound.rebind(b=4.0).launch()
    assert (y == 4).all() and bound.planes["b"] == 4.0


def test_a_launch_looks_at_the_caller_s_own_arrays() -> None:
    for name, shape in (("b", (1, 8)), ("x", (5, 8)), ("bar_b", (1, 8)), ("bar_x", (5, 8))):
        planes = {"x": np.ones((5, 8)), "b": np.ones((1, 8)), "bar_y": O58, "bar_x": np.zeros((5, 8)),
                  "bar_b": np.zeros((1, 8))}
        bound = deployed(kernels.two_vjp).bind(**planes)
        bound.launch()
        planes[name].resize((4096,), refcheck=False)
        with pytest.raises(eagle.BufferRefused, match=f"launch: .*{name!r}: found an array that moved"):
            bound.launch()
        bound.rebind(**{name: np.ones(shape)}).launch()


def test_a_copy_of_narrower_integers_stays_as_it_was_bound() -> None:
    i, k, y = np.arange(8, dtype=np.int16), np.array([[3]], np.int8), np.zeros(40)
    bound = deployed(kernels.whole).bind(x=O58, i=i, k=k, y=y)
    i[:] = 0
    k[:] = 0
    bound.rebind(x=O58 + 1).launch()
    assert (y.reshape(5, 8) == 2 + 3 * np.arange(8)).all()
    assert bound.planes["i"].shape == (8,) and bound.planes["k"].shape == (1, 1)


def test_a_refused_rebind_changes_nothing() -> None:
    b, y = np.arange(8.0), np.zeros((5, 8))
    bound = deployed(kernels.two).bind(x=O58, b=b, y=y)
    for wrong, error in ((np.ones((5, 1)), "'b'.*other lane axes"), (np.ones(7), "'b'.*(7,)"), (O58, "'b'.*other"),
                         (np.ones(8, np.float32), "'b'.*float32"), (2.0, "'b'.*other lane axes")):
        with pytest.raises(ValueError, match=f"two.rebind: .*{error}"):
            bound.rebind(b=wrong)
        with pytest.raises(ValueError, match="two.rebind: .*'y'"):
            bound.rebind(b=-b, y=np.zeros(8))
        assert bound.planes["b"] is b and bound.planes["y"] is y
        y[...] = 0.0
        bound.launch()
        assert (y == b).all()
    bound.rebind(x=np.full(40, 2.0)).rebind(b=-b[None]).launch()
    assert (y == -2 * b).all()


def test_clear_and_rebind_a_gradient() -> None:
    x, b, first, second = O58, np.arange(8.0)[None], np.zeros((1, 8)), np.zeros(8)
    bound = deployed(kernels.two_vjp).bind(x=x, b=b, bar_y=O58, bar_x=np.zeros(40), bar_b=first)
    bound.launch()
    bound.launch()  # a sum goes on
    assert (first == 10).all()
    bound.clear("bar_b")
    assert (first == 0).all()
    bound.rebind(bar_b=second).launch()
    assert (second == 5).all() and (first == 0).all() and bound.planes["bar_b"] is second


# ---- derivatives -----------------------------------------------------------------------------------------------------


def test_gradients_that_do_not_fit() -> None:
    plan = deployed(kernels.two_vjp)
    planes = {"x": O58, "b": np.ones((1, 8)), "bar_y": O58}
    for wrong in ((5, 8), (40,), (1, 1), (), (7,), (9,), (8, 1), (5, 1), (1, 1, 8)):
        fenced = Fenced(wrong)
        with pytest.raises(eagle.LayoutError, match="'bar_b'"):
            plan.run(**planes, bar_b=fenced.array)
        assert (fenced.array == 0).all()
        fenced.check()
    read_only = np.zeros(8)
    read_only.flags.writeable = False
    for wrong, text in ((read_only, "read-only"), (np.zeros(8, np.float32), "float32"), (np.zeros(16)[::2], "strides")):
        with pytest.raises(eagle.BufferRefused, match=f"'bar_b': found .*{text}"):
            plan.run(**planes, bar_b=wrong)
    with pytest.raises(eagle.LayoutError, match="'bar_y': found 8 samples, wanted 40"):
        plan.run(**planes | {"bar_y": np.ones((1, 8))})


def test_an_input_that_a_derivative_does_not_read_tells_the_shape() -> None:
    seeds = np.arange(40.0).reshape(5, 8)
    plan = deployed(kernels.added_vjp)
    found = plan(bar_y=seeds, x=O58, b=np.ones(8))
    assert found["bar_b"].shape == (8,) and (found["bar_b"] == seeds.sum(0)).all() and (found["bar_x"] == seeds).all()
    bar_b = np.zeros((5, 1))
    assert plan.run(bar_y=seeds, bar_b=bar_b)["bar_b"] is bar_b and (bar_b == seeds.sum(1, keepdims=True)).all()
    bound = plan.bind(bar_y=seeds, b=np.ones((5, 1)), bar_x=np.zeros(40), bar_b=(compact := np.zeros(5)))
    bound.launch()
    bound.rebind(bar_x=np.zeros((5, 8)))
    assert (compact == seeds.sum(1)).all()


def test_tangents_vary_as_their_inputs() -> None:
    x, b, dot_b = np.arange(40.0).reshape(5, 8), np.arange(8.0), np.arange(8.0)[None] + 1
    plan = deployed(kernels.two_jvp)
    assert (plan(x=x, b=b, dot_x=O58, dot_b=dot_b) == b + x * dot_b).all()
    assert (plan(x=x, b=2.0, dot_x=O58, dot_b=3.0) == 2.0 + 3 * x).all()
    with pytest.raises(eagle.LayoutError, match=r"'dot_b': found shape \(5, 8\), wanted shape \(1, 8\), as 'b'"):
        plan(x=x, b=b, dot_x=O58, dot_b=O58)


def test_reductions_of_broadcast_inputs() -> None:
    x, b = np.arange(40.0).reshape(5, 8), np.arange(5.0)[:, None]
    assert (deployed(kernels.sums)(x, b) == (x * b).sum(1)).all()
    shares = deployed(kernels.share)(x, b + 1)
    assert (shares == x * (b + 1) / (x * (b + 1)).sum(1, keepdims=True)).all()
