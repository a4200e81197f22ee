# SPDX-License-Identifier: Apache-2.0
"""Steps of several kernels and of nodes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import runner_kernels
from test_until_done import RATES, STOPS

import eagle


@functools.cache
def plan_of(name: str) -> Any:
    return eagle.deploy(getattr(runner_kernels, name))


def planes(**more: Any) -> dict[str, Any]:
    return {"rate": RATES, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)} | more


@pytest.mark.smoke
@pytest.mark.parametrize("first", ["decay_one", "decay"])
def test_a_finish_takes_effect_inside_the_step(first: str) -> None:
    given = planes(e=np.zeros(5))
    report = eagle.run_until_done([plan_of(first), plan_of("gauge")], max_steps=100, **given)
    assert given["hits"].tolist() == STOPS
    y, e = np.ones(5), np.zeros(5)
    for i, rate in enumerate(RATES):
        while y[i] >= 0.1:
            y[i] = y[i] * rate
            if y[i] >= 0.1:
                e[i] = y[i] * y[i]
    assert (given["y"] == y).all() and (given["e"] == e).all()
    assert (report.launches, report.launches_by_k, report.steps, report.exact_steps) == (22, {1: 22}, 22, True)


def test_a_finisher_at_the_end_lets_all_follow() -> None:
    given = {"rate": RATES, "floor": 0.1, "y": np.ones(5), "e": np.zeros(5)}
    report = eagle.run_until_done([plan_of("shrink"), plan_of("gauge"), plan_of("stop_below")], max_steps=100, **given)
    assert report.done and report.steps == 22 and (given["e"] == given["y"] * given["y"]).all()


def test_a_kernel_without_a_mask_runs_for_all_in_every_step() -> None:
    given = planes(ticks=np.zeros(5))
    eagle.run_until_done([plan_of("decay_one"), plan_of("ticking")], max_steps=100, **given)
    assert given["ticks"].tolist() == [22.0] * 5


def test_a_sum_adds_only_who_runs() -> None:
    given = planes(s=np.zeros(1))
    eagle.run_until_done([plan_of("total"), plan_of("decay_one")], max_steps=100, **given)
    assert given["s"].tolist() == [0.9 ** 21 * 1.0] or np.isclose(given["s"][0], 0.9 ** 21)


def test_several_finish() -> None:
    given = planes(e=np.zeros(5))
    one, two = plan_of("decay_one"), plan_of("stop_below")
    report = eagle.run_until_done([one, two], max_steps=100, **{k: v for k, v in given.items() if k != "e"})
    assert report.done and report.finished == 5 and given["hits"].tolist() == STOPS


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_one_array_a_name_with_any_threads(threads: int) -> None:
    rng = np.random.default_rng(5)
    n = 3001
    rate = rng.uniform(0.3, 0.95, n)
    given = {"rate": rate, "floor": 0.1, "y": np.ones(n), "hits": np.zeros(n), "e": np.zeros(n)}
    runner = eagle.until_done([plan_of("decay_one"), plan_of("gauge")], max_steps=1000, **given)
    runner.host_threads = threads
    before = eagle.num_threads()
    runner.run()
    assert eagle.num_threads() == before
    hits, y = np.zeros(n), np.ones(n)
    while (live := y >= 0.1).any():
        y[live] = y[live] * rate[live]
        hits[live] += 1.0
    assert (given["hits"] == hits).all() and (given["y"] == y).all()


def test_nodes_are_called_once_a_step_at_their_place() -> None:
    given = planes()
    seen: list[list[float]] = []
    node = eagle.opaque(lambda: seen.append(given["hits"].tolist()), reads={"hits": given["hits"]})
    report = eagle.run_until_done([node, plan_of("decay_one")], max_steps=100, **given)
    assert report.steps == len(seen) == 22 and report.exact_steps
    assert seen == [[float(min(step, stop)) for stop in STOPS] for step in range(22)]
    seen.clear()
    again = planes()
    other = eagle.opaque(lambda: seen.append(again["hits"].tolist()), reads={"hits": again["hits"]})
    eagle.run_until_done([plan_of("decay_one"), other], max_steps=3, **again)
    assert seen == [[1.0] * 5, [2.0] * 5, [3.0] * 5]


def test_an_exception_of_a_node_leaves_a_runner_that_goes_on() -> None:
    given = planes()
    calls = 0

    def third() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise LookupError("the third")

    runner = eagle.until_done([plan_of("decay_one"), eagle.opaque(third)], max_steps=100, **given)
    with pytest.raises(LookupError, match="the third"):
        runner.run()
    assert given["hits"].tolist() == [3.0] * 5
    report = runner.run()
    assert report.done and given["hits"].tolist() == STOPS and report.steps == 19


def test_a_node_that_runs_the_runner_is_told_that_it_is_busy() -> None:
    found: list[BaseException] = []

    def nested() -> None:
        for method in (runner.run, runner.reset):
            try:
                method()
            except eagle.Busy as error:
                found.append(error)

    runner = eagle.until_done([plan_of("decay_one"), eagle.opaque(nested)], max_steps=1, **planes())
    assert runner.run().steps == 1
    assert [str(error).split(":")[0] for error in found] == ["Runner.run", "Runner.reset"]
    assert runner.run().steps == 1


def test_stop_from_a_node() -> None:
    given = planes()
    runner = eagle.until_done([plan_of("decay_one"), eagle.opaque(lambda: runner.stop())], max_steps=100, **given)
    report = runner.run()
    assert (report.done, report.steps, report.exact_steps) == (False, 1, True)
    assert given["hits"].tolist() == [1.0] * 5
    assert runner.run().steps == 1


def test_the_step_is_a_tuple_of_bound_plans() -> None:
    runner = eagle.until_done([plan_of("decay_one"), plan_of("gauge")], max_steps=100, **planes(e=np.zeros(5)))
    assert isinstance(runner.step, tuple) and [bound.n for bound in runner.step] == [5, 5]
    assert (runner.steps_per_launch, runner.auto, runner.fused_steps, runner.policy) == (1, False, None, None)
    assert all(isinstance(bound, eagle.BoundPlan) for bound in runner.step)


def test_a_node_that_moves_a_plane_ends_the_run() -> None:
    given = planes()

    def grow() -> None:
        given["y"].flags.writeable = False

    runner = eagle.until_done([plan_of("decay_one"), eagle.opaque(grow)], max_steps=100, **given)
    with pytest.raises(eagle.BufferRefused, match="plane 'y': found an array that moved in the middle of a run"):
        runner.run()
    assert given["hits"].tolist() == [1.0] * 5
    with pytest.raises(eagle.BufferRefused, match="^Runner.run: Mutable 'y'"):
        runner.run()


@pytest.mark.parametrize("options", [{}, {"reorder": 0.75}])
def test_several_kernels_over_an_active_set(options: dict[str, Any]) -> None:
    n = 5000
    rate = np.where(np.arange(n) % 10, 0.3, 0.95)
    given = {"rate": rate, "floor": 0.1, "y": np.ones(n), "hits": np.zeros(n), "ticks": np.zeros(n)}
    report = eagle.run_until_done([plan_of("decay_active_one"), plan_of("ticking")], max_steps=90, **options, **given)
    y, hits, steps = np.ones(n), np.zeros(n), 0
    while (live := y >= 0.1).any():
        y[live] = y[live] * rate[live]
        hits[live] += 1.0
        steps += 1
    assert (given["y"] == y).all() and (given["hits"] == hits).all() and given["ticks"].tolist() == [steps] * n
    assert (report.steps, report.launches_by_k) == (steps, {1: steps})
    assert (report.reorders > 0) == bool(options)
