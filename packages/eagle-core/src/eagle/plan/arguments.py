# SPDX-License-Identifier: Apache-2.0
"""The careful path of a call: what the caller gives becomes what every slot takes. Nothing is written here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eagle.errors import BufferRefused, LayoutError, PerformanceWarning, refusal, shown
from eagle.plan import values
from eagle.plan.lanes import buffer_shape, plane_samples, read_extents, table_view, total_samples
from eagle.plan.signature import ONE_VALUE, Box, Signature, Slot, Use

__all__ = ["Arguments", "settle"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The checked arguments of a call over `n` samples."""

    n: int
    extents: dict[str, int]
    packed: dict[str, Any]  #: what the slots take by name: flat arrays and numbers
    slots: dict[str, Slot]  #: the arguments by name, with the dtype of the array where the plugin declares none
    made: dict[str, np.ndarray[Any, Any]]  #: outputs the caller left out, as the caller gets them
    unconverted: tuple[str, ...]  #: those whose memory is the caller's own
    sizes: dict[str, int]  #: the bytes of each buffer, as they were checked
    watched: tuple[tuple[str, Any, bool], ...]  #: the caller's own arrays where views are packed, written or not


def settle(door: str, signature: Signature, given: Mapping[str, Any], layout: str | None, mode: str,
           n: int | None = None, own: Mapping[str, Any] | None = None) -> Arguments:
    """Check and convert the arguments of a call.

    `mode` is "run" or "call", which convert and allocate, or "bind", which takes arrays as they are. `n` fixes the
    samples; `own` are the caller's own arrays where views of them are `given`. Raises as :meth:`Plan.run` says.
    """
    values.check_layout(door, layout)
    extents = read_extents(door, signature, given)
    values.check_names(door, signature, given, mode)
    packed = _read(door, signature, given, mode)
    slots = {slot.name: _typed(slot, packed.get(slot.name)) for slot in signature.arguments}
    planes = [slot for slot in slots.values() if slot.is_plane and slot.name in packed]
    planes.sort(key=lambda slot: slot.is_output)
    found = [(slot, plane_samples(door, signature.lanes, slot, packed[slot.name].shape, layout)) for slot in planes]
    if len(signature.lanes.axes) > 1:
        found.sort(key=lambda plane: -plane[1])  # one that is too short was meant to be broadcast
    again = n is not None and mode == "bind"
    n = total_samples(door, signature, found, extents, n, "as bound" if mode == "bind" else "as the other planes tell")
    for slot in planes:
        packed[slot.name] = _flat(packed[slot.name], slot.shape(n))
    sizes = {}
    for slot in slots.values():
        if slot.name in packed and not slot.is_plane and slot.is_array and not slot.is_word:
            _check_buffer(door, signature, slot, packed, extents, n, again)
            sizes[slot.name] = packed[slot.name].nbytes
    _share_nothing(door, signature, slots, packed, mode)
    made = {} if mode == "bind" else _make(door, signature, slots, packed, extents, n)
    for slot in slots.values():
        if slot.like in made and slot.name in given:  # a companion beside a sink that was left out
            _check_buffer(door, signature, slot, packed, extents, n, again)
    callers = {**given, **(own or {})}
    same = tuple(name for name in slots if name in given and _is_over(packed[name], callers[name]))
    watched = tuple((name, callers[name], slots[name].writes) for name in same if packed[name] is not callers[name])
    return Arguments(n, extents, packed, slots, made, same, sizes, watched)


def _is_over(packed: Any, given: Any) -> bool:
    """Whether what was packed is the caller's array, or a view of it."""
    if packed is given or not isinstance(packed, np.ndarray) or not isinstance(given, np.ndarray):
        return packed is given
    return packed.ctypes.data == np.ndarray.view(given, np.ndarray).ctypes.data


def _read(door: str, signature: Signature, given: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Each value as its slot takes it, shapes aside."""
    # Uniforms first: reading one may run the caller's code, which must not change a plane that was checked. Then what
    # is written: a read-only array is refused before anything is converted.
    packed = {}
    for slot in sorted(signature.arguments, key=lambda slot: (not slot.is_uniform, not slot.writes)):
        if slot.name not in given:
            if slot.is_uniform:
                packed[slot.name] = slot.start
            continue
        if slot.use is Use.CELL and mode == "run":
            raise BufferRefused(refusal(door, slot.what, "an array", "nothing: run returns a new one",
                                        "leave it out; bind and the call form write one in place"))
        value = given[slot.name]
        if slot.axes == ONE_VALUE and mode != "bind" and isinstance(value, int | float | np.number):
            value = [value]
        read = values.bound_plane if mode == "bind" else values.output_plane if slot.writes else values.input_plane
        packed[slot.name] = values.slot_value(door, slot, value, read)
    return packed


def _typed(slot: Slot, value: Any) -> Slot:
    """`slot` with the dtype of its array, where the plugin declares none."""
    if slot.declared or value is None or slot.use is Use.NUMBER:
        return slot
    return replace(slot, dtype=value.dtype)


def _flat(array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The flat view of a plane given in the lane shape; the array itself where it is flat."""
    return array if array.shape == shape else array.reshape(shape)


def _check_buffer(door: str, signature: Signature, slot: Slot, packed: dict[str, Any], extents: dict[str, int],
                  n: int, again: bool) -> None:
    """Refuse a buffer that is not as long as the kernel needs it, `again` where it takes the place of a bound one; a
    flat table gets its axes."""
    array, what = packed[slot.name], slot.what
    shape = buffer_shape(door, signature, slot, packed, extents, n)
    if shape is not None and array.shape != shape:
        told = ", as bound" if again else "".join(f", as {label}={extents[label]} says" for label, extent in
                                                  slot.axes or () if extent is None and label in extents)
        raise LayoutError(refusal(door, what, f"shape {array.shape}", f"shape {shape}{told}",
                                  f"make it with np.zeros({shape}, {slot.dtype.name!r})" if slot.writes
                                  else "pass an array of that shape"))
    if slot.use is Use.TABLE and slot.axes:
        packed[slot.name] = table_view(door, slot, array)
    if array.size == 0 and n > 0:
        raise LayoutError(refusal(door, what, f"shape {array.shape}", "at least one cell",
                                  "pass an array that holds every index of the samples"))
    if array.ndim == 0:
        raise LayoutError(refusal(door, what, "a 0-dimensional array", "at least one axis", f"{slot.name}.reshape(1)"))
    if slot.box is Box.MATRIX and (array.ndim != 2 or array.shape[0] != slot.width):
        raise LayoutError(refusal(door, what, f"shape {array.shape}", f"shape ({slot.width}, columns)",
                                  f"pass {slot.name}.reshape({slot.width}, -1)"))
    if slot.role == "wide_out" and shape is None and array.size < n:
        raise LayoutError(refusal(door, what, f"{array.size} cells", f"at least {n}, one for each sample",
                                  f"make it with np.zeros({n}, {slot.dtype.name!r})"))
    if slot.use is Use.LIVE and int(array[0]) > n:
        raise ValueError(refusal(door, what, str(int(array[0])), f"at most {n}, the samples",
                                 "pass how many entries of active_map shall run"))
    if slot.use is Use.MAP and n:
        if (outside := array[(array < 0) | (array >= n)]).size:
            raise ValueError(refusal(door, what, f"the sample {outside[0]}", f"samples 0 to {n - 1}",
                                     "pass indices of samples, also behind the live ones"))
        live = packed.get("active_count")
        used = array[:n if live is None else min(int(live[0]), n)]
        if used.size and np.bincount(used, minlength=n).max() > 1:
            raise ValueError(refusal(door, what, "a sample twice", "each sample once", "pass np.unique of it"))
    if slot.use is Use.OFFSETS and ((array[1:] < array[:-1]).any() or array[0] < 0 or array[-1] > n):
        raise ValueError(refusal(door, what, shown(array.tolist()), f"offsets that never fall, from 0 to {n}",
                                 "sort the samples by branch and pass where each branch begins"))


def _share_nothing(door: str, signature: Signature, slots: Mapping[str, Slot], packed: dict[str, Any],
                   mode: str) -> None:
    """Refuse arrays that share bytes; run reads a copy of an input that is the very array of an output."""
    planes = {name: packed[name] for name, slot in slots.items() if slot.is_array and name in packed}
    for name in values.check_overlap(door, tuple(slots.values()), signature.aliasable, planes):
        if mode == "bind":
            raise BufferRefused(refusal(door, f"{name!r}", "an array that is also an output", "a separate array",
                                        "the kernel may write a sample before it has read all of it"))
        warnings.warn(f"{door}: {name!r} is also an output; the kernel reads a copy of it. Pass a separate output",
                      PerformanceWarning, stacklevel=values.caller_level())
        packed[name] = packed[name].copy()


def _made_shape(door: str, signature: Signature, slot: Slot, packed: Mapping[str, Any], extents: dict[str, int],
                n: int) -> tuple[int, ...]:
    """The shape of a buffer that is left out. LayoutError where only the caller can know it."""
    shape = buffer_shape(door, signature, slot, packed, extents, n)
    if shape is None and not slot.start:
        raise LayoutError(refusal(door, slot.what, "nothing", "an array: its length is not declared",
                                  f"pass {slot.name}=np.zeros(...)"))
    return shape or (n,)


def _make(door: str, signature: Signature, slots: Mapping[str, Slot], packed: dict[str, Any],
          extents: dict[str, int], n: int) -> dict[str, np.ndarray[Any, Any]]:
    """The outputs and the mask that were left out, also put among `packed`."""
    made: dict[str, np.ndarray[Any, Any]] = {}
    for slot in slots.values():
        if slot.name in packed or not (slot.is_output or slot.is_plane):
            continue
        if slot.is_plane:
            lanes = signature.lanes
            shape: tuple[int, ...] = (*slot.head, *lanes.shape(n))
        else:
            shape = _made_shape(door, signature, slot, packed, extents, n)
        array = (np.zeros if slot.zero else np.empty)(shape, slot.dtype)
        made[slot.name] = array
        packed[slot.name] = _flat(array, slot.shape(n)) if slot.is_plane else array
    return made
