# SPDX-License-Identifier: Apache-2.0
"""``GraphComposer``: a list of members of which a routing pattern says who runs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np

from eagle._core import Turns
from eagle.backends.props import device_ordinal
from eagle.errors import refusal, shown
from eagle.interop.buffer import view_for
from eagle.pipeline import refuse_recording
from eagle.plan import BoundPlan

__all__ = ["GraphComposer"]

DOOR = "eagle.GraphComposer"
SEQUENCED, CONDITIONAL = "sequenced", "conditional"
MODES = (SEQUENCED, CONDITIONAL, "enabled", "rebuild")


@dataclass(frozen=True, eq=False)
class Member:
    """What was registered, how it runs n times, and what runs ahead of that."""

    obj: Any
    name: str | None
    run: Callable[[int], object]
    pre_launch: Callable[[], object] | None


class GraphComposer:
    """Members that run in order, those a routing pattern switches on.

    `member_flags` is the pattern build() starts with: a flag for each member, nonzero is on, None all on. `mode`
    "sequenced" keeps a list on the host. "enabled", "rebuild" and "conditional", which record the members, need a
    backend that provides the group capturer: BackendUnavailable. The flags of "conditional" are an array of uint32
    where the members run, which each launch reads. `device` is where members are recorded, -1 the current one.

    Members register, build() fixes them, launch() runs them. One call at a time: a second one raises eagle.Busy.
    """

    def __init__(self, member_flags: Any, *, mode: str = SEQUENCED, device: SupportsIndex = -1) -> None:
        if not isinstance(mode, str) or mode not in MODES:
            raise ValueError(refusal(DOOR, "mode", shown(mode), f"one of {MODES}", "leave it out for 'sequenced'"))
        device_ordinal(DOOR, device)
        if mode == CONDITIONAL:
            _check_cells(member_flags)
        else:
            _pattern(DOOR, "member_flags", member_flags)
        if mode != SEQUENCED:
            refuse_recording(DOOR, f"mode={mode!r}", "use mode='sequenced'")
        self._flags = member_flags
        self._mode = mode
        self._members: list[Member] = []
        self._active: frozenset[int] | None = None  # None before build()
        self._history: list[frozenset[int]] = []
        self._turns = Turns("GraphComposer")

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

    def register(self, obj: Any, *, name: str | None = None, pre_launch: Callable[[], object] | None = None) -> int:
        """Add a member; returns its index. `pre_launch` is called once ahead of the member's runs of each launch.

        A member is a BoundPlan, an object with ``launch(n)``, such as a composer that was built, or a callable without
        arguments. Raises TypeError for other objects, ValueError for an object or a name that is registered and for a
        composer that was not built, RuntimeError once this one was built.
        """
        door = "GraphComposer.register"
        with self._turns("register"):
            if self._active is not None:
                raise RuntimeError(refusal(door, "this composer", "one that was built", "one that was not",
                                           "register every member before build()"))
            if isinstance(obj, GraphComposer) and obj._active is None:
                raise ValueError(refusal(door, "obj", "a composer that was not built", "one that was",
                                         "call its build() first"))
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
            self._members.append(Member(obj, name, _runner(obj), pre_launch))
            return len(self._members) - 1

    def build(self) -> GraphComposer:
        """Fix the members and take the routing of `member_flags`. Returns this composer.

        Raises ValueError without members and for flags of another length, RuntimeError the second time.
        """
        door = "GraphComposer.build"
        with self._turns("build"):
            if self._active is not None:
                raise RuntimeError(refusal(door, "this composer", "one that was built", "one that was not",
                                           "make a new GraphComposer, or call set_routing()"))
            if not self._members:
                raise ValueError(refusal(door, "members", "none", "one or more", "register() them first"))
            self._active = self._routed(door, "member_flags", self._flags)
            return self

    def set_routing(self, pattern: Any) -> GraphComposer:
        """Switch members on and off for the launches to come: a flag for each member, nonzero is on, None all on.
        Returns this composer.

        Raises ValueError for another length, TypeError for what is no sequence of integers, RuntimeError before
        build().
        """
        with self._turns("set_routing"):
            self._built("set_routing")
            self._active = self._routed("GraphComposer.set_routing", "pattern", pattern)
            return self

    def launch(self, n: SupportsIndex = 1) -> GraphComposer:
        """Run every member that is on, in order, each n times. Returns this composer.

        An exception of a member leaves by here; later members do not run. Raises TypeError for an `n` that is no
        integer, ValueError for a negative one, RuntimeError before build(), Busy while another call runs.
        """
        door = "GraphComposer.launch"
        if isinstance(n, bool | np.bool_) or not hasattr(type(n), "__index__"):
            raise TypeError(refusal(door, "n", f"{shown(n)}, a {type(n).__name__}", "an integer", "pass an int"))
        times = operator.index(n)
        if times < 0:
            raise ValueError(refusal(door, "n", str(times), "0 or more", "pass how often each member shall run"))
        with self._turns("launch"):
            active = self._built("launch")
            fired: list[int] = []
            try:
                for index, member in enumerate(self._members):
                    if times and index in active:
                        fired.append(index)
                        if member.pre_launch is not None:
                            member.pre_launch()
                        member.run(times)
            finally:
                self._history.append(frozenset(fired))
            return self

    def fired_history(self) -> list[frozenset[int]]:
        """The indices of the members that ran, for each launch since the start or the last reset."""
        return list(self._history)

    def reset_fired_history(self) -> None:
        """Forget which members ran."""
        self._history.clear()

    def num_nodes(self) -> int:
        """The nodes that were recorded. Raises RuntimeError: "sequenced" records none."""
        raise self._nothing_recorded("num_nodes")

    def node_labels(self) -> list[str]:
        """The labels of the nodes that were recorded. Raises RuntimeError: "sequenced" records none."""
        raise self._nothing_recorded("node_labels")

    def __repr__(self) -> str:
        state = "not built" if self._active is None else f"{len(self._active)} on"
        return f"<eagle.GraphComposer {self._mode}, {len(self._members)} members, {state}>"

    def _nothing_recorded(self, method: str) -> RuntimeError:
        return RuntimeError(refusal(f"GraphComposer.{method}", "mode", repr(self._mode), "one that records members",
                                    f"ask {method}() of the members that have it"))

    def _built(self, method: str) -> frozenset[int]:
        if self._active is None:
            raise RuntimeError(refusal(f"GraphComposer.{method}", "this composer", "one that was not built",
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


def _check_cells(flags: Any) -> None:
    """Refuse what is no array of uint32 that a recorded condition can read."""
    view = view_for(DOOR, "member_flags", flags)
    if view.dtype != "uint32" or len(view.shape) != 1:
        raise TypeError(refusal(DOOR, "member_flags", f"an array of {view.dtype}, shape {view.shape}",
                                "uint32, one cell for each member", "pass an array of numpy.uint32"))
