# SPDX-License-Identifier: Apache-2.0
"""Planes that move, or may no longer be written, while a call is checked and between launches: refused, never followed.

Code of the caller's runs in the middle of a call: a filter of warnings, a producer's ``__dlpack__``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import kernels
import layout_kernels
import numpy as np
import pytest

import eagle
from eagle import BufferRefused, LayoutError
from eagle.interop import import_buffer


class Producer:
    """An array by DLPack, whose author's code runs each time it is read."""

    __dlpack_device__ = staticmethod(np.ones(1).__dlpack_device__)

    def __init__(self, array: np.ndarray[Any, Any], action: Callable[[], object]) -> None:
        self.array, self.action = array, action
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __dlpack__(self, **kw: Any) -> Any:
        self.action()
        return self.array.__dlpack__(**kw)


class Sub(np.ndarray[Any, Any]):
    """A subclass is read through a view of it."""


def of_type(kind: type[np.ndarray[Any, Any]], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array of ones that owns its memory."""
    array = np.ndarray.__new__(kind, shape)
    array[...] = 1.0
    return array


@pytest.mark.smoke
@pytest.mark.parametrize("kind", [np.ndarray, Sub])
def test_a_filter_that_moves_a_plane(kind: type[np.ndarray[Any, Any]]) -> None:
    for door in ("run", "bind"):
        v, m = of_type(kind, (7, 2)), np.ones((7, 6))
        outputs = {"scaled": np.empty((6, 7)), "moved": np.empty((2, 7)), "norm": np.empty(7)} if door == "bind" else {}
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = lambda *args, **kw: v.resize((700, 200), refcheck=False)  # noqa: B023
            with pytest.raises(BufferRefused, match="'v': found an array that moved while it was checked"):
                getattr(eagle.deploy(layout_kernels.turn), door)(v=v, m=m, a=1.0, **outputs)


@pytest.mark.smoke
def test_a_producer_that_moves_another_plane() -> None:
    """Its code runs in the middle of a call, when planes before it were read already."""
    x = np.ones(7)
    y = Producer(np.ones(7), lambda: x.resize(70_000, refcheck=False))
    with pytest.raises(LayoutError, match="'y': found 7 samples, wanted 70000, as 'x' has"):
        eagle.deploy(kernels.sum_difference).run(x=x, y=y)
    bound = eagle.deploy(kernels.sum_difference).bind(x=x, y=np.ones(70_000), out0=np.empty(70_000),
                                                      out1=np.empty(70_000))
    moving = Producer(np.ones(70_000), lambda: None)
    bound.rebind(y=moving)
    moving.action = lambda: x.resize(9, refcheck=False)
    with pytest.raises(BufferRefused, match="Scalar 'x': found an array that moved"):
        bound.launch()


@pytest.mark.smoke
def test_a_producer_that_calls_the_same_plan() -> None:
    plan = eagle.deploy(kernels.sum_difference)
    x = np.arange(3.0)

    def again() -> None:
        for names in ({"x": x, "y": x}, {"y": x, "x": x}, {"y": x, "x": x, "out0": np.zeros(3)},
                      {"out1": np.zeros(3), "y": x, "x": x}, {"out0": np.zeros(3), "y": x, "x": x}):
            assert plan.run(**names)["out0"].tolist() == [0.0, 2.0, 4.0]

    out = np.zeros(3)
    got = plan.run(y=Producer(np.ones(3), again), out1=out, x=x)
    assert got["out0"].tolist() == [1.0, 2.0, 3.0] and got["out1"] is out and out.tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.smoke
@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("make", [lambda: of_type(Sub, (4000, 3)), lambda: of_type(Sub, (3, 4000)),
                                  lambda: of_type(np.ndarray, (4000, 3))], ids=["sub", "sub native", "array"])
def test_what_moved_between_launches(make: Callable[[], Any], written: bool) -> None:
    """By resize, by a new shape, by a flag: launch and clear refuse alike, and write nothing."""
    for change in ("resize", "reshape", "flag"):
        plane, other = make(), np.ones((3, 4000))
        bound = eagle.deploy(kernels.advance).bind(dt=1.0, x=plane if written else other, v=other if written else plane)
        name = "x" if written else "v"
        if change == "resize":
            plane.resize((1, 3), refcheck=False)
        elif change == "reshape":
            plane.shape = (6000, 2)
        elif not written:
            continue
        else:
            plane.flags.writeable = False
        for door in (bound.launch, lambda: bound.clear("x")):  # noqa: B023
            with pytest.raises(BufferRefused, match=f"{name!r}: found an array that moved"):
                door()
        assert (other == 1.0).all()


@pytest.mark.smoke
def test_an_array_that_moved_under_a_view() -> None:
    own = np.zeros(1000)
    bound = eagle.deploy(kernels.scale).bind(x=np.ones(1000), a=1.0, b=0.0, out=import_buffer(own))
    bound.launch()
    own.resize(10, refcheck=False)
    for door in (bound.launch, lambda: bound.clear("out")):
        with pytest.raises(BufferRefused, match="'out': found an array that moved"):
            door()
    assert (own == 1.0).all()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_stops_a_program_is_no_refusal(error: type[BaseException]) -> None:
    """Raised by a producer once: no door goes on, whichever way it reads."""
    plan, raised = eagle.deploy(kernels.scale), []

    def stop() -> None:
        if not raised:
            raised.append(1)
            raise error

    for call in (lambda x: plan.run(x=x, a=1.0, b=0.0), lambda x: plan(x, 1.0, 0.0),
                 lambda x: plan.bind(x=x, a=1.0, b=0.0, out=np.empty(3))):
        raised.clear()
        with pytest.raises(error):
            call(Producer(np.ones(3), stop))
    x = Producer(np.ones(3), lambda: None)
    bound = plan.bind(x=x, a=1.0, b=0.0, out=np.empty(3))
    raised.clear()
    x.action = stop
    if error is not MemoryError:
        with pytest.raises(error):
            bound.launch()


def test_a_producer_that_fails_at_a_launch_is_refused() -> None:
    x = Producer(np.ones(3), lambda: None)
    bound = eagle.deploy(kernels.scale).bind(x=x, a=1.0, b=0.0, out=np.empty(3))
    x.action = lambda: 1 / 0
    with pytest.raises(BufferRefused, match="Scalar 'x': found an array that moved, changed its shape, was deleted"):
        bound.launch()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_a_marker_that_is_an_array_too() -> None:
    """An object with the two attributes is a marker, whatever else it has."""
    square = np.arange(9.0).reshape(3, 3)
    marked = Producer(np.zeros((3, 3)), lambda: None)
    marked.__raptor_samples_axis__ = "first"  # type: ignore[attr-defined]  # as a foreign marker has it
    for door in (eagle.deploy(kernels.named).run, eagle.deploy(kernels.named)):
        marked.array = square
        assert (door(v=marked, x=np.zeros(3), a=1.0)["moved"] == square.T).all()
    plain = SimpleNamespace(__raptor_samples_axis__="first")  # without an array it is none
    with pytest.raises(TypeError, match="Vector 'v': found an object of types.SimpleNamespace"):
        eagle.deploy(kernels.named).run(v=plain, x=np.zeros(3), a=1.0)


class Opaque:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_attributes_that_raise() -> None:
    for given in ({"x": Opaque(), "a": 1.0}, {"x": np.ones(3), "a": Opaque()}):
        with pytest.raises(TypeError, match=r"^scale.run: .*: found .*Opaque"):
            eagle.deploy(kernels.scale).run(b=0.0, **given)


def test_broadcast_by_dlpack_alone() -> None:
    import broadcast_kernels

    class Bare:
        """Without a shape to look at."""

        __dlpack_device__ = staticmethod(np.ones(1).__dlpack_device__)

        def __dlpack__(self, **kw: Any) -> Any:
            return np.arange(8.0).__dlpack__(**kw)

    x = np.arange(40.0).reshape(5, 8)
    assert (eagle.deploy(broadcast_kernels.two).run(x=x, b=Bare()) == x * np.arange(8.0)).all()
