# SPDX-License-Identifier: Apache-2.0
"""``GraphComposer`` in mode "sequenced", and what is refused where nothing records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import kernels
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagle
from eagle import BackendUnavailable, GraphComposer, GraphPipeline, SkipGuard

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site

Log = list[Any]


def composer(count: int, flags: Any = None) -> tuple[GraphComposer, Log]:
    """A composer that was not built, whose members log their index."""
    log: Log = []
    made = GraphComposer(flags)
    for index in range(count):
        assert made.register(lambda index=index: log.append(index)) == index
    return made, log


# ---- pipelines -------------------------------------------------------------------------------------------------------


@pytest.mark.want("12a")
def test_a_pipeline_names_what_is_missing(site: Site, make_library: MakeLibrary) -> None:
    with pytest.raises(BackendUnavailable, match="wanted one that provides the group capturer; install or upgrade one"):
        GraphPipeline()
    shine, dark = make_library("shine"), make_library("dark", BITS="(1 << EAGLE_CAP_STREAM)", STREAMS=2)
    site.install_backend("acme-shine", "shine", shine)
    site.install_backend("acme-dark", "dark", dark, device_types=(78,))
    site.install_backend("acme-gone", "gone", dark.with_name("nowhere.so"), device_types=(79,))
    eagle.backends.choosing.forget()
    with pytest.raises(BackendUnavailable) as refused:
        GraphPipeline(0)
    first, *lines = str(refused.value).splitlines()
    assert first.startswith("eagle.GraphPipeline: device: found no backend that records launches, wanted one that ")
    assert sorted(lines) == sorted([
        f"backend 'dark' ({dark}) does not provide capturer",
        f"backend 'shine' ({shine}) does not provide capturer", "backend 'gone' is not loaded"])


@pytest.mark.parametrize("missing", ["capturer", "captured", "graph", "launcher"])
def test_a_backend_that_lacks_one_group(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {name: f"it does not provide {name}" * (name == missing)
              for name in ("capturer", "captured", "graph", "launcher")}
    monkeypatch.setattr("eagle.backends.kinds", lambda: ("later",))
    monkeypatch.setattr("eagle.backends.info", lambda kind: {"groups": groups})
    with pytest.raises(BackendUnavailable, match=rf"\nit does not provide {missing}$"):
        GraphPipeline()


@pytest.mark.parametrize(("device", "raised"), [("0", TypeError), (True, TypeError), (None, TypeError),
                                                (0.0, TypeError), (-2, ValueError), (2**31, ValueError)])
@pytest.mark.parametrize("make", [GraphPipeline, lambda device: GraphComposer(None, device=device)])
def test_devices(make: Callable[[Any], object], device: Any, raised: type[Exception]) -> None:
    with pytest.raises(raised, match=r"^eagle\.Graph(Pipeline|Composer): device: found "):
        make(device)


@pytest.mark.want("12b")
def test_both_exceptions_are_exported() -> None:
    assert issubclass(eagle.UnknownMemberError, LookupError)
    assert issubclass(eagle.NonToggleableMemberError, TypeError)
    assert {"UnknownMemberError", "NonToggleableMemberError"} <= set(eagle.__all__)


# ---- composers -------------------------------------------------------------------------------------------------------


@given(pattern=st.lists(st.booleans(), min_size=1, max_size=5), n=st.integers(0, 3), data=st.data())
def test_members_that_are_on_run_in_order(pattern: list[bool], n: int, data: st.DataObject) -> None:
    as_given = data.draw(st.sampled_from([list, tuple, np.array, lambda flags: np.array(flags, np.uint32),
                                          lambda flags: [3 * flag for flag in flags]]))
    made, log = composer(len(pattern), as_given(pattern))
    assert made.build() is made and made.launch(n) is made
    on = [index for index, flag in enumerate(pattern) if flag]
    assert log == [index for index in on for _ in range(n)]
    log.clear()
    assert made.set_routing(as_given([not flag for flag in pattern])) is made
    made.launch()
    off = [index for index, flag in enumerate(pattern) if not flag]
    assert log == off
    assert made.fired_history() == [frozenset(on) if n else frozenset(), frozenset(off)]
    made.reset_fired_history()
    assert made.fired_history() == []
    log.clear()
    made.set_routing(None).launch(np.int64(2))
    assert log == [index for index in range(len(pattern)) for _ in range(2)]


def test_facts() -> None:
    flags = [1, 0]
    made, log = composer(2, flags)
    assert (made.mode, made.num_members) == ("sequenced", 2) and made.member_flags is flags
    assert repr(made) == "<eagle.GraphComposer sequenced, 2 members, not built>"
    made.build()
    flags[1] = 1  # the flags are read by build()
    made.launch()
    assert log == [0] and repr(made) == "<eagle.GraphComposer sequenced, 2 members, 1 on>"
    history = made.fired_history()
    history.clear()
    assert made.fired_history() == [{0}]


def test_members_of_every_form() -> None:
    log: Log = []

    class Launches:
        def launch(self, n: int = 1) -> None:
            log.append(("launch", n))

        def __call__(self) -> None:
            raise AssertionError("its launch comes first")

    y, live = np.zeros(3), np.array([2], np.uint32)
    bound = eagle.deploy(kernels.into).bind(x=np.arange(3.0), a=2.0, y=y)
    inner, inner_log = composer(2, [0, 1])
    inner.build()
    loop = eagle.repeat_while(lambda: np.subtract(live, 1, out=live), SkipGuard.nonzero(live))
    made = GraphComposer(None)
    for member in (Launches(), bound, inner, loop, eagle.opaque(lambda: log.append("node"))):
        made.register(member, pre_launch=lambda: log.append("ahead"))
    made.build().launch(3)
    assert log == ["ahead", ("launch", 3), "ahead", "ahead", "ahead", "ahead", "node", "node", "node"]
    assert y.tolist() == [0.0, 2.0, 4.0] and inner_log == [1, 1, 1] and inner.fired_history() == [{1}]
    assert live[0] == 0 and loop.iterations() == 0
    log.clear()
    made.launch(0)
    assert log == [] and made.fired_history()[-1] == set()


def test_an_exception_of_a_member() -> None:
    log: Log = []

    def fail() -> None:
        raise KeyError("member")

    made = GraphComposer(None)
    for member in (lambda: log.append(0), fail, lambda: log.append(2)):
        made.register(member)
    made.build()
    with pytest.raises(KeyError, match="member"):
        made.launch(2)
    assert log == [0, 0] and made.fired_history() == [{0, 1}]
    made.set_routing([1, 0, 1]).launch()
    assert log == [0, 0, 0, 2]


@pytest.mark.want("13")
@pytest.mark.parametrize(("n", "raised"), [(-1, ValueError), (-2**70, ValueError), ("2", TypeError), (1.0, TypeError),
                                           (None, TypeError), (True, TypeError), (np.float64(2), TypeError)])
def test_how_often(n: Any, raised: type[Exception]) -> None:
    made, log = composer(2)
    with pytest.raises(raised, match=r"^GraphComposer\.launch: n: found "):
        made.build().launch(n)
    assert log == [] and made.fired_history() == []


@pytest.mark.parametrize("mode", ["enabled", "rebuild", "conditional"])
def test_modes_that_record_name_what_is_missing(mode: str, site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-shine", "shine", make_library("shine"))
    eagle.backends.choosing.forget()
    with pytest.raises(BackendUnavailable, match=rf"^eagle\.GraphComposer: mode='{mode}': found no backend that records"
                                                 r" launches, wanted one that provides the group capturer; "):
        GraphComposer(np.ones(2, np.uint32), mode=mode)


@pytest.mark.parametrize(("flags", "mode", "raised", "text"), [
    (None, "fast", ValueError, "mode: found 'fast', wanted one of .*'sequenced', 'conditional', 'enabled', 'rebuild'"),
    (None, None, ValueError, "mode: found None"), (None, ["enabled"], ValueError, "mode: found"),
    (None, "conditional", TypeError, "member_flags: "), ([1, 0], "conditional", TypeError, "member_flags: .*a list"),
    (np.ones(2, bool), "conditional", TypeError, r"member_flags: found an array of bool, shape \(2,\), wanted uint32"),
    (np.ones((2, 2), np.uint32), "conditional", TypeError, r"member_flags: found an array of uint32, shape \(2, 2\)"),
    *((flags, mode, TypeError, "member_flags: found .*, wanted a list, tuple or array of integers or bools, or None")
      for mode in ("sequenced", "enabled", "rebuild")
      for flags in (3, "10", {0, 1}, {"a": 1}, [0.5, 1], [None], np.ones(2), np.ones((2, 2), int), np.int64(3), [[1]])),
])
def test_arguments(flags: Any, mode: Any, raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=rf"(?s)^eagle\.GraphComposer: {text}"):
        GraphComposer(flags, mode=mode)


@pytest.mark.want("12c")
def test_the_order_of_calls() -> None:
    made, _ = composer(1)
    for early in (made.launch, lambda: made.set_routing([1])):
        with pytest.raises(RuntimeError, match=r"^GraphComposer\.\w+: this composer: found one that was not"):
            early()
    with pytest.raises(ValueError, match=r"^GraphComposer\.build: members: found none, wanted one or more"):
        GraphComposer(None).build()
    made.build()
    with pytest.raises(RuntimeError, match=r"^GraphComposer\.register: this composer: found one that was built"):
        made.register(print)
    with pytest.raises(RuntimeError, match=r"^GraphComposer\.build: this composer: found one that was built"):
        made.build()
    assert made.num_members == 1
    for ask in (made.num_nodes, made.node_labels):
        with pytest.raises(RuntimeError, match=r"^GraphComposer\.\w+: mode: found 'sequenced', wanted one that"):
            ask()


def test_routings_that_do_not_fit() -> None:
    made, log = composer(2, [1])
    with pytest.raises(ValueError, match=r"^GraphComposer\.build: member_flags: found 1 flags, wanted 2, one for"):
        made.build()
    made, log = composer(2, [0, 1])
    made.build()
    with pytest.raises(ValueError, match=r"^GraphComposer\.set_routing: pattern: found 3 flags, wanted 2"):
        made.set_routing([1, 0, 1])
    with pytest.raises(TypeError, match=r"^GraphComposer\.set_routing: pattern: found '10', a str"):
        made.set_routing("10")
    made.launch()
    assert log == [1]  # a refused routing changes nothing


class Doing:
    def work(self) -> None:
        pass


def test_members_that_are_refused() -> None:
    made, doing, built = GraphComposer(None), Doing(), composer(1)[0].build()
    made.register(doing.work, name="work")
    made.register(built)
    bound = eagle.deploy(kernels.into).bind(x=np.zeros(1), a=2.0, y=np.zeros(1))
    made.register(bound.launch)
    for again in (doing.work, built, bound.launch):
        with pytest.raises(ValueError, match=r"^GraphComposer\.register: obj: found .*, which is member \d, wanted a"):
            made.register(again)
    with pytest.raises(ValueError, match="name: found 'work', which member 0 has, wanted a new one"):
        made.register(Doing().work, name="work")
    for nested in (composer(1)[0], made):
        with pytest.raises(ValueError, match="obj: found a composer that was not built, wanted one that was"):
            made.register(nested)
    for wrong in (3, None, "x", [print], np.zeros(2), Doing, Doing()):
        with pytest.raises(TypeError, match="obj: found .*, wanted a BoundPlan, an object with launch"):
            made.register(wrong)
    with pytest.raises(TypeError, match="name: found 3, wanted a text or None"):
        made.register(print, name=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pre_launch: found 3, wanted a callable"):
        made.register(print, pre_launch=3)  # type: ignore[arg-type]
    assert made.num_members == 3
    assert made.register(Doing().work) == 3


def test_one_call_at_a_time() -> None:
    inside, leave, calls = threading.Event(), threading.Event(), []
    made = GraphComposer(None)

    def member() -> None:
        for call in (made.launch, made.build, lambda: made.set_routing([1]), lambda: made.register(print)):
            with pytest.raises(eagle.Busy, match=r"^GraphComposer\.\w+: this GraphComposer: found another call"):
                call()
        calls.append(1)
        inside.set()
        assert leave.wait(60)

    made.register(member)
    made.build()
    thread = threading.Thread(target=made.launch)
    thread.start()
    assert inside.wait(60)
    with pytest.raises(eagle.Busy, match=r"^GraphComposer\.launch: .*; give each thread its own GraphComposer"):
        made.launch()
    assert made.fired_history() == []
    leave.set()
    thread.join()
    made.launch()
    assert len(calls) == 2 and made.fired_history() == [{0}, {0}]
