# SPDX-License-Identifier: Apache-2.0
"""Nodes: pieces of work that say which planes they read and write. Calling one does its work once, on the host.

A room that brings a kind of node registers how nodes of it behave; nothing else needs to know what kinds there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from eagle.errors import refusal, shown

__all__ = ["Node", "NodeKind", "Plane", "check_name", "get_node_kind", "register_node_kind"]


class Plane(NamedTuple):
    """An array a node touches, the name the node has for it, and its role (:mod:`eagle.roles`)."""

    name: str
    array: Any
    role: str


Planes = Callable[["Node"], tuple[Plane, ...]]
Lower = Callable[["Node", Any], Callable[[], object]]
Check = Callable[["Node"], object]


@dataclass(frozen=True)
class NodeKind:
    """How nodes of a kind behave.

    reads, writes: the planes of a node. lower_cpu: of a node and what a graph tells of the run (None outside one), what
    does its work once, on the calling thread. check: raises
    where a node can no longer run; called ahead of each run.
    """

    kind: str
    reads: Planes
    writes: Planes
    lower_cpu: Lower
    check: Check | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A piece of work: its kind, what that kind needs to know of it, and a name for messages and pictures."""

    kind: str
    payload: Any
    name: str | None = None

    def __post_init__(self) -> None:
        check_name("eagle.nodes.Node", self.name)

    @property
    def label(self) -> str:
        """The name, else the kind."""
        return self.kind if self.name is None else self.name

    @property
    def reads(self) -> tuple[Plane, ...]:
        """The planes it reads."""
        return get_node_kind(self.kind).reads(self)

    @property
    def writes(self) -> tuple[Plane, ...]:
        """The planes it writes."""
        return get_node_kind(self.kind).writes(self)

    def __call__(self) -> None:
        """Do the work once."""
        behaviour = get_node_kind(self.kind)
        if behaviour.check is not None:
            behaviour.check(self)
        behaviour.lower_cpu(self, None)()

    def __repr__(self) -> str:
        text = f"Node {self.kind}" if self.name is None else f"Node {self.kind} {self.name!r}"
        if (behaviour := _kinds.get(self.kind)) is None:
            return f"<{text}>"
        planes = (("reads", behaviour.reads(self)), ("writes", behaviour.writes(self)))
        return f"<{text}: {', '.join(f'{verb} {_shown(some)}' for verb, some in planes)}>"


def _shown(planes: tuple[Plane, ...]) -> str:
    return ", ".join(f"{plane.name} {tuple(getattr(plane.array, 'shape', ()))}" for plane in planes) or "nothing"


def check_name(door: str, name: object) -> None:
    """Refuse, for a door, what is no name of a node."""
    if name is not None and not isinstance(name, str):
        raise TypeError(refusal(door, "name", shown(name), "a text or None", "pass str(name)"))


# Every kind, by name. Only added to, by one atomic operation: it needs no lock, and a forked child has what was there.
_kinds: dict[str, NodeKind] = {}


def register_node_kind(kind: str, *, reads: Planes, writes: Planes, lower_cpu: Lower,
                       check: Check | None = None) -> NodeKind:
    """Add a kind of node. The very same functions again change nothing.

    Raises TypeError for what is no name, ValueError for a name that other functions have.
    """
    door = "eagle.nodes.register_node_kind"
    if not isinstance(kind, str) or not kind:
        raise TypeError(refusal(door, "kind", shown(kind), "a text that is not empty", "name the kind"))
    behaviour = NodeKind(kind, reads, writes, lower_cpu, check)
    known = _kinds.setdefault(kind, behaviour)
    if known != behaviour:
        raise ValueError(refusal(door, "kind", f"{kind!r}, which is taken", "a new one", "choose another name"))
    return known


def get_node_kind(kind: str) -> NodeKind:
    """How nodes of a kind behave. Raises ValueError naming the kinds there are."""
    if not isinstance(kind, str) or kind not in _kinds:
        raise ValueError(refusal("eagle.nodes.get_node_kind", "kind", shown(kind), f"one of {sorted(_kinds)}",
                                 "register it"))
    return _kinds[kind]
