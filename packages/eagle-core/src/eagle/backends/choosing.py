# SPDX-License-Identifier: Apache-2.0
"""Which kind serves a DLPack device type, an artifact format, or the word a user wrote as ``backend=``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eagle import _core
from eagle.backends import discovery, loading
from eagle.backends.once import Once
from eagle.backends.spec import HOST_DEVICE_TYPES, BackendSpec, check_kind
from eagle.errors import BackendUnavailable, refusal

__all__ = ["HOST_MEMORY", "for_device_type", "for_format", "forget", "gpus", "host", "resolve"]

HOST_MEMORY = 1  # DLPack device type


@dataclass(frozen=True)
class _Survey:
    """The specs of every usable kind, and why the others are not."""

    specs: tuple[BackendSpec, ...]
    unusable: tuple[str, ...]

    def one(self, claims: Callable[[BackendSpec], bool], what: str, fix: str) -> str:
        """The one kind whose spec claims `what`. Raises BackendUnavailable for none, with the fix, and for several."""
        kinds = [spec.kind for spec in self.specs if claims(spec)]
        if len(kinds) == 1:
            return kinds[0]
        if kinds:
            raise BackendUnavailable(f"eagle: {what}: found {len(kinds)} backends that claim it, {', '.join(kinds)}, "
                                     "wanted one; uninstall all but one")
        installed = ", ".join(f"{spec.kind} (device types {', '.join(map(str, spec.device_types))})"
                              for spec in self.specs) or "none"
        message = f"eagle: {what}: found no backend that serves it, wanted one; installed: {installed}; {fix}"
        raise BackendUnavailable("\n".join((message, *self.unusable)))


def _survey() -> _Survey:
    specs, unusable = [], []
    for kind in discovery.kinds():
        try:
            specs.append(loading.spec(kind))
        except BackendUnavailable as why:
            unusable.append(str(why))
    return _Survey(tuple(specs), tuple(unusable))


def _serving_device(code: int) -> str:
    host = code in HOST_DEVICE_TYPES
    return _survey_once().one(lambda spec: code in spec.device_types,
                              f"host memory (DLPack device type {code})" if host else f"DLPack device type {code}",
                              "pip install eagle-backend-cpu" if host else "install the backend of that device")


def _with_device() -> tuple[str, ...]:
    return tuple(spec.kind for spec in _survey_once().specs if spec.is_gpu and _has_device(spec.kind))


def _has_device(kind: str) -> bool:
    try:
        loading.load(kind).probe()
    except (RuntimeError, ValueError, IndexError):  # BackendUnavailable is one of them
        return False
    return True


_survey_once = Once(_survey)
_gpus_once = Once(_with_device)
_device_once = Once(_serving_device)


def for_device_type(code: int) -> str:
    """The kind that serves a DLPack device type.

    Raises BackendUnavailable: none does (the message says what to install), or two claim it (it names both).
    """
    return _device_once(code)


def host() -> _core.Backend:
    """The loaded backend of host memory. Raises BackendUnavailable saying what to install."""
    return loading.load(for_device_type(HOST_MEMORY))


def for_format(fmt: str) -> str:
    """The kind that runs artifacts of a format. Raises BackendUnavailable: none does, or two claim it."""
    return _survey_once().one(lambda spec: fmt in spec.formats, f"artifact format {fmt!r}",
                              "install the backend that runs it")


def resolve(name: str, door: str = "eagle", argument: str = "backend") -> str:
    """The kind meant by ``backend=name``: a discovered kind, or "gpu" for the one that serves no host memory.
    `door` and `argument` are who asks.

    Raises BackendUnavailable when there is none, ValueError for a name no kind can have or when "gpu" is ambiguous.
    """
    if name != "gpu":
        if check_kind(name) in discovery.kinds():
            return name
        raise BackendUnavailable(refusal(door, f"{argument}={name!r}", ", ".join(discovery.kinds()) or "no backend",
                                         "an installed backend", f"pip install eagle-backend-{name}"))
    survey = _survey_once()
    found = [spec.kind for spec in survey.specs if spec.is_gpu]
    if len(found) > 1:
        raise ValueError(refusal(door, f"{argument}='gpu'", f"{', '.join(found)} installed", "one GPU kind",
                                 f"name it: {argument}={found[0]!r}"))
    return survey.one(lambda spec: spec.is_gpu, "backend='gpu'",
                      "install the backend of your GPU, such as eagle-backend-cuda")


def gpus() -> tuple[str, ...]:
    """The GPU kinds that have a usable device, found out once. Loads every GPU kind; never raises for what it does."""
    return _gpus_once()


def forget() -> None:
    """Drops every cache of this package; for tests."""
    _survey_once.forget()
    _gpus_once.forget()
    _device_once.forget()
    loading.forget()
