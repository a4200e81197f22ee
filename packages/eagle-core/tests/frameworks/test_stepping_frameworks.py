# SPDX-License-Identifier: Apache-2.0
"""until_done over arrays of each library: inputs in place, what is written copied once, answers in the caller's own."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import runner_kernels
from libraries import Library
from test_until_done import RATES, STOPS

import eagle


@functools.cache
def plan_of(name: str) -> Any:
    return eagle.deploy(getattr(runner_kernels, name))


def is_copied(lib: Library) -> bool:
    return lib.name != "numpy"


def values(lib: Library, x: Any) -> Any:
    """The elements of what a runner hands out: of the library, or of NumPy for those that are no results of run."""
    return (x if isinstance(x, np.ndarray) else lib.read(x)).tolist()


@pytest.mark.want("7c")
def test_the_answer_is_in_the_callers_framework(lib: Library) -> None:
    rate, y, hits = lib.new(RATES), lib.new(np.ones(5)), lib.new(np.zeros(5))
    mask = lib.new(np.array([False, True, False, False, False]))
    runner = eagle.until_done(plan_of("decay"), max_steps=10, rate=rate, floor=0.1, y=y, hits=hits, terminated=mask)
    assert runner.run().finished == 3
    first = runner.result("hits")
    assert values(lib, first) == [4, 0, 7, 10, 10] and isinstance(first, lib.made)
    assert runner.run().finished == 4
    second = runner.result("hits")
    assert values(lib, second) == [4, 0, 7, 11, 20]
    assert values(lib, runner.result("terminated")) == runner.terminated.tolist() == [True, True, True, True, False]
    assert runner.result("rate") is rate
    if is_copied(lib):
        assert lib.read(y).tolist() == [1.0] * 5 and lib.read(hits).tolist() == [0.0] * 5
        assert lib.read(mask).tolist() == [False, True, False, False, False]
        assert first is not second and values(lib, first) == [4, 0, 7, 10, 10]
    else:
        assert first is second is hits and runner.terminated is mask


def test_frameworks_may_be_mixed_with_numpy(lib: Library) -> None:
    hits = np.zeros(5)
    runner = eagle.until_done(plan_of("decay"), max_steps=100, rate=RATES, floor=0.1, y=lib.new(np.ones(5)), hits=hits)
    assert runner.run().done and hits.tolist() == STOPS and runner.result("hits") is hits


def test_samples_first(lib: Library) -> None:
    if is_copied(lib):  # tests of the runner show what happens to NumPy's
        w, v = np.array([[1.0, 2.0, 0.5], [0.5, 0.25, 1.0]]), lib.new(np.zeros((3, 2)))
        runner = eagle.until_done(plan_of("walk"), max_steps=10, w=w, limit=np.full(3, 3.0), v=v)
        assert runner.run().steps == 7
        assert values(lib, runner.result("v")) == [[4.0, 2.0], [4.0, 0.5], [3.5, 7.0]]
        assert lib.read(v).tolist() == [[0.0, 0.0]] * 3


def test_one_sample(lib: Library) -> None:
    if lib.ranks == 0:
        y = lib.new(np.ones(()))
        runner = eagle.until_done(plan_of("decay"), max_steps=100, rate=np.array(0.9), floor=0.1, y=y,
                                  hits=np.zeros(()))
        assert runner.run().steps == 22 and tuple(runner.result("y").shape) == ()


def test_tensors_that_autograd_follows_and_strided_ones() -> None:
    torch = pytest.importorskip("torch", reason="framework-missing: torch")
    y = torch.ones(5, dtype=torch.float64, requires_grad=True)
    hits = torch.zeros((5, 2), dtype=torch.float64)[:, 0]
    runner = eagle.until_done(plan_of("decay"), max_steps=100, rate=RATES, floor=0.1, y=y, hits=hits)
    assert runner.run().done and runner.result("hits").tolist() == STOPS and hits.tolist() == [0.0] * 5
    assert y.tolist() == [1.0] * 5 and (runner.result("y") < 0.1).all() and not runner.result("y").requires_grad
