# SPDX-License-Identifier: Apache-2.0
"""Runners of kernels with an active set: cadences, compaction, reorder, and the same bits whatever is done."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import runner_kernels
from test_until_done import RATES, STOPS

import eagle

Array = np.ndarray[Any, Any]


@functools.cache
def plan_of(name: str) -> Any:
    return eagle.deploy(getattr(runner_kernels, name))


def runner_of(name: str, max_steps: int = 100, options: dict[str, Any] | None = None, **changed: Any) -> eagle.Runner:
    given = {"rate": RATES, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)} | changed
    return eagle.until_done(plan_of(name), max_steps=max_steps, **(options or {}), **given)


def runner_with(name: str, **planes: Any) -> eagle.Runner:
    return eagle.until_done(plan_of(name), max_steps=100, **planes)


def stepped(rate: Array, cap: int, y: Array, k: int = 1) -> tuple[Array, Array, int]:
    """State and hits after at most `cap` steps, in launches of k, and the most steps."""
    y, hits, steps = y.copy(), np.zeros(len(y)), 0
    live = np.ones(len(y), bool)
    while live.any() and steps < cap:
        for _ in range(k):
            y[live] = y[live] * rate[live]
            hits[live] += 1.0
            live &= ~(y < 0.1)
        steps += k
    return y, hits, int(hits.max(initial=0))


@pytest.mark.parametrize(("name", "every", "cadence", "launches"), [
    ("decay_active", None, None, 1), ("decay_active_one", None, 16, 16), ("decay_active_one", 32, 32, 32),
    ("decay_active_three", None, 18, 6), ("decay_active_three", 6, 6, 2), ("decay_active_one", np.int64(4), 4, 4)])
def test_cadences(name: str, every: Any, cadence: int | None, launches: int) -> None:
    runner = runner_of(name, options={"every": every})
    assert (runner.every, runner.launches_per_compaction) == (cadence, launches)
    assert "active=True" in repr(runner)
    assert isinstance(runner.active, eagle.ActiveSet) and runner.active.live == 5 and runner.active.n == 5
    assert runner.run().done and runner.result("hits").tolist() == STOPS and runner.active.live == 0


def test_the_active_set_follows_the_mask() -> None:
    mask = np.zeros(5, bool)
    runner = runner_of("decay_active_one", 7, terminated=mask)
    active = runner.active
    assert active is not None and active.mask is mask
    runner.run()
    assert runner.active is active and active.live == 2 and active.map[:2].tolist() == [3, 4]
    runner.reset()
    assert active.live == 5 and not mask.any()


def test_a_set_that_the_loop_keeps_follows_behind_a_run_too() -> None:
    """Whoever holds it need not ask the runner again; 7 steps are fewer than the cadence."""
    runner = runner_of("decay_active_one", 7)
    active = runner.active
    assert active is not None
    runner.host_policy = "band"
    assert runner.run().compactions == 0
    assert active.live == 2 and active.map[:2].tolist() == [3, 4]


def test_a_plain_runner_has_none() -> None:
    assert runner_of("decay").active is None


@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("options", [{}, {"reorder": True}, {"reorder": 0.75}, {"reorder": False}])
@pytest.mark.parametrize("name", ["decay_active", "decay_active_one", "decay_active_three"])
def test_nothing_changes_a_bit(name: str, options: dict[str, Any], policy: str) -> None:
    n = 6000
    rng = np.random.default_rng(11)
    rate = np.where(rng.random(n) < 0.9, 0.3, rng.uniform(0.9, 0.99, n))
    mask, y, hits = np.zeros(n, bool), np.ones(n), np.zeros(n)
    runner = runner_of(name, 120, options, rate=rate, y=y, hits=hits, terminated=mask)
    runner.host_policy = policy
    k = 3 if name.endswith("three") else 1
    for _ in range(2):
        want = stepped(rate, 120, y, k)
        before = hits.copy()
        report = runner.run()
        assert (y == want[0]).all() and (hits - before == want[1]).all()
        assert report.steps == want[2] if k == 1 else report.steps >= want[2]
        assert report.exact_steps or k == 3
        assert (mask == (y < 0.1)).all() and report.finished == mask.sum()
        if options.get("reorder"):
            assert report.reorders > 0 and report.compactions > 0
            assert report.mapped < n * report.steps
        active = runner.active
        assert active is not None and not active.permuted
        assert active.map[:active.live].tolist() == np.flatnonzero(~mask).tolist()
        mask[:] = False
        y[:] = 1.0


@pytest.mark.want("11c")
def test_read_only_inputs_may_be_shared_by_reordering_runs() -> None:
    n = 5000
    rate = np.where(np.arange(n) % 10, 0.3, 0.95)
    rate.flags.writeable = False
    states = [(np.ones(n), np.zeros(n)) for _ in range(2)]
    runners = [runner_of("decay_active_one", 200, {"reorder": True}, rate=rate, y=y, hits=hits) for y, hits in states]
    want = stepped(rate, 200, np.ones(n))
    for runner, (y, hits) in zip(runners, states, strict=True):
        assert runner.run().reorders > 0 and (y == want[0]).all() and (hits == want[1]).all()


@pytest.mark.want("11b")
def test_what_a_reorder_would_move_and_may_not_write_is_refused_before_the_run() -> None:
    y = np.ones(5)
    y.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match="^eagle.until_done: Mutable 'y': found a read-only array"):
        runner_of("decay_active_one", options={"reorder": True}, y=y)


@pytest.mark.want("11a")
def test_reset_of_a_reordering_runner() -> None:
    n = 5000
    rate = np.where(np.arange(n) % 10, 0.3, 0.95)
    y, hits = np.ones(n), np.zeros(n)
    runner = runner_of("decay_active_one", 5, {"reorder": True}, rate=rate, y=y, hits=hits)
    want = stepped(rate, 5, np.ones(n))
    runner.run()
    runner.reset()
    assert (y == want[0]).all() and (hits == want[1]).all() and not runner.terminated.any()
    assert runner.active is not None and runner.active.live == n


def test_a_node_whose_own_plane_would_not_move() -> None:
    given = {"rate": RATES, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)}
    step = [plan_of("decay_active_one"), eagle.opaque(lambda: None, reads={"z": np.zeros(5)})]
    with pytest.raises(ValueError, match=r"^eagle.until_done: plan\[1\], plane 'z'"):
        eagle.until_done(step, max_steps=9, reorder=True, **given)
    seen: list[float] = []
    step[1] = eagle.opaque(lambda: seen.append(given["hits"].sum()), reads={"hits": given["hits"]})
    assert eagle.until_done(step, max_steps=9, reorder=True, **given).run().steps == len(seen) == 9


def test_a_kernel_whose_samples_must_stay_is_not_reordered() -> None:
    n = 5000
    rate = np.where(np.arange(n) % 10, 0.3, 0.95)
    y, hits = np.ones(n), np.zeros(n)
    report = runner_of("decay_active_one", 200, {"reorder": True}, rate=rate, y=y, hits=hits).run()
    assert report.done and (hits == stepped(rate, 200, np.ones(n))[1]).all()


@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("n", [4, 40, 42])
@pytest.mark.parametrize("name", ["in_fours", "in_fours_one"])
def test_samples_in_groups_are_compacted_as_groups(name: str, n: int, policy: str) -> None:
    """A group is live as long as one of its samples is; whoever is done in it stays as it is."""
    stop = np.where(np.arange(n) % 10, 3.0, 40.0)
    y = np.zeros(n)
    runner = runner_with(name, stop=stop, y=y)
    runner.host_policy = policy
    assert runner.active is not None and (runner.active.group, runner.active.n_groups) == (4, -(-n // 4))
    report = runner.run()
    assert (report.done, report.steps, y.tolist()) == (True, 40, stop.tolist())
    runner.terminated[5 % n] = False
    assert runner.active is not None and (runner.active.live, runner.active.map[0]) == (4, 5 % n // 4)


def test_samples_in_groups_are_not_moved() -> None:
    y = np.zeros(8)
    with pytest.raises(ValueError, match="^eagle.until_done: reorder: found 0.5, wanted None: .* groups of 4; leave"):
        eagle.until_done(plan_of("in_fours"), max_steps=9, reorder=True, stop=np.ones(8), y=y)
    with pytest.raises(ValueError, match="^eagle.simulate: reorder: found 0.25"):
        eagle.simulate(runner_kernels.in_fours, stop=np.ones(8), y=y, max_steps=9, reorder=0.25)
    assert not y.any()


def test_who_was_finished_before_a_run_is_no_reason_to_compact() -> None:
    """An automatic kernel's set is compacted behind each launch in which a sample finishes."""
    mask, hits = np.array([False, True, True, False, False]), np.zeros(5)
    runner = runner_of("decay_active", 2, rate=np.full(5, 0.9), hits=hits, terminated=mask)
    runner.host_policy = "band"
    report = runner.run()
    assert (report.compactions, report.steps, hits.tolist()) == (0, 2, [2, 0, 0, 2, 2])


def test_a_report_counts_the_compactions_of_its_own_run() -> None:
    """The backend's engine needs none; what an earlier run of the same runner did is not counted again."""
    rate, mask, y = np.full(5, 0.99), np.zeros(5, bool), np.ones(5)
    runner = runner_of("decay_active_one", 60, rate=rate, y=y, terminated=mask)
    runner.host_policy = "band"
    assert runner.run().compactions == 60 // 16
    runner.host_policy = "auto"
    y[:] = 1.0
    fresh = runner_of("decay_active_one", 60, rate=rate)
    assert runner.run() == fresh.run()
