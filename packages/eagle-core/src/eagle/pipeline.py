# SPDX-License-Identifier: Apache-2.0
"""``GraphPipeline``: steps recorded once and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, SupportsIndex

import numpy as np

from eagle import backends
from eagle._core import Backend, Stream, Turns
from eagle.backends.props import device_ordinal
from eagle.errors import BackendUnavailable, NonToggleableMemberError, UnknownMemberError, refusal, shown
from eagle.graph import Graph, Node
from eagle.graph.device import check_device, kind_for
from eagle.graph.graph import recorded, switch
from eagle.graph.places import touched_by
from eagle.graph.switch import can_switch, distinct
from eagle.graph.tree import arms_of, as_node, group, leaves
from eagle.integers import index_of
from eagle.nodes import record_with

__all__ = ["GraphPipeline", "PipelineMember", "require_recording"]

TITLE = "GraphPipeline"
GROUPS = ("capturer", "captured", "graph", "launcher")  # of the seam: what records a stream and replays it


@dataclass(frozen=True)
class PipelineMember:
    """A member of a pipeline: its place, which is what equality goes by, and its name."""

    index: int
    name: str | None = field(default=None, compare=False)


class GraphPipeline:
    """Steps that run in the order they were added, recorded once by :meth:`build`, replayed by :meth:`launch`.

    They are recorded where their planes live. `device` is which device of that kind, -1 the current one; the host is
    device 0. Raises BackendUnavailable, which says what each installed kind lacks, where none records.

    One call at a time: another one, of any thread, raises eagle.Busy.
    """

    def __init__(self, device: SupportsIndex = -1) -> None:
        self._device = device_ordinal(f"eagle.{TITLE}", device)
        require_recording(f"eagle.{TITLE}", "device", "call the launches in their order, or use "
                          "eagle.GraphComposer(mode='sequenced')")
        self._nodes: list[Node] = []
        self._members: list[PipelineMember] = []
        self._leaves: list[tuple[Node, ...]] = []  # of each member
        self._graph: Graph | None = None
        self._seam: Backend | None = None  # of the stream
        self._stream: Stream | None = None
        self._turns = Turns(TITLE)

    # ---- what it is made of ------------------------------------------------------------------------------------------

    def add(self, step: Any, *, name: str | None = None) -> Self:
        """Append a member: ``bound.launch`` or the BoundPlan, a node, what skippable() or repeat_while() returns, a
        list of those run in order, or another callable without arguments, which on the host is called at each replay.
        Returns this pipeline.

        Raises TypeError for others, ValueError for a name that is taken, derivative kernels and planes that a launch
        would copy, RuntimeError once the pipeline is built.
        """
        door = f"{TITLE}.add"
        with self._turns("add"), record_with(None):
            self._open(door)
            self._check_names(door, (name,))
            node = distinct(as_node(door, "step", step, name, bare=True))
            self._append(node, [(name, tuple(leaves([node])))])
        return self

    def add_concurrent(self, members: Sequence[Any], *, names: Sequence[str | None] | None = None) -> Self:
        """Append members that may run at the same time, as :meth:`add` takes each; what comes next waits for all.
        Returns this pipeline.

        That they are independent is the caller's promise; build() refuses what it sees to race. Raises ValueError for
        fewer than two members and another number of names, and what add() does.
        """
        door = f"{TITLE}.add_concurrent"
        with self._turns("add_concurrent"), record_with(None):
            self._open(door)
            node = distinct(group(door, members, names, bare=True))
            given = tuple(names or (None,) * len(members))
            self._check_names(door, given)
            self._append(node, [(name, tuple(leaves(arm))) for name, arm in zip(given, arms_of(node), strict=True)])
        return self

    def _append(self, node: Node, members: Sequence[tuple[str | None, tuple[Node, ...]]]) -> None:
        self._nodes.append(node)
        for name, parts in members:
            self._members.append(PipelineMember(len(self._members), name))
            self._leaves.append(parts)

    def _open(self, door: str) -> None:
        if self._graph is not None:
            raise RuntimeError(refusal(door, "this pipeline", "one that is built", "one that is not",
                                       "add every member before build()"))

    def _check_names(self, door: str, names: Sequence[str | None]) -> None:
        taken = {member.name: member.index for member in self._members}
        for at, name in enumerate(names, len(self._members)):
            if name is not None and isinstance(name, str) and taken.setdefault(name, at) != at:
                raise ValueError(refusal(door, "name", f"{name!r}, which member {taken[name]} has", "a new one",
                                         "choose another name"))

    def build(self) -> Self:
        """Check the members and record them. Returns this pipeline; a build that fails leaves it open.

        Raises ValueError without members, for concurrent ones that race, another `device` than that of the planes and a
        conditional that something else holds; BufferRefused for a read-only array that one writes; RuntimeError the
        second time.
        """
        door = f"{TITLE}.build"
        with self._turns("build"):
            self._open(door)
            if not self._nodes:
                raise ValueError(refusal(door, "members", "none", "one or more", "add some first"))
            self._graph = recorded(door, self, self._nodes, self._device, self._own_stream(door))
        return self

    # ---- run ---------------------------------------------------------------------------------------------------------

    def launch(self, n: SupportsIndex = 1) -> Self:
        """Run all members n times, and wait. Returns this pipeline.

        An exception of a member leaves by here, and later ones do not run. Raises TypeError for an `n` that is no
        integer, ValueError for a negative one, BufferRefused when a plane has moved, changed its size or become
        read-only since build(), RuntimeError before build(), Busy while another call runs.
        """
        self._built("launch").launch(n)
        return self

    def enqueue(self, n: SupportsIndex = 1, *, pre_launch: Callable[[], object] | None = None,
                seed_events: Sequence[Any] | None = None) -> Self:
        """:meth:`launch` without waiting; on the host it is launch. Returns this pipeline.

        `pre_launch` is called ahead of the members, once. `seed_events` are waited for instead of the work that was
        enqueued before, () nothing; the host has no events.
        """
        door = f"{TITLE}.enqueue"
        graph = self._built("enqueue")
        if pre_launch is not None and not callable(pre_launch):
            raise TypeError(refusal(door, "pre_launch", shown(pre_launch), "a callable without arguments, or None",
                                    "pass a function"))
        if seed_events is not None and (not isinstance(seed_events, list | tuple) or seed_events):
            raise (ValueError if isinstance(seed_events, list | tuple) else TypeError)(refusal(
                door, "seed_events", shown(seed_events), "None or (): the host has no events", "leave it out"))
        graph.enqueue_behind(pre_launch, n)
        return self

    def synchronize(self) -> Self:
        """Wait for what was enqueued. Returns this pipeline."""
        self._built("synchronize").synchronize()
        return self

    @property
    def stream(self) -> int:
        """The handle of the stream that members are recorded on and replayed on."""
        with self._turns("stream"):
            return self._own_stream(f"{TITLE}.stream").ptr

    def _own_stream(self, door: str) -> Stream:
        if self._stream is None:
            check_device(door, None if self._device < 0 else self._device)
            self._seam = backends.load(kind_for(door, touched_by(self._nodes), None))
            self._stream = self._seam.stream_create(self._device)
        return self._stream

    @property
    def graph(self) -> Graph:
        """The built graph: its pictures, edges, stages and profile. Raises RuntimeError before build()."""
        return self._built("graph")

    # ---- members -----------------------------------------------------------------------------------------------------

    def member(self, which: Any) -> PipelineMember:
        """The member of a name or an index. Raises UnknownMemberError where there is none, TypeError for others."""
        return self._member(f"{TITLE}.member", which)

    def set_member_enabled(self, which: Any, on: bool) -> Self:
        """Switch a member, given as :meth:`member` takes or returns it, for the launches to come; nothing is recorded
        again. Members start enabled. Returns this pipeline.

        Raises UnknownMemberError for no member of this pipeline, NonToggleableMemberError for one that holds a
        conditional, TypeError for an `on` that is neither True nor False, RuntimeError before build().
        """
        door = f"{TITLE}.set_member_enabled"
        graph = self._built("set_member_enabled")
        member = self._member(door, which)
        self._switch(door, graph, self._leaves[member.index], f"member {member.index}", on)
        return self

    def is_member_toggleable(self, which: Any) -> bool:
        """Whether a member can be switched: it holds no conditional."""
        self._built("is_member_toggleable")
        found = self._member(f"{TITLE}.is_member_toggleable", which)
        return self.introspection_available() and all(map(can_switch, self._leaves[found.index]))

    def member_nodes(self, which: Any) -> tuple[Node, ...]:
        """The nodes of a member, in order; a conditional is one."""
        self._built("member_nodes")
        return self._leaves[self._member(f"{TITLE}.member_nodes", which).index]

    def set_node_enabled(self, node: Node, on: bool) -> Self:
        """Switch one of :meth:`member_nodes`, as :meth:`set_member_enabled` does all of them. Returns this pipeline."""
        door = f"{TITLE}.set_node_enabled"
        graph = self._built("set_node_enabled")
        if not any(node is leaf for parts in self._leaves for leaf in parts):
            raise UnknownMemberError(refusal(door, "node", shown(node), "a node of this pipeline",
                                             "pass one of member_nodes()"))
        self._switch(door, graph, (node,), f"node {node.label!r}", on)
        return self

    def num_nodes(self) -> int:
        """How many nodes were recorded; a conditional is one."""
        return self._built("num_nodes").num_nodes()

    def node_labels(self) -> list[str]:
        """Their labels, in order."""
        return self._built("node_labels").node_labels()

    def introspection_available(self) -> bool:
        """Whether the backend tells what it recorded, without which nothing can be switched."""
        self._built("introspection_available")
        return self._seam is not None and self._seam.has("capture_snapshot_nodes")

    def __repr__(self) -> str:
        state = "not built" if self._graph is None else f"{self._graph.num_nodes()} nodes"
        return f"<eagle.{TITLE} {len(self._members)} members, {state}>"

    def _built(self, method: str) -> Graph:
        if self._graph is None:
            raise RuntimeError(refusal(f"{TITLE}.{method}", "this pipeline", "one that is not built", "one that is",
                                       "call build() first"))
        return self._graph

    def _member(self, door: str, which: Any) -> PipelineMember:
        found = None
        if isinstance(which, str):
            found = next((member for member in self._members if member.name == which), None)
        elif (index := which.index if isinstance(which, PipelineMember) else index_of(which)) is not None:
            found = self._members[index] if 0 <= index < len(self._members) else None
        else:
            raise TypeError(refusal(door, "member", f"{shown(which)}, a {type(which).__name__}",
                                    "a name, an index, or what member() returns", "pass one of them"))
        if found is None:
            names = [member.name for member in self._members if member.name is not None]
            raise UnknownMemberError(refusal(door, "member", shown(which), f"0 to {len(self._members) - 1}, or one of "
                                             f"{names}" if self._members else "a pipeline that has members",
                                             "name a member that was added"))
        return found

    def _switch(self, door: str, graph: Graph, nodes: tuple[Node, ...], what: str, on: object) -> None:
        if not isinstance(on, bool | np.bool_):
            raise TypeError(refusal(door, "on", shown(on), "True or False", "pass one of them"))
        if not all(map(can_switch, nodes)):
            raise NonToggleableMemberError(refusal(door, what, "one that holds a conditional", "one that holds none",
                                                   "write to the cells of its guard"))
        switch(graph, door.removeprefix(f"{TITLE}."), nodes, bool(on))


def require_recording(door: str, argument: str, instead: str) -> None:
    """Raises BackendUnavailable where nothing records launches: it names the group, and what each kind says."""
    lacking = []
    for kind in backends.kinds():
        told: Any = backends.info(kind)
        reasons = [told["groups"][name] for name in GROUPS if told["groups"][name]]
        if not reasons:
            return
        lacking.append(reasons[0])
    raise BackendUnavailable("\n".join((refusal(
        door, argument, "no backend that records launches", f"one that provides the group {GROUPS[0]}",
        f"install or upgrade one: pip install eagle-backend-cpu; without it, {instead}"), *lacking)))
