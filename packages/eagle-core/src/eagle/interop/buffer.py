# SPDX-License-Identifier: Apache-2.0
"""``import_buffer``, the view it makes, and what a consumer can require of one."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np

from eagle import _core, backends
from eagle._core import BufferView, import_buffer
from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BufferRefused, refusal, shown
from eagle.interop.reading import DOOR as IMPORT

__all__ = ["BufferView", "Requirements", "has_moved", "import_buffer", "view_for", "view_of"]

DOOR = "eagle.interop.Requirements"


def view_for(door: str, argument: str, obj: object, stream: object = None) -> BufferView:
    """``import_buffer(obj, stream=stream)`` for another door, which its refusals then name."""
    try:
        return import_buffer(obj, stream=stream)
    except (BufferRefused, TypeError) as error:
        what = str(error)
        if not what.startswith(IMPORT):
            raise
        raise type(error)(f"{door}: {argument}: {what.removeprefix(f'{IMPORT}: ').removeprefix('obj: ')}") from error


def has_moved(view: BufferView) -> bool:
    """Whether the producer of a view has its elements elsewhere by now, or hands out nothing any more."""
    try:
        return view.moved()
    except Exception:  # noqa: BLE001  it says so in its own way
        return True


def view_of(array: np.ndarray[Any, Any]) -> BufferView | None:
    """The view of another library's array that `array` is over the memory of."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, BufferView) else None


class Requirements(_core.Requirements):
    """What a consumer needs of a buffer; what is left out is not checked.

    dtype: a name, or what numpy takes for one. count: elements in all. shape: a tuple. contiguous: C order with a unit
    innermost stride. alignment: bytes, a power of two. device: a device's name (``"cpu"``, ``"cuda"``) or an installed
    backend's kind. device_id: the ordinal. writable: leave it off for what is only read. Raises ValueError or TypeError
    for a value none of these can have.
    """

    dtype: str | None
    count: int | None
    shape: tuple[int, ...] | None
    contiguous: bool
    alignment: int
    device: str | None
    device_id: int | None
    writable: bool
    __slots__ = ("alignment", "contiguous", "count", "device", "device_id", "dtype", "shape", "writable")

    def __new__(cls, *, dtype: object = None, count: SupportsIndex | None = None,
                shape: SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex] | None = None,
                contiguous: bool = False, alignment: SupportsIndex = 0, device: str | None = None,
                device_id: SupportsIndex | None = None, writable: bool = False) -> Requirements:
        name = None if dtype is None else dtype_name(dtype)
        number = None if count is None else whole("count", count)
        extents = None if shape is None else shape_tuple(shape)
        multiple = whole("alignment", alignment)
        if multiple & (multiple - 1):
            raise ValueError(refusal(DOOR, "alignment", str(multiple), "0 or a power of two",
                                     "leave it out where any address will do"))
        types = 0 if device is None else device_types(device)
        ordinal = None if device_id is None else whole("device_id", device_id, 2**31 - 1)
        self = super().__new__(cls, name, -1 if number is None else number, extents, bool(contiguous), multiple, device,
                               types, -1 if ordinal is None else ordinal, bool(writable))
        for slot, value in (("dtype", name), ("count", number), ("shape", extents), ("contiguous", bool(contiguous)),
                            ("alignment", multiple), ("device", device), ("device_id", ordinal),
                            ("writable", bool(writable))):
            object.__setattr__(self, slot, value)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{DOOR}: {name}: found an assignment, wanted a new Requirements")

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name)!r}" for name in sorted(self.__slots__)
                 if getattr(self, name) not in (None, False, 0))
        return f"Requirements({', '.join(given)})"


def dtype_name(dtype: object) -> str:
    """The name of an element type, from a name, a numpy dtype or scalar class, or anything whose text is a name."""
    name: Any = dtype
    if not isinstance(dtype, str):
        try:
            name = np.dtype(dtype).name  # type: ignore[call-overload]
        except TypeError:
            name = str(dtype).rpartition(".")[2]  # torch.float32
    elif name not in _core.ELEMENT_NAMES:
        try:
            name = np.dtype(dtype).name  # "f8"
        except TypeError:
            name = dtype
    if name not in _core.ELEMENT_NAMES:
        raise ValueError(refusal(DOOR, "dtype", shown(dtype), f"one of {', '.join(_core.ELEMENT_NAMES)}",
                                 "leave it out where any will do"))
    return str(name)


def whole(argument: str, value: SupportsIndex, most: int = 2**63 - 1) -> int:
    """`value` as an int of 0 to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(refusal(DOOR, argument, shown(value), "an integer", "pass an int")) from None
    if isinstance(value, bool) or not 0 <= number <= most:
        raise ValueError(refusal(DOOR, argument, shown(value), f"an integer of 0 to {most}",
                                 "leave it out where it does not matter"))
    return number


def shape_tuple(shape: object) -> tuple[int, ...]:
    """A shape: one extent, or a tuple or list of them."""
    if hasattr(shape, "__index__"):
        return (whole("shape", shape),)
    if not isinstance(shape, tuple | list):
        raise TypeError(refusal(DOOR, "shape", shown(shape), "a tuple of integers", "pass x.shape of such an array"))
    return tuple(whole("shape", extent) for extent in shape)


def device_types(device: str) -> int:
    """The DLPack device types of a device's name or a backend's kind, a bit for each."""
    if not isinstance(device, str):
        raise TypeError(refusal(DOOR, "device", shown(device), "a device's name", "pass \"cpu\" for host memory"))
    named = {code for name, code in _core.DEVICE_TYPES.items() if name == device}
    if HOST_DEVICE_TYPES & named:
        named |= HOST_DEVICE_TYPES  # the host's memory, page-locked or not
    elif not named and device in backends.kinds():
        named = set(backends.spec(device).device_types)
    if not named:
        raise ValueError(refusal(DOOR, "device", shown(device), f"one of {', '.join(_core.DEVICE_TYPES)}, or the kind "
                                 "of an installed backend", "pip install its backend"))
    return sum(1 << code for code in named if 0 <= code < 64)
