# SPDX-License-Identifier: Apache-2.0
"""``Node`` and the kinds of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from eagle.errors import refusal, shown

__all__ = ["BUILT_IN", "Node", "NodeKind", "Plane", "READ", "TIERS", "WRITTEN", "check_grad", "check_name", "find_kind",
           "get_node_kind", "lowered", "register_built_in", "register_node_kind"]

NODE = "eagle.graph.Node"

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
        kind: object = self.kind
        if not isinstance(kind, str):
            raise TypeError(refusal(NODE, "kind", shown(kind), "a text", "pass the name of a registered kind"))
        if kind in _fits and not _fits[kind](self.payload):
            raise TypeError(refusal(NODE, "payload", shown(self.payload), f"what eagle makes a node of {kind!r} of",
                                    "call what makes such nodes, as eagle.opaque or Graph.add"))
        check_name(NODE, self.name)
        check_grad(NODE, self.grad)

    @property
    def label(self) -> str:
        """The name, else that of what it runs, else the kind."""
        return str(getattr(self.payload, "label", self.kind)) if self.name is None else self.name

    @property
    def reads(self) -> tuple[Plane, ...]:
        """The planes it reads."""
        return _planes(self, "reads")

    @property
    def writes(self) -> tuple[Plane, ...]:
        """The planes it writes."""
        return _planes(self, "writes")

    def __call__(self) -> None:
        """Do the work once."""
        behaviour = get_node_kind(self.kind)
        if behaviour.check is not None:
            behaviour.check(self)
        lowered(NODE, self, None)()

    def __repr__(self) -> str:
        text = f"Node {self.kind}" if self.name is None else f"Node {self.kind} {self.name!r}"
        if self.kind not in _kinds:
            return f"<{text}>"
        planes = (("reads", self.reads), ("writes", self.writes))
        return f"<{text}: {', '.join(f'{verb} {_shown(some)}' for verb, some in planes)}>"


def _planes(node: Node, hook: str) -> tuple[Plane, ...]:
    found: tuple[Plane, ...] = getattr(get_node_kind(node.kind), hook)(node)
    if node.kind in BUILT_IN:
        return found
    try:
        planes = tuple(map(Plane._make, found))
    except (TypeError, ValueError):
        planes = None
    if planes is None or not all(isinstance(plane.name, str) for plane in planes):
        raise TypeError(refusal(NODE, f"{hook} of kind {node.kind!r}", shown(found), "tuples (name, array, role)",
                                "let the hook return one for each plane"))
    return planes


def lowered(door: str, node: Node, ctx: object) -> Callable[[], object]:
    """What does the work of a node, by its kind. Raises TypeError for what cannot be called."""
    work: object = get_node_kind(node.kind).lower_cpu(node, ctx)
    if not callable(work):
        raise TypeError(refusal(door, f"node {node.label!r}, lower_cpu of kind {node.kind!r}", shown(work),
                                "a callable without arguments", "let the hook return one"))
    return work


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
_fits: dict[str, Callable[[Any], bool]] = {}  # of eagle's own: whether that is what a node of the kind knows


def register_node_kind(kind: str, *, reads: Planes, writes: Planes, lower_gpu: Lower | None, lower_cpu: Lower,
                       transpose: Callable[[Node, Any, Any], Any] | None = None,
                       record_planes: Callable[[Node], Any] | None = None,
                       native_entry: Callable[[Node, Any], Any] | None = None, tier: str = "capture",
                       check: Callable[[Node], object] | None = None) -> NodeKind:
    """Add a kind of node; :class:`NodeKind` says what each hook is. The very same ones again change nothing.

    Raises TypeError for what is no name and for hooks that cannot be called, ValueError for another tier and for a name
    that other hooks, or eagle, have.
    """
    door = "eagle.graph.register_node_kind"
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


def register_built_in(behaviour: NodeKind, fits: Callable[[Any], bool]) -> NodeKind:
    """Add a kind of eagle's own; `fits`: whether a payload is what its nodes have."""
    known = _added("eagle.nodes.register_built_in", behaviour)
    _fits[known.kind] = fits
    return known


def _added(door: str, behaviour: NodeKind) -> NodeKind:
    known = _kinds.setdefault(behaviour.kind, behaviour)
    if known != behaviour:
        raise _taken(door, behaviour.kind)
    return known


def _taken(door: str, kind: str) -> ValueError:
    return ValueError(refusal(door, "kind", f"{kind!r}, which is taken", "a new one", "choose another name"))


def get_node_kind(kind: str) -> NodeKind:
    """How nodes of a kind behave. Raises ValueError naming the kinds there are."""
    return find_kind("eagle.graph.get_node_kind", kind)


def find_kind(door: str, kind: object) -> NodeKind:
    """The same for another door."""
    if not isinstance(kind, str) or kind not in _kinds:
        raise ValueError(refusal(door, "kind", shown(kind), f"one of {sorted(_kinds)}", "register it"))
    return _kinds[kind]
