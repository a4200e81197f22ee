# SPDX-License-Identifier: Apache-2.0
"""Which framework an array belongs to, and how results get back to it. No framework is imported before an array of it
was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from eagle.errors import BufferRefused, refusal
from eagle.interop.buffer import import_buffer
from eagle.interop.held import refuse_permuted
from eagle.interop.streams import CUDA, cupy_module, external_stream

__all__ = ["Adapter", "detect", "is_followed", "origin", "origin_adapter", "refuse_jax_written", "to_cupy"]

# The top module of a type to its framework's name.
FRAMEWORKS = {"cupy": "cupy", "torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow"}
ORIGINS = ("torch", "jax", "tensorflow")  # results go back to them, whatever else is among the arguments


@dataclass(frozen=True)
class Adapter:
    """How arrays of one framework come and go. `cuda`: on a CUDA device. `blocking`: its results are awaited."""

    name: str
    cuda: bool

    @property
    def blocking(self) -> bool:
        return self.name in ("numpy", "jax", "tensorflow") or not self.cuda

    def launch_context(self) -> AbstractContextManager[Any]:
        """What launches for these arrays run in: torch's current stream, for its CUDA tensors."""
        if self.name == "torch" and self.cuda:
            stream: AbstractContextManager[Any] = external_stream(import_module("torch").cuda.current_stream())
            return stream
        return nullcontext()

    def to_cupy(self, x: Any) -> Any:
        """`x` as an array of CuPy: zero-copy from CUDA memory, else uploaded."""
        refuse_permuted("Adapter.to_cupy", "x", x)
        cupy = cupy_module("Adapter.to_cupy")
        if self.name in ("cupy", "cai"):
            return cupy.asarray(x)
        if self.cuda:
            return cupy.from_dlpack(x.detach() if self.name == "torch" else x)
        return cupy.asarray(x if self.name == "numpy" else np.asarray(import_buffer(x)))

    def from_cupy(self, a: Any) -> Any:
        """An array of CuPy as one of this framework: zero-copy on the device, else downloaded."""
        refuse_permuted("Adapter.from_cupy", "a", a)
        if self.cuda and self.name in ORIGINS:
            return on_device(self.name, a)
        return a if self.cuda else self.from_numpy(cupy_module("Adapter.from_cupy").asnumpy(a))

    def from_numpy(self, a: np.ndarray[Any, Any]) -> Any:
        """An array of NumPy, which nobody else uses from now on, as one of this framework."""
        refuse_permuted("Adapter.from_numpy", "a", a)
        if self.name == "tensorflow":
            return import_module("tensorflow").convert_to_tensor(a)
        if self.name == "torch":
            tensor = import_module("torch").from_numpy(a)
            return tensor.cuda() if self.cuda else tensor
        if self.name == "jax":
            with import_module("jax").enable_x64(True):  # or float64 would lose bits
                return import_module("jax.numpy").array(a, copy=True)
        return cupy_module("Adapter.from_numpy").asarray(a) if self.cuda else a


def on_device(framework: str, a: Any) -> Any:
    """An array of CuPy as one of a framework, of the same memory."""
    if framework == "tensorflow":
        return import_module("tensorflow").experimental.dlpack.from_dlpack(a.__dlpack__())
    if framework == "jax":
        with import_module("jax").enable_x64(True):
            return import_module("jax.numpy").from_dlpack(a)
    return import_module(framework).from_dlpack(a)


def detect(x: object) -> Adapter | None:
    """The adapter of an array; None for what is none. Never raises, imports nothing."""
    if isinstance(x, np.ndarray | np.generic):
        return Adapter("numpy", False)
    kind = type(x)
    if isinstance(x, type):
        return None
    if (name := framework_of(kind)) is not None:
        return Adapter(name, name == "cupy" or on_cuda(x))
    if has(x, "__dlpack__") and has(x, "__dlpack_device__"):
        return Adapter("dlpack", on_cuda(x))
    return Adapter("cai", True) if has(x, "__cuda_array_interface__") else None


@lru_cache(maxsize=64)
def host_adapter(kind: type) -> Adapter:
    """The adapter for arrays of a type that are in host memory."""
    return Adapter(framework_of(kind) or "numpy", False)


def framework_of(kind: type) -> str | None:
    """The framework that a type of arrays, or one of its bases, is of."""
    for base in kind.__mro__:
        top = str(getattr(base, "__module__", "")).partition(".")[0]
        if top in FRAMEWORKS and hasattr(kind, "shape") and hasattr(kind, "dtype"):
            return FRAMEWORKS[top]
    return None


def has(x: object, name: str) -> bool:
    """hasattr() of an object whose attributes may raise anything."""
    try:
        return hasattr(x, name)
    except Exception:  # noqa: BLE001  a foreign property
        return False


def on_cuda(x: Any) -> bool:
    """Whether an array is on a CUDA device; False where it cannot say."""
    probes: tuple[Callable[[], bool], ...] = (
        lambda: int(x.__dlpack_device__()[0]) == CUDA, lambda: bool(x.is_cuda),
        lambda: any(word in str(x.device).lower() for word in ("cuda", "gpu")))
    for probe in probes:
        try:
            return probe()
        except Exception:  # noqa: BLE001  a foreign property
            continue
    return False


def origin_adapter(candidates: Iterable[object]) -> Adapter:
    """Where results go: the framework among the candidates, else the first of CUDA, else NumPy.

    Raises TypeError naming both where arrays of two frameworks are among them.
    """
    return origin("eagle.origin_adapter", {f"candidate {i}": value for i, value in enumerate(candidates)})


def origin(door: str, arguments: Mapping[str, object]) -> Adapter:
    """:func:`origin_adapter` of the arguments of another door, which its refusal then names."""
    found = {name: adapter for name, value in arguments.items() if (adapter := detect(value)) is not None}
    origins = {name: adapter for name, adapter in found.items() if adapter.name in ORIGINS}
    for name, other in origins.items():
        first, adapter = next(iter(origins.items()))
        if other.name != adapter.name:
            raise TypeError(refusal(door, f"{first!r} and {name!r}", f"arrays of {adapter.name} and of {other.name}",
                                    "arrays of one framework", "convert one of them"))
    devices = [adapter for adapter in found.values() if adapter.cuda]
    return next(iter(origins.values()), None) or next(iter(devices), None) or Adapter("numpy", False)


def is_followed(x: Any) -> bool:
    """Whether autograd follows a tensor. Never raises."""
    try:
        return not isinstance(x, np.ndarray | int | float | np.generic) and x.requires_grad is True
    except Exception:  # noqa: BLE001  a foreign object's attributes may raise anything
        return False


def to_cupy(x: Any) -> Any:
    """`x` as an array of CuPy: zero-copy from CUDA memory, uploaded from the host; what is no array is handed to CuPy.

    Raises BackendUnavailable without CuPy.
    """
    adapter = detect(x)
    if adapter is None:
        return cupy_module("eagle.to_cupy").asarray(x)
    refuse_permuted("eagle.to_cupy", "x", x)
    return adapter.to_cupy(x)


def refuse_jax_written(x: object, role: str) -> None:
    """Raises BufferRefused, naming the role, for an array of jax: they never change."""
    adapter = detect(x)
    if adapter is not None and adapter.name == "jax":
        raise BufferRefused(refusal("eagle.interop.refuse_jax_written", role, "an array of jax, which never changes",
                                    "a writable array", "pass a NumPy array, or leave it out and use the result"))
