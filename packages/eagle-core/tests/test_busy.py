# SPDX-License-Identifier: Apache-2.0
"""One call at a time on an object: ``_core.Turns`` and ``eagle.Busy``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

import eagle
from eagle._core import Turns

pytestmark = pytest.mark.smoke

BUSY = (r"^Runner\.{}: this Runner: found another call that is still running on it, wanted one call at a time; "
        r"give each thread its own Runner, or wait for it$")


class Runner:
    """An object of which one call runs at a time."""

    def __init__(self) -> None:
        self.turns = Turns("Runner")

    def run(self, work: Callable[[], object] = lambda: None) -> object:
        with self.turns("run"):
            return work()

    def reset(self) -> None:
        with self.turns("reset"):
            pass


def test_calls_one_after_another() -> None:
    runner = Runner()
    assert [runner.run(lambda i=i: i) for i in range(3)] == [0, 1, 2]
    runner.reset()


def test_a_call_within_a_call() -> None:
    runner, other = Runner(), Runner()
    with pytest.raises(eagle.Busy, match=BUSY.format("run")):
        runner.run(runner.run)
    with pytest.raises(eagle.Busy, match=BUSY.format("reset")):
        runner.run(runner.reset)
    assert issubclass(eagle.Busy, RuntimeError)
    assert runner.run(lambda: other.run(lambda: 3)) == 3


def test_the_call_that_runs_goes_on() -> None:
    """Whoever comes too late does not end the turn of who is there."""
    runner = Runner()

    def work() -> None:
        for _ in range(2):
            with pytest.raises(eagle.Busy):
                runner.run()

    runner.run(work)
    runner.run()


def test_an_exception_gives_the_turn_back() -> None:
    runner = Runner()
    for error in (ValueError("no"), KeyboardInterrupt()):
        def fail(error: BaseException = error) -> None:
            raise error

        with pytest.raises(type(error)):
            runner.run(fail)
        runner.run()


def test_a_turn_that_was_not_taken() -> None:
    turns = Turns("Runner")
    turn = turns("run")
    turn.__exit__(None, None, None)
    with turns("run"):
        turn.__exit__(None, None, None)  # of who holds nothing
        with pytest.raises(eagle.Busy):
            turn.__enter__()
    with turn, pytest.raises(eagle.Busy), turn:
        pass
    taken = turns("run")
    taken.__enter__()
    del taken  # an abandoned turn is over
    with turns("run"):
        pass


def test_one_of_two_threads() -> None:
    runner, inside, leave = Runner(), threading.Event(), threading.Event()
    thread = threading.Thread(target=runner.run, args=(lambda: (inside.set(), leave.wait(60)),))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(eagle.Busy, match=BUSY.format("run")):
        runner.run()
    leave.set()
    thread.join()
    assert runner.run(lambda: 1) == 1


def test_many_threads_never_share_a_turn() -> None:
    runner, inside, together, refused = Runner(), [], [], []

    def work() -> None:
        inside.append(1)
        together.append(len(inside))
        inside.pop()

    def call() -> None:
        for _ in range(3000):
            try:
                runner.run(work)
            except eagle.Busy:
                refused.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(together) == {1} and len(together) + len(refused) == 12000


def exit_of(child: Callable[[], bool]) -> int:
    """What a forked child that does this exits with: 0 where it is so."""
    if (pid := os.fork()) == 0:
        status = 2
        try:
            status = 0 if child() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def is_busy(runner: Runner) -> bool:
    try:
        runner.run()
    except eagle.Busy:
        return True
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: a system with fork()")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks() -> None:
    """A child finds free what another thread of its parent held, and busy what the thread that forked held."""
    runner, inside, leave = Runner(), threading.Event(), threading.Event()
    thread = threading.Thread(target=runner.run, args=(lambda: (inside.set(), leave.wait(60)),))
    thread.start()
    assert inside.wait(60)
    free = exit_of(lambda: not is_busy(runner) and not is_busy(runner))
    grandchild = exit_of(lambda: exit_of(lambda: not is_busy(runner)) == 0 and not is_busy(runner))
    assert is_busy(runner)
    leave.set()
    thread.join()
    assert (free, grandchild) == (0, 0)
    held = runner.run(lambda: exit_of(lambda: is_busy(runner) and exit_of(lambda: is_busy(runner)) == 0))
    assert held == 0 and not is_busy(runner)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs-toolkit: a system with interval timers")
def test_interrupts_leave_no_turn_behind() -> None:
    """Signals come between any two instructions; an object is never left busy."""
    runner, interrupts = Runner(), 0

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 1000:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-5 + 1e-8 * interrupts)
                while True:
                    runner.run()
            except KeyboardInterrupt:
                interrupts += 1
                assert not is_busy(runner)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
