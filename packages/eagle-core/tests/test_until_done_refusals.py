# SPDX-License-Identifier: Apache-2.0
"""What until_done and run_until_done refuse, by name, before anything is changed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hawk
import numpy as np
import pytest
import runner_kernels
import simulate_kernels

import eagle
from eagle.exec import RankPartition
from eagle.plan import plan
from eagle.transfer import copy

DOORS = [eagle.until_done, eagle.run_until_done]


@functools.cache
def plan_of(name: str) -> Any:
    return eagle.deploy(getattr(runner_kernels, name))


def planes(**changed: Any) -> dict[str, Any]:
    return {"rate": np.full(5, 0.5), "floor": 0.1, "y": np.ones(5), "hits": np.zeros(5), "max_steps": 10} | changed


def refused(door: Callable[..., Any], step: Any, given: dict[str, Any], error: type[Exception],
            facts: list[str]) -> None:
    """The door refuses with these facts, in its own name, and changes no array."""
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    before = {name: value.copy() for name, value in arrays.items()}
    with pytest.raises(error) as caught:
        door(step, **given)
    text = str(caught.value)
    assert text.startswith(f"eagle.{door.__name__}: ")
    for fact in ["found", "wanted", *facts]:
        assert fact in text
    assert all((arrays[name] == before[name]).all() for name in arrays)


def read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x.flags.writeable = False
    return x


ONE = np.full(5, 0.9)
SHIFTED = np.zeros(5 * 8 + 1, np.uint8)[1:].view(np.float64)
MASK = {"terminated": np.zeros(5, bool)}


@pytest.mark.want("3.2a")
@pytest.mark.want("3.2b")
@pytest.mark.want("3.2c")
@pytest.mark.want("3.2d")
@pytest.mark.want("3.2h")
@pytest.mark.want("7j")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("given", "error", "facts"), [
    pytest.param({"max_steps": 0}, ValueError, ["max_steps", "0", "1 to"], id="no steps"),
    pytest.param({"max_steps": -1}, ValueError, ["max_steps", "-1"], id="negative steps"),
    pytest.param({"max_steps": 2**63}, ValueError, ["max_steps", str(2**63 - 1)], id="too many steps"),
    pytest.param({"max_steps": True}, TypeError, ["max_steps", "True"], id="bool steps"),
    pytest.param({"max_steps": 5.0}, TypeError, ["max_steps", "5.0", "an integer"], id="float steps"),
    pytest.param({"max_steps": "5"}, TypeError, ["max_steps", "'5'"], id="text steps"),
    pytest.param({"every": 16}, ValueError, ["every", "'decay'", "active set"], id="every of a plain kernel"),
    pytest.param({"reorder": True}, ValueError, ["reorder", "active set"], id="reorder of a plain kernel"),
    pytest.param({"reorder": "yes"}, TypeError, ["reorder", "'yes'"], id="reorder text"),
    pytest.param({"window": 4}, ValueError, ["window", "4", "record=True"], id="window"),
    pytest.param({"memory_budget": 4}, ValueError, ["memory_budget", "record=True"], id="memory budget"),
    pytest.param({"record": True}, ValueError, ["record", "True"], id="record"),
    pytest.param({"events": "refine"}, ValueError, ["events", "'refine'"], id="events"),
    pytest.param({"on_no_event": "warn"}, ValueError, ["on_no_event", "'warn'"], id="on_no_event"),
    pytest.param({"progress": 3}, TypeError, ["progress", "3"], id="progress"),
    pytest.param({"layout": "rows"}, ValueError, ["layout", "'rows'"], id="layout"),
    pytest.param({"finished_count": np.zeros(1, np.uint32)}, ValueError, ["'finished_count'"], id="counter"),
    pytest.param({"fused_steps": np.ones(1, np.int64)}, ValueError, ["'fused_steps'"], id="word"),
    pytest.param({"active_map": np.zeros(5, np.int32)}, ValueError, ["'active_map'"], id="map"),
    pytest.param({"active_count": np.zeros(1, np.uint32)}, ValueError, ["'active_count'"], id="count"),
    pytest.param({"x": ONE}, ValueError, ["'x'", "'rate'"], id="unknown name"),
    pytest.param({"y": [1.0] * 5}, ValueError, ["'y'", "list"], id="list for state"),
    pytest.param({"y": None}, ValueError, ["'y'", "None"], id="None for state"),
    pytest.param({"y": 1.0}, ValueError, ["'y'", "1.0"], id="number for state"),
    pytest.param({"rate": 0.5}, ValueError, ["'rate'", "0.5"], id="number for an input"),
    pytest.param({"y": np.ones(5, np.float32)}, ValueError, ["'y'", "float32", "float64"], id="dtype"),
    pytest.param({"y": np.ones(5, ">f8")}, ValueError, ["'y'", ">f8"], id="big-endian"),
    pytest.param({"y": np.ones(4)}, ValueError, ["'y'", "4", "5"], id="length"),
    pytest.param({"y": np.ones((2, 5))}, ValueError, ["'y'", "(2, 5)"], id="width"),
    pytest.param({"y": np.ones(10)[::2]}, ValueError, ["'y'", "contiguous"], id="strides"),
    pytest.param({"y": np.ones(())}, ValueError, ["'y'", "one sample"], id="one sample in a batch"),
    pytest.param({"terminated": np.zeros(5, np.uint8)}, ValueError, ["'terminated'", "uint8"], id="uint8 mask"),
    pytest.param({"terminated": np.zeros(4, bool)}, ValueError, ["'terminated'", "4"], id="short mask"),
    pytest.param({"terminated": np.zeros(10, bool)[::2]}, ValueError, ["'terminated'", "contiguous"],
                 id="strided mask"),
    pytest.param({"y": read_only(np.ones(5))}, ValueError, ["'y'", "read-only"], id="read-only state"),
    pytest.param({"terminated": read_only(np.zeros(5, bool))}, ValueError, ["'terminated'", "read-only"],
                 id="read-only mask"),
    pytest.param({"rate": ONE, "y": ONE}, ValueError, ["'rate'", "'y'"], id="one array"),
    pytest.param({"rate": np.ones(6)[:5], "y": ONE, "hits": ONE[:5]}, ValueError, ["'hits'", "'y'"],
                 id="two states in one array"),
    pytest.param({"floor": "0.1"}, TypeError, ["'floor'", "'0.1'"], id="text"),
    pytest.param({"floor": None}, TypeError, ["'floor'", "None"], id="None"),
    pytest.param({"floor": [0.1]}, TypeError, ["'floor'", "[0.1]"], id="list"),
    pytest.param({"floor": 1j}, TypeError, ["'floor'", "1j"], id="complex"),
    pytest.param({"y": SHIFTED}, ValueError, ["'y'", "8 bytes"], id="unaligned"),
])
def test_arguments(door: Any, given: dict[str, Any], error: type[Exception], facts: list[str]) -> None:
    refused(door, plan_of("decay"), planes(**given), error, facts)


def test_a_missing_plane_is_named() -> None:
    given = planes()
    del given["y"]
    refused(eagle.until_done, plan_of("decay"), given, ValueError, ["'y'", "np.zeros(5)"])


@pytest.mark.want("3.2e")
@pytest.mark.parametrize("door", DOORS)
def test_a_fraction_for_an_integer_parameter(door: Any) -> None:
    refused(door, plan_of("up_to"), {"most": 2.5, "y": np.zeros(3), "max_steps": 5}, ValueError, ["'most'", "2.5"])


@pytest.mark.want("3.2g")
@pytest.mark.parametrize("door", DOORS)
def test_a_number_for_a_table(door: Any) -> None:
    given = {"t": 2.0, "k": np.zeros(3, np.int64), "y": np.zeros(3), "max_steps": 5}
    refused(door, plan_of("from_table"), given, ValueError, ["Table 't'", "2.0", "an array"])


@pytest.mark.want("3.1b")
@pytest.mark.parametrize("cap", [np.int64(5), np.uint8(5), 2**35, 2**63 - 1])
def test_any_integer_is_a_cap(cap: Any) -> None:
    for name in ("decay", "decay_one"):
        given = planes(max_steps=cap)
        report = eagle.run_until_done(plan_of(name), **given)
        assert report.done and report.steps == 4 and given["hits"].tolist() == [4.0] * 5


@pytest.mark.want("3.1a")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("step", "error", "facts"), [
    ([], ValueError, ["an empty list"]),
    ((), ValueError, ["an empty list"]),
    (None, TypeError, ["plan", "NoneType"]),
    (3, TypeError, ["plan", "int"]),
    (runner_kernels.decay, TypeError, ["'decay'", "eagle.deploy"]),
    ([runner_kernels.decay], TypeError, ["plan[0]", "'decay'", "eagle.deploy"]),
    (len, TypeError, ["plan", "builtin_function_or_method", "eagle.opaque"]),
])
def test_items_that_are_no_plan(door: Any, step: Any, error: type[Exception], facts: list[str]) -> None:
    refused(door, step, planes(), error, facts)


@pytest.mark.want("8")
@pytest.mark.parametrize("door", DOORS)
def test_a_plain_callable_in_a_step(door: Any) -> None:
    refused(door, [plan_of("decay_one"), print], planes(), TypeError, ["plan[1]", "print", "eagle.opaque"])


def test_steps_that_cannot_be() -> None:
    x = np.zeros(5)
    node = eagle.opaque(lambda: None, reads={"x": x})
    for step, facts in [
        (plan_of("gauge"), ["'gauge'", "repeat_while", "SkipGuard"]),
        ([plan_of("gauge"), plan_of("ticking")], ["'ticking'", "repeat_while"]),
        ([plan_of("decay_four"), plan_of("ticking")], ["'decay_four_x4'", "4 steps", "steps=1"]),
        ([plan_of("decay_one"), plan_of("other_mask")], ["'decay_one'", "'other_mask'", "'terminated'", "'dead'"]),
        ([plan_of("decay_active"), plan_of("gauge")], ["'decay_active'", "'gauge'", "active set"]),
        ([plan_of("decay_one"), plan_of("centred")], ["'centred'", "stages"]),
        ([plan_of("decay"), node], ["'decay'", "steps=1"]),
        ([plan_of("decay_one"), copy(x, into=np.zeros(5))], ["plan[1]", "'copy'"]),
        ([plan_of("decay_one"), eagle.opaque(lambda: None, eager=True)], ["plan[1]", "eager="]),
        (plan(plan_of("decay").plugin, structure=RankPartition), ["rank_partition"]),
    ]:
        refused(eagle.until_done, step, planes(), ValueError, facts)


def test_an_unknown_plane_of_several_kernels() -> None:
    refused(eagle.until_done, [plan_of("decay_one"), plan_of("gauge")], planes(e=np.zeros(5), z=ONE), ValueError,
            ["'z'", "'rate'", "'e'"])


@pytest.mark.want("3.2b")
def test_two_names_of_two_kernels_in_one_array() -> None:
    refused(eagle.until_done, [plan_of("decay_one"), plan_of("ticking")], planes(rate=ONE, ticks=ONE), ValueError,
            ["'rate'", "'ticks'"])


@pytest.mark.filterwarnings("ignore:.* is sample-major")
def test_sample_major_planes_that_share_memory() -> None:
    """Those of the caller, not the copies that are stepped."""
    turning, beside = eagle.deploy(simulate_kernels.turning), eagle.deploy(simulate_kernels.beside)
    held = np.array([[0.0, 0.0, 1.0, 1.0]] * 6)
    given = {"w": np.zeros((6, 2)), "stop": np.ones(6), "k": np.zeros(6), "layout": "samples_first", "max_steps": 3}
    for step, planes in (([turning, beside], {"p": held[:, :2], "e": held.reshape(-1)[:6]}),
                         ([turning, beside], {"p": held[:, :2], "w": held[:, 1:3], "e": np.ones(6)}),
                         (turning, {"p": held[:, :2], "w": held[:, 1:3]})):
        with pytest.raises(ValueError, match=r"^eagle.until_done: .* arrays that share memory, one of them written"):
            eagle.until_done(step, **given | planes)
    with pytest.raises(ValueError, match=r"^eagle.until_done: 'w' and 'p': found one array, which the step writes"):
        eagle.until_done([turning, beside], **given | {"p": held[:, :2], "w": held[:, :2], "e": np.ones(6)})
    assert (held == [0.0, 0.0, 1.0, 1.0]).all()
    eagle.run_until_done([turning, beside], **given | {"p": held[:, :2], "w": held[:, 2:], "e": np.ones(6)})
    assert (held == 1.0).all()


def test_kernels_of_different_batches() -> None:
    refused(eagle.until_done, [plan_of("decay_one"), plan_of("ticking")], planes(ticks=np.zeros(4)), ValueError,
            ["'decay_one'", "'ticking'", "4", "5"])


@pytest.mark.parametrize(("finish", "fact"), [
    ({"mask": "terminated", "counter": "finished_count"}, "finish"),
    ({"mask": "", "counter": "finished_count", "steps": 1}, "finish.mask"),
    ({"mask": "y", "counter": "finished_count", "steps": 1}, "finish.mask"),
    ({"mask": "terminated", "counter": "finished", "steps": 1}, "finish.counter"),
    ({"mask": "terminated", "counter": "finished_count", "steps": 0}, "finish.steps"),
    ({"mask": "terminated", "counter": "finished_count", "steps": True}, "finish.steps"),
    ({"mask": "terminated", "counter": "finished_count", "steps": "auto"}, "steps_max"),
    ({"mask": "terminated", "counter": "finished_count", "steps": 2, "steps_max": 64}, "steps_max"),
    ({"mask": "terminated", "counter": "finished_count", "steps": "auto", "steps_max": 0}, "steps_max"),
])
def test_a_malformed_declaration(finish: dict[str, Any], fact: str) -> None:
    plugin = SimpleNamespace(**vars(plan_of("decay").plugin) | {"finish": finish})
    refused(eagle.until_done, eagle.deploy(plugin), planes(), ValueError, ["decay", fact])


def test_a_declaration_without_its_words() -> None:
    base = vars(plan_of("decay").plugin)
    for missing in ("finished_count", "fused_steps"):
        spec = tuple(pair for pair in base["arg_spec"] if pair[1] != missing)
        refused(eagle.until_done, eagle.deploy(SimpleNamespace(**base | {"arg_spec": spec})), planes(), ValueError,
                ["decay", missing])
    refused(eagle.until_done, eagle.deploy(SimpleNamespace(**base | {"terminated_readonly": True})), planes(),
            ValueError, ["decay", "terminated_readonly"])


@pytest.mark.parametrize(("given", "error", "facts"), [
    ({"every": 16}, ValueError, ["every", "'decay_active'", "steps=1"]),
    ({"reorder": 0.2}, ValueError, ["reorder", "0.25 to 0.75"]),
    ({"reorder": 0.8}, ValueError, ["reorder", "0.25 to 0.75"]),
    ({"reorder": float("nan")}, ValueError, ["reorder", "nan"]),
    ({"reorder": 0}, ValueError, ["reorder", "0"]),
    ({"reorder": 1}, ValueError, ["reorder", "1"]),
    ({"reorder": "0.5"}, TypeError, ["reorder", "'0.5'"]),
])
def test_options_of_an_automatic_compacting_kernel(given: dict[str, Any], error: type[Exception],
                                                   facts: list[str]) -> None:
    refused(eagle.until_done, plan_of("decay_active"), planes(**given), error, facts)


@pytest.mark.parametrize(("name", "every", "facts"), [
    ("decay_active_one", 0, ["every", "0"]), ("decay_active_one", True, ["every", "True"]),
    ("decay_active_one", 16.0, ["every", "16.0"]), ("decay_active_one", "16", ["every", "'16'"]),
    ("decay_active_one", 3, ["every", "3", "at least 4"]), ("decay_active_three", 16, ["every", "16", "15 or 18"]),
    ("decay_active_three", 3, ["every", "3", "at least 4"]),
])
def test_cadences(name: str, every: Any, facts: list[str]) -> None:
    refused(eagle.until_done, plan_of(name), planes(every=every), ValueError, facts)


def test_derivatives_are_refused() -> None:
    jvp = eagle.deploy(hawk.Kernel("gauge_jvp", hawk.diff.jvp(runner_kernels.gauge, wrt=["y"])))
    for step in (jvp, [plan_of("decay_one"), jvp]):
        refused(eagle.until_done, step, planes(), ValueError, ["the jvp of 'gauge'", "pass 'gauge' itself"])
