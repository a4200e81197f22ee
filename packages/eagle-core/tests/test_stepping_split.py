# SPDX-License-Identifier: Apache-2.0
"""Splits by branch: every form of kernel, what a run decides and tells, and how it ends early."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import split_kernels as sk
import stepping_kernels as ks
from hypothesis import given, settings
from hypothesis import strategies as st

import eagle
from eagle.stepping import costs, split
from eagle.stepping.simulating import forget

Planes = dict[str, Any]
RNG = np.random.default_rng


def _kinds(most: int, dtype: Any = np.int64) -> Callable[[Any, int], Any]:
    return lambda rng, n: rng.integers(0 if dtype is np.uint32 else -1, most + 1, n).astype(dtype)


#: Kernels, what they take beside `stop`, `x` and `k`, and the branches of their group.
FORMS: dict[str, tuple[Any, dict[str, Callable[[Any, int], Any]], int]] = {
    "table": (sk.table, {"kind": _kinds(2), "i": lambda r, n: r.integers(0, 9, n), "t": lambda r, n: r.normal(size=9)},
              2),
    "shapes": (sk.shapes, {"kind": _kinds(3, np.int32), "a": lambda r, n: 0.5, "f": lambda r, n: r.normal(size=(2, n)),
                           "p": lambda r, n: r.normal(size=(2, n)), "q": lambda r, n: r.normal(size=(4, n))}, 3),
    "unsigned": (sk.unsigned, {"kind": _kinds(5, np.uint32)}, 4),
    "computed": (sk.computed, {"a": lambda r, n: r.uniform(0, 2, n), "b": lambda r, n: r.uniform(0, 1, n)}, 4),
    "own index": (sk.own_index, {"kind": _kinds(2)}, 2),
    "draws": (sk.draws, {"kind": _kinds(2)}, 2),
    "one step": (sk.one_step, {"kind": _kinds(3)}, 3),
    "four steps": (sk.four_steps, {"kind": _kinds(2)}, 2),
    "compacting": (sk.live, {"kind": _kinds(3)}, 3),
    "compacting, one step": (sk.live_one_step, {"kind": _kinds(3)}, 3),
    "stops by the group": (sk.stops, {"kind": _kinds(3)}, 3),
    "wandering": (ks.wandering, {"kind": lambda r, n: r.integers(0, 3, n)}, 3),
    "wandering, computed": (sk.ages, {}, 3),
}
WANDERING = ("wandering", "wandering, computed")


def planes_of(form: str, n: int, seed: int = 1) -> Planes:
    _, inputs, _ = FORMS[form]
    rng = RNG(seed)
    made = {"stop": np.floor(np.exp(rng.uniform(0, np.log(60), n))), "k": np.zeros(n)}
    if form != "shapes":
        made["x"] = rng.normal(size=n)
    return made | {name: make(rng, n) for name, make in inputs.items()}


def copied(planes: Planes) -> Planes:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in planes.items()}


@functools.cache
def deployed(kernel: Any) -> Any:
    return eagle.deploy(kernel)


def serial(kernel: Any, planes: Planes, cap: int, size: int) -> tuple[Planes, Any, int]:
    """One launch after the other of the kernel as it is: (planes, mask, steps)."""
    planes, n = copied(planes), len(planes["k"])
    mask, own = np.zeros(n, bool), {"dispatch0_mix": np.zeros(size, np.uint32)}
    if any(name == "active_map" for _, name in deployed(kernel).plugin.arg_spec):
        own |= {"active_map": np.arange(n, dtype=np.int32), "active_count": np.array([n], np.uint32)}
    bound = deployed(kernel).bind(**planes, **own, terminated=mask, **(
        {"layout": "samples_last"} if any(np.ndim(value) > 1 for value in planes.values()) else {}))
    before, launch = planes["k"].copy(), deployed(kernel).plugin.finish["steps"]
    launch = 1 if launch == "auto" else launch
    for _ in range(-(-cap // launch)):
        bound.launch()
    return planes, mask, int((planes["k"] - before).max(initial=0))


def same(given: Planes, wanted: Planes) -> None:
    for name, value in wanted.items():
        assert np.asarray(given[name]).tobytes() == np.asarray(value).tobytes(), name


@pytest.mark.filterwarnings("ignore::eagle.PerformanceWarning")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_bits_of_single_steps(form: str) -> None:
    kernel, _, size = FORMS[form]
    for n, cap, threads in ((1, 100, 1), (7, 5, 1), (300, 100, 2), (3000, 17, 2), (3000, 100, None)):
        planes = planes_of(form, n)
        wanted, mask, steps = serial(kernel, planes, cap, size)
        layout = "samples_last" if form == "shapes" else None
        made = eagle.simulation(kernel, max_steps=cap, dispatch="segmented", layout=layout, **planes)
        made.runner.host_threads = threads
        result = made.run()
        same(planes, wanted)
        assert result.finished.tobytes() == mask.tobytes()
        report = result.report
        assert (report.steps, report.exact_steps, report.done) == (steps, True, bool(mask.all()))
        assert report.launches == steps * size and report.launches_by_k == {1: steps}
        assert report.dispatch["dispatch0"][0::2] == ("segmented", 1.0)
        assert report.class_sorts == (steps if form in WANDERING else 1)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 400), st.integers(1, 80), st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0]))
def test_any_mix_and_cap(n: int, cap: int, seed: int, share: float) -> None:
    rng = RNG(seed)
    planes = {"kind": np.where(rng.uniform(size=n) < share, 1, rng.integers(0, 3, n)), "x": rng.normal(size=n),
              "stop": rng.integers(1, 70, n) + 0.0, "k": np.zeros(n)}
    wanted, mask, steps = serial(ks.mixed, planes, cap, 3)
    result = eagle.simulate(ks.mixed, max_steps=cap, dispatch="segmented", **planes)
    same(planes, wanted)
    assert result.finished.tobytes() == mask.tobytes() and (result.steps, result.report.exact_steps) == (steps, True)


@pytest.mark.parametrize("policy", ["tiled", "measured", "band"])
@pytest.mark.parametrize("form", ["table", "compacting", "one step"])
def test_the_portable_loop_splits_alike(form: str, policy: str) -> None:
    kernel, _, size = FORMS[form]
    planes = planes_of(form, 200)
    wanted, _, steps = serial(kernel, planes, 100, size)
    made = eagle.simulation(kernel, max_steps=100, dispatch="segmented", **planes)
    made.runner.host_policy = policy
    assert made.run().steps == steps
    same(planes, wanted)


@pytest.mark.parametrize("options", [{"reorder": True}, {"every": 8}, {"every": 8, "reorder": 0.3}], ids=str)
def test_beside_options_of_an_active_set(options: Any) -> None:
    planes = planes_of("compacting, one step", 5000)
    wanted, _, steps = serial(sk.live_one_step, planes, 100, 3)
    for dispatch in ("segmented", None):
        given = copied(planes)
        assert eagle.simulate(sk.live_one_step, max_steps=100, dispatch=dispatch, **options, **given).steps == steps
        same(given, wanted)


def test_samples_that_another_mask_holds() -> None:
    planes = {"kind": np.arange(60) % 2, "stop": np.full(60, 9.0), "x": np.ones(60), "k": np.zeros(60),
              "rejected": np.arange(60) < 20}
    report = eagle.simulate(sk.two_masks, max_steps=50, dispatch="segmented", **planes).report
    assert planes["k"].tolist() == [0.0] * 20 + [9.0] * 40
    assert (report.finished, report.done, report.steps) == (40, False, 9)


def test_it_goes_on_between_runs() -> None:
    """Caps, a cleared and a set byte, reset: a split run starts from what is there."""
    planes = planes_of("one step", 500)
    wanted, _, steps = serial(sk.one_step, planes, 100, 3)
    made = eagle.simulation(sk.one_step, max_steps=7, dispatch="segmented", **planes)
    reports = [made.run().report for _ in range(12)]
    same(planes, wanted)
    assert sum(report.steps for report in reports) == steps and reports[-1].launches == 0
    assert reports[-1].dispatch["dispatch0"] == ("segmented", (0, 0, 0), 1.0)
    made.terminated[3] = False
    report = made.run().report
    assert (report.steps, report.done) == (1, True) and sum(report.dispatch["dispatch0"][1]) == 1
    made.reset()
    made.terminated[:490] = True
    assert sum(made.run().report.dispatch["dispatch0"][1]) == 10


def test_plans_and_other_scalars() -> None:
    for kernel, precision in itertools.product((ks.mixed, sk.computed), ("float64", "float32")):
        plan = eagle.deploy(kernel, scalar_type=precision)
        form = "one step" if kernel is ks.mixed else "computed"
        planes = {name: value.astype(precision) if value.dtype == np.float64 else value
                  for name, value in planes_of(form, 100).items()}
        wanted = copied(planes)
        eagle.simulate(plan, max_steps=100, dispatch="switch", **wanted)
        result = eagle.simulate(plan, max_steps=100, dispatch="segmented", **planes)
        same(planes, wanted)
        assert result.report.dispatch["dispatch0"][0] == "segmented"


def test_block_by_block() -> None:
    planes = planes_of("one step", 20_000)
    wanted, _, steps = serial(sk.one_step, planes, 100, 3)
    kinds = np.bincount(np.clip(planes["kind"], 0, 2), minlength=3).tolist()
    for dispatch, policy in (("segmented", "segmented"), (None, "switch")):
        given = copied(planes)
        report = eagle.simulate(sk.one_step, max_steps=100, dispatch=dispatch, max_memory=200_000, **given).report
        same(given, wanted)
        assert (report.steps, report.done) == (steps, True)
        assert report.dispatch["dispatch0"][0] == policy and list(report.dispatch["dispatch0"][1]) == kinds
        assert report.class_sorts > 1 if policy == "segmented" else report.class_sorts == 0


# ---- how it ends ---------------------------------------------------------------------------------------------------


def test_progress_counts_the_whole_batch() -> None:
    planes, told = planes_of("one step", 3000), list[tuple[int, int, int]]()
    eagle.simulate(sk.one_step, max_steps=100, dispatch="segmented", progress=lambda *now: told.append(now), **planes)
    assert told[-1] == (3000, 3000, int(planes["stop"].sum())) and {n for _, n, _ in told} == {3000}
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)


@pytest.mark.parametrize("how", ["stop", "raise"])
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_a_run_that_ends_early_goes_on(how: str, calls: int) -> None:
    planes = planes_of("one step", 300)
    wanted, _, _ = serial(sk.one_step, planes, 100, 3)
    left = iter(range(calls))

    def progress(*_: int) -> None:
        if next(left, None) is None:
            if how == "raise":
                raise KeyboardInterrupt
            made.stop()

    made = eagle.simulation(sk.one_step, max_steps=100, dispatch="segmented", progress=progress, **planes)
    made.runner.host_policy = "band"  # which tells after each launch
    for _ in range(1000):
        try:
            if made.run().done:
                break
        except KeyboardInterrupt:
            pass
        left = iter(range(calls))
    same(planes, wanted)
    assert made.terminated.all() and made.finished[0] == 300


# ---- what a run decides --------------------------------------------------------------------------------------------


def test_a_long_branch_that_few_samples_take_is_split_off() -> None:
    rng = RNG(1)
    planes = {"kind": (rng.uniform(size=20_000) < 0.97).astype(int), "x": rng.normal(size=20_000),
              "stop": rng.integers(10, 90, 20_000) + 0.0, "k": np.zeros(20_000)}
    wanted = copied(planes)
    eagle.simulate(sk.long_branch, max_steps=1000, dispatch="switch", **wanted)
    report = eagle.simulate(sk.long_branch, max_steps=1000, **planes).report
    same(planes, wanted)
    policy, mix, gain = report.dispatch["dispatch0"]
    assert policy == "segmented" and gain >= costs.KEEP and report.class_sorts == 1
    late = planes["stop"] > costs.EARLY
    assert list(mix) == np.bincount(planes["kind"][late], minlength=2).tolist()  # who was left at the second look
    steps = int(planes["stop"].max())
    assert (report.steps, report.exact_steps) == (steps, True)
    assert report.launches == 1 + 2 * (steps - costs.EARLY)
    assert report.launches_by_k == {costs.EARLY: 1, 1: steps - costs.EARLY}


@pytest.mark.parametrize("gains, policy, sorts", [
    ([1.14], "switch", 0), ([1.15, 1.05], "segmented", 1), ([1.15, 1.04], "switch", 0), ([9.0, 9.0], "segmented", 1)])
@pytest.mark.parametrize("form", ["table", "computed", "own index", "compacting", "one step"])
def test_the_gain_decides(form: str, gains: list[float], policy: str, sorts: int,
                          monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _, size = FORMS[form]
    planes = planes_of(form, 1000)
    wanted, _, steps = serial(kernel, planes, 100, size)
    looks = iter(gains)
    monkeypatch.setattr(split, "predicted_gain", lambda *_: next(looks))
    report = eagle.simulate(kernel, max_steps=100, **planes).report
    same(planes, wanted)
    assert report.dispatch["dispatch0"][0::2] == (policy, gains[-1]) and report.class_sorts == sorts
    assert (report.steps, report.exact_steps, next(looks, None)) == (steps, True, None)


def test_who_finishes_early_is_never_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    planes = planes_of("one step", 1000) | {"stop": np.full(1000, float(costs.EARLY))}
    monkeypatch.setattr(split, "predicted_gain", lambda *_: 2.0)
    report = eagle.simulate(sk.one_step, max_steps=100, **planes).report
    assert report.dispatch["dispatch0"][0] == "switch" and report.class_sorts == 0 and report.steps == costs.EARLY


def test_nothing_is_decided_where_bits_could_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a profile that contracts, the mix of a batch would decide last bits."""
    forget()
    monkeypatch.setattr(split, "predicted_gain", lambda *_: 2.0)
    monkeypatch.setattr(split, "same_bits", lambda: False)
    report = eagle.simulate(sk.one_step, max_steps=100, **planes_of("one step", 1000)).report
    forget()
    assert report.dispatch["dispatch0"][0::2] == ("switch", 2.0) and report.class_sorts == 0


def test_one_group_at_a_time() -> None:
    rng = RNG(1)
    planes = {"one": rng.integers(0, 2, 80), "two": rng.integers(0, 3, 80), "stop": np.arange(80) % 40 + 1.0,
              "x": rng.normal(size=80), "k": np.zeros(80)}
    report = eagle.simulate(ks.two_groups, max_steps=100, **copied(planes)).report
    assert {name: (policy, sum(mix)) for name, (policy, mix, _) in report.dispatch.items()} == {
        "dispatch0": ("switch", 80), "dispatch1": ("switch", 80)}
    report = eagle.simulate(ks.two_groups, max_steps=100, dispatch={"dispatch0": "predicated"}, **planes).report
    assert list(report.dispatch) == ["dispatch1"]


@pytest.mark.parametrize("kernels, planes", [
    ([ks.mixed, ks.one_step], {"kind": np.zeros(4, int), "a": np.ones(4)}),
    ([ks.wandering], {"kind": np.zeros(4, int)}),
    ([sk.in_a_loop], {"kind": np.zeros(4, int)}), ([sk.in_front_of_a_loop], {"kind": np.zeros(4, int)}),
    ([sk.bins], {"kind": np.zeros(4, int), "i": np.zeros(4, int), "acc": np.zeros(8)}),
    ([sk.seventeen], {"kind": np.zeros(4, int)})])
def test_what_a_run_does_not_decide(kernels: Any, planes: Planes) -> None:
    report = eagle.simulate(kernels, max_steps=4, stop=np.full(4, 3.0), x=np.ones(4), k=np.zeros(4), **planes).report
    assert report.dispatch is None and report.steps in (2, 3)  # two kernels count together


@pytest.mark.parametrize("kernel, facts", [
    (sk.seventeen, ["17 branches", "2 to 16"]), (sk.in_a_loop, ["a loop"]),
    (sk.in_front_of_a_loop, ["a loop"]), (sk.bins, ["bins", "independent"])])
def test_refusals(kernel: Any, facts: list[str]) -> None:
    planes = {name: np.zeros(8, int) if name in ("kind", "i") else np.ones(8)
              for name in kernel.planes if name != "terminated"}
    for dispatch in ({"dispatch0": "segmented"}, "segmented"):
        with pytest.raises(ValueError) as caught:
            eagle.simulate(kernel, max_steps=9, dispatch=dispatch, **planes)
        text = str(caught.value)
        assert text.startswith("eagle.simulate: dispatch") and "found" in text and "wanted" in text
        if isinstance(dispatch, dict):
            assert "'dispatch0'" in text and all(fact in text for fact in facts)
    assert planes["k"].tolist() == [1.0] * 8


# ---- the rule ------------------------------------------------------------------------------------------------------


def test_the_rule() -> None:
    cheap, dear = costs.Cost(4.0, 2.0), costs.Cost(4.0, 9.0)
    assert cheap.profits and not dear.profits
    assert costs.predicted_gain([cheap, dear], [0, 0], 100) == 1.0
    n = 10**9  # what a branch costs once is nothing then
    assert costs.predicted_gain([cheap, dear], [n, 0], 64) == pytest.approx(256 / (128 + 18))
    assert costs.predicted_gain([cheap, dear], [n, 0], 10**6) == pytest.approx(256 / (128 + 18))
    assert costs.predicted_gain([cheap, dear], [n, 0], 4) == pytest.approx(16 / (8 + 18))
    assert costs.predicted_gain([cheap, dear], [0, n], 64) == pytest.approx(256 / (256 + 18))
    assert costs.predicted_gain([cheap, dear], [n, n], 64) == pytest.approx(512 / (384 + 48))
    assert costs.predicted_gain([cheap, dear], [10, 0], 64) < 0.2


@pytest.mark.parametrize("profile, pays", [("native", False), ("portable", False), ("native-vector-math", True)])
def test_costs_come_from_counts(profile: str, pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from eagle.stepping.branches import take_apart

    monkeypatch.setenv("HAWK_HOST_PROFILE", profile)
    branches = take_apart(ks.mixed, "dispatch0")
    assert (branches.selector, branches.classifier) == ("kind", None)
    half, one_more, sine = costs.branch_costs(branches.kernels)
    assert half.profits is one_more.profits is pays and not sine.profits
    assert sine.switch > half.switch and costs.same_bits() is not pays
