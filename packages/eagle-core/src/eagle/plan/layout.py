# SPDX-License-Identifier: Apache-2.0
"""Which axis of a plane holds the samples: component-major, sample-major, or one sample without that axis.

Arrays are only viewed here; what a shape leaves open is said by a marker or by ``layout=``, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eagle.errors import LayoutError, refusal, shown
from eagle.plan.lanes import MOST_SAMPLES
from eagle.plan.signature import Lanes, Slot

__all__ = ["Reading", "check_layout", "is_one_sample", "overlaps_itself", "read_shape", "samples_first", "samples_last",
           "unmarked", "with_samples_last"]

#: What ``layout=`` takes.
LAYOUTS = ("samples_first", "samples_last")
AXIS = "__raptor_samples_axis__"  # what a marker of any library carries, "first" or "last", beside its `array`
NESTED = 8  # markers around markers, at most


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """An array whose author says which axis holds the samples."""

    array: Any
    __raptor_samples_axis__: str


def samples_first(x: Any) -> Marked:
    """`x` as a plane whose first axis holds the samples, (N, w) or (N, R, C): for one argument what ``layout=`` is for
    a call, which it overrides. Nothing is copied. A call refuses it, with LayoutError, where the shape says otherwise.
    """
    return Marked(x, "first")


def samples_last(x: Any) -> Marked:
    """`x` as a plane whose last axis holds the samples, (w, N) or (R, C, N); else what :func:`samples_first` is."""
    return Marked(x, "last")


def unmarked(door: str, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments without their markers, and the samples axis of each that had one.

    Raises LayoutError for markers that contradict each other, or that name no axis.
    """
    plain, axes = dict(given), {}
    for name, value in given.items():
        said: set[Any] = set()
        for _ in range(NESTED):
            if (marked := _marked(value)) is None:
                break
            axis, value = marked
            said.add(axis if isinstance(axis, str) else shown(axis))
        if said and said not in ({"first"}, {"last"}):
            raise LayoutError(refusal(door, f"argument {name!r}", f"markers that say {sorted(said)}",
                                      "'first' or 'last'", f"mark it once: eagle.samples_first({name})"))
        if said:
            plain[name], axes[name] = value, said.pop()
    return plain, axes


def _marked(value: Any) -> tuple[Any, Any] | None:
    """What a marker says, and its array; None for anything else."""
    if isinstance(value, np.ndarray | int | float):
        return None
    try:
        return getattr(value, AXIS), value.array
    except Exception:  # noqa: BLE001  a foreign object's attributes may raise anything
        return None


def check_layout(door: str, layout: Any) -> None:
    """Raise LayoutError for what is no value of ``layout=``."""
    if layout is not None and not (isinstance(layout, str) and layout in LAYOUTS):
        raise LayoutError(refusal(door, "layout", shown(layout), '"samples_first", "samples_last" or None',
                                  "leave it out where every shape says which axis holds the samples"))


@dataclass(frozen=True, slots=True)
class Reading:
    """How the shape of a plane is read."""

    n: int
    first: bool = False  #: the samples are the first axis
    one: bool = False  #: there is no such axis: it is one sample
    open: bool = False  #: the shape alone does not say


def read_shape(door: str, lanes: Lanes, slot: Slot, shape: tuple[int, ...], axis: str | None = None,
               layout: str | None = None) -> Reading:
    """How a plane of `shape` is read; `axis` is what its marker says, `layout` what the call says where that is open.

    A batch has the slot's head before or behind the samples, or before the lane axes; one sample is the head alone, for
    kernels without lane axes of their own. A matrix has two heads, (R, C) and (R*C,). LayoutError for other shapes.
    """
    what = slot.what
    heads = [head for head in (slot.head, slot.matrix) if head is not None]
    last = [shape[-1] for head in heads if len(shape) == len(head) + 1 and shape[:-1] == head]
    first = [shape[0] for head in heads if head and len(shape) == len(head) + 1 and shape[1:] == head]
    if lanes.several and len(shape) >= len(lanes.axes) and shape[:-len(lanes.axes)] in heads:
        lane = shape[-len(lanes.axes):]
        if lane[1:] == tuple(extent for _, extent in lanes.axes[1:]) and lanes.axes[0][1] in (None, lane[0]):
            last.append(math.prod(lane))
        elif not (first or last):
            raise LayoutError(refusal(door, what, f"lane axes {lane}", f"those the kernel declares: {lanes}",
                                      _lane_fix(lanes, lane)))
    if shape in heads and not lanes.declared and not (first or last):
        return Reading(1, one=True)
    if axis is not None and slot.head and not (first if axis == "first" else last):
        batch = f"(n, {', '.join(map(str, heads[-1]))})" if axis == "first" else \
            f"({', '.join(map(str, heads[-1]))}, n)"
        raise LayoutError(refusal(door, what, f"shape {shape}, marked as samples_{axis}", f"shape {batch}",
                                  f"mark it as samples_{'last' if axis == 'first' else 'first'}, or not at all"
                                  if first or last else _shape_fix(slot, shape, lanes.several)))
    if first and last and (first[0], last[0]) != (1, 1):
        said = axis or (layout.removeprefix("samples_") if layout else None)
        if said is None:
            raise LayoutError(refusal(
                door, what, f"shape {shape}, which reads as component-major with N = {last[0]} and as sample-major "
                f"with N = {first[0]}", "a shape that says which axis holds the samples",
                f'pass layout="samples_last" or layout="samples_first", or mark it: eagle.samples_last({slot.name}), '
                f"eagle.samples_first({slot.name})"))
        is_first, is_open = said == "first", True
    else:
        is_first, is_open = bool(first and not last), False
    if not (first or last):
        sides = [", ".join(map(str, head)) for head in heads]
        wanted = " or ".join(f"({side}, n) or (n, {side})" if side else "(n,)" for side in sides)
        if lanes.several:
            wanted += f" or {(*slot.head, *(label if extent is None else extent for label, extent in lanes.axes))}"
        raise LayoutError(refusal(door, what, f"shape {shape}", f"shape {wanted}",
                                  _shape_fix(slot, shape, lanes.several)))
    n = first[0] if is_first else last[-1]
    if n > MOST_SAMPLES:
        raise LayoutError(refusal(door, what, f"{n} samples", f"at most {MOST_SAMPLES}",
                                  "the index of a kernel has 32 bits; run it in several batches"))
    if n % lanes.row:
        axes = ", None" * (len(lanes.axes) - 1)
        one = "" if slot.writes or slot.head else f"; one value a {lanes.axes[0][0]} is {slot.name}[:{axes}]"
        raise LayoutError(refusal(door, what, f"{n} samples", f"a multiple of {lanes.row}",
                                  f"the lanes of the kernel are {lanes}{one}"))
    return Reading(n, is_first, open=is_open)


def with_samples_last(slot: Slot, array: np.ndarray[Any, Any], reading: Reading) -> np.ndarray[Any, Any]:
    """A view of a plane with the samples on its last axis, component-major where its memory is."""
    if reading.first:
        array = array.transpose(*range(1, array.ndim), 0)
    if array.flags.c_contiguous:
        return array.reshape(slot.shape(reading.n))
    return array[..., None] if reading.one else array


def overlaps_itself(array: np.ndarray[Any, Any]) -> bool:
    """Whether elements of `array` may share bytes: an axis does not step over all that the shorter steps reach."""
    reach = array.itemsize
    for stride, extent in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if extent > 1:
            if stride < reach:
                return True
            reach += stride * (extent - 1)
    return False


def is_one_sample(door: str, shapes: Mapping[str, tuple[int, ...]], readings: Mapping[str, Reading]) -> bool:
    """Whether a call is over one sample. LayoutError where it is one sample of some planes and a batch of others."""
    one = next((name for name, reading in readings.items() if reading.one), None)
    batch = next((name for name, reading in readings.items() if not reading.one), None)
    if one is None or batch is None:
        return one is not None
    n = readings[batch].n
    tiled = f"np.repeat({one}[..., None], {n}, axis=-1)" if shapes[one] else f"np.full({n}, {one})"
    raise LayoutError(refusal(
        door, f"{one!r} and {batch!r}", f"that {one!r} is one sample (shape {shapes[one]}) but {batch!r} is a batch of "
        f"{n} (shape {shapes[batch]})", "one sample or one batch", "a value shared by every sample is a Param (scalar) "
        f"or a Table (vector); or tile it: {tiled}"))


def _lane_fix(lanes: Lanes, lane: tuple[int, ...]) -> str:
    """What may be done about lane axes that are not the declared ones."""
    declared = [extent for _, extent in lanes.axes]
    turned = all(extent in (None, found) for extent, found in zip(declared, lane[::-1], strict=True))
    others = ", ".join(f'"{label}":{found}' for (label, extent), found in zip(lanes.axes, lane, strict=True)
                       if extent not in (None, found))
    return f"{'transpose it, or ' if turned else ''}declare the kernel with {others}"


def _shape_fix(slot: Slot, shape: tuple[int, ...], has_lanes: bool) -> str:
    name = slot.name
    if not slot.head and len(shape) > 1:
        if max(shape) == math.prod(shape) or has_lanes:
            return f"pass np.ravel({name})"
        grid = f", or declare the kernel with lane: Grid[\"row\", \"column\":{shape[1]}]" if len(shape) == 2 else ""
        return f"pass np.ravel({name}) and reshape the result{grid}"
    if not slot.matrix and len(shape) > 2 and shape[-1] == slot.width:
        turned = f"np.ascontiguousarray(np.moveaxis({name}, -1, 0))" if has_lanes else \
            f"np.reshape({name}, (-1, {slot.width}))"
        return f"pass {turned}"
    if shape == (slot.width,):
        return f"one value for every lane is np.repeat({name}[:, None], n, axis=1)"
    many = f"{slot.width} components" if slot.head else "one number"
    return f"pass {many} for each sample"
