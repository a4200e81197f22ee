# SPDX-License-Identifier: Apache-2.0
"""Runs beside other threads, in forks, stopped, interrupted, and through exceptions of the caller's own code."""

from __future__ import annotations

import hashlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepping_kernels as ks
from stepping_forms import MODELS, Array, Model, Planes, copied, deployed
from stepping_oracle import Serial, assert_same, batch

import eagle

HERE = str(Path(__file__).parent)
HUGE = 10**9
#: Models whose state after any number of steps is known without taking them.
CLOSED = ("integer planes", "steps=4, integers", "compacting, integers", "integers and a counter")


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = eagle.num_threads()
    yield
    eagle.set_num_threads(before)


def until_done(form: str, n: int, dist: str = "never", cap: int = HUGE, **options: Any) -> tuple[Any, Planes]:
    model = MODELS[form]
    planes = model.planes(n, 3, dist)
    return eagle.until_done(model.plan, max_steps=cap, **options, **planes), planes


def assert_at_step_boundaries(start: Planes, planes: Planes) -> Array:
    """Every sample of a CLOSED model is where its own number of steps leads; these numbers."""
    counts = planes["p"].astype(int)
    power = [pow(3, int(k), 2**65) for k in counts]
    wanted = [(three * int(o) + (three - 1) // 2 * int(i)) % 2**64
              for three, o, i in zip(power, start["o"], start["i"], strict=True)]
    assert planes["o"].astype(np.uint64).tolist() == wanted
    assert planes["q"].tolist() == [(int(q) + int(k) * int(u)) % 2**32
                                    for q, k, u in zip(start["q"], counts, start["u"], strict=True)]
    if "steps_seen" in planes:  # both kernels of a step, or none
        assert planes["steps_seen"].tolist() == counts.tolist()
    return counts


# ---- beside other threads --------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.want("4a")
@pytest.mark.parametrize("form", ["RK4 oscillator", "compacting", "RK4 with a Table", "finisher last"])
def test_another_thread_keeps_its_speed(form: str) -> None:
    """Its speed beside a run and beside work that surely leaves Python alone, by turns, a tenth of a second each."""
    count, over = 0, threading.Event()

    def work() -> None:
        nonlocal count
        while not over.is_set():
            count += 1

    def rate(call: Callable[[], object]) -> float:
        before, began = count, time.perf_counter()
        call()
        return (count - before) / (time.perf_counter() - began)

    eagle.set_num_threads(1)
    model = MODELS[form]
    planes, cap, taken = model.planes(20_000, 3, "never"), 16, 0.0
    while taken < 0.1:
        cap *= 2
        run = eagle.until_done(model.plan, max_steps=cap, **planes)
        taken = seconds(run.run)
    zeros = bytes(round(10**7 * taken / seconds(lambda: hashlib.sha256(bytes(10**7)))))
    thread = threading.Thread(target=work)
    thread.start()
    try:
        kept = 0.0
        for _ in range(3):  # a busy machine may take the processors away for a while
            ratios = [rate(run.run) / rate(lambda: hashlib.sha256(zeros)) for _ in range(5)]
            kept = max(kept, statistics.median(ratios))
            if kept >= 0.6:
                break
    finally:
        over.set()
        thread.join()
    assert kept >= 0.6


@pytest.mark.smoke
@pytest.mark.want("16")
@pytest.mark.parametrize("form", ["RK4 oscillator", "steps=4", "compacting", "dispatch, auto", "keyed sum",
                                  "finisher first"])
def test_runners_of_one_kernel_run_at_once(form: str) -> None:
    model = MODELS[form]
    planes = [model.planes(3000, seed, "spread") for seed in range(4)]
    wanted = [Serial(model, each).run(HUGE) for each in planes]
    runs = [eagle.until_done(model.plan, max_steps=HUGE, **each) for each in planes]
    together, reports, errors = threading.Barrier(4), [None] * 4, []

    def work(place: int) -> None:
        try:
            for _ in range(3):
                together.wait(30)
                reports[place] = runs[place].run()
                together.wait(30)
                if _ < 2:
                    for name, value in MODELS[form].planes(3000, place, "spread").items():
                        if isinstance(value, np.ndarray):
                            planes[place][name][...] = value
                    runs[place].reset()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            together.abort()

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for run, each, report, want in zip(runs, planes, reports, wanted, strict=True):
        if form != "keyed sum":  # what rounding lost is carried on from run to run
            assert_same(each, run.terminated, want)
        assert (report.finished, report.done) == (want.finished, True)
        assert report.steps == -(-want.steps // run.every) * run.every if form == "steps=4" else want.steps


@pytest.mark.want("16")
def test_two_runs_overlap_in_time() -> None:
    """One that never ends does not keep another one of its kernel from ending."""
    first, _ = until_done("integer planes", 500)
    second, planes = until_done("integer planes", 500, "spread")
    thread = threading.Thread(target=first.run)
    thread.start()
    try:
        time.sleep(0.05)
        assert second.run().done and thread.is_alive()
    finally:
        stop_until(first, thread)
    assert_same(planes, second.terminated, Serial(MODELS["integer planes"],
                                                  MODELS["integer planes"].planes(500, 3, "spread")).run(HUGE))


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def stop_until(run: Any, thread: threading.Thread) -> None:
    """Ends a run in a thread, whether or not it began already."""
    while thread.is_alive():
        run.stop()
        thread.join(0.01)


@pytest.fixture
def running() -> Iterator[Callable[[Any], threading.Thread]]:
    """Starts runs in threads of their own, and stops them after the test."""
    started: list[tuple[Any, threading.Thread]] = []

    def start(run: Any) -> threading.Thread:
        thread = threading.Thread(target=run.run)
        thread.start()
        started.append((run, thread))
        time.sleep(0.1)
        assert thread.is_alive()
        return thread

    yield start
    for run, thread in started:
        stop_until(run, thread)


@pytest.mark.smoke
@pytest.mark.want("4d")
@pytest.mark.parametrize("policy", ["auto", "band"])
def test_busy(running: Callable[[Any], threading.Thread], policy: str) -> None:
    run, planes = until_done("integer planes", 1000)
    start = copied(planes)
    run.host_policy = policy
    thread = running(run)
    for method in ("run", "reset"):
        began = time.perf_counter()
        with pytest.raises(eagle.Busy, match=rf"Runner\.{method}\b.*(thread|wait)"):
            getattr(run, method)()
        assert time.perf_counter() - began < 1.0
    stop_until(run, thread)
    assert_at_step_boundaries(start, planes)
    run.reset()
    planes["p"][:] = 2**31 - 3
    assert run.run().done


def test_a_simulation_is_busy(running: Callable[[Any], threading.Thread]) -> None:
    model = MODELS["integer planes"]
    planes = model.planes(1000, 3, "never")
    simulation = eagle.simulation(model.model, max_steps=HUGE, **planes)
    thread = running(simulation)
    for method in ("run", "reset"):
        with pytest.raises(eagle.Busy, match=rf"Simulation\.{method}\b.*(thread|wait)"):
            getattr(simulation, method)()
    stop_until(simulation, thread)
    planes["p"][:] = 2**31 - 3
    assert simulation.run().done


def test_a_run_inside_a_run_is_busy() -> None:
    seen: list[str] = []
    model = MODELS["decay"]
    planes = model.planes(50, 3, "equal")

    def again(*_: int) -> None:
        with pytest.raises(eagle.Busy, match=r"Runner\.run") as caught:
            run.run()
        seen.append(str(caught.value))

    run = eagle.until_done(model.plan, max_steps=100, progress=again, **planes)
    assert run.run().done and seen
    seen.clear()
    planes = model.planes(50, 3, "equal")
    run = eagle.until_done([MODELS["steps=1"].plan, eagle.opaque(again)], max_steps=100,
                           **MODELS["steps=1"].planes(50, 3, "equal"))
    assert run.run().steps == 37 and len(seen) == 37


# ---- stopped, interrupted, forked ------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("form", CLOSED)
def test_stop(form: str, policy: str) -> None:
    run, planes = until_done(form, 3000)
    start = copied(planes)
    run.host_policy = policy
    for _ in range(2):
        timer = threading.Timer(0.1, run.stop)
        before = planes["p"].copy()
        timer.start()
        report = run.run()
        timer.join()
        counts = assert_at_step_boundaries(start, planes)
        assert (report.done, report.finished) == (False, 0) and 0 < report.steps < HUGE
        if report.exact_steps:
            assert report.steps == int((counts - before).max())
    planes["p"][:] = 2**31 - 10
    assert run.run().done and planes["p"].tolist() == [2**31 - 1] * len(planes["p"])


def test_stop_of_a_simulation() -> None:
    model = MODELS["integer planes"]
    planes = model.planes(3000, 3, "never")
    start = copied(planes)
    simulation = eagle.simulation(model.model, max_steps=HUGE, **planes)
    timer = threading.Timer(0.1, simulation.stop)
    timer.start()
    result = simulation.run()
    assert (result.done, result.status) == (False, "max_steps")
    assert_at_step_boundaries(start, planes)


CHILD = """
import sys, time, numpy as np, eagle
sys.path.insert(0, {here!r})
from stepping_forms import MODELS
model = MODELS[{form!r}]
planes = model.planes({n}, 3, "never")
eagle.set_num_threads(2)
eagle.run_until_done(model.plan, max_steps=1, **model.planes(9, 3, "equal"))
door = {door!r}
if door == "simulate":
    call = lambda: eagle.simulate(model.model, max_steps=10**9, **planes)
else:
    options = dict(reorder=True) if door == "reorder" else dict()
    run = eagle.until_done(model.plan, max_steps=10**9, **options, **planes)
    run.host_policy = "band" if door == "band" else "auto"
    call = run.run
print("ready", flush=True)
try:
    call()
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
    np.savez({path!r}, **planes)
    report = eagle.run_until_done(model.plan, max_steps=4, **planes)
    sys.exit(0 if (report.steps, report.done) == (4, False) else 3)
sys.exit(4)
"""

INTERRUPTED = [(form, door) for form in CLOSED for door in ("auto", "band")]


@pytest.mark.alone
@pytest.mark.parametrize(("form", "door"), [*INTERRUPTED, ("integer planes", "simulate"),
                                            ("compacting, integers", "reorder")])
def test_ctrl_c(form: str, door: str, tmp_path: Path) -> None:
    """The interrupt surfaces within 0.2 s, and leaves every sample after some whole number of its steps."""
    waited = []
    for attempt in range(4):
        path = tmp_path / f"{attempt}.npz"
        code = CHILD.format(here=HERE, form=form, door=door, n=20_000, path=str(path))
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.3)
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
            waited.append(float(child.stdout.readline() or "nan") - sent)
            assert child.wait(60) == 0
        with np.load(path) as saved:
            counts = assert_at_step_boundaries(MODELS[form].planes(20_000, 3, "never"), dict(saved))
        assert counts.max() > 0
        if waited[-1] < 0.2:  # a busy machine may be slow to wake the child
            return
    raise AssertionError(f"the interrupt took {waited} s")


def test_an_interrupted_runner_goes_on() -> None:
    run, planes = until_done("integer planes", 3000)
    start = copied(planes)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert_at_step_boundaries(start, planes)
    timer.join()
    timer = threading.Timer(0.1, run.stop)
    timer.start()
    assert not run.run().done
    assert_at_step_boundaries(start, planes)


@pytest.mark.parametrize("form", ["integer planes", "compacting", "finisher first", "keyed sum"])
def test_fork(form: str) -> None:
    """A child steps what its parent bound, also where the parent is in the middle of a run of another thread."""
    model = MODELS[form]
    planes = model.planes(5000, 3, "spread")
    want = Serial(model, planes).run(HUGE)
    run = eagle.until_done(model.plan, max_steps=HUGE, **planes)
    other, _ = until_done("integer planes", 1000)
    thread = threading.Thread(target=other.run)
    thread.start()
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            report = run.run()
            assert_same(planes, run.terminated, want)
            code = 0 if report.done and report.steps == want.steps else 2
        finally:
            os._exit(code)
    try:
        assert os.waitpid(child, 0)[1] == 0
        assert run.run().done
        assert_same(planes, run.terminated, want)
    finally:
        stop_until(other, thread)


# ---- exceptions of the caller's code ---------------------------------------------------------------------------------


class Ours(Exception):
    pass


@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("form", CLOSED)
def test_an_exception_of_progress(form: str, policy: str) -> None:
    calls = 0
    told: list[tuple[int, int]] = []

    def progress(done: int, n: int, steps: int) -> None:
        nonlocal calls
        calls += 1
        told.append((done, n))
        if calls == 3:
            raise Ours("mine")

    run, planes = until_done(form, 200, progress=progress)
    start = copied(planes)
    run.host_policy = policy
    with pytest.raises(Ours, match="^mine$"):
        run.run()
    assert told == [(0, 200)] * 3
    counts = assert_at_step_boundaries(start, planes)
    planes["p"][:] = 2**31 - 5
    assert run.run().done and counts.max() < HUGE


def test_progress_is_told_the_truth() -> None:
    told: list[tuple[int, int, int]] = []
    model = MODELS["steps=1"]
    planes = model.planes(3000, 3, "spread")
    run = eagle.until_done(model.plan, max_steps=150, progress=lambda *args: told.append(args), **planes)
    taken = int(np.minimum(planes["stop"], 150).sum())
    report = run.run()
    assert told and all(type(value) is int for row in told for value in row)
    assert [row[0] for row in told] == sorted(row[0] for row in told) and {row[1] for row in told} == {3000}
    assert [row[2] for row in told] == sorted(row[2] for row in told) and told[-1] == (report.finished, 3000, taken)


def test_an_exception_of_a_node() -> None:
    """It surfaces unchanged; what ran before it in the step stays done; the runner goes on."""
    model = MODELS["steps=1"]
    planes = model.planes(50, 3, "equal")
    seen = np.zeros(50)
    at = [5, 20]

    def look() -> None:
        seen[:] += planes["k"]
        if planes["k"][0] in at:
            at.remove(planes["k"][0])
            raise Ours("here")

    run = eagle.until_done([model.plan, eagle.opaque(look, reads={"k": planes["k"]}, writes={"seen": seen})],
                           max_steps=100, **planes)
    for steps in (5, 20):
        with pytest.raises(Ours, match="^here$"):
            run.run()
        assert planes["k"].tolist() == [steps] * 50
    report = run.run()
    assert report.done and planes["k"].tolist() == [37] * 50 and seen.tolist() == [37 * 38 / 2] * 50
    assert_same(planes, run.terminated, Serial(model, model.planes(50, 3, "equal")).run(100))


def test_a_node_runs_at_its_place_in_every_step() -> None:
    """Once a step for all samples, also where only one is left."""
    model: Model = MODELS["finisher first"]
    decay, gauge = model.deployed()
    planes = model.planes(20, 3, "spread")
    sums: list[tuple[float, float]] = []
    node = eagle.opaque(lambda: sums.append((planes["y"].sum(), planes["e"].sum())),
                        reads={"y": planes["y"], "e": planes["e"]})
    one = [eagle.deploy(kernel.step, scalar_type="float64") for kernel in model.kernels[:1]]
    run = eagle.until_done([one[0], node, gauge], max_steps=1000, **planes)
    report = run.run()
    serial, wanted = Serial(model, model.planes(20, 3, "spread")), []
    for _ in range(report.steps):
        before = serial.planes["e"].sum()
        serial.run(1)
        wanted.append((serial.planes["y"].sum(), before))
    assert sums == wanted and report.done and batch(planes) == 20


def test_ctrl_c_waits_for_the_end_of_a_step_with_nodes() -> None:
    """The signal comes inside a node; the kernel behind it takes the same step still. A second signal does not wait."""
    plans = [deployed(kernel, "float64") for kernel in (ks.one_step, ks.counter)]
    planes = MODELS["steps=1"].planes(9, 3, "never") | {"steps_seen": np.zeros(9)}
    times: list[int] = []

    def node() -> None:
        times.append(1)
        if len(times) in (3, 5):
            signal.raise_signal(signal.SIGINT)
        if len(times) == 5:
            signal.raise_signal(signal.SIGINT)
            times.append(0)

    run = eagle.until_done([plans[0], eagle.opaque(node), plans[1]], max_steps=10, **planes)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert (planes["k"] == 3).all() and (planes["steps_seen"] == 3).all()
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert (planes["k"] == 5).all() and (planes["steps_seen"] == 4).all() and sum(times) == len(times) == 5
    assert run.run().steps == 10
    assert signal.getsignal(signal.SIGINT) is handler
