# SPDX-License-Identifier: Apache-2.0
"""Where a graph runs: the kind of backend and the device that serve its planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eagle import backends
from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BackendUnavailable, refusal, shown
from eagle.graph.places import Touched
from eagle.graph.tree import DEVICE, HOST
from eagle.integers import index_of
from eagle.interop.buffer import view_for

__all__ = ["check_device", "kind_for"]

BACKENDS = (HOST, DEVICE, "cuda", "hip", "metal")


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
    if (ordinal := index_of(device)) is None:
        raise TypeError(refusal(door, "device", shown(device), "the ordinal of a device", "pass an int"))
    if ordinal != 0:
        raise ValueError(refusal(door, "device", shown(ordinal), "0: the planes are on the host",
                                 "leave it out: it moves nothing"))
