# SPDX-License-Identifier: Apache-2.0
"""Every way of stepping gives the bits of a serial loop of single steps: any form, size, cap, stop distribution, mask,
number of threads, pace, compaction and order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import stepping_kernels as ks
from hypothesis import given, settings
from hypothesis import strategies as st
from stepping_forms import COMPACTING, DISTS, MODELS, Array, Model, Planes, copied, layout
from stepping_oracle import Answer, Serial, assert_same, batch

import eagle

SIZES = (0, 1, 2, 3, 63, 64, 65, 257, 1000, 4099)
HUGE = 10**9
POLICIES = ("auto", "tiled", "measured", "band")
THREADS = (1, 2, 3, 4)


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = eagle.num_threads()
    yield
    eagle.set_num_threads(before)


@pytest.fixture(params=MODELS, ids=lambda form: form.replace(" ", "_"))
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]


def caps_of(model: Model) -> list[int]:
    k = model.k if isinstance(model.k, int) else 64
    return sorted({1, 2, 3, *(c for c in (k - 1, k, k + 1) if c), 63, 64, 65, 127, 128, 129, huge(model)})


def huge(model: Model, dist: str = "spread") -> int:
    """A cap that no sample reaches; where some sample is never done, one that all others do not."""
    return HUGE if model.exact and dist != "never" else 310


def a_mask(n: int, seed: int) -> Array:
    """Every fifth sample or so is done on entry."""
    return np.random.default_rng(seed).integers(0, 5, n) == 0


def runner(model: Model, planes: Planes, mask: Array, cap: int, **options: Any) -> Any:
    return eagle.until_done(model.plan, max_steps=cap, **layout(planes), **options, **planes, terminated=mask)


def knows(model: Model, want: Answer) -> bool:
    """Whether an engine can know how many steps the busiest sample took. Where a launch of K steps finished the last
    samples, it cannot: nobody tells which of the steps did."""
    return model.exact and (model.k in (1, "auto") or not want.done or not want.steps)


def check(model: Model, report: Any, planes: Planes, mask: Array, want: Answer, cap: int, *,
          native: bool = True) -> None:
    """The planes have the answer's bits, and the report says what happened."""
    assert_same(planes, mask, want)
    assert (report.n, report.finished, report.done) == (want.n, want.finished, want.done)
    if knows(model, want):
        assert (report.steps, report.exact_steps) == (want.steps, True)
    else:
        assert report.steps == want.steps if report.exact_steps else want.steps <= report.steps
    steps = report.steps
    assert steps <= model.offered(cap)
    assert (report.launches == 0) == (report.mapped == 0) == (report.launches_by_k == {}) == (steps == 0)
    if native and steps:
        k = steps if model.k == "auto" else model.k
        assert report.launches_by_k == {k: math.ceil(steps / k)}
    if model.exact and steps:
        assert int((want.counts > 0).sum()) <= report.mapped * len(model.kernels)
    assert (report.build_s, report.mode, report.slot_fill) == (0.0, "band", None)
    assert report.dispatch is None or model.owned  # a group that was left to the run


@pytest.mark.parametrize("n", SIZES)
def test_caps(model: Model, n: int) -> None:
    planes = model.planes(n, n, "spread")
    mask = a_mask(batch(planes), n)
    for cap, want in Serial(model, planes, mask).runs(caps_of(model)).items():
        given, done = copied(planes), mask.copy()
        report = eagle.run_until_done(model.plan, max_steps=cap, **layout(given), **given, terminated=done)
        check(model, report, given, done, want, cap)


def test_simulate(model: Model) -> None:
    for n in (0, 1, 2, 65, 1000):
        planes = model.planes(n, n + 1, "spread")
        for cap, want in Serial(model, planes).runs([1, 2, 63, 64, 65, huge(model)]).items():
            given = copied(planes)
            result = eagle.simulate(model.model, max_steps=cap, scalar_type=model.scalar_type, **layout(given), **given)
            check(model, result.report, given, result.finished, want, cap)
            assert (result.n, result.done, result.steps) == (want.n, want.done, result.report.steps)
            assert result.status == ("finished" if want.done else "max_steps") and result.allocated == ()
            for name, plane in result.state.items():
                assert plane is given[name]


@pytest.mark.parametrize("dist", DISTS)
def test_distributions(model: Model, dist: str) -> None:
    planes = model.planes(257, 3, dist)
    n = batch(planes)
    for mask in (np.zeros(n, bool), a_mask(n, 1), np.ones(n, bool)):
        for cap, want in Serial(model, planes, mask).runs([1, 64, 130, huge(model, dist)]).items():
            given, done = copied(planes), mask.copy()
            check(model, runner(model, given, done, cap).run(), given, done, want, cap)


def test_a_mask_that_is_left_out_is_made(model: Model) -> None:
    planes = model.planes(65, 3, "spread")
    want = Serial(model, planes).run(9)
    given = copied(planes)
    run = eagle.until_done(model.plan, max_steps=9, **given)
    check(model, run.run(), given, run.terminated, want, 9)
    assert run.terminated.dtype == np.bool_ and run.result("terminated") is run.terminated


def test_further_runs_continue(model: Model) -> None:
    """Four runs with a cap, and one more that finds everybody done or stopped."""
    planes = model.planes(257, 4, "spread")
    mask = a_mask(batch(planes), 4)
    serial = Serial(model, planes, mask)
    run = runner(model, planes, mask, 5)
    for _ in range(4):
        check(model, run.run(), planes, mask, serial.run(5), 5)
    cap = huge(model)
    run = runner(model, planes, mask, cap)
    check(model, run.run(), planes, mask, serial.run(cap), cap)
    if model.exact:
        again = run.run()
        assert (again.launches, again.steps, again.finished, again.done) == (0, 0, len(mask), True)


def test_the_caller_edits_between_runs(model: Model) -> None:
    """Bits that are cleared and set, and states that are changed, count for the next run."""
    planes = model.planes(257, 5, "spread")
    mask = np.zeros(batch(planes), bool)
    serial = Serial(model, planes, mask)
    run = runner(model, planes, mask, 20)
    check(model, run.run(), planes, mask, serial.run(20), 20)
    rng = np.random.default_rng(5)
    for _ in range(3):
        where = rng.integers(0, 3, len(mask)) == 0
        for done in (mask, serial.mask):
            done[where] = ~done[where]
        name = next(name for name in ("k", "y", "x", "p") if name in planes)
        for held in (planes, serial.planes):
            held[name][..., ::2] = 0
        check(model, run.run(), planes, mask, serial.run(20), 20)


def test_reset(model: Model) -> None:
    planes = model.planes(257, 6, "spread")
    mask = a_mask(batch(planes), 6)
    serial = Serial(model, planes, mask)
    run = runner(model, planes, mask, 30)
    check(model, run.run(), planes, mask, serial.run(30), 30)
    before = copied(planes)
    run.reset()
    assert not mask.any() and int(run.finished[0]) == 0
    assert all(np.array_equal(planes[name], before[name], equal_nan=True) for name in planes)
    serial.mask[:] = False
    check(model, run.run(), planes, mask, serial.run(30), 30)


@pytest.mark.smoke
@pytest.mark.want("2.5")
@pytest.mark.parametrize("policy", POLICIES)
def test_threads_and_paces(model: Model, policy: str) -> None:
    planes = model.planes(1000, 7, "spread")
    mask = a_mask(batch(planes), 7)
    for cap, want in Serial(model, planes, mask).runs([65, huge(model)]).items():
        for threads in THREADS:
            given, done = copied(planes), mask.copy()
            run = runner(model, given, done, cap)
            run.host_policy, run.host_threads = policy, threads
            check(model, run.run(), given, done, want, cap, native=policy == "auto")


@pytest.mark.smoke
@pytest.mark.parametrize("form", COMPACTING)
@pytest.mark.parametrize("n", [0, 1, 65, 4096, 5000])
def test_cadences_and_orders(form: str, n: int) -> None:
    """Samples are moved (from 4096 on) and sorted back; the results do not show it."""
    model = COMPACTING[form]
    planes = model.planes(n, 8, "spread")
    mask = a_mask(batch(planes), 8)
    cadences = [None] if model.k == "auto" else [None, 4, 8, 64]
    for cap, want in Serial(model, planes, mask).runs([1, 7, 64, huge(model)]).items():
        for every in cadences:
            for reorder in (None, False, True, 0.25, 0.75):
                for policy in ("auto", "band"):
                    given, done = copied(planes), mask.copy()
                    run = runner(model, given, done, cap, every=every, reorder=reorder)
                    run.host_policy = policy
                    check(model, run.run(), given, done, want, cap, native=policy == "auto")
                    assert run.active is not None and run.every == (
                        None if model.k == "auto" else every or 16)


def nan_planes(model: Model, n: int) -> Planes:
    """Every third sample's rule sees NaN and is never true."""
    planes = model.planes(n, 9, "spread")
    for name in ("stop", "rate", "a", "t_end", "wall", "x"):
        if isinstance(planes.get(name), np.ndarray) and planes[name].dtype.kind == "f" and planes[name].ndim == 1:
            planes[name][::3] = np.nan
            return planes
    return planes


def test_nan_never_finishes(model: Model) -> None:
    planes = nan_planes(model, 65)
    mask = np.zeros(batch(planes), bool)
    for cap, want in Serial(model, planes, mask).runs([10, 220]).items():
        given, done = copied(planes), mask.copy()
        check(model, runner(model, given, done, cap).run(), given, done, want, cap)


@pytest.mark.smoke
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_anything(data: st.DataObject) -> None:
    """Any model, size, cap, distribution, mask, threads, pace, cadence and order, run once or twice."""
    model = MODELS[data.draw(st.sampled_from(sorted(MODELS)), "form")]
    dist = data.draw(st.sampled_from(sorted(DISTS)), "dist")
    planes = model.planes(data.draw(st.integers(0, 600), "n"), data.draw(st.integers(0, 9), "seed"), dist)
    n = batch(planes)
    mask = np.random.default_rng(data.draw(st.integers(0, 9), "mask seed")).random(n) < data.draw(
        st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.95, 1.0]), "set on entry")
    cap = data.draw(st.one_of(st.integers(1, 200), st.sampled_from([1, 63, 64, 65, 128, 129])), "cap")
    options: dict[str, Any] = {}
    if model.compacts:
        options["reorder"] = data.draw(st.sampled_from([None, False, True, 0.25, 0.6, 0.75]), "reorder")
        if model.k != "auto":
            options["every"] = data.draw(st.sampled_from([None, 4, 12, 16, 40]), "every")
    eagle.set_num_threads(data.draw(st.sampled_from(THREADS), "team"))
    serial = Serial(model, planes, mask)
    run = runner(model, planes, mask, cap, **options)
    run.host_policy = data.draw(st.sampled_from(POLICIES), "policy")
    run.host_threads = data.draw(st.sampled_from([None, 1, 2, 4]), "threads")
    for _ in range(data.draw(st.integers(1, 2), "runs")):
        check(model, run.run(), planes, mask, serial.run(cap), cap, native=run.host_policy == "auto")


def test_what_is_stepped_again_is_counted_once() -> None:
    """An engine that steps a group again to learn its last step adds nothing to the counts of the branches."""
    model = MODELS["dispatch, auto"]
    for dist in ("immediate", "equal", "straggler", "spread"):
        planes, mix = model.planes(500, 1, dist), np.zeros(3, np.uint32)
        steps = Serial(model, copied(planes), None).run(1000).counts.sum()
        eagle.run_until_done(model.plan, max_steps=10**6, dispatch0_mix=mix, **planes)
        assert mix.sum() == steps, dist


@pytest.mark.parametrize("later", [1, 2])
def test_samples_that_end_alike_after_one_step_and_two(later: int) -> None:
    """What is left of a sample does not tell how many steps it took."""
    left = np.repeat([1.0, later], 64)  # two blocks of one thread
    eagle.set_num_threads(1)
    report = eagle.run_until_done(eagle.deploy(ks.countdown), max_steps=100, left=left)
    assert (report.steps, report.exact_steps, report.finished, left.any()) == (later, True, 128, False)


@pytest.mark.parametrize(("n", "told"), [(512, (1, True)), (513, (2, False))])
def test_one_heavy_step(n: int, told: tuple[int, bool]) -> None:
    """Where many samples take one step of many operations, it is not asked whether the last took two."""
    model = MODELS["orbit"]
    planes = {**model.planes(n, 3, "equal"), "t_end": np.full(n, 0.005)}
    want = Serial(model, planes).run(100)
    report = eagle.run_until_done(model.plan, max_steps=100, **planes, terminated=(mask := np.zeros(n, bool)))
    assert_same(planes, mask, want)
    assert want.steps == 1 and (report.steps, report.exact_steps) == told
