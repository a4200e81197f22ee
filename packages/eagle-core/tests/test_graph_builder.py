# SPDX-License-Identifier: Apache-2.0
"""``Graph.builder``: calls, labels, buffers, blocks, forks, ``bind``, results. Expected values are worked by hand."""

from __future__ import annotations

import threading
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from builder_kernels import add, both, count, grow, high, hot, named, picked, scale, shrink, total, turned
from graph_kernels import branchy

import eagle
from eagle.graph import opaque


def plane() -> Any:
    return np.array([8.0, 3.0])


def cell(value: int = 1) -> Any:
    return np.array([value], np.uint32)


def test_the_example_of_the_text() -> None:
    @eagle.Graph.builder
    def cool(v, busy):
        g = eagle.Graph()
        for _ in range(20):
            if not busy: break  # noqa: E701
            v = shrink(v)
            hot(v, busy)
        g.result = v
        return g

    v, busy = plane(), cell()
    g = cool(v, busy)
    out = g()
    assert g.node_labels() == ["seed(v)", "repeat_while"]
    assert g.backend == "cpu"
    assert out.tolist() == [8 / 2**20, 3 / 2**20]  # `hot` only ever sets the cell
    assert v.tolist() == [8, 3]


def test_calls_become_launches_that_have_not_run() -> None:
    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        y = shrink(add(x, x))
        y = shrink(y)
        a, b = both(x, y)
        shrink(a)
        g.result = {"y": y, "rest": (a, [b])}
        return g

    x = plane()
    g = f(x)
    assert isinstance(g, eagle.Graph) and g.backend == "cpu"
    assert g.node_labels() == ["add", "y", "y#2", "both", "shrink"]
    result = g.result
    assert result["y"].tolist() == [0, 0]
    assert g() is result
    assert result["y"].tolist() == [4, 1.5]
    assert result["rest"][0].tolist() == [12, 4.5] and result["rest"][1][0].tolist() == [4, 1.5]
    x[:] = 1
    assert g()["y"].tolist() == [0.5, 0.5]  # the very array is read, again
    assert isinstance(shrink(x), np.ndarray) and shrink(x).tolist() == [0.5, 0.5]  # outside, calls run


def test_deployed_plans_trees_cells_and_parameters() -> None:
    plan = eagle.deploy(scale)

    @eagle.Graph.builder
    def f(x, p, k):
        g = eagle.Graph()
        y = plan(x, k)
        both_ways = named(x)
        t = turned(p)
        s = total(x)
        g.result = [y, both_ways, t, s]
        return g

    g = f(plane(), np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]]), 3.0)
    assert g.node_labels() == ["y", "both_ways", "t", "s"]
    y, both_ways, t, s = g()
    assert y.tolist() == [24, 9]
    assert {name: array.tolist() for name, array in both_ways.items()} == {"up": [9, 4], "down": [7, 2]}
    assert t.tolist() == [[3, 4, 6], [2, 3, 6]] and s.tolist() == [11]


def test_outputs_that_are_added_to_start_from_zeros_in_each_launch() -> None:
    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        c = high(x)
        y = np.zeros(2)
        grow(x, y=y)  # the mask, which is left out, too
        g.result = [c, y]
        return g

    x = plane()
    g = f(x)
    c, y = g()
    assert c.tolist() == [1] and y.tolist() == [16, 6]
    g(5)
    assert y.tolist() == [16, 6]
    x[:] = 0.5
    g()
    assert c.tolist() == [0] and y.tolist() == [1, 1]  # no sample was finished


@pytest.mark.parametrize("buffer", [True, [True], {"out": True}])
def test_buffers(buffer: Any) -> None:
    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        y = shrink(x, buffer=buffer)
        g.result = y
        return g

    assert f(plane())().tolist() == [4, 1.5]


def test_buffers_of_the_callers() -> None:
    mine, other = np.ones(2), np.ones(2)

    @eagle.Graph.builder
    def f(x, c):
        g = eagle.Graph()
        y = shrink(x, buffer=mine)
        a, b = both(x, y, buffer={"out1": other})
        if c:
            y = add(y, b)  # stays on the buffer it has
        g.result = [y, a, b]
        return g

    g = f(plane(), cell())
    y, a, b = g()
    assert y is mine and b is other
    assert mine.tolist() == [8, 3] and a.tolist() == [12, 4.5] and other.tolist() == [4, 1.5]


def test_copies_own_code_and_reductions_in_the_order_of_calls() -> None:
    log = []

    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        y, s = np.zeros(2), np.zeros(1)
        assert eagle.copy(x, into=y) is y
        node = opaque(lambda: log.append(float(y[0])), reads={"y": y}, name="look")
        g.add_node(node)  # which it is already
        z = shrink(y)
        g.add_node(eagle.reduce(z, s), name="sum")
        eagle.reduce(z, s)  # made, and given to nobody
        g.add(eagle.deploy(shrink).bind(v=z, out=y), name="back")
        g.result = (z, s)
        return g

    g = f(plane())
    assert g.node_labels() == ["copy", "look", "z", "sum", "back"]
    z, s = g()
    assert z.tolist() == [4, 1.5] and s.tolist() == [5.5] and log == [8]
    assert isinstance(eagle.copy(z, into=np.zeros(2)), eagle.graph.Node)


def test_own_code_runs_where_it_is_given() -> None:
    log: list[str] = []

    def note(name: str) -> Any:
        return opaque(lambda: log.append(name), name=name)

    @eagle.Graph.builder
    def f(x, c):
        g = eagle.Graph()
        first, total = note("first"), eagle.reduce(x, np.zeros(1))
        g.add_node(total).add_node(total)
        g.add_node(first, name="renamed")
        g.add_node(eagle.skippable((note("in a body"), lambda: log.append("a function")), eagle.SkipGuard.nonzero(c)))
        g.add_group([note("left"), [note("right"), note("last")]])
        note("alone")
        with g.parallel() as p:
            with p.branch() as b:
                b.add_node(note("in a branch"))
            with p.branch():
                note("in another")
        return g

    g = f(plane(), cell(1))
    assert g.node_labels() == ["reduce", "reduce", "renamed", "skippable", "left", "right", "last", "alone",
                               "in a branch", "in another"]
    g()
    assert log == ["first", "in a body", "a function", "left", "right", "last", "alone", "in a branch", "in another"]


def test_a_graph_may_be_made_behind_the_first_call_and_has_its_keywords() -> None:
    @eagle.Graph.builder
    def f(x) -> eagle.Graph:
        y = shrink(x)
        g = eagle.Graph(backend="cpu")
        g.fuse = False
        g.result = y
        return g

    g = f(x=plane())
    assert g.node_labels() == ["y"] and g.fuse is False and g().tolist() == [4, 1.5]
    assert f.__name__ == "f"


# ---- blocks ----------------------------------------------------------------------------------------------------------


@eagle.Graph.builder
def block(g: eagle.Graph, x, c=None):
    """x / 2, or x / 2 + x where the cell is set."""
    y = shrink(x)
    if c is not None:  # noqa: SIM102  one decides now, the other at each run
        if c:
            y = add(y, x)
    return y


@eagle.Graph.builder
def halved(g: eagle.Graph, x, n):
    for _ in range(n):
        x = shrink(x)
    return x


def test_blocks_join_the_graph() -> None:
    @eagle.Graph.builder
    def f(x, c, n):
        g = eagle.Graph()
        z = block(g, x, c)
        w = halved(g, z, n)
        w = block(g, w)
        g.result = [z, w]
        return g

    g = f(plane(), cell(), cell(2))
    assert g.node_labels() == ["y", "branches", "seed(x)", "repeat_while", "y#3"]
    z, w = g()
    assert z.tolist() == [12, 4.5]  # what the block rebinds is its own name
    assert w.tolist() == [1.5, 0.5625]


def test_blocks_join_a_graph_made_by_hand() -> None:
    x, g = plane(), eagle.Graph()
    y = block(g, x)
    z = halved(g, y, 1)
    assert g.node_labels() == ["y", "x"] and g.backend is None and y.tolist() == [0, 0]
    g.build().launch()
    assert y.tolist() == [4, 1.5] and z.tolist() == [2, 0.75]
    with pytest.raises(RuntimeError, match="one that is built"):
        block(g, x)


# ---- forks -----------------------------------------------------------------------------------------------------------


def test_forks() -> None:
    @eagle.Graph.builder
    def f(x, c):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                left = shrink(x)
            with p.branch() as b:
                right = block(b, x, c)
                with b.parallel() as q:
                    with q.branch():
                        a = add(x, right)
                    with q.branch() as inner:
                        d = halved(inner, right, 2)
            with p.branch():
                pass  # nothing: no branch
        with g.parallel() as p, p.branch():
            alone = add(left, a)
        g.result = [alone, d]
        return g

    g = f(plane(), cell())
    assert g.node_labels() == ["left", "y", "branches", "a", "x", "x#2", "alone"]
    alone, d = g()
    assert alone.tolist() == [24, 9] and d.tolist() == [3, 1.125]
    assert [stage.nodes for stage in g.stages] == [("left", "y", "branches", "a", "x", "x#2"), ("alone",)]
    assert not [edge for edge in g.edges() if edge.src == 0 and edge.dst < 6]


def test_a_branch_waits_for_an_earlier_one() -> None:
    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                left = shrink(x)
            with p.branch() as b:
                early = add(x, x)
                b.wait(left)
                right = add(early, left)
        g.result = right
        return g

    g = f(plane())
    assert g.node_labels() == ["left", "early", "wait", "right"]
    assert [tuple(edge) for edge in g.edges()] == [(0, 2, "out", "RAW"), (0, 3, "out", "RAW"), (1, 3, "out", "RAW")]
    assert g().tolist() == [20, 7.5]


def test_a_read_ahead_of_the_wait_races() -> None:
    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                left = shrink(x)
            with p.branch() as b:
                add(left, left)
                b.wait(left)
        return g

    with pytest.raises(ValueError, match="branches of one group with RAW"):
        f(plane())


def test_a_wait_within_what_a_cell_decides() -> None:
    @eagle.Graph.builder
    def maybe(x, c):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                q = shrink(x)
            with p.branch() as b:
                r = add(x, x)
                if c:
                    b.wait(q)
                    r = shrink(q)
        g.result = r
        return g

    g = maybe(plane(), cell(1))
    assert g.node_labels() == ["q", "r", "wait", "branches"] and g.schedule == ("work_share",)
    assert g().tolist() == [2.0, 0.75]
    assert g.bind(c=cell(0))().tolist() == [16.0, 6.0]


@pytest.mark.parametrize("dispatch", ["switch", "predicated"])
def test_a_wait_for_a_launch_that_dispatch_replaces(dispatch: str) -> None:
    kind, y = np.array([0, 1]), np.array([4.0, 2.0])

    @eagle.Graph.builder
    def waits(x, c):
        g = eagle.Graph(dispatch=dispatch)
        for _ in range(3):
            if not c:
                break
            with g.parallel() as p:
                with p.branch():
                    branchy(kind, x=y)
                with p.branch() as b:
                    b.wait(y)
                    x = shrink(y)
        g.result = x
        return g

    g = waits(plane(), cell(1))
    assert g.dispatch == {"branchy": {"dispatch0": dispatch}}
    assert g().tolist() == [0.25, 2.5] and y.tolist() == [0.5, 5.0]


# ---- bind ------------------------------------------------------------------------------------------------------------


def looped(x, c, k):
    g = eagle.Graph()
    y = shrink(x)
    eagle.copy(x, into=(z := np.zeros(len(x))))
    with g.parallel() as p:
        with p.branch():
            z = add(z, y)
        with p.branch():
            w = scale(x, k)
    for i in range(c):
        if not c: break  # noqa: E701
        x = count(x, i)
        if c:
            y = add(y, x)
    g.add_node(eagle.reduce(y, (s := np.zeros(1))))
    g.result = {"y": y, "z": z, "w": w, "s": s, "c": [c]}
    return g


def expected(x: Any, c: int, k: float) -> dict[str, Any]:
    y, z, w = x / 2, x + x / 2, x * k
    for i in range(c):
        x = x + i
        y = y + x
    return {"y": y.tolist(), "z": z.tolist(), "w": w.tolist(), "s": [y.sum()]}


def test_bind_takes_other_arrays() -> None:
    g = eagle.Graph.builder(looped)(plane(), cell(2), 3.0)
    labels = g.node_labels()

    def check(x: Any, c: Any) -> None:
        kept = x.copy()
        got = g()
        assert {name: got[name].tolist() for name in "yzws"} == expected(x, int(c[0]), 3.0)
        assert got["c"][0] is c
        assert x.tolist() == kept.tolist()

    x, c = np.array([1.0, 10.0]), cell(4)
    assert g.bind(x=x) is g
    check(x, g.result["c"][0])
    g.bind(c=c)
    check(x, c)
    x, c = np.array([5.0, 7.0]), cell(0)
    g.bind(x=x, c=c)
    check(x, c)
    assert g.node_labels() == labels


def test_bind_keeps_the_form_of_the_result() -> None:
    pair = namedtuple("pair", "sum difference")

    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        g.result = [pair(*both(x, x)), {"x": (x,)}]
        return g

    g = f(plane())
    g.bind(x=(x := np.array([1.0, 2.0])))
    first, second = g()
    assert type(first) is pair and first.sum.tolist() == [2.0, 4.0] and first.difference.tolist() == [0.0, 0.0]
    assert second["x"][0] is x


def test_bind_takes_arrays_of_other_libraries() -> None:
    @eagle.Graph.builder
    def sums(x, y):
        g = eagle.Graph()
        eagle.copy(x, into=(z := np.zeros(2)))
        g.result = add(z, add(x, y))
        return g

    def view(*values: float) -> Any:
        return eagle.interop.import_buffer(np.array(values))

    g = sums(view(1.0, 2.0), np.array([10.0, 20.0]))
    assert g().tolist() == [12.0, 24.0]
    assert g.bind(x=view(3.0, 4.0))().tolist() == [16.0, 28.0]
    assert g.bind(x=np.array([5.0, 6.0]), y=view(1.0, 1.0))().tolist() == [11.0, 13.0]
    with pytest.raises(eagle.LayoutError, match=r"Graph.bind: y: found shape \(1,\), wanted \(2,\)"):
        g.bind(y=view(1.0))
    with pytest.raises(eagle.BufferRefused, match="Graph.bind: y: found int64, wanted float64"):
        g.bind(y=eagle.interop.import_buffer(np.arange(2)))
    with pytest.raises(TypeError, match="Graph.bind: y: found .*, wanted an array"):
        g.bind(y=np.ndarray)
    assert g().tolist() == [11.0, 13.0]


def test_what_bind_refuses() -> None:
    g = eagle.Graph.builder(looped)(plane(), cell(2), 3.0)
    before = g()["y"].tolist()
    with pytest.raises(ValueError, match=r"Graph.bind: argument 'q': found a name that is no argument"):
        g.bind(q=plane())
    with pytest.raises(ValueError, match="Graph.bind: k: found 3.0, which decided"):
        g.bind(k=4.0)
    with pytest.raises(eagle.LayoutError, match=r"Graph.bind: x: found shape \(3,\), wanted \(2,\)"):
        g.bind(x=np.zeros(3))
    with pytest.raises(eagle.BufferRefused, match="Graph.bind: x: found float32, wanted float64"):
        g.bind(x=np.zeros(2, np.float32))
    with pytest.raises(TypeError, match="Graph.bind: x: found .*, a list, wanted an array"):
        g.bind(x=[1.0, 2.0])
    with pytest.raises(ValueError, match="found a name that is no argument"):
        eagle.Graph().add_node(opaque(lambda: None)).build().bind(x=plane())
    with pytest.raises(RuntimeError, match="call build"):
        eagle.Graph().bind(x=plane())
    assert g()["y"].tolist() == before


def test_bind_refuses_what_own_code_or_a_view_touches() -> None:
    @eagle.Graph.builder
    def own(x):
        g = eagle.Graph()
        opaque(lambda: None, reads={"x": x}, name="look")
        return g

    @eagle.Graph.builder
    def view(x):
        g = eagle.Graph()
        shrink(x[:1])
        return g

    with pytest.raises(ValueError, match="Graph.bind: x: found an array that own code touches, node 'look'"):
        own(plane()).bind(x=plane())
    with pytest.raises(ValueError, match="Graph.bind: x: found an array of which node 'shrink' has a view"):
        view(plane()).bind(x=plane())


def test_bind_refuses_arrays_that_race() -> None:
    @eagle.Graph.builder
    def f(x, y):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                shrink(x, out=y)
            with p.branch():
                g.result = shrink(x)
        return g

    g = f(plane(), np.zeros(2))
    with pytest.raises(ValueError, match="branches of one group"):
        g.bind(y=g.result)
    x = plane()
    g.bind(x=x)
    assert g().tolist() == [4, 1.5]


def test_kernels_that_gather() -> None:
    @eagle.Graph.builder
    def f(i, t, c):
        g = eagle.Graph()
        u = picked(i, t)
        if c:
            u = picked(i, t)  # reads t, writes u
        g.result = u
        return g

    assert f(np.array([1, 0]), plane(), cell())().tolist() == [3, 8]


def test_only_the_thread_of_a_builder_records() -> None:
    found = []

    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        shrink(x)
        worker = threading.Thread(target=lambda: found.append((shrink(x).tolist(), eagle.Graph().num_nodes())))
        worker.start()
        worker.join()
        return g

    assert f(plane()).node_labels() == ["shrink"]
    assert found == [([4, 1.5], 0)]


def test_graphs_of_builders_are_drawn_and_timed() -> None:
    @eagle.Graph.builder
    def f(x, c):
        g = eagle.Graph()
        with g.parallel() as p:
            with p.branch():
                left = shrink(x)
            with p.branch() as b:
                b.wait(left)
                right = add(x, left)
        if c:
            left = add(left, right)
        elif not c:
            for _ in range(3):
                if c: break  # noqa: E701
                right = shrink(right)
        g.result = [left, right]
        return g

    g = f(plane(), cell())
    assert [node.label for node in g.profile(3).nodes] == [
        "left", "right", "branches > left#2", "branches > repeat_while > right#2"]
    assert all(name in picture for name in ("left", "wait", "branches") for picture in (str(g), g.to_dot()))
    assert g.schedule == ("work_share", "work_share")
    assert [array.tolist() for array in g()] == [[16, 6], [12, 4.5]]


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(threads: int) -> None:
    before = eagle.num_threads()
    try:
        eagle.set_num_threads(threads)
        g = eagle.Graph.builder(looped)(np.arange(50_000.0), cell(3), 2.0)
        got = g()
    finally:
        eagle.set_num_threads(before)
    wanted = expected(np.arange(50_000.0), 3, 2.0)
    assert {name: got[name].tolist() for name in "yzw"} == {name: wanted[name] for name in "yzw"}
