# SPDX-License-Identifier: Apache-2.0
"""Where the arrays of a graph are: which kind runs it, and what became of them since it was built."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from eagle import backends
from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BackendUnavailable, BufferRefused, refusal, shown
from eagle.graph.tree import DEVICE, HOST, leaves
from eagle.interop.buffer import BufferView, has_moved, view_for
from eagle.nodes import Node, Plane

__all__ = ["Place", "Touched", "check_device", "kind_for", "places_of", "refuse_read_only", "touched_by"]

BACKENDS = (HOST, DEVICE, "cuda", "hip", "metal")


class Place(NamedTuple):
    """An array that some node touches, or a view of another library's, where it was at build(), and whether some node
    writes it."""

    node: Node
    plane: str
    array: np.ndarray[Any, Any] | BufferView
    address: int
    shape: tuple[int, ...]
    writes: bool

    def found(self) -> str | None:
        """What became of it; None where nothing did."""
        array = self.array
        if isinstance(array, np.ndarray):
            if array.ctypes.data != self.address or array.shape != self.shape:
                return f"an array of shape {array.shape} at another place or of another size"
        elif has_moved(array):
            return "an array at another place, of another size or deleted"
        return self.read_only()

    def read_only(self) -> str | None:
        """What it is where some node writes it, and may not."""
        array = self.array
        may_write = array.flags.writeable if isinstance(array, np.ndarray) else array.writable
        return "a read-only array that the node writes" if self.writes and not may_write else None


class Touched(NamedTuple):
    """A node that is seen as one, with what it reads and writes."""

    node: Node
    reads: tuple[Plane, ...]
    writes: tuple[Plane, ...]


def touched_by(nodes: Sequence[Node]) -> list[Touched]:
    """What the nodes touch, asked of each once."""
    return [Touched(node, node.reads, node.writes) for node in leaves(nodes)]


def places_of(door: str, touched: Sequence[Touched]) -> tuple[Place, ...]:
    """Every array that some node touches."""
    found: dict[int, Place] = {}
    for node, reads, writes in touched:
        for planes, written in ((reads, False), (writes, True)):
            for plane in planes:
                if (known := found.get(id(plane.array))) is None:
                    found[id(plane.array)] = _place(door, node, plane, written)
                elif written and not known.writes:
                    found[id(plane.array)] = known._replace(node=node, plane=plane.name, writes=True)
    return tuple(found.values())


def _place(door: str, node: Node, plane: Plane, written: bool) -> Place:
    array = plane.array
    if isinstance(array, np.ndarray):
        return Place(node, plane.name, array, array.ctypes.data, array.shape, written)
    view = view_for(door, f"node {node.label!r}, plane {plane.name!r}", array)
    return Place(node, plane.name, view, view.ptr, view.shape, written)


def kind_for(door: str, touched: Sequence[Touched], backend: Any) -> str:
    """The kind that runs nodes over planes where these are."""
    if backend is not None and (not isinstance(backend, str) or backend not in (*BACKENDS, *backends.kinds())):
        raise ValueError(refusal(door, "backend", shown(backend), f"one of {BACKENDS}", "leave it out: the planes say"))
    places: dict[tuple[int, int], str] = {}  # of planes on devices
    on_host = False
    for node, reads, writes in touched:
        for plane in (*reads, *writes):
            if isinstance(plane.array, np.ndarray):
                on_host = True
                continue
            what = f"plane {plane.name!r} of {node.label!r}"
            device, ordinal = view_for(door, what, plane.array).device
            if device in HOST_DEVICE_TYPES:
                on_host = True
            else:
                places.setdefault((int(device), int(ordinal)), what)
    away = list(places)
    host = backends.for_device_type(1)
    if len(away) > 1:
        raise ValueError(refusal(door, places[away[1]], f"device {away[1]} (DLPack type, ordinal)",
                                 f"device {away[0]}, where {places[away[0]]} is", "make a graph for each device"))
    if away and backend in (HOST, host):
        raise ValueError(refusal(door, "backend", f"{backend!r}, and {places[away[0]]} on a device", repr(DEVICE),
                                 "leave backend= out, or move the planes"))
    if not away and on_host and backend not in (None, HOST, host):
        raise ValueError(refusal(door, "backend", f"{backend!r}, and planes on the host", repr(host),
                                 "leave backend= out, or move the planes"))
    if away or backend not in (None, HOST, host):
        what = places[away[0]] if away else "backend"
        raise BackendUnavailable(refusal(door, what, "memory of a device" if away else repr(backend), "the host",
                                         "this version runs graphs there; copy the planes"))
    return host


def check_device(door: str, device: Any) -> None:
    """Refuse a device other than the host's, 0."""
    if device is None:
        return
    if isinstance(device, bool | np.bool_) or not hasattr(type(device), "__index__"):
        raise TypeError(refusal(door, "device", shown(device), "the ordinal of a device", "pass an int"))
    if operator.index(device) != 0:
        raise ValueError(refusal(door, "device", str(operator.index(device)), "0: the planes are on the host",
                                 "leave it out: it moves nothing"))


def refuse_read_only(door: str, places: Iterable[Place]) -> None:
    for place in places:
        if (found := place.read_only()) is not None:
            raise BufferRefused(refusal(door, f"node {place.node.label!r}, plane {place.plane!r}", found,
                                        "a writable one", "pass another array"))
