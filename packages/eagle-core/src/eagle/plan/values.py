# SPDX-License-Identifier: Apache-2.0
"""What a caller gives, turned into what a slot takes: the careful path behind run, bind and the call form.

Every function refuses before anything is written. ``run`` converts inputs where no value changes; ``bind`` takes arrays
as they are.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import ArgumentError, BufferRefused, LayoutError, PerformanceWarning, refusal, shown, warn
from eagle.interop.buffer import BufferView, Requirements, view_for, view_of
from eagle.interop.frameworks import detect, is_followed
from eagle.plan.advice import ONE, cast, contiguous, example, samples_of, untracked
from eagle.plan.residency import device_resident
from eagle.plan.signature import Signature, Slot, Use

__all__ = ["AS_GIVEN", "NUMBER", "TO_HOST", "bound_plane", "check_names", "check_overlap", "in_order", "input_plane",
           "is_over", "number_plane", "output_plane", "read_bound", "read_input", "read_output", "slot_value"]

TO_HOST = "copy them to the host first: t.cpu().numpy() of a torch tensor, cupy.asnumpy(a) of a CuPy array"

NUMBER = int | float | np.generic
AS_GIVEN = ("bind", "step", "record")  # the doors that take arrays as they are


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
                                        f"pass {slot.name}={example(slot, samples_of(signature, given))}"))


def _array_text(array: np.ndarray[Any, Any]) -> str:
    return f"{array.dtype} of shape {array.shape}"


def _is_array(value: Any) -> bool:
    """Whether an object is an array of some library, numbers and containers of Python aside."""
    return hasattr(type(value), "__array_interface__") or detect(value) is not None


def _host_array(door: str, slot: Slot, value: Any, *, lists: bool) -> np.ndarray[Any, Any]:
    """`value` as an array of numpy over its own memory. TypeError for what is no array, BufferRefused for one that
    cannot serve."""
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
    if isinstance(value, NUMBER):
        number, one = f"the number {shown(value)}", f"np.array({shown(value)})"
        if slot.is_plane and not slot.writes:
            raise ArgumentError(refusal(door, what, number, "an array with a value for each sample",
                                    f"a value shared by all samples is a Param; one sample is {one}"))
        if slot.use is Use.TABLE:
            raise ArgumentError(refusal(door, what, number, "an array of its cells", "one cell is np.array([x])"))
        raise ArgumentError(refusal(door, what, number, "an array", f"one sample is {slot.name}={one}"
                                if slot.is_plane else f"pass {slot.name}={example(slot, 'n')}"))
    if value is None or isinstance(value, str | bytes | list | tuple) or not _is_array(value):
        found = "None" if value is None else f"an object of {type(value).__module__}.{type(value).__qualname__}"
        fix = f"pass an array{' or a list of numbers' if lists else ''}"
        if isinstance(value, list | tuple) or hasattr(type(value), "__array__"):
            fix = f"convert it with np.asarray({slot.name}, {slot.dtype.name!r})"
        if slot.writes:
            made = example(slot, len(value) if hasattr(type(value), "__len__") and not slot.head else "n")
            if slot.reads_prior or slot.kind == "Terminated":
                made = f"np.array({slot.name}, {slot.dtype.name!r})"
            fix = f"make one, {slot.name} = {made}, and pass it: the result is written into it"
        raise ArgumentError(refusal(door, what, found, "an array", fix))
    return _foreign_array(door, slot, value)


def _foreign_array(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """The array of numpy over the memory of another library's array; its ``base`` is the BufferView of that."""
    what, kind = slot.what, f"{type(value).__module__.partition('.')[0]}.{type(value).__name__}"
    if device_resident(value):
        raise BufferRefused(refusal(door, what, f"a {kind} on a device", "an array in host memory", TO_HOST))
    if slot.writes and is_followed(value):
        raise BufferRefused(refusal(door, what, f"a {kind} that requires grad", "one that autograd does not follow",
                                    untracked(slot, value)))
    try:
        view = value if isinstance(value, BufferView) else view_for(door, what, value)
    except Exception as error:
        if isinstance(error, MemoryError) or str(error).startswith(door):
            raise
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise BufferRefused(refusal(door, what, f"a {kind} that hands out no buffer ({why})", "an array in memory",
                                    "convert it with its own library; a value that jit, grad or vmap traces has none: "
                                    "call the kernel outside")) from error
    if view.device[0] not in HOST_DEVICE_TYPES:
        raise BufferRefused(refusal(door, what, f"a {kind} on a device", "an array in host memory", TO_HOST))
    if slot.writes and not view.writable:
        adapter = detect(value)
        if adapter is not None and adapter.name == "jax":
            raise BufferRefused(refusal(door, what, "an array of jax, which never changes", "a writable array",
                                        f"pass one of NumPy with its values, {slot.name}=np.array({slot.name})"))
        raise BufferRefused(f"{door}: {what}: {kind}: {'; '.join(view.refusals(Requirements(writable=True)))}; "
                            "pass a writable array of your own")
    if view.dtype != slot.dtype.name and not hasattr(np, view.dtype):
        raise BufferRefused(refusal(door, what, view.dtype, str(slot.dtype), f"convert it with its own library to "
                                    f"{slot.dtype}"))
    return np.asarray(view)


def read_input(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """An array of the slot's dtype with the values of `value`, in any memory order; itself where that is possible."""
    if is_followed(value):
        raise BufferRefused(refusal(door, slot.what, "a tensor that requires grad, which the result would not have",
                                    "one that autograd does not follow", untracked(slot, value)))
    array = _host_array(door, slot, value, lists=True)
    if _passes(slot, array):
        return array
    return _converted(door, slot, array, is_list=isinstance(value, list | tuple))


def number_plane(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """A number as one sample of an input: an array without axes."""
    if np.asarray(value).dtype.kind == "O":
        raise BufferRefused(refusal(door, slot.what, f"the number {shown(value)}", f"one that {slot.dtype} can hold",
                                    "scale it"))
    return _converted(door, slot, np.asarray([value]), is_list=True).reshape(())


def in_order(door: str, slot: Slot, array: np.ndarray[Any, Any], *, copies: bool) -> np.ndarray[Any, Any]:
    """`array` where it is C-contiguous and aligned, else a copy with a PerformanceWarning, or BufferRefused."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    if not copies:
        found = f"strides {array.strides} for shape {array.shape}" if array.flags.aligned else \
            f"an address that is no multiple of {array.itemsize} bytes"
        raise BufferRefused(refusal(door, slot.what, found, "a C-contiguous, aligned array",
                                    "make it with np.empty or np.zeros" if slot.writes else contiguous(slot, array)))
    warn(f"{door}: {slot.what}", f"is not {'C-contiguous' if array.flags.aligned else 'aligned'}; it is copied at each "
         f"call: {contiguous(slot, array)}",
         PerformanceWarning)
    return np.array(array, order="C", copy=True)


def input_plane(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """A C-contiguous array of the slot's dtype with the values of `value`, itself where that is possible."""
    return in_order(door, slot, read_input(door, slot, value), copies=True)


def is_over(array: np.ndarray[Any, Any], given: Any) -> bool:
    """Whether what was read of an argument is still its memory, not a copy."""
    if array is given or view_of(array) is not None:
        return True
    return isinstance(given, np.ndarray) and array.ctypes.data == np.ndarray.view(given, np.ndarray).ctypes.data


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
        fix = f"byte-swap it: {slot.name}.astype('{wanted}')" if found.kind in "iuf" else \
            f"pass the numbers in it, as {wanted}"
        raise BufferRefused(refusal(door, what, _array_text(array), str(wanted), fix))
    if wanted.kind == "f":
        if found.kind == "b":
            raise BufferRefused(refusal(door, what, "bool", str(wanted),
                                cast(slot, array, is_list)))
        if found.kind == "f":
            if found.itemsize > wanted.itemsize and not is_list:
                build = f"build the kernel in it: eagle.deploy(k, scalar_type={found.name!r}), or "
                raise BufferRefused(refusal(door, what, str(found), str(wanted),
                                            f"{build if found == np.float64 else ''}{cast(slot, array)}"))
            if not is_list:
                build = ", or build in it: eagle.deploy(k, scalar_type='float32')" if found == np.float32 else ""
                warn(f"{door}: {what}", f"is {found}; it is converted to {wanted} at each call. Pass {wanted}{build}",
                     PerformanceWarning)
            with np.errstate(over="ignore"):
                converted = array.astype(wanted)
            if (lost := np.isinf(converted) & ~np.isinf(array)).any():
                raise BufferRefused(refusal(door, what, f"the value {array[lost][0]!s}", f"values {wanted} can hold",
                                            "scale it, or build the kernel in float64"))
            return converted
        return _exact(door, slot, array, is_list)
    if is_list or (found.kind in "iu" and wanted.kind in "iu"):
        return _exact(door, slot, array, is_list)
    raise BufferRefused(refusal(door, what, str(found), str(wanted), cast(slot, array)))


def _exact(door: str, slot: Slot, array: np.ndarray[Any, Any], is_list: bool) -> np.ndarray[Any, Any]:
    """`array` converted, refused where the dtype cannot hold a value."""
    if array.dtype.kind == "b":
        raise BufferRefused(refusal(door, slot.what, "bool", str(slot.dtype), cast(slot, array, is_list)))
    lossy = _lossy(array, slot.dtype)
    if lossy.any():
        wanted = f"values that are exact in {slot.dtype}"
        if slot.dtype.kind in "iu":
            limits = np.iinfo(slot.dtype)
            wanted = f"whole numbers from {limits.min} to {limits.max} ({slot.dtype})"
        raise BufferRefused(refusal(door, slot.what, f"the value {array[lossy][0]!s} ({array.dtype})", wanted,
                                    "round it first" if array.dtype.kind == "f" and slot.dtype.kind in "iu" else
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


def read_output(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """The array a kernel writes in place: writable, of the exact dtype, in any memory order."""
    if isinstance(value, NUMBER | complex):
        raise BufferRefused(refusal(door, slot.what, f"the number {shown(value)}, which cannot receive a write",
                                    "a writable array", f"{'leave it out to have it returned, or ' * slot.is_output}"
                                    f"pass an array: {slot.name}={example(slot, ONE)} for one sample"))
    return read_bound(door, slot, value)


def read_bound(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """The array a bound plan keeps: over the caller's memory, in any order, or a copy of integers narrower than an
    input of the kernel."""
    array = _host_array(door, slot, value, lists=False)
    what = slot.what
    if (slot.role == "per_sample" and slot.dtype.kind == "i" and array.dtype.kind in "iu" and array.dtype.isnative
            and array.dtype.itemsize < slot.dtype.itemsize and slot.declared):
        return array.astype(slot.dtype, order="C")
    if slot.writes and not array.flags.writeable:
        raise BufferRefused(refusal(door, what, "a read-only array", "a writable array",
                                    "pass a writable array of your own; the result is in it"))
    if array.dtype != slot.dtype and not _passes(slot, array):
        fix = f"make it with dtype {slot.dtype.name!r}" if slot.writes else cast(slot, array)
        raise BufferRefused(refusal(door, what, str(array.dtype), str(slot.dtype), fix))
    return array


def output_plane(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """What :func:`read_output` gives, refused where it is not C-contiguous."""
    return in_order(door, slot, read_output(door, slot, value), copies=False)


def bound_plane(door: str, slot: Slot, value: Any) -> np.ndarray[Any, Any]:
    """What :func:`read_bound` gives, refused where it is not C-contiguous."""
    return in_order(door, slot, read_bound(door, slot, value), copies=False)


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
    if type(value) is float and slot.dtype == np.float64:
        return value
    if is_followed(value):
        raise BufferRefused(refusal(door, what, "a tensor that requires grad, which the result would not have",
                                    "a number", f"pass {slot.name}.item()"))
    if not isinstance(value, NUMBER | np.ndarray) and _is_array(value):
        value = _foreign_array(door, slot, value)
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
            raise ArgumentError(refusal(door, what, shown(value), "an integer", "convert it first, with int()")
                                ) from None
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
    if slot.dtype == np.float64:
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(number) and not np.isfinite(slot.dtype.type(number)))


def slot_value(door: str, slot: Slot, value: Any, plane: Callable[[str, Slot, Any], Any]) -> Any:
    """What a slot takes of `value`; `plane` is the reader of planes, such as :func:`input_plane`."""
    if slot.is_uniform:
        return uniform_value(door, slot, value)
    return word_plane(door, slot, value) if slot.is_word else plane(door, slot, value)


def check_overlap(door: str, slots: Sequence[Slot], aliasable: bool, memory: Mapping[str, np.ndarray[Any, Any]],
                  copied: Collection[str]) -> dict[str, str]:
    """The inputs that are the very array of an output they may not be read beside, and that output; a caller copies
    those or refuses.

    `memory` is where each plane is, `copied` are those of which a launch reads a copy. BufferRefused when planes share
    bytes in any other way, one of them written.
    """
    slots = [slot for slot in slots if slot.name in memory and memory[slot.name].nbytes]
    shared: dict[str, str] = {}
    for written in (s for s in slots if s.writes):
        for other in slots:
            mine, theirs = memory[written.name], memory[other.name]
            if other is written or not _share(mine, theirs):
                continue
            alike = written.is_plane and other.is_plane and (
                (written.width, written.dtype.itemsize) == (other.width, other.dtype.itemsize))
            same = (mine.ctypes.data, mine.nbytes) == (theirs.ctypes.data, theirs.nbytes) and (
                mine.strides == theirs.strides or (mine.flags.c_contiguous and theirs.flags.c_contiguous))
            if same and alike and not other.writes:
                if not aliasable and other.name not in copied:
                    shared.setdefault(other.name, written.name)
                continue
            raise BufferRefused(refusal(door, f"{written.what} and {other.what}",
                                        "arrays that share memory, one of them written", "separate arrays",
                                        f"pass a copy for {other.name!r}"))
    return shared


def _share(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have bytes in common; True where that is too hard to tell."""
    try:
        return np.shares_memory(a, b, max_work=10_000)  # type: ignore[arg-type]  # numpy's stub knows 0 and -1 only
    except np.exceptions.TooHardError:
        return True
