# SPDX-License-Identifier: Apache-2.0
"""The portable loop by itself: the steps it tells a launch, and what it does with one that finished too early."""

from __future__ import annotations

import numpy as np
import pytest
from stepping_forms import MODELS

import eagle
from eagle.stepping.loop import Loop

FAR = 10**6


class Stub:
    """Samples that are done after `stops` steps, and a launch over them that takes as many as its word says.

    `other` is what a launch of one step adds to each sample that it steps: last bits of its own. `failing` is the
    launch, counted from 1, that raises half-way.
    """

    def __init__(self, stops: list[int], other: float = 0.0, failing: int = 0) -> None:
        self.stops, self.taken, self.x = np.array(stops), np.zeros(len(stops), int), np.zeros(len(stops))
        self.counter, self.word = np.zeros(1, np.uint32), np.ones(1, np.int64)
        self.words: list[int] = []
        self.other, self.failing = other, failing

    def __call__(self) -> None:
        self.words.append(int(self.word[0]))
        steps = np.minimum(self.stops - self.taken, self.word[0])
        if len(self.words) == self.failing:
            self.taken[0] += steps[0]
            raise RuntimeError("half-way")
        self.taken += steps
        self.x += steps + self.other * (steps > 0) * (self.word[0] == 1)
        self.counter[0] = (self.taken == self.stops).sum()

    def loop(self, steps_max: int) -> Loop:
        return Loop([self], len(self.stops), self.counter, 0, self.word, True, steps_max, (self.taken, self.x))


@pytest.mark.parametrize("steps_max", range(1, 7))
def test_no_launch_of_several_steps_leaves_one_behind(steps_max: int) -> None:
    """The other side of an entry, which takes one step, has other last bits: it runs where one step is all there is."""
    for cap in range(2, 30):
        stub = Stub([FAR])
        launches, steps, exact, visits, stopped = stub.loop(steps_max).run(cap, 0, None)
        assert sum(stub.words) == steps == cap and min(stub.words) >= 2
        assert max(stub.words) <= max(steps_max, 3)  # three steps of at most two are one launch
        assert (launches, exact, visits, stopped) == (len(stub.words), True, len(stub.words), False)
    stub = Stub([FAR])
    assert stub.loop(steps_max).run(1, 0, None)[1] == 1 and stub.words == [1]


@pytest.mark.parametrize("stops", [[n] for n in range(1, 20)] + [[3, 9, 4], [1, 1], [2, 1], [17, 16]])
def test_the_steps_are_those_of_the_last_sample(stops: list[int]) -> None:
    stub = Stub(stops)
    _, steps, exact, _, _ = stub.loop(8).run(FAR, 0, None)
    assert (steps, exact) == (max(stops), True) and stub.taken.tolist() == stub.x.tolist() == stops


@pytest.mark.parametrize(("stops", "found"), [
    ([1, 1], (2, False)), ([2, 1], (2, False)), ([3, 1], (3, True)), ([8, 4], (8, True)), ([9, 4], (10, False))])
def test_last_bits_are_those_of_launches_of_several_steps(stops: list[int], found: tuple[int, bool]) -> None:
    """Whether the last launch took one step or two cannot be told from a launch of one that has other bits."""
    stub = Stub(stops, other=2.0**-40)
    _, steps, exact, _, _ = stub.loop(8).run(FAR, 0, None)
    assert stub.x.tolist() == stub.taken.tolist() == stops and stub.counter.tolist() == [2]
    assert (steps, exact) == found


@pytest.mark.parametrize("failing", range(2, 6))
def test_what_a_launch_finished_stays_where_finding_its_steps_fails(failing: int) -> None:
    stub = Stub([2, 1], failing=failing)
    loop = stub.loop(8)
    with pytest.raises(RuntimeError, match="half-way"):
        loop.run(FAR, 0, None)
    assert stub.taken.tolist() == stub.x.tolist() == [2, 1] and stub.counter.tolist() == [2]
    assert loop.run(FAR, 0, None) == (0, 0, True, 0, False)


def test_threads_of_a_run_are_the_processs_again_behind_it() -> None:
    before = eagle.num_threads()
    seen: list[int] = []
    step = [MODELS["steps=1"].plan, eagle.opaque(lambda: seen.append(eagle.num_threads()))]
    runner = eagle.until_done(step, max_steps=3, **MODELS["steps=1"].planes(9, 3, "never"))
    runner.host_threads = before + 1
    runner.run()
    assert seen == [before + 1] * 3 and eagle.num_threads() == before
