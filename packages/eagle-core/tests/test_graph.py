# SPDX-License-Identifier: Apache-2.0
"""eagle.Graph: what it says of itself, the order it finds, conditionals, and how it runs."""

from __future__ import annotations

import gc
import math
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
import stepping_kernels
from numpy.testing import assert_array_equal

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Edge, Graph, Node, register_node_kind
from eagle.nodes import node as kinds

Array = np.ndarray[Any, Any]


def u32(*values: int) -> Array:
    return np.array(values, np.uint32)


def ramp(n: int = 8) -> Array:
    return np.linspace(-1.0, 2.0, n)


def bind(kernel: Any, **planes: Any) -> Any:
    return eagle.deploy(kernel).bind(**planes)


def nothing() -> None: ...


def touching(reads: dict[str, Any] | None = None, writes: dict[str, Any] | None = None, name: str | None = None) -> Node:
    return opaque(nothing, reads=reads or {}, writes=writes or {}, name=name)


def add_one(x: Array) -> Node:
    return opaque(lambda: np.add(x, 1, out=x, casting="unsafe"), reads={"x": x}, writes={"x": x})


# ---- what it says of itself ------------------------------------------------------------------------------------------


def test_the_first_graph_of_the_text() -> None:
    x, y, z = ramp(), np.zeros(8), np.zeros(8)
    g = eagle.Graph()
    assert g.add_node(opaque(lambda: np.multiply(x, 2.0, out=y), reads={"x": x}, writes={"y": y}), name="double") is g
    assert g.add_node(opaque(lambda: np.add(y, 1.0, out=z), reads={"y": y}, writes={"z": z}), name="shift") is g
    assert (repr(g), g.backend, g.schedule, g.stages, g.record, g.dispatch) == (
        "<eagle.Graph 2 nodes, 2 stages, unbuilt>", None, (), (), None, {})
    assert g.build() is g and g.launch() is g and g.synchronize() is g and g.enqueue() is g
    assert (repr(g), g.backend, g.schedule) == ("<eagle.Graph 2 nodes, 2 stages, cpu>", "cpu", ("work_share",) * 2)
    assert_array_equal(z, 2.0 * ramp() + 1.0)
    assert g.edges() == (Edge(0, 1, "y", "RAW"),) and eagle.Graph is Graph


def test_names_of_the_module() -> None:
    import eagle.graph

    assert {"Edge", "Graph", "Node", "NodeKind", "SHARES_MEMORY_MAX_WORK", "child", "get_node_kind", "opaque",
            "register_node_kind"} <= set(eagle.graph.__all__)
    assert eagle.graph.SHARES_MEMORY_MAX_WORK == 100_000 and "Graph" in eagle.__all__
    for name in ("run", "replay", "skippable", "repeat_while"):
        assert not hasattr(Graph, name) and not hasattr(eagle.graph, name)
    assert not hasattr(eagle, "Dag")


def test_labels() -> None:
    x, y, z, live = np.zeros(4), np.zeros(4), np.zeros(4), u32(1)
    halve = eagle.deploy(ks.halve)
    bound = halve.bind(x=x)
    g = Graph().add(bound).add(bound, name="mine").add_node(touching()).add_node(touching(name="own"))
    g.add_node(touching(name="own"), name="other").add_node(eagle.copy(y, into=z)).add_node(
        eagle.reduce(y, np.zeros(1)), name="total")
    g.add_node(skippable(halve.bind(x=y).launch, SkipGuard.nonzero(live)))
    g.add_node(repeat_while((touching(), touching()), SkipGuard.nonzero(live), 2), name="loop")
    g.add_group([bound, [halve.bind(x=y), touching(name="t")], [skippable(touching(), SkipGuard.nonzero(live))]],
                names=["one", "two", None])
    labels = ["halve", "mine", "opaque", "own", "other", "copy", "total", "skippable", "loop", "one", "two.halve",
              "two.t", "skippable"]
    assert g.node_labels() == labels and g.num_nodes() == len(labels)
    assert g.build().node_labels() == labels and g.num_nodes() == len(labels)
    assert len(g.schedule) == 10 and [stage.nodes for stage in g.stages][9] == ("one", "two.halve", "two.t", "skippable")


# ---- edges -----------------------------------------------------------------------------------------------------------


def test_edges_in_order() -> None:
    a, b, c = (np.zeros(6) for _ in range(3))
    g = Graph().add_node(touching({"a": a, "c": c}, {"b": b, "c": c})).add_node(
        touching({"x": b, "y": c}, {"z": a, "c": c})).add_node(touching({"x": a}, {"y": b}))
    assert g.edges() == (
        Edge(0, 1, "b", "RAW"), Edge(0, 1, "c", "RAW"), Edge(0, 1, "c", "WAW"), Edge(0, 1, "a", "WAR"),
        Edge(0, 1, "c", "WAR"), Edge(0, 2, "b", "WAW"), Edge(1, 2, "z", "RAW"), Edge(1, 2, "x", "WAR"))
    assert g.build().edges() == g.edges() and isinstance(g.edges(), tuple)


def test_the_order_of_what_a_node_writes() -> None:
    """Planes come as they were declared, also where the first that is read is the last that is written."""
    a, b = np.zeros(3), np.zeros(3)
    g = Graph().add_node(touching({"a": a}, {"b": b, "a": a})).add_node(touching({"p": a, "q": b}))
    assert [edge.plane for edge in g.edges()] == ["b", "a"]


def test_meanings() -> None:
    assert Edge(0, 1, "x", "RAW").meaning == "data flows"
    assert Edge(0, 1, "x", "WAR").meaning == "must wait to overwrite"
    assert Edge(0, 1, "x", "WAW").meaning == "same output"
    assert Edge(0, 1, "x", "RAW") == (0, 1, "x", "RAW") and Edge(0, 1, "x", "RAW").src == 0


@pytest.mark.parametrize(("one", "two", "meet"), [
    (lambda m: m[:, 0], lambda m: m[:, 1], False), (lambda m: m[2:], lambda m: m[:3], True),
    (lambda m: m[:2], lambda m: m[2:], False), (lambda m: m[::-1, 0], lambda m: m[3, :1], True),
    (lambda m: m[::2], lambda m: m[1::2], False), (lambda m: m[:0], lambda m: m, False), (lambda m: m.T, lambda m: m[4], True),
])
def test_views_that_share_a_byte(one: Callable[[Array], Array], two: Callable[[Array], Array], meet: bool) -> None:
    m = np.zeros((5, 4))
    g = Graph().add_node(touching(writes={"x": one(m)})).add_node(touching({"y": two(m)}))
    assert g.edges() == ((Edge(0, 1, "x", "RAW"),) if meet else ())


def test_roles_of_launches() -> None:
    """Numbers make no edges; outputs of role mutable count as read too."""
    x, y, s, d = (ramp() for _ in range(4))
    g = Graph().add(bind(ks.both, x=x, y=y, s=s, d=d)).add(bind(ks.drift, x=s, y=d, a=2.0)).add(bind(ks.halve, x=x))
    assert g.edges() == (
        Edge(0, 1, "d", "RAW"), Edge(0, 1, "s", "RAW"), Edge(0, 1, "s", "WAW"), Edge(0, 1, "s", "WAR"),
        Edge(0, 2, "x", "WAR"))


def test_edges_of_groups_and_conditionals() -> None:
    x, y, live = np.zeros(4), np.zeros(4), u32(1, 0)
    g = Graph().add_node(touching(writes={"live": live[:1]})).add_group(
        [[touching(writes={"x": x}), touching({"x": x})], touching(writes={"y": y})])
    loop = repeat_while(touching({"in": x}, {"io": y}), SkipGuard(live, 0, live, 1), 4, brk=u32(0))
    g.add_node(loop).add_node(touching({"n": loop.iteration_index}))
    assert g.edges() == (Edge(0, 4, "live", "RAW"), Edge(1, 2, "x", "RAW"), Edge(1, 4, "x", "RAW"), Edge(3, 4, "y", "WAW"),
                         Edge(4, 5, "iterations", "RAW"))
    several = Graph().add_node(touching(writes={"x": x})).add_node(
        skippable((touching({"p": x}, name="a"), touching(writes={"q": x}, name="b")), SkipGuard.nonzero(live)))
    several.add_node(touching({"x": x}))
    assert several.edges() == (Edge(0, 1, "x", "RAW"), Edge(0, 1, "x", "WAW"), Edge(0, 2, "x", "RAW"),
                               Edge(1, 2, "b.q", "RAW"))


def test_a_chain_in_place_is_quick() -> None:
    x = ramp(64)
    bound = bind(ks.drift, x=x, y=ramp(64), a=0.5)
    g = Graph()
    for _ in range(1000):
        g.add(bound)
    start = time.perf_counter()
    edges = g.edges()
    assert len(edges) == 3 * 1000 * 999 // 2 and time.perf_counter() - start < 5.0
    assert g.build().launch().num_nodes() == 1000


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_a_fork_and_its_join() -> None:
    seed, left, right, out = ramp(), np.zeros(8), np.zeros(8), np.zeros(8)
    affine, log = eagle.deploy(ks.affine), list[str]()
    g = Graph().add_node(add_one(seed)).add_group(
        [[affine.bind(x=seed, out=left, a=2.0, b=0.0), add_one(left)], affine.bind(x=seed, out=right, a=3.0, b=1.0)])
    g.add_node(opaque(lambda: (np.add(left, right, out=out), log.append("joined")), reads=[left, right], writes=[out]))
    g.build().launch()
    s = ramp() + 1.0
    assert_array_equal(out, (2.0 * s + 1.0) + (3.0 * s + 1.0))
    assert log == ["joined"]


def test_branches_of_own_code_run_in_the_order_they_were_added() -> None:
    log: list[int] = []
    steps = [opaque(lambda i=i: log.append(i)) for i in range(6)]
    Graph().add_group([[steps[0], steps[1]], [[steps[2]], steps[3]], steps[4]]).add_node(steps[5]).build().launch(2)
    assert log == [0, 1, 2, 3, 4, 5] * 2


@pytest.fixture
def team() -> Iterator[Callable[[int], None]]:
    before = eagle.num_threads()
    yield eagle.set_num_threads
    eagle.set_num_threads(before)


def test_schedules(team: Callable[[int], None]) -> None:
    def fork(n: int, *more: Any) -> Graph:
        halves = [bind(ks.halve, x=ramp(n)) for _ in range(4)]
        return Graph().add(halves[0]).add_group([halves[1], [halves[2], halves[3]], *more]).build()

    team(2)
    assert fork(4096).schedule == ("work_share", "branch_tasks")
    assert fork(4097).schedule == fork(8, touching()).schedule == ("work_share",) * 2
    assert fork(8, skippable(bind(ks.halve, x=ramp()).launch, SkipGuard.nonzero(u32(1)))).schedule == ("work_share",) * 2
    team(1)
    assert fork(8).schedule == ("work_share",) * 2


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_schedules_have_the_same_bits(threads: int, team: Callable[[int], None]) -> None:
    team(threads)
    for n in (1, 64, 4096, 5000, 40_000):
        planes = [ramp(n) * (i + 1) for i in range(6)]
        branches = [[bind(ks.affine, x=planes[0], out=planes[i], a=0.1 * i, b=1.0), bind(ks.halve, x=planes[i])]
                    for i in range(1, 6)]
        Graph().add_group(branches).build().launch(3)
        for i in range(1, 6):
            assert_array_equal(planes[i], ((0.1 * i) * planes[0] + 1.0) * 0.5)


# ---- conditionals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("guard", "holds"), [
    (lambda: SkipGuard.nonzero(u32(1)), True), (lambda: SkipGuard.nonzero(u32(0)), False),
    (lambda: SkipGuard.nonzero(u32(0)).negated(), True), (lambda: SkipGuard.intent(u32(1, 0), 1), False),
    (lambda: SkipGuard.intent(u32(0, 9), 1), True), (lambda: SkipGuard.nonempty_bucket(u32(0, 4, 4), 0), True),
    (lambda: SkipGuard.nonempty_bucket(u32(0, 4, 4), 1), False), (lambda: SkipGuard(u32(3), 0, u32(1, 3), 1), False),
    (lambda: SkipGuard(u32(3), 0, u32(1, 3), 1, negate=True), True), (lambda: SkipGuard(u32(7, 0, 3)[::-2], 1), True),
])
def test_guards(guard: Callable[[], SkipGuard], holds: bool, native: bool) -> None:
    x = ramp()
    step = bind(ks.halve, x=x).launch if native else add_one(x)
    g = Graph().add_node(skippable(step, guard())).build().launch()
    assert g.schedule == ("work_share",)
    assert_array_equal(x, ramp() if not holds else ramp() * 0.5 if native else ramp() + 1.0)


def test_cells_are_read_anew_at_each_replay() -> None:
    x, live = ramp(), u32(0)
    g = Graph().add_node(skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(live))).build()
    for value, factor in ((0, 1.0), (1, 0.5), (7, 0.25), (0, 0.25), (1, 0.125)):
        live[0] = value
        g.launch()
        assert_array_equal(x, ramp() * factor)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(("cap", "limit", "ran"), [(5, None, 5), (5, 3, 3), (5, 9, 5), (None, 4, 4), (3, 0, 0)])
def test_loops(cap: int | None, limit: int | None, ran: int, native: bool) -> None:
    x, live = np.ones(4), u32(1)
    step = bind(ks.halve, x=x).launch if native else opaque(lambda: np.multiply(x, 0.5, out=x), reads=[x], writes=[x])
    loop = repeat_while(step, SkipGuard.nonzero(live), cap, limit=None if limit is None else u32(limit))
    g = Graph().add_node(loop).build()
    for _ in range(2):
        x[:] = 1.0
        g.launch()
        assert x.tolist() == [0.5**ran] * 4
        assert loop.counter.tolist() == [(0xFFFFFFFF if cap is None else cap) - ran, ran]
        assert loop.iterations() == ran == int(loop.iteration_index[0])
    live[0] = 0
    g.launch()
    assert loop.iterations() == 0 and loop.counter[0] == loop.cap


def test_brk_and_the_index_within() -> None:
    brk, seen = u32(9), list[int]()

    def step() -> None:
        seen.append(int(loop.iteration_index[0]))
        brk[0] = len(seen) == 3

    loop = repeat_while(step, None, 10, brk=brk)
    g = Graph().add_node(loop).build().launch()
    assert seen == [0, 1, 2] and loop.counter.tolist() == [7, 3] and brk[0] == 1
    g.launch()  # brk is cleared first
    assert seen == [*(0, 1, 2), *range(10)] and loop.counter.tolist() == [0, 10]


def test_a_loop_that_its_own_body_ends() -> None:
    """The guard's cell is written by a kernel's twin in NumPy; a launch runs between."""
    x, left = np.full(4, 64.0), u32(6)
    loop = repeat_while((bind(ks.halve, x=x).launch, opaque(lambda: np.subtract(left, u32(1), out=left), reads=[left],
                                                            writes=[left])), SkipGuard.nonzero(left))
    Graph().add_node(loop).build().launch()
    assert x.tolist() == [1.0] * 4 and left[0] == 0 and loop.iterations() == 6


@pytest.mark.parametrize("native", [True, False])
def test_nested_conditionals(native: bool) -> None:
    x, live, trace = np.ones(4), u32(1, 0), list[tuple[int, int]]()
    halve = bind(ks.halve, x=x)
    inner = repeat_while((halve.launch, skippable(add_one(np.zeros(1)), SkipGuard.intent(live, 1))) if native else (
        lambda: trace.append((int(outer.iteration_index[0]), int(inner.iteration_index[0]))), halve.launch), None, 3,
        limit=u32(2))
    outer = repeat_while([skippable([inner], SkipGuard.nonzero(live)), touching()], SkipGuard.nonzero(live), 2)
    g = Graph().add_node(outer).build().launch(2)
    assert x.tolist() == [0.5**8] * 4 and g.node_labels() == ["repeat_while"]
    assert (inner.iterations(), outer.iterations()) == (2, 2)
    assert trace == ([] if native else [(0, 0), (0, 1), (1, 0), (1, 1)] * 2)


def test_steps_of_every_form() -> None:
    x, y, live, log = np.ones(4), np.ones(4), u32(1), list[str]()
    guard = SkipGuard.nonzero(live)
    halve = eagle.deploy(ks.halve)
    forms: list[Any] = [halve.bind(x=x).launch, add_one(x), lambda: log.append("bare"), (halve.bind(x=x).launch, add_one(x)),
                        [add_one(x), [add_one(x)]], skippable(add_one(x), guard), eagle.copy(y, into=x),
                        eagle.reduce(y, np.zeros(1))]
    g = Graph()
    for form in forms[:4] + forms[5:]:
        g.add_node(skippable(form, guard))
    g.build().launch()
    assert x.tolist() == [1.0] * 4 and log == ["bare"]
    assert Graph().add_node(skippable(add_one(x), guard)).edges() == ()


def test_a_bound_launch_has_the_planes_of_the_plan() -> None:
    x, live = np.zeros(4), u32(1)
    guard = SkipGuard.nonzero(live)
    g = Graph().add_node(touching(writes={"x": x})).add_node(skippable(bind(ks.halve, x=x).launch, guard))
    assert g.edges() == (Edge(0, 1, "x", "RAW"), Edge(0, 1, "x", "WAW"))
    bare = Graph().add_node(touching(writes={"x": x, "live": live})).add_node(skippable(lambda: None, guard))
    assert bare.edges() == (Edge(0, 1, "live", "RAW"),)


# ---- kinds -----------------------------------------------------------------------------------------------------------


def test_copies_and_reductions() -> None:
    x, y, total, most = ramp(1000), np.zeros(1000), np.zeros(1), np.zeros(1)
    g = Graph().add(bind(ks.halve, x=x)).add_node(eagle.copy(x, into=y)).add_node(eagle.reduce(y, total), name="total")
    g.add_node(eagle.reduce(y, most, op="max")).add_node(eagle.copy(most, into=total[:1]), name="last")
    assert g.edges() == (Edge(0, 1, "x", "RAW"), Edge(1, 2, "dst", "RAW"), Edge(1, 3, "dst", "RAW"),
                         Edge(2, 4, "out", "WAW"), Edge(3, 4, "out", "RAW"))
    g.build()
    for i in (1, 2, 3):
        g.launch()
        assert_array_equal(y, ramp(1000) * 0.5**i)
        assert most[0] == total[0] == y.max()
    sums = Graph().add_node(eagle.reduce(y, total)).build().launch()
    assert math.isclose(total[0], math.fsum(y), rel_tol=1e-15, abs_tol=1e-300) and sums.num_nodes() == 1


@pytest.fixture
def fresh_kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))
    yield


def test_a_kind_of_ones_own(fresh_kinds: None) -> None:
    x, contexts, allowed = np.zeros(3), list[tuple[str, bool]](), [True]

    def lower(node: Node, ctx: Any) -> Callable[[], object]:
        contexts.append((ctx.backend, ctx.body))
        inner = ctx.lower(add_one(x))
        return lambda: (inner(), np.multiply(x, node.payload, out=x))

    def check(node: Node) -> None:
        if not allowed[0]:
            raise LookupError(node.label)

    register_node_kind("scale", reads=lambda node: (("x", x, "mutable"),), writes=lambda node: (("x", x, "mutable"),),
                       lower_gpu=nothing, lower_cpu=lower, check=check)
    live = u32(1)
    g = Graph().add_node(Node("scale", 3.0), name="mine").add_node(skippable(Node("scale", 2.0), SkipGuard.nonzero(live)))
    assert g.edges() == (Edge(0, 1, "x", "RAW"), Edge(0, 1, "x", "WAW"), Edge(0, 1, "x", "WAR"))
    g.build().launch()
    assert x.tolist() == [8.0] * 3 and contexts == [("cpu", False), ("cpu", True)]
    allowed[0] = False
    with pytest.raises(LookupError, match="mine"):
        g.launch(5)
    live[0] = 0
    assert x.tolist() == [8.0] * 3  # refused ahead of the launch
    allowed[0] = True
    g.launch(2)
    assert x.tolist() == [(((8 + 1) * 3) + 1) * 3.0] * 3


def test_tiers_of_own_code_are_calls_on_the_host() -> None:
    log: list[str] = []
    g = Graph().add_node(opaque(lambda: log.append("a"))).add_node(opaque(lambda: log.append("b"), stream=0))
    g.add_node(opaque(lambda: log.append("c"), eager=True)).build().launch(2)
    assert log == ["a", "b", "c"] * 2


def test_bound_plans_with_stages_and_scatters() -> None:
    x, out, b, k = ramp(100), np.zeros(100), np.zeros(8), np.arange(100) % 8
    g = Graph().add(bind(ks.spread, x=x, out=out)).add(bind(ks.added, k=k, x=x, b=b)).build().launch(2)
    assert_array_equal(out, x - float(out[0] * -1.0 + x[0]))
    wanted = np.array([math.fsum(list(x[k == i]) * 2) for i in range(8)])
    np.testing.assert_allclose(b, wanted, rtol=1e-14)
    assert g.node_labels() == ["spread", "added"]


# ---- runners ---------------------------------------------------------------------------------------------------------


def test_the_loop_of_a_runner_is_a_node() -> None:
    n = 50
    kind, stop = np.arange(n) % 3, np.arange(n) % 7 + 1.0
    x, k, done, seen = ramp(n), np.zeros(n), np.zeros(n, bool), np.zeros(n)
    other = [a.copy() for a in (x, k, done)]
    eagle.run_until_done(eagle.deploy(stepping_kernels.mixed), max_steps=100, kind=kind, stop=stop, x=other[0], k=other[1],
                         terminated=other[2])
    runner = eagle.until_done(eagle.deploy(stepping_kernels.mixed), max_steps=100, kind=kind, stop=stop, x=x, k=k,
                              terminated=done)
    g = Graph().add_node(touching(writes={"x": x}, name="seed")).add_node(runner.loop, name="run")
    g.add_node(opaque(lambda: np.copyto(seen, x), reads={"x": x}, writes={"seen": seen}))
    assert Edge(0, 1, "x", "RAW") in g.edges() and Edge(1, 2, "x", "RAW") in g.edges()
    kept = weakref.ref(runner)
    del runner
    gc.collect()
    g.build().launch()
    for mine, theirs in zip((x, k, done), other, strict=True):
        assert_array_equal(mine, theirs)
    assert_array_equal(seen, x)
    assert kept() is not None and k.tolist() == stop.tolist()
    g.launch()  # all are done
    assert k.tolist() == stop.tolist()
    del g
    gc.collect()
    assert kept() is None


def test_the_loop_of_a_simulation_with_own_code_in_its_step() -> None:
    n = 20
    stop, log = np.arange(n) % 5 + 1.0, list[int]()
    planes = {"kind": np.arange(n) % 3, "stop": stop, "x": ramp(n), "k": np.zeros(n), "terminated": np.zeros(n, bool)}
    model = opaque(lambda: log.append(1), reads={"k": planes["k"]}, name="model")
    runner = eagle.until_done([model, eagle.deploy(stepping_kernels.mixed)], max_steps=100, **planes)
    Graph().add_node(runner.loop).build().launch()
    assert planes["k"].tolist() == stop.tolist() and len(log) == 5
    s = eagle.simulation(stepping_kernels.mixed, max_steps=100, **(planes | {
        "k": np.zeros(n), "terminated": np.zeros(n, bool)}))
    g = Graph().add_node(s.loop).build().launch()
    assert s.runner.terminated.all() and g.num_nodes() == 1


# ---- dispatch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", [None, "switch", "predicated", {"dispatch0": "predicated"}, {"dispatch0": "switch"}, {}])
def test_dispatch(dispatch: Any) -> None:
    n = 300
    kind, live = np.arange(n) % 3, u32(1)
    x, y, z, w = (ramp(n) for _ in range(4))
    branchy, authored = eagle.deploy(ks.branchy), eagle.deploy(ks.authored)
    g = Graph().add(branchy.bind(x=x, kind=kind), name="top").add(authored.bind(x=w, kind=kind))
    g.add_node(skippable(branchy.bind(x=y, kind=kind).launch, SkipGuard.nonzero(live)))
    g.add_group([touching(), [touching(), branchy.bind(x=z, kind=kind)]], names=[None, "deep"])
    edges, labels = g.edges(), g.node_labels()
    g.build(dispatch=dispatch).launch()
    want = ramp(n)
    want = np.where(kind == 0, want * 0.5, np.where(kind == 1, want + 1.0, np.sin(want)))
    plain = ramp(n)
    branchy.run(x=plain, kind=kind)
    for plane in (x, y, z):
        assert_array_equal(plane, plain)
    np.testing.assert_allclose(x, want, rtol=1e-15)
    policy = "predicated" if dispatch in ("predicated", {"dispatch0": "predicated"}) else "switch"
    assert g.dispatch == {label: {"dispatch0": policy} for label in ("top", "branchy", "deep.branchy")}
    g.dispatch.clear()
    g.dispatch["top"].clear()
    assert g.dispatch["top"] == {"dispatch0": policy} and g.edges() == edges and g.node_labels() == labels


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 3, np.int64(3), np.uint8(2), type("Index", (), {"__index__": lambda self: 4})()])
def test_counts(n: Any) -> None:
    log: list[int] = []
    g = Graph().add_node(opaque(lambda: log.append(1))).build()
    times = n.__index__()
    for call in (g.launch, g.enqueue):
        log.clear()
        assert call(n) is g and len(log) == times
    log.clear()
    assert g(n) is None and len(log) == times
    log.clear()
    assert g.launch(n=n) is g and len(log) == times


def test_results() -> None:
    x = np.zeros(3)
    g = Graph().add_node(add_one(x))
    g.result = {"x": x, "more": [x, (x,)]}
    g.build()
    assert g()["x"] is x and g(2)["more"][1][0] is x and x.tolist() == [3.0] * 3


@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), SystemExit(3), RuntimeError("boom")])
@pytest.mark.parametrize("place", ["top", "branch", "body"])
def test_an_exception_of_a_node_leaves_unchanged(error: BaseException, place: str) -> None:
    x, log, angry = ramp(), list[str](), [True]

    def boom() -> None:
        log.append("boom")
        if angry[0]:
            raise error

    node, later = opaque(boom), opaque(lambda: log.append("later"))
    g = Graph().add(bind(ks.halve, x=x))
    if place == "top":
        g.add_node(node)
    elif place == "branch":
        g.add_group([[node, later], later])
    else:
        g.add_node(repeat_while((node, later), SkipGuard.nonzero(u32(1)), 2))
    g.add_node(later).build()
    with pytest.raises(type(error)) as caught:
        g.launch(3)
    assert caught.value is error and log == ["boom"]
    assert_array_equal(x, ramp() * 0.5)
    angry[0] = False
    log.clear()
    g.launch()
    assert_array_equal(x, ramp() * 0.25)
    assert log == {"top": ["boom", "later"], "branch": ["boom", "later", "later", "later"],
                   "body": ["boom", "later", "boom", "later", "later"]}[place]


def test_an_exception_within_a_loop_leaves_its_count() -> None:
    at = [2]

    def step() -> None:
        if loop.iterations() == at[0]:
            raise KeyError(at[0])

    loop = repeat_while(step, SkipGuard.nonzero(u32(1)), 6)
    g = Graph().add_node(loop).build()
    for _ in range(2):
        with pytest.raises(KeyError):
            g.launch()
        assert loop.iterations() == 2
    at[0] = -1
    g.launch()
    assert loop.counter.tolist() == [0, 6]


def test_busy_in_another_thread() -> None:
    inside, leave, errors = threading.Event(), threading.Event(), list[BaseException]()

    def wait() -> None:
        inside.set()
        assert leave.wait(20)

    g = Graph().add_node(opaque(wait), name="wait").build()
    first = threading.Thread(target=g.launch)
    first.start()
    assert inside.wait(20)
    for call in (g.launch, g.enqueue, g.build, g, lambda: g.launch(np.int64(2))):
        with pytest.raises(eagle.Busy, match=r"^Graph\.\w+: .*another call that is still running.*own Graph"):
            call()
    assert g.node_labels() == ["wait"] and g.edges() == () and "cpu" in repr(g)  # no guard
    leave.set()
    first.join()
    assert not errors and g.launch() is g


def test_busy_from_within() -> None:
    caught: list[type[BaseException]] = []

    def again() -> None:
        for call in (g.launch, g.build, g.enqueue):
            with pytest.raises(eagle.Busy) as error:
                call()
            caught.append(error.type)

    g = Graph().add_node(opaque(again)).build()
    g.launch()
    assert caught == [eagle.Busy] * 3 and g.launch() is g


def test_a_build_within_a_build_is_busy(fresh_kinds: None) -> None:
    def lower(node: Node, ctx: Any) -> Callable[[], object]:
        with pytest.raises(eagle.Busy):
            g.build()
        return nothing

    register_node_kind("nosy", reads=lambda node: (), writes=lambda node: (), lower_gpu=nothing, lower_cpu=lower)
    g = Graph().add_node(Node("nosy", None))
    assert g.build().launch() is g


def test_threads_never_mix() -> None:
    """One graph, many threads: each launch is a whole one or Busy."""
    x = np.zeros(1000)
    g = Graph()
    for _ in range(8):
        g.add(bind(ks.affine, x=x, out=np.zeros(1000), a=1.0, b=1.0))
    ones = np.ones(1000)
    g.add(bind(ks.drift, x=x, y=ones, a=1.0)).build()
    done = [0] * 4

    def run(i: int) -> None:
        for _ in range(300):
            try:
                g.launch()
                done[i] += 1
            except eagle.Busy:
                pass

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.tolist() == [float(sum(done))] * 1000 and sum(done) > 0


def test_distinct_graphs_in_threads() -> None:
    def run(i: int) -> None:
        for _ in range(50):
            graphs[i].launch(4)

    planes = [np.zeros(5000) for _ in range(4)]
    graphs = [Graph().add(bind(ks.drift, x=x, y=np.full(5000, i + 1.0), a=1.0)).build() for i, x in enumerate(planes)]
    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(planes):
        assert x.tolist() == [200.0 * (i + 1)] * 5000


@pytest.mark.parametrize("kind", ["native", "opaque", "loop", "large"])
def test_ctrl_c(kind: str) -> None:
    x = np.zeros(2_000_000 if kind == "large" else 64)
    g = Graph()
    if kind == "opaque":
        g.add_node(opaque(lambda: None)).add_node(opaque(np.zeros(3).sum))
    elif kind == "loop":
        g.add_node(repeat_while(bind(ks.halve, x=x).launch, SkipGuard.nonzero(u32(1)), 50))
    else:
        g.add(bind(ks.halve, x=x)).add(bind(ks.halve, x=x))
    g.build().launch()
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        g.launch(10**9)
    assert time.perf_counter() - sent[0] < 0.2
    timer.join()
    assert g.launch() is g


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no-device: nothing forks here")
@pytest.mark.parametrize("n", [64, 200_000])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_launches(n: int, team: Callable[[int], None]) -> None:
    team(2)
    x, y, calls = np.ones(n), np.ones(n), np.zeros(1)
    loop = repeat_while(bind(ks.halve, x=x).launch, SkipGuard.nonzero(u32(1)), 2)
    g = Graph().add_group([[bind(ks.halve, x=x)], bind(ks.halve, x=y)]).add_node(loop).add_node(add_one(calls)).build()
    g.launch(5)  # the threads of the parent have run
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            x[:] = y[:] = 1.0
            g.launch(2)
            status = 0 if (x == 0.5**6).all() and (y == 0.25).all() and calls[0] == 7 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    x[:] = 1.0
    g.launch()
    assert (x == 0.125).all()


def test_a_graph_keeps_its_planes_and_lets_go() -> None:
    x = np.ones(1000)
    alive = weakref.ref(x)
    g = Graph().add(bind(ks.halve, x=x)).add_node(opaque(nothing, reads={"x": x})).build()
    del x
    gc.collect()
    assert alive() is not None and g.launch() is g
    del g
    gc.collect()
    assert alive() is None


def test_a_cycle_through_own_code_is_collected() -> None:
    def make() -> weakref.ref[Graph]:
        g = Graph()
        g.add_node(opaque(lambda: g.num_nodes())).build().launch()
        return weakref.ref(g)

    alive = make()
    gc.collect()
    assert alive() is None


def test_a_rebind_does_not_move_a_built_graph() -> None:
    x, y = np.ones(4), np.ones(4)
    bound = bind(ks.halve, x=x)
    g = Graph().add(bound).build()
    bound.rebind(x=y)
    g.launch()
    assert (x.tolist(), y.tolist()) == ([0.5] * 4, [1.0] * 4)


def test_no_samples() -> None:
    x, y = np.zeros(0), np.zeros(0)
    Graph().add(bind(ks.affine, x=x, out=y, a=1.0, b=1.0)).add_group([bind(ks.halve, x=x), bind(ks.halve, x=y)]).build(
        ).launch(3)


def test_checked_launches() -> None:
    i, t, out = np.array([0, 1, 9]), ramp(3), np.zeros(3)
    g = Graph().add_node(add_one(out)).add(bind(ks.lookup, i=i, t=t, out=out)).build()
    with eagle.exec.checking():
        with pytest.raises(eagle.OutOfBounds, match="'t'"):
            g.launch()
    i[2] = 2
    with eagle.exec.checking():
        g.launch(2)
    assert_array_equal(out, t * 0.5)


def test_counters() -> None:
    before = eagle._counters.snapshot()
    assert list(before) == ["captures", "instantiations", "binds", "rebinds", "updates", "graph_builds", "reverses",
                            "records", "host_syncs"]
    x = np.zeros(4)
    bound = bind(ks.halve, x=x)
    g = Graph().add(bound)
    with pytest.raises(ValueError):
        g.build(backend="gpu")
    g.build().launch(3)
    bound.rebind(x=np.zeros(4))
    after = eagle._counters.snapshot()
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changed == {"captures": 1, "instantiations": 1, "binds": 1, "rebinds": 1, "graph_builds": 1}


def test_counters_are_exact_under_threads() -> None:
    def build() -> None:
        for _ in range(50):
            Graph().add_node(touching()).build()

    before = eagle._counters.snapshot()["graph_builds"]
    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eagle._counters.snapshot()["graph_builds"] - before == 200
