# SPDX-License-Identifier: Apache-2.0
"""A registry of kernels by name, and manifests of kernels that a pattern's loader launches."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from eagle import backends, roles
from eagle.errors import REBUILD, BackendUnavailable, refusal, shown
from eagle.sidecar.files import as_path, read_json
from eagle.sidecar.validate import Entry, check_blocks, check_head, manifest_entries, manifest_of

__all__ = ["ENTRY_POINTS", "KernelRegistry", "PatternLoader", "UnknownPatternError", "load_manifest",
           "register_pattern_loader"]

DOOR = "eagle.registry.load_manifest"
ENTRY_POINTS = "raptor.pattern_loaders"

#: Loads a checked manifest, given the document, its path and its folder; :func:`load_manifest` returns its answer.
PatternLoader = Callable[[dict[str, Any], Path, Path], Any]


class UnknownPatternError(KeyError):
    """No loader is registered for a manifest's pattern."""

    def __str__(self) -> str:
        return str(self.args[0])


class KernelRegistry(Mapping[str, Any]):
    """Kernels by name, in the order they were registered. `kernels` are registered first: a mapping by its names, other
    iterables by each kernel's ``__name__``.
    """

    def __init__(self, kernels: Mapping[str, Any] | Iterable[Any] | None = None) -> None:
        self._kernels: dict[str, Any] = {}
        pairs = kernels.items() if isinstance(kernels, Mapping) else ((None, kernel) for kernel in kernels or ())
        for name, kernel in pairs:
            self.register(kernel, name)

    def register(self, kernel: Any, name: str | None = None) -> str:
        """Add `kernel` under `name`, or its ``__name__``, and return that. Raises ValueError for a name that is taken
        and for a kernel that has none.
        """
        door = "KernelRegistry.register"
        key = name if name is not None else getattr(kernel, "__name__", None)
        if not isinstance(key, str) or not key:
            raise ValueError(refusal(door, "name", f"{shown(key)} for a {type(kernel).__name__}", "a text",
                                     "pass name="))
        if key in self._kernels:
            raise ValueError(refusal(door, "name", f"{shown(key)} twice", "each name once",
                                     "register it under another name"))
        self._kernels[key] = kernel
        return key

    def __getitem__(self, name: str) -> Any:
        try:
            return self._kernels[name]
        except (KeyError, TypeError):
            raise KeyError(refusal("KernelRegistry", f"kernel {shown(name)}", "no such name",
                                   f"one of {self.names()}", "register it first")) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def names(self) -> list[str]:
        """Every name, in the order of registration."""
        return list(self._kernels)

    def __repr__(self) -> str:
        return f"KernelRegistry({self.names()})"


_loaders: dict[str, PatternLoader] = {}
_scanned = False
_lock = threading.Lock()


def register_pattern_loader(pattern: str, loader: PatternLoader) -> None:
    """Let :func:`load_manifest` load manifests of `pattern` with ``loader(manifest, path, directory)``.

    Registering a pattern again replaces its loader. Raises TypeError for a pattern that is no text and a loader that
    cannot be called.
    """
    door = "eagle.registry.register_pattern_loader"
    if not isinstance(pattern, str) or not pattern:
        raise TypeError(refusal(door, "pattern", shown(pattern), "a text", "name a pattern"))
    if not callable(loader):
        raise TypeError(refusal(door, "loader", shown(loader), "a function of (manifest, path, directory)",
                                "pass a function"))
    with _lock:
        _loaders[pattern] = loader


def load_manifest(path: str | os.PathLike[str]) -> Any:
    """What the loader of a manifest's pattern makes of it: a :class:`KernelRegistry` for kernels.

    `path` is a manifest or its folder. The loader is one that was registered, else one of the entry points of group
    ``raptor.pattern_loaders``. Checked first: the JSON, the schema version, the execution axis, the ABI, the pattern,
    ``blocks``, ids, paths and formats.

    Raises UnknownPatternError when there is no loader, ValueError naming the file and the key for anything malformed
    and for host entries (:func:`eagle.load_bundle` loads those), FileNotFoundError, TypeError for what is no path, and
    BackendUnavailable for kernels that nothing installed launches.
    """
    manifest = manifest_of(as_path(DOOR, "path", path))
    document = read_json(DOOR, manifest)
    check_head(DOOR, str(manifest), document, kind="manifest")
    pattern = document.get("pattern") or "pure"
    if not isinstance(pattern, str):
        raise ValueError(refusal(DOOR, f"{manifest}, key 'pattern'", shown(pattern), "a text", REBUILD))
    loader = _loader_of(pattern)
    if loader is None and pattern not in roles.LAUNCH_CERTIFIED_PATTERNS:
        raise UnknownPatternError(refusal(DOOR, f"{manifest}, key 'pattern'", f"{shown(pattern)}, without a loader",
                                          f"one of {sorted({*roles.LAUNCH_CERTIFIED_PATTERNS, *_loaders})}",
                                          "install what loads it, or call register_pattern_loader"))
    check_blocks(DOOR, manifest, document)
    entries = manifest_entries(DOOR, manifest, document)
    for entry in entries:
        if entry.format == "host":
            raise ValueError(refusal(DOOR, f"{manifest}, entry {shown(entry.id)}", "a host object", "device objects",
                                     "load it with eagle.load_bundle"))
    if loader is not None:
        return loader(document, manifest, manifest.parent)
    return KernelRegistry() if not entries else _refuse(entries[0])


def _loader_of(pattern: str) -> PatternLoader | None:
    """The loader of a pattern; the entry points are read once, when a pattern is not registered."""
    global _scanned
    with _lock:
        if pattern not in _loaders and not _scanned:
            for point in metadata.entry_points(group=ENTRY_POINTS):
                if point.name not in _loaders:
                    _loaders[point.name] = _late(point)
            _scanned = True
        return _loaders.get(pattern)


def _late(point: metadata.EntryPoint) -> PatternLoader:
    """The loader behind an entry point, imported when it is first called."""
    def load(manifest: dict[str, Any], path: Path, directory: Path) -> Any:
        return point.load()(manifest, path, directory)

    return load


def _refuse(entry: Entry) -> NoReturn:
    kind = backends.for_format(entry.format)
    raise BackendUnavailable(refusal(DOOR, f"entry {shown(entry.id)}", f"a {entry.format} object for {kind}",
                                     "an object this version launches",
                                     'build it with targets=("host",) and load it with eagle.load_bundle'))


def forget() -> None:
    """Drops every loader; for tests."""
    global _scanned
    with _lock:
        _loaders.clear()
        _scanned = False


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
