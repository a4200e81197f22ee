# SPDX-License-Identifier: Apache-2.0
"""Random graphs have the bits of a serial interpreter in NumPy, and those that could race are refused.

The plain tests run a sample; ``nox -s graphs`` runs ``$EAGLE_GRAPH_CASES`` programs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Graph
from eagle.graph.tree import group

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(3600)]

CASES = int(os.environ.get("EAGLE_GRAPH_CASES", "300"))
SIZES = (1, 5, 64, 1000, 4096, 5000)
FLOATS, INTS, CELLS = 9, 4, 4
Array = np.ndarray[Any, Any]


# ---- memory ----------------------------------------------------------------------------------------------------------


@dataclass
class World:
    """The arrays of a program: views into three buffers, so that many share bytes."""

    n: int
    floats: Array
    ints: Array
    cells: Array
    loops: dict[int, Any] = field(default_factory=dict)  #: by the id of an operation

    @classmethod
    def of(cls, n: int, seed: int) -> World:
        rng = np.random.default_rng(seed)
        return cls(n, rng.uniform(-2, 2, 6 * n + 3), rng.integers(0, n, 3 * n),
                   rng.integers(0, 3, CELLS).astype(np.uint32))

    def copy(self) -> World:
        return World(self.n, self.floats.copy(), self.ints.copy(), self.cells.copy())

    def plane(self, i: int) -> Array:
        """One of the planes: (n,) and contiguous."""
        n = self.n
        at = (0, n, 2 * n, 3 * n, 4 * n, 5 * n, n // 2, 3 * n + 1, 5 * n + 3)[i]
        return self.floats[at:at + n]

    def strided(self, i: int) -> Array:
        """Views that only own code takes."""
        f = self.floats
        return (f[::2], f[1::2], f[::-1], f[self.n:3 * self.n:3], f[-1:-self.n - 1:-2], f[:0])[i]

    def vector(self, i: int) -> Array:
        at = (0, 3 * self.n)[i]
        return self.floats[at:at + 3 * self.n].reshape(3, self.n)

    def whole(self, i: int) -> Array:
        at = (self.n, 2 * self.n, self.n + self.n // 2, self.n)[i]
        return self.ints[at:at + self.n]

    @property
    def index(self) -> Array:
        """Samples; nobody writes them."""
        return self.ints[:self.n]

    def one(self, i: int) -> Array:
        return self.plane(i)[:1]


# ---- operations: what NumPy does, and the node -----------------------------------------------------------------------


@cache
def plan(name: str, parts: int) -> eagle.AutoPlan:
    return eagle.deploy(getattr(ks, name), npartitions=parts)  # not before the fixture that says how kernels are built


@dataclass
class Simple:
    """An operation over a world: what it does to it, the arrays it reads and writes, and what a graph is given."""

    run: Callable[[], object]
    reads: list[Array]
    writes: list[Array]
    part: Callable[[], Any]


def disjoint(*arrays: Array) -> bool:
    return not any(np.shares_memory(a, b) for a, b in itertools.combinations(arrays, 2))


def kernel(name: str, run: Callable[[], object], reads: Sequence[Array], writes: Sequence[Array],
           **arguments: Any) -> Simple:
    parts = 1 + (len(reads[0]) > 64 and name == "drift") if reads else 1  # fused launches are of one partition
    return Simple(run, [*reads, *writes], list(writes), lambda: plan(name, parts).bind(**arguments))


def own(run: Callable[[], object], reads: Sequence[Array], writes: Sequence[Array]) -> Simple:
    return Simple(run, list(reads), list(writes), lambda: opaque(run, reads=list(reads), writes=list(writes)))


def simple(op: tuple[Any, ...], world: World) -> Simple:
    """What an operation is; a kernel whose planes would overlap becomes one in place."""
    name, *numbers = op
    w, i, j, k, m = (world, *numbers[:4])
    x, y, s, d = w.plane(i), w.plane(j), w.plane(k), w.plane(m)
    a, b = (0.5, -1.25, 1.0)[i % 3], (0.125, -0.5)[j % 2]

    if name == "affine" and disjoint(x, y):
        return kernel("affine", lambda: np.copyto(y, a * x + b), [x], [y], x=x, out=y, a=a, b=b)
    if name == "drift" and disjoint(x, y):
        return kernel("drift", lambda: np.copyto(x, x * a + y), [y], [x], x=x, y=y, a=a)
    if name == "both" and disjoint(s, d) and disjoint(s, x) and disjoint(s, y) and disjoint(d, x) and disjoint(d, y):
        def run() -> None:
            s[:], d[:] = x + y, x * 0.5 - y
        return kernel("both", run, [x, y], [s, d], x=x, y=y, s=s, d=d)
    if name == "lookup" and disjoint(x, y):
        return kernel("lookup", lambda: np.copyto(y, x[w.index] * 0.5), [x, w.index], [y], i=w.index, t=x, out=y)
    if name == "turn":
        v = w.vector(i % 2)
        return kernel("turn", lambda: np.copyto(v, np.array([v[1] * b, v[2] - v[0], v[0] + v[1]])), [], [v], v=v, a=b)
    p, q, r = (w.whole(at % INTS) for at in (i, j, k))
    if name == "whole" and disjoint(p, r) and disjoint(q, r):
        return kernel("whole", lambda: np.copyto(r, p + q), [p, q], [r], i=p, j=q, k=r)
    if name in ("whole", "count"):
        q = q if disjoint(p, q) else w.index
        return kernel("count", lambda: np.copyto(p, p + q), [q], [p], i=p, j=q)
    if name == "copy":
        return Simple(lambda: np.copyto(y, x.copy()), [x], [y], lambda: eagle.copy(x, into=y))
    if name == "max" and disjoint(x, w.one(j)):
        out = w.one(j)
        return Simple(lambda: np.copyto(out, x.max()), [x], [out], lambda: eagle.reduce(x, out, op="max"))
    if name == "sum" and disjoint(x, w.one(j)):
        out = w.one(j)
        return Simple(lambda: eagle.reduce(x, out)(), [x], [out], lambda: eagle.reduce(x, out))
    if name == "own":
        u = w.strided(i % 6)
        return own(lambda: np.copyto(u, u[::-1] * 0.5 + 1.0), [u], [u])
    if name == "mix":
        u, v = w.strided(i % 6), w.cells[k % CELLS:][:1]
        return own(lambda: np.copyto(y, y * 0.5 + float(v[0]) + float(u[:1].sum())), [u, v, y], [y])
    if name == "cell":
        c, to = w.cells[i % CELLS:][:1], np.uint32(j % 3)
        return own(lambda: np.copyto(c, to), [], [c])
    if name == "step":
        c, to = w.cells[i % CELLS:][:1], w.cells[j % CELLS:][:1]
        return own(lambda: np.copyto(to, (to + c) % np.uint32(3)), [c, to], [to])
    return kernel("halve", lambda: np.copyto(x, x * 0.5), [], [x], x=x)


def holds(guard: Any, cells: Array) -> bool:
    at, base, negate = guard
    return bool((cells[at] != (0 if base is None else cells[base])) != negate)


def interpreted(program: Sequence[Any], world: World) -> None:
    """The serial meaning of a program."""
    for op in program:
        if op[0] == "group":
            for branch in op[1]:
                interpreted(branch, world)
        elif op[0] == "skip":
            if holds(op[2], world.cells):
                interpreted(op[1], world)
        elif op[0] == "loop":
            _, body, guard, cap, limit, brk = op
            if brk is not None:
                world.cells[brk] = 0
            ran = 0
            while ran < cap and (limit is None or ran < world.cells[limit]) and (
                    guard is None or holds(guard, world.cells)):
                interpreted(body, world)
                ran += 1
                if brk is not None and world.cells[brk] != 0:
                    break
            world.loops[id(op)] = [cap - ran, ran]
        else:
            simple(op, world).run()


# ---- the graph -------------------------------------------------------------------------------------------------------


def parts(program: Sequence[Any], world: World) -> list[Any]:
    """What a graph is given, in order; ("group", branches) for a group."""
    made: list[Any] = []
    for op in program:
        if op[0] == "group":
            made.append(("group", [parts(branch, world) for branch in op[1]]))
        elif op[0] in ("skip", "loop"):
            body = tuple(map(as_step, parts(op[1], world)))
            guard = op[2] and SkipGuard(world.cells, op[2][0], None if op[2][1] is None else world.cells, op[2][1] or 0,
                                        op[2][2])
            if op[0] == "skip":
                made.append(skippable(body[0] if len(body) == 1 else body, guard))
            else:
                limit, brk = (None if at is None else world.cells[at:at + 1] for at in op[4:])
                made.append(repeat_while(body, guard, op[3], limit=limit, brk=brk))
                world.loops[id(op)] = made[-1]
        else:
            made.append(simple(op, world).part())
    return made


def as_step(part: Any) -> Any:
    """A part of a body."""
    return part.launch if isinstance(part, eagle.BoundPlan) else as_part(part)


def as_part(part: Any) -> Any:
    """A part of a branch or body: a group there is a node, which only builders make otherwise."""
    return group("test", [list(map(as_part, branch)) for branch in part[1]], None) if isinstance(part, tuple) else part


def graph_of(program: Sequence[Any], world: World) -> Graph:
    g = Graph()
    for part in parts(program, world):
        if isinstance(part, tuple):
            g.add_group([list(map(as_part, branch)) for branch in part[1]])
        elif isinstance(part, eagle.BoundPlan):
            g.add(part)
        else:
            g.add_node(part)
    return g


# ---- which could race, and what waits for what -----------------------------------------------------------------------


@dataclass
class Leaf:
    reads: list[Array]
    writes: list[Array]
    path: tuple[tuple[int, int], ...]  #: (group, branch) from the outside in


def leaves(program: Sequence[Any], world: World, path: tuple[tuple[int, int], ...] = ()) -> list[Leaf]:
    """What a graph sees: operations in order, a conditional as one."""
    found: list[Leaf] = []
    for op in program:
        if op[0] == "group":
            for i, branch in enumerate(op[1]):
                found += leaves(branch, world, (*path, (id(op), i)))
        elif op[0] in ("skip", "loop"):
            inner = leaves(op[1], world)
            cells = [at for at in (*(op[2][:2] if op[2] else ()), *op[4:]) if at is not None]
            counter = [world.loops[id(op)].counter] if op[0] == "loop" else []
            whole = op[2] is not None
            reads = [world.cells] * whole + [world.cells[at:at + 1] for at in cells]
            brk = [world.cells[op[5]:op[5] + 1]] if op[0] == "loop" and op[5] is not None else []
            found.append(Leaf([a for leaf in inner for a in leaf.reads] + reads,
                              [a for leaf in inner for a in leaf.writes] + counter + brk, path))
        else:
            one = simple(op, world)
            found.append(Leaf(one.reads, one.writes, path))
    return found


def siblings(a: Leaf, b: Leaf) -> bool:
    return any(one[0] == two[0] and one[1] != two[1] for one, two in itertools.product(a.path, b.path))


def meet(some: Sequence[Array], others: Sequence[Array]) -> bool:
    return any(np.may_share_memory(a, b) and np.shares_memory(a, b) for a in some for b in others)


def hazards(a: Leaf, b: Leaf) -> set[str]:
    return {kind for kind, some, others in (("RAW", a.writes, b.reads), ("WAW", a.writes, b.writes),
                                            ("WAR", a.reads, b.writes)) if meet(some, others)}


def races(program: Sequence[Any], world: World) -> bool:
    """Whether branches of a group could race, also of one within what conditionals hold."""
    found = leaves(program, world)
    if any(siblings(a, b) and hazards(a, b) for a, b in itertools.combinations(found, 2)):
        return True
    return any(races(op[1], world) for op in conditionals(program))


def conditionals(program: Sequence[Any]) -> Iterator[Any]:
    """Those of a program, and of its groups, not those within them."""
    for op in program:
        if op[0] == "group":
            for branch in op[1]:
                yield from conditionals(branch)
        elif op[0] in ("skip", "loop"):
            yield op


def serial(program: Sequence[Any]) -> list[Any]:
    """The program with the branches of its groups one behind the other."""
    made: list[Any] = []
    for op in program:
        if op[0] == "group":
            for branch in op[1]:
                made += serial(branch)
        elif op[0] in ("skip", "loop"):
            made.append((op[0], serial(op[1]), *op[2:]))
        else:
            made.append(op)
    return made


# ---- programs --------------------------------------------------------------------------------------------------------


number = st.integers(0, FLOATS - 1)
names = st.sampled_from(["affine", "affine", "drift", "drift", "both", "lookup", "whole", "count", "turn", "halve",
                         "copy",
                         "max", "sum", "own", "mix", "cell", "step"])
ops = st.tuples(names, number, number, number, number)
cell = st.integers(0, CELLS - 1)
guards = st.tuples(cell, st.none() | cell, st.booleans())


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(
        st.tuples(st.just("group"), st.lists(some, min_size=2, max_size=4)),
        st.tuples(st.just("skip"), some, guards),
        st.tuples(st.just("loop"), some, st.none() | guards, st.integers(1, 3), st.none() | cell,
                  st.none() | cell).filter(
            lambda loop: loop[2:3] + loop[4:] != (None, None, None)))


programs = st.lists(st.one_of(ops, st.recursive(ops, nested, max_leaves=10)), min_size=1, max_size=8)


def branches_apart(draw: st.DrawFn) -> tuple[Any, ...]:
    """A group whose branches keep to planes of their own, most of the time."""
    each = [st.lists(st.tuples(st.sampled_from(["affine", "drift", "halve", "copy", "mix"]),
                               plane, plane, plane, plane),
                     min_size=1, max_size=5) for plane in (st.integers(0, 1), st.integers(2, 3), st.integers(4, 5))]
    return ("group", [draw(branch) for branch in each[:draw(st.integers(2, 3))]])


@st.composite
def cases(draw: st.DrawFn) -> list[Any]:
    program = draw(programs)
    for _ in range(draw(st.integers(0, 2))):
        program.insert(draw(st.integers(0, len(program))), branches_apart(draw))
    for _ in range(draw(st.integers(0, 1))):  # a fork within a body
        body = [branches_apart(draw), *draw(st.lists(ops, max_size=2))]
        program.insert(draw(st.integers(0, len(program))), ("loop", body, None, 2, draw(cell), None))
    return program


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=cases(), n=st.sampled_from(SIZES), seed=st.integers(0, 99), threads=st.integers(1, 4),
       fuse=st.booleans(),
       times=st.integers(1, 3))
def test_any_program_has_the_bits_of_a_serial_one(program: list[Any], n: int, seed: int, threads: int, fuse: bool,
                                                  times: int) -> None:
    world = World.of(n, seed)
    expected = world.copy()
    before = eagle.num_threads()
    eagle.set_num_threads(threads)
    try:
        g = graph_of(program, world)
        g.fuse = fuse
        found = leaves(program, world)
        assert g.num_nodes() == len(found)
        pairs = [(i, j) for i, j in itertools.combinations(range(len(found)), 2)]
        assert {(src, dst, kind) for src, dst, _, kind in g.edges()} == {
            (i, j, kind) for i, j in pairs if not siblings(found[i], found[j]) for kind in hazards(found[i], found[j])}
        if races(program, world):
            with pytest.raises(ValueError, match=r"^eagle\.Graph\.build: nodes .* one branch$"):
                g.build()
            program = serial(program)
            g = graph_of(program, world)
            g.fuse = fuse
        g.build()
        for _ in range(2):
            g.launch(times)
            for _ in range(times):
                interpreted(program, expected)
            for mine, theirs in ((world.floats, expected.floats), (world.ints, expected.ints),
                                 (world.cells, expected.cells)):
                assert mine.tobytes() == theirs.tobytes()
    finally:
        eagle.set_num_threads(before)
