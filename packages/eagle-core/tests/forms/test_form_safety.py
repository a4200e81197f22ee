# SPDX-License-Identifier: Apache-2.0
"""Nothing is written outside what the caller handed over, whatever changes behind a plan's back."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cell_kernels as cells
import grid_kernels as grids
import hawk.diff
import keyed_kernels as keyed
import numpy as np
import plane_kernels as planes
import pytest
import shape_kernels as kernels
import step_kernels as steps
from hawk import artifact

import eagle


def refuses(call: Callable[[], object], *facts: str) -> None:
    with pytest.raises((eagle.BufferRefused, eagle.LayoutError)) as caught:
        call()
    for fact in facts:
        assert fact in str(caught.value)


@pytest.mark.parametrize("lane_shaped", [True, False])
def test_a_launch_looks_at_the_caller_s_own_array(lane_shaped: bool) -> None:
    """A plane given in the lane shape is packed as a view, which stays what it was when the array does not."""
    shape = (5000, 8) if lane_shaped else (40_000,)
    for change, undo in ((lambda y: y.setflags(write=False), True), (lambda y: y.resize((8,), refcheck=False), False)):
        y = np.zeros(shape)
        bound = eagle.deploy(grids.grid).bind(x=np.ones(shape), y=y)
        bound.launch()
        before = y.copy()
        change(y)
        refuses(bound.launch, "'y'", "rebind(y=...)")
        if undo:
            assert (y == before).all()


def test_a_subclass_cannot_lie_about_its_size() -> None:
    class Long(np.ndarray[Any, Any]):
        shape = property(lambda self: (64,))  # type: ignore[assignment]
        size = property(lambda self: 64)  # type: ignore[assignment]
        nbytes = property(lambda self: 512)  # type: ignore[assignment]

    room = np.zeros(64)
    acc = room[:2].view(Long)
    plan, k, w = eagle.deploy(kernels.histogram), np.arange(64) % 2, np.ones(64)
    plan.run(k=k, w=w, bins=acc)
    plan.bind(k=k, w=w, bins=acc).launch()
    assert room[0] == room[1] == 64 and not room[2:].any()


def test_a_sink_that_shrinks_while_it_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    acc, y = np.zeros(16), np.zeros(4)
    monkeypatch.setattr(warnings, "showwarning", lambda *args, **kw: acc.resize(2, refcheck=False))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.raises(ValueError, match="changed while it was checked"):
            eagle.deploy(kernels.binned).run(k=np.array([5, 15, 1, 1]), w=y, out=y, acc=acc)


def test_a_sink_on_a_declared_lane_axis() -> None:
    x = np.arange(40.0).reshape(5, 8)
    plan = eagle.deploy(kernels.columns)
    assert (plan.run(x=x) == x.sum(0)).all()
    room = np.zeros(16)
    plan.run(x=x, acc=room[:8])
    assert (room[:8] == x.sum(0)).all() and not room[8:].any()
    for bins in (3, 9):
        refuses(lambda: plan.run(x=x, acc=np.zeros(bins)), "'acc'", "shape (8,)")  # noqa: B023


def test_maps_and_offsets_are_checked_at_each_launch(tmp_path: Path) -> None:
    room, live = np.ones(300), np.array([2], np.uint32)
    lanes, x = np.arange(6, dtype=np.int32), room[100:106]
    done, limit = np.zeros(6, bool), np.full(6, 1e9)
    plan = eagle.deploy(steps.active)
    lanes[5] = 20
    with pytest.raises(ValueError, match="the sample 20, wanted samples 0 to 5"):
        plan.bind(x=x, limit=limit, terminated=done, active_map=lanes, active_count=live)
    lanes[5] = 5
    bound = plan.bind(x=x, limit=limit, terminated=done, active_map=lanes, active_count=live)
    for wrong in (50, -3):
        lanes[0], live[0] = wrong, 6
        refuses(bound.launch, "'active_map'", "samples of 0 to 5")
    lanes[0] = 0
    bound.launch()
    assert (x == 2).all() and (np.delete(room, range(100, 106)) == 1).all()

    bundle = artifact.build_bundle([steps.segmented], tmp_path, targets=("host",))
    unit = eagle.load_bundle(bundle.manifest_path)["segmented__k1"]
    offsets, y = np.array([0, 2, 4, 6]), np.zeros(300)
    second = eagle.plan.plan(unit, structure=eagle.exec.HostTeam).bind(x=room[:6], y=y[100:106],
                                                                      dispatch0_offsets=offsets)
    segmented = eagle.plan.plan(unit, structure=eagle.exec.HostTeam)
    for wrong in ([0, 2, 90, 90], [0, 2, 4, 7], [0, 4, 2, 6], [-1, 2, 4, 6], [0, 2**63 - 1, -2, 4]):
        offsets[:] = wrong
        refuses(second.launch, "'dispatch0_offsets'")
        for door in (segmented.run, segmented.bind):
            with pytest.raises(ValueError, match="'dispatch0_offsets': found .* offsets that never fall, from 0 to 6"):
                door(x=room[:6], y=y[100:106], dispatch0_offsets=offsets)
    offsets[:] = [0, 2, 4, 6]
    second.launch()
    assert np.flatnonzero(y).tolist() == [102, 103]


def test_an_output_of_a_segment_is_zero_outside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unit = eagle.load_bundle(artifact.build_bundle([steps.segmented], tmp_path, targets=("host",)).manifest_path)
    segmented = eagle.plan.plan(unit["segmented__k1"], structure=eagle.exec.HostTeam)
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: np.full(shape, 99, dtype))  # memory as it is found
    y = segmented.run(x=np.arange(6.0), dispatch0_offsets=np.array([0, 2, 4, 6]))
    assert y.tolist() == [0, 0, 3, 4, 0, 0]


def test_what_was_bound_stays_what_it_was() -> None:
    """A buffer that shrinks where it lies, grows elsewhere or may no longer be written is refused and named."""
    k, x, i = np.zeros(4, int), np.ones(4), np.zeros(4, int)
    large = 100_000  # cells: memory of this size moves when it grows, and stays when it shrinks

    def bound(kernel: Any, name: str, plane: np.ndarray[Any, Any], **others: Any) -> Callable[[str], None]:
        made = eagle.deploy(kernel).bind(**others, **{name: plane})
        made.launch()

        def refuse(change: str) -> None:
            if change == "read-only":
                plane.setflags(write=False)
            elif change == "moves":
                at, shape = plane.ctypes.data, plane.shape
                plane.resize(1_000_000, refcheck=False)
                plane.resize(shape, refcheck=False)
                assert plane.ctypes.data != at
            else:
                plane.resize(plane.size // 2 if change == "shrinks" else plane.size * 50, refcheck=False)
            left = plane.copy()
            refuses(made.launch, ".launch: ", f"'{name}'", "as it was bound", f"call rebind({name}=...)")
            assert plane.tobytes() == left.tobytes()

        return refuse

    for change in ("shrinks", "grows"):
        bound(planes.table, "t", np.ones(large), i=i, y=np.zeros(4))(change)
    for change in ("shrinks", "grows", "read-only"):
        bound(keyed.keyed_nodes, "acc", np.zeros(large), k=k, x=x)(change)
        bound(keyed.keyed_nodes, "acc_c", np.zeros(large), k=k, x=x, acc=np.zeros(large))(change)
        bound(planes.wide_out, "b", np.zeros(large), x=x)(change)
        bound(cells.total_vector, "s", np.zeros(3), v=np.ones((3, 4)))(change)
    for change in ("grows", "moves", "read-only"):
        bound(cells.total, "s", np.zeros(1), x=x)(change)


def test_branches_are_counted_once() -> None:
    mix, k = np.zeros(3, np.uint32), np.arange(1000) % 3
    eagle.deploy(kernels.chosen_share).run(k=k, x=np.ones(1000), dispatch0_mix=mix)
    assert mix.tolist() == [334, 333, 333]


def test_a_handler_may_launch_what_was_just_refused() -> None:
    """A signal arrives while a checked launch makes its exception: the same plan can be launched there."""
    done = subprocess.run([sys.executable, "-c", f"""
import sys; sys.path[:0] = {[str(Path(__file__).parent)]!r}
import signal, numpy as np, eagle, shape_kernels
bound = eagle.deploy(shape_kernels.table_total).bind(i=np.array([9]), t=np.ones(3), s=np.zeros(1))
def refused(*args):
    try:
        with eagle.exec.checking():
            bound.launch()
    except eagle.OutOfBounds:
        pass
signal.signal(signal.SIGALRM, refused)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(1000):
    refused()
signal.setitimer(signal.ITIMER_REAL, 0)
"""], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr


def test_a_derivative_depends_on_nothing_that_was_deployed_before() -> None:
    """Its primal is built in the same precision, and without the cut of the derivative's plan."""
    derivative = hawk.Kernel("histogram_vjp", hawk.diff.vjp(kernels.histogram))
    eagle.deploy(derivative, npartitions=2)
    units = [eagle.deploy(derivative, scalar_type=precision).plugin.derivative["primal_unit"]
             for precision in ("float64", "float32", "float64")]
    assert units[0] == units[2] != units[1] and derivative.sinks.primal_unit is None
    again = hawk.Kernel("histogram_vjp", hawk.diff.vjp(kernels.histogram))
    assert eagle.deploy(again, scalar_type="float32").plugin.derivative["primal_unit"] == units[1]


def test_clear_refuses_what_became_read_only() -> None:
    bins = np.ones(4)
    bound = eagle.deploy(kernels.histogram).bind(k=np.zeros(3, int), w=np.ones(3), bins=bins)
    bins.setflags(write=False)
    refuses(lambda: bound.clear("bins"), ".clear", "'bins'", "may no longer be written")


@pytest.mark.parametrize("value", [np.void(b"12345678"), np.timedelta64(5, "s"), np.str_("1"), np.complex128(1)])
def test_odd_numbers(value: Any) -> None:
    plan, x = eagle.deploy(kernels.narrow), np.ones(3)
    with pytest.raises(TypeError, match=r"narrow\(\): Param 'n'"):
        plan(x, value, 1)


def test_an_integer_behind_a_long_double() -> None:
    with pytest.raises(TypeError, match="Param 'n'"):
        eagle.deploy(kernels.narrow)(np.ones(3), np.longdouble(2) + np.longdouble(2) ** -60, 1)


def test_an_own_column_beside_a_keyed_sink_is_measured() -> None:
    """The access class of the keyed sink says nothing of the other one."""
    room, x, k = np.zeros(100), np.ones(50), np.zeros(50, int)
    plan = eagle.deploy(kernels.own_and_keyed)
    for door in (plan.run, lambda **planes: plan.bind(**planes, acc=np.zeros(4))):
        refuses(lambda: door(x=x, k=k, b=room[:49]), "'b'", "49 cells", "at least 50")  # noqa: B023
    plan.run(x=x, k=k, b=room[:60])
    assert (room[:50] == 2).all() and not room[50:].any()


def test_each_stage_says_where_it_may_run() -> None:
    """The second stage writes across samples: one range, as for a kernel of one stage."""
    with pytest.raises(ValueError, match="npartitions: found 3 for a cross_sample_write kernel"):
        eagle.deploy(kernels.keyed_shares, npartitions=3)
    with pytest.raises(ValueError, match="cross_sample_write"):
        eagle.deploy(kernels.keyed_shares, partitions=[(500, 500, 1000), (0, 500, 1000)])
    x, k = np.arange(1.0, 1001.0), np.arange(1000) % 4
    expected = np.zeros(4)
    for key, share in zip(k, x / x.sum(), strict=True):
        expected[key] += share
    assert (eagle.deploy(kernels.keyed_shares).run(x=x, k=k) == expected).all()


def test_a_table_that_stands_for_one_value() -> None:
    plan = eagle.deploy(hawk.diff.param_planes(kernels.scaled))
    x = np.arange(3.0)
    for one in (5.0, np.float64(5), [5.0], np.array([5.0])):
        assert (plan.run(x=x, a=one) == 5 * x).all() and (plan(x, a=one) == 5 * x).all()
    for wrong in (np.zeros(0), np.ones(3), np.ones((1, 1))):
        for door in (plan.run, plan, lambda **planes: plan.bind(**planes, out=np.zeros(3))):
            refuses(lambda: door(x=x, a=wrong), "'a'", f"shape {wrong.shape}")  # noqa: B023


def test_a_companion_beside_a_sink_that_is_left_out() -> None:
    k, x = np.arange(40) % 4, np.ones(40)
    plugin = eagle.deploy(kernels.histogram).plugin
    del plugin.plane_axes["bins_c"]
    plan = eagle.plan.plan(plugin, structure=eagle.exec.HostTeam)
    for wrong in (1, 5):
        refuses(lambda: plan.run(k=k, w=x, bin=4, bins_c=np.zeros(wrong)), "'bins_c'", "shape (4,)")  # noqa: B023
    assert (plan.run(k=k, w=x, bin=4, bins_c=np.zeros(4)) == 10).all()


def test_bound_planes_are_what_was_packed() -> None:
    """Integers that bind widens are a copy: later writes are not seen, also not by a rebind of another plane."""
    k, bins = np.arange(4, dtype=np.int32), np.zeros(4)
    bound = eagle.deploy(kernels.histogram).bind(k=k, w=np.ones(4), bins=bins)
    assert bound.planes["k"].dtype == np.int64 and bound.planes["bins"] is bins
    k[:] = 0
    bound.rebind(w=np.full(4, 2.0)).launch()
    assert (bins == 2).all()
