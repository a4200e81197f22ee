# SPDX-License-Identifier: Apache-2.0
"""From nodes to a program: what is recorded through the seam, and how its stages run."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from eagle import _core, counters, exec
from eagle.errors import BufferRefused, refusal, shown
from eagle.graph.fusion import Fusion
from eagle.graph.places import Place
from eagle.graph.tree import (
    BRANCHES,
    CONDITIONALS,
    GROUP,
    HOST,
    LAUNCH,
    SEQUENCE,
    WAIT,
    arms_of,
    every,
    has_waits,
    leaves,
)
from eagle.interop.buffer import view_for
from eagle.nodes import BUILT_IN, Node, RepeatWhile, SkipGuard, get_node_kind, lowered

__all__ = ["Context", "Step", "bounds_of", "program_of", "refuse_rebound", "refuse_stale", "schedule_of", "steps_of"]

IF, IF_ELSE, WHILE = 1, 2, 3  # kinds of conditionals of the seam
ON_HOST = 3  # direction of a copy of the seam
WHOLE = 2**32 - 1  # no piece of a launch is smaller: it runs on one thread

Step = tuple[Any, ...]


class Context:
    """What a graph tells a node of the run it is lowered for."""

    def __init__(self, door: str, backend: str, body: bool = False) -> None:
        self._door = door
        self.backend = backend  #: "cpu" or "gpu"
        self.body = body  #: whether the node is within a conditional

    def lower(self, child: Node) -> Callable[[], object]:
        """What runs another node."""
        return lowered(self._door, child, self)


def steps_of(door: str, nodes: Sequence[Node], fusion: Fusion) -> tuple[Step, ...]:
    """What is to be recorded of nodes."""
    return tuple(_steps(door, nodes, fusion, Context(door, HOST)))


def program_of(backend: _core.Backend, steps: tuple[Step, ...], nodes: Sequence[Node], places: Sequence[Place],
               attribute: bool = False, stream: int = 0) -> _core.Program:
    """The steps of nodes, recorded; `places` are those of their arrays; `attribute`: to be timed or switched one by
    one; `stream`: where, 0 one of its own."""
    arrays = tuple((place.array, place.writes) for place in places)
    program = _core.Program(backend, -1, steps, arrays, tuple(checks_of(nodes)), attribute, stream)
    counters.add("captures", "instantiations")
    return program


def bounds_of(door: str, nodes: Sequence[Node]) -> list[tuple[Node, _core.Bound]]:
    """The launches of nodes, each with what is recorded of it."""
    return [(node, node.payload.bound.packed(door)) for node in every(nodes) if node.kind == LAUNCH]


def refuse_rebound(door: str, what: str, bounds: Sequence[tuple[Node, _core.Bound]]) -> None:
    """Raise BufferRefused where a plan has other planes than what was recorded of it: a replay is checked by running
    the plans."""
    for node, bound in bounds:
        if node.payload.bound.packed(door) is not bound:
            raise BufferRefused(refusal(door, f"node {node.label!r}", "a plan with other planes, by rebind()",
                                        "those of build(), to check what it recorded", f"make a new {what}"))


def _steps(door: str, nodes: Sequence[Node], fusion: Fusion, ctx: Context) -> Iterator[Step]:
    for run in fusion.fusible(nodes):
        if run[0].kind == LAUNCH:
            yield "launch", tuple(node.payload.bound.packed(door) for node in run), fusion.enabled
        else:
            yield from _step(door, run[0], fusion, ctx)


def _step(door: str, node: Node, fusion: Fusion, ctx: Context) -> Iterator[Step]:
    if node.kind == SEQUENCE:
        yield from _steps(door, node.payload, fusion, ctx)
    elif node.kind == WAIT:
        return
    elif node.kind == GROUP and has_waits(node):
        for arm in arms_of(node):  # in order, a branch comes behind what it waits for
            yield from _steps(door, arm, fusion, ctx)
    elif node.kind == BRANCHES:
        yield from _branches(door, node, fusion)
    elif node.kind == GROUP:
        yield "fork", tuple(tuple(_steps(door, arm, fusion, ctx)) for arm in arms_of(node))
    elif node.kind in CONDITIONALS:
        yield _conditional(door, node, fusion)
    else:
        yield from _other(door, node, ctx)


def _other(door: str, node: Node, ctx: Context) -> Iterator[Step]:
    if node.kind == "copy" and (made := node.payload).is_apart():
        yield "copy", made.target.ptr, made.source.ptr, made.source.nbytes, ON_HOST
        return
    behaviour = get_node_kind(node.kind)
    entry = None if behaviour.native_entry is None else behaviour.native_entry(node, ctx)
    if entry is not None:
        yield "entry", *_native(door, node, entry), node.payload.grain if node.kind == "reduce" else WHOLE
    else:
        yield "call", lowered(door, node, ctx)


def _native(door: str, node: Node, entry: Any) -> Step:
    """What a hook native_entry gave, as plain integers. Raises TypeError for anything else, ValueError for a null
    address and for partitions that lead outside their samples."""
    wanted = "(address, (argument address, ...), ((base, count, samples), ...))"
    argument = f"node {node.label!r}, native_entry of kind {node.kind!r}"
    try:
        address, params, partitions = entry
        native = (operator.index(address), tuple(map(operator.index, params)),
                  tuple((operator.index(base), operator.index(count), operator.index(n))
                        for base, count, n in partitions))
    except (TypeError, ValueError):
        raise TypeError(refusal(door, argument, shown(entry), wanted, "let the hook return that, or None")) from None
    if not 0 < native[0] < 2**64 or not all(0 <= param < 2**64 for param in native[1]):
        raise ValueError(refusal(door, argument, shown(entry), "the address of a host entry, and those of its "
                                 "arguments", "let the hook return them, or None"))
    for base, count, n in native[2]:
        if not (base >= 0 and count >= 0 and base + count <= n < 2**63):
            raise ValueError(refusal(door, argument, f"partition {(base, count, n)}", "one within its samples",
                                     "let the hook return some of 0 to samples"))
    return native


def _conditional(door: str, node: Node, fusion: Fusion) -> Step:
    made = node.payload.made_of
    limit = brk = counter = cap = 0
    count, baseline, negate = _guard(door, made.guard)
    if isinstance(made, RepeatWhile):
        cap, counter = made.cap, _cell(door, made.counter, 0)
        limit, brk = (0 if cells is None else _cell(door, cells, 0) for cells in (made.limit, made.brk))
    body = tuple(_steps(door, node.payload.body, fusion, Context(door, HOST, True)))
    return ("conditional", WHILE if counter else IF, (body,), count, baseline, negate, counter, cap, limit, brk)


def _branches(door: str, node: Node, fusion: Fusion) -> Iterator[Step]:
    """A chain of IF_ELSE, each of which decides once, ahead of what it runs."""
    chain: tuple[Step, ...] = ()
    for guard, arm in zip(reversed(node.payload.guards), reversed(node.payload.arms), strict=True):
        steps = tuple(_steps(door, arm, fusion, Context(door, HOST, True)))
        if guard is None:
            chain = steps
        elif steps or chain:
            count, baseline, negate = _guard(door, guard)
            kind = IF_ELSE if steps and chain else IF
            arms = tuple(part for part in (steps, chain) if part)
            chain = (("conditional", kind, arms, count, baseline, negate ^ (not steps), 0, 0, 0, 0),)
    yield from chain


def _guard(door: str, guard: SkipGuard | None) -> tuple[int, int, int]:
    """The cell, the baseline and whether it is negated; 0: none."""
    if guard is None:
        return 0, 0, 0
    baseline = 0 if guard.baseline_arr is None else _cell(door, guard.baseline_arr, guard.baseline_idx)
    return _cell(door, guard.count_arr, guard.count_idx), baseline, int(guard.negate)


def _cell(door: str, cells: Any, index: int) -> int:
    if isinstance(cells, np.ndarray):
        if index >= cells.shape[0]:
            raise BufferRefused(refusal(door, "a cell", f"number {index} of an array of {cells.shape[0]}",
                                        "the array as it was", "make the condition anew"))
        return int(cells.ctypes.data) + index * int(cells.strides[0])
    view = view_for(door, "a cell", cells)
    return view.ptr + index * view.strides[0] * 4


def refuse_stale(door: str, nodes: Iterable[Node]) -> None:
    """Raise BufferRefused where an array is no longer what it was when its node was made."""
    for node in nodes:
        if node.kind == LAUNCH:
            bound = node.payload.bound
            bound.refuse_moved(door, bound.packed(door))
        elif (check := get_node_kind(node.kind).check) is not None:
            check(node)
        for arm in arms_of(node):
            refuse_stale(door, arm)


def checks_of(nodes: Iterable[Node]) -> Iterator[Callable[[], object]]:
    """What is asked ahead of each launch; that of eagle's own nodes over arrays of numpy alone is what a program asks
    of every array."""
    for node in nodes:
        check = get_node_kind(node.kind).check
        if check is not None and not (node.kind in BUILT_IN and all(
                isinstance(plane.array, np.ndarray) for plane in (*node.reads, *node.writes))):
            yield partial(check, node)
        for arm in arms_of(node):
            yield from checks_of(arm)


# ---- schedules -------------------------------------------------------------------------------------------------------


def schedule_of(node: Node) -> str:
    """How a stage runs: "branch_tasks", a branch on each thread, or "work_share", a node on all of them."""
    if node.kind != GROUP:
        return "work_share"
    each = [_native_samples(leaf) for leaf in leaves([node])]
    samples = [n for n in each if n is not None]
    beside = _core.branch_tasks(max(samples, default=0), len(arms_of(node)), exec.num_threads(), samples == each)
    return "branch_tasks" if beside else "work_share"


def _native_samples(node: Node) -> int | None:
    """The samples of a node that a thread of the team can run; None where it takes the calling one."""
    if node.kind == LAUNCH:
        bound = node.payload.bound
        finished = any(stage.cells or stage.companions for stage in bound.plan.signature.stages)
        return None if finished else int(bound.n)
    if node.kind == "reduce":
        return int(node.payload.samples)
    return 0 if node.kind == "copy" and node.payload.is_apart() else None
