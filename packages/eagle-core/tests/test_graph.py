# SPDX-License-Identifier: Apache-2.0
"""eagle.Graph: what it says of itself, the order it finds, groups, conditionals and kinds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import add_one, bind, nothing, ramp, touching, u32
from numpy.testing import assert_array_equal

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Edge, Graph, Node, register_node_kind

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.smoke


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
    assert len(g.schedule) == 10 and [stage.nodes for stage in g.stages][9] == (
        "one", "two.halve", "two.t", "skippable")


def test_names_of_branches_in_branches() -> None:
    g = Graph().add_group([[[touching(name="a")]], [[touching(), [touching(name="b")]]], touching(name="c")],
                          names=["one", "two", None])
    assert g.node_labels() == ["one", "two.opaque", "two.b", "c"]


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
    (lambda m: m[::2], lambda m: m[1::2], False), (lambda m: m[:0], lambda m: m, False),
    (lambda m: m.T, lambda m: m[4], True),
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
    assert g.edges() == (Edge(0, 4, "live", "RAW"), Edge(1, 2, "x", "RAW"), Edge(1, 4, "x", "RAW"),
                         Edge(3, 4, "y", "WAW"),
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
    g.build()
    assert time.perf_counter() - start < 1.0
    assert len(g.edges()) == 3 * 1000 * 999 // 2


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


def test_schedules(team: Callable[[int], None]) -> None:
    def fork(n: int, *more: Any) -> Graph:
        halves = [bind(ks.halve, x=ramp(n)) for _ in range(4)]
        return Graph().add(halves[0]).add_group([halves[1], [halves[2], halves[3]], *more]).build()

    team(2)
    assert fork(4096).schedule == ("work_share", "branch_tasks")
    assert fork(4097).schedule == fork(8, touching()).schedule == ("work_share",) * 2
    one = skippable(bind(ks.halve, x=ramp()).launch, SkipGuard.nonzero(u32(1)))
    assert fork(8, one).schedule == ("work_share",) * 2
    # what is native but no launch goes beside others as well; a kernel that is finished by the calling thread does not
    x = ramp()
    assert fork(8, eagle.copy(x, into=np.zeros(8))).schedule[1] == "branch_tasks"
    assert fork(8, eagle.reduce(x, np.zeros(1))).schedule[1] == "branch_tasks"
    assert fork(8, eagle.reduce(np.zeros(4097), np.zeros(1))).schedule[1] == "work_share"
    assert fork(8, eagle.copy(x, into=x)).schedule[1] == "work_share"
    assert fork(8, bind(ks.spread, x=x, out=np.zeros(8))).schedule[1] == "work_share"
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
    forms: list[Any] = [halve.bind(x=x).launch, add_one(x), lambda: log.append("bare"),
                        (halve.bind(x=x).launch, add_one(x)),
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
    g = Graph().add_node(Node("scale", 3.0), name="mine").add_node(
        skippable(Node("scale", 2.0), SkipGuard.nonzero(live)))
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


# ---- fusion ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fuse", [True, False])
def test_a_plane_that_is_read_first_and_written_later(fuse: bool) -> None:
    """Another view of it that is read before, and overlaps in part, keeps the launches apart."""
    n = 4096
    memory, left, right = ramp(2 * n), np.zeros(n), np.zeros(n)
    x, y = memory[n:], memory[1:n + 1]
    wanted = memory.copy()
    g = Graph().add(bind(ks.both, x=x, y=y, s=left, d=right)).add(bind(ks.affine, x=left, out=x, a=2.0, b=1.0))
    g.fuse = fuse
    g.build().launch()
    assert_array_equal(left, wanted[n:] + wanted[1:n + 1])
    assert_array_equal(x, 2.0 * left + 1.0)
    assert [stage.tile for stage in g.stages] == [-1, -1]


def test_what_runs_together() -> None:
    n = 5000
    planes = [ramp(n) for _ in range(4)]
    chain = Graph().add(bind(ks.affine, x=planes[0], out=planes[1], a=2.0, b=0.0)).add(
        bind(ks.drift, x=planes[1], y=planes[0], a=0.5)).add(bind(ks.affine, x=planes[1], out=planes[0], a=1.0, b=1.0))
    chain.add_node(touching()).add(bind(ks.halve, x=planes[2])).add(bind(ks.halve, x=planes[3][:-1]))
    chain.build().launch()
    assert [stage.tile for stage in chain.stages] == [0, 0, 0, -1, -1, -1]  # the last has other samples
    whole = 0.5 * (2.0 * ramp(n)) + ramp(n)
    assert_array_equal(planes[1], whole)
    assert_array_equal(planes[0], whole + 1.0)


def test_the_same_bytes_in_another_shape_do_not_run_together() -> None:
    n = 4096
    memory = ramp(3 * n)
    wanted = memory.copy()
    v = memory.reshape(3, n)
    g = Graph().add(bind(ks.halve, x=memory)).add(bind(ks.turn, v=v, a=2.0)).add(bind(ks.halve, x=memory[n:2 * n]))
    g.build().launch()
    assert [stage.tile for stage in g.stages] == [-1, -1, -1]
    w = (wanted * 0.5).reshape(3, n)
    turned = np.array([w[1] * 2.0, w[2] - w[0], w[0] + w[1]])
    turned[1] *= 0.5
    assert_array_equal(v, turned)
