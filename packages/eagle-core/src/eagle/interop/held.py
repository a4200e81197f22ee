# SPDX-License-Identifier: Apache-2.0
"""The planes that somebody moves about: each has one mover, and none leaves the house while its samples are not where a
reader looks for them."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

from eagle import _core
from eagle.errors import BufferRefused, refusal
from eagle.interop.buffer import view_for

__all__ = ["Holder", "Memory", "check_bind", "owner_of", "refuse_permuted"]

_numbers = itertools.count(1)
_lock = threading.Lock()
_holders: weakref.WeakSet[Holder] = weakref.WeakSet()  # of this process; changed and walked under the lock


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # the parent's may be held by a thread the child does not have


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Memory(NamedTuple):
    """Bytes of an array, on a device as DLPack counts them."""

    address: int
    nbytes: int
    device_type: int
    device_id: int

    def holds(self, other: Memory) -> bool:
        """Whether all bytes of the other are among these."""
        return (self[2:] == other[2:] and self.address <= other.address
                and other.address + other.nbytes <= self.address + self.nbytes)

    def meets(self, other: Memory) -> bool:
        """Whether they share bytes."""
        return (self[2:] == other[2:] and self.address < other.address + other.nbytes
                and other.address < self.address + self.nbytes)


class Holder:
    """An active set as the rest of the house sees it: its map, the lanes that live and die together, and the planes it
    moves. They are free again when it goes; the set keeps it as long as it keeps them."""

    def __init__(self, active_map: Memory | None = None, group: int = 1, moves: bool = True) -> None:
        self.map, self.group, self.moves = active_map, group, moves
        self.bound = False  #: whether a plan was bound with the map and the planes there were
        self.staying: list[Memory] = []  #: planes that a kernel of the set finds in sample order
        self._number = next(_numbers)
        self._planes: list[Memory] = []
        self._permuted = False
        self._hide = weakref.finalize(self, _core.hold, self._number, ())
        self._hide.atexit = False
        with _lock:
            _holders.add(self)

    def claim(self, planes: list[Memory]) -> tuple[int, Holder] | None:
        """Take planes, all or none: none where one shares memory with another of them or with a plane somebody has.
        Then its index and who has it."""
        with _lock:
            for i, plane in enumerate(planes):
                for holder in _holders:
                    if any(map(plane.meets, holder._planes)):
                        return i, holder
                if any(map(plane.meets, planes[:i])):
                    return i, self
            self._planes += planes
        return None

    @property
    def permuted(self) -> bool:
        """Whether the samples of the planes are out of order. While they are, no door of eagle hands the planes out."""
        return self._permuted

    @permuted.setter
    def permuted(self, value: bool) -> None:
        if value != self._permuted:
            self._permuted = value
            _core.hold(self._number, tuple(self._planes) if value else ())


def check_bind(door: str, active_map: Memory, group: int, planes: Mapping[str, Memory]) -> None:
    """Check the planes that are bound with a map. `planes`: those with a column a sample, by what messages call them;
    `group`: the lanes the kernel lets live and die together.

    Raises ValueError for a map of sets of another group, and for planes that a reorder of its set would leave behind or
    that another set moves. A map that is of no set is anybody's.
    """
    with _lock:
        holder = next((one for one in _holders if one.map == active_map), None)
    if holder is None:
        return
    if holder.group != group:
        raise ValueError(refusal(door, "argument 'active_map'", f"the map of an ActiveSet of group {holder.group}",
                                 f"one of group {group}, which the kernel has", f"make the set with group={group}"))
    for what, memory in planes.items():
        owner = owner_of(memory)
        if owner is not None and owner is not holder:
            raise BufferRefused(refusal(door, what, "a plane that another ActiveSet moves", "one of this set",
                                        "pass a copy of it"))
        if holder.moves and not any(own.holds(memory) for own in (*holder._planes, *holder.staying)):
            raise BufferRefused(refusal(door, what, "a plane that the ActiveSet of active_map does not move",
                                        "one it owns, or was told of", "own(...) it first, or indirect(...)"))
    holder.bound = True


def owner_of(memory: Memory) -> Holder | None:
    """Who moves a plane that shares bytes with this memory."""
    with _lock:
        return next((holder for holder in _holders if any(map(memory.meets, holder._planes))), None)


def refuse_permuted(door: str, argument: str, array: Any) -> None:
    """Raises BufferRefused for an array over a plane that is held permuted, naming the two ways out."""
    if _core.holds_any():
        view_for(door, argument, array)
