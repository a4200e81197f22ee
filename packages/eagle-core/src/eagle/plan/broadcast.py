# SPDX-License-Identifier: Apache-2.0
"""Inputs of a Grid kernel that vary along some lane axes only, given as NumPy broadcasts them.

The extents of the lanes, and the axes each input varies along, are decided here from everything the caller gives. hawk
makes a variant of the kernel for each pattern of axes; it reads an input compact, which is the cells the caller has.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from eagle.errors import LayoutError, refusal
from eagle.interop.buffer import import_buffer
from eagle.plan import values
from eagle.plan.lanes import MOST_SAMPLES, read_extents, total_samples
from eagle.plan.layout import read_shape, unmarked
from eagle.plan.signature import Lanes, Signature, Slot, Use

__all__ = ["Broadcast", "Variants", "read_broadcast"]

INPUTS = ("per_sample", "vec_in", "mat_in")
PREFIXES = {"vjp": "bar", "jvp": "dot"}  # of gradients, of tangents

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A call of a Grid kernel, or of its variant for a `pattern`."""

    pattern: Mapping[str, tuple[bool, ...]]  #: the lane axes that each broadcast input varies along
    n: int | None  #: the samples; None where the exact planes tell
    packed: dict[str, Any]  #: what the plan takes
    own: dict[str, Any]  #: what is packed in another shape, in its own: the caller's array or number, or a copy of it
    made: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)  #: the same of outputs that were left out


class Variants:
    """The variants of a Grid kernel, each made when it is first asked for."""

    def __init__(self, kernel: Any, deploy: Callable[[Any], Any]) -> None:
        self._kernel, self._deploy = kernel, deploy
        self._source = kernel.sinks.source if hasattr(kernel.sinks, "rebuild") else None  # what a derivative is of
        self._made: dict[Any, Any] = {}
        #: each input that may be broadcast, with the gradient or tangent that varies as it does
        self.inputs = {name: None if self._source is None else f"{PREFIXES[kernel.sinks.kind]}_{name}"
                       for role, name in (kernel if self._source is None else self._source).arg_spec if role in INPUTS}

    @classmethod
    def of(cls, kernel: Any, deploy: Callable[[Any], Any]) -> Variants | None:
        """The variants of `kernel`, which `deploy` plans; None for a variant, and where lanes have no labels."""
        lanes = getattr(kernel, "lane_space", None)  # a fused group has none
        if lanes is None or lanes[0][0] is None or getattr(kernel, "broadcast", None):
            return None
        source = getattr(kernel.sinks, "source", None)
        if source is not None and not (hasattr(source, "arg_spec") and hasattr(kernel.sinks, "rebuild")):
            return None
        return cls(kernel, deploy)

    def plan(self, door: str, pattern: Mapping[str, tuple[bool, ...]]) -> Any:
        """What `deploy` makes of the variant for `pattern`. LayoutError where hawk has none."""
        from hawk import HawkError
        from hawk._broadcast import variant

        key = tuple(sorted(pattern.items()))
        if key not in self._made:
            cells = tuple(pattern)  # an input that varies along no axis is a cell, not a number: its owner may write it
            try:
                if self._source is None:
                    made = variant(self._kernel, dict(pattern), cells)
                else:
                    derived = self._kernel.sinks.rebuild(variant(self._source, dict(pattern), cells))
                    made = type(self._kernel)(self._kernel.name, derived)
                    made.broadcast = dict(pattern)
                self._made.setdefault(key, self._deploy(made))
            except HawkError as error:
                raise LayoutError(refusal(
                    door, f"inputs {sorted(pattern)}", "a broadcast that the kernel has no variant for",
                    "planes of all lanes", f"pass np.broadcast_to(...).copy(); hawk says: {error}")) from error
        return self._made[key]


def read_broadcast(door: str, signature: Signature, variants: Variants, given: Mapping[str, Any], mode: str,
                   n: int | None = None) -> Broadcast:
    """How a call gives the inputs of a kernel.

    `mode` is "run", "call", or one of those that take arrays as they are; `n` fixes the samples. Raises LayoutError
    for an input that is neither exact nor broadcast, and what :meth:`Plan.run` raises for names, extents and
    values.
    """
    slots = {slot.name: slot for slot in signature.arguments}
    soft = _broadcastable(slots, variants)
    extents = read_extents(door, signature, given)
    packed = {name: value for name, value in given.items() if name in slots or name not in soft} | extents
    given, marks = unmarked(door, given)
    shapes = {name: _shape(value) for name, value in given.items()}
    planes = {name: slot for name, slot in (slots | soft).items() if name in given and slot.is_plane}
    turned = {name for name, slot in planes.items() if _is_turned(slot, shapes[name], marks.get(name))}
    found = {name: (shapes[name] or ())[:1] if name in turned else _lane_axes(slot, shapes[name], signature.lanes)
             for name, slot in planes.items()}
    rows, told = _rows(signature, soft, shapes, found, extents, n)
    if rows is None:
        _refuse_untold(door, signature, planes, soft, shapes, found, packed, mode)
        return Broadcast({}, n, packed, {})
    lanes = (rows, *_static(signature.lanes))
    full: dict[str, Shape] = {}  # the axes of each input that has fewer or shorter ones, padded
    for name, follower in variants.inputs.items():
        teller = name if name in given or follower is None else follower
        lane = found.get(teller)
        if lane is None or lane in (lanes, (math.prod(lanes),)):
            continue
        if teller in turned or not _fits(lane, lanes):
            raise _refused(door, soft[teller], shapes[teller], lanes, told)
        full[name] = _padded(lane, lanes)
    if not full:
        return Broadcast({}, n, packed, {})
    if math.prod(lanes) > MOST_SAMPLES:
        raise LayoutError(refusal(door, "lanes", f"{lanes}{told}", f"at most {MOST_SAMPLES} samples",
                                  "run them in several batches"))
    values.check_names(door, signature, packed, mode)
    packed |= {name: values.slot_value(door, slot, given[name], values.input_plane)  # first, as it may run foreign code
               for name, slot in slots.items() if slot.is_uniform and name in given}
    own: dict[str, Any] = {}
    made: dict[str, np.ndarray[Any, Any]] = {}
    for name, axes in full.items():
        for slot in (slots.get(plane or "") for plane in (name, variants.inputs[name])):
            if slot is None:
                continue
            if slot.name in given:
                _check_follows(door, slot, name, shapes[slot.name], found[slot.name], axes)
                array, own[slot.name] = _read(door, slot, given[slot.name], shapes[slot.name], mode)
            elif slot.writes and mode not in values.AS_GIVEN:
                array = made[slot.name] = np.zeros(shapes[name] or (), slot.dtype)
            else:
                continue
            columns = slot.head if axes == lanes else (slot.width,) if slot.role == "mat_in" else ()
            packed[slot.name] = array.reshape((*columns, array.size // math.prod(columns)))
    pattern = {name: tuple(extent != 1 for extent in axes) for name, axes in full.items() if axes != lanes}
    return Broadcast(pattern, math.prod(lanes), packed, own, made)


def _broadcastable(slots: Mapping[str, Slot], variants: Variants) -> dict[str, Slot]:
    """What may be broadcast; an input that a derivative does not read tells how its gradient or tangent varies."""
    soft: dict[str, Slot] = {}
    for name, follower in variants.inputs.items():
        if follower is not None and follower in slots:
            soft |= {follower: slots[follower], name: replace(slots[follower], name=name, role=INPUTS[0])}
        if name in slots:
            soft[name] = slots[name]
    return soft


def _static(lanes: Lanes) -> Shape:
    return tuple(extent or 1 for _, extent in lanes.axes[1:])


def _shape(value: Any) -> Shape | None:
    """The shape of what a caller gives; None where it has none."""
    if isinstance(value, values.NUMBER):
        return ()
    try:
        if isinstance(value, list | tuple):
            return tuple(np.shape(value))
        return tuple(map(operator.index, value.shape if hasattr(value, "shape") else import_buffer(value).shape))
    except Exception:  # noqa: BLE001  a foreign object may raise anything; the plan refuses it
        return None


def _heads(slot: Slot) -> list[Shape]:
    return [head for head in (slot.head, slot.matrix) if head is not None]


def _is_turned(slot: Slot, shape: Shape | None, mark: str | None) -> bool:
    """Whether a plane has its samples before its head: only a batch of all lanes may."""
    return shape is not None and mark != "last" and any(
        head and shape[1:] == head and (mark == "first" or shape[:len(head)] != head) for head in _heads(slot))


def _lane_axes(slot: Slot, shape: Shape | None, lanes: Lanes) -> Shape | None:
    """The axes behind the head of a plane; None where it has another head or no shape."""
    heads = _heads(slot)
    found = [shape[len(head):] for head in heads if shape is not None and shape[:len(head)] == head]
    return next((lane for lane in found if len(lane) <= len(lanes.axes)), found[0] if found else None)


def _fits(lane: Shape, lanes: Shape) -> bool:
    """Whether NumPy broadcasts `lane` to `lanes`."""
    return len(lane) <= len(lanes) and all(
        found in (1, extent) for found, extent in zip(lane[::-1], lanes[::-1], strict=False))


def _padded(lane: Shape, lanes: Shape) -> Shape:
    return (1,) * (len(lanes) - len(lane)) + lane


def _rows(signature: Signature, soft: Mapping[str, Slot], shapes: Mapping[str, Shape | None],
          found: Mapping[str, Shape | None], extents: Mapping[str, int], n: int | None) -> tuple[int | None, str]:
    """The extent of the first lane axis, and what tells it; None where nothing does."""
    lanes, static = signature.lanes, _static(signature.lanes)
    if n is not None:
        return n // lanes.row, ", as bound"
    if lanes.label is None:
        return lanes.axes[0][1], ""
    if lanes.label in extents:
        return extents[lanes.label], f", as {lanes.label}={extents[lanes.label]} says"
    told, one = {}, False
    for name, lane in found.items():
        if lane is not None and len(lane) == len(lanes.axes) and _fits(lane[1:], static):
            rows = lane[0]
        elif lane is not None and len(lane) == 1 and lane[0] % lanes.row == 0:
            rows = lane[0] // lanes.row
        else:
            continue
        if rows == 1 and name in soft:
            one = True  # it may be broadcast along the rows
        else:
            told[name] = rows
    for slot in signature.arguments:
        if slot.use is Use.SINK and slot.axes and (lanes.label, None) in slot.axes:
            shape = shapes.get(slot.name)
            if shape is not None and len(shape) == len(slot.payload) + len(slot.axes):
                told[slot.name] = shape[len(slot.payload) + slot.axes.index((lanes.label, None))]
    if told:
        most = max(told, key=told.__getitem__)
        return told[most], f", as {most!r} tells"
    return (1 if one else None), ""


def _refuse_untold(door: str, signature: Signature, planes: Mapping[str, Slot], soft: Mapping[str, Slot],
                   shapes: Mapping[str, Shape | None], found: Mapping[str, Shape | None], packed: Mapping[str, Any],
                   mode: str) -> None:
    """Say why nothing tells the first extent; nothing where the plan finds a plane that it refuses."""
    lanes = signature.lanes
    for name, slot in planes.items():
        shape, lane = shapes[name], found[name]
        if shape is None:
            return
        if lane is None or name not in soft:
            read_shape(door, lanes, slot, shape)
        elif not _fits(lane, (1, *_static(lanes))):
            raise _refused(door, slot, shape, (lanes.label, *_static(lanes)), "")
    values.check_names(door, signature, packed, mode)
    total_samples(door, signature, (), {}, None)


def _refused(door: str, slot: Slot, shape: Shape | None, lanes: tuple[Any, ...], told: str) -> LayoutError:
    exact = f"({', '.join(map(str, (*slot.head, *lanes)))}{',' if len(slot.head) + len(lanes) == 1 else ''})"
    flat = "" if isinstance(lanes[0], str) or len(lanes) == 1 else f", {(*slot.head, math.prod(lanes))}"
    return LayoutError(refusal(door, slot.what, f"shape {shape}",
                               f"shape {exact}{flat} or one that NumPy broadcasts to {exact}{told}",
                               _advice(slot, shape or (), lanes)))


def _advice(slot: Slot, shape: Shape, lanes: tuple[Any, ...]) -> str:
    lane = shape[len(slot.head):]
    if len(lane) == 1 and lane[0] == lanes[0]:
        return f"one value a row is {slot.name}[:, None]"
    if len(lane) == len(lanes) and lane[1:] != lanes[1:] and 1 not in lane[1:]:
        turned = lane[::-1] == lanes or isinstance(lanes[0], str) and lane[::-1][1:] == lanes[1:]
        return f"{'transpose it, or ' if turned else ''}declare the kernel with these extents"
    return "give an axis along which it does not vary the length 1"


def _check_follows(door: str, slot: Slot, name: str, shape: Shape | None, lane: Shape | None, axes: Shape) -> None:
    """Refuse a plane that does not vary along the axes of the input `name`; a gradient may be compact."""
    cells = math.prod(axes)
    if lane is not None and len(lane) <= len(axes) and _padded(lane, axes) == axes:
        return
    if not (slot.writes and shape in ((slot.width * cells,), (*slot.head, cells))):
        raise LayoutError(refusal(door, slot.what, f"shape {shape}",
                                  f"shape {(*slot.head, *axes)}, as {name!r} is given", "make it in that shape"))


def _read(door: str, slot: Slot, value: Any, shape: Shape | None, mode: str) -> tuple[np.ndarray[Any, Any], Any]:
    """What a slot takes of `value`, as an array and as the object that a bound plan keeps."""
    if isinstance(value, values.NUMBER) and not slot.writes:
        return np.asarray(values.input_plane(door, slot, [value])), value
    read = values.bound_plane if mode in values.AS_GIVEN else values.output_plane if slot.writes else values.input_plane
    array = read(door, slot, value)
    if array.shape != shape:
        raise LayoutError(refusal(door, slot.what, f"shape {array.shape}", f"shape {shape}",
                                  "it changed while it was read"))
    return array, value if values.is_over(array, value) else array
