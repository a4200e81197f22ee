# SPDX-License-Identifier: Apache-2.0
"""eagle.Graph: runners as nodes, dispatch, launches, exceptions, threads, signals, forks."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Callable
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
import stepping_kernels
from graph_forms import add_one, bind, interrupted, nothing, ramp, touching, u32
from numpy.testing import assert_array_equal

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Edge, Graph, Node, register_node_kind

# ---- runners ---------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_loop_of_a_runner_is_a_node() -> None:
    n = 50
    kind, stop = np.arange(n) % 3, np.arange(n) % 7 + 1.0
    x, k, done, seen = ramp(n), np.zeros(n), np.zeros(n, bool), np.zeros(n)
    other = [a.copy() for a in (x, k, done)]
    eagle.run_until_done(eagle.deploy(stepping_kernels.mixed), max_steps=100,
                         kind=kind, stop=stop, x=other[0], k=other[1],
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
    stop, x, k, done, log = np.arange(n) % 5 + 1.0, ramp(n), np.zeros(n), np.zeros(n, bool), list[float]()
    model = opaque(lambda: log.append(float(k.max())), reads={"k": k}, name="model")
    step = eagle.deploy(ks.stepped)
    runner = eagle.until_done([model, step], max_steps=100, stop=stop, x=x, k=k, terminated=done)
    g = Graph().add_node(touching(writes={"k": k})).add_node(runner.loop)
    assert Edge(0, 1, "k", "RAW") in g.edges()
    g.build().launch()
    assert k.tolist() == stop.tolist() and log == [0.0, 1.0, 2.0, 3.0, 4.0]
    k[:], x[:] = 0.0, ramp(n)
    runner.reset()
    g.launch()
    assert_array_equal(x, ramp(n) * 0.5**stop)
    assert len(log) == 10
    s = eagle.simulation(ks.stepped, max_steps=100, stop=stop, x=ramp(n), k=np.zeros(n))
    assert Graph().add_node(s.loop, name="run").build().launch().node_labels() == ["run"]
    assert s.runner.terminated.all()


# ---- dispatch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dispatch", [None, "switch", "predicated", {"dispatch0": "predicated"},
    {"dispatch0": "switch"}, {}])
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.alone
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
    assert interrupted(lambda: g.launch(10**9)) < 0.2
    assert g.launch() is g


@pytest.mark.alone
@pytest.mark.parametrize("n", [8, 100_000])
def test_ctrl_c_in_a_loop_without_end(n: int) -> None:
    """A single replay, none of it Python."""
    x, live, inner = np.ones(n), u32(1), u32(3)
    halve = bind(ks.halve, x=x).launch
    loop = repeat_while((halve, repeat_while(halve, None, 3, limit=inner)), SkipGuard.nonzero(live))
    g = Graph().add_node(loop).build()
    live[0] = 0
    g.launch()  # a brief one
    live[0] = 1
    assert interrupted(g.launch) < 0.2
    live[0] = 0
    assert g.launch() is g and x[0] < 1.0 and (x == x[0]).all()


@pytest.mark.smoke
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


@pytest.mark.smoke
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


@pytest.mark.smoke
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
    g.profile(1)
    assert (x.tolist(), y.tolist()) == ([0.25] * 4, [1.0] * 4)


@pytest.mark.parametrize("form", ["launch", "body", "loop", "branches", "sequence", "entry"])
def test_nothing_but_no_samples(form: str, fresh_kinds: None) -> None:
    none, cells = bind(ks.halve, x=np.zeros(0)), u32(1)
    g = Graph()
    if form == "launch":
        g.add(none)
    elif form == "body":
        g.add_node(skippable(none.launch, SkipGuard.nonzero(cells)))
    elif form == "loop":
        g.add_node(loop := repeat_while(none.launch, SkipGuard.nonzero(cells), 3))
    elif form == "branches":
        g.add_group([none, [none, none]])
    elif form == "sequence":
        g.add_node(skippable((none.launch, skippable(none.launch, SkipGuard.nonzero(cells))),
                             SkipGuard.nonzero(cells)))
    else:
        register_node_kind("empty", reads=lambda node: (), writes=lambda node: (), lower_gpu=None,
                           lower_cpu=lambda node, ctx: nothing, native_entry=lambda node, ctx: (16, (), ((0, 0, 0),)))
        g.add_node(Node("empty", None))
    assert g.build().launch(3) is g
    if form == "loop":
        assert loop.iterations() == 3
    assert sum(one.seconds for one in g.profile(2).nodes) < 0.1


def test_no_samples() -> None:
    x, y = np.zeros(0), np.zeros(0)
    Graph().add(bind(ks.affine, x=x, out=y, a=1.0, b=1.0)).add_group([bind(ks.halve, x=x), bind(ks.halve, x=y)]).build(
        ).launch(3)


@pytest.mark.smoke
def test_checked_launches() -> None:
    i, t, out = np.array([0, 1, 9]), ramp(3), np.zeros(3)
    g = Graph().add_node(add_one(out)).add(bind(ks.lookup, i=i, t=t, out=out)).build()
    with eagle.exec.checking(), pytest.raises(eagle.OutOfBounds, match="'t'"):
        g.launch()
    i[2] = 2
    with eagle.exec.checking():
        g.launch(2)
    assert_array_equal(out, t * 0.5)


def test_counters() -> None:
    before = eagle.counters.snapshot()
    assert list(before) == ["captures", "instantiations", "binds", "rebinds", "updates", "graph_builds", "reverses",
                            "records", "host_syncs"]
    x = np.zeros(4)
    bound = bind(ks.halve, x=x)
    g = Graph().add(bound)
    with pytest.raises(ValueError):
        g.build(backend="gpu")
    g.build().launch(3)
    bound.rebind(x=np.zeros(4))
    after = eagle._counters.snapshot()  # type: ignore[attr-defined]
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changed == {"captures": 1, "instantiations": 1, "binds": 1, "rebinds": 1, "graph_builds": 1}


def test_counters_are_exact_under_threads() -> None:
    def build() -> None:
        for _ in range(50):
            Graph().add_node(touching()).build()

    before = eagle.counters.snapshot()["graph_builds"]
    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eagle.counters.snapshot()["graph_builds"] - before == 200
