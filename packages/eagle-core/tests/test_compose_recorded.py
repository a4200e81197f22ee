# SPDX-License-Identifier: Apache-2.0
"""``GraphComposer`` in the modes that record its members."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import Array, add_one, bind, nothing, ramp, u32
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import eagle
from eagle import GraphComposer, NonToggleableMemberError, SkipGuard, repeat_while, skippable
from eagle.counters import snapshot
from eagle.graph import Graph, Node

MODES = ("enabled", "rebuild", "conditional")
recording = pytest.mark.parametrize("mode", MODES)


def flags(mode: str, *on: int) -> Any:
    return u32(*on) if mode == "conditional" else list(on)


def composer(mode: str, members: list[Any], *on: int) -> GraphComposer:
    made = GraphComposer(flags(mode, *on or (1,) * len(members)), mode=mode)
    for member in members:
        made.register(member)
    return made.build()


# ---- the same as a list that is run ----------------------------------------------------------------------------------

Planes = dict[str, Array]


def planes() -> Planes:
    return {"x": ramp(40), "y": ramp(40) + 0.5, "s": np.zeros(40), "left": u32(3), "gate": u32(1)}


def drifted(p: Planes) -> None:
    p["x"][:] = p["x"] * 0.5 + p["y"]


def halved(p: Planes) -> None:
    p["y"] *= 0.5


def counted(p: Planes) -> None:
    while p["left"][0]:
        p["left"][0] -= 1
        p["x"] += 1
    p["left"][0] = 2


def turned(p: Planes) -> None:
    p["gate"][0] ^= 1


def gated(p: Planes) -> None:
    if p["gate"][0]:
        p["s"] += p["x"]


def listed(p: Planes) -> None:
    p["x"] += 1
    p["y"] *= 0.5


def loop(p: Planes) -> Any:
    body = repeat_while((add_one(p["x"]), lambda: np.subtract(p["left"], 1, out=p["left"])),
                        SkipGuard.nonzero(p["left"]))
    return skippable((body, lambda: p["left"].fill(2)), SkipGuard(p["left"], 0, u32(9), 0))


# What it does by numpy and a loop, as a member, and whether it holds a conditional.
FORMS: dict[str, tuple[Callable[[Planes], object], Callable[[Planes], Any], bool]] = {
    "drift": (drifted, lambda p: bind(ks.drift, x=p["x"], y=p["y"], a=0.5), False),
    "halve": (halved, lambda p: bind(ks.halve, x=p["y"]).launch, False),
    "count": (counted, loop, True),
    "turn": (turned, lambda p: lambda: np.bitwise_xor(p["gate"], 1, out=p["gate"]), False),
    "gated": (gated, lambda p: skippable(lambda: np.add(p["s"], p["x"], out=p["s"]), SkipGuard.nonzero(p["gate"])),
              True),
    "copy": (lambda p: np.copyto(p["s"], p["y"]), lambda p: eagle.copy(p["y"], into=p["s"]), False),
}


@given(names=st.lists(st.sampled_from(sorted(FORMS)), min_size=1, max_size=6), data=st.data())
def test_every_mode_gives_the_bits_of_the_list(names: list[str], data: st.DataObject) -> None:
    usable = [mode for mode in MODES if mode != "enabled" or not any(FORMS[name][2] for name in names)]
    patterns = st.lists(st.integers(0, 1), min_size=len(names), max_size=len(names))
    first = data.draw(patterns)
    rounds = data.draw(st.lists(st.tuples(st.none() | patterns, st.integers(0, 3)), min_size=1, max_size=3))
    wanted, history = planes(), []
    own = {mode: planes() for mode in ("sequenced", *usable)}
    made = {}
    for mode, mine in own.items():
        made[mode] = GraphComposer(flags(mode, *first), mode=mode)
        for name in names:
            made[mode].register(FORMS[name][1](mine))
        made[mode].build()
    on = first
    for pattern, n in rounds:
        on = on if pattern is None else pattern
        for name in [name for name, flag in zip(names, on, strict=True) if flag for _ in range(n)]:
            FORMS[name][0](wanted)
        history.append({index for index, flag in enumerate(on) if flag and n})
        for mode, one in made.items():
            if pattern is not None:
                one.set_routing(pattern)
            assert one.launch(n) is one
            assert one.fired_history() == history, mode
            for plane, array in wanted.items():
                assert_array_equal(own[mode][plane], array, err_msg=f"{mode}, {plane}")


# ---- how each mode keeps its members ---------------------------------------------------------------------------------


def recorded_by(call: Callable[[], object]) -> int:
    before = snapshot()["captures"]
    call()
    return snapshot()["captures"] - before


def test_what_is_recorded_again() -> None:
    x = ramp()
    for mode, again in (("enabled", 0), ("conditional", 0), ("rebuild", 1)):
        made = GraphComposer(flags(mode, 1, 1, 1), mode=mode)
        for _ in range(3):
            made.register(bind(ks.halve, x=x))
        assert recorded_by(made.build) == 1
        assert recorded_by(made.launch) == 0
        assert recorded_by(lambda: made.set_routing([0, 1, 1])) == again  # noqa: B023
        assert recorded_by(made.launch) == 0
        assert recorded_by(lambda: made.launch(5)) == (3 if mode == "conditional" else 2)  # noqa: B023
        assert recorded_by(lambda: made.launch(5)) == 0  # noqa: B023
        assert recorded_by(lambda: made.set_routing([0, 0, 0])) == 0  # noqa: B023
        before = x.copy()
        made.launch().launch(2)
        assert_array_equal(x, before)
        assert made.fired_history()[-2:] == [set(), set()]


def test_the_flags_of_a_conditional_are_cells() -> None:
    """Read when a member's turn comes: what an earlier one wrote counts, and what the caller wrote between launches."""
    cells, log = u32(1, 0, 7), list[int]()

    def first() -> None:
        log.append(0)
        cells[1] = 1

    made = GraphComposer(cells, mode="conditional")
    for member in (first, lambda: log.append(1), lambda: log.append(2)):
        made.register(member)
    made.build().launch()
    assert log == [0, 1, 2] and made.member_flags is cells
    assert repr(made) == "<eagle.GraphComposer conditional, 3 members, 3 on>"
    cells[:] = 0, 0, 1
    made.launch()
    assert log == [0, 1, 2, 2] and made.fired_history() == [{0, 1, 2}, {2}]
    made.set_routing([0, 1, 0])
    assert cells.tolist() == [0, 1, 0]
    made.set_routing(None)
    assert cells.tolist() == [1, 1, 1]
    cells.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match=r"^GraphComposer\.set_routing: member_flags: found an array that "):
        made.set_routing([0, 0, 0])
    cells.flags.writeable = True
    made.launch()
    assert log == [0, 1, 2, 2, 0, 1, 2]


def test_introspection() -> None:
    x = ramp()
    for mode in MODES:
        made = GraphComposer(flags(mode, 1, 0), mode=mode)
        made.register(bind(ks.halve, x=x), name="first")
        made.register(add_one(x))
        for early in (made.num_nodes, made.node_labels):
            with pytest.raises(RuntimeError, match=r"^GraphComposer\.\w+: this composer: found one that was not built"):
                early()
        made.build()
        labels = ["first"] if mode == "rebuild" else ["first", "opaque"]
        assert (made.node_labels(), made.num_nodes()) == (labels, len(labels))
        assert repr(made) == f"<eagle.GraphComposer {mode}, 2 members, 1 on>"
        made.set_routing([0, 0])
        assert repr(made) == f"<eagle.GraphComposer {mode}, 2 members, 0 on>"
        if mode == "rebuild":
            for late in (made.num_nodes, made.node_labels):
                with pytest.raises(RuntimeError, match=r"^GraphComposer\.\w+: this composer: found one with nothing"):
                    late()
        else:
            assert made.node_labels() == labels


# ---- exceptions, planes, threads -------------------------------------------------------------------------------------


@recording
@pytest.mark.parametrize("n", [1, 2])
def test_an_exception_of_a_member(mode: str, n: int) -> None:
    start = np.arange(8.0)
    x, failing, log = start.copy(), [True], list[int]()

    def fail() -> None:
        if failing:
            raise KeyError("member")
        log.append(1)

    made = composer(mode, [lambda: log.append(0), bind(ks.halve, x=x), fail, add_one(x)], 0, 1, 1, 1)
    with pytest.raises(KeyError, match="member"):
        made.launch(n)
    assert_array_equal(x, start * 0.5**n)
    assert made.fired_history() == [{1, 2}] and log == []
    failing.clear()
    x[:] = start
    made.launch(n)
    assert_array_equal(x, start * 0.5**n + n)
    assert log == [1] * n and made.fired_history()[1:] == [{1, 2, 3}]


@recording
def test_planes_that_move(mode: str) -> None:
    x, y = np.ones(4), np.ones(4)
    made = composer(mode, [add_one(x), bind(ks.halve, x=y)])
    made.launch()
    x.resize(4096, refcheck=False)
    for n in (1, 2):
        with pytest.raises(eagle.BufferRefused, match=r"^GraphComposer\.launch: node '\w+', plane '[\w.]+': found an "
                                                      r"array of shape \(4096,\) at another place"):
            made.launch(n)
    assert (x[0], y[0]) == (2.0, 0.5) and made.fired_history() == [{0, 1}, set(), set()]
    if mode == "rebuild":
        made.set_routing([0, 1]).launch()  # what is off is not recorded
        assert y[0] == 0.25
    if mode == "rebuild":
        made.set_routing([1, 0])
        y.flags.writeable = False
        with pytest.raises(eagle.BufferRefused, match=r"^GraphComposer\.set_routing: node 'halve', plane 'x': "):
            made.set_routing([0, 1])
        made.launch()
        assert made.fired_history()[-1] == {0}  # what was recorded is still there
        y.flags.writeable = True
    bound = bind(ks.halve, x=y)
    y.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match=r"^GraphComposer\.build: node 'halve', plane '[.\w]+': found a read"):
        composer(mode, [bound])


@recording
def test_one_call_at_a_time(mode: str) -> None:
    inside, leave, calls = threading.Event(), threading.Event(), list[int]()

    def member() -> None:
        for call in (made.launch, made.build, lambda: made.set_routing([1]), lambda: made.register(nothing)):
            with pytest.raises(eagle.Busy, match=r"^GraphComposer\.\w+: this GraphComposer: found another call"):
                call()
        calls.append(1)
        inside.set()
        assert leave.wait(60)

    made = composer(mode, [member])
    thread = threading.Thread(target=made.launch)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(eagle.Busy, match=r"^GraphComposer\.launch: .*; give each thread its own GraphComposer"):
        made.launch()
    leave.set()
    thread.join()
    made.launch()
    assert len(calls) == 2 and made.fired_history() == [{0}, {0}]


@recording
def test_composers_run_side_by_side(mode: str) -> None:
    """Each thread its own, over its own planes; the bits are those of one thread."""
    xs = [ramp(3000) for _ in range(4)]
    made = [composer(mode, [bind(ks.drift, x=x, y=ramp(3000), a=0.5), bind(ks.halve, x=x)]) for x in xs]

    def work(index: int) -> None:
        for _ in range(50):
            made[index].launch()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = ramp(3000)
    for _ in range(50):
        wanted = (wanted * 0.5 + ramp(3000)) * 0.5
    for x in xs:
        assert_array_equal(x, wanted)


def test_a_checked_launch() -> None:
    for mode in MODES:
        x, y = np.zeros(2), np.zeros(2)
        made = composer(mode, [add_one(x), add_one(y)], 0, 1)
        with eagle.exec.checking():
            made.launch(2)
        assert (x.tolist(), y.tolist()) == ([0.0] * 2, [2.0] * 2)


# ---- refusals --------------------------------------------------------------------------------------------------------


class Launches:
    def launch(self, n: int = 1) -> None: ...


@recording
def test_members_that_are_refused(mode: str) -> None:
    made = GraphComposer(flags(mode, 1), mode=mode)
    with pytest.raises(ValueError, match=rf"^GraphComposer\.register: pre_launch: found a function in mode '{mode}'"):
        made.register(nothing, pre_launch=nothing)
    nested = GraphComposer(None)
    nested.register(nothing)
    nested.build()
    with pytest.raises(ValueError, match=rf"^GraphComposer\.register: this composer: found mode '{mode}', wanted 'seq"):
        made.register(nested)
    with pytest.raises(TypeError, match=r"^GraphComposer\.register: obj: found .*, wanted a BoundPlan, a node, a cond"):
        made.register(Launches())
    with pytest.warns(eagle.LayoutWarning):
        copied = bind(ks.turn, v=np.zeros((5, 3)), a=2.0)
    with pytest.raises(ValueError, match=r"^GraphComposer\.register: bound, planes \['v'\]: found arrays that each"):
        made.register(copied)
    loop = repeat_while(nothing, max_iters=2, brk=u32(0))
    if mode == "enabled":
        with pytest.raises(NonToggleableMemberError, match="obj: found one that holds a conditional, wanted one that"):
            made.register(loop)
    else:
        holder = Graph().add_node(loop)
        made.register(loop)
        with pytest.raises(ValueError, match=r"^GraphComposer\.build: node: found a RepeatWhile that another graph "):
            made.build()
        assert holder.num_nodes() == 1
    other = GraphComposer(None)
    made = GraphComposer(flags(mode, 1), mode=mode)
    made.register(nothing)
    with pytest.raises(ValueError, match=rf"^GraphComposer\.register: obj: found mode '{mode}', wanted 'sequenced'"):
        other.register(made.build())


@recording
def test_routings_and_devices_that_do_not_fit(mode: str) -> None:
    x = ramp()
    made = GraphComposer(flags(mode, 1), mode=mode)
    made.register(bind(ks.halve, x=x))
    made.register(add_one(x))
    with pytest.raises(ValueError, match=r"^GraphComposer\.build: member_flags: found 1 flags, wanted 2, one for"):
        made.build()
    made = composer(mode, [bind(ks.halve, x=x), add_one(x)], 0, 1)
    for wrong, raised in (([1], ValueError), ("10", TypeError), ([0.5, 1], TypeError)):
        with pytest.raises(raised, match=r"^GraphComposer\.set_routing: pattern: found "):
            made.set_routing(wrong)
    for n, raised in ((-1, ValueError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(raised, match=r"^GraphComposer\.launch: n: found "):
            made.launch(n)
    made.launch()
    assert_array_equal(x, ramp() + 1)  # a refused routing changes nothing
    away = GraphComposer(flags(mode, 1), mode=mode, device=1)
    away.register(add_one(x))
    with pytest.raises(ValueError, match=r"^GraphComposer\.build: device: found 1, wanted 0"):
        away.build()


# ---- members that record themselves ----------------------------------------------------------------------------------


def test_pipelines_are_members_of_a_list() -> None:
    x = ramp()
    inner = eagle.GraphPipeline().add(bind(ks.halve, x=x)).build()
    made = GraphComposer(None)
    made.register(inner)
    made.register(add_one(x))
    made.build().launch(2)
    assert_array_equal(x, ramp() * 0.25 + 1 + 1)


@recording
def test_what_replays_itself_is_called(mode: str) -> None:
    x = ramp()
    inner = eagle.GraphPipeline().add(bind(ks.halve, x=x)).build()
    made = composer(mode, [inner.launch, Graph().add(bind(ks.halve, x=x)).build()])
    made.launch()
    assert_array_equal(x, ramp() * 0.25)


def test_a_node_that_stands_in_two_members() -> None:
    x = np.zeros(2)
    one = add_one(x)
    made = composer("enabled", [one, Node("sequence", (one, one))], 1, 0).launch()
    assert x.tolist() == [1.0] * 2
    made.set_routing([0, 1]).launch()
    assert x.tolist() == [3.0] * 2


@recording
def test_what_ran_of_a_checked_launch_that_fails(mode: str) -> None:
    def fails() -> None:
        raise OverflowError

    x = np.zeros(2)
    made = composer(mode, [add_one(x), fails, add_one(x)])
    for checked in (True, False):
        with eagle.exec.checking() if checked else contextlib.nullcontext(), pytest.raises(OverflowError):
            made.launch()
    assert made.fired_history() == [frozenset({0, 1})] * 2 and x.tolist() == [2.0] * 2
