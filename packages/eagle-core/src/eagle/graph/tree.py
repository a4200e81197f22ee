# SPDX-License-Identifier: Apache-2.0
"""What a graph is made of: nodes, and nodes that hold others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import refusal, shown
from eagle.nodes import (
    READ,
    WRITTEN,
    Node,
    NodeKind,
    Plane,
    RepeatWhile,
    SkipGuard,
    Skippable,
    check_name,
    opaque,
    register_built_in,
)
from eagle.plan import BoundPlan
from eagle.sidecar import refuse_derived

__all__ = ["BRANCHES", "Branches", "CONDITIONALS", "Conditional", "DEVICE", "GROUP", "HOST", "LAUNCH", "Launch",
           "REPEAT_WHILE", "SEQUENCE", "SKIPPABLE", "WAIT", "Wait", "arms_of", "as_node", "group", "has_waits",
           "launch", "leaves"]

GROUP, SEQUENCE, LAUNCH, SKIPPABLE, REPEAT_WHILE = "group", "sequence", "launch", "skippable", "repeat_while"
HOST, DEVICE = "cpu", "gpu"  #: what a graph and a context say of where they run
CONDITIONALS = (SKIPPABLE, REPEAT_WHILE)
BRANCHES, WAIT = "branches", "wait"

MOST_NESTED = 100  #: lists and conditionals within each other

Arms = tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, eq=False)
class Launch:
    """What a node of kind launch knows."""

    bound: BoundPlan

    @property
    def label(self) -> str:
        """The kernel's name."""
        return str(self.bound.plan.signature.kernel)


@dataclass(frozen=True, eq=False)
class Conditional:
    """What a conditional of a graph knows: the object it was made of, and its body as nodes."""

    made_of: Skippable | RepeatWhile
    body: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Branches:
    """What a node of kind branches knows: the arms, each with the guard that must hold; the first that does runs. The
    last may have None, which always holds."""

    guards: tuple[SkipGuard | None, ...]
    arms: Arms

    def __call__(self) -> None:
        for guard, arm in zip(self.guards, self.arms, strict=True):
            if guard is None or guard.evaluate():
                for node in arm:
                    node()
                return


@dataclass(frozen=True, eq=False)
class Wait:
    """What a node of kind wait knows: the plane, and the node of an earlier branch that writes it."""

    plane: Any
    writer: Node


def launch(door: str, bound: BoundPlan, name: str | None, grad: bool = True) -> Node:
    """A node that runs a bound plan. Raises ValueError for a derivative and for planes that a launch copies."""
    check_name(door, name)
    refuse_derived(bound.plan.signature.stages[0].plugin, door=door)
    arguments = bound.arguments
    if copies := sorted(arguments.copies):
        raise ValueError(refusal(door, f"bound, planes {copies}", "arrays that each launch would copy",
                                 "contiguous arrays, with a row for each component", "pass numpy.ascontiguousarray() "
                                 "of them, samples last: a graph works on the very arrays"))
    for plane, slot in arguments.slots.items():
        if slot.is_array and plane in arguments.given and plane not in arguments.memory:
            raise ValueError(refusal(door, f"bound, plane {plane!r}", "an array that bind() copied",
                                     f"one of {slot.dtype}, contiguous", "convert it first: a graph works on the very "
                                     "arrays"))
    return Node(LAUNCH, Launch(bound), name, grad)


def as_node(door: str, argument: str, part: Any, name: str | None = None, depth: int = 0) -> Node:
    """A part of a step as a node: a node, a bound plan or its launch, a conditional, a sequence of parts, or a function
    without arguments, of which nothing is known. Raises TypeError for others, ValueError for an empty sequence and
    for more than MOST_NESTED within each other."""
    check_name(door, name)
    if depth > MOST_NESTED:
        raise ValueError(refusal(door, argument.partition(",")[0], f"more than {MOST_NESTED} lists or conditionals "
                                 "within each other", f"up to {MOST_NESTED}", "nest less"))
    if isinstance(part, BoundPlan):
        return launch(door, part, name)
    if isinstance(owner := getattr(part, "__self__", None), BoundPlan) and part == owner.launch:
        return launch(door, owner, name)
    if isinstance(part, Node):
        return part if name is None else Node(part.kind, part.payload, name, part.grad)
    if isinstance(part, Skippable | RepeatWhile):
        kind = SKIPPABLE if isinstance(part, Skippable) else REPEAT_WHILE
        return Node(kind, Conditional(part, tuple(_parts(door, f"{argument}, step", part.step, depth))), name)
    if isinstance(part, list | tuple):
        return Node(SEQUENCE, tuple(_parts(door, argument, part, depth)), name)
    if callable(part):
        known = getattr(part, "as_node", None)  # of the body of a runner's loop
        return opaque(part, name=name) if known is None else as_node(door, argument, known(), name, depth + 1)
    raise TypeError(refusal(door, argument, f"{shown(part)}, a {type(part).__name__}", "a Node, a BoundPlan, a "
                            "skippable or repeat_while, or a list of them", "wrap your own code in eagle.opaque"))


def _parts(door: str, argument: str, step: Any, depth: int = 0) -> Iterator[Node]:
    if not isinstance(step, list | tuple):
        yield as_node(door, argument, step, None, depth + 1)
        return
    if not step:
        raise ValueError(refusal(door, argument, "nothing", "one part or more", "leave the empty list out"))
    for i, part in enumerate(step):
        yield as_node(door, f"{argument}, part {i}", part, None, depth + 1)


def group(door: str, branches: Any, names: Any) -> Node:
    """A node whose branches may run at the same time."""
    for argument, value in (("branches", branches), ("names", names)):
        if not isinstance(value, list | tuple) and (value is not None or argument == "branches"):
            raise TypeError(refusal(door, argument, f"{shown(value)}, a {type(value).__name__}", "a list or tuple",
                                    "pass a list, one item for each branch"))
    if len(branches) < 2:
        raise ValueError(refusal(door, "branches", f"{len(branches)} of them", "two or more",
                                 "add a single one by add_node"))
    if names is not None and len(names) != len(branches):
        raise ValueError(refusal(door, "names", f"{len(names)} of them", f"{len(branches)}, one for each branch",
                                 "name each branch, or leave names= out"))
    made = []
    for i, branch in enumerate(branches):
        name = None if names is None else names[i]
        check_name(door, name)
        nodes = tuple(_parts(door, f"branches[{i}]", branch))
        if name is not None and len(nodes) == 1:
            nodes = (as_node(door, f"branches[{i}]", nodes[0], name),)
        elif name is not None:
            nodes = tuple(Node(node.kind, node.payload, f"{name}.{node.label}", node.grad) for node in nodes)
        made.append(nodes)
    return Node(GROUP, tuple(made))


def arms_of(node: Node) -> Arms:
    """The nodes within a node, an arm behind the other; () for one that holds none."""
    if node.kind == GROUP:
        return node.payload  # type: ignore[no-any-return]
    if node.kind == SEQUENCE:
        return (node.payload,)
    if node.kind == BRANCHES:
        return node.payload.arms  # type: ignore[no-any-return]
    return (node.payload.body,) if node.kind in CONDITIONALS else ()


def leaves(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes that are seen as one: those of groups and sequences one by one, a conditional as a whole."""
    for node in nodes:
        if node.kind in (GROUP, SEQUENCE):
            for arm in arms_of(node):
                yield from leaves(arm)
        else:
            yield node


def has_waits(group: Node) -> bool:
    """Whether a branch of a group waits for another one."""
    return any(leaf.kind == WAIT for arm in arms_of(group) for leaf in leaves(arm))


# ---- kinds -----------------------------------------------------------------------------------------------------------


def _launch_planes(node: Node, *, written: bool) -> tuple[Plane, ...]:
    bound: BoundPlan = node.payload.bound
    arguments = bound.arguments
    planes = []
    for name, slot in arguments.slots.items():
        array = arguments.packed.get(name)
        if not isinstance(array, np.ndarray) or not slot.is_array:
            continue
        if slot.writes if written else not slot.writes or slot.role != "out":
            planes.append(Plane(name, array, slot.role))
    return tuple(planes)


def _each(node: Node, what: str) -> tuple[Plane, ...]:
    """The planes of all that a node holds; of several, by the label of each."""
    inner = [part for arm in arms_of(node) for part in arm]
    if len(inner) == 1:
        return getattr(inner[0], what)  # type: ignore[no-any-return]
    return tuple(plane._replace(name=f"{part.label}.{plane.name}") for part in inner for plane in getattr(part, what))


def cells_of(node: Node) -> dict[str, Any]:
    """The cells that a conditional reads, by name."""
    made = node.payload.made_of
    guard: SkipGuard | None = made.guard
    cells = {"guard": guard and guard.count_arr, "guard_baseline": guard and guard.baseline_arr,
             "limit": getattr(made, "limit", None), "brk": getattr(made, "brk", None)}
    return {name: array for name, array in cells.items() if array is not None}


def _conditional_reads(node: Node) -> tuple[Plane, ...]:
    return (*_each(node, "reads"), *(Plane(name, array, READ) for name, array in cells_of(node).items()))


def _conditional_writes(node: Node) -> tuple[Plane, ...]:
    made, cells = node.payload.made_of, cells_of(node)
    own = () if isinstance(made, Skippable) else (
        Plane("iterations", made.counter, WRITTEN), *(Plane("brk", cells["brk"], WRITTEN) for _ in cells if _ == "brk"))
    return (*_each(node, "writes"), *own)


def _guards(node: Node) -> Iterator[Plane]:
    for guard in node.payload.guards:
        if guard is not None:
            yield Plane("guard", guard.count_arr, READ)
            if guard.baseline_arr is not None:
                yield Plane("guard_baseline", guard.baseline_arr, READ)


def _in_order(node: Node, ctx: object) -> Callable[[], object]:
    def run() -> None:
        for arm in arms_of(node):
            for part in arm:
                part()

    return run


register_built_in(NodeKind(LAUNCH, reads=partial(_launch_planes, written=False),
                           writes=partial(_launch_planes, written=True), lower_gpu=None,
                           lower_cpu=lambda node, ctx: node.payload.bound.launch))
for _kind in (GROUP, SEQUENCE):
    register_built_in(NodeKind(_kind, reads=partial(_each, what="reads"), writes=partial(_each, what="writes"),
                               lower_gpu=None, lower_cpu=_in_order))
register_built_in(NodeKind(BRANCHES, reads=lambda node: (*_each(node, "reads"), *_guards(node)),
                           writes=partial(_each, what="writes"), lower_gpu=None,
                           lower_cpu=lambda node, ctx: node.payload))
register_built_in(NodeKind(WAIT, reads=lambda node: (Plane("plane", node.payload.plane, READ),),
                           writes=lambda node: (), lower_gpu=None, lower_cpu=lambda node, ctx: lambda: None))
for _kind in CONDITIONALS:
    register_built_in(NodeKind(_kind, reads=_conditional_reads, writes=_conditional_writes, lower_gpu=None,
                               lower_cpu=lambda node, ctx: node.payload.made_of))


def address_of(array: Any) -> int:
    """Where an array of host memory begins."""
    return int(array.ctypes.data) if isinstance(array, np.ndarray) else int(_core.import_buffer(array).ptr)
