# SPDX-License-Identifier: Apache-2.0
"""``Node`` and the kinds of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from eagle.errors import refusal, shown

__all__ = ["BUILT_IN", "Node", "NodeKind", "Plane", "READ", "TIERS", "WRITTEN", "check_name", "get_node_kind",
           "register_built_in", "register_node_kind"]

READ, WRITTEN = "per_sample", "out"  # roles of planes that no kernel declares

#: How a GPU graph runs a node: recorded in it, on a stream of its own between its parts, or on the host.
TIERS = ("capture", "stream", "host")

#: The kinds of eagle's own rooms, registered yet or not.
BUILT_IN = frozenset({"branches", "cell", "child", "copy", "group", "launch", "opaque", "opaque_host", "opaque_stream",
                      "phase", "phase_reverse", "reduce", "repeat_while", "sequence", "skippable", "wait"})


class Plane(NamedTuple):
    """An array a node touches, the name the node has for it, and its role (:mod:`eagle.roles`)."""

    name: str
    array: Any
    role: str


Planes = Callable[["Node"], tuple[Plane, ...]]
Lower = Callable[["Node", Any], Callable[[], object]]


@dataclass(frozen=True)
class NodeKind:
    """How nodes of a kind behave.

    reads, writes: the planes of a node. lower_gpu, lower_cpu: of a node and what a graph tells of the run (None outside
    one), a callable that does the work once: what is recorded, and what the calling thread does; lower_gpu is None for
    a kind that only the host runs. In tier "stream" what lower_gpu gives has the stream's handle as `stream`. check:
    raises where a node can no longer run; called ahead of each run.

    A graph asks for the others: transpose, the adjoints of what is read; record_planes, (name, array) pairs to be kept
    ahead of a recorded run; native_entry, the entry address, argument addresses and partitions of work without Python,
    or None.
    """

    kind: str
    reads: Planes
    writes: Planes
    lower_gpu: Lower | None
    lower_cpu: Lower
    transpose: Callable[[Node, Any, Any], Any] | None = None
    record_planes: Callable[[Node], Any] | None = None
    native_entry: Callable[[Node, Any], Any] | None = None
    tier: str = "capture"
    check: Callable[[Node], object] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A piece of work: its kind, what that kind needs to know of it, a name for messages and pictures, and whether
    gradients flow through it."""

    kind: str
    payload: Any
    name: str | None = None
    grad: bool = True

    def __post_init__(self) -> None:
        check_name("eagle.nodes.Node", self.name)
        check_grad("eagle.nodes.Node", self.grad)

    @property
    def label(self) -> str:
        """The name, else that of what it runs, else the kind."""
        return str(getattr(self.payload, "label", self.kind)) if self.name is None else self.name

    @property
    def reads(self) -> tuple[Plane, ...]:
        """The planes it reads."""
        return tuple(map(Plane._make, get_node_kind(self.kind).reads(self)))

    @property
    def writes(self) -> tuple[Plane, ...]:
        """The planes it writes."""
        return tuple(map(Plane._make, get_node_kind(self.kind).writes(self)))

    def __call__(self) -> None:
        """Do the work once."""
        behaviour = get_node_kind(self.kind)
        if behaviour.check is not None:
            behaviour.check(self)
        behaviour.lower_cpu(self, None)()

    def __repr__(self) -> str:
        text = f"Node {self.kind}" if self.name is None else f"Node {self.kind} {self.name!r}"
        if self.kind not in _kinds:
            return f"<{text}>"
        planes = (("reads", self.reads), ("writes", self.writes))
        return f"<{text}: {', '.join(f'{verb} {_shown(some)}' for verb, some in planes)}>"


def _shown(planes: tuple[Plane, ...]) -> str:
    return ", ".join(f"{plane.name} {tuple(getattr(plane.array, 'shape', ()))}" for plane in planes) or "nothing"


def check_name(door: str, name: object) -> None:
    """Refuse, for a door, what is no name of a node."""
    if name is not None and not isinstance(name, str):
        raise TypeError(refusal(door, "name", shown(name), "a text or None", "pass str(name)"))


def check_grad(door: str, grad: object) -> None:
    """Refuse, for a door, a `grad` that is neither True nor False."""
    if not isinstance(grad, bool):
        raise TypeError(refusal(door, "grad", shown(grad), "True or False", "pass one of them"))


# Every kind, by name. Only added to, by one atomic operation: it needs no lock, and a forked child has what was there.
_kinds: dict[str, NodeKind] = {}


def register_node_kind(kind: str, *, reads: Planes, writes: Planes, lower_gpu: Lower | None, lower_cpu: Lower,
                       transpose: Callable[[Node, Any, Any], Any] | None = None,
                       record_planes: Callable[[Node], Any] | None = None,
                       native_entry: Callable[[Node, Any], Any] | None = None, tier: str = "capture",
                       check: Callable[[Node], object] | None = None) -> NodeKind:
    """Add a kind of node; :class:`NodeKind` says what each hook is. The very same ones again change nothing.

    Raises TypeError for what is no name and for hooks that cannot be called, ValueError for another tier and for a name
    that other hooks, or eagle, have.
    """
    door = "eagle.nodes.register_node_kind"
    if not isinstance(kind, str) or not kind:
        raise TypeError(refusal(door, "kind", shown(kind), "a text that is not empty", "name the kind"))
    if tier not in TIERS:
        raise ValueError(refusal(door, "tier", shown(tier), f"one of {TIERS}", "leave it out for work on the host"))
    behaviour = NodeKind(kind, reads, writes, lower_gpu, lower_cpu, transpose, record_planes, native_entry, tier, check)
    for field in fields(NodeKind):
        hook = getattr(behaviour, field.name)
        if field.name not in ("kind", "tier") and not callable(hook) and (hook is not None or field.name in _NEEDED):
            raise TypeError(refusal(door, field.name, shown(hook), "a function", f"pass one for kind {kind!r}"))
    if kind in BUILT_IN and _kinds.get(kind) != behaviour:
        raise _taken(door, kind)
    return _added(door, behaviour)


_NEEDED = ("reads", "writes", "lower_cpu")


def register_built_in(behaviour: NodeKind) -> NodeKind:
    """Add a kind of eagle's own."""
    return _added("eagle.nodes.register_built_in", behaviour)


def _added(door: str, behaviour: NodeKind) -> NodeKind:
    known = _kinds.setdefault(behaviour.kind, behaviour)
    if known != behaviour:
        raise _taken(door, behaviour.kind)
    return known


def _taken(door: str, kind: str) -> ValueError:
    return ValueError(refusal(door, "kind", f"{kind!r}, which is taken", "a new one", "choose another name"))


def get_node_kind(kind: str) -> NodeKind:
    """How nodes of a kind behave. Raises ValueError naming the kinds there are."""
    if not isinstance(kind, str) or kind not in _kinds:
        raise ValueError(refusal("eagle.nodes.get_node_kind", "kind", shown(kind), f"one of {sorted(_kinds)}",
                                 "register it"))
    return _kinds[kind]
