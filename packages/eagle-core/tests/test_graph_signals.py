# SPDX-License-Identifier: Apache-2.0
"""Signals while a graph runs: where they are seen, and what their handlers may do."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import Array, bind, interrupted, u32
from numpy.testing import assert_array_equal

import eagle
from eagle import GraphComposer, SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Graph, Node

has_alarms = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs-toolkit: a system with interval timers")


def pending(number: int) -> Node:
    """A node that leaves a signal for whoever looks next: nothing of Python runs between the two."""
    return opaque(partial(ctypes.CDLL(None)["raise"], number))


def halved(n: int) -> tuple[Array, Any]:
    x = np.ones(n)
    return x, bind(ks.halve, x=x)


# ---- where a signal is seen ------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("loop", [False, True])
def test_ctrl_c_where_replays_become_slow(loop: bool) -> None:
    """Those that were brief may have been many at a time."""
    x, wanted = np.ones(1_000_000), u32(0)
    part: Any = skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(wanted))
    g = Graph().add_node(repeat_while(part, SkipGuard.nonzero(u32(1))) if loop else part).build()
    if not loop:
        g.launch(1000)
    later = threading.Timer(0.1, lambda: wanted.fill(1))
    later.start()
    assert interrupted(lambda: g.launch(10**12)) < 2.0
    later.join()
    assert x[0] < 1.0


def long_chain(fuse: bool) -> Graph:
    planes = [bind(ks.halve, x=np.ones(1_000_000)) for _ in range(4)]
    g = Graph()
    g.fuse = fuse
    for i in range(20_000):
        g.add(planes[i % 4])
    return g


def long_fork() -> Graph:
    return Graph().add_group([[bind(ks.halve, x=np.ones(1_000_000))] * 10_000 for _ in range(2)])


def long_copies() -> Graph:
    x, y, g = np.ones(2_000_000), np.ones(2_000_000), Graph()
    for _ in range(5000):
        g.add_node(eagle.copy(x, into=y)).add_node(eagle.reduce(x, np.zeros(1)))
    return g


LONG = {"chain": lambda: long_chain(False), "tiles": lambda: long_chain(True), "fork": long_fork, "copies": long_copies}


@pytest.mark.alone
@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_within_one_long_replay(kind: str) -> None:
    assert interrupted(LONG[kind]().build().launch) < 2.0


@has_alarms
def test_a_look_stays_where_the_member_behind_it_is_off() -> None:
    """The first is long enough for a look ahead of the second, which is off; the third is too short for another."""
    (x, first), (y, second), (z, third) = halved(200_000), halved(5_000), halved(100_000)
    composer = GraphComposer([1, 1, 0, 1], mode="enabled")
    for member in (pending(signal.SIGINT), first, second, third):
        composer.register(member)
    with pytest.raises(KeyboardInterrupt):
        composer.build().launch()
    assert (x[0], y[0], z[0]) == (0.5, 1.0, 1.0)


@has_alarms
def test_a_fork_of_copies_is_whole_before_a_signal_is_seen() -> None:
    """A look within would keep its branches from running side by side."""
    pairs = [(np.full(200_000, float(i)), np.empty(200_000)) for i in range(8)]
    copies = [eagle.copy(src, into=dst) for src, dst in pairs]
    g = Graph().add_node(pending(signal.SIGINT)).add_group([copies[:4], copies[4:]]).build()
    with pytest.raises(KeyboardInterrupt):
        g.launch()
    for src, dst in pairs:
        assert_array_equal(dst, src)


@pytest.mark.alone
def test_replays_that_become_slow_leave_the_gil_to_others(team: Callable[[int], None]) -> None:
    """Brief ones keep it; the length of one is learned within sixteen."""
    team(1)
    x, wanted = np.ones(10_000_000), u32(0)
    g = Graph().add_node(skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(wanted))).build()
    g.launch(100)
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    wanted[0] = 1
    for _ in range(17):
        begun = time.perf_counter()
        g.launch()
        ended = time.perf_counter()
    done.set()
    thread.join()
    quarter = (ended - begun) / 4
    assert any(begun + quarter < at < ended - quarter for at in ticks)


# ---- what a handler may do -------------------------------------------------------------------------------------------


@pytest.fixture
def resizing() -> Iterator[tuple[list[Array], list[str]]]:
    """Arrays that SIGALRM will try to resize, and what came of that; then it ends what it interrupted."""
    arrays: list[Array] = []
    found: list[str] = []

    def handler(*_: object) -> None:
        for array in arrays:
            try:
                array.resize(2, refcheck=False)
                found.append("resized")
            except ValueError:
                found.append("refused")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    yield arrays, found
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@has_alarms
def test_a_handler_between_replays_cannot_resize_arrays(resizing: tuple[list[Array], list[str]]) -> None:
    arrays, found = resizing
    x, plan = halved(64)
    arrays.append(x)
    g = Graph().add(plan).build()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(KeyboardInterrupt):
        g.launch(10**12)
    assert found == ["refused"] and len(x) == 64


@has_alarms
def test_a_handler_within_a_replay_cannot_resize_arrays(resizing: tuple[list[Array], list[str]]) -> None:
    arrays, found = resizing
    (x, first), (y, second) = halved(200_000), halved(5_000)
    arrays += [x, y]
    with pytest.raises(KeyboardInterrupt):
        Graph().add_node(pending(signal.SIGALRM)).add(first).add(second).build().launch()
    assert found == ["refused"] * 2 and (x[0], y[0]) == (0.5, 1.0)
