# SPDX-License-Identifier: Apache-2.0
"""``Switch``: which nodes of a recorded program run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from eagle import _core
from eagle.graph.profile import units
from eagle.graph.tree import BRANCHES, CONDITIONALS, GROUP, SEQUENCE, arms_of, leaves, with_arms
from eagle.nodes import Node

__all__ = ["Switch", "can_switch", "distinct"]


def can_switch(node: Node) -> bool:
    """Whether all that a node holds can be switched: it holds no conditional."""
    return not any(leaf.kind in (BRANCHES, *CONDITIONALS) for leaf in leaves([node]))


def distinct(node: Node) -> Node:
    """The same work in nodes of its own: a node that stands in two places is switched in one."""
    if node.kind in (GROUP, SEQUENCE):
        return with_arms(node, tuple(tuple(map(distinct, arm)) for arm in arms_of(node)))
    return replace(node)


class Switch:
    """Which leaves of the nodes of a program are off. `stream` is where it is recorded and replayed, None one of its
    own."""

    def __init__(self, stream: _core.Stream | None) -> None:
        self._stream = stream
        self._off: set[int] = set()  # identities of leaves
        self._units: dict[int, list[int]] = {}  # of the program, by the identity of the leaf
        self._leaves: list[Node] = []
        self._program: _core.Program | None = None
        self._begun: list[Node] = []  # of a launch leaf by leaf

    @property
    def handle(self) -> int:
        """That of the stream, 0 for one of its own."""
        return 0 if self._stream is None else self._stream.ptr

    def take(self, program: _core.Program, nodes: Sequence[Node]) -> None:
        """The program that was made of nodes: what is off stays off."""
        self._program, self._units, self._leaves, first = program, {}, list(leaves(nodes)), 0
        for leaf in self._leaves:
            count = sum(1 for _ in units([leaf]))
            self._units.setdefault(id(leaf), []).extend(range(first, first + count))
            first += count
        self.carry_over(program)

    def carry_over(self, program: _core.Program) -> None:
        """Switch off, in another program of the same nodes, what is off."""
        for leaf in self._off & self._units.keys():
            for unit in self._units[leaf]:
                program.enable(unit, False)

    def set(self, nodes: Iterable[Node], on: bool) -> None:
        """Switch leaves for the launches to come."""
        assert self._program is not None
        for node in nodes:
            for unit in self._units[id(node)]:
                self._program.enable(unit, on)
            (self._off.discard if on else self._off.add)(id(node))

    def each(self) -> Iterator[Node]:
        """The leaves that run, to be called one after the other."""
        self._begun = []
        for leaf in self._leaves:
            if id(leaf) not in self._off:
                self._begun.append(leaf)
                yield leaf
        self._begun = []

    def reached(self) -> list[Node]:
        """The leaves that a launch which raised began, or passed by; the last of them is the one that raised, or came
        before the signal that did."""
        if self._begun:
            found, self._begun = self._begun, []
            return found
        begun = 0 if self._program is None else self._program.reached()
        return [leaf for leaf in self._leaves if any(unit < begun for unit in self._units[id(leaf)])]
