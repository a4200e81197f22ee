# SPDX-License-Identifier: Apache-2.0
"""Edges: which node must wait for which, from the bytes their planes share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from eagle import _core
from eagle.errors import refusal
from eagle.graph.tree import GROUP, LAUNCH, SEQUENCE, WAIT, arms_of, has_waits, leaves, planes_of
from eagle.interop.buffer import view_for
from eagle.nodes import Node, Plane

__all__ = ["Edge", "SHARES_MEMORY_MAX_WORK", "derive", "edges_of", "refuse_races"]

#: The search steps after which two planes count as overlapping.
SHARES_MEMORY_MAX_WORK: int = _core.OVERLAP_MAX_WORK

_READS, _WRITES = 0, 1


class Edge(NamedTuple):
    """Node `dst` waits for node `src`, because of the plane that `src` calls `plane`; `kind` is "RAW", "WAR" or "WAW".
    The numbers are indices into the labels of the graph."""

    src: int
    dst: int
    plane: str
    kind: str

    @property
    def meaning(self) -> str:
        """The kind in plain words."""
        return _core.EDGE_MEANINGS[self.kind]


#: Name, node, and access of a plane; between them an array of numpy, or address, shape, strides, bytes of an element.
Row = tuple[str, int, Any, int] | tuple[str, int, int, Sequence[int], Sequence[int], int, int]


def derive(door: str, nodes: Sequence[Node]) -> _core.Edges:
    """The edges of what `nodes` hold; those within a group are found as well, where its members are of one branch."""
    return _core.derive_edges(_rows(door, list(leaves(nodes))), _groups(nodes, waits=False))


def edges_of(derived: _core.Edges) -> tuple[Edge, ...]:
    """The edges, one by one."""
    return derived.tuples(Edge)


def refuse_races(door: str, nodes: Sequence[Node]) -> None:
    """Raise ValueError where two branches of a group, also of one within another node, could race."""
    if all(node.kind == LAUNCH for node in nodes):
        return
    flat = list(leaves(nodes))
    groups = _groups(nodes)
    if groups:
        ordered = _ordered(flat, groups)
        for first, second, plane, other, kind in _core.sibling_conflicts(_rows(door, flat), groups):
            if any(first <= writer and wait <= second and second in branch for writer, wait, branch in ordered):
                continue
            raise ValueError(refusal(
                door, f"nodes {first} ({flat[first].label!r}) and {second} ({flat[second].label!r})",
                f"branches of one group with {kind} on planes {plane!r} and {other!r}",
                "branches that share no array which one of them writes",
                "give each branch an array of its own, or put both nodes in one branch"))
    for node in flat:
        for arm in arms_of(node):
            refuse_races(door, arm)


def _ordered(flat: Sequence[Node], groups: list[list[list[int]]]) -> list[tuple[int, int, list[int]]]:
    """(writer, wait, branch) of each wait: of the nodes of that branch, the later ones come behind the writer."""
    numbers = {id(node): number for number, node in enumerate(flat)}
    return [(numbers[id(node.payload.writer)], number, branch) for number, node in enumerate(flat) if node.kind == WAIT
            for branches in groups for branch in branches if number in branch]


def _groups(nodes: Sequence[Node], start: int = 0, *, waits: bool = True) -> list[list[list[int]]]:
    """The branches of each group, as numbers of leaves counted from `start`; `waits`: also of those whose branches wait
    for one another, which have edges."""
    groups = []
    for node in nodes:
        count = sum(1 for _ in leaves([node]))
        if arms := (arms_of(node) if count and node.kind in (GROUP, SEQUENCE) else ()):
            first, branches = start, []
            for arm in arms:
                size = sum(1 for _ in leaves(arm))
                branches.append(list(range(first, first + size)))
                groups += _groups(arm, first, waits=waits)
                first += size
            if node.kind == GROUP and (waits or not has_waits(node)):
                groups.append(branches)
        start += count
    return groups


def _rows(door: str, nodes: Sequence[Node]) -> list[Row]:
    rows: list[Row] = []
    for number, node in enumerate(nodes):
        reads, writes = planes_of(node)
        rows += [_row(door, node, plane, number, _READS) for plane in reads]
        rows += [_row(door, node, plane, number, _WRITES) for plane in writes]
    return rows


def _row(door: str, node: Node, plane: Plane, number: int, access: int) -> Row:
    array: Any = plane.array
    if isinstance(array, np.ndarray):
        return plane.name, number, array, access
    if not hasattr(array, "shape"):
        raise TypeError(refusal(door, f"node {node.label!r}, plane {plane.name!r}", f"a {type(array).__name__}",
                                "an array", "declare arrays alone"))
    view = view_for(door, f"node {node.label!r}, plane {plane.name!r}", array)
    size = view.nbytes // max(math.prod(view.shape), 1)
    return plane.name, number, view.ptr, view.shape, [step * size for step in view.strides], size, access
