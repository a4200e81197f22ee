# SPDX-License-Identifier: Apache-2.0
"""Where backends may be: environment, entry points, beside the package. Metadata first, plug-ins only when asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pluggy

from eagle import _core
from eagle.backends.once import Once
from eagle.backends.spec import ENTRY_POINT_GROUP, BackendSpec, Hooks, check_kind, library_name

__all__ = ["Claim", "Plugin", "beside", "claims", "forget", "kinds", "named_file", "plugin", "variable"]


@dataclass(frozen=True)
class Claim:
    """An entry point: a distribution that says it has the backend of a kind."""

    kind: str
    distribution: str
    version: str
    entry: metadata.EntryPoint

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point {self.entry.name} = {self.entry.value})"


@dataclass(frozen=True)
class Plugin:
    """What a kind's claims came to: its spec, or why there is none."""

    claims: tuple[Claim, ...]
    spec: BackendSpec | None = None
    error: str = ""
    cause: BaseException | None = None


def variable(kind: str) -> str:
    """The environment variable that names a kind's library."""
    return f"EAGLE_BACKEND_{kind.upper()}"


def named_file(kind: str) -> str:
    """The file the environment names for a kind; empty for none."""
    return os.environ.get(variable(kind), "")


def beside(kind: str) -> Path:
    """Where a kind's library is when it lies in the eagle package itself."""
    return Path(_core.__file__).parent / library_name(kind)


def _read_claims() -> dict[str, tuple[Claim, ...]]:
    found: dict[str, list[Claim]] = {}
    seen: set[str] = set()
    for distribution in metadata.distributions():
        try:
            name = distribution.metadata["Name"]
            entries = distribution.entry_points.select(group=ENTRY_POINT_GROUP)
            version = distribution.version
        except Exception:  # noqa: S112  damaged metadata of some other distribution hurts nobody here
            continue
        # The first on the path is the one an import gets; later copies are shadowed.
        normal = re.sub(r"[-_.]+", "-", name or "").lower()
        if normal in seen:
            continue
        seen.add(normal)
        for entry in entries:
            claim = Claim(entry.name, name, version, entry)
            if all(other.distribution != name for other in found.setdefault(entry.name, [])):
                found[entry.name].append(claim)
    return {kind: tuple(found[kind]) for kind in sorted(found)}


def _describe(claim: Claim) -> BackendSpec:
    """The plug-in's spec. Runs the plug-in's code, so anything may be raised."""
    check_kind(claim.kind)
    manager = pluggy.PluginManager("eagle")
    manager.add_hookspecs(Hooks)
    manager.register(claim.entry.load(), name=claim.kind)
    spec = manager.hook.eagle_backend()
    if spec is None:
        raise TypeError("it has no hook eagle_backend, or the hook returned None; wanted a BackendSpec")
    if not isinstance(spec, BackendSpec):
        raise TypeError(f"its hook eagle_backend returned {type(spec).__module__}.{type(spec).__qualname__}, "
                        "wanted eagle.backends.BackendSpec")
    if spec.kind != claim.kind:
        raise ValueError(f"its spec is of kind {spec.kind!r}, wanted {claim.kind!r}, the name of its entry point")
    return spec


def _find_plugin(kind: str) -> Plugin:
    claims_ = claims().get(kind, ())
    if not claims_:
        return Plugin((), error=f"no installed distribution has an entry point {kind} in the group {ENTRY_POINT_GROUP}")
    if len(claims_) > 1:
        return Plugin(claims_, error=f"{len(claims_)} distributions claim kind {kind!r}: "
                      f"{', '.join(map(str, claims_))}; uninstall all but one")
    claim = claims_[0]
    try:
        return Plugin(claims_, spec=_describe(claim))
    except (Exception, SystemExit) as cause:
        return Plugin(claims_, error=f"{claim}: {type(cause).__name__}: {cause}", cause=cause)


def _read_kinds() -> tuple[str, ...]:
    named = (re.fullmatch(r"EAGLE_BACKEND_([A-Z][A-Z0-9_]*)", name) for name, value in os.environ.items() if value)
    before, after = library_name("x").split("x")
    files = Path(_core.__file__).parent.glob(f"{before}*{after}")
    return tuple(sorted({*claims(), *(match[1].lower() for match in named if match),
                         *(file.name.removeprefix(before).removesuffix(after) for file in files)}))


claims = Once(_read_claims)
plugin = Once(_find_plugin)
_kinds_once = Once(_read_kinds)


def kinds() -> tuple[str, ...]:
    """Every kind some place names, usable or not, sorted; read once. Imports no plug-in and loads nothing."""
    return _kinds_once()


def forget() -> None:
    """Drops what was found; for tests."""
    _kinds_once.forget()
    claims.forget()
    plugin.forget()
