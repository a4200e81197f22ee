# SPDX-License-Identifier: Apache-2.0
"""Graphs in wrong hands: arrays that are resized, nesting without end, calls in the midst of others, slow replays."""

from __future__ import annotations

import collections
import copy
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import builder_kernels as bs
import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import Array, add_one, bind, nothing, u32

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Graph, Node, register_node_kind

pytestmark = pytest.mark.smoke


# ---- arrays that are resized -----------------------------------------------------------------------------------------




def resized_by(make: Callable[[Array], Any]) -> Callable[[], Graph]:
    """A graph of a node over an array that is resized behind the node's back."""

    def graph() -> Graph:
        x = np.ones(4)
        g = add(Graph(), make(x))
        x.resize(100_000, refcheck=False)
        return g

    return graph


def add(g: Graph, part: Any) -> Graph:
    return g.add(part) if isinstance(part, eagle.BoundPlan) else g.add_node(part)


def cells_resized(make: Callable[[Array], Any]) -> Callable[[], Graph]:
    def graph() -> Graph:
        cells = np.ones(4, np.uint32)
        g = Graph().add_node(make(cells))
        cells.resize(1, refcheck=False)
        return g

    return graph


BEFORE = {
    "in place": resized_by(lambda x: bind(ks.halve, x=x)),
    "read": resized_by(lambda x: bind(ks.affine, x=x, a=1.0, b=1.0, out=np.zeros(4))),
    "out": resized_by(lambda x: bind(ks.affine, x=np.ones(4), a=1.0, b=1.0, out=x)),
    "copy": resized_by(lambda x: eagle.copy(np.ones(4), into=x)),
    "reduce": resized_by(lambda x: eagle.reduce(x, np.zeros(1))),
    "body": resized_by(lambda x: skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(u32(1)))),
    "guard": cells_resized(lambda cells: skippable(nothing, SkipGuard(cells, 3))),
    "baseline": cells_resized(lambda cells: skippable(nothing, SkipGuard(u32(1), 0, cells, 2))),
}


@pytest.mark.parametrize("kind", BEFORE)
def test_planes_that_were_resized_before_build(kind: str) -> None:
    g = BEFORE[kind]()
    with pytest.raises(eagle.BufferRefused):
        g.build()
    assert g.backend is None


def test_a_builders_array_that_is_resized_midway() -> None:
    @eagle.Graph.builder
    def f(x: Any) -> eagle.Graph:
        g = eagle.Graph()
        g.result = bs.shrink(x)
        x.resize(1000, refcheck=False)
        return g

    with pytest.raises(eagle.BufferRefused, match="found an array that moved"):
        f(np.ones(2))


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("call", ["launch", "profile"])
def test_own_code_cannot_resize_what_the_graph_works_on(view: bool, call: str) -> None:
    x = np.ones(1000)
    g = Graph().add_node(opaque(lambda: x.resize(10**6, refcheck=False)))
    g.add(bind(ks.halve, x=x[:10] if view else x)).build()
    with pytest.raises(ValueError, match="cannot resize"):
        getattr(g, call)(3)
    assert x.tolist() == [1.0] * 1000


# ---- a step of none, nesting, names ----------------------------------------------------------------------------------


def test_a_graph_of_no_samples_at_all() -> None:
    x = np.zeros(0)
    g = Graph().add(bind(ks.halve, x=x)).build()
    assert g.launch(5) is g and g.profile(2).seconds == 0.0
    assert Graph().add_group([bind(ks.halve, x=x), bind(ks.halve, x=np.zeros(0))]).build().launch() is not None


def nested(depth: int) -> Any:
    part: Any = bind(ks.halve, x=np.ones(4)).launch
    for _ in range(depth):
        part = skippable(part, SkipGuard.nonzero(u32(1)))
    return part


def listed(depth: int) -> Any:
    part: Any = opaque(nothing)
    for _ in range(depth):
        part = [part]
    return part


def test_nesting_has_an_end() -> None:
    Graph().add_node(nested(90)).add_group([listed(90), opaque(nothing)]).build().launch()
    endless: list[Any] = []
    endless.append(endless)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)  # which has Python's own check out of the way
    try:
        for call in (lambda: Graph().add_node(nested(20_000)),
                     lambda: Graph().add_group([listed(20_000), opaque(nothing)]),
                     lambda: Graph().add_group([endless, opaque(nothing)])):
            with pytest.raises(ValueError, match="more than 100 lists or conditionals within each other"):
                call()
    finally:
        sys.setrecursionlimit(before)


def test_graphs_are_not_copied() -> None:
    g = Graph().add(bind(ks.halve, x=np.ones(4))).build()
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle 'Graph' object"):
            call(g)


def test_a_profile_of_another_graph_is_not_drawn() -> None:
    one = Graph().add(bind(ks.halve, x=np.ones(4))).build()
    two = Graph().add(bind(ks.halve, x=np.ones(4))).add_node(opaque(nothing)).build()
    for g, other in ((one, two), (two, one)):
        with pytest.raises(ValueError, match=r"eagle.Graph.plot: profile: found one of \d nodes, wanted one of \d"):
            g.plot(profile=other.profile(1))
    with pytest.raises(TypeError, match="wanted a Profile"):
        one.plot(profile=3)  # type: ignore[arg-type]


# ---- in the midst of other calls -------------------------------------------------------------------------------------


def test_nothing_is_added_while_a_graph_is_built(fresh_kinds: None) -> None:
    errors: list[BaseException] = []

    def lower(node: Node, ctx: Any) -> Callable[[], object]:
        for call in (lambda: g.add(bound), lambda: g.add_node(opaque(nothing)),
                     lambda: g.add_group([opaque(nothing)] * 2)):
            with pytest.raises(eagle.Busy) as error:
                call()
            errors.append(error.value)
        return nothing

    register_node_kind("adding", reads=lambda node: (), writes=lambda node: (), lower_gpu=nothing, lower_cpu=lower)
    bound = bind(ks.halve, x=np.ones(4))
    g = Graph().add_node(Node("adding", None))
    assert g.build().num_nodes() == 1
    assert [str(error).partition(":")[0] for error in errors] == ["Graph.add", "Graph.add_node", "Graph.add_group"]


def test_adding_in_one_thread_and_building_in_another_loses_nothing() -> None:
    for _ in range(5):
        x, added, done = np.ones(4), 50, threading.Event()
        bound = bind(ks.halve, x=x)
        g = Graph()
        for _ in range(added):
            g.add(bound)

        def adding(g: Graph = g, bound: Any = bound, done: threading.Event = done) -> None:
            nonlocal added
            while not done.is_set():
                try:
                    g.add(bound)
                except RuntimeError:  # busy, or built
                    continue
                added += 1

        thread = threading.Thread(target=adding)
        thread.start()
        while g.backend is None:
            try:
                g.build()
            except eagle.Busy:
                time.sleep(0.001)
        done.set()
        thread.join()
        g.launch()
        assert g.num_nodes() == added and x.tolist() == [0.5**added] * 4


def test_calls_of_own_code_on_its_own_graph() -> None:
    x, errors = np.ones(8), list[type[BaseException]]()

    def again() -> None:
        for call in (g.launch, g.build, g.bind, g.profile, lambda: g.launch(10**9)):
            with pytest.raises(RuntimeError) as error:
                call()
            errors.append(error.type)
        assert g.num_nodes() == 2 and str(g) and g.edges() == ()

    g = Graph().add_node(opaque(again)).add(bind(ks.halve, x=x)).build()
    g.launch(2)
    assert errors == [eagle.Busy] * 10 and x.tolist() == [0.25] * 8


def test_own_code_runs_another_graph_and_changes_the_team(team: Callable[[int], None]) -> None:
    team(2)
    x, y, calls = np.ones(100_000), np.ones(100_000), np.zeros(1)
    inner = Graph().add(bind(ks.halve, x=y)).add_node(add_one(calls)).build()

    def change() -> None:
        inner.launch()
        eagle.set_num_threads(1 + int(calls[0]) % 3)

    g = Graph().add(bind(ks.halve, x=x)).add_node(opaque(change)).add(bind(ks.halve, x=x))
    g.add_group([opaque(inner.launch), bind(ks.halve, x=np.ones(5000))]).build().launch(6)
    assert calls[0] == 12 and (x == 0.5**12).all() and (y == 0.5**12).all()


def test_one_graph_in_the_threads_of_others_planes() -> None:
    """Graphs over the same planes in several threads: any order, but no crash."""
    x, y = np.ones(20_000), np.ones(20_000)
    graphs = [Graph().add(bind(ks.affine, x=x, a=2.0, b=float(i), out=np.zeros(20_000))).add(bind(ks.halve, x=plane))
              .build() for i, plane in enumerate([y, np.ones(20_000), np.ones(20_000)])]
    threads = [threading.Thread(target=g.launch, args=(20,)) for g in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (y == 0.5**20).all()


def test_a_graph_that_is_dropped_while_it_runs() -> None:
    x, live = np.ones(64), u32(1)
    graphs = [Graph().add_node(repeat_while(bind(ks.halve, x=x).launch, SkipGuard.nonzero(live))).build()]
    thread = threading.Thread(target=graphs[0].launch)
    thread.start()
    time.sleep(0.05)
    graphs.clear()
    live[0] = 0
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no-device: nothing forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_own_code_forks(team: Callable[[int], None]) -> None:
    team(2)
    x, pids = np.ones(200_000), list[int]()
    g = Graph().add(bind(ks.halve, x=x)).add_node(opaque(lambda: pids.append(os.fork()))).add(bind(ks.halve, x=x))
    status = 1
    try:
        g.build().launch()
        status = 0 if (x == 0.25).all() else 2
    finally:
        if pids[-1] == 0:
            os._exit(status)
    assert status == 0 and os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]) == 0


# ---- the end of the interpreter --------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["native", "large", "own code", "loop", "profile", "building"])
def test_the_interpreter_ends_while_a_thread_launches(work: str, tmp_path: Any) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(f"""
        import threading, time
        import graph_kernels as ks
        import numpy as np
        from eagle import SkipGuard, opaque, repeat_while
        from eagle.graph import Graph
        from graph_forms import bind, nothing, u32

        halve = bind(ks.halve, x=np.ones(3_000_000 if {work!r} == "large" else 100))

        def forever():
            g = Graph()
            if {work!r} == "loop":
                g.add_node(repeat_while(halve.launch, SkipGuard.nonzero(u32(1))))
            else:
                g.add(halve)
            if {work!r} in ("own code", "profile"):
                g.add_node(opaque(nothing))
            g.build()
            started.set()
            while {work!r} == "building":
                str(Graph().add(halve).add_group([halve, opaque(nothing)]).build().launch(3))
            g.profile(10**9) if {work!r} == "profile" else g.launch(10**12)

        started = threading.Event()
        threading.Thread(target=forever, daemon=True).start()
        assert started.wait(60)
        time.sleep(0.1)
    """))
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, str(program)], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                          text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")


# ---- builders --------------------------------------------------------------------------------------------------------


@eagle.Graph.builder
def into(x: Any, out: Any) -> eagle.Graph:
    g = eagle.Graph()
    g.result = bs.shrink(x, buffer=out)
    return g


def test_bind_refuses_one_array_that_is_two_arguments() -> None:
    """Which of its uses is meant, nobody can tell."""
    x, n = np.array([8.0, 3.0]), np.zeros(2)
    g = into(x, np.zeros(2))
    g.bind(out=x)
    for planes in ({"out": n}, {"x": n}):
        with pytest.raises(ValueError, match=r"found an array that is '(x|out)' too"):
            g.bind(**planes)
    assert g().tolist() == [4.0, 1.5] and g.bind(x=n, out=n)().tolist() == [0.0, 0.0] and x.tolist() == [4.0, 1.5]


def test_bind_keeps_the_type_of_a_named_tuple() -> None:
    Pair = collections.namedtuple("Pair", "half x")

    @eagle.Graph.builder
    def f(x: Any) -> eagle.Graph:
        g = eagle.Graph()
        g.result = Pair(bs.shrink(x), x)
        return g

    x = np.array([6.0])
    result = f(np.ones(1)).bind(x=x)()
    assert type(result) is Pair and result.half.tolist() == [3.0] and result.x is x


def caught_in_a_fork(g: eagle.Graph, x: Any) -> None:
    try:
        with g.parallel() as p:
            with p.branch():
                bs.shrink(x)
            raise KeyError
    except KeyError:
        pass


def caught_in_a_branch(g: eagle.Graph, x: Any) -> None:
    with g.parallel() as p:
        try:
            with p.branch():
                bs.shrink(x)
                raise KeyError
        except KeyError:
            pass


def never_left(g: eagle.Graph, x: Any) -> None:
    g.parallel().__enter__().branch().__enter__()
    bs.shrink(x)


@pytest.mark.parametrize("part", [caught_in_a_fork, caught_in_a_branch, never_left])
def test_nodes_that_would_be_lost(part: Callable[[eagle.Graph, Any], None]) -> None:
    @eagle.Graph.builder
    def f(x: Any) -> eagle.Graph:
        g = eagle.Graph()
        bs.shrink(x)
        part(g, x)
        return g

    with pytest.raises(RuntimeError, match=r"f\(\): the function: found a fork, a branch, or control flow on cells"):
        f(np.ones(2))


def test_a_block_that_fails_adds_nothing() -> None:
    @eagle.Graph.builder
    def caught(g: eagle.Graph, x: Any, cell: Any) -> None:
        try:
            if cell:
                x = bs.shrink(x)
                raise KeyError
        except KeyError:
            pass

    @eagle.Graph.builder
    def fails(g: eagle.Graph, x: Any) -> None:
        bs.shrink(x)
        raise KeyError

    g = eagle.Graph().add_node(opaque(nothing))
    with pytest.raises(RuntimeError, match="that did not come to its end"):
        caught(g, np.ones(2), u32(1))
    with pytest.raises(KeyError):
        fails(g, np.ones(2))
    assert g.num_nodes() == 1 and bs.shrink(np.ones(2)).tolist() == [0.5, 0.5]


def test_a_fork_is_entered_once() -> None:
    @eagle.Graph.builder
    def f(x: Any) -> eagle.Graph:
        g = eagle.Graph()
        p = g.parallel()
        for _ in range(2):
            with p, p.branch():
                bs.shrink(x)
        return g

    with pytest.raises(RuntimeError, match="eagle.Graph.parallel: this fork: found one that was entered"):
        f(np.ones(2))
