# SPDX-License-Identifier: Apache-2.0
"""Wrong planes, extents and cuts of the forms: the documented class, the facts in the message, nothing written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cell_kernels as cells
import grid_kernels as grids
import keyed_kernels as keyed
import numpy as np
import plane_kernels as planes
import pytest
import step_kernels as steps

import eagle
from eagle import ArgumentError, BufferRefused
from eagle.exec import HostTeam
from eagle.plan import plan

N = 40
X = np.arange(1.0, N + 1)
K = np.arange(N) % 8
ROWS = X.reshape(5, 8)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


def bools() -> np.ndarray[Any, Any]:
    return np.zeros(N, bool)


Case = tuple[Any, dict[str, Any], type[Exception], list[str]]

# Refused by run, the call form and bind alike; bind is given `SINKS` for what is left out.
EVERYWHERE: dict[str, Case] = {
    "flat length": (grids.grid, {"x": X[:36]}, ValueError, ["'x'", "36", "8"]),
    "n of a Grid": (grids.grid, {"x": X, "n": N}, ArgumentError, ["'n'", "row"]),
    "static label": (grids.grid, {"x": X, "col": 8}, ValueError, ["'col'", "8"]),
    "label of nothing": (grids.grid, {"x": X, "depth": 8}, ArgumentError, ["'depth'"]),
    "extent against flat plane": (grids.grid, {"x": X, "row": 4}, ValueError, ["row=4", "32", "40"]),
    "extent against lane-shaped plane": (grids.grid, {"x": ROWS, "row": 4}, ValueError,
                                          ["row=4", "(4, 8)", "(5, 8)"]),
    "extent of zero": (grids.grid, {"x": X, "row": 0}, ValueError, ["row", "0"]),
    "negative extent": (grids.grid, {"x": X, "row": -5}, ValueError, ["row", "-5"]),
    "extent that is no integer": (grids.grid, {"x": X, "row": 5.0}, TypeError, ["row", "5.0"]),
    "extent that is a bool": (grids.grid, {"x": X[:8], "row": True}, TypeError, ["row", "True"]),
    "static extent of a plane": (grids.grid, {"x": X.reshape(10, 4)}, ValueError, ["'x'", "(10, 4)", "8"]),
    "lanes of an all-static Grid": (grids.grid_static, {"x": X}, ValueError, ["40", "32"]),
    "shape of an all-static Grid": (grids.grid_static, {"x": ROWS}, ValueError, ["'x'", "(5, 8)", "4"]),
    "two lane shapes": (grids.grid_broadcast, {"x": ROWS, "b": np.ones((4, 8))}, ValueError,
                        ["'b'", "(4, 8)", "(5, 8)"]),
    "broadcast output": (grids.grid_broadcast, {"x": ROWS, "b": ROWS, "y": np.zeros(8)}, ValueError,
                         ["'y'", "8", "40"]),
    "broadcast that does not fit": (grids.grid_broadcast, {"x": ROWS, "b": np.ones(5)}, ValueError, ["'b'", "5"]),
    "bins of another shape": (keyed.keyed_add, {"k": K, "x": X, "acc": np.zeros(63)}, ValueError,
                              ["'acc'", "(63,)", "(64,)"]),
    "bins of another rank": (keyed.keyed_add, {"k": K, "x": X, "acc": np.zeros((64, 1))}, ValueError,
                             ["'acc'", "(64, 1)", "(64,)"]),
    "bins of vectors": (keyed.keyed_vector, {"k": K, "v": np.ones((3, N)), "acc": np.zeros((8, 3))}, ValueError,
                        ["'acc'", "(8, 3)", "(3, 8)"]),
    "bins on two axes": (keyed.keyed_axes, {"i": K % 4, "j": K, "x": X, "acc": np.zeros((8, 4))}, ValueError,
                         ["'acc'", "(8, 4)", "(4, 8)"]),
    "bins of another dtype": (keyed.keyed_or, {"k": K, "bits": K.astype(np.int32), "m": np.zeros(8, np.int64)},
                              BufferRefused, ["'m'", "int64", "int32"]),
    "bins against their extent": (keyed.keyed_nodes, {"k": K, "x": X, "acc": np.zeros(9), "node": 8}, ValueError,
                                  ["node", "8", "9"]),
    "read-only bins": (keyed.keyed_add, {"k": K, "x": X, "acc": read_only(np.zeros(64))}, BufferRefused,
                       ["'acc'", "read-only"]),
    "short wide output": (planes.wide_out, {"x": X, "b": np.zeros(N - 1)}, ValueError, ["'b'", "39", "40"]),
    "read-only wide output": (planes.wide_out, {"x": X, "b": read_only(np.zeros(N))}, BufferRefused,
                              ["'b'", "read-only"]),
    "wide output of another dtype": (planes.wide_out, {"x": X, "b": np.zeros(N, np.float32)}, BufferRefused,
                                     ["'b'", "float32", "float64"]),
    "strided wide output": (planes.wide_out, {"x": X, "b": np.zeros(2 * N)[::2]}, BufferRefused, ["'b'"]),
    "table of another dtype": (planes.table, {"i": K, "t": np.ones(9, np.longdouble)}, BufferRefused,
                               ["'t'", "float64"]),
    "table of bools": (planes.table, {"i": K, "t": np.ones(9, bool)}, BufferRefused, ["'t'", "bool"]),
    "index of floats": (planes.table, {"i": X, "t": np.ones(9)}, BufferRefused, ["'i'", "float64", "int64"]),
    "index of bools": (planes.table, {"i": bools(), "t": np.ones(9)}, BufferRefused, ["'i'", "bool"]),
    "wider integers": (planes.integers, {"i": K, "k": K + 2**31, "u": K.astype(np.uint32)}, BufferRefused,
                       ["'k'", "int64", "int32"]),
    "mask of integers": (planes.masked, {"x": X, "terminated": np.zeros(N, np.uint8)}, BufferRefused,
                         ["'terminated'", "uint8", "bool"]),
    "integer parameter with a fraction": (planes.int_params, {"x": X, "n": 2.5, "u": 0}, (TypeError, ValueError),
                                          ["'n'", "2.5"]),
    "integer parameter that is a bool": (planes.int_params, {"x": X, "n": True, "u": 0}, TypeError, ["'n'", "True"]),
    "integer parameter that is text": (planes.int_params, {"x": X, "n": "3", "u": 0}, TypeError, ["'n'", "'3'"]),
    "integer parameter that is no number": (planes.int_params, {"x": X, "n": float("nan"), "u": 0},
                                            (TypeError, ValueError), ["'n'", "nan"]),
    "integer parameter beyond 64 bits": (planes.int_params, {"x": X, "n": 2**63, "u": 0}, ValueError,
                                         ["'n'", str(2**63)]),
    "map of another dtype": (steps.active, {"x": X.copy(), "limit": X, "terminated": bools(),
                                            "active_map": X - 1, "active_count": np.array([N], np.uint32)},
                             BufferRefused, ["'active_map'", "float64", "int32"]),
    "map of samples that are not there": (steps.active, {"x": X.copy(), "limit": X, "terminated": bools(),
                                                         "active_map": np.arange(1, N + 1, dtype=np.int32),
                                                         "active_count": np.array([N], np.uint32)},
                                          ValueError, ["'active_map'", str(N)]),
    "map with a sample twice": (steps.active, {"x": X.copy(), "limit": X, "terminated": bools(),
                                               "active_map": np.minimum(np.arange(N, dtype=np.int32), N - 2),
                                               "active_count": np.array([N], np.uint32)},
                                ValueError, ["'active_map'", "a sample twice"]),
    "counter of another dtype": (steps.counted, {"k": K, "x": X, "dispatch0_mix": np.zeros(3, np.int64)},
                                 BufferRefused, ["'dispatch0_mix'", "int64", "uint32"]),
    "short counter": (steps.counted, {"k": K, "x": X, "dispatch0_mix": np.zeros(2, np.uint32)}, ValueError,
                      ["'dispatch0_mix'", "2", "3"]),
    "unknown name": (cells.total, {"x": X, "z": X}, ArgumentError, ["'z'"]),
    "rows of a cell": (cells.total, {"x": X, "s_comp": np.zeros(2)}, ValueError, ["'s_comp'"]),
    "column of a cell": (cells.total_vector, {"v": np.ones((3, N)), "s_0": np.zeros(2)}, ValueError, ["'s_0'"]),
    "no samples to reduce": (cells.highest, {"x": X[:0]}, ValueError, ["0 samples"]),
    "no samples to sum": (cells.total, {"x": X[:0]}, ValueError, ["0 samples"]),
    "no samples between stages": (cells.normalise, {"x": X[:0]}, ValueError, ["0 samples"]),
}

SINKS: dict[str, dict[str, Any]] = {
    "grid": {"y": (N,)}, "grid_static": {"y": (N,)}, "grid_broadcast": {"y": (5, 8)}, "table": {"y": (N,)},
    "masked": {"y": (N,)}, "int_params": {"out": (N,)}, "counted": {"y": (N,)}, "total": {"s": (1,)},
    "total_vector": {"s": (3,)}, "highest": {"s": (1,)}, "normalise": {"y": (0,)},
}


@pytest.mark.parametrize("door", ["run", "call", "bind"])
@pytest.mark.parametrize("case", EVERYWHERE)
def test_everywhere(case: str, door: str) -> None:
    kernel, given, error, facts = EVERYWHERE[case]
    deployed = eagle.deploy(kernel)
    given = dict(given)
    if door == "bind":
        given = {**{name: np.zeros(shape) for name, shape in SINKS.get(kernel.name, {}).items()}, **given}
        if kernel is planes.integers:
            given |= {"o": K.copy(), "p": K.astype(np.int32), "q": K.astype(np.uint32)}
    refused(getattr(deployed, door, deployed), given, error, facts)


def refused(call: Any, given: dict[str, Any], error: Any, facts: list[str]) -> None:
    """`call` is refused with the class and the facts, and leaves every plane as it was."""
    before = {name: plane.copy() for name, plane in given.items() if isinstance(plane, np.ndarray)}
    with pytest.raises(error) as caught:
        call(**given)
    message = str(caught.value)
    assert "found" in message and "wanted" in message, message
    for fact in facts:
        assert fact in message, message
    for name, plane in before.items():
        np.testing.assert_array_equal(given[name], plane)


MASK = {"x": X.copy(), "limit": X, "terminated": bools()}

BIND: dict[str, Case] = {
    "no cell": (cells.total, {"x": X}, ArgumentError, ["'s'"]),
    "no cell of a split kernel": (cells.centre, {"x": X, "y": np.zeros(N)}, ArgumentError, ["'s'"]),
    "cell of two": (cells.total, {"x": X, "s": np.zeros(2)}, ValueError, ["'s'", "(2,)", "(1,)"]),
    "cell without axes": (cells.total, {"x": X, "s": np.zeros(())}, ValueError, ["'s'", "()", "(1,)"]),
    "cell of another width": (cells.total_vector, {"v": np.ones((3, N)), "s": np.zeros(1)}, ValueError,
                              ["'s'", "(1,)", "(3,)"]),
    "cell of another dtype": (cells.total, {"x": X, "s": np.zeros(1, np.float32)}, BufferRefused,
                              ["'s'", "float32", "float64"]),
    "read-only cell": (cells.total, {"x": X, "s": read_only(np.zeros(1))}, BufferRefused, ["'s'", "read-only"]),
    "cell in an input": (cells.total, {"x": (x := X.copy()), "s": x[3:4]}, ValueError, ["'s'", "'x'"]),
    "no map": (steps.active, {**MASK, "active_count": np.array([N], np.uint32)}, ArgumentError, ["'active_map'"]),
    "no live count": (steps.active, {**MASK, "active_map": np.arange(N, dtype=np.int32)}, ArgumentError,
                      ["'active_count'"]),
    "narrower table": (planes.table, {"i": K, "t": np.ones(9, np.float32), "y": np.zeros(N)}, BufferRefused,
                       ["'t'", "float32", "float64"]),
    "no bins": (keyed.keyed_add, {"k": K, "x": X}, ArgumentError, ["'acc'"]),
    "companion of another shape": (keyed.keyed_add, {"k": K, "x": X, "acc": np.zeros(64), "acc_c": np.zeros(63)},
                                   ValueError, ["'acc_c'", "(63,)", "(64,)"]),
}


@pytest.mark.parametrize("case", BIND)
def test_bind(case: str) -> None:
    kernel, given, error, facts = BIND[case]
    refused(eagle.deploy(kernel).bind, given, error, facts)


RUN: dict[str, Case] = {
    "cell": (cells.total, {"x": X, "s": np.zeros(1)}, BufferRefused, ["'s'"]),
    "cell of a split kernel": (cells.centre, {"x": X, "s": np.zeros(1)}, BufferRefused, ["'s'"]),
    "runtime bins without extent": (keyed.keyed_nodes, {"k": K, "x": X}, ValueError, ["'acc'", "node="]),
    "bins in an input": (keyed.keyed_add, {"k": np.zeros(100, int), "x": (long := np.ones(100)), "acc": long[36:]},
                         ValueError, ["'acc'", "'x'"]),
    "wide output in an input": (planes.wide_out, {"x": long[:N], "b": long[1:N + 1]}, ValueError, ["'b'", "'x'"]),
    "output in a table": (planes.table, {"i": K, "t": long[:N], "y": long[5:N + 5]}, ValueError, ["'y'", "'t'"]),
    "lanes that are not contiguous": (grids.grid, {"x": ROWS, "y": np.zeros((8, 5)).T}, BufferRefused, ["'y'"]),
}


@pytest.mark.parametrize("case", RUN)
def test_run(case: str) -> None:
    kernel, given, error, facts = RUN[case]
    refused(eagle.deploy(kernel).run, given, error, facts)


@pytest.mark.parametrize("kernel", [keyed.keyed_store, keyed.keyed_add, keyed.keyed_plain, grids.grid_sum_columns,
                                    grids.grid_share, steps.active], ids=lambda kernel: kernel.name)
def test_several_partitions(kernel: Any) -> None:
    for cut in ({"npartitions": 2}, {"partitions": [(0, 20, 40), (20, 20, 40)]}):
        with pytest.raises(ValueError, match="found 2.*wanted 1") as caught:
            eagle.deploy(kernel, **cut)
        assert ("active set" if kernel is steps.active else "cross_sample_write") in str(caught.value)


def test_partitions_of_a_thread_box() -> None:
    plugin = eagle.deploy(grids.grid).plugin
    boxed = SimpleNamespace(**{**vars(plugin), "box": {"axis": 0, "T": 2, "stride": 8}})
    with pytest.raises(ValueError, match="HAWK_BOX=0.*npartitions|npartitions.*HAWK_BOX=0"):
        plan(boxed, structure=HostTeam, partitions=[(0, 8, 16), (8, 8, 16)])


def test_clear_names_what_can_be_cleared() -> None:
    bound = eagle.deploy(keyed.keyed_add).bind(k=K, x=X, acc=np.zeros(64))
    with pytest.raises(ValueError, match=r"'x'.*'acc'"):
        bound.clear("x")
    bound = eagle.deploy(cells.total).bind(x=X, s=np.zeros(1))
    with pytest.raises(ValueError, match=r"'x'.*'s'"):
        bound.clear("x")


def test_rebind_checks_as_bind_does() -> None:
    s = np.zeros(1)
    bound = eagle.deploy(cells.total).bind(x=X, s=s)
    for wrong, facts in (({"s": np.zeros(2)}, ["'s'", "(2,)"]), ({"x": X[:3]}, ["'x'", "3", "40"]),
                         ({"y": X}, ["'y'"]), ({"s_comp": s}, ["'s_comp'"])):
        with pytest.raises(ValueError, match="total.rebind") as caught:
            bound.rebind(**wrong)
        assert all(fact in str(caught.value) for fact in facts)
    bound.launch()
    assert s[0] == X.sum()


def test_a_sample_twice_behind_the_live_ones_is_fine() -> None:
    x, lanes = X.copy(), np.zeros(N, np.int32)
    lanes[:3] = [5, 0, 7]
    eagle.deploy(steps.active).run(x=x, limit=X * 9, terminated=bools(), active_map=lanes,
                                   active_count=np.array([3], np.uint32))
    assert x.tolist() == [v * (2 if i in (0, 5, 7) else 1) for i, v in enumerate(X)]


def test_rebind_keeps_the_extents_of_bind() -> None:
    acc = np.zeros(9)
    bound = eagle.deploy(keyed.keyed_nodes).bind(k=K, x=X, node=9, acc=acc)
    with pytest.raises(ValueError, match=r"'acc': found shape \(11,\), wanted shape \(9,\), as bound"):
        bound.rebind(acc=np.zeros(11))
    bound.rebind(x=-X).launch()
    assert acc.tolist() == np.bincount(K, -X, 9).tolist()


def test_a_broadcast_plane_keeps_its_pattern() -> None:
    bound = eagle.deploy(grids.grid_broadcast).bind(x=ROWS, b=np.ones(8), y=np.zeros((5, 8)))
    with pytest.raises(ValueError, match="'b'"):
        bound.rebind(b=np.ones((5, 1)))


def test_a_launch_of_the_wrong_kind() -> None:
    for bound in (eagle.deploy(cells.total).bind(x=X, s=np.zeros(1)),
                  eagle.deploy(cells.centre).bind(x=X, s=np.zeros(1), y=np.zeros(N))):
        with pytest.raises((ValueError, TypeError), match="stream"):
            bound.launch(stream=1)
