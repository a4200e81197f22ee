# SPDX-License-Identifier: Apache-2.0
"""The stages of a graph: what runs when, and what runs together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from eagle.graph.fusion import Fusion
from eagle.graph.lowering import schedule_of
from eagle.graph.tree import LAUNCH, leaves
from eagle.nodes import Node

__all__ = ["Stage", "stages_of"]


class Stage(NamedTuple):
    """A stage of a built graph: its nodes and how it runs. Consecutive stages of one `tile` are launches that run tile
    by tile, together; within a group `fused` has the nodes that do. -1: none."""

    nodes: tuple[str, ...]
    schedule: str
    tile: int
    fused: tuple[tuple[str, ...], ...]


def stages_of(nodes: Sequence[Node], fusion: Fusion) -> Iterator[Stage]:
    """The stages of nodes, in order."""
    tile = -1
    for run in fusion.fused(nodes):
        tile += len(run) > 1
        for node in run:
            if node.kind == LAUNCH:
                yield Stage((node.label,), "work_share", tile if len(run) > 1 else -1, ())
                continue
            fused = tuple(tuple(part.label for part in inner) for inner in fusion.within(node))
            yield Stage(tuple(leaf.label for leaf in leaves([node])), schedule_of(node), -1, fused)
