# SPDX-License-Identifier: Apache-2.0
"""until_done: each sample stops by itself, and the report says what was done."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import runner_kernels

import eagle

RATES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
STOPS = [4, 5, 7, 11, 22]


@functools.cache
def plan_of(name: str) -> Any:
    return eagle.deploy(getattr(runner_kernels, name))


def serial(rate: np.ndarray[Any, Any], y: np.ndarray[Any, Any], hits: np.ndarray[Any, Any],
           mask: np.ndarray[Any, Any], cap: int, floor: float = 0.1) -> int:
    """Step each sample by itself, in place; the most steps one took."""
    most = 0
    for i in range(len(rate)):
        steps = 0
        while steps < cap and not mask[i]:
            y[i] = y[i] * rate[i]
            hits[i] += 1.0
            mask[i] = y[i] < floor
            steps += 1
        most = max(most, steps)
    return most


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["decay", "decay_one", "decay_active"])
@pytest.mark.parametrize("cap", [1, 2, 3, 5, 7, 22, 63, 64, 65, 100, 2**40])
@pytest.mark.want("5a")
@pytest.mark.want("5.1")
def test_each_sample_stops_by_itself_and_the_report_is_exact(name: str, cap: int) -> None:
    y, hits = np.ones(5), np.zeros(5)
    report = eagle.run_until_done(plan_of(name), max_steps=cap, rate=RATES, floor=0.1, y=y, hits=hits)
    y_, hits_, mask_ = np.ones(5), np.zeros(5), np.zeros(5, bool)
    steps = serial(RATES, y_, hits_, mask_, cap)
    assert (y == y_).all() and (hits == hits_).all()
    assert (report.n, report.finished, report.done) == (5, mask_.sum(), mask_.all())
    assert (report.steps, report.exact_steps) == (steps, True)
    assert sum(k * launches for k, launches in report.launches_by_k.items()) == steps


def test_a_fixed_k_runs_over_by_less_than_k() -> None:
    y, hits = np.ones(5), np.zeros(5)
    report = eagle.run_until_done(plan_of("decay_four"), max_steps=5, rate=RATES, floor=0.1, y=y, hits=hits)
    assert hits.tolist() == [4, 5, 7, 8, 8]
    assert (report.steps, report.exact_steps, report.launches_by_k, report.finished) == (8, True, {4: 2}, 3)


def test_runs_go_on_from_where_they_stopped() -> None:
    y, hits = np.ones(5), np.zeros(5)
    runner = eagle.until_done(plan_of("decay"), max_steps=7, rate=RATES, floor=0.1, y=y, hits=hits)
    found = [(runner.run().finished, hits.tolist()) for _ in range(4)]
    assert found == [(3, [4, 5, 7, 7, 7]), (4, [4, 5, 7, 11, 14]), (4, [4, 5, 7, 11, 21]), (5, [4, 5, 7, 11, 22])]
    again = runner.run()
    assert (again.done, again.launches, again.steps, again.exact_steps) == (True, 0, 0, True)
    assert runner.result("y") is y and runner.result("floor") == 0.1
