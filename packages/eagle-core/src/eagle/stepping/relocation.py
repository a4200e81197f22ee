# SPDX-License-Identifier: Apache-2.0
"""How independent the samples of a kernel are: of each other, and of where in the planes they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any

from eagle.plan.signature import Signature, Use

__all__ = ["Reach", "nodes_of", "reach"]


class Reach(IntEnum):
    """What a launch over some of the samples may assume."""

    BATCH = 0  #: samples go together: every launch covers all of them
    LOCAL = 1  #: any range of samples may be launched by itself
    MOVABLE = 2  #: and samples may be moved to other positions


#: What a launch may read and write beside planes with something of each sample.
_LOCAL = (Use.SAMPLES, Use.NUMBER, Use.COUNT, Use.WORD, Use.MAP, Use.LIVE, Use.MIX)
#: Kinds of nodes whose value depends on the position of the sample, or whose text nobody looked into.
_PLACED = ("sample_index", "raw_device", "reduce")


def reach(signature: Signature) -> Reach:
    """The reach of a kernel, as far as its sidecar allows and its body proves.

    The sidecar alone cannot tell that a body does not use its own index: without the hawk kernel samples stay.
    """
    if len(signature.stages) != 1:
        return Reach.BATCH
    stage = signature.stages[0]
    plugin = stage.plugin
    own = all(slot.use in _LOCAL or (slot.use is Use.TABLE and not slot.writes) for slot in stage.slots)
    if not own or stage.box != (1, 1) or stage.cells or plugin.exec_access not in ("sample_local", "cross_sample_read"):
        return Reach.BATCH
    tied = (signature.lanes.declared, (plugin.lane_space or {}).get("group", 1) > 1, plugin.sorted_inputs,
            plugin.gather_mats, plugin.plane_axes, plugin.adjoint_like, plugin.derivative,
            any(slot.role == "wide_out" for slot in stage.slots))
    return Reach.LOCAL if any(tied) or not _is_anywhere(plugin) else Reach.MOVABLE


def _is_anywhere(plugin: Any) -> bool:
    """Whether the hawk kernel is known, and its body gives a sample the same result wherever it lies: it uses no index
    of its own, draws nothing, holds no text of its author's and reads at an index only what is bound whole."""
    kernel, *_ = getattr(plugin, "_hawk_source", (None,))
    walk = getattr(getattr(kernel, "step", None) or kernel, "walk", None)
    if walk is None:
        return False
    for node in nodes_of(walk.order):
        kind = str(node.kind)
        if kind in _PLACED or kind.startswith("random"):
            return False
        if kind == "at" and node.plane.role not in ("lookup", "wide_in"):
            return False
    return True


def nodes_of(order: Iterable[Any]) -> Iterator[Any]:
    """Every node of a body once: with its operands, and those in the bodies of loops."""
    stack, seen = list(order), set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(node.operands)
        if hasattr(node, "body_nodes"):
            stack.extend(node.body_nodes())
            stack.extend(node.body_sinks)
