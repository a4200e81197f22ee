# SPDX-License-Identifier: Apache-2.0
"""Libraries whose arrays the doors take, one way to make, read and write an array of each. Loading one skips the test
where it is not installed."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Any

import numpy as np
import producers
import pytest

from eagle.interop import BufferView, import_buffer

Array = np.ndarray[Any, Any]
CODES = {"f": 2, "i": 0, "u": 1, "b": 6}  # element types of DLPack


class Library:
    """NumPy, and what other libraries do as it does."""

    name = "numpy"
    label = "NumPy"
    distribution: str | None = "numpy"
    writes = True  # whether its arrays may be written
    ranks = 0  # the fewest axes of an array
    keeps_strides = True  # whether a transpose is a view
    shares = True  # whether its arrays may be over the memory of NumPy's
    kind: type = np.ndarray  # of its arrays
    made: type = np.ndarray  # of what run makes for a caller who gives such arrays
    one: type = np.float64  # the same of one sample of a scalar

    def around(self) -> Any:
        """A context in which its arrays are made."""
        return contextlib.nullcontext()

    def over(self, a: Array) -> Any:
        """An array over the memory of `a`, strides and all."""
        return a[...]

    def new(self, a: Array) -> Any:
        """An array of its own memory with the values of `a`."""
        return self.over(np.array(a, order="K", copy=True))

    def read(self, x: Any) -> Array:
        """The values, by the library's own means."""
        return np.array(x)

    def write(self, x: Any, values: Array) -> None:
        """Sets every element on the library's side."""
        x[...] = values

    def address(self, x: Any) -> int:
        """Where the elements are, as the library says."""
        return int(x.ctypes.data)

    def read_only(self, a: Array) -> Any:
        """An array with the values of `a` that nobody may write; None where the library has no such arrays."""
        x = a.copy()
        x.flags.writeable = False
        return x

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        """Arrays a kernel may not write, and what their refusal says of them."""
        return [(self.read_only(a), "found a read-only array, wanted a writable array")]

    def type_of(self, x: Any) -> str:
        """The name of an array's type, as its users know it."""
        return f"numpy.{type(x).__name__}"

    def __repr__(self) -> str:
        return self.name


class Torch(Library):
    name, label, distribution = "torch", "PyTorch", "torch"

    def __init__(self) -> None:
        self.torch = pytest.importorskip("torch", reason="framework-missing: torch")
        self.kind = self.made = self.one = self.torch.Tensor

    def over(self, a: Array) -> Any:
        return self.torch.from_numpy(a)

    def read(self, x: Any) -> Array:
        return np.array(x.detach().numpy())

    def write(self, x: Any, values: Array) -> None:
        x.copy_(self.torch.from_numpy(values))

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def read_only(self, a: Array) -> Any:
        return None

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        follows = self.torch.from_numpy(a.copy()).requires_grad_()
        shared = self.torch.from_numpy(a.copy())[:1].expand(a.shape)
        return [(follows, "found a torch.Tensor that requires grad, wanted one that autograd does not follow"),
                (shared, "required read-write, got read-write, but elements share memory")]

    def type_of(self, x: Any) -> str:
        return f"torch.{type(x).__name__}"


class Jax(Library):
    name, label, distribution = "jax", "JAX", "jax"
    writes = keeps_strides = shares = False

    def __init__(self) -> None:
        self.jax = pytest.importorskip("jax", reason="framework-missing: jax")
        self.jnp = pytest.importorskip("jax.numpy", reason="framework-missing: jax")
        self.kind = self.made = self.one = self.jax.Array

    def around(self) -> Any:
        return self.jax.enable_x64(True)

    def over(self, a: Array) -> Any:
        pytest.fail("jax shares no memory of others: ask Library.shares first")

    def new(self, a: Array) -> Any:
        return self.jnp.array(a, copy=True)

    def write(self, x: Any, values: Array) -> None:
        """By its address: whoever reads the memory of `x` sees it, which no program of jax does."""
        where = (ctypes.c_char * values.nbytes).from_address(x.unsafe_buffer_pointer())
        where[:] = np.ascontiguousarray(values).tobytes()

    def address(self, x: Any) -> int:
        return int(x.unsafe_buffer_pointer())

    def read_only(self, a: Array) -> Any:
        return self.new(a)

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        return [(self.new(a), "found an array of jax, which never changes, wanted a writable array")]

    def type_of(self, x: Any) -> str:
        return "jax.Array"


class Unflagged(Library):
    """A library without arrays that are flagged read-only."""

    def read_only(self, a: Array) -> Any:
        return None

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        shared = self.over(np.lib.stride_tricks.as_strided(a.copy(), a.shape, (0,) * a.ndim))
        return [(shared, "required read-write, got read-write, but elements share memory")]


class Warp(Unflagged):
    name, label, distribution = "warp", "NVIDIA Warp", "warp-lang"
    ranks = 1

    def __init__(self) -> None:
        self.warp = pytest.importorskip("warp", reason="framework-missing: warp")
        self.warp.config.quiet = True
        self.kind = self.warp.array

    def over(self, a: Array) -> Any:
        x = self.warp.array(ptr=a.ctypes.data, shape=a.shape, strides=a.strides, device="cpu",
                            dtype=getattr(self.warp, a.dtype.name))
        x.memory = a  # keeps it
        return x

    def read(self, x: Any) -> Array:
        return np.array(x.numpy())

    def write(self, x: Any, values: Array) -> None:
        x.assign(values)

    def address(self, x: Any) -> int:
        return int(x.ptr)

    def type_of(self, x: Any) -> str:
        return "warp.array"


class TvmFfi(Unflagged):
    name, label, distribution = "tvm_ffi", "tvm-ffi", "apache-tvm-ffi"

    def __init__(self) -> None:
        self.ffi = pytest.importorskip("tvm_ffi", reason="framework-missing: tvm_ffi")
        self.kind = self.ffi.Tensor

    def over(self, a: Array) -> Any:
        return self.ffi.from_dlpack(a)

    def read(self, x: Any) -> Array:
        return np.array(np.from_dlpack(x))

    def write(self, x: Any, values: Array) -> None:
        np.from_dlpack(x)[...] = values

    def address(self, x: Any) -> int:
        return int(x.data_ptr())

    def type_of(self, x: Any) -> str:
        return "tvm_ffi.Tensor"


class View(Library):
    name, label, distribution = "view", "`eagle.BufferView`", None
    kind = BufferView

    def over(self, a: Array) -> Any:
        return import_buffer(a)

    def read(self, x: Any) -> Array:
        return np.array(np.asarray(x))

    def write(self, x: Any, values: Array) -> None:
        np.asarray(x)[...] = values

    def address(self, x: Any) -> int:
        return int(x.ptr)

    def read_only(self, a: Array) -> Any:
        return import_buffer(super().read_only(a))

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        return [(self.read_only(a), "required read-write, got read-only"),
                (import_buffer(producers.OldProducer(a.copy())), "required read-write, got unknown")]

    def type_of(self, x: Any) -> str:
        return "eagle.BufferView"


class Producers(Library):
    """Objects in plain Python with ``__dlpack__``, as of version 1.0."""

    name, label, distribution = "producer", "any `__dlpack__`, 1.0", None
    kind: type = producers.Producer

    def over(self, a: Array, **facts: Any) -> Any:
        return self.kind(a, dtype=(CODES[a.dtype.kind], a.dtype.itemsize * 8, 1), **facts)

    def read(self, x: Any) -> Array:
        return np.array(x.keeps)

    def write(self, x: Any, values: Array) -> None:
        x.keeps[...] = values

    def address(self, x: Any) -> int:
        return int(x.keeps.ctypes.data)

    def read_only(self, a: Array) -> Any:
        return self.over(a.copy(), flags=producers.READ_ONLY)

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        return [(self.read_only(a), "required read-write, got read-only")]

    def type_of(self, x: Any) -> str:
        return "the object"


class OldProducers(Producers):
    """The same as of before 1.0: nobody knows whether they may be written."""

    name, label = "old producer", "any `__dlpack__`, before 1.0"
    writes = False
    kind = producers.OldProducer

    def read_only(self, a: Array) -> Any:
        return self.over(a.copy())

    def unwritable(self, a: Array) -> list[tuple[Any, str]]:
        return [(self.over(a.copy()), "required read-write, got unknown")]


KINDS: dict[str, Callable[[], Library]] = {
    kind.name: kind for kind in (Library, Torch, Jax, Warp, TvmFfi, View, Producers, OldProducers)}


@functools.cache
def library(name: str) -> Library:
    """The library; skips the test where it is not installed."""
    return KINDS[name]()


def installed() -> Iterator[Library]:
    """All that are here."""
    for name in KINDS:
        with contextlib.suppress(pytest.skip.Exception):
            yield library(name)


def version(name: str) -> str | None:
    """The version of a library; None for what is no distribution of its own."""
    distribution = KINDS[name].distribution  # type: ignore[attr-defined]
    return metadata.version(distribution) if distribution else None
