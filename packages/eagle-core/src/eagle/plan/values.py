# SPDX-License-Identifier: Apache-2.0
"""What a caller gives, turned into what a slot takes: the careful path behind run, bind and the call form.

Every function refuses before anything is written. ``run`` converts inputs where no value changes; ``bind`` takes arrays
as they are.
"""

from __future__ import annotations

import difflib
import operator
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eagle.errors import ArgumentError, BufferRefused, LayoutError, PerformanceWarning, refusal, shown
from eagle.plan.residency import device_resident
from eagle.plan.signature import Signature, Slot, Use

__all__ = ["TO_HOST", "bound_plane", "caller_level", "check_layout", "check_names", "check_overlap", "input_plane",
           "output_plane", "slot_value"]

TO_HOST = "copy them to the host first: t.cpu().numpy() of a torch tensor, cupy.asnumpy(a) of a CuPy array"

LAYOUTS = (None, "samples_last")
ARRAY_WORDS = ("__array__", "__array_interface__", "__dlpack__")  # numpy.asarray reads these


def check_names(door: str, signature: Signature, given: Mapping[str, Any], omissible: str) -> None:
    """Raise ArgumentError for names that are no slot's, and for slots `omissible` ("run", "call", "bind") requires."""
    known = {slot.name for slot in signature.arguments} | signature.unread | signature.labels
    for name in sorted(given.keys() - known):
        close = difflib.get_close_matches(name, known, 1)
        raise ArgumentError(refusal(door, f"argument {name!r}", "a name the kernel does not declare",
                                    f"one of {[*signature.names, *sorted(signature.labels)]}",
                                    f"did you mean {close[0]!r}?" if close else f"leave {name}= out"))
    for slot in signature.arguments:
        if slot.name not in given and not slot.omissible(omissible):
            why = "; it is updated from its previous value" if slot.reads_prior else ""
            raise ArgumentError(refusal(door, slot.what, "nothing", f"a value for it{why}",
                                        f"pass {slot.name}={_example(slot, _samples(signature, given))}"))


def _samples(signature: Signature, given: Mapping[str, Any]) -> int | str:
    """The samples that the first plane seems to have: a guess, for advice; "n" where there is none."""
    for slot in signature.arguments:
        plane = given.get(slot.name)
        if slot.is_plane and isinstance(plane, np.ndarray) and plane.size % slot.width == 0:
            return plane.size // slot.width
    return "n"


def _example(slot: Slot, n: int | str) -> str:
    """An expression for what the caller has to make; "..." for what only the caller has."""
    dtype = "" if slot.dtype == np.float64 else ", bool" if slot.dtype.kind == "b" else f", np.{slot.dtype}"
    shape = f"({slot.width}, {n})" if slot.head else str(n)
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
    if slot.is_plane and slot.writes:
        return f"np.{'zeros' if slot.zero else 'empty'}({shape}{dtype})"
    return "..."


def check_layout(door: str, layout: Any) -> None:
    if not (layout is None or isinstance(layout, str)) or layout not in LAYOUTS:
        raise LayoutError(refusal(door, "layout", shown(layout), '"samples_last" or None',
                                  "planes are component-major, (w, n); pass np.ascontiguousarray(x.T) for one that "
                                  "is sample-major"))


def _array_text(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def _host_array(door: str, slot: Slot, value: Any, *, lists: bool) -> np.ndarray[Any, Any]:
    """`value` as a numpy array without copying an array. TypeError for what is no array."""
    what = slot.what
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(refusal(door, what, "a masked array", "an array without a mask",
                                "fill it first: x.filled(...)"))
    if isinstance(value, np.ndarray):
        return value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)
    if lists and isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise TypeError(refusal(door, what, "a list numpy makes no array of", "a list of numbers",
                                    "give its rows the same length")) from error
        if array.dtype == object:
            raise TypeError(refusal(door, what, "a list of objects", "a list of numbers", "make numbers of them first"))
        return array
    if isinstance(value, int | float | np.generic):
        number = f"the number {shown(value)}"
        if slot.is_plane and not slot.writes:
            raise TypeError(refusal(door, what, number, "an array with a value for each sample",
                                    "a value shared by all samples is a Param; one sample is np.array([x])"))
        if slot.use is Use.TABLE:
            raise TypeError(refusal(door, what, number, "an array of its cells", "one cell is np.array([x])"))
        raise TypeError(refusal(door, what, number, "an array", f"pass {slot.name}={_example(slot, 'n')}"))
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if device_resident(value):
        raise TypeError(refusal(door, what, f"an object of {kind} on a device", "a numpy array", TO_HOST))
    if value is None or isinstance(value, str | bytes) or not (
            isinstance(value, list | tuple) or any(hasattr(type(value), word) for word in ARRAY_WORDS)):
        found = "None" if value is None else f"an object of {kind}"
        raise TypeError(refusal(door, what, found, "a numpy array", "pass an array or a list of numbers" if lists else
                                "pass an array"))
    if slot.writes:
        example = _example(slot, len(value) if hasattr(type(value), "__len__") and not slot.head else "n")
        if slot.reads_prior or slot.kind == "Terminated":
            example = f"np.array({slot.name}, {slot.dtype.name!r})"
        raise TypeError(refusal(door, what, f"an object of {kind}", "a numpy array: the result is written into it",
                                f"make an array, {slot.name} = {example}, and pass it"))
    raise TypeError(refusal(door, what, f"an object of {kind}", "a numpy array",
                            f"convert it with np.asarray({slot.name}, {slot.dtype.name!r})"))


def input_plane(door: str, slot: Slot, value: Any) -> Any:
    """A C-contiguous array of the slot's dtype with the values of `value`, itself where that is possible."""
    array = _host_array(door, slot, value, lists=True)
    what = slot.what
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
    what, wanted, found = slot.what, slot.dtype, array.dtype
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
                build = ", or build in it: eagle.deploy(k, scalar_type='float32')" if found == np.float32 else ""
                warnings.warn(f"{door}: {what} is {found}; it is converted to {wanted} at each call. Pass {wanted}"
                              f"{build}", PerformanceWarning, stacklevel=caller_level())
            with np.errstate(over="ignore"):
                converted = array.astype(wanted)
            if (lost := np.isinf(converted) & ~np.isinf(array)).any():
                raise BufferRefused(refusal(door, what, f"the value {array[lost][0]!s}", f"values {wanted} can hold",
                                            "scale it, or build the kernel in float64"))
            return converted
        return _exact(door, slot, array)
    if is_list or (found.kind in "iu" and wanted.kind in "iu"):
        return _exact(door, slot, array)
    raise BufferRefused(refusal(door, what, str(found), str(wanted),
                                f"convert it with {slot.name}.astype({wanted.name!r})"))


def _exact(door: str, slot: Slot, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`array` converted, refused where the dtype cannot hold a value."""
    if array.dtype.kind == "b":
        raise BufferRefused(refusal(door, slot.what, "bool", str(slot.dtype),
                                    f"{slot.name}.astype({slot.dtype.name!r})"))
    lossy = _lossy(array, slot.dtype)
    if lossy.any():
        wanted = f"values that are exact in {slot.dtype}"
        if slot.dtype.kind in "iu":
            limits = np.iinfo(slot.dtype)
            wanted = f"whole numbers from {limits.min} to {limits.max} ({slot.dtype})"
        raise BufferRefused(refusal(door, slot.what, f"the value {array[lossy][0]!s} ({array.dtype})", wanted,
                                    "correct it, or build the kernel with a wider plane"))
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
        raise BufferRefused(refusal(door, slot.what, f"the number {shown(value)}", "a writable array",
                                    f"leave it out to have it returned, or pass {slot.name}={_example(slot, 'n')}"))
    return bound_plane(door, slot, value)


def bound_plane(door: str, slot: Slot, value: Any) -> Any:
    """The array a bound plan keeps: the caller's own, or a copy of integers narrower than an input of the kernel."""
    array = _host_array(door, slot, value, lists=False)
    what = slot.what
    if (slot.role == "per_sample" and slot.dtype.kind == "i" and array.dtype.kind in "iu" and array.dtype.isnative
            and array.dtype.itemsize < slot.dtype.itemsize and slot.declared):
        return array.astype(slot.dtype, order="C")
    if slot.writes and not array.flags.writeable:
        raise BufferRefused(refusal(door, what, "a read-only array", "a writable array",
                                    "pass a writable array of your own; the result is in it"))
    if array.dtype != slot.dtype and not _passes(slot, array):
        fix = f"make it with dtype={slot.dtype.name!r}" if slot.writes else \
            f"convert it with {slot.name}.astype({slot.dtype.name!r})"
        raise BufferRefused(refusal(door, what, str(array.dtype), str(slot.dtype), fix))
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise BufferRefused(refusal(door, what, f"strides {array.strides} for shape {array.shape}",
                                    "a C-contiguous, aligned array",
                                    "make it with np.empty or np.zeros" if slot.writes else
                                    f"pass np.ascontiguousarray({slot.name})"))
    return array


def word_plane(door: str, slot: Slot, value: Any) -> Any:
    """A one-cell plane of eagle's own that the caller gives."""
    array = bound_plane(door, slot, value)
    if array.shape != (1,):
        raise LayoutError(refusal(door, slot.what, f"shape {array.shape}", "shape (1,)",
                                  f"pass an array of one cell, {slot.name}=np.zeros(1, {slot.dtype.name!r})"))
    return array


def uniform_value(door: str, slot: Slot, value: Any) -> float | int:
    """A number the slot passes by value."""
    what = slot.what
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise BufferRefused(refusal(door, what, _array_text(value), "one number",
                                        "a value for each sample is a Scalar plane"))
        value = value[()]
    if value is np.ma.masked:
        raise TypeError(refusal(door, what, "a masked value", "a number", "fill it first"))
    if isinstance(value, bool | np.bool_):
        raise TypeError(refusal(door, what, f"the bool {value!r}", "a number", "pass 0 or 1"))
    if isinstance(value, np.generic) and value.dtype.kind not in "iuf":
        raise TypeError(refusal(door, what, shown(value), "a number", "convert it first"))
    if slot.dtype.kind in "iu":
        try:
            whole = int(value) if isinstance(value, float | np.floating) and value % 1 == 0 else \
                operator.index(value)
        except TypeError:
            raise TypeError(refusal(door, what, shown(value), "an integer", "convert it first, with int()")) from None
        low, high = np.iinfo(slot.dtype).min, np.iinfo(slot.dtype).max
        if not low <= whole <= high:
            raise ValueError(refusal(door, what, shown(whole), f"{low} to {high}", f"a {slot.dtype} holds no other"))
        return whole
    if isinstance(value, str | bytes | complex | np.complexfloating) or not hasattr(type(value), "__float__"):
        raise TypeError(refusal(door, what, shown(value), "a number", "convert it first, with float()"))
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number in (float("inf"), float("-inf")) and not _is_infinite(value) or _overflows(number, slot):
        raise ValueError(refusal(door, what, shown(value), f"a number {slot.dtype} can hold",
                                 "scale it, or build the kernel in float64"))
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
            raise BufferRefused(refusal(door, f"{written.what} and {other.what}",
                                        "arrays that share memory, one of them written", "separate arrays",
                                        f"pass a copy for {other.name!r}"))
    return shared


def caller_level() -> int:
    """The stack level of the first frame outside eagle, so that a warning counts once a call site."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).split(".")[0] in ("eagle", "hawk"):
        frame, level = frame.f_back, level + 1
    return level
