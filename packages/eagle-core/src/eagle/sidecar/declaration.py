# SPDX-License-Identifier: Apache-2.0
"""A checked sidecar as the attributes a plan reads of a kernel; and doors that refuse a kernel for what it declares:
those that run kernels forward take no derivative, and give no value from before the launch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

from eagle.dtypes import np_dtype
from eagle.errors import refusal, shown
from eagle.sidecar.document import Document

__all__ = ["declaration", "derived_tag", "refuse_derived", "refuse_prior_read"]

DEPTH = 16  # wrappers around a kernel


def declaration(sidecar: Mapping[str, Any]) -> SimpleNamespace:
    """A plugin without entries: what a plan reads of a kernel, from its checked sidecar.

    Every attribute is always there; what the sidecar does not say is None or empty.
    """
    doc = Document("eagle.sidecar.declaration", str(sidecar["kernel"]), sidecar)
    mutables, launch, given = doc.given("mutables", []), doc.given("launch", {}), doc.given
    stored = np_dtype(doc.scalar_type).name
    return SimpleNamespace(
        name=sidecar["kernel"], kernel=sidecar["kernel"],
        abi_tag=sidecar["aether_abi"],
        arg_spec=tuple(tuple(pair) for pair in sidecar["arg_spec"]),
        exec_access=sidecar.get("exec_access"), exec_op=sidecar.get("exec_op"),
        exec_targets=tuple(given("exec_targets", ())),
        scalar_type=doc.scalar_type,
        arg_widths=dict(given("arg_widths", {})),
        arg_dtypes={name: stored if tag == doc.scalar_type else tag for name, tag in given("arg_dtypes", {}).items()},
        params=tuple(given("params", ())),
        vec_mutables=frozenset(m["name"] for m in mutables if m["dtype"] == "vector"),
        mat_mutables=frozenset(m["name"] for m in mutables if m["dtype"] == "matrix"),
        prior_mutables=frozenset(m["name"] for m in mutables if m.get("prior")),
        mat_shapes={name: tuple(shape) for name, shape in (
            *given("mat_shapes", {}).items(), *((m["name"], m["shape"]) for m in mutables if m.get("shape")))},
        terminated_readonly=given("terminated_readonly", False),
        finish=sidecar.get("finish"),
        step_ops=sidecar.get("step_ops"), fp64_ops_ir=given("fp64_ops_ir", sidecar.get("ops_per_step")),
        entry_counts_finished=given("entry_counts_finished", False),
        dispatch=tuple(given("dispatch", ())),
        lane_space=launch.get("lane_space"), box=launch.get("box"), block=launch.get("block"),
        plane_axes=dict(given("plane_axes", {})), sorted_inputs=tuple(given("sorted_inputs", ())),
        cells=dict(given("cells", {})), companions=dict(given("companions", {})),
        keyed=dict(given("keyed", {})), stages=tuple(given("stages", ())),
        adjoint_like=dict(given("adjoint_like", {})), gather_mats=dict(given("gather_mats", {})),
        param_planes=tuple(given("param_planes", ())),
        derivative=sidecar.get("derivative"), lanes=tuple(given("lanes", ())),
        unread=frozenset(), fold_entries={}, stage_plugins=(), host_tile=0)


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
