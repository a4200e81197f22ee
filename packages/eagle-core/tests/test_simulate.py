# SPDX-License-Identifier: Apache-2.0
"""simulate: a model is called like its kernels, and every sample stops by itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import simulate_kernels as ks

import eagle

RATES = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
STOPS = [4, 5, 7, 11, 22]
FIELDS = ["state", "finished", "done", "steps", "status", "report", "n", "wall_s", "allocated", "record", "t_stop",
          "event_status"]


def decayed(rates: Any = RATES, cap: int = 10**6) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """y and hits of the kernel decay, from 1, at floor 0.1."""
    y, hits = np.ones(len(rates)), np.zeros(len(rates))
    for i, rate in enumerate(rates):
        while hits[i] < cap and not y[i] < 0.1:
            y[i] *= rate
            hits[i] += 1
    return y, hits


@pytest.mark.smoke
@pytest.mark.parametrize("how", ["names", "positions", "both", "plan", "list"])
@pytest.mark.parametrize("quick", [True, False])
def test_a_model_is_called_like_its_kernel(how: str, quick: bool) -> None:
    y, hits = np.ones(5), np.zeros(5)
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    model = {"plan": eagle.deploy(ks.decay), "list": [ks.decay]}.get(how, ks.decay)
    if how == "positions":
        r = eagle.simulate(model, RATES, 0.1, y, hits, max_steps=100, **slow)
    elif how == "both":
        r = eagle.simulate(model, RATES, y=y, hits=hits, floor=0.1, max_steps=100, **slow)
    else:
        r = eagle.simulate(model, rate=RATES, floor=0.1, y=y, hits=hits, max_steps=100, **slow)
    y_, hits_ = decayed()
    assert r.y is y and r["hits"] is hits and list(r.state) == ["y", "hits"]
    assert (y == y_).all() and hits.tolist() == STOPS == hits_.tolist()
    assert (r.done, r.status, r.steps, r.n, r.allocated) == (True, "finished", 22, 5, ())
    assert r.finished.all() and r.finished.dtype == bool and r.finished.shape == (5,) and r.wall_s > 0
    assert (r.record, r.t_stop, r.event_status) == (None, None, None)
    assert (r.report.finished, r.report.steps, r.report.exact_steps) == (5, 22, True)


@pytest.mark.parametrize("quick", [True, False])
def test_the_cap_is_a_result_and_a_simulation_goes_on(quick: bool) -> None:
    y, hits = np.ones(5), np.zeros(5)
    r = eagle.simulate(ks.decay, RATES, 0.1, y, hits, max_steps=7, **({} if quick else {"layout": "samples_last"}))
    assert (r.done, r.status, r.steps) == (False, "max_steps", 7) and hits.tolist() == [4, 5, 7, 7, 7]
    assert r.finished.tolist() == [True, True, True, False, False]
    y, hits = np.ones(5), np.zeros(5)
    s = eagle.simulation(ks.decay, RATES, 0.1, y, hits, max_steps=7)
    runs = [s.run() for _ in range(4)]
    assert [r.report.finished for r in runs] == [3, 4, 4, 5] and [r.steps for r in runs] == [7, 7, 7, 1]
    assert hits.tolist() == STOPS and runs[-1].y is y and s.run().steps == 0
    assert s.n == 5 and s.finished.tolist() == [5] and s.terminated.all() and s.runner.n == 5
    assert s.names == {"state": ("y", "hits"), "params": ("rate", "floor", "terminated"), "allocated": ()}
    assert [plan.plugin.name for plan in s.plans] == ["decay"]
    assert (s.pipeline, s.active, s.record) == (None, None, None) and s.every == s.runner.every
    assert s.loop is s.runner.loop
    s.reset()
    assert s.finished.tolist() == [0] and not s.terminated.any()
    assert s.run().steps == 1 and hits.tolist() == [n + 1 for n in STOPS]  # one step at least is taken


def test_progress_is_told() -> None:
    told: list[tuple[int, int, int]] = []
    eagle.simulate(ks.decay, RATES, 0.1, np.ones(5), np.zeros(5), max_steps=100,
                   progress=lambda *now: told.append(now))
    assert told[-1][:2] == (5, 5) and told[-1][2] >= sum(STOPS)


@pytest.mark.parametrize("n", [0, 1, 2, 64, 1003])
@pytest.mark.parametrize("quick", [True, False])
def test_any_number_of_samples(n: int, quick: bool) -> None:
    rates = np.linspace(0.3, 0.95, n)
    y_, hits_ = decayed(rates)
    y, hits = np.ones(n), np.zeros(n)
    r = eagle.simulate(ks.decay, rates, 0.1, y, hits, max_steps=100, **({} if quick else {"layout": "samples_last"}))
    assert r.y is y and (y == y_).all() and (hits == hits_).all()
    assert (r.n, r.done, r.report.finished, r.finished.shape) == (n, True, n, (n,))
    assert r.steps == max(hits_, default=0)


@pytest.mark.parametrize("quick", [True, False])
def test_numbers_are_one_sample(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    r = eagle.simulate(ks.decay, 0.5, 0.1, 1.0, 0.0, max_steps=100, **slow)
    assert r.y.shape == r.hits.shape == r.finished.shape == () and r.y == 0.0625 and r.hits == 4 and r.finished
    assert (r.n, r.done, r.steps, r.allocated) == (1, True, 4, ()) and type(r.y) is np.ndarray
    y = np.array(1.0)
    r = eagle.simulate(ks.decay, np.array(0.5), np.array(0.1), y, 0, max_steps=100, **slow)
    assert r.y is y and y == 0.0625 and r.hits == 4
    w, p = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    r = eagle.simulate(ks.turning, w=w, stop=3, p=p, k=0.0, max_steps=9, **slow)
    assert r.p is p and p.tolist() == [1.0, -1.5] and r.k.shape == () and r.k == 3


def test_one_sample_has_the_bits_of_its_row() -> None:
    y, hits = np.ones(5), np.zeros(5)
    eagle.simulate(ks.decay, RATES, 0.1, y, hits, max_steps=100)
    for i, rate in enumerate(RATES):
        r = eagle.simulate(ks.decay, rate, 0.1, 1.0, 0.0, max_steps=100)
        assert r.y == y[i] and r.hits == hits[i]


@pytest.mark.parametrize("quick", [True, False])
def test_vectors_and_layouts(quick: bool) -> None:
    n = 7
    w, p, k = np.arange(14.0).reshape(2, n), np.ones((2, n)), np.zeros(n)
    stop = np.arange(1.0, n + 1)
    w_, p_ = w.copy(), p.copy()
    for i in range(n):
        for _ in range(i + 1):
            p_[:, i] = p_[:, i] * 0.5 + w_[:, i]
    r = eagle.simulate(ks.turning, w, stop, p, k, max_steps=9, **({} if quick else {"layout": "samples_last"}))
    assert r.p is p and (p == p_).all()
    first, at = np.ones((n, 2)), np.zeros(n)
    with pytest.warns(eagle.LayoutWarning):
        r = eagle.simulate(ks.turning, w, stop, first, at, max_steps=9)
    assert r.p is first and (p_ == first.T).all()
    square = np.ones((2, 2))
    with pytest.warns(eagle.LayoutWarning):
        r = eagle.simulate(ks.turning, w.T[:2].copy(), stop[:2].copy(), square, np.zeros(2), max_steps=9,
                           layout="samples_first")
    assert r.p is square and (p_[:, :2] == square.T).all()


def test_float32() -> None:
    rates = RATES.astype(np.float32)
    y, hits = np.ones(5, np.float32), np.zeros(5, np.float32)
    r = eagle.simulate(ks.decay, rates, 0.1, y, hits, max_steps=100, scalar_type="float32")
    floor = np.float32(0.1)
    for i, rate in enumerate(rates):
        value = np.float32(1.0)
        while not value < floor:
            value = value * rate
        assert y[i] == value
    assert r.y is y
    assert eagle.simulate(ks.decay, 0.5, 0.1, 1.0, 0.0, max_steps=9, scalar_type="float32").y.dtype == np.float32


def test_tables_are_bound_whole() -> None:
    i, table, y = np.array([0, 2, 1]), np.array([0.5, 0.25, 0.75]), np.ones(3)
    r = eagle.simulate(ks.indexed, i, table, y, max_steps=99)
    assert r.y is y and y.tolist() == [0.0625, 0.75**9, 0.0625] and r.steps == 9


# ---- what may be left out --------------------------------------------------------------------------------------------


@pytest.mark.want("7a")
@pytest.mark.parametrize("quick", [True, False])
def test_a_parameter_no_kernel_reads_keeps_its_position(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    for args, kw in (((RATES, np.zeros(5), 0.1, 7.0), {}), ((RATES,), {"floor": 0.1}),
                     ((RATES, None, 0.1), {"knob": "anything"})):
        y = np.ones(5)
        given = dict(kw, y=y) if len(args) < 4 else kw
        r = eagle.simulate(ks.unused, *args, *(() if len(args) < 4 else (y,)), max_steps=100, **given, **slow)
        assert r.y is y and (y == decayed()[0]).all()


@pytest.mark.want("7b")
@pytest.mark.parametrize("model", [ks.squares, ks.squares_by_three, [ks.halving, ks.gauge], [ks.gauge, ks.halving]])
@pytest.mark.parametrize("quick", [True, False])
def test_state_that_is_written_before_it_is_read_may_be_left_out(model: Any, quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    single = not isinstance(model, list)
    y, rates = np.ones(5), np.full(5, 0.5)
    given: dict[str, Any] = {"rate": rates} if single else {}
    r = eagle.simulate(model, y=y, floor=0.1, max_steps=99, **given, **slow)
    assert r.allocated == ("e",) and r.y is y and r.e.shape == (5,) and r.e.dtype == np.float64
    assert (y == 0.0625).all()
    # Behind the kernel that finishes, a sample that is done is skipped; gauge declares no mask and runs for all.
    assert (r.e == (y * y if single or model[0] is ks.halving else 0.125**2)).all()
    e = np.full(5, 7.0)
    again = eagle.simulate(model, y=np.ones(5), floor=0.1, e=e, max_steps=99, **given, **slow)
    assert again.e is e and (e == r.e).all() and again.allocated == ()


@pytest.mark.want("7b")
def test_one_sample_of_what_is_left_out_has_no_axis() -> None:
    r = eagle.simulate(ks.squares, rate=0.5, floor=0.1, y=1.0, max_steps=99)
    assert r.e.shape == () and r.e == 0.0625**2 and r.allocated == ("e",)


def test_state_that_an_earlier_kernel_reads_is_needed() -> None:
    with pytest.raises(eagle.ArgumentError, match=r"^eagle.simulate: parameter 'e' of kernel 'under': found nothing"):
        eagle.simulate([ks.under, ks.halving, ks.gauge], y=np.ones(3), x=np.ones(3), floor=0.1, max_steps=9)
    y, e = np.ones(3), np.full(3, 7.0)
    r = eagle.simulate([ks.under, ks.halving, ks.gauge], y=y, e=e, floor=0.1, max_steps=9)
    assert r.x.tolist() == [0.125**2] * 3 and r.allocated == ("x",)  # e as it was before the last step


def test_state_that_an_earlier_kernel_has_written_may_be_left_out() -> None:
    r = eagle.simulate([ks.gauge, ks.under, ks.halving], y=np.ones(3), floor=0.1, max_steps=9)
    assert r.e.tolist() == r.x.tolist() == [0.125**2] * 3 and sorted(r.allocated) == ["e", "x"]


@pytest.mark.want("7e")
@pytest.mark.parametrize("quick", [True, False])
def test_a_second_mask_may_be_given_or_left_out(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    y = np.ones(5)
    r = eagle.simulate(ks.two_masks, y=y, max_steps=10, **slow)
    assert r.done and (y == 0.0625).all()
    y, rejected = np.ones(5), np.array([True, False, False, True, False])
    r = eagle.simulate(ks.two_masks, y=y, rejected=rejected, max_steps=10, **slow)
    assert y.tolist() == [1, 0.0625, 0.0625, 1, 0.0625] and r.steps == 4 and not r.done
    assert rejected.tolist() == [True, False, False, True, False]


@pytest.mark.want("7f")
@pytest.mark.parametrize("quick", [True, False])
def test_eagle_owns_the_companion_of_a_sum_by_key(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    bins, y = np.array([0, 1, 1, 3, 0]), np.ones(5)
    r = eagle.simulate([ks.collect, ks.halving], bin=bins, y=y, floor=0.1, max_steps=9, **slow)
    assert r.allocated == ("h",) and set(r.state) == {"h", "y"}
    assert r.h.tolist() == [2 * 1.875, 2 * 1.875, 0.0, 1.875]  # 1 + 1/2 + 1/4 + 1/8, at the start of each step
    h = np.array([1.0, 0.0, 0.0, 0.0])
    again = eagle.simulate([ks.collect, ks.halving], bin=bins, y=np.ones(5), h=h, floor=0.1, max_steps=9, **slow)
    assert again.h is h and h.tolist() == [4.75, 3.75, 0.0, 1.875]
    with pytest.raises(ValueError, match=r"^eagle.simulate: argument 'h_c': found a value for the companion of 'h'"):
        eagle.simulate([ks.collect, ks.halving], bin=bins, y=y, h_c=np.zeros(4), floor=0.1, max_steps=9)


@pytest.mark.parametrize("quick", [True, False])
def test_a_reduction_over_samples_is_a_cell(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    y = np.array([1.0, 0.5, 0.25])
    r = eagle.simulate([ks.halving, ks.total], y=y, floor=0.1, max_steps=9, **slow)
    assert r.s.shape == (1,) and r.s[0] == y.sum() and r.allocated == ("s",)
    s = np.array([9.0])
    assert eagle.simulate([ks.halving, ks.total], y=np.ones(3), floor=0.1, s=s, max_steps=9, **slow).s is s
    assert s[0] == 0.1875


@pytest.mark.want("7g")
def test_planes_of_a_grid_and_extents_by_label() -> None:
    rate = np.array([[0.5, 0.25, 0.125], [0.25, 0.5, 0.5]])
    y = np.ones((2, 3))
    r = eagle.simulate(ks.on_grid, rate=rate, y=y, max_steps=9)
    assert r.y is y and (y == [[0.0625, 0.0625, 0.015625], [0.0625, 0.0625, 0.0625]]).all()
    assert r.at.tolist() == [[0, 1, 2], [0, 1, 2]] and r.allocated == ("at",) and r.n == 6
    flat = np.ones(6)
    r = eagle.simulate(ks.on_grid, rate=rate.ravel(), y=flat, row=2, max_steps=9)
    assert r.y is flat and (flat == y.ravel()).all() and r.at.ravel().tolist() == [0, 1, 2] * 2
    r = eagle.simulate(ks.on_grid, rate=np.array([[0.5], [0.25]]), y=np.ones((2, 3)), max_steps=9)  # broadcast
    assert (r.y == [[0.0625] * 3, [0.0625] * 3]).all()
    with pytest.raises(eagle.LayoutError, match=r"^eagle.simulate: Scalar 'rate': found 6 samples, wanted 9, as row=3"):
        eagle.simulate(ks.on_grid, rate=rate, y=y, row=3, max_steps=9)


# ---- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [True, False])
def test_until_is_the_last_kernel(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    for until in (ks.below, eagle.deploy(ks.below)):
        y = np.ones(5)
        r = eagle.simulate(ks.shrink, y, RATES, 0.1, until=until, max_steps=99, **slow)
        assert r.y is y and r.steps == 22 and r.report.launches_by_k == {1: 22}
        # shrink declares no mask: it goes on for samples that are done
        assert (y[4], y[0]) == (decayed()[0][4], 0.5**22)


def test_a_finish_takes_effect_inside_the_step() -> None:
    y, e = np.ones(1), np.zeros(1)
    r = eagle.simulate([ks.halving, ks.gauge], y=y, e=e, floor=0.1, max_steps=99)
    assert (r.y[0], r.e[0]) == (0.0625, 0.0625**2)  # gauge declares no mask


def test_a_node_is_called_once_a_step() -> None:
    y, seen = np.ones(3), []
    node = eagle.nodes.opaque(lambda: seen.append(y[0]), reads=[y])
    r = eagle.simulate([ks.halving, node], y=y, floor=0.1, max_steps=99)
    assert r.steps == 4 and seen == [0.5, 0.25, 0.125, 0.0625]


def test_models_of_built_plugins_take_names() -> None:
    plan = eagle.deploy(eagle.deploy(ks.decay).plugin)
    assert plan.kernel is None
    y = np.ones(5)
    r = eagle.simulate(plan, rate=RATES, floor=0.1, y=y, hits=np.zeros(5), max_steps=99)
    assert r.y is y and (y == decayed()[0]).all()
    with pytest.raises(ValueError, match=r"^eagle.simulate: arguments: found 1 without a name.*rate=\.\.\."):
        eagle.simulate(plan, RATES, floor=0.1, y=y, hits=np.zeros(5), max_steps=99)
    host = eagle.deploy(ks.decay).host
    assert eagle.simulate(host, rate=RATES, floor=0.1, y=np.ones(5), hits=np.zeros(5), max_steps=99).steps == 22


@pytest.mark.parametrize("dispatch", [None, "auto", {}, "switch", "predicated", {"dispatch0": None},
                                      {"dispatch0": "auto"}, {"dispatch0": "switch"}, {"dispatch0": "predicated"}])
def test_dispatch_changes_no_bit(dispatch: Any) -> None:
    k, y = np.array([0, 1, 2, 5, -1]), np.ones(5)
    r = eagle.simulate(ks.branching, k, 0.1, y, max_steps=99, dispatch=dispatch)
    assert y.tolist() == [0.0625, 0.0625, 0.015625, 0.015625, 0.0625] and r.done and r.steps == 4
    one = eagle.simulate(ks.branching, 1, 0.1, 1.0, max_steps=99, dispatch=dispatch)
    assert one.y == 0.0625 and one.y.shape == ()
    y = np.ones(5, np.float32)
    eagle.simulate(ks.branching, k, 0.1, y, max_steps=99, dispatch=dispatch, scalar_type="float32")
    assert y.tolist() == [0.0625, 0.0625, 0.015625, 0.015625, 0.0625]
    if dispatch in ("switch", "predicated"):
        assert r.report.dispatch is None


def test_a_plan_takes_a_dispatch() -> None:
    y = np.ones(3)
    eagle.simulate(eagle.deploy(ks.branching), k=np.arange(3), floor=0.1, y=y, max_steps=99, dispatch="switch")
    assert y.tolist() == [0.0625, 0.0625, 0.015625]


@pytest.mark.want("7d")
@pytest.mark.parametrize("quick", [True, False])
def test_planes_may_have_any_name(quick: bool) -> None:
    slow: dict[str, Any] = {} if quick else {"layout": "samples_last"}
    y, at = np.ones(3), np.zeros(3)
    r = eagle.simulate(ks.any_name, self=0.5, plan=np.ones(3), model=np.ones(3), args=1.0, kwargs=2.0, y=y, runner=at,
                       max_steps=99, **slow)
    assert r.runner is at and y.tolist() == [0.0625] * 3 and at.tolist() == [12.0] * 3
    assert eagle.simulation(ks.any_name, self=0.5, plan=np.ones(3), model=np.ones(3), args=1.0, kwargs=2.0,
                            y=np.ones(3), runner=at, max_steps=99).run().done


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.want("7h")
def test_a_result_is_copied_and_pickled() -> None:
    r = eagle.simulate(ks.squares, RATES, 0.1, np.ones(5), max_steps=99)
    for other in (copy.copy(r), copy.deepcopy(r), pickle.loads(pickle.dumps(r))):
        assert isinstance(other, eagle.SimResult) and other is not r
        assert (other.y == r.y).all() and (other["e"] == r.e).all() and (other.finished == r.finished).all()
        assert (other.report, other.wall_s, other.allocated) == (r.report, r.wall_s, ("e",))
        assert (other.done, other.status, other.steps, other.n) == (True, "finished", 22, 5)
    assert copy.copy(r).y is r.y and copy.deepcopy(r).y is not r.y


def test_a_result_is_read_only_and_names_what_it_has() -> None:
    r = eagle.simulate(ks.decay, RATES, 0.1, np.ones(5), np.zeros(5), max_steps=99)
    for name in (*FIELDS, "y", "other"):
        with pytest.raises(AttributeError):
            setattr(r, name, 1)
    with pytest.raises(AttributeError, match=r"^SimResult: attribute 'x'.*\['y', 'hits'\]"):
        _ = r.x
    with pytest.raises(KeyError, match=r"SimResult: key 'rate'.*\['y', 'hits'\]"):
        _ = r["rate"]
    assert {"y", "hits", *FIELDS} <= set(dir(r))
    assert repr(r) == "SimResult(finished, n=5, steps=22, state=['y', 'hits'])"
    assert repr(eagle.simulation(ks.decay, RATES, 0.1, np.ones(5), np.zeros(5), max_steps=9)).startswith(
        "Simulation(['decay'], n=5,")
