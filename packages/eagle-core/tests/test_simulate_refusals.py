# SPDX-License-Identifier: Apache-2.0
"""What simulate refuses: by the door's name, with the plane or parameter, before anything is changed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import hawk
import kernels
import numpy as np
import pytest
import simulate_kernels as ks

import eagle
from eagle.stepping.calling import FIELDS, OPTIONS

RATES = np.array([0.5, 0.6, 0.7])


def given(**changed: Any) -> dict[str, Any]:
    """A call of decay over three samples, with some arguments changed; None leaves one out."""
    planes: dict[str, Any] = {"rate": RATES, "floor": 0.1, "y": np.ones(3), "hits": np.zeros(3), "max_steps": 9}
    return {name: value for name, value in (planes | changed).items() if value is not LEFT_OUT}


LEFT_OUT = object()


def unaligned(n: int = 3) -> np.ndarray[Any, Any]:
    return np.zeros(8 * n + 1, np.uint8)[1:].view(np.float64)


def read_only() -> np.ndarray[Any, Any]:
    array = np.ones(3)
    array.flags.writeable = False
    return array


PLANES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "missing": ({"floor": LEFT_OUT}, eagle.ArgumentError, "parameter 'floor' of kernel 'decay': found nothing"),
    "missing state": ({"y": LEFT_OUT}, eagle.ArgumentError, "parameter 'y' of kernel 'decay': .*needs a start"),
    "unknown": ({"floors": 0.1}, eagle.ArgumentError, "argument 'floors': .*kernel 'decay'.*did you mean 'floor'"),
    "mask": ({"terminated": np.zeros(3, bool)}, ValueError, "argument 'terminated': found a value for the finish mask"),
    "counter": ({"finished_count": np.zeros(1, np.uint32)}, ValueError, "argument 'finished_count': .*reserved plane"),
    "word": ({"fused_steps": np.ones(1, np.int64)}, ValueError, "argument 'fused_steps': .*reserved plane"),
    "map": ({"active_map": np.arange(3, dtype=np.int32)}, ValueError, "argument 'active_map'"),
    "state=": ({"state": {"y": 1.0}}, eagle.ArgumentError, r"argument 'state': .*call eagle.simulat\w+\(model, rate="),
    "params=": ({"params": {"y": 1.0}}, eagle.ArgumentError, r"argument 'params': .*max_steps=\.\.\.\)"),
    "list": ({"rate": [0.5, 0.6, 0.7]}, TypeError, "Scalar 'rate': found .*list"),
    "list state": ({"y": [1.0, 1.0, 1.0]}, TypeError, "Mutable 'y': found .*list"),
    "None": ({"rate": None}, TypeError, "Scalar 'rate': found None"),
    "number": ({"rate": 0.5}, eagle.LayoutError, "Scalar 'rate' of kernel 'decay': found the number 0.5, wanted an "
               "array of 3 samples"),
    "numpy number": ({"y": np.float64(1.0)}, eagle.LayoutError, "Mutable 'y' of kernel 'decay': .*array of 3 samples"),
    "0-d array": ({"rate": np.array(0.5)}, eagle.LayoutError, "'rate' and '.*': .*batch of 3"),
    "length": ({"rate": np.ones(4)}, eagle.LayoutError, "found 4 samples, wanted 3|found 3 samples, wanted 4"),
    "dtype": ({"y": np.ones(3, np.float32)}, eagle.BufferRefused, "Mutable 'y': found float32, wanted float64"),
    "integers": ({"y": np.ones(3, np.int64)}, eagle.BufferRefused, "Mutable 'y': found int64, wanted float64"),
    "big-endian": ({"rate": RATES.astype(">f8")}, eagle.BufferRefused, "Scalar 'rate': found >f8|'rate': found .*f8"),
    "strided": ({"rate": np.ones(6)[::2]}, eagle.BufferRefused, "Scalar 'rate': found strides"),
    "read-only": ({"y": read_only()}, eagle.BufferRefused, "Mutable 'y': found a read-only array"),
    "unaligned": ({"rate": unaligned()}, eagle.BufferRefused, "Scalar 'rate': found an address"),
    "shared": ({"rate": (one := np.ones(3)), "y": one}, ValueError, "'rate'.*'y'|'y'.*'rate'"),
    "overlapping": ({"y": (two := np.ones(4))[1:], "hits": two[:3]}, ValueError, "'y'.*'hits'|'hits'.*'y'"),
    "param text": ({"floor": "0.1"}, TypeError, "Param 'floor': found '0.1'"),
    "param None": ({"floor": None}, TypeError, "Param 'floor': found None"),
    "param list": ({"floor": [0.1]}, TypeError, "Param 'floor': found .*0.1"),
    "param complex": ({"floor": 1j}, TypeError, "Param 'floor': found 1j"),
    "param array": ({"floor": np.full(3, 0.1)}, eagle.BufferRefused, r"Param 'floor': found float64 of shape \(3,\)"
                    ".*Scalar"),
    "max_steps text": ({"max_steps": "9"}, TypeError, "max_steps: found '9'"),
    "max_steps bool": ({"max_steps": True}, TypeError, "max_steps: found True"),
    "max_steps 0": ({"max_steps": 0}, ValueError, "max_steps: found 0"),
    "max_steps huge": ({"max_steps": 2**63}, ValueError, "max_steps: found 9223372036854775808"),
    "every": ({"every": 16}, ValueError, "every"),
    "reorder": ({"reorder": 0.5}, ValueError, "reorder"),
    "layout": ({"layout": "rows"}, eagle.LayoutError, "layout: found 'rows'"),
    "scalar_type": ({"scalar_type": "float16"}, ValueError, "scalar_type: found 'float16'"),
    "scalar_type number": ({"scalar_type": 32}, ValueError, "scalar_type: found 32"),
    "wrong scalar_type": ({"scalar_type": "float32"}, eagle.BufferRefused, "found float64, wanted float32"),
    "record": ({"record": True}, ValueError, "record: found True"),
    "record 0": ({"record": 0}, ValueError, "record: found 0, wanted False"),
    "record numpy": ({"record": np.False_}, ValueError, "record: found .*, wanted False"),
    "window": ({"window": 4}, ValueError, "window: found 4"),
    "memory_budget": ({"memory_budget": 4}, ValueError, "memory_budget: found 4"),
    "events": ({"events": "refine"}, ValueError, "events: found 'refine'"),
    "on_no_event": ({"on_no_event": "ignore"}, ValueError, "on_no_event: found 'ignore'"),
    "progress": ({"progress": 7}, TypeError, "progress: found 7"),
    "dispatch": ({"dispatch": "switch"}, ValueError, "dispatch: found 'switch', wanted None"),
    "until text": ({"until": "y < 0.1"}, ValueError, "until: found the text 'y < 0.1', wanted a kernel"),
    "until number": ({"until": 0.1}, ValueError, "until: found the number 0.1"),
    "until function": ({"until": len}, ValueError, "until: found a Python function"),
}


SHOWN = {"read-only": "3.2a", "shared": "3.2b", "overlapping": "3.2b", "param text": "3.2c", "param None": "3.2d",
         "param list": "3.2d", "param complex": "3.2d", "list": "3.2f", "list state": "3.2f", "unaligned": "3.2h"}


@pytest.mark.want("7j")
@pytest.mark.parametrize("door", ["simulate", "simulation"])
@pytest.mark.parametrize("what", [pytest.param(what, marks=[pytest.mark.want(SHOWN[what])] if what in SHOWN else [])
                                  for what in PLANES])
def test_a_call_is_refused_by_the_name_of_its_door(what: str, door: str) -> None:
    changed, error, text = PLANES[what]
    call = given(**changed)
    before = {name: value.copy() for name, value in call.items() if isinstance(value, np.ndarray)}
    with pytest.raises(error, match=rf"^eagle\.{door}: ") as refused:
        getattr(eagle, door)(ks.decay, **call)
    assert re.search(text, str(refused.value)), str(refused.value)
    assert "; " in str(refused.value)  # a next step
    assert all((call[name] == value).all() for name, value in before.items())


@pytest.mark.want("3.2f")
@pytest.mark.parametrize("name", ["rate", "y", "hits"])
def test_a_list_is_refused_by_the_name_of_its_plane(name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"^eagle.simulate: \w+ '{name}': found .*list"):
        eagle.simulate(ks.decay, **given(**{name: [1.0, 1.0, 1.0]}))


def test_numbers_for_tables_integers_and_vectors() -> None:
    i, y = np.zeros(3, np.int64), np.ones(3)
    with pytest.raises((ValueError, TypeError), match=r"^eagle.simulate: Table 't': found the number 0.5"):
        eagle.simulate(ks.indexed, i, 0.5, y, max_steps=9)
    with pytest.raises(eagle.BufferRefused, match=r"^eagle.simulate: Index 'i': found .*2.5"):
        eagle.simulate(ks.indexed, 2.5, np.ones(3), 1.0, max_steps=9)
    with pytest.raises(eagle.LayoutError, match=r"^eagle.simulate: Vector 'w' of kernel 'turning': found the number 1"):
        eagle.simulate(ks.turning, w=1.0, stop=3, p=np.ones(2), k=0.0, max_steps=9)
    with pytest.raises(eagle.LayoutError, match=r"^eagle.simulate: planes: found none that tells"):
        eagle.simulate(ks.marking, level=1.0, max_steps=9)


class There:
    """Three numbers on a device, at an address nobody reads."""

    shape, dtype = (3,), np.dtype(float)
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (1 << 20, False), "version": 3}  # noqa: RUF012


@pytest.mark.parametrize("door", [eagle.simulate, eagle.simulation])
def test_planes_on_a_device(door: Callable[..., Any]) -> None:
    there = [There() for _ in range(3)]
    with pytest.raises(ValueError, match=rf"^eagle.{door.__name__}: kernel 'decay': found planes on a device, wanted "
                                         "planes on the host"):
        door(ks.decay, *there[:1], 0.1, *there[1:], max_steps=9)
    y = np.ones(3)
    with pytest.raises(eagle.BufferRefused, match=rf"^eagle.{door.__name__}: kernel 'decay', planes 'rate' and 'y': "
                                                  "found one on a device, one on the host"):
        door(ks.decay, there[0], 0.1, y, np.zeros(3), max_steps=9)
    assert (y == 1.0).all()


def test_positions() -> None:
    y, hits = np.ones(3), np.zeros(3)
    with pytest.raises(eagle.ArgumentError, match=r"^eagle.simulate: kernel 'decay': found 5 arguments without a name, "
                                                  r"wanted at most 4: \['rate', 'floor', 'y', 'hits'\]"):
        eagle.simulate(ks.decay, RATES, 0.1, y, hits, y, max_steps=9)
    with pytest.raises(eagle.ArgumentError, match=r"^eagle.simulate: parameter 'rate' of kernel 'decay': found two"):
        eagle.simulate(ks.decay, RATES, 0.1, y, hits, rate=RATES, max_steps=9)
    with pytest.raises(eagle.ArgumentError, match=r"^eagle.simulate: kernel 'squares': found 4 arguments"):
        eagle.simulate(ks.squares, RATES, 0.1, y, hits, max_steps=9)  # e may be left out: by name only


def with_planes(*planes: str) -> dict[str, Any]:
    return {name: np.ones(3) for name in planes}


MODELS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "empty": (lambda: [], ValueError, "model: found an empty list"),
    "empty tuple": (lambda: (), ValueError, "model: found an empty tuple"),
    "function": (lambda: len, ValueError, "model: found a builtin_function_or_method"),
    "number": (lambda: [ks.decay, 3], ValueError, r"model\[1\]: found a int, 3"),
    "callable": (lambda: [ks.decay, print], TypeError, r"model\[1\]: found a builtin_function_or_method"),
    "copy node": (lambda: [ks.halving, eagle.copy(np.ones(3), into=np.ones(3))], ValueError, "a node of kind 'copy'"),
    "no finish": (lambda: ks.gauge, ValueError, "kernel 'gauge': found no kernel that finishes"),
    "no finish of two": (lambda: [ks.shrink, ks.gauge], ValueError, "kernel 'gauge': found no kernel that finishes"),
    "derivative": (lambda: [ks.decay, hawk.Kernel("scale_jvp", hawk.diff.jvp(kernels.scale))], ValueError,
                   r"model\[1\]: found the jvp of 'scale'"),
    "two of a name": (lambda: [ks.halving, ks.gauge, ks.made_like("gauge")], ValueError,
                      "two kernels named 'gauge'"),
    "two widths": (lambda: [ks.halving, ks.wide_y], ValueError, "kernels 'halving' and 'wide_y', plane 'y': found "
                   "per-sample plane of float64, width 1 and per-sample plane of float64, width 2"),
    "two dtypes": (lambda: [ks.halving, ks.at_index, ks.at_int32], ValueError, "kernels 'at_index' and 'at_int32', "
                   "plane 'i': found per-sample plane of int64, width 1 and per-sample plane of int32, width 1"),
    "two families": (lambda: [ks.halving, ks.floor_plane], ValueError,
                     "kernels 'halving' and 'floor_plane', plane 'floor': found Param of float64 and per-sample plane"),
    "named like an option": (lambda: ks.named_like_an_option, ValueError,
                             "parameter 'window' of kernel 'named_like_an_option': .*option window="),
    "named like a field": (lambda: ks.named_like_a_field, ValueError,
                           "parameter 't_stop' of kernel 'named_like_a_field': .*field 't_stop'"),
}


@pytest.mark.want("7j")
@pytest.mark.parametrize("door", ["simulate", "simulation"])
@pytest.mark.parametrize("what", MODELS)
def test_a_model_is_refused_by_the_name_of_its_door(what: str, door: str) -> None:
    made, error, text = MODELS[what]
    with pytest.raises(error, match=rf"^eagle\.{door}: ") as refused:
        getattr(eagle, door)(made(), **with_planes("y", "rate", "e"), floor=0.1, max_steps=9)
    assert re.search(text, str(refused.value)), str(refused.value)
    assert "; " in str(refused.value)


@pytest.mark.want("7d")
def test_every_option_and_field_is_checked_as_a_name() -> None:
    taken = set(inspect.signature(eagle.simulate).parameters) - {"model", "args", "kwargs"}
    assert taken == set(OPTIONS)
    assert set(FIELDS) == {name for name in dir(eagle.SimResult) if not name.startswith("_")}


DISPATCH: dict[str, tuple[Any, Any, str]] = {
    "unknown policy": (lambda: ks.branching, "fast", r"dispatch: found 'fast', wanted one of \('auto', 'switch', "),
    "unknown policy of a group": (lambda: ks.branching, {"dispatch0": "fast"}, "dispatch: found 'fast'"),
    "unknown group": (lambda: ks.branching, {"other": "switch"}, r"dispatch, group 'other': .*\['dispatch0'\]"),
    "no name": (lambda: ks.branching, {0: "switch"}, "dispatch: found the group 0, wanted the name of a group, a str"),
    "empty name": (lambda: ks.branching, {"": "switch"}, "dispatch: found the group '', wanted the name of a group"),
    "fixed group": (lambda: ks.decided, {"dispatch0": "predicated"}, "dispatch, group 'dispatch0': .*'switch' of its"),
    "no auto group": (lambda: ks.decided, "switch", "dispatch: found 'switch', wanted None"),
    "no group": (lambda: ks.halving, {"dispatch0": "switch"}, "dispatch, group 'dispatch0': .*has no groups"),
    "number": (lambda: ks.branching, 3, "dispatch: found 3"),
    "list": (lambda: ks.branching, ["switch"], r"dispatch: found \['switch'\]"),
    "several kernels": (lambda: [ks.branching, ks.gauge], "segmented", "dispatch, group 'dispatch0': .*2 kernels"),
    "nodes": (lambda: [ks.branching, eagle.nodes.opaque(lambda: None, reads=[np.ones(3)])], "switch",
              "dispatch: found 'switch', wanted None: the step has nodes"),
    "built": (lambda: eagle.deploy(eagle.deploy(ks.branching).plugin), "switch", "dispatch: found 'switch'"),
}


@pytest.mark.parametrize("what", DISPATCH)
def test_a_dispatch_is_refused(what: str) -> None:
    made, dispatch, text = DISPATCH[what]
    with pytest.raises(ValueError, match=r"^eagle\.simulate: ") as refused:
        eagle.simulate(made(), k=np.zeros(3, np.int64), y=np.ones(3), floor=0.1, max_steps=9, dispatch=dispatch)
    assert re.search(text, str(refused.value)), str(refused.value)


def test_a_simulation_names_itself() -> None:
    y = np.ones(3)
    s = eagle.simulation(ks.decay, RATES, 0.1, y, np.zeros(3), max_steps=9)
    s.run()
    y.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match=r"^Simulation.run: Mutable 'y'"):
        s.run()


def test_one_call_at_a_time() -> None:
    y = np.ones(3)
    refused: list[eagle.Busy] = []

    def again() -> None:
        for method in (s.run, s.reset):
            with pytest.raises(eagle.Busy) as busy:
                method()
            refused.append(busy.value)

    s = eagle.simulation([ks.halving, eagle.nodes.opaque(again, reads=[y])], y=y, floor=0.1, max_steps=9)
    assert s.run().steps == 4
    assert [str(busy).split(":")[0] for busy in refused[:2]] == ["Simulation.run", "Simulation.reset"]
    assert s.run().steps == 0  # it is usable again


@pytest.mark.parametrize(("right", "wrong"), [({"dispatch0": None}, {"dispatch0": "None"}),
                                              ({"dispatch0": "switch"}, {"dispatch0": ["switch"]}),
                                              ({"dispatch0": "switch"}, {b"dispatch0": "switch"})])
def test_a_dispatch_is_refused_whatever_was_seen_before(right: Any, wrong: Any) -> None:
    given = {"k": np.zeros(3, np.int64), "y": np.ones(3), "floor": 0.1, "max_steps": 9}
    for _ in range(2):
        eagle.simulate(ks.branching, **given, dispatch=right)
        with pytest.raises(ValueError, match="^eagle.simulate: dispatch: found "):
            eagle.simulate(ks.branching, **given, dispatch=wrong)
