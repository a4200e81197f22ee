# SPDX-License-Identifier: Apache-2.0
"""``GraphComposer``: a list of members of which a routing pattern says who runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from eagle._core import Turns
from eagle.backends.props import device_ordinal
from eagle.errors import BufferRefused, NonToggleableMemberError, refusal, shown
from eagle.graph import Graph, Node
from eagle.graph.graph import recorded, switch, times_of
from eagle.graph.switch import can_switch, distinct
from eagle.graph.tree import as_node, leaves
from eagle.interop.buffer import view_for
from eagle.nodes import SkipGuard, Skippable, record_with
from eagle.pipeline import require_recording
from eagle.plan import BoundPlan
from eagle.transfer import copy_node

__all__ = ["GraphComposer"]

TITLE = "GraphComposer"
DOOR = f"eagle.{TITLE}"
SEQUENCED, CONDITIONAL, ENABLED, REBUILD = MODES = ("sequenced", "conditional", "enabled", "rebuild")


@dataclass(frozen=True, eq=False)
class Member:
    """What was registered, how it runs n times, and what runs ahead of that; the node it is in modes that record."""

    obj: Any
    name: str | None
    run: Callable[[int], object]
    pre_launch: Callable[[], object] | None
    node: Node | None


class GraphComposer:
    """Members that run in order, those a routing pattern switches on.

    `member_flags` is the pattern build() starts with: a flag for each member, nonzero is on, None all on. `mode`
    "sequenced" keeps a list on the host. The others record the members, and a launch replays them: "enabled" switches
    what was recorded on and off, "rebuild" records those that are on again at each set_routing(), "conditional" makes
    each a conditional: its flags are an array of uint32, one cell for each member, read when its turn comes.
    BackendUnavailable where no backend records. `device` is where members are recorded, -1 the current one.

    Members register, build() fixes them, launch() runs them. One call at a time: a second one raises eagle.Busy.
    """

    def __init__(self, member_flags: Any, *, mode: str = SEQUENCED, device: SupportsIndex = -1) -> None:
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(refusal(DOOR, "mode", shown(mode), f"one of {MODES}", "leave it out for 'sequenced'"))
        self._device = device_ordinal(DOOR, device)
        if mode == CONDITIONAL:
            _check_cells(member_flags)
        else:
            _pattern(DOOR, "member_flags", member_flags)
        if mode != SEQUENCED:
            require_recording(DOOR, f"mode={mode!r}", "use mode='sequenced'")
        self._flags = member_flags
        self._mode = mode
        self._members: list[Member] = []
        self._active: frozenset[int] | None = None  # None before build()
        self._on: list[int] = []  # those that are active, in order
        self._history: list[frozenset[int]] = []
        self._nodes: list[Node] = []  # what is recorded of each member
        self._graph: Graph | None = None  # of all of them, or those that are on
        self._alone: dict[int, Graph] = {}  # members by themselves, for launches of several runs
        self._fired = np.zeros(0, np.uint32)  # of "conditional": a cell for each member, which it sets when it runs
        self._turns = Turns(TITLE)

    @property
    def mode(self) -> str:
        """How members are kept."""
        return self._mode

    @property
    def member_flags(self) -> Any:
        """The flags it was made with."""
        return self._flags

    @property
    def num_members(self) -> int:
        """How many members there are."""
        return len(self._members)

    @property
    def is_built(self) -> bool:
        """Whether build() fixed the members."""
        return self._active is not None

    def register(self, obj: Any, *, name: str | None = None, pre_launch: Callable[[], object] | None = None) -> int:
        """Add a member; returns its index. `pre_launch` is called once ahead of the member's runs of each launch.

        A member is a BoundPlan, an object with ``launch(n)``, such as a composer that was built, or a callable without
        arguments. Modes that record take a BoundPlan, its launch, a node, what skippable() and repeat_while() return,
        or another callable, which is called at each replay, and no `pre_launch`.

        Raises TypeError for other objects, NonToggleableMemberError for one that holds a conditional in mode "enabled",
        ValueError for an object or a name that is registered, a composer that was not built or that records, and a
        kernel that cannot be recorded; RuntimeError once this one was built.
        """
        door = f"{TITLE}.register"
        with self._turns("register"):
            if self._active is not None:
                raise RuntimeError(refusal(door, "this composer", "one that was built", "one that was not",
                                           "register every member before build()"))
            if isinstance(obj, GraphComposer):
                _check_nested(door, obj, self._mode)
            if not (callable(getattr(obj, "launch", None)) or callable(obj)) or isinstance(obj, type):
                raise TypeError(refusal(door, "obj", f"{shown(obj)}, a {type(obj).__name__}", "a BoundPlan, an object "
                                        "with launch(n), or a callable without arguments", "pass a function"))
            if name is not None and not isinstance(name, str):
                raise TypeError(refusal(door, "name", shown(name), "a text or None", "pass str(name)"))
            if pre_launch is not None and not callable(pre_launch):
                raise TypeError(refusal(door, "pre_launch", shown(pre_launch), "a callable without arguments, or None",
                                        "pass a function"))
            for index, member in enumerate(self._members):
                if member.obj is obj or (hasattr(obj, "__self__") and member.obj == obj):  # x.launch is new each time
                    raise ValueError(refusal(door, "obj", f"{shown(obj)}, which is member {index}", "a new object",
                                             "register it once; set_routing switches it"))
                if name is not None and member.name == name:
                    raise ValueError(refusal(door, "name", f"{name!r}, which member {index} has", "a new one",
                                             "choose another name"))
            node = None if self._mode == SEQUENCED else self._as_node(door, obj, name, pre_launch)
            self._members.append(Member(obj, name, _runner(obj), pre_launch, node))
            return len(self._members) - 1

    def _as_node(self, door: str, obj: Any, name: str | None, pre_launch: object) -> Node:
        """A member as modes that record have it."""
        if pre_launch is not None:
            raise ValueError(refusal(door, "pre_launch", f"a function in mode {self._mode!r}", "None: a replay is one "
                                     "call", "register it as a member, or use mode='sequenced'"))
        if not (callable(obj) or isinstance(obj, BoundPlan)):
            raise TypeError(refusal(door, "obj", f"{shown(obj)}, a {type(obj).__name__}", "a BoundPlan, a node, a "
                                    f"conditional or another callable without arguments, in mode {self._mode!r}",
                                    "pass a function, or use mode='sequenced'"))
        with record_with(None):
            node = distinct(as_node(door, "obj", obj, name, bare=True))
        if self._mode == ENABLED and not can_switch(node):
            raise NonToggleableMemberError(refusal(door, "obj", "one that holds a conditional", "one that holds none, "
                                                   f"in mode {ENABLED!r}", f"use mode={CONDITIONAL!r} or {REBUILD!r}"))
        return node

    def build(self) -> GraphComposer:
        """Fix the members and take the routing of `member_flags`. Returns this composer.

        Raises ValueError without members, for flags of another length and another `device` than that of the planes,
        BufferRefused for a read-only array that a recorded member writes, BackendUnavailable in mode "enabled" where
        nothing that was recorded can be switched, RuntimeError the second time.
        """
        door = f"{TITLE}.build"
        with self._turns("build"):
            if self._active is not None:
                raise RuntimeError(refusal(door, "this composer", "one that was built", "one that was not",
                                           "make a new GraphComposer, or call set_routing()"))
            if not self._members:
                raise ValueError(refusal(door, "members", "none", "one or more", "register() them first"))
            active = self._routed(door, "member_flags", self._flags)
            self._nodes = self._guarded() if self._mode == CONDITIONAL else [
                member.node for member in self._members if member.node is not None]
            self._route("build", active)
            return self

    def _guarded(self) -> list[Node]:
        """The nodes of all members, each run where its flag is set; its cell of fired tells that it did."""
        self._fired, one, found = np.zeros(len(self._members), np.uint32), np.ones(1, np.uint32), []
        for index, member in enumerate(self._members):
            assert member.node is not None
            step = (copy_node(one, self._fired[index:index + 1]), member.node)
            found.append(as_node(DOOR, "obj", Skippable(step, SkipGuard.intent(self._flags, index)), member.node.label))
        return found

    def _route(self, method: str, active: frozenset[int]) -> None:
        """What a pattern means for what is recorded."""
        everything = range(len(self._members))
        if self._mode == REBUILD:
            self._graph, self._alone = self._recorded(method, sorted(active)) if active else None, {}
        elif self._mode != SEQUENCED and self._graph is None:
            self._graph = self._recorded(method, everything)
        if self._mode == ENABLED and self._graph is not None:
            for index, node in enumerate(self._nodes):
                switch(self._graph, method, leaves([node]), index in active)
        self._active = frozenset(everything) if self._mode == CONDITIONAL else active
        self._on = sorted(self._active)

    def _recorded(self, method: str, members: Iterable[int]) -> Graph:
        return recorded(f"{TITLE}.{method}", self, [self._nodes[index] for index in members], self._device)

    def set_routing(self, pattern: Any) -> GraphComposer:
        """Switch members on and off for the launches to come: a flag for each member, nonzero is on, None all on.
        Returns this composer.

        "conditional" writes the flags into its cells. Raises ValueError for another length and for cells that may not
        be written, TypeError for what is no sequence of integers, RuntimeError before build(), and in mode "rebuild"
        what build() does.
        """
        with self._turns("set_routing"):
            self._built("set_routing")
            door = f"{TITLE}.set_routing"
            active = self._routed(door, "pattern", pattern)
            if self._mode == CONDITIONAL:
                _write_cells(door, self._flags, active)
            self._route("set_routing", active)
            return self

    def launch(self, n: SupportsIndex = 1) -> GraphComposer:
        """Run every member that is on, in order, each n times. Returns this composer.

        Modes that record replay all members in one call where n is 1; for more, each by itself, n times, which the
        first such launch records. An exception of a member leaves by here; later members do not run. Raises TypeError
        for an `n` that is no integer, ValueError for a negative one, BufferRefused when a plane of what was recorded
        has moved, changed its size or become read-only, RuntimeError before build(), Busy while another call runs.
        """
        door = f"{TITLE}.launch"
        times = times_of(door, n)
        with self._turns("launch"):
            active = self._built("launch")
            fired: list[int] = []
            run = self._run if self._mode == SEQUENCED else self._replay
            try:
                if times:
                    run(self._on, times, fired)
            finally:
                self._history.append(active if len(fired) == len(active) else frozenset(fired))
            return self

    def _run(self, on: list[int], times: int, fired: list[int]) -> None:
        for index in on:
            member = self._members[index]
            fired.append(index)
            if member.pre_launch is not None:
                member.pre_launch()
            member.run(times)

    def _replay(self, on: list[int], times: int, fired: list[int]) -> None:
        """Several runs of a member come one behind the other: each member then has a graph of its own."""
        if self._graph is None or not on:
            return
        self._fired.fill(0)
        try:
            if times == 1 or len(on) == 1:
                self._launch(self._graph, on, times, fired)
                return
            self._graph.refuse_moved()
            for index in on:
                self._launch(self._by_itself(index), [index], times, fired)
        finally:
            if self._mode == CONDITIONAL:
                fired[:] = np.flatnonzero(self._fired).tolist()

    def _by_itself(self, index: int) -> Graph:
        if index not in self._alone:
            self._alone[index] = self._recorded("launch", [index])
        return self._alone[index]

    def _launch(self, graph: Graph, part: list[int], times: int, fired: list[int]) -> None:
        try:
            graph.launch(times)
        except BaseException:
            begun = set(map(id, graph.reached()))
            fired.extend(index for index in part if any(id(leaf) in begun for leaf in leaves([self._nodes[index]])))
            raise
        fired.extend(part)

    def fired_history(self) -> list[frozenset[int]]:
        """The indices of the members that ran, for each launch since the start or the last reset."""
        return list(self._history)

    def reset_fired_history(self) -> None:
        """Forget which members ran."""
        self._history.clear()

    def num_nodes(self) -> int:
        """How many nodes are recorded; a conditional is one. Raises RuntimeError where none are: before build(), in
        mode "sequenced", and in mode "rebuild" while nothing is on."""
        return self._introspected("num_nodes").num_nodes()

    def node_labels(self) -> list[str]:
        """The labels of the nodes that are recorded, in order. Raises what :meth:`num_nodes` does."""
        return self._introspected("node_labels").node_labels()

    def __repr__(self) -> str:
        on = self._active
        if on is not None and self._mode == CONDITIONAL:
            on = self._routed(DOOR, "member_flags", self._flags)
        state = "not built" if on is None else f"{len(on)} on"
        return f"<eagle.{TITLE} {self._mode}, {len(self._members)} members, {state}>"

    def _introspected(self, method: str) -> Graph:
        if self._mode == SEQUENCED:
            raise RuntimeError(refusal(f"{TITLE}.{method}", "mode", repr(self._mode), "one that records members",
                                       f"ask {method}() of the members that have it"))
        self._built(method)
        if self._graph is None:
            raise RuntimeError(refusal(f"{TITLE}.{method}", "this composer", "one with nothing on, which recorded "
                                       "nothing", "one with members that are on", "call set_routing() first"))
        return self._graph

    def _built(self, method: str) -> frozenset[int]:
        if self._active is None:
            raise RuntimeError(refusal(f"{TITLE}.{method}", "this composer", "one that was not built",
                                       "one that was", "call build() first"))
        return self._active

    def _routed(self, door: str, argument: str, pattern: Any) -> frozenset[int]:
        flags = _pattern(door, argument, pattern)
        if flags is None:
            return frozenset(range(len(self._members)))
        if len(flags) != len(self._members):
            raise ValueError(refusal(door, argument, f"{len(flags)} flags", f"{len(self._members)}, one for each "
                                     "member", "pass a flag for each member, in the order they were registered"))
        return frozenset(index for index, flag in enumerate(flags) if flag)


def _check_nested(door: str, obj: GraphComposer, mode: str) -> None:
    if mode != SEQUENCED or obj.mode != SEQUENCED:
        which, has = ("this composer", mode) if mode != SEQUENCED else ("obj", obj.mode)
        raise ValueError(refusal(door, which, f"mode {has!r}", f"{SEQUENCED!r}, where a composer is a member",
                                 "register its members"))
    if not obj.is_built:
        raise ValueError(refusal(door, "obj", "a composer that was not built", "one that was",
                                 "call its build() first"))


def _runner(obj: Any) -> Callable[[int], object]:
    """What runs a member n times."""
    if isinstance(obj, BoundPlan):  # its launch takes a stream, not a number
        obj = obj.launch
    elif callable(getattr(obj, "launch", None)):
        launch: Callable[[int], object] = obj.launch
        return launch

    def repeat(n: int) -> None:
        for _ in range(n):
            obj()

    return repeat


def _pattern(door: str, argument: str, flags: Any) -> list[int] | None:
    """Flags as integers; None for None. Raises TypeError for what is no sequence of integers."""
    if flags is None:
        return None
    if isinstance(flags, list | tuple) or len(getattr(flags, "shape", ())) == 1:
        read = list(flags)
        if all(isinstance(flag, np.bool_) or hasattr(type(flag), "__index__") for flag in read):
            return [int(flag) for flag in read]
    raise TypeError(refusal(door, argument, f"{shown(flags)}, a {type(flags).__name__}",
                            "a list, tuple or array of integers or bools, or None", "pass a flag for each member"))


def _write_cells(door: str, flags: Any, active: frozenset[int]) -> None:
    """Write a pattern into the cells that recorded conditions read."""
    if isinstance(flags, np.ndarray):
        cells, writable = flags, flags.flags.writeable
    else:
        view = view_for(door, "member_flags", flags)
        cells, writable = np.asarray(view), view.writable
    if not writable:
        raise BufferRefused(refusal(door, "member_flags", "an array that may not be written", "a writable one",
                                    "pass one, or change its cells yourself"))
    cells[...] = [index in active for index in range(len(cells))]


def _check_cells(flags: Any) -> None:
    """Refuse what is no array of uint32 that a recorded condition can read."""
    view = view_for(DOOR, "member_flags", flags)
    if view.dtype != "uint32" or len(view.shape) != 1:
        raise TypeError(refusal(DOOR, "member_flags", f"an array of {view.dtype}, shape {view.shape}",
                                "uint32, one cell for each member", "pass an array of numpy.uint32"))
