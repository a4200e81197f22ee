# SPDX-License-Identifier: Apache-2.0
"""What a call of a model leaves to eagle: planes that start at zero, and numbers as one sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eagle.errors import LayoutError, refusal, shown
from eagle.interop.buffer import import_buffer
from eagle.interop.frameworks import detect
from eagle.plan import residency
from eagle.plan.lanes import buffer_shape, read_extents, total_samples
from eagle.plan.layout import Reading, check_layout, is_one_sample, read_shape, unmarked
from eagle.plan.signature import Slot, Use
from eagle.plan.values import NUMBER, TO_HOST, number_plane
from eagle.stepping.calling import Calling
from eagle.stepping.model import Kernel, Model

__all__ = ["complete", "read_planes"]


def complete(door: str, model: Model, calling: Calling, given: Mapping[str, Any], layout: str | None) -> dict[str, Any]:
    """The planes of a run: `given`, with numbers that are one sample as arrays without axes, and with what was left out
    at zero. LayoutError where one sample meets a batch, and where nothing tells the number of samples."""
    check_layout(door, layout)
    plain, axes = unmarked(door, given)
    _refuse_devices(door, calling, plain)
    planes = {name: slot for name, one in calling.parameters.items()
              if (slot := one.slot) is not None and slot.use is Use.SAMPLES}
    numbers = [name for name in planes if name in plain and isinstance(plain[name], NUMBER)
               and not isinstance(plain[name], np.ndarray)]
    missing = [name for name, one in calling.parameters.items() if one.slot is not None and name not in plain
               and not one.slot.is_uniform]
    if not numbers and not missing:
        return dict(given)
    made: dict[str, Any] = {}
    readings = _readings(door, model, plain, axes, layout)
    _refuse_numbers(door, calling, plain, numbers, readings)
    for name in numbers:
        if not planes[name].head:
            made[name] = number_plane(door, planes[name], plain[name])
            readings[name] = Reading(1, one=True)
    if missing:
        shapes = {name: _shape_of(plain[name]) or () for name in readings}
        one = is_one_sample(door, shapes, readings)
        for kernel in model.kernels:
            made |= _zeros(door, kernel, plain, made, missing, readings, one)
    return {**given, **made}


def _refuse_devices(door: str, calling: Calling, planes: Mapping[str, Any]) -> None:
    numbers = {name for name, one in calling.parameters.items() if one.slot is None or one.slot.is_uniform}
    arrays = {name: value for name, value in planes.items() if name not in numbers and name not in calling.labels}
    if residency(arrays, door=door, what=calling.kernels) == "device":
        raise ValueError(refusal(door, calling.kernels, "planes on a device", "planes on the host: this version steps "
                                 "nothing on a device", TO_HOST))


def read_planes(door: str, model: Model, given: Mapping[str, Any], layout: str | None) -> dict[str, Reading]:
    """How the arrays that have a column a sample are read."""
    plain, axes = unmarked(door, given)
    return _readings(door, model, plain, axes, layout)


def _readings(door: str, model: Model, plain: Mapping[str, Any], axes: Mapping[str, str],
              layout: str | None) -> dict[str, Reading]:
    """How the arrays that have a column a sample are read; not those of a Grid that may be broadcast."""
    readings: dict[str, Reading] = {}
    for kernel in model.kernels:
        lanes = kernel.signature.lanes
        for slot in kernel.signature.arguments:
            shape = _shape_of(plain.get(slot.name)) if slot.is_plane and slot.name not in readings else None
            if shape is None:
                continue
            try:
                readings[slot.name] = read_shape(door, lanes, slot, shape, axes.get(slot.name), layout)
            except LayoutError:
                if not lanes.declared or slot.writes:
                    raise
    return readings


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array of any library; None for what is none, which binding refuses."""
    if isinstance(value, NUMBER) or detect(value) is None:
        return None
    shape = getattr(value, "shape", None)
    try:
        return tuple(map(int, import_buffer(value).shape if shape is None else shape))
    except Exception:  # noqa: BLE001  a producer may raise anything
        return None


def _refuse_numbers(door: str, calling: Calling, plain: Mapping[str, Any], numbers: list[str],
                    readings: Mapping[str, Reading]) -> None:
    """Refuse a number in a batch, and one for a Vector or a Matrix."""
    batch = next((name for name, reading in readings.items() if not reading.one), None)
    for name in numbers:
        one = calling.parameters[name]
        assert one.slot is not None
        if batch is not None:
            n = readings[batch].n
            raise LayoutError(refusal(door, f"{one.slot.what} of kernel {one.kernel!r}",
                                      f"the number {shown(plain[name])}", f"an array of {n} samples, as {batch!r} has",
                                      f"pass {name}=np.full({n}, {shown(plain[name])}); a value shared by all samples "
                                      "is a Param"))
        if one.slot.head:
            raise LayoutError(refusal(door, f"{one.slot.what} of kernel {one.kernel!r}",
                                      f"the number {shown(plain[name])}", f"an array of shape {one.slot.head}",
                                      f"pass {name}=np.array([...]) of {one.slot.width} components"))


def _zeros(door: str, kernel: Kernel, plain: Mapping[str, Any], made: Mapping[str, Any], missing: list[str],
           readings: Mapping[str, Reading], one: bool) -> dict[str, Any]:
    """What a kernel needs of the planes that are left out."""
    signature = kernel.signature
    slots = [slot for slot in signature.arguments if slot.name in missing and slot.name not in made]
    if not slots:
        return {}
    own = {slot.name for slot in signature.arguments}
    extents = read_extents(door, signature, {name: value for name, value in plain.items()
                                             if name in own | signature.labels})
    found = sorted(((slot, readings[slot.name].n) for slot in signature.arguments if slot.name in readings),
                   key=lambda pair: (pair[0].is_output, -pair[1]))
    others = [] if found else [(slot, reading.n) for slot in slots[:1] for reading in list(readings.values())[:1]]
    n = total_samples(door, signature, (found or others)[:1], extents, None)
    return {slot.name: np.zeros(_shape(door, kernel, slot, plain, extents, n, one), slot.dtype) for slot in slots}


def _shape(door: str, kernel: Kernel, slot: Slot, plain: Mapping[str, Any], extents: dict[str, int], n: int,
           one: bool) -> tuple[int, ...]:
    signature = kernel.signature
    if slot.use is Use.SAMPLES:
        return (slot.matrix or slot.head) if one else (*slot.head, *signature.lanes.shape(n))
    arrays = {name: value for name, value in plain.items() if hasattr(value, "shape")}
    shape = buffer_shape(door, signature, slot, arrays, extents, n)
    if shape is None and not slot.start:
        raise LayoutError(refusal(door, slot.what, "nothing", "an array: its length is not declared",
                                  f"pass {slot.name}=np.zeros(...)"))
    return shape or (n,)
