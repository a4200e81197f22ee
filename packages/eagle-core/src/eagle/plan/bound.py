# SPDX-License-Identifier: Apache-2.0
"""BoundPlan: a plan with its arguments packed once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from eagle import _core, counters
from eagle.backends.choosing import HOST_MEMORY
from eagle.errors import ArgumentError, BufferRefused, LayoutError, refusal, shown
from eagle.exec import Partition
from eagle.interop.held import Memory, check_bind
from eagle.plan.arguments import Arguments, moved_while_checked, settle
from eagle.plan.layout import check_layout
from eagle.plan.program import bind
from eagle.plan.signature import Use

if TYPE_CHECKING:
    from eagle.plan.arguments import Arguments
    from eagle.plan.broadcast import Broadcast
    from eagle.plan.plan import Plan

__all__ = ["BoundPlan", "Route", "lane_group"]

Route = Callable[[str, dict[str, Any], str, "int | None"], "tuple[Plan, Broadcast]"]


class BoundPlan(_core.Launches):
    """A kernel bound to the caller's planes: :meth:`launch` runs it, :meth:`rebind` changes planes.

    It holds a reference to every plane. Several threads may launch it; they share its outputs. A rebind, of one thread
    at a time, never disturbs a launch that is running.
    """

    def __init__(self, plan: Plan, door: str, given: dict[str, Any], layout: str | None,
                 route: Route | None = None, mode: str = "bind", known: Collection[str] = (),
                 cleared: Collection[str] = ()) -> None:
        self._plan = plan
        self._cleared = frozenset(cleared)
        self._layout = layout
        self._mode = mode  # that of settle
        self._route = route  # the plan for how the planes are given, and what it takes
        self._pattern: Mapping[str, tuple[bool, ...]] = {}
        self._n: int | None = None
        self._adopt(door, given, layout, known)
        counters.add("binds")

    def _adopt(self, door: str, given: dict[str, Any], layout: str | None, known: Collection[str] = ()) -> None:
        """Check every plane, then replace the packed block as a whole; `known` are those that stay."""
        plan, n, packed, pattern = self._plan, self._n, given, self._pattern
        call: Broadcast | None = None
        if self._route is not None:
            plan, call = self._route(door, given, self._mode, n)
            if n is not None and plan is not self._plan:
                odd = [name for name in given if call.pattern.get(name) != self._pattern.get(name)]
                raise LayoutError(refusal(door, f"inputs {odd}", "other lane axes that they vary along",
                                          "the axes that were bound", "bind again"))
            n, packed, pattern = call.n, call.packed, call.pattern
        arguments = settle(door, plan.signature, packed, layout, self._mode, n, call, known)
        plan.check_samples(door, arguments.n)
        _check_active_set(door, plan, arguments)
        bound = bind(door, plan.signature, plan.kernels, arguments, plan.npartitions, plan.partitions or (),
                     cleared=self._cleared)
        if (moved := bound.moved(False)) is not None:
            raise moved_while_checked(door, arguments.slots[moved])
        self._set(bound)
        self._bound = bound
        self._arguments = arguments
        self._plan, self._pattern = plan, pattern
        self._n = arguments.n
        self._planes = arguments.shown() | arguments.made
        self._memory = arguments.memory
        self._given = given | arguments.again() | arguments.made

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise AttributeError(refusal("BoundPlan", name, "an assignment", "no change", f"call rebind({name}=...)"))
        super().__setattr__(name, value)

    def _door(self, method: str) -> str:
        return f"{self._plan.signature.kernel}.{method}"

    @property
    def plan(self) -> Plan:
        """The plan this was bound from."""
        return self._plan

    @property
    def arguments(self) -> Arguments:
        """What was bound, as it was checked: for the rooms above."""
        return self._arguments

    def packed(self, door: str, instead: Mapping[str, Any] | None = None) -> _core.Bound:
        """What a launch runs, over other arrays `instead` of some; copies of sample-major planes are the caller's to
        make."""
        if not instead and not self._arguments.copies:
            return self._bound
        plan, arguments = self._plan, self._arguments
        arguments = replace(arguments, packed=arguments.packed | dict(instead or {}))
        return bind(door, plan.signature, plan.kernels, arguments, plan.npartitions, plan.partitions or (), False,
                    self._cleared)

    def refuse_moved(self, door: str, bound: _core.Bound) -> None:
        """Raise BufferRefused, for the door named `door`, where a plane is no longer what was packed in `bound`."""
        if (moved := bound.moved(True)) is not None:
            self._moved(moved, door)

    @property
    def n(self) -> int:
        """The number of samples, fixed by bind."""
        assert self._n is not None
        return self._n

    @property
    def names(self) -> tuple[str, ...]:
        """The bound names, in slot order."""
        return tuple(self._planes)

    @property
    def planes(self) -> Mapping[str, Any]:
        """The bound arrays and numbers by name: what a launch reads and writes. The mapping is read-only."""
        return MappingProxyType(self._planes)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The ranges a launch runs, in order."""
        return self._plan.partitions_for(self.n)

    @property
    def stages(self) -> tuple[str, ...]:
        """The kernels a launch runs, in order: several for one that reads a reduction over all samples."""
        return tuple(str(stage.plugin.name) for stage in self._plan.signature.stages)

    def device_capacity(self) -> int:
        """The samples a device runs at once; 0 on a host plan."""
        return 0

    def persist_entry(self) -> None:
        """The device entry that fetches samples until none is left; None on a host plan."""

    def range_entry(self) -> None:
        """The device entry that reports the steps it took; None on a host plan."""

    def entry_reports(self) -> tuple[Any, ...]:
        """What the device compiler said of each entry; empty on a host plan."""
        return ()

    def __repr__(self) -> str:
        return (f"BoundPlan({self._plan.signature.kernel!r}, {self._plan.structure}, n={self.n}, "
                f"partitions={self._plan.npartitions}, names={list(self.names)})")

    def rebind(self, /, *, layout: str | None = None, **changed: Any) -> BoundPlan:
        """Bind other planes or numbers under some of the names; the others stay. Returns this bound plan.

        The checks are those of bind, at the same number of samples; nothing changes when one fails. A graph that was
        built keeps the planes it was built with. Raises
        ArgumentError for names that are not bound.
        """
        door = self._door("rebind")
        if self._mode == "step":
            raise ValueError(refusal(door, "planes", "a plan that a runner steps", "one of Plan.bind",
                                     "write into the bound arrays, or make another runner"))
        check_layout(door, layout)
        for name in changed:
            if name not in self._planes:
                raise ArgumentError(refusal(door, f"argument {name!r}", "a name that is not bound",
                                            f"one of {list(self.names)}", "bind again to add one"))
        self._adopt(door, self._given | changed, layout or self._layout, self._planes.keys() - changed.keys())
        counters.add("rebinds")
        return self

    def over(self, door: str, changed: Mapping[str, Any], cleared: Collection[str] | None = None) -> BoundPlan:
        """Another bound plan, like this one but for some of the planes, and for the outputs that are cleared."""
        return BoundPlan(self._plan, door, self._given | dict(changed), self._layout, self._route, self._mode,
                         self._planes.keys() - changed.keys(), self._cleared if cleared is None else cleared)

    @property
    def cleared(self) -> frozenset[str]:
        """The outputs that each launch begins with zeros in."""
        return self._cleared

    def clear(self, *names: str) -> None:
        """Fill bound outputs or state with zeros. Raises ArgumentError for other names, and for none."""
        door = self._door("clear")
        outputs = [slot.name for slot in self._plan.signature.arguments if slot.is_output]
        if not names:
            raise ArgumentError(refusal(door, "names", "none", f"some of {outputs}", "name what shall be zero"))
        for name in names:
            if name not in outputs:
                raise ArgumentError(refusal(door, f"name {name!r}", "no bound output", f"some of {outputs}",
                                            "name outputs, or write to your own array"))
        self.refuse_moved(door, self._bound)
        for name in names:
            self._memory[name].fill(0)

    def _launch(self, *args: Any, **kw: Any) -> None:
        door, wanted = self._door("launch"), ("stream", "grid", "block")
        if len(args) > 1:
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name", "at most one, stream",
                                        "name the rest"))
        for name in kw:
            if name not in wanted or (args and name == "stream"):
                raise ArgumentError(refusal(door, f"argument {name!r}", "a keyword it does not take or has already",
                                            f"some of {wanted}", "leave it out"))
        given = dict(zip(wanted, args, strict=False)) | kw
        for name in ("stream", "grid"):
            if given.get(name) is not None:
                raise ValueError(refusal(door, name, shown(given[name]), "None on a host plan", f"leave {name}= out"))
        self.launch()

    def _moved(self, name: str, door: str | None = None) -> NoReturn:
        door = door or self._door("launch")
        slot = next(slot for slot in self._plan.signature.arguments if slot.name == name)
        if slot.use in (Use.MAP, Use.OFFSETS):
            raise BufferRefused(refusal(door, slot.what, "an array that moved, or that "
                                        "leads outside the samples", f"samples of 0 to {self.n - 1}",
                                        f"correct its values, or call rebind({name}=...)"))
        raise BufferRefused(refusal(
            door, slot.what, "an array that moved, changed its shape, was deleted "
            "or may no longer be written", "the array as it was bound", f"call rebind({name}=...)"))


def lane_group(plan: Plan) -> int:
    """The samples that live and die together, as the kernel was emitted; 1 for most."""
    lanes = getattr(plan.signature.stages[0].plugin, "lane_space", None)
    return int(lanes.get("group", 1) if isinstance(lanes, Mapping) else getattr(lanes, "group", 1))


def _check_active_set(door: str, plan: Plan, arguments: Arguments) -> None:
    """Refuse planes that the active set of a bound map would not take along."""
    slots = arguments.slots
    maps = [name for name, slot in slots.items() if slot.use is Use.MAP and name in arguments.packed]
    if not maps:
        return

    def place(name: str) -> Memory:
        array = arguments.packed[name]
        return Memory(array.ctypes.data, array.nbytes, HOST_MEMORY, 0)

    check_bind(door, place(maps[0]), lane_group(plan), {slot.what: place(name) for name, slot in slots.items()
                                             if slot.is_plane and name in arguments.packed})
