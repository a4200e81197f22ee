# SPDX-License-Identifier: Apache-2.0
"""What a picture shows of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eagle import _core
from eagle.graph.pictures import Box, Frame, Picture
from eagle.graph.tree import CONDITIONALS, GROUP, HOST, LAUNCH, SEQUENCE, arms_of, leaves
from eagle.nodes import Node, RepeatWhile

__all__ = ["picture_of"]

DOOR = "eagle.Graph"
_TAGS = {"opaque_stream": "[stream]", "opaque_host": "[host]", "child": "[child]"}
_OWN = ("opaque", *_TAGS)


def picture_of(nodes: Sequence[Node], edges: _core.Edges, backend: str | None = None, schedules: Sequence[str] = (),
               tiles: Sequence[int] = ()) -> Picture:
    """The nodes of a graph. Of a built one `schedules` has one for each node, and `tiles` a number for each leaf."""
    frames: list[Frame] = []
    boxes: list[Box] = []
    for stage, node in enumerate(nodes):
        frames.append(Frame("stage", f"stage {stage}"))
        outer, schedule = len(frames) - 1, schedules[stage] if schedules else ""
        for leaf in leaves([node]):
            tile = tiles[len(boxes)] if tiles else -1
            boxes.append(Box(leaf.label, LAUNCH, schedule, outer, tile=tile) if leaf.kind == LAUNCH
                         else _box(leaf, schedule, outer, frames))
    groups = sum(node.kind == GROUP for node in _within(nodes))
    header = " · ".join((f"{DOOR}  {len(boxes)} node{'s' * (len(boxes) != 1)}", f"{groups} group{'s' * (groups != 1)}",
                         f"backend: {backend or '(not built)'}"))
    notes = tuple(f"  {leaf.label} [stream: cpu runs eagerly]" for leaf in leaves(nodes)
                  if backend == HOST and leaf.kind == "opaque_stream")
    return Picture(header, boxes, edges, frames, notes)


def _box(node: Node, schedule: str, outer: int, frames: list[Frame]) -> Box:
    """A node in its place; a conditional adds its frame, and those within it, around what it does."""
    shown, body = node, (node,)
    while len(body) == 1 and body[0].kind in CONDITIONALS:
        frames.append(Frame(body[0].kind, _condition(body[0]), outer))
        outer = len(frames) - 1
        shown, body = body[0], body[0].payload.body
    inner = list(_parts(body))
    label = node.name or shown.name if node.kind in CONDITIONALS else None
    label = label or ", ".join(map(_tagged, inner))
    own = all(part.kind in _OWN for part in inner)
    return Box(label, inner[0].kind, schedule, outer, own)


def _condition(node: Node) -> str:
    made = node.payload.made_of
    if not isinstance(made, RepeatWhile):
        return "skip if guard"
    return "repeat" if made.max_iters is None else f"repeat ≤ {made.max_iters}"


def _tagged(node: Node) -> str:
    return f"{node.label} {_TAGS[node.kind]}" if node.kind in _TAGS else node.label


def _parts(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind == SEQUENCE:
            yield from _parts(node.payload)
        else:
            yield node


def _within(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for arm in arms_of(node):
            yield from _within(arm)
