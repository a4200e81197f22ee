# SPDX-License-Identifier: Apache-2.0
"""What a refusal or a warning about a plane tells the caller to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eagle.interop.buffer import view_of
from eagle.plan.signature import Signature, Slot, Use

__all__ = ["ONE", "cast", "contiguous", "example", "samples_of", "untracked", "without_copy"]

ONE = "one"  # in place of a number of samples: one, given without an axis for it


def samples_of(signature: Signature, given: Mapping[str, Any]) -> int | str:
    """The samples that the first plane seems to have: a guess; "n" where there is none."""
    for slot in signature.arguments:
        plane = given.get(slot.name)
        if slot.is_plane and isinstance(plane, int | float | np.generic):
            return ONE
        if slot.is_plane and isinstance(plane, np.ndarray) and plane.size % slot.width == 0:
            return ONE if plane.shape in (slot.head, slot.matrix) else plane.size // slot.width
    return "n"


def example(slot: Slot, n: int | str) -> str:
    """An expression for what the caller has to make; "..." for what only the caller has."""
    dtype = "" if slot.dtype == np.float64 else ", bool" if slot.dtype.kind == "b" else f", np.{slot.dtype}"
    if slot.is_plane:
        if not slot.writes:
            return "..."
        shape = (slot.matrix or slot.head) if n == ONE else f"({slot.width}, {n})" if slot.head else n
        made = f"np.{'zeros' if slot.zero else 'empty'}({shape}{dtype})"
        return f"eagle.samples_last({made})" if slot.width > 1 and n == slot.width else made
    n = 1 if n == ONE else n
    if slot.use is Use.MAP:
        return f"np.arange({n}{dtype.replace(', ', ', dtype=')})"
    if slot.use is Use.LIVE:
        return f"np.array([{n}]{dtype})"
    if slot.use in (Use.CELL, Use.WORD, Use.MIX):
        return f"np.{'ones' if slot.start else 'zeros'}({slot.width}{dtype})"
    if slot.use is Use.SINK:
        if slot.like is not None:
            return f"np.zeros_like({slot.like})"
        sides = [*map(str, slot.payload), *(str(extent or label) for label, extent in slot.axes or ((str(n), None),))]
        shape = sides[0] if len(sides) == 1 else f"({', '.join(sides)})"
        return f"np.zeros({shape}{dtype})"
    return "..."


def cast(slot: Slot, array: np.ndarray[Any, Any], is_list: bool = False) -> str:
    """How to have an input in the slot's dtype."""
    if is_list and array.size == 1 and array.dtype.kind == "b":
        return "pass 0 or 1"
    if is_list:
        return f"convert it with np.array({slot.name}, {slot.dtype.name!r})"
    if view_of(array) is not None:
        return f"convert it to {slot.dtype} with its own library"
    return f"convert it with {slot.name}.astype({slot.dtype.name!r})"


def contiguous(slot: Slot, array: np.ndarray[Any, Any]) -> str:
    """How to have an input in C order, at an aligned address."""
    if view_of(array) is not None:
        return "make it contiguous with its own library"
    return f"pass np.ascontiguousarray({slot.name})" if array.flags.aligned else f"pass {slot.name}.copy()"


def untracked(slot: Slot, tensor: Any) -> str:
    """How to have a tensor that autograd does not follow."""
    return f"pass {slot.name}.detach()" if hasattr(tensor, "detach") else "pass one made without requires_grad"


def without_copy(slot: Slot, array: np.ndarray[Any, Any], n: int, is_open: bool) -> str:
    """How to have a sample-major plane used in place; `is_open`: its shape reads both ways."""
    native = slot.shape(n) if array.ndim == 2 else (*array.shape[1:], n)
    if view_of(array) is not None:
        return f"keep it contiguous in the shape {native}, and pass that or its transpose"
    keep = f"np.empty({native}).T" if array.ndim == 2 else f"np.moveaxis(np.empty({native}), -1, 0)"
    keep = f"keep it in memory of the shape {native}: {keep}"
    return keep if slot.writes or is_open else f"pass np.ascontiguousarray(np.moveaxis({slot.name}, 0, -1)), or {keep}"
