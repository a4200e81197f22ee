# SPDX-License-Identifier: Apache-2.0
"""The examples of the stepping specification, its table of numbers, its edge cases, and what it wants of a Runner."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stepping_kernels as ks
from stepping_forms import COMPACTING, MODELS, copied, deployed
from stepping_oracle import Serial, assert_same

import eagle

HERE = str(Path(__file__).parent)
RATE = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
ENDS = [0.0625, 0.07776, 0.0823543, 0.08589935, 0.09847709]  # after 4, 5, 7, 11, 22 steps


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = eagle.num_threads()
    yield
    eagle.set_num_threads(before)


def example() -> dict[str, Any]:
    return {"rate": RATE, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)}


def counting(stops: Any = (4, 5, 7, 11, 22)) -> dict[str, Any]:
    """The same numbers of steps for the kernels that count in `k`."""
    n = len(stops)
    return {"a": np.full(n, 0.5), "stop": np.array(stops, float), "x": np.ones(n), "k": np.zeros(n)}


# ---- 5: reports ------------------------------------------------------------------------------------------------------


@pytest.mark.want("5a")
@pytest.mark.want("5.1")
@pytest.mark.parametrize(("form", "every", "cap", "finished", "steps", "by_k", "exact", "hits"), [
    ("decay", None, 5, 2, 5, {5: 1}, True, 5),
    ("decay", None, 22, 5, 22, {22: 1}, True, 22),
    ("decay", None, 100, 5, 22, {22: 1}, True, 22),
    ("steps=1", None, 5, 2, 5, {1: 5}, True, 5),
    ("steps=1", None, 100, 5, 22, {1: 22}, True, 22),
    ("steps=4", None, 5, 3, 8, {4: 2}, True, 8),
    ("compacting, steps=1", None, 1, 0, 1, {1: 1}, True, 1),
    ("compacting, steps=1", 32, 10, 3, 10, {1: 10}, True, 10),
    ("compacting, steps=1", 32, 100, 5, 22, {1: 22}, True, 22),
    ("compacting", None, 5, 2, 5, {5: 1}, True, 5),
    ("compacting", None, 100, 5, 22, {22: 1}, True, 22),
])
def test_the_table_of_numbers(form: str, every: int | None, cap: int, finished: int, steps: int, by_k: dict[int, int],
                              exact: bool, hits: int) -> None:
    """No cap is exceeded where the last launch can be cut, and `steps` is what the busiest sample took."""
    planes = example() if form == "decay" else counting()
    report = eagle.run_until_done(MODELS[form].plan, max_steps=cap, every=every, **planes)
    assert (report.finished, report.steps, report.launches_by_k, report.exact_steps) == (finished, steps, by_k, exact)
    assert max(planes["hits" if form == "decay" else "k"]) == hits


@pytest.mark.want("5a")
@pytest.mark.parametrize("form", ["decay", "steps=1", "steps=4", "compacting", "compacting, steps=1", "finisher last"])
def test_a_batch_of_none_is_exact_everywhere(form: str) -> None:
    report = eagle.run_until_done(MODELS[form].plan, max_steps=7, **MODELS[form].planes(0, 0, "equal"))
    assert report == eagle.RunReport(n=0, finished=0, done=True, launches=0, steps=0, compactions=0, reorders=0,
                                     build_s=0.0, launches_by_k={}, exact_steps=True)


@pytest.mark.want("5a")
def test_a_compacting_set_that_is_run_again_counts_its_own_steps() -> None:
    planes = counting([10, 14])
    run = eagle.until_done(MODELS["compacting, steps=1"].plan, max_steps=10, **planes)
    assert (run.run().steps, planes["k"].tolist()) == (10, [10, 10])
    report = run.run()
    assert (report.steps, report.exact_steps, report.done, planes["k"].tolist()) == (4, True, True, [10, 14])


@pytest.mark.want("5b")
@pytest.mark.parametrize("policy", ["auto", "tiled", "measured", "band"])
def test_visits_are_counted(policy: str) -> None:
    """What `mapped` adds up: every launch the samples it was given."""
    for form, least in (("steps=1", 49), ("compacting, steps=1", 49), ("decay", 5)):
        planes = example() if form == "decay" else counting()
        run = eagle.until_done(MODELS[form].plan, max_steps=100, **planes)
        run.host_policy = policy
        report = run.run()
        assert report.steps == 22 and least <= report.mapped <= 22 * 5  # 49 steps of 5 samples, as many as 22 each
        if form == "steps=1" and policy != "auto":
            assert report.mapped == report.launches * 5
        assert run.run().mapped == 0


@pytest.mark.want("5b")
def test_visits_of_a_compacting_kernel_are_those_of_its_live_samples() -> None:
    """Most samples are done at once; whoever is done is not visited again behind the next compaction."""
    stops = np.where(np.arange(1000) == 500, 320.0, 1.0)
    planes = counting(stops)
    run = eagle.until_done(MODELS["compacting, steps=1"].plan, max_steps=1000, every=16, **planes)
    run.host_policy = "band"
    report = run.run()
    assert report.steps == 320 and report.compactions in (19, 20)
    assert report.mapped == 16 * 1000 + 304


def test_a_report_is_a_value() -> None:
    report = eagle.run_until_done(MODELS["decay"].plan, max_steps=100, **example())
    assert pickle.loads(pickle.dumps(report)) == report
    assert report == eagle.run_until_done(MODELS["decay"].plan, max_steps=100, **example())
    assert report != eagle.run_until_done(MODELS["decay"].plan, max_steps=5, **example())
    with pytest.raises(AttributeError):
        report.steps = 3
    fields = ["n", "finished", "done", "launches", "steps", "compactions", "reorders", "build_s", "launches_by_k",
              "exact_steps", "slot_fill", "mode", "probe", "timed", "dispatch", "class_sorts", "mapped"]
    assert list(type(report).__dataclass_fields__) == fields
    assert (report.slot_fill, report.mode, report.probe, report.timed, report.dispatch, report.class_sorts) == (
        None, "band", False, False, None, 0)


# ---- 4: the runner ---------------------------------------------------------------------------------------------------


def test_the_example_of_a_runner() -> None:
    planes = example()
    run = eagle.until_done(eagle.deploy(ks.decay), max_steps=7, **planes)
    finished, hits = [], []
    for _ in range(4):
        finished.append(run.run().finished)
        hits.append(planes["hits"].tolist())
    assert finished == [3, 4, 4, 5]
    assert hits == [[4, 5, 7, 7, 7], [4, 5, 7, 11, 14], [4, 5, 7, 11, 21], [4, 5, 7, 11, 22]]
    assert planes["y"].tolist() == pytest.approx(ENDS, abs=1e-8)
    assert run.result("y") is planes["y"] and run.result("floor") == 0.1 and run.n == 5
    assert run.terminated.tolist() == [True] * 5 and (run.finished.dtype, run.finished.tolist()) == (np.uint32, [5])
    for name in ("nothing", "finished_count", "fused_steps"):
        with pytest.raises(KeyError, match=r"rate.*floor.*y.*hits|hits.*y.*rate.*floor"):
            run.result(name)


@pytest.mark.parametrize(("form", "wanted"), [
    ("decay", {"steps_per_launch": "auto", "auto": True, "every": None, "launches_per_compaction": 1}),
    ("steps=1", {"steps_per_launch": 1, "auto": False, "every": 1, "launches_per_compaction": 1}),
    ("steps=4", {"steps_per_launch": 4, "auto": False, "every": 4, "launches_per_compaction": 1}),
    ("compacting", {"steps_per_launch": "auto", "auto": True, "every": None, "launches_per_compaction": 1}),
    ("compacting, steps=1", {"steps_per_launch": 1, "auto": False, "every": 16, "launches_per_compaction": 16}),
    ("compacting, steps=4", {"steps_per_launch": 4, "auto": False, "every": 16, "launches_per_compaction": 4}),
    ("finisher last", {"steps_per_launch": 1, "auto": False}),
])
def test_attributes(form: str, wanted: dict[str, Any]) -> None:
    model = MODELS[form]
    run = eagle.until_done(model.plan, max_steps=100, **model.planes(9, 1, "equal"))
    assert {name: getattr(run, name) for name in wanted} == wanted
    assert (run.active is not None) == model.compacts
    assert (run.pipeline, run.record, run.t_stop, run.event_status) == (None,) * 4
    assert isinstance(run.step, tuple) == (not model.single)
    if wanted["auto"]:
        assert (run.fused_steps.dtype, run.fused_steps.shape) == (np.int64, (1,))
        assert set(run.policy) == {"k", "finished_at_launch", "steps_done", "max_steps", "go"}
    else:
        assert run.fused_steps is None and run.policy is None
    assert set(run.launch_policy) == {"block", "grid", "chunk", "fill", "rate", "k"}
    assert [run.launch_policy[name] for name in ("block", "grid", "chunk")] == [None] * 3
    assert run.loop.max_iters == 1 and "n=9" in repr(run)


@pytest.mark.parametrize(("form", "k"), [
    ("RK4 oscillator", 64), ("Table", 64), ("RK4 with a Table", 1), ("compacting", 64), ("compacting, integers", 1),
    ("inner loop", 64)])
def test_which_launches_take_several_steps(form: str, k: int) -> None:
    """Without a tile, those of steps of at most four operations."""
    model = MODELS[form]
    run = eagle.until_done(model.plan, max_steps=100, **model.planes(9, 1, "equal"))
    assert run.policy["k"] == k


@pytest.mark.want("4a")
@pytest.mark.parametrize("form", ["integer planes", "compacting, integers", "steps=4, integers"])
def test_a_run_allocates_nothing_of_the_size_of_a_batch(form: str) -> None:
    """The most memory the process had at a time grows by less than the mask is long."""
    code = f"""
import sys, numpy as np, eagle
sys.path.insert(0, {HERE!r})
from stepping_forms import MODELS

def most():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

model, n = MODELS[{form!r}], 4_000_000
eagle.run_until_done(model.plan, max_steps=9, **model.planes(5000, 3, "equal"))
planes = {{name: value + value.dtype.type(0) for name, value in model.planes(n, 3, "equal").items()}}
planes["stop"][:] = np.arange(n) % 8 + 1
run = eagle.until_done(model.plan, max_steps=9, **planes, terminated=planes["stop"] > 100)
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # the most so far is what is held now
before = most()
assert run.run().done
print(most() - before)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) < 3_000_000


@pytest.mark.want("4b")
@pytest.mark.parametrize(("name", "value", "error"), [
    ("host_threads", 0, ValueError), ("host_threads", -1, ValueError), ("host_threads", "2", TypeError),
    ("host_threads", 2.0, TypeError), ("host_threads", True, TypeError), ("host_policy", "fast", ValueError),
    ("host_policy", "", ValueError), ("host_policy", None, (TypeError, ValueError)),
    ("host_policy", 1, (TypeError, ValueError)),
])
def test_settings_are_checked(name: str, value: object, error: type[Exception]) -> None:
    run = eagle.until_done(MODELS["decay"].plan, max_steps=7, **example())
    before = getattr(run, name)
    with pytest.raises(error, match=rf"{name}.*found.*wanted"):
        setattr(run, name, value)
    assert getattr(run, name) == before
    assert run.run().finished == 3


@pytest.mark.want("4b")
def test_settings_that_are_taken() -> None:
    run = eagle.until_done(MODELS["decay"].plan, max_steps=7, **example())
    eagle.set_num_threads(2)
    for threads in (1, 2, np.int64(1), None):
        run.host_threads = threads
        assert run.host_threads == threads
        run.run()
        assert eagle.num_threads() == 2
    for policy in ("tiled", "measured", "band", "auto"):
        run.host_policy = policy
        assert run.host_policy == policy


@pytest.mark.want("4c")
@pytest.mark.parametrize("policy", ["auto", "band"])
@pytest.mark.parametrize("reorder", [None, 0.75])
@pytest.mark.parametrize("form", COMPACTING)
def test_a_bit_that_is_cleared_counts_for_a_compacting_run(form: str, reorder: float | None, policy: str) -> None:
    model = MODELS[form]
    planes = model.planes(5000, 3, "bimodal")
    serial = Serial(model, planes)
    run = eagle.until_done(model.plan, max_steps=200, reorder=reorder, **planes)
    run.host_policy = policy
    assert run.run().done
    serial.run(200)
    for cleared in ([17], [0, 4999], list(range(1000, 1200))):
        run.terminated[cleared] = serial.mask[cleared] = False
        report, want = run.run(), serial.run(200)
        assert_same(planes, run.terminated, want)
        assert report.done and report.finished == 5000
        assert want.steps <= report.steps <= want.steps + (3 if model.k == 4 else 0)


# ---- 2.5 and 6.2: no clock -------------------------------------------------------------------------------------------


SIDES = """
import sys, hashlib, numpy as np, eagle
sys.path.insert(0, {here!r})
from stepping_forms import MODELS
for form in ("sin, exp, log", "RK4 oscillator", "RK4 with a Table", "compacting", "orbit", "vectors and matrices"):
    model, seen = MODELS[form], set()
    for policy in ("auto", "tiled", "measured", "band"):
        for threads in (1, 2, 4):
            for cut in ([300], [300], [64, 236], [100, 100, 100], [2, 298]):
                planes = model.planes(2000, 3, "spread")
                mask = np.zeros(2000, bool)
                for cap in cut:
                    run = eagle.until_done(model.plan, max_steps=cap, **planes, terminated=mask)
                    run.host_policy, run.host_threads = policy, threads
                    run.run()
                assert mask.all()
                arrays = [value for value in planes.values() if isinstance(value, np.ndarray)]
                seen.add(hashlib.sha256(b"".join(array.tobytes() for array in arrays)).digest())
    few = model.planes(2000, 3, "spread")
    few = {{name: value[..., 700:701].copy() if np.ndim(value) and value.shape[-1] == 2000 else value
           for name, value in few.items()}}
    eagle.run_until_done(model.plan, max_steps=300, **few)
    alone = all(np.array_equal(few[name][..., 0], planes[name][..., 700]) for name in few
                if np.ndim(few[name]) and few[name].shape[-1] == 1)
    print(form, len(seen), alone)
"""


@pytest.mark.want("2.5")
@pytest.mark.timeout(300)
def test_one_side_of_an_entry_runs() -> None:
    """In a profile where both sides have bits of their own, pace, threads, cuts of a run and company show nothing."""
    environment = {**os.environ, "HAWK_HOST_PROFILE": "native-vector-math"}
    shown = subprocess.run([sys.executable, "-c", SIDES.format(here=HERE)], capture_output=True, text=True,
                           env=environment)
    assert shown.returncode == 0, shown.stderr
    assert [line.rsplit(" ", 2)[1:] for line in shown.stdout.splitlines()] == [["1", "True"]] * 6, shown.stdout


@pytest.mark.want("6.2")
@pytest.mark.parametrize("policy", ["auto", "tiled", "measured", "band"])
@pytest.mark.parametrize("form", ["RK4 oscillator", "steps=1", "compacting", "RK4 with a Table", "finisher first"])
def test_no_pace_looks_at_a_clock(form: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are the same from run to run, whatever a clock of Python says; all but visits, since a call that would
    take long is cut by what steps were measured to take."""
    model = MODELS[form]

    def report(threads: int) -> eagle.RunReport:
        run = eagle.until_done(model.plan, max_steps=400, **model.planes(3000, 3, "spread"))
        run.host_policy, run.host_threads = policy, threads
        return replace(run.run(), mapped=0)

    wanted = report(1)
    ticks = np.random.default_rng(1)
    for name in ("perf_counter", "monotonic", "time", "perf_counter_ns", "monotonic_ns", "process_time"):
        monkeypatch.setattr(time, name, lambda: int(ticks.integers(0, 10**12)))
    for threads in (1, 2) * 4:
        assert report(threads) == wanted


# ---- 7.2, 10, 11: the other examples ---------------------------------------------------------------------------------


def test_the_example_of_simulate() -> None:
    planes = example()
    result = eagle.simulate(ks.decay, **planes, max_steps=100)
    assert result.y is planes["y"] and result["y"] is result.y and result.y.tolist() == pytest.approx(ENDS, abs=1e-8)
    assert result.hits.tolist() == [4, 5, 7, 11, 22]
    one = eagle.simulate(ks.decay, 0.5, 0.1, 1.0, 0.0, max_steps=100)
    assert (one.y.shape, float(one.y), float(one.hits), one.finished.shape) == ((), 0.0625, 4.0, ())


def test_the_example_of_a_loop() -> None:
    live = np.array([5], np.uint32)
    loop = eagle.repeat_while(lambda: np.subtract(live, np.uint32(1), out=live), eagle.SkipGuard.nonzero(live), 64)
    loop()
    assert loop.iterations() == 5
    loop()
    assert loop.iterations() == 0
    live[0] = 100
    loop()
    assert loop.iterations() == 64


def test_the_example_of_an_active_set() -> None:
    plan = deployed(ks.live_one_step, "float64")
    planes, mask, finished = counting(), np.zeros(5, bool), np.zeros(1, np.uint32)
    active = eagle.ActiveSet(mask)
    bound = plan.bind(**planes, terminated=mask, finished_count=finished, **active.planes())
    total = np.array([5], np.uint32)
    loop = eagle.repeat_while(eagle.compaction_body(bound.launch, active, every=4, finished=finished),
                              eagle.SkipGuard(finished, 0, total, 0), 25)
    loop()
    assert (loop.iterations(), active.live) == (6, 0)
    assert planes["k"].tolist() == [4, 5, 7, 11, 22] and mask.all() and finished.tolist() == [5]


# ---- 8: several kernels ----------------------------------------------------------------------------------------------


def test_a_finish_takes_effect_inside_the_step() -> None:
    """A kernel behind the one that finishes skips the sample in the same step; ahead of it, it follows."""
    planes = {**example(), "e": np.zeros(5)}
    report = eagle.run_until_done(MODELS["finisher first"].plan, max_steps=100, **planes)
    assert (report.steps, report.launches_by_k) == (22, {1: 22})
    assert (planes["y"][0], planes["e"][0]) == (0.0625, 0.015625)
    step = [deployed(kernel, "float64") for kernel in (ks.pushed, ks.gauge, ks.stop_above)]
    climbing = {"a": np.ones(2), "y": np.zeros(2), "e": np.zeros(2), "wall": np.array([2.5, 0.5]),
                "crossed": np.zeros(2)}
    assert eagle.run_until_done(step, max_steps=100, **climbing).steps == 3
    assert (climbing["y"].tolist(), climbing["e"].tolist(), climbing["crossed"].tolist()) == ([3, 1], [9, 1], [6, 1])


def test_a_kernel_without_a_mask_runs_for_everybody() -> None:
    planes = {**example(), "steps_seen": np.zeros(5)}
    eagle.run_until_done(MODELS["counter without a mask"].plan, max_steps=100, **planes)
    assert planes["steps_seen"].tolist() == [22] * 5


# ---- 18 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[1.0, np.nan, 1.0]])
def test_nan_runs_to_the_cap(values: list[float]) -> None:
    hits = np.zeros(3)
    report = eagle.run_until_done(MODELS["decay"].plan, max_steps=10, rate=np.array([0.5, 0.5, 0.5]), floor=0.1,
                                  y=np.array(values), hits=hits)
    assert (hits.tolist(), report.done, report.finished) == ([4, 10, 4], False, 2)


def test_one_sample() -> None:
    """A batch of one has shape (1,); one sample has the shape of its arrays, and a row's bits."""
    for shape in ((1,), ()):
        y, hits = np.ones(shape), np.zeros(shape)
        run = eagle.until_done(MODELS["decay"].plan, max_steps=100, rate=np.full(shape, 0.9), floor=0.1, y=y, hits=hits)
        report = run.run()
        assert (report.n, report.steps, report.done) == (1, 22, True)
        assert y.shape == hits.shape == shape and hits == 22 and run.result("y") is y
        batch = example()
        eagle.run_until_done(MODELS["decay"].plan, max_steps=100, **batch)
        assert y.reshape(1).tobytes() == batch["y"][4:].tobytes()
    with pytest.raises((ValueError, TypeError), match="'(y|hits)'.*one sample"):
        eagle.until_done(MODELS["decay"].plan, max_steps=9, rate=0.5, floor=0.1, y=1.0, hits=0.0)


def test_after_the_end() -> None:
    planes = example()
    run = eagle.until_done(MODELS["decay"].plan, max_steps=100, **planes)
    run.run()
    before = copied(planes)
    again = run.run()
    assert (again.launches, again.steps, again.done, again.launches_by_k) == (0, 0, True, {})
    assert all(np.array_equal(planes[name], before[name]) for name in planes)
    run.reset()
    report = run.run()  # at least one step is always taken
    assert report.steps == 1 and planes["hits"].tolist() == (before["hits"] + 1).tolist()


@pytest.mark.alone
@pytest.mark.want("18")
def test_a_sample_major_plane_is_converted_once_a_run() -> None:
    """Its run costs what another one costs, and its answer is in the caller's array."""
    def seconds(of: Callable[[], Any]) -> float:
        best = float("inf")
        for _ in range(7):
            run = of()
            began = time.perf_counter()
            assert not run.run().done
            best = min(best, time.perf_counter() - began)
        return best

    model = MODELS["steps=1, vector"]
    planes = model.planes(20_000, 3, "never")
    turned = np.ascontiguousarray(planes["p"].T)

    def rows() -> Any:
        given = {**copied(planes), "p": np.array(turned)}
        return eagle.until_done(model.plan, max_steps=300, **given)

    def columns() -> Any:
        return eagle.until_done(model.plan, max_steps=300, **copied(planes))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eagle.LayoutWarning)
        ratio = min(seconds(rows) / seconds(columns) for _ in range(3))
    assert ratio < 1.6

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = eagle.until_done(model.plan, max_steps=300, **{**planes, "p": turned})
        run.run()
    assert [(w.category, "'p'" in str(w.message)) for w in caught] == [(eagle.LayoutWarning, True)]
    want = Serial(model, model.planes(20_000, 3, "never")).run(300)
    assert np.array_equal(turned.T, want.planes["p"])
    assert run.result("p") is turned
