# SPDX-License-Identifier: Apache-2.0
"""The careful path of a run: check, convert, allocate, launch."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eagle import _core
from eagle.errors import LayoutError, PerformanceWarning, refusal
from eagle.plan import values
from eagle.plan.signature import Slot

if TYPE_CHECKING:
    from eagle.plan.plan import Plan

__all__ = ["run_planes", "samples_of"]


def run_planes(door: str, plan: Plan, given: dict[str, Any], layout: str | None, omissible: str) -> dict[str, Any]:
    """Run `plan` over `given` and return every plane by name; those that were given are the caller's own objects.

    `omissible` ("run" or "call") says which slots may be left out. Raises as :meth:`Plan.run` says, before anything is
    written.
    """
    signature = plan.signature
    values.check_layout(door, layout)
    values.check_names(door, signature, given, omissible)
    # Uniforms first: reading one may run the caller's code, which must not change a plane that was checked.
    packed = {slot.name: values.slot_value(door, slot, given[slot.name], values.input_plane)
              for slot in signature.slots if slot.is_uniform and slot.name in given}
    for slot in signature.slots:
        if slot.writes and slot.is_plane and slot.name in given:
            packed[slot.name] = values.output_plane(door, slot, given[slot.name])
    for slot in signature.slots:
        if slot.name in given and slot.name not in packed:
            packed[slot.name] = values.slot_value(door, slot, given[slot.name], values.input_plane)
    n = samples_of(door, signature.slots, packed, layout)
    plan.check_samples(door, n)
    planes = {slot.name: packed[slot.name] for slot in signature.slots if slot.is_array and slot.name in packed}
    for name in values.check_overlap(door, signature, planes):
        warnings.warn(f"{door}: {name!r} is also an output; the kernel reads a copy of it. Pass a separate output",
                      PerformanceWarning, stacklevel=values.caller_level())
        packed[name] = packed[name].copy()
    slots = tuple(typed(slot, packed.get(slot.name)) for slot in signature.slots)
    made = {slot.name: (np.zeros if slot.zero else np.empty)(slot.shape(n), slot.dtype)
            for slot in slots if slot.is_plane and slot.name not in packed}
    _core.execute(plan.kernel_for(slots), tuple((packed | made).get(slot.name) for slot in slots), plan.npartitions,
                  plan.partitions or ())
    return made | {name: given[name] for name in planes}


def typed(slot: Slot, value: Any) -> Slot:
    """`slot` with the dtype of its array, where the plugin declares none."""
    return slot if slot.declared or value is None or not slot.is_plane else replace(slot, dtype=value.dtype)


def samples_of(door: str, slots: tuple[Slot, ...], packed: dict[str, Any], layout: str | None,
               n: int | None = None) -> int:
    """The samples of a call: `n` where that is fixed, else those of its first input plane, else of its first output.

    Raises LayoutError for a plane of another shape or number of samples, and when no plane tells.
    """
    planes = [slot for slot in slots if slot.is_plane and slot.name in packed]
    told = "as bound"
    for slot in sorted(planes, key=lambda slot: slot.is_output):
        found = values.check_shape(door, slot, packed[slot.name], layout)
        if n is None:
            n, told = found, f"as {slot.name!r} has"
        elif found != n:
            raise LayoutError(refusal(door, f"{slot.role} {slot.name!r}", f"{found} samples", f"{n}, {told}",
                                      "every plane of a call has the same number of samples"))
    if n is None:
        outputs = [f"{slot.name}=np.zeros({'n' if slot.width == 1 else (slot.width, 'n')})".replace("'", "")
                   for slot in slots if slot.is_output]
        raise LayoutError(refusal(door, "planes", "none that tells the number of samples", "at least one plane",
                                  f"pass an output, for example {outputs[0]}" if outputs else ""))
    return n
