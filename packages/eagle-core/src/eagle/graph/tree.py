# SPDX-License-Identifier: Apache-2.0
"""What a graph is made of: nodes, and nodes that hold others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

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
    check_grad,
    check_name,
    opaque,
    register_built_in,
)
from eagle.plan import BoundPlan
from eagle.sidecar import refuse_derived

__all__ = ["BRANCHES", "Branches", "CONDITIONALS", "Conditional", "DEVICE", "GROUP", "HOST", "LAUNCH", "Launch",
           "REPEAT_WHILE", "SEQUENCE", "SKIPPABLE", "WAIT", "Wait", "arms_of", "as_node", "every", "group", "has_waits",
           "launch", "leaves", "planes_of", "with_arms"]

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
    check_grad(door, grad)
    refuse_derived(bound.plan.signature.stages[0].plugin, door=door)
    arguments = bound.arguments
    if copies := sorted(arguments.copies):
        raise ValueError(refusal(door, f"bound, planes {copies}", "arrays that each launch would copy",
                                 "contiguous arrays, with a row for each component", "keep them with the samples "
                                 "last, as numpy.empty((3, n)) or its .T: a graph works on the very arrays"))
    for plane, slot in arguments.slots.items():
        if slot.is_array and plane in arguments.given and plane not in arguments.memory:
            raise ValueError(refusal(door, f"bound, plane {plane!r}", "an array that bind() copied",
                                     f"one of {slot.dtype}, contiguous", "convert it first: a graph works on the very "
                                     "arrays"))
    return Node(LAUNCH, Launch(bound), name, grad)


def as_node(door: str, argument: str, part: Any, name: str | None = None, *, bare: bool = False,
            depth: int = 0) -> Node:
    """A part of a step as a node: a node, a bound plan or its launch, a conditional, a sequence of parts, or, where it
    may be `bare`, a function without arguments, of which nothing is known. Raises TypeError for others, ValueError for
    an empty sequence and for more than MOST_NESTED within each other."""
    check_name(door, name)
    if depth > MOST_NESTED:
        raise ValueError(refusal(door, argument.partition(",")[0], f"more than {MOST_NESTED} lists or conditionals "
                                 "within each other", f"up to {MOST_NESTED}", "nest less"))
    if isinstance(part, BoundPlan):
        return launch(door, part, name)
    if isinstance(owner := getattr(part, "__self__", None), BoundPlan) and part == owner.launch:
        return launch(door, owner, name)
    if isinstance(part, Node):
        return part if name is None else replace(part, name=name)
    if isinstance(part, Skippable | RepeatWhile):
        kind = SKIPPABLE if isinstance(part, Skippable) else REPEAT_WHILE
        step = _parts(door, f"{argument}, step", part.step, bare=True, depth=depth)
        return Node(kind, Conditional(part, tuple(step)), name)
    if isinstance(part, list | tuple):
        return Node(SEQUENCE, tuple(_parts(door, argument, part, bare=bare, depth=depth)), name)
    if bare and callable(part):
        known = getattr(part, "as_node", None)  # of the body of a runner's loop
        if known is None:
            return opaque(part, name=name)
        return as_node(door, argument, known(), name, bare=True, depth=depth + 1)
    raise TypeError(refusal(door, argument, f"{shown(part)}, a {type(part).__name__}", "a Node, a BoundPlan, a "
                            "skippable or repeat_while, or a list of them", "wrap your own code in eagle.opaque"))


def _parts(door: str, argument: str, step: Any, *, bare: bool, depth: int) -> Iterator[Node]:
    if not isinstance(step, list | tuple):
        yield as_node(door, argument, step, bare=bare, depth=depth + 1)
        return
    if not step:
        raise ValueError(refusal(door, argument, "nothing", "one part or more", "leave the empty list out"))
    for i, part in enumerate(step):
        yield as_node(door, f"{argument}, part {i}", part, bare=bare, depth=depth + 1)


def group(door: str, branches: Any, names: Any, *, bare: bool = False) -> Node:
    """A node whose branches may run at the same time; `bare` as :func:`as_node` has it."""
    for argument, value in (("branches", branches), ("names", names)):
        if not isinstance(value, list | tuple) and (value is not None or argument == "branches"):
            raise TypeError(refusal(door, argument, f"{shown(value)}, a {type(value).__name__}", "a list or tuple",
                                    "pass a list, one item for each branch"))
    if len(branches) < 2:
        raise ValueError(refusal(door, "branches", f"{len(branches)} of them", "two or more",
                                 "add a single one by add, or add_node"))
    if names is not None and len(names) != len(branches):
        raise ValueError(refusal(door, "names", f"{len(names)} of them", f"{len(branches)}, one for each branch",
                                 "name each branch, or leave names= out"))
    made = []
    for i, branch in enumerate(branches):
        name = None if names is None else names[i]
        check_name(door, name)
        nodes = tuple(_parts(door, f"branches[{i}]", branch, bare=bare, depth=0))
        if name is not None:
            alone = sum(1 for _ in leaves(nodes)) == 1
            nodes = tuple(_named(node, name, alone) for node in nodes)
        made.append(nodes)
    return Node(GROUP, tuple(made))


def _named(node: Node, name: str, alone: bool) -> Node:
    """The node of a branch of that name; `alone`: there is no other in it."""
    if node.kind in (GROUP, SEQUENCE):
        return with_arms(node, tuple(tuple(_named(part, name, alone) for part in arm) for arm in arms_of(node)))
    return replace(node, name=name if alone else f"{name}.{node.label}")


def arms_of(node: Node) -> Arms:
    """The nodes within a node, an arm behind the other; () for one that holds none."""
    if node.kind == GROUP:
        return node.payload  # type: ignore[no-any-return]
    if node.kind == SEQUENCE:
        return (node.payload,)
    if node.kind == BRANCHES:
        return node.payload.arms  # type: ignore[no-any-return]
    return (node.payload.body,) if node.kind in CONDITIONALS else ()


def with_arms(node: Node, arms: Arms) -> Node:
    """The node with other nodes in the place of those it holds."""
    payload: Any = arms
    if node.kind == SEQUENCE:
        payload = arms[0]
    elif node.kind == BRANCHES:
        payload = replace(node.payload, arms=arms)
    elif node.kind in CONDITIONALS:
        payload = replace(node.payload, body=arms[0])
    return replace(node, payload=payload)


def leaves(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes that are seen as one: those of groups and sequences one by one, a conditional as a whole."""
    for node in nodes:
        if node.kind in (GROUP, SEQUENCE):
            for arm in arms_of(node):
                yield from leaves(arm)
        else:
            yield node


def every(nodes: Iterable[Node]) -> Iterator[Node]:
    """All nodes, those within others too."""
    for node in nodes:
        yield node
        for arm in arms_of(node):
            yield from every(arm)


def planes_of(node: Node) -> tuple[tuple[Plane, ...], tuple[Plane, ...]]:
    """What a node reads, and what it writes."""
    return _launch_planes(node) if node.kind == LAUNCH else (node.reads, node.writes)


def has_waits(group: Node) -> bool:
    """Whether a branch of a group waits for another one."""
    return any(leaf.kind == WAIT for arm in arms_of(group) for leaf in leaves(arm))


# ---- kinds -----------------------------------------------------------------------------------------------------------


def _launch_planes(node: Node) -> tuple[tuple[Plane, ...], tuple[Plane, ...]]:
    bound: BoundPlan = node.payload.bound
    packed = bound.arguments.packed
    reads, writes = [], []
    for name, role, read, written in bound.plan.signature.touches:
        if isinstance(array := packed.get(name), np.ndarray):
            plane = Plane(name, array, role)
            if read:
                reads.append(plane)
            if written:
                writes.append(plane)
    return tuple(reads), tuple(writes)


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


def _are_nodes(payload: object) -> bool:
    return isinstance(payload, tuple) and all(isinstance(node, Node) for node in payload)


def _in_order(node: Node, ctx: object) -> Callable[[], object]:
    def run() -> None:
        for arm in arms_of(node):
            for part in arm:
                part()

    return run


register_built_in(NodeKind(LAUNCH, reads=lambda node: _launch_planes(node)[0],
                           writes=lambda node: _launch_planes(node)[1], lower_gpu=None,
                           lower_cpu=lambda node, ctx: node.payload.bound.launch),
                  lambda payload: isinstance(payload, Launch))
for _kind, _fits in ((GROUP, lambda payload: isinstance(payload, tuple) and all(map(_are_nodes, payload))),
                     (SEQUENCE, _are_nodes)):
    register_built_in(NodeKind(_kind, reads=partial(_each, what="reads"), writes=partial(_each, what="writes"),
                               lower_gpu=None, lower_cpu=_in_order), _fits)
register_built_in(NodeKind(BRANCHES, reads=lambda node: (*_each(node, "reads"), *_guards(node)),
                           writes=partial(_each, what="writes"), lower_gpu=None,
                           lower_cpu=lambda node, ctx: node.payload),
                  lambda payload: isinstance(payload, Branches))
register_built_in(NodeKind(WAIT, reads=lambda node: (Plane("plane", node.payload.plane, READ),),
                           writes=lambda node: (), lower_gpu=None, lower_cpu=lambda node, ctx: lambda: None),
                  lambda payload: isinstance(payload, Wait))
for _kind in CONDITIONALS:
    register_built_in(NodeKind(_kind, reads=_conditional_reads, writes=_conditional_writes, lower_gpu=None,
                               lower_cpu=lambda node, ctx: node.payload.made_of),
                      lambda payload: isinstance(payload, Conditional))
