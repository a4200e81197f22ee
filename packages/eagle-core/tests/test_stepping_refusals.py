# SPDX-License-Identifier: Apache-2.0
"""Odd arguments of the stepping doors: the right bits, or a refusal that names door, argument, found, wanted and the
next step, with nothing written."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from stepping_forms import MODELS, Model, Planes, bits, copied
from stepping_oracle import Serial, batch

import eagle

FORMS = ("decay", "plain arithmetic", "integer planes", "Table", "steps=4", "compacting, steps=1",
         "vectors and matrices", "finisher first", "keyed sum", "dispatch, auto", "two masks")
DOORS = ("until_done", "run_until_done", "simulate", "simulation")
OPTIONS = ("max_steps", "every", "reorder", "record", "window", "memory_budget", "events", "on_no_event", "layout",
           "progress")
OPTIONS_OF_SIMULATE = ("until", "scalar_type", "dispatch", "max_memory")
RESERVED = ("finished_count", "fused_steps", "active_map", "active_count")
N = 5  # neither as wide as a vector nor as a matrix


class Odd:
    """An object that is nothing."""

    def __repr__(self) -> str:
        return "Odd()"


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


NUMBERS = st.one_of(st.integers(-2, 3), st.sampled_from([2**31, 2**63 - 1, 2**63, -2**63, 10**400]), st.booleans(),
                    st.floats(allow_nan=True, allow_infinity=True), st.complex_numbers(max_magnitude=5),
                    st.sampled_from([np.float32(0.5), np.int8(3), np.bool_(True), Fraction(1, 2),
                                     np.datetime64("NaT")]))
THINGS = st.one_of(st.none(), st.text(max_size=4), st.binary(max_size=3), st.lists(st.floats(width=16), max_size=7),
                   st.lists(st.text(max_size=1), max_size=3),
                   st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
                   st.builds(Odd), st.builds(Unshowable), st.just(len), st.just(Odd), st.just(...), st.just(range(6)),
                   st.just([[1.0], 2.0]), st.just(memoryview(b"123456")))
ARRAYS = st.one_of(
    hnp.arrays(st.one_of(hnp.scalar_dtypes(), st.just(np.dtype(object))),
               st.one_of(st.just((N,)), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7)),
               elements=None).filter(lambda array: array.size < 200),
    st.sampled_from(["strided", "read-only", "reversed", "unaligned", "masked", "swapped", "broadcast", "short", "row",
                     "column", "matrix", "structured", "one"]).map(lambda kind: made(kind)))
ODD = st.one_of(NUMBERS, THINGS, ARRAYS)


def made(kind: str) -> Any:
    x = np.linspace(0.25, 0.75, N)
    if kind == "strided":
        return np.repeat(x, 2)[::2]
    if kind == "read-only":
        x.flags.writeable = False
        return x
    if kind == "unaligned":
        return np.frombuffer(bytearray(8 * N + 1), np.uint8)[1:].view(np.float64)
    return {"reversed": x[::-1], "masked": np.ma.array(x), "swapped": x.astype(">f8"),
            "broadcast": np.broadcast_to(np.float64(0.5), (N,)), "short": x[:-1].copy(), "row": x.reshape(1, N),
            "column": x.reshape(N, 1), "matrix": np.zeros((N, N)), "structured": np.zeros(N, [("a", "f8")]),
            "one": np.array(0.5)}[kind]


def call(door: str, model: Model, item: Any, options: dict[str, Any], planes: Planes) -> Any:
    """What a door gives; a run included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = getattr(eagle, door)(item, **options, **planes)
        return answer.run() if door in ("until_done", "simulation") else answer


def assert_refusal(error: BaseException, door: str, *names: str) -> None:
    """The message's form; it names one of these."""
    text = str(error)
    assert isinstance(error, ValueError | TypeError), repr(error)
    parts = re.fullmatch(rf"eagle\.{door}: (?P<argument>.+?): found (?P<found>.+), wanted (?P<wanted>.+); (?P<fix>.+)",
                         text, re.DOTALL)
    assert parts, text
    assert any(name in text for name in names), (text, names)


def assert_untouched(planes: Planes, before: Planes) -> None:
    for name, value in before.items():
        if isinstance(value, np.ndarray) and isinstance(planes.get(name), np.ndarray) and value.dtype != object:
            assert bits(planes[name]) == bits(value), name


def snapshot(planes: Planes) -> Planes:
    return {name: np.array(value, copy=True) if isinstance(value, np.ndarray) else value
            for name, value in planes.items()}


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_odd_planes(data: st.DataObject) -> None:
    """One plane, the mask included, is something odd."""
    form = data.draw(st.sampled_from(FORMS), "form")
    model, door = MODELS[form], data.draw(st.sampled_from(DOORS), "door")
    simulates = door in ("simulate", "simulation")
    planes = model.planes(N, 3, "bimodal")
    name = data.draw(st.sampled_from([*planes] if simulates else [*planes, "terminated"]), "plane")
    value = data.draw(ODD, "value")
    if name == "i" and isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        value = value % value.dtype.type(16)  # an index that leads outside is the caller's to avoid
    if name == "t":
        planes["i"] = np.zeros_like(planes["i"])  # for tables of any length
    before = snapshot(planes)
    start = Serial(model, {**planes}, None)
    wanted = start.run(2)
    planes[name] = value
    before[name] = snapshot({name: value})[name]
    try:
        call(door, model, model.model if simulates else model.plan, {"max_steps": 2}, planes)
    except (ValueError, TypeError) as refused:
        assert_refusal(refused, door, f"'{name}'", *(() if not isinstance(value, np.ndarray) else map(repr, planes)))
        assert_untouched(planes, before)
        return
    given = taken(model, name, value, before)
    if given is None:
        return
    serial = Serial(model, {**{k: v for k, v in before.items() if k != "terminated"}, **(
        {name: given} if name != "terminated" else {})}, given if name == "terminated" else None)
    wanted = serial.run(2)
    for other, plane in wanted.planes.items():
        if isinstance(planes[other], np.ndarray) and planes[other].dtype == getattr(plane, "dtype", None):
            np.testing.assert_array_equal(planes[other], plane, err_msg=other)


def taken(model: Model, name: str, value: Any, before: Planes) -> Any:
    """What an accepted value means as a plane; None where a batch's length changed with it."""
    declared = dtype_of(model, name)
    if declared is None:  # a number
        assert hasattr(value, "__float__") and not isinstance(value, bool | np.bool_), value
        return float(value)
    array = np.array(value, declared)
    assert array.ndim, "a number for a plane of a batch"
    shape = np.shape(model.planes(N, 3, "bimodal").get(name, np.zeros(N, bool)))
    return np.ascontiguousarray(array) if array.shape == shape else None  # None: a table of another length


def dtype_of(model: Model, name: str) -> np.dtype[Any] | None:
    plane = model.planes(N, 3, "bimodal").get(name, np.zeros(N, bool))
    return plane.dtype if isinstance(plane, np.ndarray) else None


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_odd_options(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS), "form")
    model, door = MODELS[form], data.draw(st.sampled_from(DOORS), "door")
    simulates = door in ("simulate", "simulation")
    planes = model.planes(N, 3, "bimodal")
    name = data.draw(st.sampled_from([*OPTIONS, *(OPTIONS_OF_SIMULATE if simulates else ())]), "option")
    value = data.draw(st.one_of(NUMBERS, THINGS), "value")
    options = {"max_steps": 2, name: value}
    before = snapshot(planes)
    if name == "progress" and (callable(value) or value is True):  # its own tests have them
        return
    try:
        call(door, model, model.model if simulates else model.plan, options, planes)
    except (ValueError, TypeError) as refused:
        assert_refusal(refused, door, name)
        assert_untouched(planes, before)
        return
    assert acceptable(name, value, model), (name, value)
    if name == "scalar_type":
        return
    wanted = Serial(model, before).run(int(value) if name == "max_steps" else 2)
    for other, plane in wanted.planes.items():
        if isinstance(plane, np.ndarray):
            assert bits(planes[other]) == bits(plane), other


@pytest.mark.parametrize("door", DOORS)
def test_a_threshold_that_no_float_holds(door: str) -> None:
    model = MODELS["compacting, steps=1"]
    planes = model.planes(N, 3, "bimodal")
    with pytest.raises(ValueError, match=r"reorder: found 1000*\.\.\., wanted 0\.\d+ to"):
        call(door, model, model.model if door in ("simulate", "simulation") else model.plan,
             {"max_steps": 2, "reorder": 10**400}, planes)


def acceptable(name: str, value: Any, model: Model) -> bool:
    """Whether the specification lets this value of an option pass."""
    fixed = model.compacts and model.k != "auto"
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool | complex | np.complexfloating)
    rules: dict[str, Callable[[], bool]] = {
        "max_steps": lambda: integer and 1 <= value < 2**63,
        "every": lambda: value is None or fixed and integer and value >= 4 and value % int(model.k) == 0,
        "reorder": lambda: value is None or isinstance(value, bool) and not value or model.compacts and (
            value is True or real and not math.isnan(value) and 0.25 <= value <= 0.75),
        "record": lambda: value is False, "window": lambda: value is None, "memory_budget": lambda: value is None,
        "events": lambda: value == "step", "on_no_event": lambda: value == "raise",
        "layout": lambda: value is None or value in ("samples_first", "samples_last"),
        "progress": lambda: value is None or isinstance(value, bool) or callable(value),
        "until": lambda: value is None, "scalar_type": lambda: value in (None, "float64", "float32"),
        "dispatch": lambda: value is None or value == {},
        "max_memory": lambda: value is None or integer and value > 0,
    }
    return bool(rules[name]())


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_odd_models(data: st.DataObject) -> None:
    """What is no plan, no kernel and no node, alone or in a list."""
    door = data.draw(st.sampled_from(DOORS), "door")
    model = MODELS["decay"]
    planes = model.planes(N, 3, "bimodal")
    before = snapshot(planes)
    good = model.model if door in ("simulate", "simulation") else model.plan
    odd = data.draw(st.one_of(NUMBERS, THINGS, ARRAYS, st.just([])), "model")
    item = data.draw(st.sampled_from(["alone", "first", "last"]), "place")
    given = odd if item == "alone" else [odd, good] if item == "first" else [good, odd]
    with pytest.raises((ValueError, TypeError)) as caught:
        call(door, model, given, {"max_steps": 2}, planes)
    assert_refusal(caught.value, door, "model", "plan")
    assert_untouched(planes, before)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
def test_names(form: str, door: str) -> None:
    """Missing, unknown, reserved, and without a name."""
    model = MODELS[form]
    simulates = door in ("simulate", "simulation")
    item = model.model if simulates else model.plan
    planes = model.planes(N, 3, "bimodal")
    before = copied(planes)
    options = {"max_steps": 2}
    optional = {"rejected", "acc"} | ({"spare", "b"} if form == "unused parameters" else set())
    for name in planes:
        if name in optional or (simulates and name in ("e",)):
            continue
        with pytest.raises((ValueError, TypeError)) as caught:
            call(door, model, item, options, {other: value for other, value in planes.items() if other != name})
        assert_refusal(caught.value, door, name)
    for name in ("nonsense", *RESERVED, *(("terminated",) if simulates else ())):
        with pytest.raises((ValueError, TypeError)) as caught:
            call(door, model, item, options, {**planes, name: np.zeros(N)})
        assert_refusal(caught.value, door, f"'{name}'")
    if not simulates:
        with pytest.raises(TypeError):
            getattr(eagle, door)(item, planes["y"] if "y" in planes else planes["k"] if "k" in planes else planes["p"],
                                 **options)
    assert_untouched(planes, before)
    assert batch(planes) == N
