# SPDX-License-Identifier: Apache-2.0
"""The kernel forms: for each a kernel, its planes, and what it computes by NumPy or a plain loop."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cell_kernels as cells
import derived_kernels as derived
import grid_kernels as grids
import keyed_kernels as keyed
import numpy as np
import plane_kernels as planes_
import serial
import step_kernels as steps

Array = np.ndarray[Any, Any]
Planes = dict[str, Any]
Rng = np.random.Generator

DTYPES = {"float64": np.float64, "float32": np.float32}
SIZES = (0, 1, 7, 31, 32, 33, 1000, 100_003)
NUMPY = "NumPy"
LOOP = "a serial loop"
TREE = "rows of 32 and the canonical sum as loops"


@dataclass(frozen=True)
class Form:
    """One kernel form.

    `planes(rng, n, dtype)` makes all that run is given: inputs, state, numbers, extents. `expected(planes)` gives every
    plane that is written, by name, with arrays of the shape run returns. `sinks(n, dtype)` are the outputs bind needs
    beside `planes`, with their shapes; they start as `expected` says for outputs left out: zeroed.
    """

    kernel: Any
    planes: Callable[[Rng, int, type], Planes]
    expected: Callable[[Planes], Planes]
    sinks: Callable[[int, type], Planes]
    tree: tuple[str, ...] = ()  # what the call form returns, when that is not run's result
    cells: tuple[str, ...] = ()  # reductions over samples that are handed back
    one_cut: bool = False  # several partitions are refused
    sizes: tuple[int, ...] = SIZES
    lanes: int = 1  # n is rounded up to a multiple
    bound: Callable[[int], Planes] = lambda n: {}  # what only bind must be given
    against: str = NUMPY

    def cuts(self, n: int) -> list[tuple[int, int]]:
        """Partitions and threads; over the sizes every partition count meets every number of threads."""
        place = sum(size < n for size in self.sizes)
        return [(parts, (parts + place) % 4 + 1) for parts in (range(1, 2) if self.one_cut else range(1, 8))]

    @property
    def reduces(self) -> bool:
        """Whether it needs at least one sample."""
        return bool(self.cells) or self.against == TREE

    def n_of(self, n: int) -> int:
        return -(-n // self.lanes) * self.lanes


def real(rng: Rng, dtype: type, *shape: int) -> Array:
    return rng.normal(size=shape).astype(dtype)


def cancelling(rng: Rng, dtype: type, n: int) -> Array:
    """Values of many magnitudes that nearly cancel, so that any other order of adding gives another sum."""
    spread = 80 if dtype is np.float64 else 26
    x = (rng.normal(size=n) * 2.0 ** rng.integers(-spread, spread, n)).astype(dtype)
    half = n // 2
    x[half:2 * half] = -rng.permutation(x[:half])
    return x


def positive(rng: Rng, dtype: type, *shape: int) -> Array:
    return rng.uniform(1.0, 2.0, size=shape).astype(dtype)


def index(rng: Rng, n: int, bound: int, kind: type = np.int64) -> Array:
    return rng.integers(0, bound, n).astype(kind)


def any_of(rng: Rng, n: int, kind: type) -> Array:
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, n, kind, endpoint=True)


# ---- planes ----------------------------------------------------------------------------------------------------------


def _y(n: int, dtype: type) -> Planes:
    return {"y": np.zeros(n, dtype)}


def _out(n: int, dtype: type) -> Planes:
    return {"out": np.zeros(n, dtype)}


def _integer_planes(rng: Rng, n: int, dtype: type) -> Planes:
    return {"i": any_of(rng, n, np.int64), "k": any_of(rng, n, np.int32), "u": any_of(rng, n, np.uint32)}


def _integer_sinks(n: int, dtype: type) -> Planes:
    return {"o": np.zeros(n, np.int64), "p": np.zeros(n, np.int32), "q": np.zeros(n, np.uint32)}


PLANE_FORMS = {
    "Index, Int32, UInt32": Form(
        planes_.integers, _integer_planes,
        lambda p: {"o": p["i"] * np.int64(2) + np.int64(1), "p": p["k"] * np.int32(3), "q": p["u"] + p["u"]},
        _integer_sinks),
    "integer state": Form(
        planes_.counters,
        lambda r, n, t: {**_integer_planes(r, n, t), "o": any_of(r, n, np.int64), "p": any_of(r, n, np.int32),
                         "q": any_of(r, n, np.uint32)},
        lambda p: {"o": p["o"] + p["i"], "p": p["p"] + p["k"], "q": p["q"] + p["u"]}, _integer_sinks),
    "Sorted[Index]": Form(
        planes_.sorted_ids, lambda r, n, t: {"k": np.sort(index(r, n, 50)), "x": real(r, t, n)},
        lambda p: {"out": p["x"] + p["k"].astype(p["x"].dtype)}, _out, tree=("out",)),
    "Terminated, read": Form(
        planes_.masked, lambda r, n, t: {"x": real(r, t, n), "y": real(r, t, n), "terminated": index(r, n, 2, bool)},
        lambda p: {"y": np.where(p["terminated"], p["y"], p["x"] * 2)}, _y),
    "Param[Int32], Param[UInt32]": Form(
        planes_.int_params, lambda r, n, t: {"x": real(r, t, n), "n": -7, "u": 2**32 - 9},
        lambda p: {"out": p["x"] * p["x"].dtype.type(-7) + p["x"].dtype.type(2**32 - 9)}, _out, tree=("out",)),
    "Table": Form(
        planes_.table, lambda r, n, t: {"i": index(r, n, 50), "t": real(r, t, 50)},
        lambda p: {"y": p["t"][p["i"]]}, _y),
    "Table, named axes": Form(
        planes_.table_axes, lambda r, n, t: {"i": index(r, n, 4), "j": index(r, n, 3), "t": real(r, t, 4, 3)},
        lambda p: {"y": p["t"][p["i"], p["j"]]}, _y),
    "Table, runtime axis": Form(
        planes_.table_rows, lambda r, n, t: {"i": index(r, n, 9), "t": real(r, t, 9, 3)},
        lambda p: {"y": p["t"][p["i"], 0] - p["t"][p["i"], 2]}, _y),
    "Staged": Form(
        planes_.staged, lambda r, n, t: {"i": index(r, n, 50), "f": real(r, t, 3, 50)},
        lambda p: {"y": p["f"][1, p["i"]]}, _y),
    "Wide": Form(
        planes_.wide, lambda r, n, t: {"e": index(r, n, 30), "b": real(r, t, 30 * 4)},
        lambda p: {"y": p["b"].reshape(30, 4)[p["e"], 2]}, _y),
    "WideOut": Form(
        planes_.wide_out, lambda r, n, t: {"x": real(r, t, n)}, lambda p: {"b": p["x"] * 2},
        lambda n, t: {"b": np.zeros(n, t)}),
    "neighbours": Form(
        planes_.neighbour, lambda r, n, t: {"x": real(r, t, n), "i": index(r, n, max(n, 1))},
        lambda p: {"y": p["x"][p["i"]] - p["x"]}, _y),
}


# ---- writes by key ---------------------------------------------------------------------------------------------------


def _bins(name: str, *shape: int, kind: type | None = None) -> Callable[[int, type], Planes]:
    return lambda n, t: {name: np.zeros(shape, kind or t)}


def _keyed(bins: int) -> Callable[[Rng, int, type], Planes]:
    return lambda r, n, t: {"k": index(r, n, bins), "x": cancelling(r, t, n)}


def _added(start: Array, keys: Array, terms: Array, compensated: bool = True) -> Array:
    return serial.keyed_sum(start, keys.tolist(), terms, compensated)


def _stored(p: Planes) -> Planes:
    b = np.zeros(64, p["x"].dtype)
    for key, x in zip(p["k"], p["x"], strict=True):
        b[key] = x
    return {"b": b}


def _ored(p: Planes) -> Planes:
    m = np.zeros(8, np.int32)
    for key, bits in zip(p["k"], p["bits"], strict=True):
        m[key] |= bits
    return {"m": m}


KEYED_FORMS = {
    "keyed store": Form(keyed.keyed_store, _keyed(64), _stored, _bins("b", 64), one_cut=True, against=LOOP),
    "keyed sum": Form(
        keyed.keyed_add, _keyed(64), lambda p: {"acc": _added(np.zeros(64), p["k"], p["x"])}, _bins("acc", 64),
        one_cut=True, against=LOOP),
    "keyed sum, plain": Form(
        keyed.keyed_plain, _keyed(64), lambda p: {"acc": _added(np.zeros(64), p["k"], p["x"], False)},
        _bins("acc", 64), one_cut=True, against=LOOP),
    "keyed sum onto contents": Form(
        keyed.keyed_add, lambda r, n, t: {**_keyed(64)(r, n, t), "acc": real(r, t, 64)},
        lambda p: {"acc": _added(p["acc"], p["k"], p["x"])}, _bins("acc", 64), one_cut=True, against=LOOP),
    "keyed or": Form(
        keyed.keyed_or, lambda r, n, t: {"k": index(r, n, 8), "bits": np.int32(1) << index(r, n, 32, np.int32)},
        _ored, _bins("m", 8, kind=np.int32), one_cut=True, against=LOOP),
    "keyed sum of vectors": Form(
        keyed.keyed_vector,
        lambda r, n, t: {"k": index(r, n, 8), "v": np.stack([cancelling(r, t, n) for _ in range(3)])},
        lambda p: {"acc": np.stack([_added(np.zeros(8), p["k"], v, False) for v in p["v"]])},
        _bins("acc", 3, 8), one_cut=True, against=LOOP),
    "keyed sum, two axes": Form(
        keyed.keyed_axes, lambda r, n, t: {"i": index(r, n, 4), "j": index(r, n, 8), "x": cancelling(r, t, n)},
        lambda p: {"acc": _added(np.zeros(32), p["i"] * 8 + p["j"], p["x"]).reshape(4, 8)},
        _bins("acc", 4, 8), one_cut=True, against=LOOP),
    "keyed sum, runtime bins": Form(
        keyed.keyed_nodes, lambda r, n, t: {**_keyed(9)(r, n, t), "node": 9},
        lambda p: {"acc": _added(np.zeros(9), p["k"], p["x"])}, _bins("acc", 9), one_cut=True, against=LOOP),
    "keyed sum, runtime bins of the plane": Form(
        keyed.keyed_nodes, lambda r, n, t: {**_keyed(9)(r, n, t), "acc": np.zeros(11, t)},
        lambda p: {"acc": _added(p["acc"], p["k"], p["x"])}, _bins("acc", 11), one_cut=True, against=LOOP),
    "keyed sum, sorted": Form(
        keyed.keyed_sorted, lambda r, n, t: {"k": np.sort(index(r, n, 16)), "x": cancelling(r, t, n)},
        lambda p: {"acc": _added(np.zeros(16), p["k"], p["x"])}, _bins("acc", 16), one_cut=True, against=LOOP),
    "keyed sum beside an output": Form(
        keyed.keyed_beside, _keyed(16),
        lambda p: {"acc": _added(np.zeros(16), p["k"], p["x"]), "out": p["x"] * 2},
        lambda n, t: {"acc": np.zeros(16, t), "out": np.zeros(n, t)}, tree=("out",), one_cut=True, against=LOOP),
}


# ---- reductions over samples -----------------------------------------------------------------------------------------


def _x(r: Rng, n: int, t: type) -> Planes:
    return {"x": cancelling(r, t, n)}


def _positive_x(r: Rng, n: int, t: type) -> Planes:
    return {"x": positive(r, t, n)}


def _with_nan(r: Rng, n: int, t: type, *head: int) -> Array:
    """Values of which some are NaN, the first among them, but not all."""
    x = real(r, t, *head, n)
    x[..., :n - 1:3] = np.nan
    return x


def _sum(terms: Array) -> Array:
    return np.array([serial.sum_over_samples(terms)])


def _mean(x: Array) -> Array:
    return _sum(x / x.dtype.type(len(x)))


def _s(n: int, dtype: type) -> Planes:
    return {"s": np.zeros(1, dtype)}


def _total(kernel: Any) -> Form:
    return Form(kernel, _x, lambda p: {"s": _sum(p["x"])}, _s, cells=("s",), against=TREE)


def _three_stages(p: Planes) -> Planes:
    d = p["x"] - _mean(p["x"])
    return {"y": d / _sum(d * d)}


CELL_FORMS = {
    "sum": _total(cells.total),
    "sum, compensated": _total(cells.total_compensated),
    "sum, ordered": _total(cells.total_ordered),
    "sum, returned": Form(cells.total_returned, _x, lambda p: {"out": _sum(p["x"])},
                          lambda n, t: {"out": np.zeros(1, t)}, cells=("out",), tree=("out",), against=TREE),
    "sum of some": Form(cells.total_where, _x,
                        lambda p: {"s": _sum(np.where(p["x"] > 0, p["x"], p["x"].dtype.type(0)))}, _s, cells=("s",),
                        against=TREE),
    "sum of vectors": Form(
        cells.total_vector, lambda r, n, t: {"v": np.stack([cancelling(r, t, n) for _ in range(3)])},
        lambda p: {"s": np.concatenate([_sum(v) for v in p["v"]])}, lambda n, t: {"s": np.zeros(3, t)}, cells=("s",),
        against=TREE),
    "sums beside an output": Form(
        cells.moments, _x,
        lambda p: {"first": _sum(p["x"]), "second": _sum(p["x"] * p["x"]), "doubled": p["x"] * 2},
        lambda n, t: {"first": np.zeros(1, t), "second": np.zeros(1, t), "doubled": np.zeros(n, t)},
        cells=("first", "second"), tree=("first", "second", "doubled"), against=TREE),
    "mean beside an output": Form(
        cells.average, _x, lambda p: {"s": _mean(p["x"]), "out": p["x"] * 2},
        lambda n, t: {"s": np.zeros(1, t), "out": np.zeros(n, t)}, cells=("s",), tree=("out",), against=TREE),
    "max": Form(cells.highest, lambda r, n, t: {"x": _with_nan(r, n, t)},
                lambda p: {"s": np.array([serial.extreme_over_samples(p["x"], True)])}, _s, cells=("s",),
                against=LOOP),
    "min": Form(cells.lowest, lambda r, n, t: {"x": _with_nan(r, n, t)},
                lambda p: {"s": np.array([serial.extreme_over_samples(p["x"], False)])}, _s, cells=("s",),
                against=LOOP),
    "max of vectors": Form(
        cells.highest_vector, lambda r, n, t: {"v": _with_nan(r, n, t, 2)},
        lambda p: {"s": np.array([serial.extreme_over_samples(v, True) for v in p["v"]])},
        lambda n, t: {"s": np.zeros(2, t)}, cells=("s",), against=LOOP),
    "stages, internal sum": Form(cells.normalise, _positive_x, lambda p: {"y": p["x"] / _sum(p["x"])}, _y,
                                 against=TREE),
    "stages, mean handed back": Form(
        cells.centre, _x, lambda p: {"s": _mean(p["x"]), "y": p["x"] - _mean(p["x"])},
        lambda n, t: {"s": np.zeros(1, t), "y": np.zeros(n, t)}, cells=("s",), against=TREE),
    "three stages": Form(cells.three_stages, _x, _three_stages, _y, against=TREE),
}


# ---- lane spaces -----------------------------------------------------------------------------------------------------

GRID_SIZES = (0, 8, 24, 32, 40, 1000, 100_000)


def _grid(n: int, *head: int) -> tuple[int, ...]:
    return (*head, n // 8, 8)


def _lane_x(r: Rng, n: int, t: type) -> Planes:
    return {"x": real(r, t, *_grid(n))}


def _cancelling_lanes(r: Rng, n: int, t: type) -> Planes:
    return {"x": cancelling(r, t, n).reshape(_grid(n))}


def _column_sum(p: Planes) -> Array:
    """The sum of each row, left to right, and what rounding lost added once."""
    x = p["x"].reshape(-1, 8)
    total, lost = np.zeros(len(x), x.dtype), np.zeros(len(x), x.dtype)
    for column in x.T:
        s = total + column
        lost += serial.error(total, column, s)
        total = s
    return total + lost


def _row_sum(p: Planes) -> Array:
    total = np.zeros(8, p["x"].dtype)
    for row in p["x"].reshape(-1, 8):
        total = total + row
    return total


def _plus_column(p: Planes) -> Planes:
    x = p["x"].reshape(-1, 8)
    return {"y": x + np.arange(8).astype(x.dtype) * x.dtype.type(0.5)}


def _lane_y(n: int, t: type) -> Planes:
    return {"y": np.zeros(_grid(n), t)}


GRID = Form(grids.grid, _lane_x, _plus_column, _lane_y, sizes=GRID_SIZES, lanes=8)

GRID_FORMS = {
    "Grid, lane-shaped": GRID,
    "Grid, flat": dataclasses.replace(GRID, planes=_x),
    "Grid, extent by label": dataclasses.replace(GRID, planes=lambda r, n, t: {**_x(r, n, t), "row": n // 8},
                                                 sizes=GRID_SIZES[1:]),
    "Grid, returned": Form(
        grids.grid_returned, _lane_x,
        lambda p: {"twice": p["x"] * 2, "row": np.arange(len(p["x"])).astype(p["x"].dtype)[:, None] + p["x"] * 0},
        lambda n, t: {"twice": np.zeros(_grid(n), t), "row": np.zeros(_grid(n), t)}, tree=("twice", "row"),
        sizes=GRID_SIZES, lanes=8),
    "Grid, static": Form(
        grids.grid_static, _lane_x, lambda p: {"y": p["x"] * 2 + np.arange(4).astype(p["x"].dtype)[:, None]}, _lane_y,
        sizes=(32,), lanes=8),
    "Grid, vectors": Form(
        grids.grid_vector, lambda r, n, t: {"x": real(r, t, *_grid(n)), "v": real(r, t, *_grid(n, 2))},
        lambda p: {"y": p["v"] * p["x"]}, lambda n, t: {"y": np.zeros(_grid(n, 2), t)}, sizes=GRID_SIZES, lanes=8),
    "Grid, sum over the last axis": Form(
        grids.grid_sum_columns, _cancelling_lanes, lambda p: {"out": _column_sum(p)},
        lambda n, t: {"out": np.zeros(n // 8, t)}, tree=("out",), one_cut=True, sizes=GRID_SIZES, lanes=8,
        against=LOOP),
    "Grid, sum over the first axis": Form(
        grids.grid_sum_rows, _cancelling_lanes, lambda p: {"out": _row_sum(p)}, lambda n, t: {"out": np.zeros(8, t)},
        tree=("out",), one_cut=True, sizes=GRID_SIZES, lanes=8, against=LOOP),
    "Grid, sum over all": Form(
        grids.grid_total, _cancelling_lanes, lambda p: {"s": _sum(p["x"].reshape(-1))}, _s, cells=("s",),
        sizes=GRID_SIZES, lanes=8, against=TREE),
    "Grid, stages": Form(
        grids.grid_share, lambda r, n, t: {"x": positive(r, t, *_grid(n))},
        lambda p: {"out": p["x"] / _column_sum(p)[:, None]}, lambda n, t: {"out": np.zeros(_grid(n), t)},
        tree=("out",), one_cut=True, sizes=GRID_SIZES, lanes=8, against=LOOP),
    "Grid, runtime bins": Form(
        grids.grid_nodes, lambda r, n, t: {**_lane_x(r, n, t), "node": 9},
        lambda p: {"acc": _added(np.zeros(9), np.arange(p["x"].size) % 8, p["x"].reshape(-1))}, _bins("acc", 9),
        one_cut=True, sizes=GRID_SIZES, lanes=8, against=LOOP),
}


# ---- steps, live sets, branches --------------------------------------------------------------------------------------


def _steps(r: Rng, n: int, t: type) -> Planes:
    return {"x": positive(r, t, n), "limit": (20 * positive(r, t, n) - 20).astype(t),
            "terminated": index(r, n, 4) == 0, "finished_count": np.zeros(1, np.uint32)}


def _stepped(p: Planes, count: int = 1, live: Array | None = None) -> Planes:
    """`count` steps of every live sample that has not finished."""
    x, done = p["x"].copy(), p["terminated"].copy()
    for _ in range(count):
        on = ~done if live is None else ~done & live
        x = np.where(on, x * 2, x)
        done |= on & (x > p["limit"])
    return {"x": x, "terminated": done, "finished_count": np.array([np.sum(done & ~p["terminated"])], np.uint32)}


def _no_sinks(n: int, dtype: type) -> Planes:
    return {}


def _live(p: Planes) -> Array:
    live = np.zeros(len(p["x"]), bool)
    live[p["active_map"][:p["active_count"][0]]] = True
    return live


def _every_second(r: Rng, n: int, t: type) -> Planes:
    active = np.arange(n, dtype=np.int32)
    chosen = np.concatenate([active[::2], active[1::2]])  # the map's rest is not read
    return {**_steps(r, n, t), "active_map": chosen, "active_count": np.array([-(-n // 2)], np.uint32)}


def _branches(r: Rng, n: int, t: type) -> Planes:
    return {"k": r.integers(-2, 6, n), "x": real(r, t, n)}


def _branched(p: Planes) -> Planes:
    k, x = np.clip(p["k"], 0, 2), p["x"]
    return {"y": np.choose(k, [x * 2, x + 1, x * x])}


def _mixed(p: Planes) -> Planes:
    k = np.clip(p["k"], 0, 2)
    return {**_branched(p), "dispatch0_mix": p["dispatch0_mix"] + np.bincount(k, minlength=3).astype(np.uint32)}


STEP_FORMS = {
    "automatic: one step per launch": Form(steps.automatic, _steps, _stepped, _no_sinks),
    "four steps per launch": Form(steps.four_steps, _steps, functools.partial(_stepped, count=4), _no_sinks),
    "steps=1": Form(steps.one_step, _steps, _stepped, _no_sinks),
    "active set": Form(
        steps.active, _steps, _stepped, _no_sinks, one_cut=True,
        bound=lambda n: {"active_map": np.arange(n, dtype=np.int32), "active_count": np.array([n], np.uint32)}),
    "active set, given": Form(steps.active, _every_second, lambda p: _stepped(p, live=_live(p)), _no_sinks,
                              one_cut=True),
    "dispatch, switch": Form(steps.switched, _branches, _branched, _y),
    "dispatch, predicated": Form(steps.predicated, _branches, _branched, _y),
    "dispatch, auto": Form(
        steps.counted, lambda r, n, t: {**_branches(r, n, t), "dispatch0_mix": np.array([5, 6, 7], np.uint32)},
        _mixed, _y),
}


# ---- derived kernels -------------------------------------------------------------------------------------------------


def _tape(p: Planes) -> Planes:
    """One step: the state before it goes to row `applied_steps` mod 3 of the tape."""
    on = ~p["terminated"]
    x = np.where(on, p["x"] - p["x"] * p["rate"], p["x"])
    tape = p["tape"].copy()
    for sample in np.flatnonzero(on):
        tape[p["applied_steps"][sample] % 3, sample] = p["x"][sample]
    done = p["terminated"] | (on & (x < 0.125))
    return {"x": x, "terminated": done, "applied_steps": p["applied_steps"] + on, "tape": tape,
            "finished_count": np.array([np.sum(done & ~p["terminated"])], np.uint32)}


def _far_from_the_threshold(r: Rng, n: int, t: type) -> Planes:
    """No sample within the smoothed width, sqrt(5) / 4, of the jump: there the derivative is the branch's own."""
    at = real(r, t, n)
    return {"x": (at + np.where(index(r, n, 2) == 0, 1, -1) * positive(r, t, n)).astype(t), "at": at,
            "bar_y": real(r, t, n)}


def _past_the_threshold(p: Planes) -> Planes:
    slope = np.where(p["x"] < p["at"], p["x"].dtype.type(2), p["x"].dtype.type(3))
    value = p["x"] * slope
    return {"bar_x": (p["bar_y"] * value + p["bar_y"] * value) * slope, "bar_at": p["bar_y"] * p["x"].dtype.type(-0.0)}


DERIVED_FORMS = {
    "vjp": Form(
        derived.product_vjp, lambda r, n, t: {"v": real(r, t, 2, n), "x": real(r, t, n), "bar_y": real(r, t, n)},
        lambda p: {"bar_v": np.stack([p["bar_y"] * p["x"], p["bar_y"] * p["x"].dtype.type(0.5)]),
                   "bar_x": p["bar_y"] * p["v"][0]},
        lambda n, t: {"bar_v": np.zeros((2, n), t), "bar_x": np.zeros(n, t)}),
    "jvp": Form(
        derived.product_jvp,
        lambda r, n, t: {"v": real(r, t, 2, n), "x": real(r, t, n), "dot_v": real(r, t, 2, n), "dot_x": real(r, t, n)},
        lambda p: {"dot_y": (p["dot_v"][0] * p["x"] + p["v"][0] * p["dot_x"]) + p["dot_v"][1] * p["x"].dtype.type(0.5)},
        lambda n, t: {"dot_y": np.zeros(n, t)}),
    "vjp of a Table": Form(
        derived.weighted_vjp,
        lambda r, n, t: {"i": index(r, n, 50), "x": real(r, t, n), "t": real(r, t, 50), "bar_y": real(r, t, n)},
        lambda p: {"bar_x": p["bar_y"] * p["t"][p["i"]],
                   "bar_t": _added(np.zeros(50), p["i"], p["bar_y"] * p["x"], False)},
        lambda n, t: {"bar_x": np.zeros(n, t), "bar_t": np.zeros(50, t)}, one_cut=True, against=LOOP),
    "vjp through a jump": Form(
        derived.threshold_vjp, _far_from_the_threshold, _past_the_threshold,
        lambda n, t: {"bar_x": np.zeros(n, t), "bar_at": np.zeros(n, t)}),
    "taping twin": Form(
        derived.decay_tape,
        lambda r, n, t: {"x": positive(r, t, n), "rate": positive(r, t, n) - t(1), "terminated": index(r, n, 4) == 0,
                         "applied_steps": index(r, n, 9), "tape": np.zeros((3, n), t), "tape_on": 1,
                         "finished_count": np.zeros(1, np.uint32)},
        _tape, _no_sinks),
    "fused group": Form(
        derived.shift_stretch, lambda r, n, t: {"x": real(r, t, n), "a": 0.75, "b": 1.5},
        lambda p: {"y": p["x"] + p["x"].dtype.type(0.75), "z": p["x"] * p["x"].dtype.type(1.5)},
        lambda n, t: {"y": np.zeros(n, t), "z": np.zeros(n, t)}),
}

FORMS = {**PLANE_FORMS, **KEYED_FORMS, **CELL_FORMS, **GRID_FORMS, **STEP_FORMS, **DERIVED_FORMS}
