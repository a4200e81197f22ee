# SPDX-License-Identifier: Apache-2.0
"""The careful path of a call: what the caller gives becomes what every slot takes. Nothing is written here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eagle.errors import BufferRefused, LayoutError, LayoutWarning, PerformanceWarning, refusal, shown, warn
from eagle.interop.buffer import view_of
from eagle.interop.frameworks import Adapter, origin
from eagle.plan import values
from eagle.plan.advice import without_copy
from eagle.plan.broadcast import Broadcast
from eagle.plan.lanes import buffer_shape, read_extents, table_view, total_samples
from eagle.plan.layout import (
    Reading,
    check_layout,
    is_one_sample,
    overlaps_itself,
    read_shape,
    samples_first,
    samples_last,
    unmarked,
    with_samples_last,
)
from eagle.plan.signature import ONE_VALUE, Box, Signature, Slot, Use

__all__ = ["Arguments", "moved_while_checked", "settle"]

_EACH = {"bind": "launch", "step": "run", "record": "launch"}  # when a plane is copied


@dataclass(slots=True)
class Arguments:
    """The checked arguments of a call over `n` samples."""

    given: dict[str, Any]  #: the caller's own objects, without markers
    broadcast: frozenset[str] = frozenset()  #: those that are packed in another shape, or as a cell
    n: int = 0
    one: bool = False  #: the call is over one sample, given and returned without an axis for it
    extents: dict[str, int] = field(default_factory=dict)
    packed: dict[str, Any] = field(default_factory=dict)  #: what the slots take by name: flat arrays and numbers
    #: the arguments by name, with the dtype of the array where the plugin declares none
    slots: dict[str, Slot] = field(default_factory=dict)
    #: where the caller's own arrays are, in their memory order; not those that were converted
    memory: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    #: the address, shape and strides that the caller's arrays of NumPy had when they were read
    locations: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)  #: of the planes that were given
    made: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)  #: outputs the caller left out
    origin: Adapter | None = None  #: whose arrays those become
    sizes: dict[str, int] = field(default_factory=dict)  #: the bytes of each buffer, as they were checked
    #: sample-major planes of which a launch works on a copy, as they were given
    copies: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)

    def watched(self, door: str) -> tuple[tuple[str, Any, bool], ...]:
        """The caller's own arrays where others over their memory are packed, written or not.

        BufferRefused where code that ran meanwhile moved one.
        """
        watched: list[tuple[str, Any, bool]] = []
        for name, array in self.memory.items():
            given, view = self.given[name], view_of(array)
            if self.packed[name] is given:
                continue
            if view is None and _location(given) != self.locations[name]:
                raise moved_while_checked(door, self.slots[name])
            watched.append((name, view or given, self.slots[name].writes))
        return tuple(watched)

    def copied(self) -> tuple[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool, bool], ...]:
        """(copy, plane, in, out) of each of the copies."""
        copied = []
        for name, array in self.copies.items():
            slot = self.slots[name]
            copied.append((self.packed[name], with_samples_last(slot, array, self.readings[name]),
                           not slot.writes or slot.zero, slot.writes))
        return tuple(copied)

    def shown(self) -> dict[str, Any]:
        """What was bound: the caller's own objects, but the packed view or copy of a sample-major plane."""
        own = {name for name in self.memory if name not in self.readings or not self.readings[name].first}
        return {name: self.given[name] if name in own | self.broadcast else self.packed[name]
                for name in self.slots if name in self.given}

    def again(self) -> dict[str, Any]:
        """What gives the same arguments once more, to a call without ``layout=``."""
        own = self.broadcast.union(self.memory)
        kept: dict[str, Any] = {name: self.given[name] if name in own else self.packed[name]
                                for name in self.slots if name in self.given}
        for name, reading in self.readings.items():
            if reading.open:
                kept[name] = (samples_first if reading.first else samples_last)(self.given[name])
        return kept | self.extents

    def results(self) -> dict[str, Any]:
        """Every array by name after a run: the caller's own, and the made ones as arrays of his framework."""
        made = {}
        for name, array in self.made.items():
            slot = self.slots[name]
            made[name] = array.reshape(slot.matrix or slot.head) if self.one and slot.is_plane else array
            if self.origin is not None and self.origin.name != "numpy":
                made[name] = self.origin.from_numpy(made[name])
            elif made[name].ndim == 0:
                made[name] = made[name][()]
        return {name: self.given[name] for name in self.slots if name in self.given} | made


def settle(door: str, signature: Signature, given: Mapping[str, Any], layout: str | None, mode: str,
           n: int | None = None, call: Broadcast | None = None, known: Collection[str] = ()) -> Arguments:
    """Check and convert the arguments of a call.

    `mode` is "run" or "call", which convert and allocate, or one of :data:`values.AS_GIVEN`, which take arrays as they
    are: "bind"; "step", which makes the masks that are left out; "record", which makes what a call may leave out.
    `n` fixes the samples; `call` says what is given in another shape than the caller's; of what is `known` nobody is
    warned. Raises as :meth:`Plan.run` says.
    """
    own, made = (call.own, call.made) if call else ({}, {})
    check_layout(door, layout)
    plain, axes = unmarked(door, given)
    args = Arguments(plain | own, frozenset(own), made=dict(made))
    args.extents = read_extents(door, signature, plain)
    values.check_names(door, signature, plain, mode)
    args.packed = _read(door, signature, plain, mode, args.locations)
    args.locations |= {name: _location(value) for name, value in own.items() if isinstance(value, np.ndarray)}
    args.slots = {slot.name: _typed(slot, args.packed.get(slot.name)) for slot in signature.arguments}
    for name, array in args.packed.items():
        if isinstance(array, np.ndarray) and name in args.given and values.is_over(array, args.given[name]):
            args.memory[name] = array
    again = n is not None and mode in values.AS_GIVEN
    args.n = _settle_planes(door, signature, args, axes, layout, mode, n, known)
    for slot in args.slots.values():
        if slot.name in args.packed and not slot.is_plane and slot.is_array and not slot.is_word:
            _check_buffer(door, signature, slot, args, again)
            args.sizes[slot.name] = args.packed[slot.name].nbytes
    _share_nothing(door, signature, args, mode)
    if mode != "bind":
        _make(door, signature, args, mode)
    for slot in args.slots.values():
        if slot.like in args.made and slot.name in plain:  # a companion beside a sink that was left out
            _check_buffer(door, signature, slot, args, again)
    return args


def _location(array: Any) -> tuple[Any, ...]:
    """Where an array of NumPy is, and its shape and strides."""
    array = np.ndarray.view(array, np.ndarray)
    return array.ctypes.data, array.shape, array.strides


def moved_while_checked(door: str, slot: Slot) -> BufferRefused:
    """The refusal of a plane that code of the caller's moved in the middle of a call."""
    return BufferRefused(refusal(door, slot.what, "an array that moved while it was checked",
                                 "one that stays where it is", "change it between calls"))


def _read(door: str, signature: Signature, given: Mapping[str, Any], mode: str,
          locations: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Each value as its slot takes it, the shape and memory order of planes aside; `locations` are filled in."""
    # Uniforms first: reading one may run the caller's code, which must not change a plane that was checked. Then what
    # is written: a read-only array is refused before anything is converted.
    packed: dict[str, Any] = {}
    one = mode not in values.AS_GIVEN and not signature.lanes.declared
    for slot in sorted(signature.arguments, key=lambda slot: (not slot.is_uniform, not slot.writes)):
        if slot.name not in given:
            if slot.is_uniform:
                packed[slot.name] = slot.start
            continue
        if slot.use is Use.CELL and mode == "run":
            raise BufferRefused(refusal(door, slot.what, "an array", "nothing: run returns a new one",
                                        "leave it out; bind and the call form write one in place"))
        value = given[slot.name]
        if isinstance(value, np.ndarray):
            locations[slot.name] = _location(value)
        if one and slot.is_plane and not slot.head and not slot.writes and isinstance(value, values.NUMBER):
            packed[slot.name] = values.number_plane(door, slot, value)
            continue
        if slot.axes == ONE_VALUE and mode not in values.AS_GIVEN and isinstance(value, int | float | np.number):
            value = [value]
        read = values.read_bound if mode in values.AS_GIVEN else \
            values.read_output if slot.writes else values.read_input
        packed[slot.name] = values.slot_value(door, slot, value, read)
        if slot.is_array and not slot.is_plane:
            packed[slot.name] = values.in_order(door, slot, packed[slot.name],
                                                copies=mode not in values.AS_GIVEN and not slot.writes)
    return packed


def _settle_planes(door: str, signature: Signature, args: Arguments, axes: Mapping[str, str], layout: str | None,
                   mode: str, n: int | None, known: Collection[str]) -> int:
    """Put every plane among `packed` as the kernel takes it, and say how many samples there are."""
    planes = [slot for slot in args.slots.values() if slot.is_plane and slot.name in args.packed]
    shapes = {slot.name: args.packed[slot.name].shape for slot in planes}
    args.readings = {slot.name: read_shape(door, signature.lanes, slot, shapes[slot.name], axes.get(slot.name), layout)
                    for slot in planes}
    args.one = is_one_sample(door, shapes, args.readings)
    found = [(slot, args.readings[slot.name].n) for slot in sorted(planes, key=lambda slot: slot.is_output)]
    if signature.lanes.several:
        found.sort(key=lambda plane: -plane[1])  # one that is too short was meant to be broadcast
    n = total_samples(door, signature, found, args.extents, n, "as bound" if mode in values.AS_GIVEN
                      else "as the other planes tell")
    for slot in planes:
        theirs = with_samples_last(slot, args.packed[slot.name], args.readings[slot.name])
        if args.readings[slot.name].first and not (theirs.flags.c_contiguous and theirs.flags.aligned):
            _check_copy(door, args, slot, theirs, slot.name in axes)
            if slot.name not in known:
                _warn_of_copy(door, args, slot, n, _EACH.get(mode, "call"))
            args.copies[slot.name] = args.packed[slot.name]
            args.packed[slot.name] = np.empty(slot.shape(n), slot.dtype)
        else:
            _place(door, args, slot, theirs, n, copies=mode not in values.AS_GIVEN and not slot.writes)
    return n


def _place(door: str, args: Arguments, slot: Slot, theirs: np.ndarray[Any, Any], n: int, *, copies: bool) -> None:
    """Pack a plane whose memory is component-major, itself where it has that shape; `copies` says whether one that is
    not in order may be copied once."""
    array = args.packed[slot.name]
    ordered = values.in_order(door, slot, theirs, copies=copies)
    if ordered is not theirs:
        args.memory.pop(slot.name, None)
    itself = ordered is theirs and not args.readings[slot.name].first and array.shape == slot.shape(n)
    args.packed[slot.name] = array if itself else ordered.reshape(slot.shape(n))


def _check_copy(door: str, args: Arguments, slot: Slot, theirs: np.ndarray[Any, Any], marked: bool) -> None:
    """Refuse a plane of which launches cannot work on a copy: a list, and one that nothing can be copied back to."""
    array = args.packed[slot.name]
    if isinstance(args.given[slot.name], list | tuple):
        whole = f"np.array({slot.name})"
        raise LayoutError(refusal(door, slot.what, f"a list of shape {array.shape} with its samples first",
                                  "an array, or the samples last",
                                  f"pass {f'eagle.samples_first({whole})' if marked else whole}"))
    if slot.writes and overlaps_itself(theirs):
        raise BufferRefused(refusal(door, slot.what, f"strides {array.strides} for shape {array.shape}, whose "
                                    "elements share memory", "a writable array", "pass an array of your own"))


def _warn_of_copy(door: str, args: Arguments, slot: Slot, n: int, when: str) -> None:
    """Warn that each call, launch or run works on a copy of a plane."""
    array = args.packed[slot.name]
    warn(f"{door}: {slot.what}", f"of shape {array.shape} is sample-major, so zero-copy is lost: each {when} copies it "
         f"into one of shape {slot.shape(n)}{' and back' if slot.writes else ''}; "
         f"{without_copy(slot, array, n, args.readings[slot.name].open)}", LayoutWarning)


def _typed(slot: Slot, value: Any) -> Slot:
    """`slot` with the dtype of its array, where the plugin declares none."""
    if slot.declared or value is None or slot.use is Use.NUMBER:
        return slot
    return replace(slot, dtype=value.dtype)


def _check_buffer(door: str, signature: Signature, slot: Slot, args: Arguments, again: bool) -> None:
    """Refuse a buffer that is not as long as the kernel needs it, `again` where it takes the place of a bound one; a
    flat table gets its axes."""
    packed, extents, n = args.packed, args.extents, args.n
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


def _share_nothing(door: str, signature: Signature, args: Arguments, mode: str) -> None:
    """Refuse arrays that share bytes; run reads a copy of an input that is the very array of an output."""
    memory = {name: args.packed[name] for name, slot in args.slots.items() if slot.is_array and name in args.packed}
    memory |= {name: with_samples_last(args.slots[name], array, args.readings[name])
               for name, array in args.copies.items()}
    aliasable = signature.aliasable and mode != "step"  # which reads again what it wrote
    shared = values.check_overlap(door, tuple(args.slots.values()), aliasable, memory, args.copies)
    for name, output in shared.items():
        if mode in values.AS_GIVEN:
            raise BufferRefused(refusal(door, f"{name!r}", f"an array that is also an output, {output!r}",
                                        "a separate array",
                                        "the kernel may write a sample before it has read all of it"))
        warn(f"{door}: {name!r}", "is also an output; the kernel reads a copy of it. Pass a separate output",
             PerformanceWarning)
        args.packed[name] = args.packed[name].copy()
        args.memory.pop(name, None)


def _made_shape(door: str, signature: Signature, slot: Slot, args: Arguments) -> tuple[int, ...]:
    """The shape of a buffer that is left out. LayoutError where only the caller can know it."""
    shape = buffer_shape(door, signature, slot, args.packed, args.extents, args.n)
    if shape is None and not slot.start:
        raise LayoutError(refusal(door, slot.what, "nothing", "an array: its length is not declared",
                                  f"pass {slot.name}=np.zeros(...)"))
    return shape or (args.n,)


def _make(door: str, signature: Signature, args: Arguments, mode: str) -> None:
    """Make the outputs and the mask that were left out, also among `packed`."""
    for slot in args.slots.values():
        if slot.name in args.packed or not (slot.is_output or slot.is_plane):
            continue
        if slot.is_plane:
            shape: tuple[int, ...] = (*slot.head, *signature.lanes.shape(args.n))
        else:
            shape = _made_shape(door, signature, slot, args)
        array = (np.zeros if slot.zero else np.empty)(shape, slot.dtype)
        args.made[slot.name] = array
        args.packed[slot.name] = array.reshape(slot.shape(args.n)) if slot.is_plane else array
    if args.made and mode not in values.AS_GIVEN:
        args.origin = origin(door, {name: args.given[name] for name, slot in args.slots.items()
                                   if slot.is_array and name in args.given})
