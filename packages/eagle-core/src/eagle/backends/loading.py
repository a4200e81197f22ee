# SPDX-License-Identifier: Apache-2.0
"""Loading a kind's library: once per process, and a failure tells every place that was tried."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from eagle import _core
from eagle.backends import discovery
from eagle.backends.once import Once
from eagle.backends.spec import BackendSpec, check_kind
from eagle.errors import BackendUnavailable, refusal, shown

__all__ = ["Attempt", "attempt", "forget", "has", "info", "load", "spec"]


@dataclass(frozen=True)
class Attempt:
    """What became of loading a kind: the backend, or the whole story of why there is none."""

    backend: _core.Backend | None
    path: str = ""
    error: str = ""
    cause: BaseException | None = None


@dataclass(frozen=True)
class _Place:
    label: str
    file: str | Path | None
    error: str = ""
    cause: BaseException | None = None


def _places(kind: str) -> Iterator[_Place]:
    """Where the library may be, in order; the environment's word is final."""
    if named := discovery.named_file(kind):
        yield _Place(f"${discovery.variable(kind)}", named)
        return
    plugin = discovery.plugin(kind)
    if plugin.spec is not None:
        yield _Place(str(plugin.claims[0]), plugin.spec.library)
    else:
        yield _Place("entry points", None, plugin.error, plugin.cause)
    yield _Place("beside the package", discovery.beside(kind))


def _open(kind: str, place: _Place) -> _core.Backend:
    if place.file is None:
        raise BackendUnavailable(place.error)
    file = os.path.abspath(place.file)
    if not os.path.exists(file):
        raise BackendUnavailable(f"{file}: no such file")
    if not os.path.isfile(file):
        raise BackendUnavailable(f"{file}: no regular file")
    return _core.Backend(kind, os.fsencode(file))


def _attempt(kind: str) -> Attempt:
    try:
        check_kind(kind)
    except (TypeError, ValueError) as bad:
        return Attempt(None, error=f"eagle: {bad}", cause=bad)
    tried: list[str] = []
    cause: BaseException | None = None
    path = ""
    for place in _places(kind):
        try:
            backend = _open(kind, place)
            return Attempt(backend, backend.path)
        except (BackendUnavailable, OSError, ValueError) as refused:
            tried.append(f"  {place.label}: {refused}")
            cause = cause or place.cause or refused
            path = path or str(place.file or "")
    known = kind in discovery.claims() or discovery.named_file(kind)
    fix = "`eagle doctor` shows every backend" if known else f"install it: pip install eagle-backend-{kind}"
    story = "\n".join((f"eagle: backend {kind!r}: found no library that loads; tried", *tried, fix))
    return Attempt(None, path, story, cause)


attempt = Once(_attempt)


def load(kind: str) -> _core.Backend:
    """The loaded backend of a kind.

    Raises BackendUnavailable with every place tried and why; the outcome, good or bad, stands for the process.
    ValueError for a name no kind can have.
    """
    outcome = attempt(check_kind(kind))
    if outcome.backend is None:
        raise BackendUnavailable(outcome.error) from outcome.cause
    return outcome.backend


def spec(kind: str) -> BackendSpec:
    """A kind's spec: its plug-in's, else what the library itself tells. Raises BackendUnavailable."""
    plugin, named = discovery.plugin(kind), discovery.named_file(kind)
    if plugin.spec is not None:
        return replace(plugin.spec, library=Path(named)) if named else plugin.spec
    outcome = attempt(kind)  # a name no kind can have is one kind that is unusable, not an error of the caller
    if outcome.backend is None:
        raise BackendUnavailable(outcome.error) from outcome.cause
    return BackendSpec(kind, Path(outcome.backend.path), outcome.backend.device_types)


def has(symbol: str, kind: str) -> bool:
    """Whether a kind's backend may be asked for a seam symbol; False when it cannot be loaded. Never raises."""
    backend = attempt(kind).backend if isinstance(kind, str) and isinstance(symbol, str) else None
    return backend is not None and backend.has(symbol.removeprefix("eagle_backend_"))


def info(kind: str) -> dict[str, object]:
    """What there is to know about a kind's backend, loaded or not. Raises TypeError for what is no text, only that.

    kind, loaded, path, version ("1.6"), error ("" when loaded), capabilities, device_types, build_info (what the
    backend filled), groups (name to "" or the reason it is unavailable), experimental (symbol to bool).
    """
    if not isinstance(kind, str):
        raise TypeError(refusal("eagle.backends.info", "kind", shown(kind), "a text",
                                "pass one of eagle.backends.kinds()"))
    outcome = attempt(kind)
    backend = outcome.backend
    return {
        "kind": kind,
        "loaded": backend is not None,
        "path": outcome.path,
        "version": backend.version if backend else "",
        "error": outcome.error,
        "capabilities": backend.capabilities if backend else 0,
        "device_types": list(backend.device_types) if backend else [],
        "build_info": backend.build_info if backend else {},
        "groups": backend.groups if backend else dict.fromkeys(_core.GROUPS, f"backend {kind!r} is not loaded"),
        "experimental": {name: backend is not None and backend.has(name)
                         for name, group, *_ in _core.SYMBOLS if group == "experimental"},
    }


def forget() -> None:
    """Drops what was loaded, and what was found before it; for tests."""
    attempt.forget()
    discovery.forget()
