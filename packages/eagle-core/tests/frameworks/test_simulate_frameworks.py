# SPDX-License-Identifier: Apache-2.0
"""simulate over arrays of other libraries: the answers are in the caller's library, and his arrays are untouched."""

from __future__ import annotations

from typing import Any

import libraries
import numpy as np
import pytest
import simulate_kernels as ks

import eagle

RATES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
STOPS = [4.0, 5.0, 7.0, 11.0, 22.0]


def decayed() -> list[float]:
    y = np.ones(5)
    for i, rate in enumerate(RATES):
        while not y[i] < 0.1:
            y[i] *= rate
    return y.tolist()


def values(array: Any) -> list[float]:
    return np.asarray(array).tolist()


@pytest.mark.want("7c")
def test_answers_are_in_the_callers_library(lib: libraries.Library) -> None:
    rate, y, hits = lib.new(RATES), lib.new(np.ones(5)), lib.new(np.zeros(5))
    r = eagle.simulate(ks.decay, rate=rate, floor=0.1, y=y, hits=hits, max_steps=100)
    assert isinstance(r.y, lib.made) and isinstance(r["hits"], lib.made)
    assert values(r.y) == decayed() and values(r.hits) == STOPS and lib.read(rate).tolist() == RATES.tolist()
    if isinstance(y, np.ndarray):
        assert r.y is y
    else:
        assert lib.read(y).tolist() == [1.0] * 5 and lib.read(hits).tolist() == [0.0] * 5
    assert values(r.finished) == [True] * 5


@pytest.mark.want("7c")
def test_what_is_left_out_is_made_in_the_callers_library(lib: libraries.Library) -> None:
    y = lib.new(np.ones(5))
    r = eagle.simulate(ks.squares, rate=lib.new(RATES), floor=0.1, y=y, max_steps=100)
    assert r.allocated == ("e",) and values(r.e) == [value * value for value in decayed()]
    assert isinstance(r.e, lib.made) and isinstance(r.finished, lib.made)


@pytest.mark.want("7c")
def test_each_run_of_a_simulation_hands_out_fresh_arrays(lib: libraries.Library) -> None:
    y, hits = lib.new(np.ones(5)), lib.new(np.zeros(5))
    s = eagle.simulation(ks.decay, rate=RATES, floor=0.1, y=y, hits=hits, max_steps=7)  # beside arrays of numpy
    first, second = s.run(), s.run()
    assert values(first.hits) == ([4.0, 5.0, 7.0, 7.0, 7.0] if not isinstance(y, np.ndarray) else values(hits))
    assert values(second.hits) == [4.0, 5.0, 7.0, 11.0, 14.0]


@pytest.mark.want("7c")
def test_one_sample_of_a_library(lib: libraries.Library) -> None:
    if lib.ranks:
        return  # its arrays have an axis at least
    y = lib.new(np.array(1.0))
    r = eagle.simulate(ks.decay, rate=0.5, floor=0.1, y=y, hits=0.0, max_steps=100)
    assert tuple(r.y.shape) == tuple(r.hits.shape) == () and float(np.asarray(r.y)) == 0.0625
    assert float(np.asarray(r.hits)) == 4.0
    assert isinstance(r.y, lib.made) and isinstance(r.hits, lib.made)
