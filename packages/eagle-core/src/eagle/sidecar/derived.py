# SPDX-License-Identifier: Apache-2.0
"""Doors that run kernels forward: they refuse derivatives, and kernels that need a value from before the launch."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from eagle.errors import refusal, shown

__all__ = ["derived_tag", "refuse_derived", "refuse_prior_read"]

DEPTH = 16  # wrappers around a kernel


def derived_tag(obj: Any) -> tuple[str, str | None] | None:
    """``(kind, primal)`` of the derivative that `obj` is or runs, None for anything else. Never raises.

    It looks through kernels, plugins, plans, bound methods and partials.
    """
    for _ in range(DEPTH):
        block = _attribute(obj, "derivative")
        if isinstance(block, dict) and isinstance(block.get("kind"), str):
            primal = block.get("primal")
            return block["kind"], primal if isinstance(primal, str) else None
        sinks = _attribute(obj, "sinks")  # a kernel of hawk
        if isinstance(_attribute(sinks, "kind"), str) and hasattr(sinks, "primal"):
            return sinks.kind, sinks.primal if isinstance(sinks.primal, str) else None
        inner = obj.func if isinstance(obj, partial) else next(
            (found for name in ("plugin", "plan", "__self__", "__wrapped__")
             if (found := _attribute(obj, name)) is not None), None)
        if inner is None or inner is obj:
            return None
        obj = inner
    return None


def refuse_derived(obj: Any, *, door: str) -> None:
    """Raise ValueError when `obj` is, or runs, a derivative: `door` runs kernels forward."""
    tag = derived_tag(obj)
    if tag is not None:
        kind, primal = tag
        raise ValueError(refusal(door, "kernel", f"the {kind} of {shown(primal)}", "a kernel that is no derivative",
                                 f"pass {shown(primal)} itself, or plan the derivative with eagle.plan.plan"))


def refuse_prior_read(plugin: Any, given: Collection[str], *, door: str) -> None:
    """Raise ValueError when `plugin` reads a mutable's value from before the launch that is not among `given`."""
    missing = sorted(set(_attribute(plugin, "prior_mutables") or ()) - set(given))
    if missing:
        raise ValueError(refusal(door, f"Mutable {missing[0]!r}", "nothing",
                                 "an array: the kernel reads the value it starts from", f"pass {missing[0]}=..."))


def _attribute(obj: Any, name: str) -> Any:
    try:
        return getattr(obj, name, None)
    except Exception:  # noqa: BLE001  a property of a foreign object may raise anything
        return None
