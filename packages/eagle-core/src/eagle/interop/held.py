# SPDX-License-Identifier: Apache-2.0
"""The planes that somebody moves about: each has one mover, and none leaves the house while its samples are not where a
reader looks for them."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any, NamedTuple

from eagle import _core
from eagle.interop.buffer import view_for

__all__ = ["Holder", "Memory", "owner_of", "refuse_permuted"]

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

    def meets(self, other: Memory) -> bool:
        """Whether they share bytes."""
        return (self[2:] == other[2:] and self.address < other.address + other.nbytes
                and other.address < self.address + self.nbytes)


class Holder:
    """The planes one owner moves. They are free again when it goes; the owner keeps it as long as it keeps them."""

    def __init__(self) -> None:
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


def owner_of(memory: Memory) -> Holder | None:
    """Who moves a plane that shares bytes with this memory."""
    with _lock:
        return next((holder for holder in _holders if any(map(memory.meets, holder._planes))), None)


def refuse_permuted(door: str, argument: str, array: Any) -> None:
    """Raises BufferRefused for an array over a plane that is held permuted, naming the two ways out."""
    if _core.holds_any():
        view_for(door, argument, array)
