# SPDX-License-Identifier: Apache-2.0
"""Signals in a run: whenever one comes, every sample is between two steps and where it was, and the run can go on."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import runner_kernels
import simulate_kernels

import eagle
from eagle.stepping.interrupts import Hold, Interrupts, between

Array = np.ndarray[Any, Any]


ROOM = str(Path("eagle", "stepping"))


class Alarm(Exception):
    """What the handler of a signal raises."""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """SIGALRM raises; at the end of each test every handler is the one that was there."""
    def ring(number: int, frame: Any) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    interrupt = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGALRM) is ring and signal.getsignal(signal.SIGINT) is interrupt
    signal.signal(signal.SIGALRM, before)


class Calls:
    """How many functions were called, and in which one the signal came."""

    def __init__(self) -> None:
        self.count, self.where = 0, ""


@contextmanager
def raised_at(number: int, call: int) -> Iterator[Calls]:
    """A signal comes as the `call`-th function of the room begins."""
    calls = Calls()

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and ROOM in frame.f_code.co_filename and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            calls.count += 1
            if calls.count == call:
                calls.where = frame.f_code.co_qualname
                signal.raise_signal(number)

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def everywhere(number: int, make: Callable[[], Callable[[], object]], check: Callable[[str], object]) -> int:
    """Run what `make` makes anew with the signal at the first call, the second, and so on; how often it came through.
    `check` is told where it came."""
    came = call = 0
    while True:
        call += 1
        made, calls = make(), Calls()
        try:
            with raised_at(number, call) as calls:
                made()
        except (Alarm, KeyboardInterrupt):
            came += 1
        if not calls.where:
            return came
        check(calls.where)


def stepped(rate: Array, hits: Array) -> Array:
    y = np.ones(len(rate))
    for i in range(int(hits.max())):
        y = np.where(i < hits, y * rate, y)
    return y


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGINT])
def test_samples_that_were_moved_are_put_back(number: int) -> None:
    n, cap = 4200, 13
    rate = np.where(np.arange(n) % 10, 0.05, 0.8)
    plan = eagle.deploy(runner_kernels.decay_active_one)
    given: dict[str, Array] = {}
    runner: Any = None

    def make() -> Callable[[], object]:
        nonlocal runner
        given.update(y=np.ones(n), hits=np.zeros(n), terminated=np.zeros(n, bool))
        runner = eagle.until_done(plan, max_steps=cap, every=4, reorder=0.75, floor=0.1, rate=rate.copy(), **given)
        return runner.run  # type: ignore[no-any-return]

    def check(where: str) -> None:
        assert not runner.active.permuted, where
        assert (given["y"] == stepped(rate, given["hits"])).all(), where
        assert (given["terminated"] == (given["y"] < 0.1)).all(), where
        runner.run()
        assert (given["y"] == stepped(rate, given["hits"])).all(), where
        assert (given["hits"] == np.where(rate == 0.05, 1, 11)).all(), where

    assert make()().reorders > 0  # type: ignore[attr-defined]
    check("")
    assert everywhere(number, make, check) > 20


@pytest.mark.filterwarnings("ignore:.* is sample-major")
@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGINT])
def test_sample_major_planes_are_copied_back_whole(number: int) -> None:
    n = 40
    plan = eagle.deploy(simulate_kernels.two_turning)
    given: dict[str, Array] = {}
    runner: Any = None

    def make() -> Callable[[], object]:
        nonlocal runner
        given.update(p=np.zeros((n, 2)), q=np.zeros((n, 2)), k=np.zeros(n))
        runner = eagle.until_done(plan, max_steps=3, layout="samples_first", stop=np.full(n, 5.0), **given)
        return runner.run  # type: ignore[no-any-return]

    def check(where: str) -> None:
        for _ in range(2):
            assert (given["p"] == given["k"][:, None]).all() and (given["q"] == given["k"][:, None]).all(), where
            runner.run()
        assert (given["k"] == 5.0).all(), where

    make()()
    check("")
    assert everywhere(number, make, check) > 5


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGINT])
def test_blocks_are_copied_back_whole(number: int) -> None:
    n = 3000
    given: dict[str, Array] = {}
    stop = np.full(n, 5.0)

    def make() -> Callable[[], object]:
        given.update(x=np.zeros(n), k=np.zeros(n))
        return lambda: eagle.simulate(simulate_kernels.counting, stop, max_steps=3, max_memory=40_000, **given)

    def check(where: str) -> None:
        assert (given["x"] == given["k"]).all() and {*given["k"]} <= {0.0, 3.0}, where

    make()()
    check("")
    assert everywhere(number, make, check) > 20


def test_a_split_run_marks_who_is_done() -> None:
    n = 600
    kind, stop = np.arange(n) % 2, np.full(n, 3.0)
    given: dict[str, Array] = {}
    simulation: Any = None

    def make() -> Callable[[], object]:
        nonlocal simulation
        given.update(x=np.ones(n), k=np.zeros(n))
        simulation = eagle.simulation(simulate_kernels.two_ways, kind, stop, max_steps=9, dispatch="segmented", **given)
        return simulation.run  # type: ignore[no-any-return]

    def check(where: str) -> None:
        assert (simulation.terminated == (given["k"] == 3.0)).all(), where
        simulation.run()
        assert (given["k"] == 3.0).all(), where

    make()()
    check("")
    assert everywhere(signal.SIGALRM, make, check) > 10


def test_a_set_is_moved_and_put_back_whole() -> None:
    n = 4200
    rate = np.arange(float(n))
    active: Any = None

    def make() -> Callable[[], object]:
        nonlocal active
        mask = np.zeros(n, bool)
        active = eagle.ActiveSet(mask, reorder=0.5).own(rate, other)
        mask[np.arange(n) % 10 != 3] = True

        def work() -> None:
            active.compact()
            active.reorder()
            active.restore()

        return work

    def check(where: str) -> None:
        nonlocal active
        assert (rate[active.inv] == np.arange(n)).all() and (other == -rate).all(), where
        assert active.permuted == (rate[0] != 0.0), where
        active.restore()
        assert (rate == np.arange(n)).all() and (other == -rate).all(), where
        active = None

    other = -rate
    make()()
    check("")
    assert everywhere(signal.SIGALRM, make, check) > 5


def test_a_set_that_was_left_moved_is_put_back_before_a_run() -> None:
    n = 4200
    rate = np.where(np.arange(n) % 10, 0.05, 0.8)
    y, hits, mask = np.ones(n), np.zeros(n), np.zeros(n, bool)
    runner = eagle.until_done(eagle.deploy(runner_kernels.decay_active_one), max_steps=5, reorder=0.75, floor=0.1,
                              rate=rate, y=y, hits=hits, terminated=mask)
    runner.run()
    active = runner.active
    assert active is not None
    active.fire[0] = 1
    active.reorder()
    assert active.permuted and (y != stepped(rate, hits)).any()
    runner.run()
    assert not active.permuted and (y == stepped(rate, hits)).all() and (hits == np.where(rate == 0.05, 1, 10)).all()


def test_a_step_holds_one_ctrl_c() -> None:
    got = []
    with pytest.raises(KeyboardInterrupt), Interrupts(Hold.STEP) as interrupts:
        signal.raise_signal(signal.SIGINT)
        got.append("held")
        interrupts.deliver()
    with pytest.raises(KeyboardInterrupt), Interrupts(Hold.STEP):
        signal.raise_signal(signal.SIGINT)
        got.append("held")
        signal.raise_signal(signal.SIGINT)
        got.append("never")
    with pytest.raises(Alarm), Interrupts(Hold.STEP):
        signal.raise_signal(signal.SIGALRM)
        got.append("never")
    assert got == ["held"] * 2


def test_what_must_not_be_left_half_way_holds_all() -> None:
    got = []
    with pytest.raises(KeyboardInterrupt) as caught, Interrupts(Hold.ALL):
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGINT, signal.SIGALRM):
            signal.raise_signal(number)
        got.append("held")
    assert got == ["held"] and isinstance(caught.value.__context__, Alarm)


def test_between_holds_what_stands_around_it() -> None:
    done: list[str] = []

    def note(text: str, number: int) -> None:
        signal.raise_signal(number)
        done.append(text)

    with pytest.raises(Alarm):
        between(lambda: done.append("never"), lambda: done.append("after"), lambda: note("before", signal.SIGALRM))
    assert done == ["before", "after"]
    with pytest.raises(KeyboardInterrupt) as caught:
        between(lambda: note("never", signal.SIGALRM), lambda: note("after", signal.SIGINT))
    assert done == ["before", "after", "after"] and isinstance(caught.value.__context__, Alarm)
    assert between(lambda: 7, lambda: done.clear()) == 7 and not done


def step_with(node: Callable[[], object]) -> eagle.Runner:
    y = np.ones(5)
    return eagle.until_done([eagle.deploy(simulate_kernels.halving), eagle.opaque(node, reads=[y])], max_steps=9,
                            y=y, floor=0.1)


def test_a_ctrl_c_before_an_exception_of_a_node_is_delivered() -> None:
    def node() -> None:
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("of the node")

    with pytest.raises(KeyboardInterrupt) as caught:
        step_with(node).run()
    assert str(caught.value.__context__) == "of the node"


def test_a_handler_that_a_node_installs_stays() -> None:
    def mine(number: int, frame: Any) -> None:
        got.append(number)

    got: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    try:
        assert step_with(lambda: signal.signal(signal.SIGINT, mine)).run().done
        assert signal.getsignal(signal.SIGINT) is mine and not got
        signal.raise_signal(signal.SIGINT)
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_a_node_puts_back_later_passes_on() -> None:
    kept: list[Any] = []
    before = signal.getsignal(signal.SIGINT)
    try:
        assert step_with(lambda: kept.append(signal.signal(signal.SIGINT, signal.SIG_IGN))).run().done
        signal.signal(signal.SIGINT, kept[0])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
