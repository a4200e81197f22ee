# SPDX-License-Identifier: Apache-2.0
"""What eagle.Graph refuses, with the facts each message names; a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import nothing, refused, touching, u32
from producers import Producer

import eagle
from eagle import RepeatWhile, SkipGuard, Skippable, opaque, repeat_while, skippable
from eagle.graph import Graph, Node, get_node_kind, register_node_kind
from eagle.plan import BoundPlan

Array = np.ndarray[Any, Any]


def zeros(n: int = 4) -> Array:
    return np.zeros(n)


def halved(x: Array) -> BoundPlan:
    return eagle.deploy(ks.halve).bind(x=x)


# ---- section 1 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["add", "add_node", "add_group", "build"])
def test_a_built_graph_is_closed(method: str) -> None:
    x = zeros()
    g = Graph().add_node(touching(writes={"x": x})).build()
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: g.add(halved(zeros())), "add_node": lambda: g.add_node(touching()),
        "add_group": lambda: g.add_group([touching(), touching()]), "build": g.build}
    with refused(RuntimeError, f"eagle.Graph.{method}", "make a new Graph"):
        calls[method]()
    assert g.num_nodes() == 1 and g.launch() is g


@pytest.mark.parametrize("method", ["launch", "enqueue", "synchronize", "update", "__call__"])
def test_an_unbuilt_graph_does_not_run(method: str) -> None:
    hits: list[int] = []
    g = Graph().add_node(opaque(lambda: hits.append(1)))
    with refused(RuntimeError, f"eagle.Graph.{'launch' if method == '__call__' else method}", "build"):
        getattr(g, method)()
    assert hits == []


def test_update_names_what_is_missing() -> None:
    g = Graph().add_node(touching()).build()
    with refused(ValueError, "eagle.Graph.update", "record"):
        g.update(a=1.0)


@pytest.mark.parametrize(("thing", "facts"), [
    (3, ("3", "int", "BoundPlan")), (None, ("None", "BoundPlan")), (nothing, ("function", "BoundPlan")),
    (touching(), ("Node", "add_node")), ([], ("list",)),
])
def test_add_takes_bound_plans(thing: Any, facts: tuple[str, ...]) -> None:
    g = Graph()
    with refused(TypeError, "eagle.Graph.add: ", *facts):
        g.add(thing)
    assert g.num_nodes() == 0


def test_add_points_a_deployed_kernel_to_bind() -> None:
    with refused(TypeError, "eagle.Graph.add: ", "AutoPlan", "bind"):
        Graph().add(eagle.deploy(ks.halve))  # type: ignore[arg-type]


@pytest.mark.parametrize(("thing", "facts"), [
    (3, ("3", "int")), (nothing, ("function", "opaque")), (None, ("None",)), ([touching()], ("list",)),
])
def test_add_node_takes_nodes(thing: Any, facts: tuple[str, ...]) -> None:
    g = Graph()
    with refused(TypeError, "eagle.Graph.add_node: ", *facts):
        g.add_node(thing)
    assert g.num_nodes() == 0


def test_add_node_points_a_bound_plan_to_add() -> None:
    with refused(TypeError, "eagle.Graph.add_node: ", "BoundPlan", "use add"):
        Graph().add_node(halved(zeros()))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [1, b"x", ["x"], ("x",)])
def test_names_are_texts(name: Any) -> None:
    g = Graph()
    for method, call in (("add", lambda: g.add(halved(zeros()), name=name)),
                         ("add_node", lambda: g.add_node(touching(), name=name)),
                         ("add_group", lambda: g.add_group([touching(), touching()], names=["a", name]))):
        with refused(TypeError, f"eagle.Graph.{method}: name: found", "text"):
            call()
    assert g.num_nodes() == 0


def test_positions_are_refused() -> None:
    with refused(TypeError, "eagle.Graph: arguments", "2 by position", "record="):
        Graph(True, "cpu")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Graph().add_node(touching()).build("cpu")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Graph().add(halved(zeros()), "name")  # type: ignore[call-arg]


@pytest.mark.parametrize("value", [1, "yes", None, [True]])
def test_flags_are_bools(value: Any) -> None:
    with refused(TypeError, "eagle.Graph: record", "True or False"):
        Graph(record=value)
    with refused(TypeError, "eagle.Graph.build: record", "True or False"):
        Graph().add_node(touching()).build(record=value)
    with refused(TypeError, "eagle.Graph.add: grad", "True or False"):
        Graph().add(halved(zeros()), grad=value)


def test_a_plane_that_is_no_array(fresh_kinds: None) -> None:
    register_node_kind("odd", reads=lambda node: (("x", 3, "per_sample"),), writes=lambda node: (), lower_gpu=nothing,
                       lower_cpu=lambda node, ctx: nothing)
    with refused(TypeError, "odd", "int", "'x'"):
        Graph().add_node(Node("odd", None)).build()
    with refused(TypeError, "mine", "int", "'x'"):
        Graph().add_node(Node("odd", None), name="mine").edges()
    with pytest.raises(TypeError, match=r"'x'.*int"):
        opaque(nothing, reads={"x": 3})


def test_planes_that_a_launch_would_copy() -> None:
    v = np.zeros((5, 3))
    with pytest.warns(eagle.LayoutWarning):
        bound = eagle.deploy(ks.turn).bind(v=eagle.samples_first(v), a=1.0)
    g = Graph()
    with refused(ValueError, "eagle.Graph.add: ", "'v'", "samples last"):
        g.add(bound)
    with refused(ValueError, "eagle.Graph.add_node: ", "'v'"):
        g.add_node(skippable(bound.launch, SkipGuard.nonzero(u32(1))))
    with refused(ValueError, "eagle.Graph.add_group: ", "'v'"):
        g.add_group([bound, touching()])
    assert g.num_nodes() == 0


def test_planes_that_bind_copied() -> None:
    """Integers narrower than their plane: the kernel would never see what the caller writes later."""
    bound = eagle.deploy(ks.whole).bind(i=np.arange(4, dtype=np.int32), j=np.arange(4), k=np.zeros(4, np.int64))
    with refused(ValueError, "eagle.Graph.add: ", "'i'", "int64"):
        Graph().add(bound)


@pytest.mark.parametrize("kind", ["vjp", "jvp"])
def test_derivative_kernels(kind: str) -> None:
    import hawk

    plan = eagle.deploy(hawk.Kernel(f"both_{kind}", getattr(hawk.diff, kind)(ks.both)))
    planes = {slot.name: zeros() for slot in plan.host.signature.arguments if slot.is_array}
    bound = plan.bind(**planes)
    for put in (lambda: Graph().add(bound), lambda: Graph().add_group([bound, touching()]),
                lambda: Graph().add_node(skippable(bound.launch, SkipGuard.nonzero(u32(1))))):
        with pytest.raises(ValueError, match=rf"^eagle\.Graph\.add.*{kind}.*derivative"):
            put()


def test_an_empty_graph() -> None:
    g = Graph()
    with refused(ValueError, "eagle.Graph.build", "none"):
        g.build()
    assert g.add_node(touching()).build().backend == "cpu"


@pytest.mark.parametrize(("value", "facts"), [
    (3, ("3", "int")), ("x", ("str",)), ({1: np.zeros(2)}, ("1",)), ([np.zeros(2), 3], ("int",)),
    ({"a": (np.zeros(1), {2: np.zeros(1)})}, ("2",)), (np.ndarray, ("type",)), (object(), ("object",)),
])
def test_results_are_trees_of_arrays(value: Any, facts: tuple[str, ...]) -> None:
    g = Graph()
    with refused(TypeError, "eagle.Graph.result", *facts):
        g.result = value
    assert g.result is None


def test_results_are_set_before_build() -> None:
    x = zeros()
    g = Graph().add_node(touching(writes={"x": x}))
    g.result = {"x": [x, (x, x)]}
    g.build()
    with refused(RuntimeError, "eagle.Graph.result", "built"):
        g.result = x
    assert g()["x"][0] is x


@pytest.mark.parametrize(("option", "value"), [("fuse", 1), ("fuse", None)])
def test_fuse(option: str, value: Any) -> None:
    g = Graph().add_node(touching())
    with refused(TypeError, "eagle.Graph.fuse", "True or False"):
        setattr(g, option, value)
    g.build()
    with refused(RuntimeError, "eagle.Graph.fuse"):
        g.fuse = False


# ---- section 2 -------------------------------------------------------------------------------------------------------


def test_an_unknown_kind() -> None:
    live = u32(1)
    g = Graph()
    for put in (lambda: g.add_node(Node("nobody", None)), lambda: g.add_group([Node("nobody", None), touching()]),
                lambda: g.add_node(skippable(Node("nobody", None), SkipGuard.nonzero(live)))):
        with refused(ValueError, "nobody", "opaque"):
            put()
    assert g.num_nodes() == 0
    with refused(ValueError, "eagle.graph.get_node_kind", "nobody", "launch", "reduce", "skippable"):
        get_node_kind("nobody")
    with refused(ValueError, "eagle.Graph.add_node: kind", "nobody"):
        g.add_node(Node("nobody", None))


@pytest.mark.parametrize(("entry", "raised"), [
    (3, TypeError), ((16, ()), TypeError), (("x", (), ()), TypeError), ((16, ("x",), ()), TypeError),
    ((16, 3, ()), TypeError), ((16, (), ((0, 1),)), TypeError), ((16, (), (3,)), TypeError),
    ((0, (), ((0, 1, 1),)), ValueError), ((-1, (), ((0, 1, 1),)), ValueError), ((2**64, (), ()), ValueError),
    ((16, (-1,), ()), ValueError), ((16, (), ((0, -1, 1),)), ValueError), ((16, (), ((-1, 1, 1),)), ValueError),
    ((16, (), ((1, 1, 1),)), ValueError), ((16, (), ((0, 1, 2**63),)), ValueError),
])
def test_what_is_no_native_entry(fresh_kinds: None, entry: Any, raised: type[Exception]) -> None:
    register_node_kind("odd", reads=lambda node: (), writes=lambda node: (), lower_gpu=None,
                       lower_cpu=lambda node, ctx: nothing, native_entry=lambda node, ctx: entry)
    g = Graph().add_node(Node("odd", None), name="mine")
    with refused(raised, "eagle.Graph.build: node 'mine', native_entry of kind 'odd'"):
        g.build()
    assert g.backend is None


def test_work_that_cannot_be_called(fresh_kinds: None) -> None:
    register_node_kind("odd", reads=lambda node: (), writes=lambda node: (), lower_gpu=None,
                       lower_cpu=lambda node, ctx: 3)  # type: ignore[arg-type,return-value]
    register_node_kind("outer", reads=lambda node: (), writes=lambda node: (), lower_gpu=None,
                       lower_cpu=lambda node, ctx: ctx.lower(Node("odd", None, "mine")))
    for node in (Node("odd", None, "mine"), Node("outer", None)):
        with refused(TypeError, "eagle.Graph.build: node 'mine', lower_cpu of kind 'odd'", "3", "callable"):
            Graph().add_node(node).build()


def test_a_failed_add_claims_nothing() -> None:
    loop = skippable((touching(), Node("nobody", None)), SkipGuard.nonzero(u32(1)))
    g = Graph()
    with refused(ValueError, "nobody"):
        g.add_node(loop)
    with refused(ValueError, "nobody"):  # not that another graph has it
        Graph().add_node(loop)


@pytest.mark.parametrize("kind", ["launch", "group", "sequence", "skippable", "repeat_while", "branches", "cell",
                                  "wait",
                                  "phase", "phase_reverse", "opaque", "opaque_host", "opaque_stream", "child", "copy",
                                  "reduce"])
def test_kinds_of_eagle_are_taken(kind: str) -> None:
    with refused(ValueError, repr(kind)):
        register_node_kind(kind, reads=lambda node: (), writes=lambda node: (), lower_gpu=nothing, lower_cpu=nothing)


# ---- section 3 -------------------------------------------------------------------------------------------------------


def test_a_captured_graph_does_not_run_on_the_host() -> None:
    class Owner:
        graph = 77

    g = Graph().add_node(eagle.graph.child(Owner(), reads={"x": zeros()}, name="model"))
    with refused(ValueError, "model", "opaque"):
        g.build()
    assert g.backend is None


# ---- section 4 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("branches", "raised", "facts"), [
    ([], ValueError, ("branches", "two")), ([touching()], ValueError, ("branches", "two")),
    ([touching(), []], ValueError, ("branches[1]",)), ([(), touching()], ValueError, ("branches[0]",)),
    ([touching(), 3], TypeError, ("branches[1]", "int")),
    ([touching(), [touching(), "x"]], TypeError, ("branches[1]", "str")),
    ([touching(), nothing], TypeError, ("branches[1]", "function", "opaque")),
    ([touching(), [touching(), [nothing]]], TypeError, ("branches[1], part 1, part 0", "opaque")),
    ([touching(), None], TypeError, ("branches[1]", "None")), (3, TypeError, ("3",)), (None, TypeError, ("None",)),
    ("ab", TypeError, ("'ab'",)),
])
def test_what_is_no_group(branches: Any, raised: type[Exception], facts: tuple[str, ...]) -> None:
    g = Graph()
    with refused(raised, "eagle.Graph.add_group: ", *facts):
        g.add_group(branches)
    assert g.num_nodes() == 0


@pytest.mark.parametrize(("names", "raised", "facts"), [
    (["a"], ValueError, ("names", "1", "2")), (["a", "b", "c"], ValueError, ("names", "3", "2")),
    ([], ValueError, ("names",)),
    ("ab", TypeError, ("names", "'ab'")), (3, TypeError, ("names", "3")),
])
def test_names_of_branches(names: Any, raised: type[Exception], facts: tuple[str, ...]) -> None:
    with refused(raised, "eagle.Graph.add_group: ", *facts):
        Graph().add_group([touching(), touching()], names=names)


RACES = {
    "RAW": ({}, {"p": 0}, {"q": 0}, {}), "WAR": ({"p": 0}, {}, {}, {"q": 0}), "WAW": ({}, {"p": 0}, {}, {"q": 0}),
}


def member(memory: Array, reads: dict[str, int], writes: dict[str, int], name: str) -> Node:
    return touching({key: memory[at:at + 2] for key, at in reads.items()},
                    {key: memory[at:at + 2] for key, at in writes.items()}, name)


@pytest.mark.parametrize("kind", RACES)
def test_siblings_that_race(kind: str) -> None:
    r0, w0, r1, w1 = RACES[kind]
    x = zeros(8)
    g = Graph().add_node(touching()).add_group([member(x, r0, w0, "left"), member(x, r1, w1, "right")])
    with refused(ValueError, "eagle.Graph.build", "'left'", "'right'", "nodes 1 ", " 2 ",
                 kind, "'p'", "'q'", "one branch"):
        g.build()
    assert g.backend is None and g.schedule == ()


def test_races_in_nested_groups_and_bodies() -> None:
    x, live = zeros(8), u32(1)
    a, b = member(x, {}, {"p": 0}, "a"), member(x, {"q": 1}, {}, "b")

    inner = Graph().add_group([[a, b], touching(), touching()])
    assert inner.build().launch() is inner  # of one branch: in order
    with refused(ValueError, "'a'", "'b'", "'p'", "'q'"):
        Graph().add_group([touching(), [touching(), [a, touching()]], [touching(), b]]).build()
    with refused(ValueError, "'a'", "'skippable'", "'p'", "'q'"):
        Graph().add_group([a, skippable(b, SkipGuard.nonzero(live))]).build()
    with refused(ValueError, "'a'", "'repeat_while'"):
        Graph().add_group([a, repeat_while(skippable((touching(), b), SkipGuard.nonzero(live)), SkipGuard.nonzero(live),
                                           3)]).build()


def test_cells_race_too() -> None:
    live = u32(1, 2)
    writer = touching(writes={"live": live}, name="writer")
    for guard in (SkipGuard.nonzero(live), SkipGuard(u32(1), 0, live, 1)):
        with refused(ValueError, "'writer'", "'skippable'", "'live'"):
            Graph().add_group([writer, skippable(touching(), guard)]).build()
    for options in ({"limit": live}, {"brk": live}):
        with refused(ValueError, "'writer'", "'repeat_while'", "'live'"):
            Graph().add_group([writer, repeat_while(touching(), None, 3, **options)]).build()
    loop = repeat_while(touching(), None, 3, limit=u32(3))
    with refused(ValueError, "'reader'", "'repeat_while'", "'iterations'"):
        Graph().add_group([touching(reads={"n": loop.iteration_index}, name="reader"), loop]).build()


def test_launches_that_race() -> None:
    x, y = zeros(), zeros()
    drift = eagle.deploy(ks.drift)
    first, second = drift.bind(x=x, y=y, a=1.0), drift.bind(x=y, y=zeros(), a=1.0)
    with refused(ValueError, "'first'", "'second'", "'y'", "'x'", "WAR"):
        Graph().add_group([first, second], names=["first", "second"]).build()


# ---- section 5 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: skippable(touching(), SkipGuard.nonzero(u32(1))),
                                  lambda: repeat_while(touching(), SkipGuard.nonzero(u32(1)), 2)])
def test_a_conditional_belongs_to_one_graph(make: Callable[[], Skippable | RepeatWhile]) -> None:
    made = make()
    g = Graph().add_node(made).add_node(made)  # twice in one is fine
    other = Graph()
    for put in (lambda: other.add_node(made), lambda: other.add_group([made, touching()]),
                lambda: other.add_node(skippable((touching(), made), SkipGuard.nonzero(u32(1))))):
        with refused(ValueError, type(made).__name__, "graph"):
            put()
    assert other.num_nodes() == 0 and g.build().num_nodes() == 2
    del g
    with refused(ValueError, "none"):
        other.build()
    import gc

    gc.collect()
    assert other.add_node(made).build().num_nodes() == 1  # its graph is gone


# ---- section 6 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["tpu", "CPU", "", 3, b"cpu", ["cpu"]])
def test_an_unknown_backend(backend: Any) -> None:
    g = Graph().add_node(touching(writes={"x": zeros()}))
    with refused(ValueError, "eagle.Graph.build", "backend", "cpu", "gpu", "cuda", "hip", "metal"):
        g.build(backend=backend)
    with refused(ValueError, "cpu", "metal"):
        Graph(backend=backend).add_node(touching(writes={"x": zeros()})).build()
    assert g.build(backend="cpu").backend == "cpu"


@pytest.mark.parametrize("backend", ["gpu", "cuda", "hip", "metal"])
def test_a_backend_where_the_planes_are_not(backend: str) -> None:
    g = Graph(backend=backend).add_node(touching(writes={"x": zeros()}))
    with refused(ValueError, "backend", repr(backend), "'cpu'"):
        g.build()
    assert g.build(backend="cpu").backend == "cpu"  # what build is given goes before


def test_planes_of_a_device() -> None:
    class Far(Producer):
        shape = (4,)

    array = Far(zeros(), device=(2, 0))
    g = Graph().add_node(touching(reads={"far": array}))
    with refused(eagle.BackendUnavailable, "'far'", "device"):
        g.build()
    for backend in ("cpu", eagle.backends.host().kind):
        with refused(ValueError, repr(backend), "'far'", "device"):
            g.build(backend=backend)
    with refused(ValueError, "'far'", "'farther'", "(2, 0)", "(2, 1)"):
        Graph().add_node(touching({"far": array, "farther": Far(zeros(), device=(2, 1))})).build()
    with refused(eagle.BackendUnavailable, "backend", "'gpu'"):
        Graph().add_node(touching()).build(backend="gpu")
    assert g.backend is None


@pytest.mark.parametrize(("device", "raised", "facts"), [
    (1, ValueError, ("device", "1")), (-3, ValueError, ("-3",)), ("0", TypeError, ("'0'",)),
    (True, TypeError, ("True",)),
    (0.0, TypeError, ("0.0",)),
])
def test_another_device(device: Any, raised: type[Exception], facts: tuple[str, ...]) -> None:
    g = Graph().add_node(touching(writes={"x": zeros()}))
    with refused(raised, "eagle.Graph.build: device", *facts):
        g.build(device=device)
    assert g.build(device=np.int32(0)).backend == "cpu"


def test_record_is_refused() -> None:
    for g, kw in ((Graph(record=True), {}), (Graph(), {"record": True})):
        with refused(ValueError, "record"):
            g.add_node(touching()).build(**kw)


@pytest.mark.parametrize(("dispatch", "facts"), [
    ("segmented", ("'segmented'", "simulate")), ({"dispatch0": "segmented"}, ("'segmented'",)),
    ("auto", ("'auto'", "switch")),
    ("fast", ("'fast'", "predicated")), ({"dispatch0": "fast"}, ("'fast'",)),
    ({"dispatch7": "switch"}, ("dispatch7", "dispatch0")),
    (3, ("3",)), ({3: "switch"}, ("3",)), (["switch"], ("switch",)),
])
def test_dispatches_that_cannot_be(dispatch: Any, facts: tuple[str, ...]) -> None:
    bound = eagle.deploy(ks.branchy).bind(x=zeros(), kind=np.zeros(4, np.int64))
    g = Graph().add(bound)
    with refused(ValueError, "eagle.Graph.build: dispatch", *facts):
        g.build(dispatch=dispatch)
    with refused(ValueError, *facts):
        Graph(dispatch=dispatch).add(bound).build()
    assert g.dispatch == {} and g.build().dispatch == {"branchy": {"dispatch0": "switch"}}


@pytest.mark.parametrize("dispatch", ["switch", "predicated", {"dispatch0": "switch"}])
def test_a_dispatch_that_nobody_can_take(dispatch: Any) -> None:
    authored = eagle.deploy(ks.authored).bind(x=zeros(), kind=np.zeros(4, np.int64))
    for g in (Graph().add(halved(zeros())), Graph().add(authored), Graph().add_node(touching())):
        with refused(ValueError, "eagle.Graph.build: dispatch"):
            g.build(dispatch=dispatch)
        assert g.build().dispatch == {}


# ---- section 7 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "raised", "facts"), [
    (-1, ValueError, ("-1",)), (-10**30, ValueError, ("0",)), (2**63, ValueError, (str(2**63),)),
    (1.0, TypeError, ("1.0", "float")), ("1", TypeError, ("'1'", "str")), (None, TypeError, ("None",)),
    (True, TypeError, ("True",)), (np.True_, TypeError, ("True",)), (np.float64(2), TypeError, ("2.0",)),
    (np.int64(-2), ValueError, ("-2",)), ([1], TypeError, ("list",)),
])
def test_counts(n: Any, raised: type[Exception], facts: tuple[str, ...]) -> None:
    hits: list[int] = []
    g = Graph().add_node(opaque(lambda: hits.append(1))).build()
    for method in ("launch", "enqueue"):
        with refused(raised, f"eagle.Graph.{method}: n", *facts):
            getattr(g, method)(n)
    with refused(raised, "n", *facts):
        g(n)
    with refused(raised, "n", *facts):
        g.launch(n=n)
    assert hits == []


@pytest.mark.parametrize(("args", "kw"), [((1, 2), {}), ((), {"m": 1}), ((1,), {"n": 1})])
def test_other_arguments_of_launch(args: Any, kw: Any) -> None:
    g = Graph().add_node(touching()).build()
    with refused(TypeError, "eagle.Graph.launch"):
        g.launch(*args, **kw)


def test_integers_and_files_that_only_look_like_it() -> None:
    g = Graph().add_node(touching()).build()
    with refused(TypeError, "eagle.Graph.launch: n: found array([1]), a ndarray, wanted an integer"):
        g.launch(np.ones(1, int))  # type: ignore[arg-type]
    with refused(TypeError, "device: found array([0])"):
        Graph(device=np.zeros(1, int)).add_node(touching()).build()  # type: ignore[arg-type]
    with refused(TypeError, "eagle.Graph.show: file: found 3, a int, wanted an open file"):
        g.show(file=3)  # type: ignore[arg-type]
    with refused(TypeError, "eagle.GraphPipeline: device: found array([0]), wanted an int"):
        eagle.GraphPipeline(device=np.zeros(1, int))  # type: ignore[arg-type]
