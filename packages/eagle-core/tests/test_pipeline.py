# SPDX-License-Identifier: Apache-2.0
"""``GraphPipeline``: members recorded once, replayed, switched."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import Array, add_one, bind, nothing, ramp, touching, u32
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import eagle
from eagle import (
    GraphPipeline,
    NonToggleableMemberError,
    SkipGuard,
    UnknownMemberError,
    opaque,
    repeat_while,
    skippable,
)
from eagle.counters import snapshot
from eagle.graph import Graph, Node
from eagle.pipeline import PipelineMember


def drift(x: Array, y: Array, a: float = 2.0) -> Any:
    return bind(ks.drift, x=x, y=y, a=a)


# ---- what it runs ----------------------------------------------------------------------------------------------------


def test_members_of_every_form() -> None:
    x, y, live, log = ramp(), ramp() + 1, u32(3), list[int]()
    made = GraphPipeline()
    assert made.add(drift(x, y).launch, name="drift") is made
    made.add(bind(ks.halve, x=y)).add(add_one(x), name="one").add(lambda: log.append(live.item()))
    made.add(repeat_while(lambda: np.subtract(live, 1, out=live), SkipGuard.nonzero(live)), name="loop")
    made.add(skippable(lambda: log.append(-1), SkipGuard.nonzero(live))).add([add_one(x), nothing], name="list")
    assert made.build() is made and log == [] and x.tolist() == ramp().tolist()  # nothing runs until a launch
    before, halved = ramp(), ramp() + 1
    assert made.launch() is made
    before, halved = before * 2.0 + halved + 1 + 1, halved * 0.5
    assert_array_equal(x, before)
    assert_array_equal(y, halved)
    assert log == [3] and live[0] == 0
    made.launch(2)
    for _ in range(2):
        before, halved = before * 2.0 + halved + 1 + 1, halved * 0.5
    assert_array_equal(x, before)
    assert log == [3, 0, 0]
    made.launch(n=0)
    assert len(log) == 3
    assert made.node_labels() == ["drift", "halve", "one", "opaque", "loop", "skippable", "opaque", "opaque"]
    assert made.num_nodes() == 8 and repr(made) == "<eagle.GraphPipeline 7 members, 8 nodes>"


def test_concurrent_members() -> None:
    x, y, z = ramp(), ramp(), ramp()
    made = GraphPipeline().add(bind(ks.halve, x=x))
    made.add_concurrent([bind(ks.halve, x=y), [add_one(z), add_one(z)], bind(ks.halve, x=x)], names=["y", "z", None])
    made.build().launch()
    assert_array_equal(x, ramp() * 0.25)
    assert_array_equal(y, ramp() * 0.5)
    assert_array_equal(z, ramp() + 1 + 1)
    assert [made.member(name).index for name in (0, "y", "z", 3)] == [0, 1, 2, 3]
    assert [len(made.member_nodes(index)) for index in range(4)] == [1, 1, 2, 1]
    made.set_member_enabled("z", False).launch()
    assert_array_equal(z, ramp() + 1 + 1)
    assert_array_equal(y, ramp() * 0.25)


# What a member does, as a numpy oracle does it and as eagle does.

Planes = dict[str, Array]
N = 70


def planes() -> Planes:
    """Of numbers whose sums are exact."""
    return {"x": np.arange(N) / 64, "y": np.arange(N) / 32 + 0.5, "z": np.zeros(N), "b": np.zeros(8),
            "k": np.arange(N) % 8, "total": np.zeros(1)}


def scatter(p: Planes) -> None:
    for k, x in zip(p["k"], p["x"], strict=True):
        p["b"][k] += x


Act = Callable[[Planes], object]
FORMS: dict[str, tuple[Act, Act]] = {
    "drift": (lambda p: np.add(p["x"] * 0.5, p["y"], out=p["x"]), lambda p: drift(p["x"], p["y"], 0.5)),
    "halve": (lambda p: np.multiply(p["y"], 0.5, out=p["y"]), lambda p: bind(ks.halve, x=p["y"]).launch),
    "added": (scatter, lambda p: bind(ks.added, k=p["k"], x=p["x"], b=p["b"])),
    "reduce": (lambda p: p["total"].fill(p["y"].max()), lambda p: eagle.reduce(p["y"], p["total"], op="max")),
    "copy": (lambda p: np.copyto(p["z"], p["x"]), lambda p: eagle.copy(p["x"], into=p["z"])),
    "code": (lambda p: np.subtract(p["z"], p["y"], out=p["z"]),
             lambda p: lambda: np.subtract(p["z"], p["y"], out=p["z"])),
    "list": (lambda p: np.add(np.multiply(p["y"], 0.5, out=p["y"]), 1, out=p["y"]),
             lambda p: [bind(ks.halve, x=p["y"]), add_one(p["y"])]),
}


@given(names=st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=8), data=st.data())
def test_what_is_switched_off_does_nothing(names: list[str], data: st.DataObject) -> None:
    mine, wanted = planes(), planes()
    made = GraphPipeline()
    for name in names:
        made.add(FORMS[name][1](mine))
    made.build()
    assert all(made.is_member_toggleable(index) for index in range(len(names)))
    captures = snapshot()["captures"]
    for _ in range(data.draw(st.integers(1, 3))):
        on = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
        n = data.draw(st.integers(0, 2))
        for index, is_on in enumerate(on):
            made.set_member_enabled(made.member(index), is_on)
        made.launch(n)
        for _ in range(n):
            for name, is_on in zip(names, on, strict=True):
                if is_on:
                    FORMS[name][0](wanted)
        for plane, array in wanted.items():
            assert_array_equal(mine[plane], array, err_msg=plane)
    assert snapshot()["captures"] == captures


def test_a_reduction_over_samples_is_switched_as_a_whole() -> None:
    x, out = ramp(N), np.zeros(N)
    made = GraphPipeline().add(bind(ks.spread, x=x, out=out)).build()
    made.launch()
    first = out.copy()
    assert first.any()
    x *= 2
    made.set_member_enabled(0, False).launch()
    assert_array_equal(out, first)
    made.set_member_enabled(0, True).launch()
    assert_array_equal(out, 2 * first)


def test_switched_within_tiles_and_branches() -> None:
    threads, planes = eagle.num_threads(), [ramp(N) for _ in range(4)]
    try:
        eagle.set_num_threads(2)
        made = GraphPipeline().add(bind(ks.halve, x=planes[0])).add(drift(planes[0], ramp(N))).add(
            bind(ks.halve, x=planes[0]))
        made.add_concurrent([[bind(ks.halve, x=x), drift(x, ramp(N))] for x in planes[1:]]).build()
        assert [(stage.schedule, stage.tile) for stage in made.graph.stages] == [
            *[("work_share", 0)] * 3, ("branch_tasks", -1)]
        made.set_member_enabled(1, False).set_member_enabled(4, False)
        made.set_node_enabled(made.member_nodes(5)[0], False).launch(2)
    finally:
        eagle.set_num_threads(threads)
    wanted = [ramp(N) for _ in range(4)]
    for _ in range(2):
        wanted[0] = wanted[0] * 0.5 * 0.5
        wanted[1] = wanted[1] * 0.5 * 2.0 + ramp(N)
        wanted[3] = wanted[3] * 2.0 + ramp(N)
    for mine, other in zip(planes, wanted, strict=True):
        assert_array_equal(mine, other)


def test_one_node_of_a_member() -> None:
    x = np.zeros(3)
    made = GraphPipeline().add([add_one(x), bind(ks.halve, x=x)], name="both").build()
    one, half = made.member_nodes("both")
    assert isinstance(one, Node) and half.label == "halve"
    made.set_node_enabled(half, False).launch(2)
    assert x.tolist() == [2.0] * 3
    made.set_node_enabled(half, True).set_node_enabled(one, False).launch()
    assert x.tolist() == [1.0] * 3


def test_a_node_in_two_members() -> None:
    x = np.zeros(3)
    one = add_one(x)
    made = GraphPipeline().add(one).add([one, one]).build().set_member_enabled(1, False).launch()
    assert x.tolist() == [1.0] * 3
    made.set_node_enabled(made.member_nodes(1)[1], True).launch()
    assert x.tolist() == [3.0] * 3


def test_what_it_shows() -> None:
    x, y = ramp(), ramp()
    made = GraphPipeline(0).add(bind(ks.halve, x=x), name="first").add(bind(ks.halve, x=y))
    stream = made.stream
    assert isinstance(stream, int) and stream and repr(made) == "<eagle.GraphPipeline 2 members, not built>"
    made.build()
    assert made.stream == stream and made.introspection_available()
    assert isinstance(made.graph, Graph) and "first" in str(made.graph) and made.graph.schedule == ("work_share",) * 2
    with pytest.raises(AttributeError):
        made.stream = 3  # type: ignore[misc]
    made.set_member_enabled(0, False)
    assert made.graph.profile(3).replays == 3  # runs what a launch runs
    assert_array_equal(x, ramp())
    assert_array_equal(y, ramp() * 0.125)
    assert made.synchronize() is made


def test_a_checked_launch_runs_what_is_on() -> None:
    x, y = np.zeros(2), np.zeros(2)
    made = GraphPipeline().add(add_one(x)).add(add_one(y)).build().set_member_enabled(0, False)
    with eagle.exec.checking():
        made.launch(2)
    assert (x.tolist(), y.tolist()) == ([0.0] * 2, [2.0] * 2)


def test_a_backend_that_does_not_tell_what_it_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GraphPipeline().add(add_one(np.zeros(2))).build()
    monkeypatch.setattr(made.graph, "_seam", SimpleNamespace(kind="mute", has=lambda name: False))
    with pytest.raises(eagle.BackendUnavailable, match=r"^GraphPipeline\.set_member_enabled: backend: found 'mute', "
                                                       r"which does not tell .*, wanted one that provides the group"):
        made.set_member_enabled(0, False)


def test_within_a_builder_nothing_of_it_is_recorded() -> None:
    x, y = ramp(), ramp()

    @Graph.builder
    def build(y: Array) -> Graph:
        g = Graph()
        GraphPipeline().add(lambda: np.add(x, 1, out=x)).add(bind(ks.halve, x=x)).build().launch()
        g.add(bind(ks.halve, x=y))
        return g

    assert build(y).node_labels() == ["halve"]
    assert_array_equal(x, (ramp() + 1) * 0.5)


# ---- enqueue ---------------------------------------------------------------------------------------------------------


def test_what_runs_ahead() -> None:
    log = list[int]()
    made = GraphPipeline().add(lambda: log.append(1)).build()
    assert made.enqueue() is made and log == [1]
    made.enqueue(2, pre_launch=lambda: log.append(0), seed_events=()).synchronize()
    assert log == [1, 0, 1, 1]

    def fail() -> None:
        raise KeyError("ahead")

    def again() -> None:
        with pytest.raises(eagle.Busy, match=r"^GraphPipeline\.launch: this GraphPipeline: found another call"):
            made.launch()
        log.append(2)

    with pytest.raises(KeyError, match="ahead"):
        made.enqueue(pre_launch=fail)
    assert log == [1, 0, 1, 1]
    made.enqueue(pre_launch=again)
    assert log == [1, 0, 1, 1, 2, 1]
    made.launch()
    for wrong, raised, text in (({"pre_launch": 3}, TypeError, "pre_launch: found 3, wanted a callable"),
                                ({"seed_events": [nothing]}, ValueError, "seed_events: .*: the host has no events"),
                                ({"seed_events": 3}, TypeError, "seed_events: found 3, wanted None"),
                                ({"n": -1}, ValueError, "n: found -1"), ({"n": "2"}, TypeError, "n: found '2'")):
        with pytest.raises(raised, match=rf"^GraphPipeline\.enqueue: {text}"):
            made.enqueue(**wrong)  # type: ignore[arg-type]


def test_planes_that_move() -> None:
    x = np.zeros(4)
    made = GraphPipeline().add(add_one(x), name="one").build().launch()
    with pytest.raises(eagle.BufferRefused, match=r"^GraphPipeline\.enqueue: node 'one', plane 'x': found an array of "
                                                  r"shape \(4096,\) at another .*, wanted the array of shape \(4,\)"):
        made.enqueue(pre_launch=lambda: x.resize(4096, refcheck=False))
    assert not x[4:].any() and x[0] == 1
    y = np.zeros(4)
    made = GraphPipeline().add(bind(ks.halve, x=y)).build()
    y.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match=r"^GraphPipeline\.launch: node 'halve', plane 'x': found a read"):
        made.launch()
    y.flags.writeable = True
    made.launch()


# ---- one call at a time ----------------------------------------------------------------------------------------------


def test_one_call_at_a_time() -> None:
    inside, leave, calls = threading.Event(), threading.Event(), list[int]()
    made = GraphPipeline()

    def member() -> None:
        for method, call in {"launch": made.launch, "enqueue": made.enqueue,
                             "set_member_enabled": lambda: made.set_member_enabled(0, False)}.items():
            with pytest.raises(eagle.Busy, match=rf"^GraphPipeline\.{method}: this GraphPipeline: found another call"):
                call()
        calls.append(1)
        inside.set()
        assert leave.wait(60)

    made.add(member)
    made.build()
    thread = threading.Thread(target=made.launch)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(eagle.Busy, match=r"^GraphPipeline\.launch: .*; give each thread its own GraphPipeline"):
        made.launch()
    leave.set()
    thread.join()
    made.launch()
    assert len(calls) == 2


def test_an_exception_of_a_member() -> None:
    log, failing = list[int](), [True]

    def fail() -> None:
        log.append(0)
        if failing:
            raise KeyError("member")

    made = GraphPipeline().add(fail).add(lambda: log.append(1)).build()
    with pytest.raises(KeyError, match="member"):
        made.launch(3)
    assert log == [0]
    failing.clear()
    made.launch()
    assert log == [0, 0, 1]


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.want("12c")
def test_the_order_of_calls() -> None:
    made = GraphPipeline().add(nothing, name="a")
    for early in (made.launch, made.enqueue, made.synchronize, made.num_nodes, made.node_labels,
                  made.introspection_available, lambda: made.graph, lambda: made.set_member_enabled(0, True),
                  lambda: made.is_member_toggleable(0), lambda: made.member_nodes(0),
                  lambda: made.set_node_enabled(touching(), True)):
        with pytest.raises(RuntimeError, match=r"^GraphPipeline\.\w+: this pipeline: found one that is not built"):
            early()
    made.build()
    for late in (lambda: made.add(nothing), lambda: made.add_concurrent([nothing, nothing]), made.build):
        with pytest.raises(RuntimeError, match=r"^GraphPipeline\.\w+: this pipeline: found one that is built"):
            late()
    assert made.num_nodes() == 1
    with pytest.raises(ValueError, match=r"^GraphPipeline\.build: members: found none, wanted one or more"):
        GraphPipeline().build()


def test_members_that_are_refused() -> None:
    x = ramp()
    made = GraphPipeline().add(nothing, name="a")
    for names in (["b", "b"], ["a", None]):
        with pytest.raises(ValueError, match=r"^GraphPipeline\.add_concurrent: name: found '[ab]', which member [01] "):
            made.add_concurrent([nothing, nothing], names=names)
    with pytest.raises(ValueError, match=r"^GraphPipeline\.add: name: found 'a', which member 0 has, wanted a new one"):
        made.add(nothing, name="a")
    with pytest.raises(TypeError, match=r"^GraphPipeline\.add: name: found 3"):
        made.add(nothing, name=3)  # type: ignore[arg-type]
    for wrong in (3, None, "x", np.zeros(2), object()):
        with pytest.raises(TypeError, match=r"^GraphPipeline\.add: step: found "):
            made.add(wrong)
    with pytest.raises(ValueError, match=r"^GraphPipeline\.add_concurrent: branches: found 1 of them, wanted two"):
        made.add_concurrent([nothing])
    with pytest.raises(ValueError, match=r"^GraphPipeline\.add_concurrent: names: found 1 of them, wanted 2"):
        made.add_concurrent([nothing, nothing], names=["b"])
    loop = repeat_while(nothing, max_iters=2, brk=u32(0))
    holder = Graph().add_node(loop)
    made.add(loop)
    with pytest.raises(ValueError, match=r"^GraphPipeline\.build: node: found a RepeatWhile that another graph holds"):
        made.build()
    assert holder.num_nodes() == 1
    racing = GraphPipeline().add_concurrent([bind(ks.halve, x=x), bind(ks.halve, x=x)])
    with pytest.raises(ValueError, match=r"^GraphPipeline\.build: "):
        racing.build()
    with pytest.raises(ValueError, match=r"^GraphPipeline\.build: device: found 1, wanted 0"):
        GraphPipeline(1).add(bind(ks.halve, x=x)).build()
    assert_array_equal(x, ramp())


def test_members_are_looked_up() -> None:
    x, flag = ramp(), u32(1)
    made = GraphPipeline().add(add_one(x), name="one")
    made.add(skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(flag)), name="maybe").build()
    first = made.member("one")
    assert first == made.member(0) == made.member(np.int64(0)) == made.member(first) == PipelineMember(0, "other")
    assert hash(first) == hash(made.member(0)) and (first.index, first.name) == (0, "one") and first != made.member(1)
    for unknown in ("two", 2, -1, PipelineMember(5)):
        with pytest.raises(UnknownMemberError, match=r"^GraphPipeline\.set_member_enabled: member: found .*, wanted 0"):
            made.set_member_enabled(unknown, True)
    for wrong in (None, 1.0, True, [0]):
        with pytest.raises(TypeError, match=r"^GraphPipeline\.member: member: found "):
            made.member(wrong)
    with pytest.raises(UnknownMemberError, match=r"^GraphPipeline\.set_node_enabled: node: found "):
        made.set_node_enabled(touching(), True)
    assert made.is_member_toggleable("one") and not made.is_member_toggleable("maybe")
    with pytest.raises(NonToggleableMemberError, match="member 1: found one that holds a conditional, wanted one that"):
        made.set_member_enabled("maybe", False)
    with pytest.raises(NonToggleableMemberError, match="node 'maybe': found one that holds a conditional"):
        made.set_node_enabled(made.member_nodes("maybe")[0], False)
    with pytest.raises(TypeError, match=r"^GraphPipeline\.set_member_enabled: on: found 1, wanted True or False"):
        made.set_member_enabled(0, 1)  # type: ignore[arg-type]
    made.launch()
    assert_array_equal(x, (ramp() + 1) * 0.5)


def test_nobody_else_holds_what_it_is_made_of() -> None:
    """A pipeline keeps its planes and functions; it goes with its last reference."""
    x, made = ramp(), GraphPipeline()
    node = opaque(lambda: np.add(x, 1, out=x), writes={"x": x})
    kept = weakref.ref(made.add(node).build().launch())
    del made
    gc.collect()
    assert kept() is None
