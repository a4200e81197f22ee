# SPDX-License-Identifier: Apache-2.0
"""What a sidecar says of stepping: how a kernel finishes, its dispatches, its cost; and of what it was derived from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eagle.roles import FUSED_STEPS, MASK, ROLES
from eagle.sidecar.document import WIDEST, Document

__all__ = ["FINISH_AUTO", "FINISH_COUNTER", "FINISH_KEY", "TERMINATED_READONLY_KEY", "dispatch", "finish", "lanes",
           "read_finish", "read_terminated_readonly", "steps_facts", "terminated_readonly"]

TERMINATED_READONLY_KEY = "terminated_readonly"
FINISH_KEY = "finish"
FINISH_COUNTER = "finished_count"
FINISH_AUTO = "auto"


def read_terminated_readonly(meta: Mapping[str, Any], *, name: str,
                             door: str = "eagle.sidecar.read_terminated_readonly") -> bool:
    """Whether the kernel declares that it never writes its mask. Raises ValueError for anything but a JSON bool."""
    return terminated_readonly(Document(door, name, meta))


def read_finish(meta: Mapping[str, Any], *, name: str,
                door: str = "eagle.sidecar.read_finish") -> dict[str, Any] | None:
    """``{mask, counter, steps, steps_max}`` of a kernel that finishes its own samples, else None. `steps` is an
    integer, or ``"auto"`` with `steps_max`. Raises ValueError naming the artifact.
    """
    return finish(Document(door, name, meta))


def terminated_readonly(doc: Document) -> bool:
    return doc.flag(TERMINATED_READONLY_KEY, doc.meta.get(TERMINATED_READONLY_KEY, False))


def finish(doc: Document) -> dict[str, Any] | None:
    value = doc.meta.get(FINISH_KEY)
    if value is None:
        return None
    doc.table(FINISH_KEY, value, ("mask", "counter", "steps"), ("steps_max",))
    doc.slot("finish.mask", value["mask"], MASK)
    doc.text("finish.counter", value["counter"], (FINISH_COUNTER,))
    doc.slot("finish.counter", value["counter"], "lookup")
    if value["steps"] == FINISH_AUTO:
        doc.integer("finish.steps_max", value.get("steps_max"), least=1)
        doc.slot("finish.steps", FUSED_STEPS, "lookup")
    else:
        doc.refuse_unless("steps_max" not in value, "finish.steps_max", value.get("steps_max"),
                          f"none: steps is not {FINISH_AUTO!r}")
        doc.integer("finish.steps", value["steps"], least=1)
    if terminated_readonly(doc):
        raise doc.bad(FINISH_KEY, "a kernel that finishes and never writes its mask",
                      f"one of {FINISH_KEY} and {TERMINATED_READONLY_KEY}: true")
    return dict(value)


def dispatch(doc: Document) -> tuple[dict[str, Any], ...]:
    """``{name, K, policy, static_selector, selector_reads}`` of each group, with ``mix``, ``class`` and ``stale``, or
    ``units`` where its policy has them."""
    found: dict[str, dict[str, Any]] = {}
    for i, value in enumerate(doc.items("dispatch", doc.given("dispatch", []))):
        key = f"dispatch[{i}]"
        doc.table(key, value, ("name", "K", "policy", "static_selector", "selector_reads"),
                  ("mix", "class", "stale", "units"))
        name = doc.text(f"{key}.name", value["name"])
        doc.refuse_unless(name not in found, f"{key}.name", name, "each name once")
        doc.integer(f"{key}.K", value["K"], 1, WIDEST)
        doc.text(f"{key}.policy", value["policy"])
        doc.flag(f"{key}.static_selector", value["static_selector"])
        for pair in doc.items(f"{key}.selector_reads", value["selector_reads"]):
            _role_and_name(doc, f"{key}.selector_reads", pair)
        if value["policy"] == "auto" or "mix" in value:
            doc.slot(f"{key}.mix", value.get("mix"), "lookup")
        for part in ("class", "stale"):
            if part in value:
                doc.text(f"{key}.{part}", value[part])
        units = [doc.text(f"{key}.units", unit) for unit in doc.items(f"{key}.units", value.get("units", []))]
        doc.refuse_unless(not units or len(set(units)) == value["K"] == len(units), f"{key}.units", units,
                          f"{value['K']} different names")
        found[name] = dict(value)
    return tuple(found.values())


def _role_and_name(doc: Document, key: str, pair: Any) -> None:
    """A slot, of this kernel or of one it was made from."""
    doc.refuse_unless(isinstance(pair, list | tuple) and len(pair) == 2
                      and all(isinstance(word, str) for word in pair) and pair[0] in ROLES, key, pair,
                      "pairs, [role, name]")


def steps_facts(doc: Document) -> None:
    """Operations of one step, and whether fast entries count samples that had finished before."""
    for key in ("step_ops", "fp64_ops_ir", "ops_per_step"):
        if doc.meta.get(key) is not None:
            doc.integer(key, doc.meta[key])
    doc.flag("entry_counts_finished", doc.given("entry_counts_finished", False))


def lanes(doc: Document) -> tuple[dict[str, Any], ...]:
    """``{name, slots, digest}`` of each kernel fused into this one."""
    found = []
    for i, value in enumerate(doc.items("lanes", doc.given("lanes", []))):
        key = f"lanes[{i}]"
        doc.table(key, value, ("name", "slots", "digest"))
        doc.text(f"{key}.name", value["name"])
        doc.text(f"{key}.digest", value["digest"])
        for pair in doc.items(f"{key}.slots", value["slots"]):
            _role_and_name(doc, f"{key}.slots", pair)
        found.append(dict(value))
    return tuple(found)
