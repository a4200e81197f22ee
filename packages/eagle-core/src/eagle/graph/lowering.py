# SPDX-License-Identifier: Apache-2.0
"""From nodes to a program: what is recorded through the seam, and which launches may run tile by tile."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from eagle import _core, counters, exec
from eagle.errors import BufferRefused, refusal
from eagle.graph.tree import BRANCHES, CONDITIONALS, GROUP, HOST, LAUNCH, SEQUENCE, WAIT, arms_of, has_waits, leaves
from eagle.interop.buffer import view_for
from eagle.nodes import BUILT_IN, Node, Plane, RepeatWhile, SkipGuard, get_node_kind
from eagle.plan import BoundPlan
from eagle.plan.signature import Use
from eagle.stepping.relocation import Reach, reach

__all__ = ["BRANCH_TASKS_MAX_SAMPLES", "Context", "Fusion", "Place", "Touched", "places_of", "program_of",
           "refuse_moved", "schedule_of", "touched_by"]

IF, IF_ELSE, WHILE = 1, 2, 3  # kinds of conditionals of the seam
ON_HOST = 3  # direction of a copy of the seam
WHOLE = 2**32 - 1  # no piece of a launch is smaller: it runs on one thread
#: A group of branches over at most so many samples runs a branch on a thread each.
BRANCH_TASKS_MAX_SAMPLES = 4096

Step = tuple[Any, ...]


class Context:
    """What a graph tells a node of the run it is lowered for."""

    def __init__(self, backend: str, body: bool = False) -> None:
        self.backend = backend  #: "cpu" or "gpu"
        self.body = body  #: whether the node is within a conditional

    def lower(self, child: Node) -> Callable[[], object]:
        """What runs another node."""
        return get_node_kind(child.kind).lower_cpu(child, self)


def program_of(door: str, backend: _core.Backend, nodes: Sequence[Node], fusion: Fusion, places: Sequence[Place],
               attribute: bool = False) -> _core.Program:
    """The nodes, recorded; `places` are those of their arrays; `attribute`: to be timed one by one."""
    steps = tuple(_steps(door, nodes, fusion, Context(HOST)))
    arrays = tuple((place.array, place.writes) for place in places)
    program = _core.Program(backend, -1, steps, arrays, tuple(checks_of(nodes)), attribute)
    counters.add("captures", "instantiations")
    return program


def _steps(door: str, nodes: Sequence[Node], fusion: Fusion, ctx: Context) -> Iterator[Step]:
    for run in fusion.runs(nodes):
        if run[0].kind == LAUNCH:
            yield "launch", tuple(node.payload.bound.packed(door) for node in run), len(run) > 1
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
        yield from _other(node, ctx)


def _other(node: Node, ctx: Context) -> Iterator[Step]:
    if node.kind == "copy" and (made := node.payload).is_apart():
        yield "copy", made.target.ptr, made.source.ptr, made.source.nbytes, ON_HOST
        return
    behaviour = get_node_kind(node.kind)
    entry = None if behaviour.native_entry is None else behaviour.native_entry(node, ctx)
    if entry is not None:
        address, params, partitions = entry
        yield "entry", address, params, partitions, getattr(node.payload, "grain", WHOLE)
    else:
        yield "call", behaviour.lower_cpu(node, ctx)


def _conditional(door: str, node: Node, fusion: Fusion) -> Step:
    made = node.payload.made_of
    limit = brk = counter = cap = 0
    count, baseline, negate = _guard(door, made.guard)
    if isinstance(made, RepeatWhile):
        cap, counter = made.cap, _cell(door, made.counter, 0)
        limit, brk = (0 if cells is None else _cell(door, cells, 0) for cells in (made.limit, made.brk))
    body = tuple(_steps(door, node.payload.body, fusion, Context(HOST, True)))
    return ("conditional", WHILE if counter else IF, (body,), count, baseline, negate, counter, cap, limit, brk)


def _branches(door: str, node: Node, fusion: Fusion) -> Iterator[Step]:
    """A chain of IF_ELSE, each of which decides once, ahead of what it runs."""
    chain: tuple[Step, ...] = ()
    for guard, arm in zip(reversed(node.payload.guards), reversed(node.payload.arms), strict=True):
        steps = tuple(_steps(door, arm, fusion, Context(HOST, True)))
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


class Place(NamedTuple):
    """An array of numpy that some node touches, where it was at build(), and whether some node writes it."""

    node: str
    plane: str
    array: np.ndarray[Any, Any]
    address: int
    shape: tuple[int, ...]
    writes: bool

    def found(self) -> str | None:
        """What became of it; None where nothing did."""
        if self.array.ctypes.data != self.address or self.array.shape != self.shape:
            return f"an array of shape {self.array.shape} at another place or of another size"
        return "a read-only array" if self.writes and not self.array.flags.writeable else None


class Touched(NamedTuple):
    """A node that is seen as one, with what it reads and writes."""

    node: Node
    reads: tuple[Plane, ...]
    writes: tuple[Plane, ...]


def touched_by(nodes: Sequence[Node]) -> list[Touched]:
    """What the nodes touch, asked of each once."""
    return [Touched(node, node.reads, node.writes) for node in leaves(nodes)]


def places_of(touched: Sequence[Touched]) -> tuple[Place, ...]:
    """Every array of numpy that some node touches."""
    found: dict[int, Place] = {}
    for node, reads, writes in touched:
        for planes, written in ((reads, False), (writes, True)):
            for plane in planes:
                array = plane.array
                if not isinstance(array, np.ndarray):
                    continue
                if (known := found.get(id(array))) is None:
                    found[id(array)] = Place(node.label, plane.name, array, array.ctypes.data, array.shape, written)
                elif written and not known.writes:
                    found[id(array)] = known._replace(node=node.label, plane=plane.name, writes=True)
    return tuple(found.values())


def refuse_moved(door: str, nodes: Iterable[Node]) -> None:
    """Raise BufferRefused where an array is no longer what it was when its node was made."""
    for node in nodes:
        if node.kind == LAUNCH:
            bound = node.payload.bound
            bound.refuse_moved(door, bound.packed(door))
        elif (check := get_node_kind(node.kind).check) is not None:
            check(node)
        for arm in arms_of(node):
            refuse_moved(door, arm)


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
    if node.kind != GROUP or exec.num_threads() < 2:
        return "work_share"
    launches = [part for arm in arms_of(node) for part in _flat(arm)]
    few = all(part.kind == LAUNCH and part.payload.bound.n <= BRANCH_TASKS_MAX_SAMPLES for part in launches)
    return "branch_tasks" if few else "work_share"


def _flat(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind == SEQUENCE:
            yield from _flat(node.payload)
        else:
            yield node


class Fusion:
    """Which consecutive launches run tile by tile, together; of a graph that is asked to, and for one build.

    Launches over the same samples, each of which touches of every plane that some of them writes the cells of its own
    sample alone, and which share memory only where a plane is the very same.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._local: dict[int, bool] = {}  # by the identity of a signature
        self._found: dict[tuple[int, ...], list[list[Node]]] = {}

    def runs(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The nodes in order; what runs together in one list."""
        key = tuple(map(id, nodes))
        if key not in self._found:
            self._found[key] = list(self._runs(nodes)) if self._wanted else [[node] for node in nodes]
        return self._found[key]

    def _runs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        run: list[Node] = []
        tiles = _Tiles()
        for node in nodes:
            fits = node.kind == LAUNCH and self._is_local(node)
            if fits and tiles.take(node):
                run.append(node)
                continue
            if run:
                yield run
            run, tiles = [], _Tiles()
            if fits and tiles.take(node):
                run.append(node)
            else:
                yield [node]
        if run:
            yield run

    def _is_local(self, node: Node) -> bool:
        """Whether each sample of a launch touches only its own cells of what is written."""
        bound: BoundPlan = node.payload.bound
        signature = bound.plan.signature
        if (known := self._local.get(id(signature))) is None:
            known = len(signature.stages) == 1 and reach(signature) >= Reach.LOCAL and all(
                slot.use is Use.SAMPLES or not slot.writes for slot in signature.stages[0].slots)
            self._local[id(signature)] = known
        whole = bound.plan.npartitions == 1 and bound.plan.partitions is None
        return known and whole and not bound.cleared


_Key = tuple[int, int, int, bool]  # address, bytes, width, whether it has a column a sample


class _Tiles:
    """What the launches of a run touch."""

    def __init__(self) -> None:
        self._n: int | None = None
        self._planes: dict[_Key, bool] = {}  # whether it is written
        self._spans: list[tuple[int, int, bool, _Key]] = []  # begin, end, written, whose
        self._longest = 0

    def take(self, node: Node) -> bool:
        """Whether a launch may join; if so it has."""
        bound = node.payload.bound
        if self._n is not None and bound.n != self._n:
            return False
        new: dict[_Key, bool] = {}
        for name, slot in bound.arguments.slots.items():
            array = bound.arguments.packed.get(name)
            if not isinstance(array, np.ndarray) or not array.size:
                continue
            own, begin = slot.use is Use.SAMPLES, int(array.ctypes.data)
            key = (begin, array.nbytes, slot.width, own)
            known = self._planes.get(key)
            asked = known is not None and (known or not slot.writes)
            if not asked and not self._is_apart(key, slot.writes):
                return False
            if known is not None and not own and (known or slot.writes):
                return False
            new[key] = new.get(key, False) or slot.writes
        self._n = bound.n
        for key, written in new.items():
            known = self._planes.get(key)
            self._planes[key] = bool(known) or written
            if known is None or written and not known:
                insort(self._spans, (key[0], key[0] + key[1], written, key))
                self._longest = max(self._longest, key[1])
        return True

    def _is_apart(self, key: _Key, written: bool) -> bool:
        """Whether nothing else that a plane overlaps is written, by it or by others."""
        begin, end = key[0], key[0] + key[1]
        at = bisect_right(self._spans, (end,)) - 1
        while at >= 0 and self._spans[at][0] > begin - self._longest:
            other = self._spans[at]
            if other[1] > begin and (written or other[2]) and other[3] != key:
                return False
            at -= 1
        return True
