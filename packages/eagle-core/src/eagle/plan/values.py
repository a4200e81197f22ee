# SPDX-License-Identifier: Apache-2.0
"""What a caller gives, turned into what a slot takes: the careful path behind run, bind and the call form.

Every function refuses before anything is written. ``run`` converts inputs where no value changes; ``bind`` takes arrays
as they are.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from eagle.errors import ArgumentError, BufferRefused, LayoutError, PerformanceWarning, refusal, shown
from eagle.plan.signature import Signature, Slot

__all__ = ["bound_plane", "caller_level", "check_layout", "check_names", "check_overlap", "input_plane", "output_plane",
           "slot_value"]

LAYOUTS = (None, "samples_last")


def check_names(door: str, signature: Signature, given: Iterable[str], omissible: str) -> None:
    """Raise ArgumentError for names that are no slot's, and for slots `omissible` ("run", "call", "bind") requires."""
    given = set(given)
    known = {slot.name for slot in signature.arguments} | signature.unread
    for name in sorted(given - known):
        raise ArgumentError(refusal(door, f"argument {name!r}", "a name the kernel does not declare",
                                    f"one of {[*signature.names, *sorted(signature.labels)]}", f"leave {name}= out"))
    for slot in signature.arguments:
        if slot.name not in given and not slot.omissible(omissible):
            why = "; it is updated from its previous value" if slot.reads_prior else ""
            raise ArgumentError(refusal(door, f"{slot.role} {slot.name!r}", "nothing", f"a value for it{why}",
                                        f"pass {slot.name}=..."))


def check_layout(door: str, layout: Any) -> None:
    if not (layout is None or isinstance(layout, str)) or layout not in LAYOUTS:
        raise LayoutError(refusal(door, "layout", shown(layout), '"samples_last" or None',
                                  "planes are component-major, (w, n); pass np.ascontiguousarray(x.T) for one that "
                                  "is sample-major"))


def _plane_text(slot: Slot) -> str:
    return f"{slot.role} {slot.name!r}"


def _array_text(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def _host_array(door: str, slot: Slot, value: Any, *, lists: bool) -> np.ndarray[Any, Any]:
    """`value` as a numpy array without copying an array. TypeError for what is no array."""
    what = _plane_text(slot)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(refusal(door, what, "a masked array", "an array without a mask",
                                "fill it first: x.filled(...)"))
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)
    if lists and isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise TypeError(refusal(door, what, "a list numpy makes no array of", "a list of numbers")) from error
        if array.dtype == object:
            raise TypeError(refusal(door, what, "a list of objects", "a list of numbers"))
        return array
    if isinstance(value, int | float | np.generic):
        raise TypeError(refusal(door, what, f"the number {shown(value)}", "an array with a value for each sample",
                                "a value shared by all samples is a Param; one sample is np.array([x])"))
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(refusal(door, what, f"an object of {kind}", "a numpy array",
                            "convert it, for example with numpy.asarray"))


def input_plane(door: str, slot: Slot, value: Any) -> Any:
    """A C-contiguous array of the slot's dtype with the values of `value`, itself where that is possible."""
    array = _host_array(door, slot, value, lists=True)
    what = _plane_text(slot)
    if _passes(slot, array) and array.flags.aligned:
        return np.asarray(array, order="C")
    converted = _converted(door, slot, array, is_list=isinstance(value, list | tuple))
    if converted is array and (not array.flags.c_contiguous or not array.flags.aligned):
        warnings.warn(f"{door}: {what} is not C-contiguous; it is copied at each call. Pass np.ascontiguousarray of it",
                      PerformanceWarning, stacklevel=caller_level())
        converted = np.array(array, order="C", copy=True)
    return np.asarray(converted, order="C")


def _passes(slot: Slot, array: np.ndarray[Any, Any]) -> bool:
    """Whether an integer array goes unchanged to a plane without a declared dtype: in cells of the size it reads."""
    return (not slot.declared and array.dtype.kind in "iub" and array.dtype.isnative
            and array.dtype.itemsize == slot.dtype.itemsize)


def _converted(door: str, slot: Slot, array: np.ndarray[Any, Any], *, is_list: bool) -> np.ndarray[Any, Any]:
    """`array` in the slot's dtype, when no value changes by it."""
    what, wanted, found = _plane_text(slot), slot.dtype, array.dtype
    if found == wanted:
        return array
    if found.kind not in "iufb" or (not found.isnative):
        fix = f"byte-swap it: {slot.name}.astype('{wanted}')" if found.kind in "iuf" else ""
        raise BufferRefused(refusal(door, what, _array_text(array), str(wanted), fix))
    if wanted.kind == "f":
        if found.kind == "b":
            raise BufferRefused(refusal(door, what, "bool", str(wanted),
                                f"convert it with {slot.name}.astype({wanted.name!r})"))
        if found.kind == "f":
            if found.itemsize > wanted.itemsize and not is_list:
                build = f"build the kernel in it: eagle.deploy(k, scalar_type={found.name!r}), or "
                raise BufferRefused(refusal(door, what, str(found), str(wanted),
                                            f"{build if found == np.float64 else ''}convert it with "
                                            f"{slot.name}.astype({wanted.name!r})"))
            if not is_list:
                warnings.warn(f"{door}: {what} is {found}; it is converted to {wanted} at each call. Pass {wanted}, or "
                              f"build in {found}", PerformanceWarning, stacklevel=caller_level())
            with np.errstate(over="ignore"):
                converted = array.astype(wanted)
            if (lost := np.isinf(converted) & ~np.isinf(array)).any():
                raise BufferRefused(refusal(door, what, f"the value {array[lost][0]!s}", f"values {wanted} can hold"))
            return converted
        return _exact(door, slot, array)
    if is_list or (found.kind in "iu" and wanted.kind in "iu"):
        return _exact(door, slot, array)
    raise BufferRefused(refusal(door, what, str(found), str(wanted),
                                f"convert it with {slot.name}.astype({wanted.name!r})"))


def _exact(door: str, slot: Slot, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`array` converted, refused where the dtype cannot hold a value."""
    if array.dtype.kind == "b":
        raise BufferRefused(refusal(door, _plane_text(slot), "bool", str(slot.dtype)))
    lossy = _lossy(array, slot.dtype)
    if lossy.any():
        raise BufferRefused(refusal(door, _plane_text(slot), f"the value {array[lossy][0]!s} ({array.dtype})",
                                    f"values that are exact in {slot.dtype}"))
    return array.astype(slot.dtype)


def _lossy(array: np.ndarray[Any, Any], wanted: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Where `wanted` cannot hold the value of `array`."""
    if wanted.kind == "b":
        return np.asarray((array != 0) & (array != 1))
    if wanted.kind in "iu":
        low, high = (int(limit) for limit in (np.iinfo(wanted).min, np.iinfo(wanted).max))
        if array.dtype.kind == "f":
            return np.asarray((array != np.floor(array)) | (array < float(low)) | (array >= float(high) + 1.0))
        found = np.iinfo(array.dtype)
        below = array < low if found.min < low else np.zeros(array.shape, bool)
        return np.asarray(below | (array > high) if found.max > high else below)
    exact_up_to = 2 ** (np.finfo(wanted).nmant + 1)
    lossy = np.zeros(array.shape, bool)
    if np.iinfo(array.dtype).max > exact_up_to:
        lossy = array > exact_up_to
        if array.dtype.kind == "i":
            lossy |= array < -exact_up_to
        lossy = np.asarray(lossy)
        # A large integer may still be exact; Python's integers tell without rounding.
        lossy[lossy] = [int(wanted.type(v)) != int(v) for v in array[lossy]]
    return lossy


def output_plane(door: str, slot: Slot, value: Any) -> Any:
    """The array a kernel writes in place: writable, of the exact dtype, C-contiguous."""
    if isinstance(value, int | float | complex | np.generic):
        raise BufferRefused(refusal(door, _plane_text(slot), f"the number {shown(value)}", "a writable array",
                                    "leave it out to have it returned, or pass an array"))
    return bound_plane(door, slot, value)


def bound_plane(door: str, slot: Slot, value: Any) -> Any:
    """The array a bound plan keeps: the caller's own, or a copy of integers narrower than an input of the kernel."""
    array = _host_array(door, slot, value, lists=False)
    what = _plane_text(slot)
    if (slot.role == "per_sample" and slot.dtype.kind == "i" and array.dtype.kind in "iu" and array.dtype.isnative
            and array.dtype.itemsize < slot.dtype.itemsize and slot.declared):
        return array.astype(slot.dtype, order="C")
    if slot.writes and not array.flags.writeable:
        raise BufferRefused(refusal(door, what, "a read-only array", "a writable array", "pass a copy"))
    if array.dtype != slot.dtype and not _passes(slot, array):
        fix = f"make it with dtype={slot.dtype.name!r}" if slot.writes else f"{slot.name}.astype({slot.dtype.name!r})"
        raise BufferRefused(refusal(door, what, str(array.dtype), str(slot.dtype), fix))
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise BufferRefused(refusal(door, what, f"strides {array.strides} for shape {array.shape}",
                                    "a C-contiguous, aligned array",
                                    "" if slot.writes else f"np.ascontiguousarray({slot.name})"))
    return array


def word_plane(door: str, slot: Slot, value: Any) -> Any:
    """A one-cell plane of eagle's own that the caller gives."""
    array = bound_plane(door, slot, value)
    if array.shape != (1,):
        raise LayoutError(refusal(door, _plane_text(slot), f"shape {array.shape}", "shape (1,)"))
    return array


def uniform_value(door: str, slot: Slot, value: Any) -> float | int:
    """A number the slot passes by value."""
    what = f"uniform {slot.name!r}"
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise BufferRefused(refusal(door, what, _array_text(value), "one number",
                                        "a value for each sample is a Scalar plane"))
        value = value[()]
    if value is np.ma.masked:
        raise TypeError(refusal(door, what, "a masked value", "a number"))
    if isinstance(value, bool | np.bool_):
        raise TypeError(refusal(door, what, f"the bool {value!r}", "a number", "pass 0 or 1"))
    if isinstance(value, np.generic) and value.dtype.kind not in "iuf":
        raise TypeError(refusal(door, what, shown(value), "a number", "convert it first"))
    if slot.dtype.kind in "iu":
        try:
            whole = int(value) if isinstance(value, float | np.floating) and value % 1 == 0 else \
                operator.index(value)
        except TypeError:
            raise TypeError(refusal(door, what, shown(value), "an integer")) from None
        low, high = np.iinfo(slot.dtype).min, np.iinfo(slot.dtype).max
        if not low <= whole <= high:
            raise ValueError(refusal(door, what, shown(whole), f"{low} to {high}", f"a {slot.dtype} holds no other"))
        return whole
    if isinstance(value, str | bytes | complex | np.complexfloating) or not hasattr(type(value), "__float__"):
        raise TypeError(refusal(door, what, shown(value), "a number"))
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number in (float("inf"), float("-inf")) and not _is_infinite(value) or _overflows(number, slot):
        raise ValueError(refusal(door, what, shown(value), f"a number {slot.dtype} can hold"))
    return number


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float | np.floating) and bool(np.isinf(value))


def _overflows(number: float, slot: Slot) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(number) and not np.isfinite(slot.dtype.type(number)))


def slot_value(door: str, slot: Slot, value: Any, plane: Callable[[str, Slot, Any], Any]) -> Any:
    """What a slot takes of `value`; `plane` is the reader of planes, such as :func:`input_plane`."""
    if slot.is_uniform:
        return uniform_value(door, slot, value)
    return word_plane(door, slot, value) if slot.is_word else plane(door, slot, value)


def check_overlap(door: str, slots: Sequence[Slot], aliasable: bool,
                  planes: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """The inputs that are the very array of an output they may not be read beside; a caller copies those or refuses.

    BufferRefused when planes share bytes in any other way, one of them written.
    """
    slots = [slot for slot in slots if slot.name in planes and planes[slot.name].nbytes]
    ranges = {s.name: (planes[s.name].ctypes.data, planes[s.name].ctypes.data + planes[s.name].nbytes) for s in slots}
    shared: list[str] = []
    for written in (s for s in slots if s.writes):
        for other in slots:
            if other is written:
                continue
            (a, b), (c, d) = ranges[written.name], ranges[other.name]
            if c >= b or d <= a:
                continue
            alike = written.is_plane and other.is_plane and (
                (written.width, written.dtype.itemsize) == (other.width, other.dtype.itemsize))
            if (a, b) == (c, d) and alike and not other.writes:
                if not aliasable and other.name not in shared:
                    shared.append(other.name)
                continue
            raise BufferRefused(refusal(door, f"{_plane_text(written)} and {_plane_text(other)}",
                                        "arrays that share memory, one of them written", "separate arrays",
                                        f"pass a copy for {other.name!r}"))
    return shared


def caller_level() -> int:
    """The stack level of the first frame outside eagle, so that a warning counts once a call site."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] in ("eagle", "hawk"):
        frame, level = frame.f_back, level + 1
    return level
