# SPDX-License-Identifier: Apache-2.0
"""How many samples a call has, and the shapes of buffers that follow from it: sinks with named axes, compact planes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from eagle.errors import ArgumentError, LayoutError, refusal, shown
from eagle.integers import index_of
from eagle.plan.signature import Signature, Slot, Use

__all__ = ["MOST_SAMPLES", "buffer_shape", "read_extents", "table_view", "total_samples"]

MOST_SAMPLES = 2**32 - 1


def read_extents(door: str, signature: Signature, given: Mapping[str, Any]) -> dict[str, int]:
    """The extents among `given`, by label.

    Raises ArgumentError for a label whose extent is declared and for ``n=``, TypeError and ValueError for what is no
    positive integer.
    """
    lanes, slots = signature.lanes, {slot.name for slot in signature.arguments}
    extents = {}
    for name in given.keys() - slots:
        if name in signature.labels:
            extents[name] = _extent(door, name, given[name])
        elif any(label == name for label, _ in lanes.axes):
            extent = dict(lanes.axes)[name]
            raise ArgumentError(refusal(door, f"argument {name!r}", shown(given[name]),
                                        f"nothing: the kernel declares {name!r} as {extent}", f"leave {name}= out"))
        elif name in ("n", "n_samples") and lanes.axes[0][0] is not None:
            fix = f"pass {lanes.label}=..." if lanes.label else "leave it out: every axis is declared"
            raise ArgumentError(refusal(door, f"argument {name!r}", shown(given[name]), f"extents by label ({lanes})",
                                        fix))
    return extents


def _extent(door: str, label: str, value: Any) -> int:
    if (extent := index_of(value)) is None:
        raise TypeError(refusal(door, f"extent {label!r}", shown(value), "a positive integer",
                                f"pass {label}= as an int"))
    if not 1 <= extent <= MOST_SAMPLES:
        raise ValueError(refusal(door, f"extent {label!r}", shown(extent), f"1 to {MOST_SAMPLES}",
                                 f"pass the length of the axis as {label}="))
    return extent


def total_samples(door: str, signature: Signature, planes: Iterable[tuple[Slot, int]], extents: Mapping[str, int],
                  n: int | None, told: str = "") -> int:
    """The samples of a call: `n` where that is fixed, which `told` explains, else what its planes and extents say.

    `planes` are the slots with a column a sample and their samples, the ones that decide first. Raises LayoutError when
    they disagree, and when nothing tells.
    """
    lanes = signature.lanes
    if n is None and lanes.total is not None:
        n, told = lanes.total, f"the declared lanes {lanes}"
    if lanes.label is not None and lanes.label in extents:
        found, said = extents[lanes.label] * lanes.row, f"{lanes.label}={extents[lanes.label]}"
        if n is not None and found != n:
            raise LayoutError(refusal(door, said, f"{found} samples", f"{n}, {told}", f"leave {lanes.label}= out"))
        n, told = found, f"as {said} says"
    for slot, found in planes:
        if n is None:
            n, told = found, f"as {slot.name!r} has"
        elif found != n:
            raise LayoutError(refusal(door, slot.what, f"{found} samples", f"{n}, {told}",
                                      "every plane of a call has the same number of samples"))
    if n is None:
        outputs = [f"{slot.name}=np.zeros({'n' if slot.width == 1 else (slot.width, 'n')})".replace("'", "")
                   for slot in signature.arguments if slot.is_output and slot.is_plane]
        fix = f"pass {lanes.label}=..." if lanes.label else f"pass an output, for example {outputs[0]}" if outputs \
            else "run a kernel that has a plane with a value for each sample"
        raise LayoutError(refusal(door, "planes", "none that tells the number of samples", "at least one plane", fix))
    if signature.cells and n == 0:
        raise LayoutError(refusal(door, "planes", "0 samples", "at least 1: the kernel reduces over samples",
                                  "pass at least one sample"))
    return n


def buffer_shape(door: str, signature: Signature, slot: Slot, planes: Mapping[str, np.ndarray[Any, Any]],
                 extents: dict[str, int], n: int) -> tuple[int, ...] | None:
    """The shape a buffer with a length of its own must have; None where the caller's length serves.

    A free axis takes its extent from the caller's array, and has it then for every other sink. Raises ArgumentError for
    a free axis that nothing gives.
    """
    if slot.use is Use.CELL or slot.use in (Use.MIX, Use.OFFSETS):
        return (slot.width,)
    if slot.use is Use.LIVE:
        return (1,)
    if slot.use is Use.MAP:
        return (n,)
    if slot.kept is not None:
        if not slot.kept:
            return None
        lanes = signature.lanes.shape(n)
        return (slot.width, math.prod(extent for extent, kept in zip(lanes, slot.kept, strict=True) if kept))
    if slot.use is Use.SINK and slot.axes is not None:
        return _named_shape(door, signature, slot, planes.get(slot.name), extents, n)
    if slot.like is not None and slot.like in planes:
        return tuple(planes[slot.like].shape)
    return None


def table_view(door: str, slot: Slot, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A table with its named axes: given so, or flat. LayoutError for any other shape."""
    dims = slot.dims
    if array.ndim == len(dims) and all(extent in (-1, found) for extent, found in zip(dims, array.shape, strict=True)):
        return array
    cells = math.prod(extent for extent in dims if extent > 0)
    if array.ndim == 1 and (array.size == cells or dims[0] < 0 and array.size % cells == 0):
        return array.reshape(dims)
    wanted = ", ".join(str(label) if extent is None else f"{label}: {extent}" for label, extent in slot.axes or ())
    raise LayoutError(refusal(door, slot.what, f"shape {array.shape}",
                              f"the axes ({wanted}), or as many cells in one", "transpose or cut the array"))


def _named_shape(door: str, signature: Signature, slot: Slot, array: np.ndarray[Any, Any] | None,
                 extents: dict[str, int], n: int) -> tuple[int, ...]:
    assert slot.axes is not None
    lanes = signature.lanes
    shape = list(slot.payload)
    told = dict(zip((label for label, _ in lanes.axes), lanes.shape(n), strict=True))
    for i, (label, extent) in enumerate(slot.axes):
        axis = len(slot.payload) + i
        if extent is None and label in told:
            extent = told[label]
        elif extent is None and label in extents:
            extent = extents[label]
        elif extent is None and array is not None and array.ndim == len(slot.payload) + len(slot.axes):
            extent = extents.setdefault(label, array.shape[axis])
        elif extent is None and array is not None:
            labels = ", ".join(repr(label) for label, _ in slot.axes)
            axes = "one axis" if len(slot.axes) == 1 else f"the axes {labels}"
            wanted = axes + (f", {labels}" if len(slot.axes) == 1 else "")
            raise LayoutError(refusal(door, slot.what, f"shape {array.shape}", wanted + (
                f", behind {slot.payload}" if slot.payload else ""), "reshape it"))
        elif extent is None:
            raise ArgumentError(refusal(door, slot.what, f"no extent of its axis {label!r}",
                                        f"{label}=... or the plane itself", f"pass {label}="))
        shape.append(extent)
    return tuple(shape)
