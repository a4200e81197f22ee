# SPDX-License-Identifier: Apache-2.0
"""BoundPlan: a plan with its arguments packed once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from eagle import _core
from eagle.errors import ArgumentError, BufferRefused, refusal, shown
from eagle.exec import Partition
from eagle.plan import values
from eagle.plan.launching import samples_of, typed

if TYPE_CHECKING:
    from eagle.plan.plan import Plan

__all__ = ["BoundPlan"]


class BoundPlan(_core.Launches):
    """A kernel bound to the caller's planes: :meth:`launch` runs it, :meth:`rebind` changes planes.

    It holds a reference to every plane. Several threads may launch it; they share its outputs. A rebind, of one thread
    at a time, never disturbs a launch that is running.
    """

    def __init__(self, plan: Plan, door: str, given: dict[str, Any], layout: str | None) -> None:
        values.check_layout(door, layout)
        values.check_names(door, plan.signature, given, "bind")
        self._plan = plan
        self._layout = layout
        self._n: int | None = None
        self._adopt(door, given, layout)

    def _adopt(self, door: str, given: dict[str, Any], layout: str | None) -> None:
        """Check every plane, then replace the packed block as a whole."""
        signature = self._plan.signature
        packed = {slot.name: values.slot_value(door, slot, given[slot.name], values.bound_plane)
                  for slot in sorted(signature.slots, key=lambda slot: not slot.is_uniform) if slot.name in given}
        n = samples_of(door, signature.slots, packed, layout, self._n)
        self._plan.check_samples(door, n)
        planes = {slot.name: packed[slot.name] for slot in signature.slots if slot.is_array and slot.name in packed}
        for name in values.check_overlap(door, signature, planes):
            raise BufferRefused(refusal(door, f"{name!r}", "an array that is also an output", "a separate array",
                                        "the kernel may write a sample before it has read all of it"))
        slots = tuple(typed(slot, packed.get(slot.name)) for slot in signature.slots)
        bound = _core.Bound(self._plan.kernel_for(slots), tuple(packed.get(slot.name) for slot in slots),
                            self._plan.npartitions, self._plan.partitions or ())
        self._set(bound)
        self._n = n
        self._planes = {slot.name: given[slot.name] for slot in signature.slots if slot.name in given}

    @property
    def plan(self) -> Plan:
        """The plan this was bound from."""
        return self._plan

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
        """The bound arrays and numbers by name, read-only."""
        return MappingProxyType(self._planes)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The ranges a launch runs, in order."""
        return self._plan.partitions_for(self.n)

    def __repr__(self) -> str:
        return (f"BoundPlan({self._plan.signature.kernel!r}, {self._plan.structure}, n={self.n}, "
                f"partitions={self._plan.npartitions}, names={list(self.names)})")

    def rebind(self, /, *, layout: str | None = None, **changed: Any) -> BoundPlan:
        """Bind other planes or numbers under some of the names; the others stay. Returns this bound plan.

        The checks are those of bind, at the same number of samples; nothing changes when one fails. Raises
        ArgumentError for names that are not bound.
        """
        door = "BoundPlan.rebind"
        values.check_layout(door, layout)
        for name in changed:
            if name not in self._planes:
                raise ArgumentError(refusal(door, f"argument {name!r}", "a name that is not bound",
                                            f"one of {list(self.names)}"))
        self._adopt(door, self._planes | changed, layout or self._layout)
        return self

    def clear(self, *names: str) -> None:
        """Fill bound output planes with zeros. Raises ArgumentError for other names."""
        outputs = [slot.name for slot in self._plan.signature.slots if slot.is_output]
        for name in names:
            if name not in outputs:
                raise ArgumentError(refusal("BoundPlan.clear", f"name {name!r}", "no bound output",
                                            f"some of {outputs}"))
        for name in names:
            self._planes[name].fill(0)

    def _launch(self, *args: Any, **kw: Any) -> None:
        door, wanted = "BoundPlan.launch", ("stream", "grid", "block")
        if len(args) > 1:
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name", "at most one, stream"))
        for name in kw:
            if name not in wanted or (args and name == "stream"):
                raise ArgumentError(refusal(door, f"argument {name!r}", "a keyword it does not take or has already",
                                            f"some of {wanted}"))
        given = dict(zip(wanted, args, strict=False)) | kw
        for name in ("stream", "grid"):
            if given.get(name) is not None:
                raise ValueError(refusal(door, name, shown(given[name]), "None on a host plan", f"leave {name}= out"))
        self.launch()

    def _moved(self, index: int) -> NoReturn:
        slot = self._plan.signature.slots[index]
        raise BufferRefused(refusal(
            "BoundPlan.launch", f"{slot.role} {slot.name!r}", "an array that moved, changed its shape or became "
            "read-only after it was bound", "the array as it was bound", f"call rebind({slot.name}=...)"))
