# SPDX-License-Identifier: Apache-2.0
"""What a backend's plug-in hands to eagle."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pluggy

__all__ = ["ENTRY_POINT_GROUP", "HOST_DEVICE_TYPES", "BackendSpec", "Hooks", "check_kind", "hookimpl", "library_name"]

ENTRY_POINT_GROUP = "eagle.backends"
HOST_DEVICE_TYPES = frozenset({1, 3})  # DLPack: host memory, page-locked host memory

hookimpl = pluggy.HookimplMarker("eagle")


def check_kind(kind: str) -> str:
    """``kind`` itself; ValueError unless it can name a backend: a lower-case identifier of at most 15 characters."""
    if not isinstance(kind, str):
        raise TypeError(f"a backend's kind is text, found {type(kind).__name__}")
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,14}", kind):
        raise ValueError(f"found backend kind {kind!r}, wanted a lower-case identifier of at most 15 characters")
    return kind


def library_name(kind: str) -> str:
    """The file name of a kind's library on this platform."""
    ending = {"darwin": "dylib", "win32": "dll"}.get(sys.platform, "so")
    return f"libeagle_{check_kind(kind)}.{ending}"


@dataclass(frozen=True)
class BackendSpec:
    """A backend, as plain data. Raises TypeError or ValueError for a field that is not what it says.

    kind: the execution model, a lower-case identifier. library: the file to load. device_types: the DLPack device
    types it serves. formats: the artifact formats it runs. array_module: the module whose arrays live on its device.
    """

    kind: str
    library: Path
    device_types: tuple[int, ...]
    formats: tuple[str, ...] = ()
    array_module: str = ""

    def __post_init__(self) -> None:
        check_kind(self.kind)
        object.__setattr__(self, "library", Path(self.library))
        for name, item in (("device_types", int), ("formats", str)):
            value = tuple(getattr(self, name))
            if not all(isinstance(one, item) for one in value):
                raise TypeError(f"BackendSpec: {name}: found {value!r}, wanted a tuple of {item.__name__}")
            object.__setattr__(self, name, value)

    @property
    def is_gpu(self) -> bool:
        """Whether it serves other than host memory."""
        return HOST_DEVICE_TYPES.isdisjoint(self.device_types)


class Hooks:
    """The hooks of pluggy project ``eagle``."""

    @pluggy.HookspecMarker("eagle")(firstresult=True)
    def eagle_backend(self) -> BackendSpec:
        """Describes the backend: no side effects, nothing loaded."""
        raise NotImplementedError
