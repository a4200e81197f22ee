# SPDX-License-Identifier: Apache-2.0
"""Launches beside other threads, after forks and under signals; what is kept alive; memory that runs out."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kernels
import numpy as np
import pytest

import eagle

HERE = str(Path(__file__).parent)


def in_process(code: str, **environment: str) -> str:
    """Runs `code` in a fresh process with the kernels importable; what it printed."""
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r})\n" + code], text=True,
                          env={**os.environ, **environment}, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.smoke
def test_a_child_of_fork_launches_again() -> None:
    """After launches on the team, in parent and child, several times and through a grandchild."""
    in_process("""
import os, numpy as np, eagle, kernels
eagle.set_num_threads(3)
plan, x = eagle.deploy(kernels.scale), np.arange(1_000_000.0)
def check(a):
    assert (plan.run(x=x, a=a, b=1.0) == a * x + 1.0).all()
check(2.0)
for depth in range(3):
    child = os.fork()
    if child == 0:
        for a in range(20):
            check(float(a))
        if depth == 2 or os.fork():
            os._exit(0)
    else:
        check(3.0)
        assert os.waitpid(child, 0)[1] == 0
""", HAWK_HOST_PROFILE="native")


def test_fork_while_another_thread_launches() -> None:
    in_process("""
import os, threading, numpy as np, eagle, kernels
plan, x = eagle.deploy(kernels.scale), np.arange(300_000.0)
bound = plan.bind(x=x, a=2.0, b=1.0, out=np.zeros_like(x))
stop = threading.Event()
def work():
    while not stop.is_set():
        bound.launch()
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        ok = (plan.run(x=x, a=3.0, b=1.0) == 3.0 * x + 1.0).all()
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
""")


@pytest.mark.smoke
def test_many_threads_share_one_plan() -> None:
    plan, errors = eagle.deploy(kernels.scale), []
    sizes = (1, 7, 1000, 200_003)
    xs = {n: np.random.default_rng(n).normal(size=n) for n in sizes}

    def work(seed: int) -> None:
        try:
            for i in range(60):
                n, a = sizes[(seed + i) % 4], float(seed)
                assert (plan.run(x=xs[n], a=a, b=0.5) == a * xs[n] + 0.5).all()
                assert (plan(xs[n], a, 0.5) == a * xs[n] + 0.5).all()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.smoke
def test_rebinding_while_others_launch() -> None:
    """A launch keeps the planes it started with; nothing is written outside a plane."""
    n = 100_000
    bound = eagle.deploy(kernels.scale).bind(x=np.ones(n), a=1.0, b=0.0, out=np.zeros(n))
    stop, errors = threading.Event(), []

    def work() -> None:
        try:
            while not stop.is_set():
                bound.launch()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for i in range(30):
        bound.rebind(x=np.full(n, float(i)), out=np.zeros(n))
        gc.collect()
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    bound.launch()
    assert (bound.planes["out"] == 29.0).all()


def test_team_size_while_launching() -> None:
    plan, x, stop = eagle.deploy(kernels.scale), np.arange(500_000.0), threading.Event()

    def resize() -> None:
        n = 1
        while not stop.is_set():
            eagle.set_num_threads(n := n % 4 + 1)

    before, thread = eagle.num_threads(), threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(100):
            assert (plan.run(x=x, a=2.0, b=1.0) == 2.0 * x + 1.0).all()
    finally:
        stop.set()
        thread.join()
        eagle.set_num_threads(before)


def test_num_threads() -> None:
    before = eagle.set_num_threads(3)
    assert eagle.num_threads() == 3 and eagle.set_num_threads(before) == 3 and eagle.num_threads() == before
    for wrong, error in ((0, ValueError), (-1, ValueError), (1025, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="eagle.set_num_threads: n: found"):
            eagle.set_num_threads(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("environment", "threads"), [
    ({"EAGLE_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3), ({"EAGLE_NUM_THREADS": "", "OMP_NUM_THREADS": "2"}, 2),
    ({"EAGLE_NUM_THREADS": "none", "OMP_NUM_THREADS": "4,2"}, 4),
])
def test_the_environment_sets_the_team(environment: dict[str, str], threads: int) -> None:
    assert in_process("import eagle; print(eagle.num_threads())", **environment).strip() == str(threads)


@contextmanager
def turns_only_when_given() -> Iterator[None]:
    """A thread runs Python only when another gives the GIL up."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def test_other_threads_run_during_a_launch() -> None:
    """All the time of it: one that waits again and again has several turns, if not at once on a busy machine."""
    x, stop, turns, best = np.zeros(4_000_000), threading.Event(), [0], 0
    bound = eagle.deploy(kernels.scale).bind(x=x, a=2.0, b=1.0, out=np.zeros_like(x))

    def other() -> None:
        while not stop.wait(1e-4):
            turns[0] += 1

    thread = threading.Thread(target=other)
    thread.start()
    try:
        with turns_only_when_given():
            for _ in range(1000):
                before = turns[0]
                bound.launch()
                best = max(best, turns[0] - before)
                if best >= 5:
                    break
    finally:
        stop.set()
        thread.join()
    assert best >= 5


@pytest.mark.parametrize("call", ["plan.run(x=np.arange(float(n)), a=2.0, b=1.0)", "bound.launch()",
                                  "plan.run(x=x[::-1], a=2.0, b=1.0)"])
def test_daemon_threads_launch_until_the_process_ends(call: str) -> None:
    in_process(f"""
import threading, time, warnings, numpy as np, eagle, kernels
warnings.simplefilter("ignore")
n = 300_000
plan, x = eagle.deploy(kernels.scale), np.arange(float(n))
bound = plan.bind(x=x, a=2.0, b=1.0, out=np.zeros(n))
def work():
    while True:
        {call}
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
""")


def test_a_child_launches_what_the_parent_was_launching() -> None:
    """The scratch of a bound reduction is free in a child, whoever had it when the process was forked."""
    in_process("""
import os, threading, warnings, numpy as np, eagle, kernels
warnings.simplefilter("ignore")
x, total = np.ones(500_000), np.zeros(1)
bound, stop = eagle.deploy(kernels.total).bind(x=x, s=total), threading.Event()
def work():
    while not stop.is_set():
        bound.launch()
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(40):
    child = os.fork()
    if child == 0:
        bound.launch()
        os._exit(0 if total[0] == 500_000 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
""")


def test_ctrl_c_stops_repeated_launches() -> None:
    """After the launch it meets, whatever else the machine does."""
    x = np.zeros(2_000_000)
    bound = eagle.deploy(kernels.scale).bind(x=x, a=2.0, b=1.0, out=np.zeros_like(x))
    launches, sent, ready = 0, -1, threading.Event()

    def interrupt() -> None:
        nonlocal sent
        ready.wait()
        sent = launches
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with turns_only_when_given(), pytest.raises(KeyboardInterrupt):
            while True:
                bound.launch()
                launches += 1
                if launches == 10:
                    ready.set()
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert sent >= 10 and launches - sent <= 2
    bound.launch()


def test_bound_planes_live_as_long_as_the_bound_plan() -> None:
    plan = eagle.deploy(kernels.scale)
    x, out = np.ones(1000), np.zeros(1000)
    bound: Any = plan.bind(x=x, a=2.0, b=1.0, out=out)
    seen = weakref.ref(x)
    del x
    gc.collect()
    bound.launch()
    assert seen() is not None and (out == 3).all()
    bound.rebind(x=np.zeros(1000))
    gc.collect()
    assert seen() is None
    loop = [bound]
    loop.append(loop)
    gone = weakref.ref(out)
    del bound, loop, out
    gc.collect()
    assert gone() is None


def test_runs_leak_nothing() -> None:
    plan, x = eagle.deploy(kernels.sum_difference), np.ones(5)
    strays = np.ones(5, np.float32)

    def calls() -> None:
        for _ in range(200):
            plan.run(x=x, y=x)
            plan(x, x)
            with pytest.raises(eagle.BufferRefused):
                plan.run(x=x, y=x, out0=strays)
        plan.bind(x=x, y=x, out0=np.zeros(5), out1=np.zeros(5)).launch()

    calls()
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(strays), sys.getrefcount(plan)
    calls()
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(strays), sys.getrefcount(plan)) == before


def test_a_kernel_that_finds_no_memory() -> None:
    in_process("""
import resource, sys
from pathlib import Path
from eagle import _core, backends
backend, keepalive, name = backends.host(), object(), sys.intern("a name of its own")
slots = ((name, name, 0, 12, 1, 0, False, False, False, False, False, ()),) * 20_000_000
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 500_000_000, most))
before = [sys.getrefcount(o) for o in (backend, keepalive, name, slots)]
try:
    _core.Kernel(name, backend, 0, slots, keepalive, False, False)
except MemoryError:
    pass
else:
    raise AssertionError("there was memory")
assert [sys.getrefcount(o) for o in (backend, keepalive, name, slots)] == before
""")
