# SPDX-License-Identifier: Apache-2.0
"""The doors with arrays of each library: what is read, written, copied, returned and refused.

Each test is a column of the table in docs/frameworks.md; `says` is what its cell says.
"""

from __future__ import annotations

import ctypes
import functools
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import kernels
import numpy as np
import pytest
from libraries import Library

import eagle
from eagle.errors import ArgumentError, BufferRefused, LayoutWarning
from eagle.interop import import_buffer

Array = np.ndarray[Any, Any]

DOORS = ("run", "call", "bind", "rebind")
N = 1000
DT = 0.125

each_door = pytest.mark.parametrize("door", DOORS)


def values(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


@functools.cache
def deployed(kernel: Any, dtype: str = "float64") -> Any:
    return eagle.deploy(kernel, scalar_type=dtype)


def spare(x: Any) -> Any:
    """An array of NumPy that `x` may take the place of."""
    if isinstance(x, float):
        return x
    shape = import_buffer(x).shape
    return np.zeros((3, np.prod(shape, dtype=int) // 3) if len(shape) == 2 else shape)


def bound(door: str, kernel: Any, **given: Any) -> Any:
    """The kernel bound to what is given, at once or after it was bound to other arrays."""
    if door == "bind":
        return deployed(kernel).bind(**given)
    return deployed(kernel).bind(**{name: spare(x) for name, x in given.items()}).rebind(**given)


def through(door: str, kernel: Any, **given: Any) -> Any:
    """Runs the kernel once. What run and the call form return; the bound plan."""
    if door in ("run", "call"):
        return deployed(kernel).run(**given) if door == "run" else deployed(kernel)(**given)
    plan = bound(door, kernel, **given)
    assert plan.launch() is None
    return plan


def named(door: str, kernel: Any) -> str:
    """What a refusal calls the door."""
    return f"{kernel.name}()" if door == "call" else f"{kernel.name}.{door}"


def allocated(work: Callable[[], Any]) -> tuple[Any, int]:
    """What `work` returns, and the most bytes that Python and NumPy held for it at once."""
    work()  # what is kept for later calls
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def same(found: Array, wanted: Array) -> None:
    """The very bits, dtype and shape."""
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.tobytes() == wanted.tobytes()


# ---- batches ---------------------------------------------------------------------------------------------------------


@each_door
def test_in(lib: Library, door: str, says: list[str]) -> None:
    """A launch reads the caller's own memory, at its address, and copies nothing."""
    n = 10 * N
    a, y = values(n), np.zeros(n)
    x = lib.new(a)
    if door in ("run", "call"):
        result, most = allocated(lambda: through(door, kernels.into, x=x, y=y, a=2.0))
        assert result is y or door == "call"
        assert most < a.nbytes // 4
        same(y, a * 2)
    else:
        plan = through(door, kernels.into, x=x, y=y, a=2.0)
        same(y, a * 2)
        lib.write(x, -a)
        plan.launch()
        same(y, -a * 2)
        assert plan.planes["x"] is x
    beside = np.frombuffer((ctypes.c_double * n).from_address(lib.address(x) + 8))
    before = lib.read(x)
    with pytest.raises(BufferRefused, match=rf"^{re.escape(named(door, kernels.into))}: .*'y' and .*'x': found arrays "
                                            "that share memory, one of them written, wanted separate arrays; "):
        through(door, kernels.into, x=x, y=beside, a=2.0)
    same(lib.read(x), before)
    says.append("zero-copy")


@each_door
def test_out(lib: Library, door: str, says: list[str]) -> None:
    """Outputs and state are written in place, and are what is returned."""
    x, k = values(N), values(N, seed=1)
    given = {"y": lib.new(np.full(N, np.nan)), "k": lib.new(k), "out": lib.new(np.full(N, np.nan))}
    if not lib.writes:
        with pytest.raises(BufferRefused, match=rf"^{re.escape(named(door, kernels.mixed))}: .*'(y|k|out)': "):
            through(door, kernels.mixed, x=x, a=0.5, **given)
        same(lib.read(given["k"]), k)
        says.append("refused: BufferRefused")
        return
    places = {name: lib.address(array) for name, array in given.items()}
    result = through(door, kernels.mixed, x=x, a=0.5, **given)
    wanted = {"y": x * 0.5, "k": k + x, "out": x - 0.5}
    for name, array in given.items():
        same(lib.read(array), wanted[name])
        assert lib.address(array) == places[name]
    if door == "run":
        assert result.keys() == given.keys() and all(result[name] is given[name] for name in given)
    elif door == "call":
        assert result is given["out"]
    else:
        assert all(result.planes[name] is given[name] for name in given)
        result.launch()
        same(lib.read(given["k"]), k + x + x)
        result.clear("y")
        same(lib.read(given["y"]), np.zeros(N))
    says.append("in place")


@pytest.mark.parametrize("door", DOORS[:2])
def test_result(lib: Library, door: str, says: list[str]) -> None:
    """Outputs that are left out come back in the caller's library, of the kernel's dtype, in new memory."""
    a, v = values(N), values(3, N, seed=1)
    for dtype in ("float64", "float32"):
        x = lib.new(a.astype(dtype))
        made = deployed(kernels.named, dtype)
        given = {"x": x, "v": v.astype(dtype), "a": 0.75}
        result = made.run(**given) if door == "run" else made(**given)
        for name, wanted in {"moved": v.astype(dtype) * np.dtype(dtype).type(0.75),
                             "shifted": a.astype(dtype) + np.dtype(dtype).type(0.75)}.items():
            assert isinstance(result[name], lib.made)
            same(np.asarray(result[name]), wanted)
        same(lib.read(x), a.astype(dtype))
    i = lib.new(np.arange(-3, 7))
    kept = through(door, kernels.kept, i=i) if door == "run" else deployed(kernels.kept).run(i=i)
    assert isinstance(kept, lib.made)
    same(np.asarray(kept), np.arange(-3, 7))
    says.append(result_type(lib, kept))


def result_type(lib: Library, x: Any) -> str:
    return f"numpy.{type(x).__name__}" if isinstance(x, np.ndarray | np.generic) else lib.type_of(x)


@each_door
def test_read_only(lib: Library, door: str, says: list[str]) -> None:
    """What nobody may write is read as well as anything."""
    a, y = values(N), np.zeros(N)
    x = lib.read_only(a)
    if x is None:
        assert import_buffer(lib.new(a)).access == "read-write"
        says.append("no such arrays")
        return
    assert import_buffer(x).access in ("read-only", "unknown")
    result = through(door, kernels.into, x=x, y=y, a=2.0)
    same(y, a * 2)
    same(lib.read(x), a)
    assert result is y or door != "run"
    says.append("accepted")


@each_door
def test_write_refused(lib: Library, door: str, says: list[str]) -> None:
    """Nothing is written that may not be; the refusal names the door, the plane, and what was found and wanted."""
    a, x, k = values(N), values(N, seed=1), values(N, seed=2)
    refused = lib.unwritable(a)
    assert refused
    for role, name in (("output", "y"), ("Mutable", "k")):
        for array, why in refused:
            given = {"y": np.full(N, np.nan), "k": k.copy(), "out": np.full(N, np.nan), name: array}
            with pytest.raises(BufferRefused) as caught:
                through(door, kernels.mixed, x=x, a=0.5, **given)
            text = str(caught.value)
            assert caught.type is BufferRefused
            assert re.match(rf"{re.escape(named(door, kernels.mixed))}: {role} '{name}': ", text), text
            assert why in text
            for plane, before in (("y", np.full(N, np.nan)), ("k", k), ("out", np.full(N, np.nan))):
                if plane != name:
                    same(given[plane], before)
    says.append("refused: BufferRefused")


def test_stream(lib: Library, says: list[str]) -> None:
    """Host memory takes no stream."""
    a, y = values(N), np.zeros(N)
    x = lib.new(a)
    plan = bound("bind", kernels.into, x=x, y=y, a=2.0)
    with pytest.raises(ValueError, match=r"^into\.launch: stream: found 1, wanted None on a host plan; "):
        plan.launch(stream=1)
    with pytest.raises(ValueError, match=r"^into\.launch: stream: found 2, wanted None on a host plan; "):
        plan.launch(2)
    with pytest.raises(ArgumentError, match=r"^into\.run: argument 'stream'"):
        deployed(kernels.into).run(x=x, y=y, a=2.0, stream=1)
    with pytest.raises(BufferRefused, match="stream: found 1, wanted None; a CPU buffer takes no stream"):
        import_buffer(x, stream=1)
    same(y, np.zeros(N))
    plan.launch(stream=None)
    plan.launch(None)
    same(y, a * 2)
    says.append("refused: ValueError, BufferRefused")


# ---- sample-major planes ---------------------------------------------------------------------------------------------


@each_door
def test_sample_major(lib: Library, door: str, says: list[str]) -> None:
    """(N, 3) goes in and out through copies, with a warning; a transpose of (3, N) is used in place without one."""
    v, x = values(3, N), values(3, N, seed=1)
    wanted = x + v * DT
    major = {"v": lib.new(np.ascontiguousarray(v.T)),
             "x": (lib if lib.writes else Library()).new(np.ascontiguousarray(x.T))}
    read = lib.read if lib.writes else np.array
    native = {"v": v, "x": x.copy()}
    for name in major:  # an error of the caller's choice comes before anything is copied
        with pytest.raises(LayoutWarning, match=f"'{name}'"):
            through(door, kernels.advance, dt=DT, **native | {name: major[name]})
        same(read(major["x"]), np.ascontiguousarray(x.T))
        same(native["x"], x)
    with pytest.warns(LayoutWarning) as caught:
        result = through(door, kernels.advance, dt=DT, **major)
    assert sorted(re.findall(r"(?:Vector|Mutable) '(\w)' of shape \((\d+), 3\)", str([str(w.message) for w in caught])
                             )) == [("v", str(N)), ("x", str(N))]
    same(read(major["x"]), np.ascontiguousarray(wanted.T))
    if door == "run":
        assert result is major["x"]
    elif door != "call":
        lib.write(major["v"], np.ascontiguousarray(-v.T))  # copied anew at each launch
        result.launch()
        same(read(major["x"]), np.ascontiguousarray((wanted - v * DT).T))
    if not lib.keeps_strides:
        says.append("copied, LayoutWarning")
        return
    turned = {"v": lib.new(v.T), "x": (lib if lib.writes else Library()).new(x.T)}
    places = lib.address(turned["v"]), read(turned["x"]).shape
    result = through(door, kernels.advance, dt=DT, **turned)  # any warning would be an error
    same(np.ascontiguousarray(read(turned["x"]).T), wanted)
    assert places == (lib.address(turned["v"]), (N, 3))
    if door == "run":
        assert result is turned["x"]
    elif door != "call":
        lib.write(turned["v"], -v.T)
        result.launch()
        same(np.ascontiguousarray(read(turned["x"]).T), wanted - v * DT)
    says.append("copied, LayoutWarning; transposes in place")


# ---- one sample ------------------------------------------------------------------------------------------------------


@each_door
def test_one_sample(lib: Library, door: str, says: list[str]) -> None:
    """One sample comes and goes without an axis for it, in the caller's library."""
    v, x = values(3), values(seed=1)
    wanted = {"moved": v * 0.75, "shifted": np.asarray(x + 0.75)}
    given = {"x": lib.new(np.asarray(x)), "v": lib.new(v), "a": 0.75} if not lib.ranks else {}
    if not lib.ranks and door in ("run", "call"):
        result = through(door, kernels.named, **given)
        for name, want in wanted.items():
            assert type(result[name]) is np.float64 if lib.one is np.float64 and name == "shifted" else \
                isinstance(result[name], lib.made)
            assert result[name].shape == want.shape
            same(np.asarray(result[name]), want)
        says.append(f"{result_type(lib, result['shifted'])} (), {result_type(lib, result['moved'])} (3,)")
    elif not lib.ranks:
        owner = lib if lib.writes else Library()
        out = {"moved": owner.new(np.full(3, np.nan)), "shifted": owner.new(np.full((), np.nan))}
        plan = through(door, kernels.named, **given, **out)
        assert plan.n == 1
        for name, want in wanted.items():
            same(owner.read(out[name]), want)
        lib.write(given["x"], np.asarray(-x))
        plan.launch()
        same(owner.read(out["shifted"]), np.asarray(-x + 0.75))
        says.append("in place" if lib.writes else "zero-copy")
    else:  # arrays of one axis and more
        state = lib.new(v)
        result = through(door, kernels.advance, v=lib.new(v * 2), dt=DT, x=state)
        assert result is state or door != "run"
        same(lib.read(state), v + v * 2 * DT)
        says.append("in place, vectors only")
