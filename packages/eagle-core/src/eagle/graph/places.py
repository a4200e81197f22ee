# SPDX-License-Identifier: Apache-2.0
"""Where the arrays of a graph were when it was built, and what became of them since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eagle import _core
from eagle.errors import BufferRefused, refusal
from eagle.graph.tree import leaves, planes_of
from eagle.interop.buffer import BufferView, has_moved, view_for
from eagle.nodes import Node, Plane

__all__ = ["Place", "Touched", "places_of", "refuse_read_only", "touched_by"]


class Place(NamedTuple):
    """An array that some node touches, or a view of another library's, where it was at build(), and whether some node
    writes it."""

    node: Node
    plane: str
    array: np.ndarray[Any, Any] | BufferView
    address: int
    shape: tuple[int, ...]
    writes: bool

    def found(self) -> str | None:
        """What became of it; None where nothing did."""
        array = self.array
        if isinstance(array, np.ndarray):
            if _core.address(array) != self.address or array.shape != self.shape:
                return f"an array of shape {array.shape} at another place or of another size"
        elif has_moved(array):
            return "an array at another place, of another size or deleted"
        return self.read_only()

    def read_only(self) -> str | None:
        """What it is where some node writes it, and may not."""
        array = self.array
        may_write = array.flags.writeable if isinstance(array, np.ndarray) else array.writable
        return "a read-only array that the node writes" if self.writes and not may_write else None


class Touched(NamedTuple):
    """A node that is seen as one, with what it reads and writes."""

    node: Node
    reads: tuple[Plane, ...]
    writes: tuple[Plane, ...]


def touched_by(nodes: Sequence[Node]) -> list[Touched]:
    """What the nodes touch, asked of each once."""
    return [Touched(node, *planes_of(node)) for node in leaves(nodes)]


def places_of(door: str, touched: Sequence[Touched]) -> tuple[Place, ...]:
    """Every array that some node touches."""
    found: dict[int, tuple[Node, Plane, bool]] = {}  # the first that writes, else the first that reads
    for node, reads, writes in touched:
        for plane in reads:
            found.setdefault(id(plane.array), (node, plane, False))
        for plane in writes:
            if not ((known := found.get(id(plane.array))) and known[2]):
                found[id(plane.array)] = node, plane, True
    return tuple(_place(door, *one) for one in found.values())


def _place(door: str, node: Node, plane: Plane, written: bool) -> Place:
    array = plane.array
    if isinstance(array, np.ndarray):
        return Place(node, plane.name, array, _core.address(array), array.shape, written)
    view = view_for(door, f"node {node.label!r}, plane {plane.name!r}", array)
    return Place(node, plane.name, view, view.ptr, view.shape, written)


def refuse_read_only(door: str, places: Iterable[Place]) -> None:
    for place in places:
        if (found := place.read_only()) is not None:
            raise BufferRefused(refusal(door, f"node {place.node.label!r}, plane {place.plane!r}", found,
                                        "a writable one", "pass another array"))
