# SPDX-License-Identifier: Apache-2.0
"""Planes in the caller's own memory order: read, written back and refused, against NumPy."""

from __future__ import annotations

import os
import threading
import tracemalloc
import warnings
from types import SimpleNamespace
from typing import Any

import hawk
import kernels
import layout_kernels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagle
import eagle.exec
from eagle import BufferRefused, LayoutError, LayoutWarning, samples_first, samples_last
from eagle.errors import WARNED

HEADS = {"p": (3,), "m": (2, 3), "q": (4,), "vector": (3,), "matrix": (2, 3), "quat": (4,)}
INPUTS, OUTPUTS = ("p", "m", "q"), ("vector", "matrix", "quat")
V = np.arange(21.0).reshape(7, 3)


def native(values: np.ndarray[Any, Any], samples: str, order: str, flat: bool) -> np.ndarray[Any, Any]:
    """An array with the elements of `values`, (N, *head), in a shape and memory order of their own."""
    if flat:
        values = values.reshape(len(values), int(np.prod(values.shape[1:])))
    if samples == "last":
        values = np.moveaxis(values, 0, -1)
    if order == "C":
        return np.array(values, order="C")
    if order == "turned":  # of contiguous memory whose samples are at the other end
        axes = (0, -1) if samples == "last" else (-1, 0)
        return np.moveaxis(np.array(np.moveaxis(values, *axes), order="C"), *axes[::-1])
    wide = np.full((*values.shape[:-1], 2 * values.shape[-1] + 1), np.nan, values.dtype)
    view = wide[..., 1::2] if order == "strided" else wide[..., ::-2][..., :values.shape[-1]]
    view[...] = values
    return view


def copied(array: np.ndarray[Any, Any], samples: str) -> bool:
    return samples == "first" and not np.moveaxis(array, 0, -1).flags.c_contiguous


@st.composite
def planes(draw: st.DrawFn, name: str, n: int, written: bool) -> tuple[np.ndarray[Any, Any], str, bool]:
    """An array of a plane, which axis has its samples, and whether it is marked so."""
    samples = draw(st.sampled_from(["first", "last"]))
    head = HEADS[name]
    orders = ["C"] if written and samples == "last" else ["C", "turned", "strided", "backwards"]
    order = draw(st.sampled_from(orders))
    values = np.random.default_rng(draw(st.integers(0, 9))).normal(size=(n, *head))
    array = native(values, samples, order, len(head) == 1 or draw(st.booleans()))
    return array, samples, draw(st.booleans())


def is_open(array: np.ndarray[Any, Any], name: str) -> bool:
    """Whether the shape reads both ways."""
    heads = (HEADS[name], (int(np.prod(HEADS[name])),))
    return any(array.shape[:-1] == head == array.shape[1:] for head in heads)


@pytest.mark.smoke
@settings(max_examples=300, deadline=None)
@given(data=st.data(), n=st.integers(0, 9) | st.sampled_from([259, 20_001]), parts=st.integers(1, 4))
def test_any_layout_equals_component_major(data: st.DataObject, n: int, parts: int) -> None:
    WARNED.clear()
    plan = eagle.deploy(kernels.shapes, npartitions=parts)
    s = np.linspace(0.5, 2.0, n)
    drawn = {name: data.draw(planes(name, n, name in OUTPUTS)) for name in (*INPUTS, *OUTPUTS)}
    layout = data.draw(st.sampled_from([None, "samples_first", "samples_last"]))
    marks = {"first": samples_first, "last": samples_last}
    call = {name: marks[samples](array) if marked else array for name, (array, samples, marked) in drawn.items()}
    untold = {name for name, (array, samples, marked) in drawn.items() if is_open(array, name) and not marked
              and layout != f"samples_{samples}"}
    before = {name: array.copy() for name, (array, _, _) in drawn.items()}
    door = data.draw(st.sampled_from(["run", "call", "bind"]))
    strided = [name for name, (array, samples, _) in drawn.items()
               if samples == "last" and not array.flags.c_contiguous and array.size]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if untold or (door == "bind" and strided):
            if untold and layout is not None:
                return  # read the other way: a shape error of other planes, or another result
            with pytest.raises((LayoutError, BufferRefused), match=r"reads as component-major|strides"):
                (plan.bind if door == "bind" else plan.run)(s=s, a=2.0, layout=layout, scalar=np.empty(n), **call)
            assert all(array.tobytes() == before[name].tobytes() for name, (array, _, _) in drawn.items())
            return
        if door == "bind":
            plan.bind(s=s, a=2.0, layout=layout, scalar=np.empty(n), **call).launch()
        else:
            got = (plan.run if door == "run" else plan)(s=s, a=2.0, layout=layout, **call)
            assert all(got[name] is drawn[name][0] for name in OUTPUTS)
    told = {str(w.message).split("'")[1] for w in caught if w.category is LayoutWarning}
    assert told == {name for name, (array, samples, _) in drawn.items() if copied(array, samples)}
    with np.errstate(all="ignore"):
        for name, out, factor in (("p", "vector", 2.0), ("m", "matrix", s), ("q", "quat", s)):
            values = np.moveaxis(drawn[name][0], 0, -1) if drawn[name][1] == "first" else drawn[name][0]
            result = np.moveaxis(drawn[out][0], 0, -1) if drawn[out][1] == "first" else drawn[out][0]
            width = int(np.prod(HEADS[name]))
            expected = values.reshape(width, n) * factor
            assert result.reshape(width, n).tobytes() == expected.tobytes()
    for name in INPUTS:
        assert drawn[name][0].tobytes() == before[name].tobytes()


def test_a_transpose_is_bound_as_it_is() -> None:
    v, x = np.arange(21.0).reshape(3, 7), np.zeros((3, 7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert eagle.deploy(kernels.advance).run(v=v.T, dt=2.0, x=x.T).base is x
        bound = eagle.deploy(kernels.advance).bind(v=v.T, dt=2.0, x=x.T)
    bound.launch()
    assert (x == 4.0 * v).all()
    assert np.shares_memory(bound.planes["x"], x) and bound.planes["x"].shape == (3, 7)  # the native view


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
@pytest.mark.smoke
def test_a_bound_copy_is_refreshed_and_written_back() -> None:
    v, x = V.copy(), np.ones((7, 3))
    bound = eagle.deploy(kernels.advance).bind(v=v, dt=2.0, x=x)
    bound.launch()
    assert (x == 1.0 + 2.0 * V).all()
    v[:] = 1.0
    x[2] = 100.0
    expected = x + 2.0
    bound.launch()
    assert x.tobytes() == expected.tobytes()
    bound.clear("x")
    assert (x == 0.0).all()
    bound.launch()
    assert (x == 2.0).all()
    other = np.zeros((7, 3))
    bound.rebind(x=other, dt=3.0).launch()
    assert (other == 3.0).all() and (x == 2.0).all()
    bound.rebind(v=np.ones((3, 7))).launch()  # component-major from now on
    assert (other == 6.0).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_what_a_kernel_skips_keeps_its_value() -> None:
    """An output that is not wholly written is copied in as well."""
    x, y, done = np.zeros((4, 2)), np.full((4, 2), 7.0), np.array([True, False] * 2)
    v = np.arange(8.0).reshape(4, 2)
    call: dict[str, Any] = {"v": v, "limit": np.full(4, 100.0), "terminated": done}
    approach = eagle.deploy(layout_kernels.approach)
    for act in (lambda: approach.run(x=x, y=y, **call), approach.bind(x=x, y=y, **call).launch):
        x[:], y[:] = 0.0, 7.0
        act()
        assert x.tolist() == [[0.0, 0.0], [2.0, 3.0], [0.0, 0.0], [6.0, 7.0]]
        assert y.tolist() == [[7.0, 7.0], [4.0, 6.0], [7.0, 7.0], [12.0, 14.0]]


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_columns_of_one_array() -> None:
    """Positions and velocities side by side in one (N, 6) array do not overlap; the same columns do."""
    state = np.arange(42.0).reshape(7, 6)
    expected = state.copy()
    expected[:, :3] += 0.5 * expected[:, 3:]
    advance = eagle.deploy(kernels.advance)
    advance.run(x=state[:, :3], v=state[:, 3:], dt=0.5)
    assert state.tobytes() == expected.tobytes()
    bound = advance.bind(x=state[:, :3], v=state[:, 3:], dt=0.5)
    expected[:, :3] += 0.5 * expected[:, 3:]
    bound.launch()
    assert state.tobytes() == expected.tobytes()
    for door in (advance.run, advance.bind):
        with pytest.raises(BufferRefused, match="'x' and Vector 'v': found arrays that share memory, one of them"):
            door(x=state[:, :3], v=state[:, 2:5], dt=0.5)
    assert state.tobytes() == expected.tobytes()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_written_plane_whose_elements_share_memory() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(20), (7, 3), (8, 8))
    for door in (eagle.deploy(kernels.advance).run, eagle.deploy(kernels.advance).bind):
        with pytest.raises(BufferRefused, match=r"'x': found strides \(8, 8\) for shape \(7, 3\), whose el"):
            door(v=V, x=x, dt=1.0)
    assert (x == 0.0).all()
    x = np.ones((7, 3))
    eagle.deploy(kernels.advance).run(v=np.broadcast_to(np.array([1.0, 2.0, 3.0]), (7, 3)), x=x, dt=1.0)
    assert (x == [2.0, 3.0, 4.0]).all()  # reading such a one is no harm


def test_warned_once_a_line_and_argument() -> None:
    advance = eagle.deploy(kernels.advance)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (7, 8, 9):
            advance.run(v=np.ones((n, 3)), x=np.ones((n, 3)), dt=1.0)
        advance.run(v=np.ones((7, 3)), dt=1.0)
    assert [w.category for w in caught] == [LayoutWarning] * 3
    assert all(w.filename == __file__ for w in caught)
    first = str(caught[0].message)
    for fact in ("advance.run: ", "'", "(7, 3)", "(3, 7)", "zero-copy is lost", "np."):
        assert fact in first
    assert issubclass(LayoutWarning, UserWarning)


def test_an_error_comes_before_any_copy_and_is_not_recorded() -> None:
    advance, x = eagle.deploy(kernels.advance), np.ones((7, 3))
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=LayoutWarning)
            for door in (advance.run, advance, advance.bind):
                with pytest.raises(LayoutWarning):
                    door(v=np.ones((3, 7)), x=x, dt=1.0)
    assert (x == 1.0).all()


def test_empty_planes_need_no_copy() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert eagle.deploy(kernels.advance).run(v=np.zeros((0, 3)), x=np.zeros((0, 3)), dt=1.0).shape == (0, 3)


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_precision_is_copied(dtype: type) -> None:
    n = 700  # more than one tile
    v, x = np.arange(3.0 * n, dtype=dtype).reshape(n, 3), np.ones((n, 3), dtype)
    advance = eagle.deploy(kernels.advance, scalar_type=np.dtype(dtype).name)
    advance.run(v=v, x=x, dt=0.5)
    assert x.tobytes() == (1 + v * dtype(0.5)).tobytes()
    advance.bind(v=v, x=x, dt=0.5).launch()
    assert x.tobytes() == (1 + v * dtype(0.5) + v * dtype(0.5)).tobytes()


def test_a_square_that_is_read_both_ways_at_once() -> None:
    """Sample i of one is not sample i of the other, so it is no array of both."""
    a = np.ones((3, 3))
    for door in (eagle.deploy(kernels.advance).run, eagle.deploy(kernels.advance).bind):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LayoutWarning)
            with pytest.raises(BufferRefused, match="arrays that share memory, one of them written"):
                door(v=samples_last(a), x=samples_first(a), dt=1.0)
    assert (a == 1.0).all()


def test_a_rebind_warns_of_what_it_changes() -> None:
    with pytest.warns(LayoutWarning):
        bound = eagle.deploy(kernels.advance).bind(v=V, x=np.ones((7, 3)), dt=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound.rebind(dt=2.0).launch()
        bound.rebind(v=np.ones((3, 7)))
        with pytest.raises(LayoutWarning, match="Mutable 'x'"):
            bound.rebind(x=np.ones((7, 3)))


def test_what_is_warned_of_is_told_by_argument_and_line() -> None:
    """An error of a filter is not counted, and a filter for some lines, modules or texts is heeded."""
    advance, x = eagle.deploy(kernels.advance), np.ones((7, 3))

    def run() -> None:
        advance.run(v=V, x=x, dt=1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(LayoutWarning):
                run()
    with pytest.warns(LayoutWarning):
        run()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("error", message="nothing of the kind")
        warnings.filterwarnings("error", module="elsewhere")
        warnings.filterwarnings("error", category=eagle.PerformanceWarning)
        run()
        warnings.filterwarnings("error", message=".*zero-copy is lost", module=__name__)
        with pytest.raises(LayoutWarning):
            run()
    assert (x == 1.0 + 2 * V).all()


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_vectors_of_one_component(n: int) -> None:
    """(n, 1) and (1, n) are the same memory; (1,) is one sample, (1, 1) a batch of one."""
    single = eagle.deploy(layout_kernels.single)
    v = np.arange(float(n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert single.run(v=v[:, None], a=2.0).tolist() == single.run(v=v[None], a=2.0).tolist() == [(v * 2).tolist()]
        assert single.run(v=np.ones(1), a=2.0).tolist() == [2.0]
        assert single.run(v=np.ones((1, 1)), a=2.0).tolist() == [[2.0]]


def test_planes_side_by_side_touch_without_sharing() -> None:
    """Two planes in one block of memory, and a broadcast axis that is only read."""
    block = np.zeros((2, 3, 7))
    block[0] = 1.0
    eagle.deploy(kernels.advance).run(v=block[0], x=block[1], dt=2.0)
    assert (block[1] == 2.0).all() and (block[0] == 1.0).all()
    same = np.ones(8)
    with pytest.raises(BufferRefused, match="share memory"):
        eagle.deploy(kernels.into).run(x=same[:4][::1], y=same[1:5], a=1.0)


SQUARE = np.arange(9.0).reshape(3, 3)


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_square_reads_both_ways() -> None:
    double = eagle.deploy(kernels.named)
    call: dict[str, Any] = {"x": np.zeros(3), "a": 2.0}
    with pytest.raises(LayoutError) as caught:
        double.run(v=SQUARE, **call)
    for fact in ("'v'", "(3, 3)", "component-major with N = 3", "sample-major with N = 3", 'layout="samples_first"',
                 'layout="samples_last"', "eagle.samples_first(v)", "eagle.samples_last(v)"):
        assert fact in str(caught.value)
    assert (double.run(v=SQUARE, layout="samples_last", **call)["moved"] == SQUARE * 2.0).all()
    assert (double.run(v=SQUARE, layout="samples_first", **call)["moved"] == SQUARE.T * 2.0).all()
    assert (double.run(v=samples_last(SQUARE), layout="samples_first", **call)["moved"] == SQUARE * 2.0).all()
    assert (double.run(v=samples_first(SQUARE), layout="samples_last", **call)["moved"] == SQUARE.T * 2.0).all()
    assert (double(**call, v=samples_first(samples_first(SQUARE)))["moved"] == SQUARE.T * 2.0).all()
    foreign = SimpleNamespace(__raptor_samples_axis__="first", array=SQUARE)
    assert (double.run(v=foreign, **call)["moved"] == SQUARE.T * 2.0).all()
    if hasattr(hawk, "samples_first"):
        assert (double.run(v=hawk.samples_first(SQUARE), **call)["moved"] == SQUARE.T * 2.0).all()


def test_layout_is_for_what_is_open() -> None:
    double, call = eagle.deploy(kernels.named), {"x": np.zeros(7), "a": 2.0}
    assert (double.run(v=V.T.copy(), layout="samples_first", **call)["moved"] == V.T * 2.0).all()
    for bad in ("first", "samples", 1, ["samples_first"]):
        for door in (double.run, double, double.bind):
            with pytest.raises(LayoutError, match='layout: found .*, wanted "samples_first", "samples_last" or None'):
                door(v=V, layout=bad, **call)


@pytest.mark.parametrize(("value", "fact"), [
    (samples_last(V), r"shape \(7, 3\), marked as samples_last, wanted shape \(3, n\); mark it as samples_first"),
    (samples_first(V.T), r"shape \(3, 7\), marked as samples_first, wanted shape \(n, 3\); mark it as samples_last"),
    (samples_first(samples_last(SQUARE)), r"markers that say \['first', 'last'\]"),
    (SimpleNamespace(__raptor_samples_axis__="middle", array=V), r"markers that say \['middle'\]"),
])
def test_markers_that_contradict(value: Any, fact: str) -> None:
    for door in (eagle.deploy(kernels.named).run, eagle.deploy(kernels.named), eagle.deploy(kernels.named).bind):
        with pytest.raises(LayoutError, match=f"'v': found {fact}"):
            door(v=value, x=np.zeros(7), a=1.0, moved=np.zeros((3, 7)), shifted=np.zeros(7))


def test_markers_change_nothing_elsewhere() -> None:
    """On numbers, scalar planes, tables and one sample they say nothing."""
    scale = eagle.deploy(kernels.scale)
    for mark in (samples_first, samples_last):
        assert scale.run(x=mark(np.arange(3.0)), a=mark(2.0), b=1.0).tolist() == [1.0, 3.0, 5.0]
        assert scale(mark(2.0), 2.0, 1.0) == 5.0
        table, index = np.arange(4.0), np.array([3, 0])
        assert eagle.deploy(kernels.looked_up).run(i=mark(index), t=mark(table)).tolist() == [3.0, 0.0]
        moved = eagle.deploy(kernels.named).run(v=mark(np.ones(3)), x=0.0, a=2.0)["moved"]
        assert moved.tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_rebind_keeps_what_layout_said() -> None:
    """A square that one layout= decided is read so ever after, whatever a rebind says of other planes."""
    v, moved = SQUARE.copy(), np.zeros((3, 3))
    bound = eagle.deploy(kernels.named).bind(v=v, x=np.zeros(3), a=1.0, moved=samples_last(moved), shifted=np.zeros(3),
                                             layout="samples_first")
    bound.launch()
    assert (moved == SQUARE.T).all()
    other = np.zeros((3, 3))
    bound.rebind(moved=other, layout="samples_last").launch()
    assert (other == SQUARE.T).all()
    bound.rebind(moved=other, a=2.0).launch()  # as bind said
    assert (other == 2.0 * SQUARE).all()
    bound = eagle.deploy(kernels.named).bind(v=v, x=np.zeros(3), a=1.0, moved=moved, shifted=np.zeros(3),
                                             layout="samples_last")
    bound.rebind(moved=other, layout="samples_first").launch()
    assert (other == SQUARE.T).all()


def test_lists_are_component_major() -> None:
    double = eagle.deploy(kernels.named)
    assert double.run(v=V.T.tolist(), x=[0.0] * 7, a=1.0)["moved"].tolist() == V.T.tolist()
    with pytest.raises(LayoutError, match=r"'v': found a list of shape \(7, 3\) with its samples first.*np.array"):
        double.run(v=V.tolist(), x=[0.0] * 7, a=1.0)
    for call in ({"v": SQUARE.tolist(), "layout": "samples_first"}, {"v": samples_first(SQUARE.tolist())}):
        with pytest.raises(LayoutError, match="'v': found a list of shape .* with its samples first") as caught:
            double.run(x=[0.0] * 3, a=1.0, **call)
        call["v"] = eval(str(caught.value).rpartition("; pass ")[2], {"np": np, "eagle": eagle, "v": SQUARE.tolist()})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LayoutWarning)
            assert (double.run(x=[0.0] * 3, a=1.0, **call)["moved"] == SQUARE.T).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning", "ignore::eagle.PerformanceWarning")
def test_conversions_on_the_way() -> None:
    double = eagle.deploy(kernels.named)
    for dtype in (np.float32, np.int8):
        got = double.run(v=V.astype(dtype), x=np.zeros(7), a=1.0)["moved"]
        assert got.tolist() == V.T.tolist()
    with pytest.raises(BufferRefused, match="'moved': found float32, wanted float64"):
        double.run(v=V, x=np.zeros(7), a=1.0, moved=V.astype(np.float32))


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_neighbour_is_read_from_the_copy() -> None:
    """A kernel that reads other samples, over a plane that is also its output: the copy is what it reads."""
    v, i = V.copy(), np.array([6, 5, 4, 3, 2, 1, 0])
    eagle.deploy(kernels.pulled).run(v=v, i=i, u=v)
    assert (v == V[::-1]).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_checked_launch_that_fails_writes_nothing() -> None:
    v, u, i = V.copy(), np.ones((7, 3)), np.array([0, 1, 99, 3, 4, 5, 6])
    with eagle.exec.checking():
        for call in (lambda: eagle.deploy(kernels.pulled).run(v=v, i=i, u=u),
                     eagle.deploy(kernels.pulled).bind(v=v, i=i, u=u).launch):
            with pytest.raises(eagle.OutOfBounds, match="'v'"):
                call()
    assert (u == 1.0).all() and (v == V).all()
    with eagle.exec.checking():
        eagle.deploy(kernels.pulled).bind(v=v, i=np.arange(7), u=u).launch()
    assert (u == V).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_moved_array_is_refused_at_the_next_launch() -> None:
    v, x = V.copy(), np.ones((7, 3))
    bound = eagle.deploy(kernels.advance).bind(v=v, x=x, dt=1.0)
    x.flags.writeable = False
    with pytest.raises(BufferRefused, match="advance.launch: Mutable 'x': found an array that moved"):
        bound.launch()
    x.flags.writeable = True
    bound.launch()
    v.resize((9, 3), refcheck=False)
    with pytest.raises(BufferRefused, match="advance.launch: Vector 'v': found an array that moved"):
        bound.launch()
    assert (x == 1.0 + V).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_launch_with_copies_allocates_nothing() -> None:
    bound = eagle.deploy(kernels.advance).bind(v=np.ones((1000, 3)), x=np.zeros((1000, 3)), dt=1.0)
    bound.launch()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(20):
            bound.launch()
        assert tracemalloc.get_traced_memory()[1] - start < 1000  # a copy of either plane takes 24 000
    finally:
        tracemalloc.stop()


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning", "ignore:.*fork.*:DeprecationWarning")
def test_threads_and_forks_share_a_bound_copy() -> None:
    n = 20_000
    v, x = np.ones((n, 3)), np.zeros((n, 3))
    bound = eagle.deploy(kernels.advance).bind(v=v, x=x, dt=1.0)

    def launch() -> None:
        for _ in range(50):
            bound.launch()

    threads = [threading.Thread(target=launch) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (x == 100.0).all()
    if (child := os.fork()) == 0:
        bound.launch()
        os._exit(0 if (x == 101.0).all() else 1)
    assert os.waitpid(child, 0)[1] == 0 and (x == 100.0).all()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_lanes_of_a_grid() -> None:
    """Planes of a Grid may be sample-major too: all its lanes, flat."""
    import broadcast_kernels

    plan = eagle.deploy(broadcast_kernels.vectors)
    x = np.arange(40.0).reshape(5, 8)
    v = np.arange(80.0).reshape(40, 2)
    expected = plan.run(x=x, v=np.ascontiguousarray(v.T))
    assert plan.run(x=x, v=v).tobytes() == expected.tobytes()
    assert plan.run(x=x, v=samples_first(v)).tobytes() == expected.tobytes()
    with pytest.raises(LayoutError, match=r"'v': found shape \(8, 2\)"):
        plan.run(x=x, v=np.ones((8, 2)))  # not one vector a column: that is (2, 8)
