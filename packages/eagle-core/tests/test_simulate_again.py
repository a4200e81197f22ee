# SPDX-License-Identifier: Apache-2.0
"""A model that was seen costs nothing to read again; what is packed in C is what the careful path binds."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import simulate_kernels as ks
from hypothesis import given, settings
from hypothesis import strategies as st

import eagle
from eagle import _core
from eagle.stepping import simulating

RATES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
PLAN = eagle.deploy(ks.decay)


def unexpected(*args: Any, **kw: Any) -> Any:
    raise AssertionError("this was done before")


CALLS: dict[str, Callable[[], eagle.SimResult]] = {
    "kernel": lambda: eagle.simulate(ks.decay, RATES, 0.1, np.ones(5), np.zeros(5), max_steps=99),
    "names": lambda: eagle.simulate(ks.decay, hits=np.zeros(5), y=np.ones(5), rate=RATES, floor=0.1, max_steps=99),
    "plan": lambda: eagle.simulate(PLAN, RATES, 0.1, np.ones(5), np.zeros(5), max_steps=99),
    "host plan": lambda: eagle.simulate(PLAN.host, rate=RATES, floor=0.1, y=np.ones(5), hits=np.zeros(5), max_steps=99),
    "list": lambda: eagle.simulate([ks.halving, ks.gauge], y=np.ones(5), floor=0.1, max_steps=99),
    "until": lambda: eagle.simulate(ks.shrink, np.ones(5), RATES, 0.1, until=ks.below, max_steps=99),
    "left out": lambda: eagle.simulate(ks.squares, RATES, 0.1, np.ones(5), max_steps=99),
    "numbers": lambda: eagle.simulate(ks.decay, 0.5, 0.1, 1, 0, max_steps=99),
    "float32": lambda: eagle.simulate(ks.decay, RATES.astype("f4"), 0.1, np.ones(5, "f4"), np.zeros(5, "f4"),
                                      max_steps=99, scalar_type="float32"),
    "dispatch": lambda: eagle.simulate(ks.branching, np.arange(5), 0.1, np.ones(5), max_steps=99, dispatch="switch"),
    "mixes": lambda: eagle.simulate(ks.branching, np.arange(5), 0.1, np.ones(5), max_steps=99),
    "sum by key": lambda: eagle.simulate([ks.collect, ks.halving], bin=np.arange(4), y=np.ones(4), floor=0.1,
                                         max_steps=99),
    "reduction": lambda: eagle.simulate([ks.halving, ks.total], y=np.ones(4), floor=0.1, max_steps=99),
    "two masks": lambda: eagle.simulate(ks.two_masks, y=np.ones(4), max_steps=99),
    "unread": lambda: eagle.simulate(ks.unused, RATES, RATES, 0.1, 7.0, np.ones(5), max_steps=99),
    "table": lambda: eagle.simulate(ks.indexed, np.zeros(3, np.int64), np.array([0.5]), np.ones(3), max_steps=99),
}


@pytest.mark.want("7i")
@pytest.mark.parametrize("what", CALLS)
def test_a_repeated_model_is_packed_in_c(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = CALLS[what]()
    for name in ("read_items", "build_items", "read_model", "read_calling", "complete", "make_runner"):
        monkeypatch.setattr(simulating, name, unexpected)
    again = CALLS[what]()
    assert again.report == first.report and again.allocated == first.allocated and again.steps > 1
    assert again.state.keys() == first.state.keys() and (again.finished == first.finished).all()
    for name, plane in again.state.items():
        assert plane is not first[name] and plane.dtype == first[name].dtype and plane.shape == first[name].shape
        assert plane.tobytes() == first[name].tobytes()


@pytest.mark.want("7i")
@pytest.mark.parametrize("what", CALLS)
def test_the_careful_path_gives_the_same(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = CALLS[what]()
    monkeypatch.setattr("eagle.stepping.quick.Quick.__call__", lambda *args: None)
    careful = CALLS[what]()
    assert careful.report == quick.report and careful.allocated == quick.allocated
    assert list(careful.state) == list(quick.state)
    for name, plane in careful.state.items():
        assert (plane.tobytes(), plane.shape, plane.dtype) == (
            quick[name].tobytes(), quick[name].shape, quick[name].dtype)
    assert careful.finished.tobytes() == quick.finished.tobytes() and careful.finished.shape == quick.finished.shape


@settings(max_examples=60, deadline=None)
@given(rates=st.lists(st.floats(0.01, 0.97), max_size=40), cap=st.integers(1, 200), floor=st.floats(0.0, 2.0))
def test_a_serial_loop_gives_the_same(rates: list[float], cap: int, floor: float) -> None:
    n = len(rates)
    y, hits = np.ones(n), np.zeros(n)
    y_, hits_, mask = np.ones(n), np.zeros(n), np.zeros(n, bool)
    r = eagle.simulate(ks.decay, np.array(rates), floor, y, hits, max_steps=cap)
    for i, rate in enumerate(rates):
        while hits_[i] < cap and not mask[i]:
            y_[i] *= rate
            hits_[i] += 1
            mask[i] = y_[i] < floor
    assert y.tobytes() == y_.tobytes() and hits.tolist() == hits_.tolist() and r.finished.tolist() == mask.tolist()
    assert (r.steps, r.done) == (int(hits_.max(initial=0)), bool(mask.all()))


def test_models_are_told_apart() -> None:
    y32 = np.ones(5, np.float32)
    for scalar_type, dtype in (("float32", np.float32), (None, np.float64), ("float64", np.float64)):
        r = eagle.simulate(ks.decay, RATES.astype(dtype), 0.1, np.ones(5, dtype), np.zeros(5, dtype), max_steps=99,
                           scalar_type=scalar_type)
        assert r.y.dtype == dtype
    with pytest.raises(eagle.BufferRefused):
        eagle.simulate(ks.decay, RATES, 0.1, y32, np.zeros(5), max_steps=99)
    one = eagle.simulate([ks.shrink, ks.below], y=np.ones(5), rate=RATES, floor=0.1, max_steps=99)
    two = eagle.simulate([ks.below, ks.shrink], y=np.ones(5), rate=RATES, floor=0.1, max_steps=99)
    assert (one.steps, two.steps) == (22, 23)  # the stop rule sees y before the step, or behind it


def test_models_are_kept_for_a_while_only() -> None:
    plans = [eagle.deploy(ks.decay) for _ in range(simulating.MOST_MODELS + 1)]
    gone = weakref.ref(plans[0])
    for plan in plans:
        eagle.simulate(plan, 0.5, 0.1, 1.0, 0.0, max_steps=9)
    del plans, plan
    gc.collect()
    assert gone() is None
    simulating.forget()


def test_what_a_model_is_known_by_is_kept_with_it() -> None:
    """Models are told apart by identity, which another object might have were it free; with `dispatch` what is stepped
    is another plan."""
    plan = eagle.deploy(ks.branching)
    eagle.simulate(plan, k=np.arange(3), floor=0.1, y=np.ones(3), max_steps=9, dispatch="switch")
    kept = weakref.ref(plan)
    del plan
    gc.collect()
    assert kept() is not None
    simulating.forget()
    gc.collect()
    assert kept() is None


def test_threads_share_a_model() -> None:
    results: list[bool] = []

    def work(seed: int) -> None:
        rates = np.random.default_rng(seed).uniform(0.2, 0.9, 100)
        expected = np.array([next(k for k in range(1, 99) if rate**k < 0.0999) for rate in rates])
        for _ in range(20):
            hits = np.zeros(100)
            eagle.simulate(ks.decay, rates, 0.1, np.ones(100), hits, max_steps=99)
            results.append(bool((abs(hits - expected) <= 1).all()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80 and all(results)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: fork")
def test_a_forked_child_goes_on() -> None:
    CALLS["kernel"]()
    child = os.fork()
    if child == 0:
        try:
            good = CALLS["kernel"]().hits.tolist() == [4, 5, 7, 11, 22]
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


def test_a_result_keeps_its_arrays() -> None:
    y = np.ones(5)
    r = eagle.simulate(ks.decay, RATES, 0.1, y, np.zeros(5), max_steps=99)
    freed = weakref.ref(y)
    del y
    gc.collect()
    assert freed() is not None and r.y.shape == (5,)
    del r
    gc.collect()
    assert freed() is None


# ---- the door in C ---------------------------------------------------------------------------------------------------


def block(**changed: Any) -> tuple[Any, ...]:
    """The values of decay's block, in order."""
    planes = {"rate": RATES, "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5)} | changed
    return tuple(planes.get(slot.name) for slot in PLAN.host.signature.stages[0].slots)


def test_exactly_given_planes_are_packed_and_kept() -> None:
    kernel = PLAN.host.kernels.first
    names = [slot.name for slot in PLAN.host.signature.stages[0].slots]
    y = np.ones(5)
    bound = _core.Bound.exactly(kernel, block(y=y), 1, ())
    assert bound is not None
    made = dict(zip(names, bound.planes(), strict=True))
    assert made["y"] is y and made["rate"] is RATES and made["floor"] is None and made["fused_steps"] is None
    assert made["terminated"].dtype == bool and not made["terminated"].any() and made["terminated"].shape == (5,)
    left_out = _core.Bound.exactly(kernel, block(hits=None), 1, ())
    assert left_out is not None and not dict(zip(names, left_out.planes(), strict=True))["hits"].any()
    one = _core.Bound.exactly(kernel, block(rate=0.5, y=1.0, hits=0), 1, ())
    assert one is not None and [plane.shape for plane in one.planes() if plane is not None] == [()] * 4
    assert bound.launch("here") is None and y.tolist() == RATES.tolist()
    freed = weakref.ref(y)
    del made, y
    assert freed() is not None
    del bound
    assert freed() is None


@pytest.mark.parametrize("changed", [
    {"y": np.ones(4)}, {"y": np.ones(5, np.float32)}, {"y": np.ones(10)[::2]}, {"y": [1.0] * 5}, {"y": 1.0},
    {"y": np.ones((5, 1))}, {"y": RATES}, {"y": np.ones(5).view(type("Sub", (np.ndarray,), {}))}, {"floor": "0.1"},
    {"floor": None}, {"terminated": np.zeros(5, np.uint8)}, {"y": np.broadcast_to(np.ones(1), 5)}])
def test_what_is_not_exact_is_left_to_the_careful_path(changed: dict[str, Any]) -> None:
    assert _core.Bound.exactly(PLAN.host.kernels.first, block(**changed), 1, ()) is None


def test_wrong_use_of_the_door_is_refused() -> None:
    kernel = PLAN.host.kernels.first
    for args in ((), (kernel,), (PLAN, (), 1, ()), (kernel, [], 1, ()), (kernel, (), "1", ()), (kernel, (), 1, None)):
        with pytest.raises(TypeError, match="exactly"):
            _core.Bound.exactly(*args)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="values for"):
        _core.Bound.exactly(kernel, (), 1, ())
    with pytest.raises(ValueError, match="at least one part"):
        _core.Bound.exactly(kernel, block(), 0, ())
    for bounds in (None, [], (1,)):
        with pytest.raises(TypeError):
            _core.Bound.alike(bounds)  # type: ignore[arg-type]


def test_kernels_over_planes_that_meet_are_not_alike() -> None:
    names = [slot.name for slot in PLAN.host.signature.stages[0].slots]
    shared = np.ones(8)
    one = _core.Bound.exactly(PLAN.host.kernels.first, block(y=shared[:5]), 1, ())
    gauge = eagle.deploy(ks.gauge).host
    slots = [slot.name for slot in gauge.signature.stages[0].slots]

    def other(**planes: Any) -> _core.Bound:
        bound = _core.Bound.exactly(gauge.kernels.first, tuple(planes.get(name) for name in slots), 1, ())
        assert bound is not None
        return bound

    assert one is not None and "y" in names
    assert _core.Bound.alike((one, other(y=shared[:5], e=np.ones(5))))
    assert not _core.Bound.alike((one, other(y=np.ones(5), e=shared[3:])))  # e is written over y
    assert not _core.Bound.alike((one, other(y=np.ones(4), e=np.ones(4))))
    assert not _core.Bound.alike((other(y=np.ones(5), e=shared[:5]), one))
    with pytest.raises(ValueError, match="^eagle.simulate: .*'e'.*'y'|^eagle.simulate: .*'y'.*'e'"):
        eagle.simulate([ks.halving, ks.gauge], y=shared[:5], e=shared[3:], floor=0.1, max_steps=9)
    # No kernel has both by itself.
    with pytest.raises(ValueError, match="^eagle.simulate: .*'x'.*'y'|^eagle.simulate: .*'y'.*'x'"):
        eagle.simulate([ks.halving, ks.under], y=shared[:5], x=shared[3:], e=np.ones(5), floor=0.1, max_steps=9)
    with pytest.raises(eagle.LayoutError, match="^eagle.simulate: kernels 'halving' and 'under': found planes of 5 and "
                                                "of 4 samples"):
        eagle.simulate([ks.halving, ks.under], y=shared[:5], x=np.ones(4), e=np.ones(4), floor=0.1, max_steps=9)
    assert (shared == 1.0).all()
