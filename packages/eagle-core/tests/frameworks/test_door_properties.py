# SPDX-License-Identifier: Apache-2.0
"""Any libraries, layouts and dtypes in one call, and what NumPy computes of the same values."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kernels
import libraries
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import Library

import eagle

Array = np.ndarray[Any, Any]

HEADS: dict[str, tuple[int, ...]] = {"p": (3,), "m": (2, 3), "q": (4,), "s": ()}
OUTPUTS = {"vector": "p", "matrix": "m", "quat": "q", "scalar": "s"}  # and the input with the same head
FRAMEWORKS = ("torch", "jax")
FACTOR = 2.5


@functools.cache
def available() -> tuple[Library, ...]:
    return tuple(libraries.installed())


@functools.cache
def plan(dtype: str) -> Any:
    return eagle.deploy(kernels.shapes, scalar_type=dtype)


@dataclass
class Plane:
    """An argument: the array of a library, and the component-major values it has."""

    lib: Library
    array: Any
    values: Array  # head + (n,), or the head alone
    layout: str  # "last", "first", "turned" or "one"

    def marked(self, always: bool) -> Any:
        """With a marker where the shape may not tell."""
        if self.layout in ("one", "last") and not (always and self.layout == "last"):
            return self.array
        return (eagle.samples_last if self.layout == "last" else eagle.samples_first)(self.array)

    def read(self) -> Array:
        """The values now, as `values`."""
        found = self.lib.read(self.array)
        return np.moveaxis(found, 0, -1) if self.layout in ("first", "turned") else found


def laid_out(values: Array, layout: str, strided: bool) -> Array:
    """`values` in a memory order of its own: samples last, first, or first over samples that are last."""
    if layout == "turned":
        return np.moveaxis(values.copy(), -1, 0)
    a = np.ascontiguousarray(np.moveaxis(values, -1, 0)) if layout == "first" else values.copy()
    if not strided or a.ndim == 0:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
    wide[..., ::2] = a
    return wide[..., ::2]


@st.composite
def planes(draw: Callable[..., Any], name: str, n: int | None, dtype: str, door: str) -> Plane:
    written = name in OUTPUTS
    head = HEADS[OUTPUTS.get(name, name)]
    lib = draw(st.sampled_from([lib for lib in available() if (lib.writes or not written) and lib.ranks <= len(head)
                                + (n is not None)]))
    one = n is None
    exact = written or door == "bind"
    kind = draw(st.sampled_from([dtype] if exact else [dtype, "float32", "int32"]))
    values = draw(st.integers(0, 2**32).map(np.random.default_rng)).integers(
        -99, 99, head if one else (*head, n)).astype(kind)
    if len(head) == 2 and draw(st.booleans()):
        values = values.reshape(6, *values.shape[2:])
    layout = "one" if one else "last" if not head else draw(st.sampled_from(["last", "first", "turned"]))
    strided = lib.keeps_strides and not (exact and layout != "first") and draw(st.booleans())
    a = laid_out(values, layout, strided)
    array = lib.over(a) if lib.shares else lib.new(a)
    return Plane(lib, array, values, layout)


def result_of(given: list[Plane]) -> str:
    """Whose arrays results are; "both" where torch and jax are among the arguments."""
    names = {plane.lib.name for plane in given} & set(FRAMEWORKS)
    return "both" if len(names) == 2 else next(iter(names), "numpy")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_any_mixture(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float64", "float32"]))
    door = data.draw(st.sampled_from(["run", "call", "bind", "rebind"]))
    n = data.draw(st.none() | st.integers(0, 9) | st.just(1000))
    with contextlib.ExitStack() as stack:
        for lib in available():
            stack.enter_context(lib.around())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        check_mixture(data, dtype, door, n)


def check_mixture(data: st.DataObject, dtype: str, door: str, n: int | None) -> None:
    bound = door in ("bind", "rebind")
    inputs = {name: data.draw(planes(name, n, dtype, "bind" if bound else door)) for name in HEADS}
    outputs = {name: data.draw(planes(name, n, dtype, door)) for name in OUTPUTS
               if bound or data.draw(st.booleans())}
    always = n in (2, 3, 4, 6) or data.draw(st.booleans())
    given = {**inputs, **outputs}
    call = {name: plane.marked(always) for name, plane in given.items()} | {"a": FACTOR}
    before = {name: plane.read().tobytes() for name, plane in given.items()}
    whose = result_of(list(given.values()))
    if whose == "both" and outputs.keys() != OUTPUTS.keys():
        with pytest.raises(TypeError, match="found arrays of (torch and of jax|jax and of torch)"):
            plan(dtype).run(**call) if door == "run" else plan(dtype)(**call)
        assert before == {name: plane.read().tobytes() for name, plane in given.items()}
        return
    if door == "bind":
        plan(dtype).bind(**call).launch()
    elif door == "rebind":
        other = {name: eagle.samples_last(np.zeros(plane.values.shape, dtype)) for name, plane in given.items()}
        plan(dtype).bind(**other, a=1.0).rebind(**call).launch()
    else:
        result = plan(dtype).run(**call) if door == "run" else plan(dtype)(**call)
        check_results(result, outputs, inputs, dtype, whose)
    for name, plane in outputs.items():
        wanted = expected(name, inputs, dtype)
        found = plane.read()
        assert found.dtype == wanted.dtype and found.reshape(wanted.shape).tobytes() == wanted.tobytes(), name
    for name, plane in inputs.items():
        assert plane.read().tobytes() == before[name], name


def expected(name: str, inputs: dict[str, Plane], dtype: str) -> Array:
    """The output by NumPy, as head + (n,) or the head alone."""
    head = HEADS[OUTPUTS[name]]
    values = inputs[OUTPUTS[name]].values.astype(dtype)
    values = values.reshape(head + inputs["s"].values.shape)
    factor = np.dtype(dtype).type(FACTOR)
    return values * (inputs["s"].values.astype(dtype) if name in ("matrix", "quat") else factor)


def check_results(result: Any, outputs: dict[str, Plane], inputs: dict[str, Plane], dtype: str, whose: str) -> None:
    assert result.keys() == OUTPUTS.keys()
    kinds = {lib.name: lib for lib in available()}
    for name, array in result.items():
        if name in outputs:
            assert array is outputs[name].array
            continue
        wanted = np.asarray(expected(name, inputs, dtype))
        one = inputs["s"].layout == "one"
        assert isinstance(array, np.dtype(dtype).type if one and name == "scalar" and whose == "numpy"
                          else kinds[whose].made), name
        found = np.asarray(array)
        assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes(), name
        assert found.shape == (wanted.shape if one or name != "matrix" else (6, wanted.shape[-1]))
