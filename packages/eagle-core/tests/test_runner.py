# SPDX-License-Identifier: Apache-2.0
"""Runner: its attributes, the mask between runs, layouts, one sample, progress, threads."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import signal
import sys
import threading
import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import runner_kernels
from test_until_done import RATES, STOPS, serial

import eagle
from eagle.stepping import RunReport

Array = np.ndarray[Any, Any]


@functools.cache
def plan_of(name: str, **kw: Any) -> Any:
    return eagle.deploy(getattr(runner_kernels, name), **kw)


def runner_of(name: str = "decay", max_steps: int = 100, **changed: Any) -> eagle.Runner:
    given = {"rate": RATES, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)} | changed
    return eagle.until_done(plan_of(name), max_steps=max_steps, **given)


def test_attributes_of_an_automatic_runner() -> None:
    runner = runner_of()
    assert isinstance(runner.step, eagle.BoundPlan) and runner.n == 5
    assert runner.terminated.dtype == bool and runner.terminated.tolist() == [False] * 5
    assert (runner.finished.dtype, runner.finished.shape) == (np.uint32, (1,))
    assert runner.fused_steps is not None
    assert (runner.fused_steps.dtype, runner.fused_steps.shape) == (np.int64, (1,))
    assert (runner.steps_per_launch, runner.auto) == ("auto", True)
    assert (runner.every, runner.launches_per_compaction) == (None, 1)
    assert runner.active is runner.pipeline is runner.record is runner.t_stop is runner.event_status is None
    assert (runner.host_policy, runner.host_threads) == ("auto", None)
    assert runner.policy == {"k": 64, "finished_at_launch": 0, "steps_done": 0, "max_steps": 100, "go": 1}
    assert runner.launch_policy == {"block": None, "grid": None, "chunk": None, "fill": 1.0, "rate": 0.0, "k": "auto"}
    assert repr(runner) == ("Runner(host, n=5, steps_per_launch='auto', steps_max=64, every=None, "
                            "launches_per_compaction=1, active=False)")
    assert runner.loop.max_iters == 1 and runner.loop.iterations() == 0
    runner.run()
    assert runner.loop.iterations() == 1 and runner.finished.tolist() == [5] and runner.terminated.all()
    assert runner.policy == {"k": 64, "finished_at_launch": 0, "steps_done": 22, "max_steps": 100, "go": 0}
    assert runner.launch_policy["fill"] == 0.0 and runner.launch_policy["rate"] == 5 / 22


def test_a_run_that_reached_its_cap_has_nowhere_to_go() -> None:
    runner = runner_of("decay", 7)
    assert runner.run().steps == 7 and not runner.terminated.all()
    assert runner.policy == {"k": 64, "finished_at_launch": 0, "steps_done": 7, "max_steps": 7, "go": 0}


@pytest.mark.parametrize(("name", "every", "k", "launches"), [
    ("decay_one", None, 1, 1), ("decay_four", None, 4, 1)])
def test_cadence_of_plain_kernels(name: str, every: int | None, k: int, launches: int) -> None:
    runner = runner_of(name)
    assert (runner.steps_per_launch, runner.auto) == (k, False)
    assert (runner.every, runner.launches_per_compaction) == (k, launches)
    assert runner.policy is None and runner.fused_steps is None


def test_a_report_is_a_value() -> None:
    report = runner_of().run()
    assert report == runner_of().run() and report != runner_of(max_steps=3).run()
    assert pickle.loads(pickle.dumps(report)) == copy.deepcopy(report) == report
    with pytest.raises(AttributeError):
        report.n = 3  # type: ignore[misc]
    assert list(RunReport.__dataclass_fields__) == [
        "n", "finished", "done", "launches", "steps", "compactions", "reorders", "build_s", "launches_by_k",
        "exact_steps", "slot_fill", "mode", "probe", "timed", "dispatch", "class_sorts", "mapped"]
    assert RunReport(0, 0, True, 0, 0, 0, 0, 0.0) == RunReport(0, 0, True, 0, 0, 0, 0, 0.0, {}, False, None, "band",
                                                                False, False, None, 0, 0)


def test_what_is_set_on_entry_stays_untouched() -> None:
    mask = np.array([False, True, False, True, False])
    y, hits = np.ones(5), np.zeros(5)
    runner = runner_of(y=y, hits=hits, terminated=mask)
    assert runner.terminated is mask and runner.result("terminated") is mask
    report = runner.run()
    assert (report.finished, report.done) == (5, True) and mask.all()
    assert hits.tolist() == [4, 0, 7, 0, 22] and y[1] == y[3] == 1.0


def test_planes_and_mask_are_the_callers_between_runs() -> None:
    mask, y, hits = np.zeros(5, bool), np.ones(5), np.zeros(5)
    runner = runner_of(y=y, hits=hits, terminated=mask)
    runner.run()
    assert runner.run() == RunReport(5, 5, True, 0, 0, 0, 0, 0.0, {}, True)
    mask[2] = False
    y[2] = 1.0
    report = runner.run()
    assert (report.steps, report.done, hits.tolist()) == (7, True, [4, 5, 14, 11, 22])
    mask[:] = True
    mask[0] = False
    y[0] = 1.0
    assert runner.run().steps == 4


@pytest.mark.want("4c")
def test_a_cleared_bit_of_a_compacting_runner() -> None:
    for name in ("decay_active", "decay_active_one", "decay_active_three"):
        mask, y, hits = np.zeros(5, bool), np.ones(5), np.zeros(5)
        runner = runner_of(name, y=y, hits=hits, terminated=mask)
        assert runner.run().done and hits.tolist() == STOPS
        mask[3], y[3] = False, 1.0
        report = runner.run()
        assert report.done and hits.tolist() == [4, 5, 7, 22, 22]


def test_reset_steps_at_least_once_more() -> None:
    hits = np.zeros(5)
    runner = runner_of(hits=hits)
    runner.run()
    runner.reset()
    assert not runner.terminated.any() and runner.finished.tolist() == [0]
    report = runner.run()
    assert (report.steps, report.exact_steps, report.done) == (1, True, True)
    assert hits.tolist() == [stop + 1 for stop in STOPS]


def test_nan_runs_to_the_cap() -> None:
    hits = np.zeros(3)
    report = runner_of(max_steps=10, rate=np.full(3, 0.5), y=np.array([1.0, np.nan, 1.0]), hits=hits).run()
    assert hits.tolist() == [4, 10, 4] and not report.done and (report.steps, report.exact_steps) == (10, True)


@pytest.mark.parametrize("name", ["decay", "decay_one", "decay_four", "decay_active"])
def test_no_samples(name: str) -> None:
    runner = runner_of(name, **{plane: np.zeros(0) for plane in ("rate", "y", "hits")})
    assert runner.run() == RunReport(0, 0, True, 0, 0, 0, 0, 0.0, {}, True)


@pytest.mark.parametrize("name", ["decay", "decay_one", "decay_active"])
def test_one_sample(name: str) -> None:
    for i, rate in enumerate(RATES):
        y, hits = np.ones(()), np.zeros(())
        runner = runner_of(name, rate=np.array(rate), y=y, hits=hits)
        assert runner.terminated.shape == (1,) and runner.result("terminated").shape == ()
        assert runner.run().steps == STOPS[i] == hits[()]
        mask = np.zeros((), bool)
        y[()] = 1.0
        other = runner_of(name, rate=np.array(rate), y=y, hits=hits, terminated=mask)
        assert other.run().done and mask[()] and other.terminated.shape == (1,) and other.result("terminated") is mask
        batch = runner_of(name, rate=np.full(1, rate), y=np.ones(1), hits=np.zeros(1))
        batch.run()
        assert batch.result("y").shape == (1,) and batch.result("y")[0] == y[()]


def test_a_number_is_no_sample_here() -> None:
    with pytest.raises(ValueError, match="eagle.until_done: Scalar 'rate'"):
        runner_of(rate=0.5, y=np.ones(()), hits=np.zeros(()))


@pytest.mark.parametrize("cut", [{"npartitions": 3}, {"npartitions": 7}])
def test_partitions_change_nothing(cut: dict[str, int]) -> None:
    rng = np.random.default_rng(3)
    rate = rng.uniform(0.3, 0.97, 1000)
    for name in ("decay", "decay_one", "decay_four"):
        y, hits = np.ones(1000), np.zeros(1000)
        report = eagle.run_until_done(plan_of(name, **cut), max_steps=500, rate=rate, floor=0.1, y=y, hits=hits)
        y_, hits_ = np.ones(1000), np.zeros(1000)
        steps = serial(rate, y_, hits_, np.zeros(1000, bool), 500)
        assert report.done and (y == y_).all() and (hits == hits_).all() and report.steps >= steps


@pytest.mark.parametrize("policy", ["auto", "tiled", "measured", "band"])
@pytest.mark.want("6.2")
def test_policies_give_the_same_bits(policy: str) -> None:
    rate = np.random.default_rng(4).uniform(0.3, 0.97, 777)
    y_, hits_ = np.ones(777), np.zeros(777)
    steps = serial(rate, y_, hits_, np.zeros(777, bool), 65)
    for name in ("decay", "decay_one", "decay_active"):
        y, hits = np.ones(777), np.zeros(777)
        runner = runner_of(name, 65, rate=rate, y=y, hits=hits)
        runner.host_policy = policy
        report = runner.run()
        assert (y == y_).all() and (hits == hits_).all() and (report.steps, report.exact_steps) == (steps, True)


@pytest.mark.want("4b")
def test_policy_and_threads_are_checked_when_they_are_set() -> None:
    runner = runner_of()
    for value, error in ((0, ValueError), (-1, ValueError), (1025, ValueError), ("2", TypeError), (1.5, TypeError),
                         (True, TypeError)):
        with pytest.raises(error, match=r"Runner: host_threads: found .*, wanted "):
            runner.host_threads = value
    for value, error in (("fast", ValueError), ("", ValueError), (None, TypeError), (3, TypeError)):
        with pytest.raises(error, match=r"Runner: host_policy: found .*, wanted one of \('auto', 'tiled'"):
            runner.host_policy = value
    with pytest.raises(AttributeError):
        runner.host_thread = 2  # type: ignore[attr-defined]
    assert (runner.host_threads, runner.host_policy) == (None, "auto")
    runner.host_threads = np.int64(2)
    before = eagle.num_threads()
    assert runner.host_threads == 2 and runner.run().done and eagle.num_threads() == before
    runner.host_threads = None
    assert runner.host_threads is None


def test_results_by_name() -> None:
    y = np.ones(5)
    runner = runner_of(y=y)
    assert runner.result("y") is y and runner.result("rate") is RATES and runner.result("floor") == 0.1
    assert runner.result("terminated") is runner.terminated
    for name in ("finished_count", "fused_steps", "z", 3):
        with pytest.raises(KeyError, match="Runner.result: name .* wanted one of"):
            runner.result(name)  # type: ignore[arg-type]


def test_a_bound_plan_of_a_runner_is_not_bound_anew() -> None:
    runner = runner_of()
    assert isinstance(runner.step, eagle.BoundPlan)
    with pytest.raises(ValueError, match=r"decay.rebind: planes: found a plan that a runner steps"):
        runner.step.rebind(floor=0.5)


def test_a_plane_that_moved_is_refused() -> None:
    y = np.ones(5)
    runner = runner_of(y=y)
    y.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match="^Runner.run: Mutable 'y'"):
        runner.run()
    y.flags.writeable = True
    assert runner.run().done


@pytest.mark.want("9a")
def test_the_runner_owns_the_counters_of_dispatch_groups() -> None:
    k, y = np.array([0, 1, 0]), np.zeros(3)
    assert eagle.run_until_done(plan_of("branching"), max_steps=50, k=k, y=y).steps == 11
    assert y.tolist() == [11.0, 12.0, 11.0]


@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("held", [None, np.array([False, True, False])])
def test_a_second_mask_may_be_left_out_or_given(held: Array | None, policy: str) -> None:
    y = np.zeros(3)
    runner = eagle.until_done(plan_of("with_two_masks"), max_steps=9, y=y, **({} if held is None else {"held": held}))
    runner.host_policy = policy
    report = runner.run()
    assert y.tolist() == ([6.0] * 3 if held is None else [6.0, 0.0, 6.0])
    assert report.finished == (3 if held is None else 2)
    assert report.steps == 6 or not report.exact_steps  # whoever is held takes no steps


@pytest.mark.want("7g")
def test_a_grid() -> None:
    for shape in ((4, 3), (12,)):
        u = np.arange(1.0, 13.0).reshape(shape)
        runner = eagle.until_done(plan_of("in_lanes"), max_steps=50, u=u, **({"row": 4} if len(shape) == 2 else {}))
        report = runner.run()
        want = np.arange(1.0, 13.0)
        while (low := want <= 100.0).any():
            want[low] *= 2.0
        assert report.done and report.steps == 7 and (u.ravel() == want).all()


# ---- layouts ---------------------------------------------------------------------------------------------------------


def walked(n: int) -> tuple[Array, Array, Array, Array, int]:
    """Inputs, what `v` becomes, a start for it, and the most steps."""
    rng = np.random.default_rng(n)
    w, limit = rng.uniform(0.5, 2.0, (2, n)), rng.uniform(1.0, 9.0, n)
    v, most = np.zeros((2, n)), 0
    for i in range(n):
        steps = 0
        while steps == 0 or v[0, i] <= limit[i]:
            v[:, i] = v[:, i] + w[:, i]
            steps += 1
        most = max(most, steps)
    return w, limit, v, np.zeros((2, n)), most


@pytest.mark.want("18")
def test_sample_major_planes_are_converted_once_a_run(recwarn: pytest.WarningsRecorder) -> None:
    w, limit, want, _, most = walked(50)
    mine = np.zeros((50, 2))
    with pytest.warns(eagle.LayoutWarning) as warned:
        runner = eagle.until_done(plan_of("walk"), max_steps=100, w=w, limit=limit, v=mine)
    assert len(warned) == 1 and "eagle.until_done: Mutable 'v'" in str(warned[0].message)
    assert "each run copies" in str(warned[0].message)
    assert runner.run().steps == most and (mine == want.T).all() and runner.result("v") is mine
    mine[:] = 0.0
    runner.reset()
    assert runner.run().steps == most and (mine == want.T).all()


def test_a_transposed_plane_is_stepped_in_place() -> None:
    w, limit, want, memory, most = walked(50)
    report = eagle.run_until_done(plan_of("walk"), max_steps=100, w=w.T, limit=limit, v=memory.T)
    assert report.steps == most and (memory == want).all()


@pytest.mark.want("3.0")
@pytest.mark.parametrize("door", [eagle.until_done, eagle.run_until_done])
def test_layout_is_in_the_signature_and_decides_squares(door: Any) -> None:
    assert inspect.signature(door).parameters["layout"].default is None
    w, limit, want, v, _ = walked(2)
    with pytest.raises(eagle.LayoutError, match=f"^eagle.{door.__name__}: .*samples_first"):
        door(plan_of("walk"), max_steps=100, w=w, limit=limit, v=v)
    eagle.run_until_done(plan_of("walk"), max_steps=100, w=w, limit=limit, v=v, layout="samples_last")
    assert (v == want).all()
    with pytest.warns(eagle.LayoutWarning):
        mine = np.zeros((2, 2))
        eagle.run_until_done(plan_of("walk"), max_steps=100, w=eagle.samples_last(w), limit=limit, v=mine,
                             layout="samples_first")
    assert (mine == want.T).all()


def test_a_sample_major_plane_of_two_kernels_is_one() -> None:
    _, limit, want, _, most = walked(50)
    w, mine = walked(50)[0], np.zeros((50, 2))
    with pytest.warns(eagle.LayoutWarning) as warned:
        runner = eagle.until_done([plan_of("push"), plan_of("stop_beyond")], max_steps=100, w=w, limit=limit, v=mine)
    assert len(warned) == 1
    assert runner.run().steps == most and (mine == want.T).all()
    mine.flags.writeable = False
    with pytest.warns(eagle.LayoutWarning), pytest.raises(eagle.BufferRefused, match="'v': found a read-only array"):
        eagle.until_done([plan_of("push"), plan_of("stop_beyond")], max_steps=100, w=w, limit=limit, v=mine)


def test_a_sample_major_input_may_be_read_only() -> None:
    """It is copied before a run, and not back."""
    w, limit, want, _, most = walked(50)
    given, v = np.ascontiguousarray(w.T), np.zeros((50, 2))
    given.flags.writeable = False
    with pytest.warns(eagle.LayoutWarning):
        runner = eagle.until_done(plan_of("walk"), max_steps=100, w=given, limit=limit, v=v)
    assert runner.run().steps == most and (v == want.T).all() and (given == w.T).all()


def test_a_sample_major_plane_that_only_a_later_kernel_writes_is_copied_back() -> None:
    w, limit = walked(50)[:2]
    want, mine, most = np.zeros((50, 2)), np.zeros((50, 2)), 0
    for i in range(50):
        steps = 1  # the last one stops it, ahead of its push
        while want[i, 0] <= limit[i]:
            want[i] += w[:, i]
            steps += 1
        most = max(most, steps)
    with pytest.warns(eagle.LayoutWarning):
        runner = eagle.until_done([plan_of("stop_beyond"), plan_of("push")], max_steps=100, w=w, limit=limit, v=mine)
    assert runner.run().steps == most and (mine == want).all()


# ---- progress --------------------------------------------------------------------------------------------------------


def test_progress_calls_a_function() -> None:
    told: list[tuple[int, int, int]] = []
    report = runner_of(progress=lambda *facts: told.append(facts)).run()
    assert told[0] == (0, 5, 0) and told[-1][:2] == (5, 5) == (report.finished, report.n)
    assert sum(STOPS) <= told[-1][2] <= 5 * 100 and told == sorted(told)


@pytest.mark.parametrize("policy", ["auto", "band"])
def test_progress_counts_the_steps_of_all_samples(policy: str) -> None:
    told: list[tuple[int, int, int]] = []
    runner = runner_of("decay_one", progress=lambda *facts: told.append(facts))
    runner.host_policy = policy
    assert runner.run().done and told[-1] == (5, 5, sum(STOPS))
    told.clear()
    assert runner.run().steps == 0 and told == []  # there was nothing to do


def test_an_exception_of_progress_ends_the_run_cleanly() -> None:
    class Enough(Exception):
        pass

    def enough(done: int, n: int, steps: int) -> None:
        if steps:
            raise Enough

    hits = np.zeros(5)
    runner = runner_of("decay_one", hits=hits, progress=enough)
    with pytest.raises(Enough):
        runner.run()
    assert set(hits.tolist()) <= {float(step) for step in range(23)}
    while not runner.terminated.all():
        with pytest.raises(Enough):
            runner.run()
    assert hits.tolist() == STOPS


def test_progress_true_is_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="framework-missing: tqdm")
    runner = runner_of(progress=True)
    assert runner.run().done
    shown = capsys.readouterr().err
    assert "5/5" in shown and "steps/s" in shown


def test_every_run_has_a_bar_of_its_own_which_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Any] = []

    class Shown:
        n, closed = 0, 0

        def __init__(self, total: int, **_: Any) -> None:
            self.total = total
            bars.append(self)

        def set_postfix_str(self, *_: Any, **__: Any) -> None:
            pass

        def update(self, more: int) -> None:
            assert not self.closed
            self.n += more

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Shown))
    runner = runner_of("decay_one", 7, progress=True)
    for _ in range(4):
        runner.run()
    assert [(bar.n, bar.total, bar.closed) for bar in bars] == [(3, 5, 1), (4, 5, 1), (4, 5, 1), (5, 5, 1)]


def test_progress_true_names_tqdm_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"^eagle.until_done: progress: found True without tqdm.*pip install tqdm"):
        runner_of(progress=True)
    assert runner_of(progress=False).run().done


# ---- threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.want("4d")
def test_one_call_at_a_time() -> None:
    began, go_on = threading.Event(), threading.Event()

    def wait(done: int, n: int, steps: int) -> None:
        began.set()
        go_on.wait(30)

    runner = runner_of("decay_active", progress=wait)
    calls = {"run": runner.run, "reset": runner.reset, "active": lambda: runner.active}
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        assert began.wait(30)
        for name, call in calls.items():
            with pytest.raises(eagle.Busy, match=rf"^Runner\.{name}: .*own Runner, or wait"):
                call()
    finally:
        go_on.set()
        thread.join()
    assert runner.run().launches == 0 and runner.active is not None
    runner.reset()


@pytest.mark.want("16")
def test_two_runners_of_one_kernel_run_at_the_same_time() -> None:
    rate = np.random.default_rng(1).uniform(0.5, 0.999, 5000)
    want_y, want_hits = np.ones(5000), np.zeros(5000)
    serial(rate, want_y, want_hits, np.zeros(5000, bool), 300)
    states = [(np.ones(5000), np.zeros(5000)) for _ in range(4)]
    runners = [runner_of(max_steps=300, rate=rate, y=y, hits=hits) for y, hits in states]
    threads = [threading.Thread(target=runner.run) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((y == want_y).all() and (hits == want_hits).all() for y, hits in states)


def endless(name: str, n: int = 1000) -> tuple[eagle.Runner, Array]:
    """A runner that takes 2**62 steps, and what counts those of each sample; its other plane has twice that."""
    a = np.zeros(n)
    return eagle.until_done(plan_of(name), max_steps=2**62, a=a, b=np.zeros(n)), a


@pytest.mark.parametrize("name", ["endless", "endless_one", "endless_active"])
def test_stop_from_another_thread(name: str) -> None:
    runner, a = endless(name)
    reports: list[RunReport] = []
    thread = threading.Thread(target=lambda: reports.append(runner.run()))
    thread.start()
    time.sleep(0.05)
    while thread.is_alive():
        runner.stop()
        thread.join(0.01)
    assert not reports[0].done and (runner.result("b") == 2.0 * a).all()
    assert (reports[0].steps, reports[0].exact_steps) == (a.max(), True)


@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("name", ["endless", "endless_one", "endless_active"])
def test_ctrl_c_leaves_every_sample_at_a_step_boundary(name: str, policy: str) -> None:
    runner, a = endless(name)
    runner.host_policy = policy
    sent: list[float] = []

    def send() -> None:
        time.sleep(0.1)
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=send)
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        runner.run()
    took = time.perf_counter() - sent[0]
    thread.join()
    b = runner.result("b")
    assert took < 2.0 and a.max() > 0 and (b == 2.0 * a).all()
    before = a.copy()
    assert eagle.run_until_done(plan_of(name), max_steps=70, a=a, b=b).steps == 70 and (a == before + 70).all()


def test_plans_of_plugins_and_broadcast_inputs() -> None:
    y, hits = np.ones(5), np.zeros(5)
    host = eagle.plan.plan(plan_of("decay").plugin, structure=eagle.exec.HostTeam)
    assert eagle.run_until_done(host, max_steps=100, rate=RATES, floor=0.1, y=y, hits=hits).steps == 22
    u, b = np.ones((4, 3)), np.arange(1.0, 5.0)[:, None]
    report = eagle.run_until_done(plan_of("on_lanes"), max_steps=50, b=b, u=u)
    assert report.done and report.steps == 10 and (u == np.array([[11.0], [11.0], [13.0], [13.0]])).all()


@pytest.mark.want("4a")
def test_a_run_allocates_nothing_of_the_batch() -> None:
    n = 200_000
    rate = np.full(n, 0.5)
    for name in ("decay", "decay_one", "decay_active"):
        runner = runner_of(name, rate=rate, y=np.ones(n), hits=np.zeros(n))
        tracemalloc.start()
        runner.run()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < n  # bytes: a mask of the batch would be more
