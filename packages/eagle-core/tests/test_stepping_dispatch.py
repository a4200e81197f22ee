# SPDX-License-Identifier: Apache-2.0
"""``dispatch=``: every policy has the same bits, stops when all are done, and says what it did."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest
import stepping_kernels as ks
from stepping_forms import MODELS, Planes, copied
from stepping_oracle import Answer, Serial, assert_same

import eagle

MIXED = MODELS["dispatch, auto"]
POLICIES = (None, "auto", {}, {"dispatch0": None}, {"dispatch0": "auto"}, "switch", "predicated", "segmented",
            {"dispatch0": "switch"}, {"dispatch0": "predicated"}, {"dispatch0": "segmented"})


def simulate(planes: Planes, cap: int = 10**6, **options: Any) -> Any:
    return eagle.simulate(ks.mixed, max_steps=cap, **options, **planes)


def wanted(planes: Planes, cap: int = 10**6) -> Answer:
    return Serial(MIXED, planes).run(cap)


@pytest.mark.parametrize("dist", ["spread", "equal", "immediate", "straggler"])
@pytest.mark.parametrize("dispatch", POLICIES, ids=str)
def test_policies_have_the_same_bits(dispatch: Any, dist: str) -> None:
    for n in (0, 1, 5, 64, 1000):
        planes = MIXED.planes(n, n, dist)
        for cap in (1, 20, 10**6):
            want, given = wanted(planes, cap), copied(planes)
            result = simulate(given, cap, dispatch=dispatch)
            assert_same(given, result.finished, want)
            assert (result.steps, result.report.exact_steps, result.done) == (want.steps, True, want.done)


@pytest.mark.parametrize("dispatch", ["switch", "predicated", {"dispatch0": "switch"}])
def test_a_plain_kernel_reports_no_dispatch(dispatch: Any) -> None:
    assert simulate(MIXED.planes(100, 1, "spread"), dispatch=dispatch).report.dispatch is None


def test_a_forced_split_is_reported() -> None:
    planes = MIXED.planes(100, 1, "equal")
    kinds = np.bincount(np.clip(planes["kind"], 0, 2), minlength=3).tolist()
    report = simulate(planes, dispatch="segmented").report
    policy, mix, gain = report.dispatch["dispatch0"]
    assert (policy, list(mix), gain) == ("segmented", kinds, 1.0) and report.class_sorts >= 1


@pytest.mark.want("9a")
def test_the_runner_owns_the_mix_plane() -> None:
    planes = MIXED.planes(100, 1, "spread")
    want = wanted(planes)
    run = eagle.until_done(MIXED.plan, max_steps=10**6, **planes)
    report = run.run()
    assert_same(planes, run.terminated, want)
    assert report.steps == want.steps


@pytest.mark.want("9b")
def test_a_split_run_stops_when_all_are_done() -> None:
    planes = MIXED.planes(300, 1, "equal")
    planes["stop"][:] = 20
    report = simulate(planes, dispatch="segmented").report
    assert (report.steps, report.exact_steps, report.launches) == (20, True, 60)
    assert planes["k"].tolist() == [20] * 300


@pytest.mark.want("9b")
def test_a_split_run_with_nothing_to_do_launches_nothing() -> None:
    planes = MIXED.planes(0, 1, "equal")
    report = simulate(planes, 7, dispatch="segmented").report
    assert (report.steps, report.launches, report.done) == (0, 0, True)
    simulation = eagle.simulation(ks.mixed, max_steps=7, dispatch="segmented", **MIXED.planes(9, 1, "immediate"))
    assert simulation.run().report.steps == 1
    report = simulation.run().report
    assert (report.steps, report.launches, report.launches_by_k, report.finished) == (0, 0, {}, 9)


@pytest.mark.want("9c")
@pytest.mark.parametrize("dispatch", [None, "auto", "switch", "predicated", "segmented"])
def test_dispatch_for_one_sample(dispatch: Any) -> None:
    """Honoured, or refused by name."""
    planes = {"kind": 2, "stop": 5.0, "x": 0.5, "k": 0.0}
    try:
        result = simulate(planes, 100, dispatch=dispatch)
    except (ValueError, TypeError) as refused:
        assert dispatch == "segmented" and "dispatch" in str(refused) and "one sample" in str(refused)
    else:
        want = 0.5
        batch = {**MIXED.planes(1, 1, "equal"), "kind": np.array([2]), "stop": np.array([5.0]), "x": np.array([want])}
        assert float(result.x) == wanted(batch).planes["x"][0] and result.x.shape == ()
        assert dispatch != "segmented" or result.report.dispatch is not None


@pytest.mark.want("9c")
@pytest.mark.parametrize("dispatch", ["segmented", "switch", None])
def test_dispatch_with_a_layout(dispatch: Any) -> None:
    """Samples first: honoured, or refused by name."""
    rng = np.random.default_rng(1)
    planes = {"kind": rng.integers(0, 2, 50), "stop": np.full(50, 9.0), "p": rng.normal(size=(50, 3)),
              "k": np.zeros(50)}
    start = planes["p"].copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", eagle.LayoutWarning)
        try:
            result = eagle.simulate(ks.mixed_vectors, max_steps=99, dispatch=dispatch, layout="samples_first", **planes)
        except (ValueError, TypeError) as refused:
            assert dispatch == "segmented" and "dispatch" in str(refused) and "layout" in str(refused)
            assert planes["p"].tobytes() == start.tobytes()
            return
    for _ in range(9):
        start = np.where(planes["kind"][:, None] == 0, start * 0.5, start + 1.0)
    assert result.p is planes["p"] and result.p.tobytes() == start.tobytes()
    assert dispatch != "segmented" or result.report.dispatch is not None


@pytest.mark.want("9d")
@pytest.mark.parametrize("dispatch", POLICIES, ids=str)
def test_dispatch_in_single_precision(dispatch: Any) -> None:
    planes = {name: value.astype(np.float32) if value.dtype == np.float64 else value
              for name, value in MIXED.planes(200, 1, "spread").items()}
    ones = {name: value.copy() for name, value in planes.items()}
    result = simulate(planes, scalar_type="float32", dispatch=dispatch)
    bound = eagle.deploy(ks.mixed, scalar_type="float32").bind(**ones, terminated=(mask := np.zeros(200, bool)),
                                                               dispatch0_mix=np.zeros(3, np.uint32))
    while not mask.all():
        bound.launch()
    assert result.x.tobytes() == ones["x"].tobytes() and result.k.tobytes() == ones["k"].tobytes()


@pytest.mark.want("9e")
@pytest.mark.parametrize("dispatch", [None, "switch", "segmented"])
@pytest.mark.parametrize("name", ["window", "memory_budget"])
def test_a_window_without_a_record_is_refused(name: str, dispatch: Any) -> None:
    planes = MIXED.planes(9, 1, "equal")
    with pytest.raises(ValueError, match=rf"^eagle\.simulate: {name}\b.*found 4.*record"):
        simulate(planes, 100, dispatch=dispatch, **{name: 4})
    assert planes["k"].tolist() == [0] * 9


@pytest.mark.want("9f")
@pytest.mark.parametrize("group", ["dispatch0", "dispatch1"])
def test_one_of_two_groups_is_split(group: str) -> None:
    rng = np.random.default_rng(1)
    planes = {"one": rng.integers(0, 2, 80), "two": rng.integers(0, 3, 80), "stop": np.arange(80) % 40 + 1.0,
              "x": rng.normal(size=80), "k": np.zeros(80)}
    want = copied(planes)
    eagle.simulate(ks.two_groups, max_steps=100, dispatch="switch", **want)
    result = eagle.simulate(ks.two_groups, max_steps=100, dispatch={group: "segmented"}, **planes)
    assert result.x.tobytes() == want["x"].tobytes() and result.k.tobytes() == want["k"].tobytes()
    assert result.report.dispatch[group][0] == "segmented"


@pytest.mark.alone
@pytest.mark.want("9g")
def test_the_decision_is_a_rule() -> None:
    """The same from call to call, and it does not cost more than half of what the better policy costs."""
    planes = MIXED.planes(200_000, 1, "equal")

    def seconds(dispatch: Any) -> float:
        best = float("inf")
        for _ in range(3):
            given = copied(planes)
            began = time.perf_counter()
            simulate(given, dispatch=dispatch)
            best = min(best, time.perf_counter() - began)
        return best

    reports = [simulate(copied(planes)).report.dispatch for _ in range(3)]
    assert reports[0] == reports[1] == reports[2]
    seconds(None), seconds("switch"), seconds("segmented")
    assert any(seconds(None) <= 1.5 * min(seconds("switch"), seconds("segmented")) for _ in range(3))


def test_a_selector_that_moves_warns_once() -> None:
    """Forced to split where the step changes its own selector, the result is still right."""
    rng = np.random.default_rng(1)
    planes = {"kind": rng.integers(0, 3, 300), "stop": np.arange(300) % 50 + 1.0, "x": rng.normal(size=300),
              "k": np.zeros(300)}
    want = copied(planes)
    eagle.simulate(ks.wandering, max_steps=100, dispatch="switch", **want)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = eagle.simulate(ks.wandering, max_steps=100, dispatch="segmented", **planes)
    assert [w.category for w in caught] == [eagle.PerformanceWarning]
    assert all(result[name].tobytes() == want[name].tobytes() for name in ("kind", "x", "k"))


@pytest.mark.parametrize(("kernel", "dispatch", "facts"), [
    (ks.mixed, "fast", ["fast", "segmented", "switch", "predicated"]),
    (ks.mixed, {"dispatch7": "switch"}, ["dispatch7", "dispatch0"]),
    (ks.mixed, {"dispatch0": "fast"}, ["fast", "segmented"]),
    (ks.switched, {"dispatch0": "segmented"}, ["dispatch0"]),
    (ks.switched, "segmented", []),
    (ks.decay, "switch", []),
    (ks.mixed, 3, ["3"]),
    (ks.mixed, ["segmented"], ["segmented"]),
    (ks.two_groups, {"dispatch0": "segmented", "dispatch1": "segmented"}, ["dispatch"]),
])
def test_refusals(kernel: Any, dispatch: Any, facts: list[str]) -> None:
    planes = {name: np.zeros(4, np.int64) if name in ("kind", "one", "two") else np.ones(4)
              for name in kernel.planes if name not in ("terminated", "floor")}
    if kernel is ks.decay:
        planes["floor"] = 0.1
    with pytest.raises(ValueError) as caught:
        eagle.simulate(kernel, max_steps=9, dispatch=dispatch, **planes)
    text = str(caught.value)
    assert text.startswith("eagle.simulate: ") and "found" in text and "wanted" in text
    for fact in (*facts, "dispatch"):
        assert fact in text
