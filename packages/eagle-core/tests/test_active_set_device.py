# SPDX-License-Identifier: Apache-2.0
"""ActiveSet over arrays of CuPy: which backend serves them, and that nothing is asked of NumPy.

A stand-in for CuPy keeps its arrays in host memory, so that the backend of the host can serve device type 2.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

import eagle
from eagle import backends


class Cupy:
    """An array that is none of NumPy."""

    __module__ = "cupy"

    def __init__(self, host: Any, device: int = 0) -> None:
        self.host, self.shape, self.dtype, self.device = host, host.shape, host.dtype, device

    shape = dtype = None  # what types of arrays have

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.host.__array_interface__, version=3)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self.host, name)
        return (lambda *args: Cupy(value(*map(unwrap, args)))) if callable(value) else value

    def __getitem__(self, key: Any) -> Any:
        found = self.host[unwrap(key)]
        return Cupy(found) if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[unwrap(key)] = unwrap(value)

    def __iter__(self) -> Any:
        return map(Cupy, self.host)

    def __mul__(self, other: Any) -> Any:
        return Cupy(self.host * other)


def unwrap(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(unwrap, value))
    return value.host if isinstance(value, Cupy) else value


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module cupy, and a host backend that claims its device."""
    module = types.ModuleType("cupy")
    for name in ("int32", "uint32", "uint8", "bool_"):
        setattr(module, name, getattr(np, name))
    for name in ("arange", "zeros", "empty", "take", "all"):
        def call(*args: Any, _name: str = name, **kw: Any) -> Cupy:
            return Cupy(getattr(np, _name)(*map(unwrap, args), **{key: unwrap(value) for key, value in kw.items()}))
        setattr(module, name, call)
    monkeypatch.setitem(sys.modules, "cupy", module)
    asked: list[int] = []
    host = backends.for_device_type(1)
    monkeypatch.setattr(backends, "for_device_type", lambda code: (asked.append(code), host)[1])
    module.asked = asked  # type: ignore[attr-defined]
    return module


def test_arrays_of_a_device_go_to_the_kind_that_serves_it(cupy: Any) -> None:
    n = 5000
    finished = np.random.default_rng(0).random(n) < 0.8
    mask, numbers = Cupy(np.zeros(n, bool)), Cupy(np.arange(n))
    active = eagle.ActiveSet(mask, reorder=0.5).own(numbers)
    assert (cupy.asked, repr(active)) == ([2], "ActiveSet(n=5000, device 0, reorder=0.5)")
    mask[:] = finished
    active.compact()
    np.testing.assert_array_equal(active.map.host[:active.live], np.flatnonzero(~finished))
    active.reorder()
    assert (active.permuted, int(active.reorders[0])) == (True, 1)
    np.testing.assert_array_equal(numbers.host, np.argsort(finished, kind="stable"))
    np.testing.assert_array_equal(active.in_sample_order(numbers).host, np.arange(n))
    active.restore()
    np.testing.assert_array_equal(numbers.host, np.arange(n))


def test_sides_are_not_mixed(cupy: Any) -> None:
    active = eagle.ActiveSet(Cupy(np.zeros(100, bool)), reorder=0.5)
    with pytest.raises(TypeError, match=r"own: plane 0: found an array on DLPack device \(1, 0\), wanted \(2, 0\)"):
        active.own(np.zeros(100))
    with pytest.raises(TypeError, match=r"own: plane 0: found an array on DLPack device \(2, 1\), wanted \(2, 0\)"):
        active.own(Cupy(np.zeros(100), device=1))
    with pytest.raises(TypeError, match=r"class_plane: found an array on DLPack device \(1, 0\), wanted \(2, 0\)"):
        eagle.ActiveSet(Cupy(np.zeros(100, bool)), reorder=0.5, classes=2, class_plane=np.zeros(100, np.uint8))
    with pytest.raises(ValueError, match="when_finished: finished: found"):
        active.when_finished(np.zeros(1, np.uint32))


def test_groups_of_a_device(cupy: Any) -> None:
    finished = np.array([1, 1, 1, 0, 0, 1, 1, 1], bool)
    active = eagle.ActiveSet(Cupy(finished), group=3)
    active.compact()
    assert active.live == 3
    assert active.map.host[0] == 1


def test_a_backend_without_the_group_is_named(make_library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from eagle import _core

    bare = _core.Backend("fake", str(make_library()).encode())
    monkeypatch.setattr(backends, "load", lambda kind: bare)
    with pytest.raises(eagle.BackendUnavailable, match="does not provide filtering$"):
        eagle.ActiveSet(np.zeros(10, bool))
