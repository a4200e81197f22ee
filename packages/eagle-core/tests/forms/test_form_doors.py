# SPDX-License-Identifier: Apache-2.0
"""What the forms promise beside their numbers: fresh results, bound plans, state between launches, threads."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cell_kernels as cells
import derived_kernels as derived
import forms
import grid_kernels as grids
import keyed_kernels as keyed
import numpy as np
import plane_kernels as planes
import pytest
import serial
import step_kernels as steps
from hawk import artifact

import eagle
from eagle.exec import HostTeam
from eagle.plan import plan

X = forms.cancelling(np.random.default_rng(5), np.float64, 1000)
KEYS = np.random.default_rng(6).integers(0, 64, 1000)


def total(x: np.ndarray[Any, Any]) -> float:
    return float(serial.sum_over_samples(x))


def in_threads(*work: Callable[[], None]) -> None:
    """Runs each on a thread of its own; the first exception is raised here."""
    errors: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# ---- reductions over samples -----------------------------------------------------------------------------------------


def test_each_run_returns_a_fresh_cell() -> None:
    deployed = eagle.deploy(cells.total)
    first, second = deployed.run(x=X), deployed.run(x=X[:7])
    assert first.shape == second.shape == (1,) and first is not second
    assert first[0] == total(X) and second[0] == total(X[:7])


@pytest.mark.parametrize("policy", ["compensated", "ordered", "auto"])
def test_every_policy_gives_the_canonical_sum(policy: str) -> None:
    for n in (1, 33, 1000):
        assert eagle.deploy(cells.total, policy=policy).run(x=X[:n])[0] == total(X[:n])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_several_leaves(dtype: str) -> None:
    """More than 4096 rows of 32 samples."""
    rng = np.random.default_rng(0)
    wild, plain = forms.cancelling(rng, forms.DTYPES[dtype], 300_001), rng.uniform(1, 2, 300_001).astype(dtype)
    for parts in (1, 3):
        deployed = eagle.deploy(cells.total, scalar_type=dtype, npartitions=parts)
        assert deployed.run(x=wild)[0] == serial.sum_over_samples(wild)
        serial.check_sum(plain, deployed.run(x=plain)[0])


@pytest.mark.parametrize("cut", [[(0, 1000)], [(33, 967), (0, 33)], [(0, 1), (1, 30), (31, 1), (32, 500), (532, 468)],
                                 [(500, 0), (0, 500), (500, 500)]])
def test_partitions_may_start_inside_a_row_of_samples(cut: list[tuple[int, int]]) -> None:
    parts = [(base, count, 1000) for base, count in cut]
    got = eagle.deploy(cells.moments, partitions=parts).run(x=X)
    assert got["first"][0] == total(X) and got["second"][0] == total(X * X)
    assert got["doubled"].tobytes() == (X * 2).tobytes()


@pytest.mark.parametrize("x", [
    [math.inf, 1.0], [math.inf, -math.inf], [math.nan, 1.0], [-0.0], [1e308] * 40, [1e308, 1e308, -1e308],
    [1.0] * 40 + [math.inf], [1e16, 1.0, -1e16, 1.0], [5e-324] * 33,
], ids=repr)
def test_sums_of_unusual_numbers(x: list[float]) -> None:
    array = np.array(x)
    np.testing.assert_array_equal(eagle.deploy(cells.total).run(x=array), [serial.sum_over_samples(array)])


def test_extremes_ignore_nan_whatever_its_place() -> None:
    x = np.full(100, math.nan)
    x[40:] = X[40:100]
    x[50] = math.nan
    assert eagle.deploy(cells.highest).run(x=x)[0] == X[40:100][np.arange(60) != 10].max()
    assert eagle.deploy(cells.lowest).run(x=x)[0] == X[40:100][np.arange(60) != 10].min()
    assert eagle.deploy(cells.highest).run(x=np.array([-math.inf]))[0] == -math.inf
    assert eagle.deploy(cells.lowest).run(x=np.array([math.inf, 3.0]))[0] == 3.0


def test_a_cell_is_written_in_place_by_bind_and_call() -> None:
    cell = np.full(1, math.nan)
    assert eagle.deploy(cells.total)(X, s=cell) is cell and cell[0] == total(X)
    bound = eagle.deploy(cells.total).bind(x=X, s=(cell := np.full(1, math.nan)))
    bound.launch()
    bound.launch()  # written, not added to
    assert cell[0] == total(X)
    bound.rebind(x=-X).launch()
    assert cell[0] == total(-X)
    other = np.full(1, math.nan)
    bound.rebind(s=other).launch()
    assert other[0] == total(-X) and bound.planes["s"] is other
    bound.clear("s")
    assert other[0] == 0.0 and cell[0] == total(-X)


def test_inputs_of_a_bound_cell_may_change_between_launches() -> None:
    x, cell = X.copy(), np.zeros(1)
    bound = eagle.deploy(cells.total).bind(x=x, s=cell)
    for scale in (1.0, -3.0, 0.5):
        x[:] = X * scale
        bound.launch()
        assert cell[0] == total(x)


@pytest.mark.smoke
def test_threads_share_a_plan_with_cells() -> None:
    """Each run has rows of its own, whatever the other threads sum at the time."""
    deployed = eagle.deploy(cells.moments, npartitions=2)
    data = {n: np.random.default_rng(n).normal(size=n) for n in (1, 33, 1000, 40_000)}
    expected = {n: (total(x), total(x * x)) for n, x in data.items()}

    def work(seed: int) -> Callable[[], None]:
        def run() -> None:
            for i in range(40):
                n = list(data)[(seed + i) % 4]
                got = deployed.run(x=data[n])
                assert (got["first"][0], got["second"][0]) == expected[n]
                tree = deployed(data[n])
                assert (tree["first"][0], tree["second"][0]) == expected[n]
        return run

    in_threads(*(work(seed) for seed in range(4)))


@pytest.mark.smoke
@pytest.mark.parametrize("kernel", [cells.total, cells.centre], ids=["cell", "stages"])
def test_a_bound_plan_with_cells_is_launched_from_two_threads(kernel: Any) -> None:
    cell, y = np.zeros(1), np.zeros(1000)
    given = {"x": X, "s": cell, **({"y": y} if kernel is cells.centre else {})}
    bound = eagle.deploy(kernel).bind(**given)

    def work() -> None:
        for _ in range(200):
            bound.launch()

    in_threads(work, work)
    want = total(X) if kernel is cells.total else total(X / 1000.0)
    assert cell[0] == want
    assert kernel is cells.total or y.tobytes() == (X - want).tobytes()


# ---- split kernels ---------------------------------------------------------------------------------------------------


def test_a_bound_split_kernel() -> None:
    s, y = np.full(1, math.nan), np.full(1000, math.nan)
    deployed = eagle.deploy(cells.centre)
    bound = deployed.bind(x=X, s=s, y=y)
    assert bound.n == 1000 and set(bound.names) == {"x", "s", "y"} == bound.planes.keys()
    assert len(bound.stages) == 2 and bound.plan is deployed.host and bound.planes["y"] is y
    bound.launch()
    mean = total(X / 1000.0)
    assert s[0] == mean and y.tobytes() == (X - mean).tobytes()
    bound.rebind(x=X * 2).launch()
    assert s[0] == total(X * 2 / 1000.0) and y.tobytes() == (X * 2 - s[0]).tobytes()
    bound.clear("s", "y")
    assert s[0] == 0 and not y.any()


def test_internal_cells_are_not_the_callers() -> None:
    bound = eagle.deploy(cells.normalise).bind(x=X, y=(y := np.zeros(1000)))
    assert set(bound.names) == {"x", "y"}
    bound.launch()
    assert y.tobytes() == (X / total(X)).tobytes()
    for door in (eagle.deploy(cells.normalise).run, eagle.deploy(cells.normalise).bind):
        with pytest.raises(ValueError, match="cut0"):
            door(x=X, y=y, cut0=np.zeros(1))


def test_keyed_planes_between_stages_start_at_zero_each_time() -> None:
    x = np.abs(X).reshape(-1, 8)
    deployed = eagle.deploy(grids.grid_share)
    first, second = deployed.run(x=x), deployed.run(x=x)
    assert first.tobytes() == second.tobytes() and first.shape == x.shape
    bound = deployed.bind(x=x, out=(out := np.zeros_like(x)))
    bound.launch()
    bound.launch()
    assert out.tobytes() == first.tobytes()


# ---- bound plans -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "given"), [
    (planes.table, {"i": KEYS % 50, "t": np.arange(50.0), "y": np.zeros(1000)}),
    (planes.wide_out, {"x": X, "b": np.zeros(1000)}),
    (keyed.keyed_add, {"k": KEYS, "x": X, "acc": np.zeros(64)}),
    (cells.total, {"x": X, "s": np.zeros(1)}),
    (grids.grid, {"x": X, "y": np.zeros(1000)}),
], ids=lambda value: getattr(value, "name", ""))
def test_what_a_bound_plan_shows(kernel: Any, given: dict[str, Any]) -> None:
    deployed = eagle.deploy(kernel)
    bound = deployed.bind(**given)
    assert bound.n == 1000 and bound.plan is deployed.host and bound.partitions == ((0, 1000, 1000),)
    assert set(given) <= set(bound.names) == bound.planes.keys()
    assert all(bound.planes[name] is plane for name, plane in given.items())
    with pytest.raises(TypeError):
        bound.planes["x"] = X
    assert bound.device_capacity() == 0 and bound.entry_reports() == ()
    assert bound.persist_entry() is None and bound.range_entry() is None


def test_keyed_sums_go_on_and_start_again() -> None:
    """Whole numbers, so that no order of adding matters."""
    x, want = np.arange(1000.0), np.bincount(KEYS, np.arange(1000.0), 64)
    bound = eagle.deploy(keyed.keyed_add).bind(k=KEYS, x=x, acc=(acc := np.zeros(64)))
    bound.launch()
    assert acc.tolist() == want.tolist()
    bound.launch()
    assert acc.tolist() == (want * 2).tolist()
    bound.clear("acc")
    assert not acc.any()
    bound.launch()
    assert acc.tolist() == want.tolist()
    bound.rebind(acc=(other := np.ones(64))).launch()
    assert other.tolist() == (want + 1).tolist() and acc.tolist() == want.tolist()


def test_clear_and_rebind_forget_what_rounding_lost() -> None:
    x, zero = np.array([1e16, 1.0, 1.0]), np.zeros(3, np.int64)
    bound = eagle.deploy(keyed.keyed_add).bind(k=zero, x=x, acc=(acc := np.zeros(64)))
    bound.launch()
    assert acc[0] == 1e16 + 2
    bound.clear("acc")
    bound.rebind(x=np.array([1.0, 0.0, 0.0])).launch()
    assert acc[0] == 1.0
    bound.rebind(acc=(other := np.zeros(64))).launch()
    assert other[0] == 1.0


def test_a_companion_of_the_callers_own_is_not_folded() -> None:
    x, zero = np.array([1e16, 1.0, 1.0]), np.zeros(3, np.int64)
    acc, lost = np.zeros(64), np.zeros(64)
    deployed = eagle.deploy(keyed.keyed_add)
    assert deployed.run(k=zero, x=x, acc=acc, acc_c=lost) is acc
    assert (acc[0], lost[0]) == (1e16, 2.0)
    bound = deployed.bind(k=zero, x=x, acc=(acc := np.zeros(64)), acc_c=(lost := np.zeros(64)))
    bound.launch()
    assert (acc[0], lost[0]) == (1e16, 2.0) and bound.planes["acc_c"] is lost


def test_sinks_left_out_are_fresh_and_zero() -> None:
    deployed = eagle.deploy(keyed.keyed_store)
    first, second = (deployed.run(k=np.array([3]), x=np.array([v])) for v in (1.0, 2.0))
    assert first.shape == (64,) and np.flatnonzero(first).tolist() == [3] and second[3] == 2.0 and first[3] == 1.0
    wide = eagle.deploy(planes.wide_out)
    assert wide.run(x=X[:3]).tolist() == (X[:3] * 2).tolist()


def test_a_wide_output_may_be_longer_than_the_samples() -> None:
    b = np.full(7, 5.0)
    assert eagle.deploy(planes.wide_out).run(x=np.arange(4.0), b=b) is b
    assert b.tolist() == [0, 2, 4, 6, 5, 5, 5]


def test_samples_are_not_counted_by_tables() -> None:
    deployed, t = eagle.deploy(planes.constant), np.arange(9.0)
    assert deployed.run(t=t, y=(y := np.zeros(4))) is y and y.tolist() == [1, 1, 1, 1]
    for door in (deployed.run, deployed):
        with pytest.raises(ValueError, match="y=np.zeros"):
            door(t=t)


def test_a_gradient_has_the_shape_of_its_table() -> None:
    given = {"i": KEYS % 50, "x": X, "bar_y": np.ones(1000), "t": np.ones((5, 10))}
    got = eagle.deploy(derived.weighted_vjp).run(**given)
    want = serial.keyed_sum(np.zeros(50), (KEYS % 50).tolist(), X, False)
    assert got["bar_t"].shape == (5, 10) and got["bar_t"].tobytes() == want.tobytes()


def test_the_seed_of_a_jump_is_zero_when_left_out() -> None:
    deployed = eagle.deploy(derived.two_thresholds_vjp)
    given = {"x": X, "at": X[::-1].copy(), "bar_y": np.ones(1000)}
    got = [deployed.run(**given), deployed.run(**given, jump_seed=0), deployed(**given)]
    sinks = {"bar_x": np.zeros(1000), "bar_at": np.zeros(1000)}
    deployed.bind(**given, **sinks).launch()
    assert len({(r["bar_x"].tobytes(), r["bar_at"].tobytes()) for r in (*got, sinks)}) == 1
    other = deployed.run(**given, jump_seed=1)
    assert other["bar_at"].tobytes() != sinks["bar_at"].tobytes()


# ---- steps, live sets, branches --------------------------------------------------------------------------------------


def test_a_step_word_of_the_callers_own() -> None:
    for word, want in ((1, [2.0, 4.0]), (3, [8.0, 4.0])):
        x, done = np.array([1.0, 2.0]), np.zeros(2, bool)
        eagle.deploy(steps.automatic).bind(x=x, limit=np.array([100.0, 3.0]), terminated=done,
                                           fused_steps=np.array([word])).launch()
        assert x.tolist() == want and done.tolist() == [False, True]


def test_a_bound_live_set_is_read_at_each_launch() -> None:
    x, done = np.ones(6), np.zeros(6, bool)
    live, count = np.array([1, 3, 5, 0, 2, 4], np.int32), np.array([3], np.uint32)
    bound = eagle.deploy(steps.active).bind(x=x, limit=np.full(6, 100.0), terminated=done, active_map=live,
                                            active_count=count)
    bound.launch()
    assert x.tolist() == [1, 2, 1, 2, 1, 2]
    count[0] = 1
    bound.launch()
    assert x.tolist() == [1, 4, 1, 2, 1, 2]
    live[:] = np.arange(6)
    count[0] = 9  # more than there are samples
    bound.launch()
    assert x.tolist() == [2, 8, 2, 4, 2, 4]


def test_counters_left_out_are_made_and_not_returned() -> None:
    given = {"k": KEYS % 3, "x": X}
    for call in (eagle.deploy(steps.counted).run, eagle.deploy(steps.counted)):
        assert isinstance(call(**given), np.ndarray)
    y, mix = np.zeros(1000), np.zeros(3, np.uint32)
    eagle.deploy(steps.counted).bind(**given, y=y).launch()
    bound = eagle.deploy(steps.counted).bind(**given, y=y, dispatch0_mix=mix)
    bound.launch()
    bound.launch()
    assert mix.tolist() == (2 * np.bincount(KEYS % 3)).tolist()


def test_the_units_of_a_segmented_dispatch(tmp_path: Path) -> None:
    """Each unit runs the samples of one branch, which the caller has put side by side."""
    with pytest.raises(ValueError, match="segmented__k0") as caught:
        eagle.deploy(steps.segmented)
    assert all(word in str(caught.value) for word in ("segmented__k1", "segmented__k2", "load_bundle", "plan"))
    artifact.build_bundle([steps.segmented], tmp_path, targets=("host",))
    units = eagle.load_bundle(tmp_path)
    assert set(units) == {"segmented__cls", "segmented__k0", "segmented__k1", "segmented__k2"}
    k = np.random.default_rng(0).integers(-2, 6, 1000)
    branch = plan(units["segmented__cls"], structure=HostTeam).run(k=k)
    assert branch.tolist() == np.clip(k, 0, 2).tolist()
    order = np.argsort(branch, kind="stable")
    x, y = X[order], np.zeros(1000)
    offsets = np.searchsorted(branch[order], np.arange(4))
    for unit, want in enumerate((x * 2, x + 1, x * x)):
        plan(units[f"segmented__k{unit}"], structure=HostTeam).run(x=x, y=y, dispatch0_offsets=offsets)
        lo, hi = offsets[unit:unit + 2]
        assert y[lo:hi].tobytes() == want[lo:hi].tobytes() and not y[hi:].any()


# ---- lane spaces -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8,), (1, 8), (125, 1), (1, 1), (125, 8)], ids=str)
def test_inputs_are_broadcast_over_the_lanes(shape: tuple[int, ...]) -> None:
    x, b = X.reshape(125, 8), np.random.default_rng(1).normal(size=shape)
    deployed = eagle.deploy(grids.grid_broadcast)
    for got in (deployed.run(x=x, b=b), deployed(x=x, b=b)):
        assert got.shape == (125, 8) and got.tobytes() == (x + b).tobytes()
    bound = deployed.bind(x=x, b=b, y=(y := np.zeros((125, 8))))
    bound.launch()
    assert y.tobytes() == (x + b).tobytes()
    bound.rebind(b=-b).launch()
    assert y.tobytes() == (x - b).tobytes()


def test_lane_shaped_and_flat_planes_go_together() -> None:
    x, y = X.reshape(125, 8), np.zeros(1000)
    assert eagle.deploy(grids.grid).run(x=x, y=y) is y
    lanes = x + np.arange(8) * 0.5
    assert y.tobytes() == lanes.tobytes()
    assert eagle.deploy(grids.grid).run(x=X, y=(y := np.zeros((125, 8)))) is y and y.tobytes() == lanes.tobytes()


# ---- integers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.uint8, np.uint32])
def test_narrower_integers_are_widened(kind: type) -> None:
    i = np.array([0, 3, 2], kind)
    assert eagle.deploy(planes.table).run(i=i, t=np.arange(5.0)).tolist() == [0, 3, 2]


def test_bind_widens_an_index_plane_by_a_copy() -> None:
    i, y = np.array([0, 3, 2], np.int32), np.zeros(3)
    bound = eagle.deploy(planes.table).bind(i=i, t=np.arange(5.0), y=y)
    i[:] = 1  # not seen
    bound.launch()
    assert y.tolist() == [0, 3, 2]


def test_integer_parameters_are_exact() -> None:
    deployed, one = eagle.deploy(planes.int_params), np.ones(1)
    for n in (3, 3.0, np.int8(3), np.uint64(3), np.float32(3), np.array(3)):
        assert deployed(one, n, 2).tolist() == [5]
    assert deployed(one, -(2**31), 0).tolist() == [-(2.0**31)]
