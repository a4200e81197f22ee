# SPDX-License-Identifier: Apache-2.0
"""How an object is read that is neither an array of numpy nor has DLPack's C functions, and every refusal of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import BufferRefused, refusal, shown
from eagle.interop.streams import CUDA, DEFAULT_STREAM, device_holding, order, stream_code

__all__ = ["DOOR", "read"]

DOOR = "eagle.interop.import_buffer"
CPU = 1  # DLPack device type
WITHOUT_MEMORY = (type, np.generic)  # a class and a number of numpy have the attributes of an array too
INTEGERS = (int, np.integer)
PROTOCOLS = "an array with __dlpack__, __cuda_array_interface__ or __array_interface__"


def read(obj: Any, stream: object, assume_writable: bool) -> _core.BufferView:
    """A view of any array. Raises as :func:`eagle.interop.import_buffer` does."""
    code = None if stream is None else stream_code(DOOR, stream)
    if not isinstance(obj, WITHOUT_MEMORY):
        if getattr(obj, "__dlpack__", None) is not None:
            view = through_dlpack(obj, data_of(obj), code, assume_writable)
            if view is not None:
                return view
        if (facts := getattr(obj, "__cuda_array_interface__", None)) is not None:
            return through_cuda_interface(obj, facts, code, assume_writable)
        if (facts := getattr(obj, "__array_interface__", None)) is not None:
            return through_interface(obj, facts, code, assume_writable)
    raise TypeError(refusal(DOOR, "obj", f"{shown(obj)}, a {type(obj).__name__}", PROTOCOLS,
                            "convert it with numpy.asarray"))


def data_of(obj: Any) -> Any:
    """What is read of a tensor: of torch, its data without its history of gradients."""
    if getattr(obj, "requires_grad", False) is True and hasattr(obj, "detach"):
        obj = obj.detach()
    is_neg = getattr(obj, "is_neg", None)
    if callable(is_neg) and is_neg() is True:
        raise BufferRefused(refusal(DOOR, producer(obj), "a tensor with its negative bit set", "its elements in memory",
                                    "pass tensor.resolve_neg()"))
    return obj


def producer(obj: object) -> str:
    """``torch.Tensor``: the top module and the name of the object's type."""
    kind = type(obj)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def through_dlpack(obj: object, source: Any, stream: int | None, assume_writable: bool) -> _core.BufferView | None:
    """By DLPack; None where the object hands out no capsule."""
    where = getattr(source, "__dlpack_device__", None)
    on_cpu = where is not None and int(where()[0]) == CPU
    if on_cpu and stream is not None:
        raise BufferRefused(refusal(DOOR, f"{producer(obj)}: stream", str(stream), "None",
                                    "a CPU buffer takes no stream"))
    try:
        capsule = ask(source.__dlpack__, {} if on_cpu else {"stream": stream})
    except BufferError:
        facts = getattr(source, "__array_interface__", None) if on_cpu else None
        if facts is None:
            raise
        return through_interface(obj, facts, stream, assume_writable)
    if on_cpu and _core.is_legacy(capsule) and (facts := getattr(source, "__array_interface__", None)) is not None:
        del capsule  # it cannot say whether it may be written, and an array interface does
        return through_interface(obj, facts, stream, assume_writable)
    return None if capsule is None else _core.view_of_capsule(obj, capsule, stream, assume_writable)


def ask(offer: Any, stream: dict[str, int | None]) -> Any:
    """``__dlpack__(...)``, versioned where the producer knows the keyword."""
    try:
        return offer(max_version=(1, 0), **stream)
    except TypeError as error:
        # One the producer raised for a reason of its own is not to be asked away.
        inside = error.__traceback__ is not None and error.__traceback__.tb_next is not None
        if "max_version" not in str(error) and (inside or "keyword" not in str(error)):
            raise
    return offer(**stream)


def through_interface(obj: object, facts: Any, stream: int | None, assume_writable: bool) -> _core.BufferView:
    """By ``__array_interface__``."""
    if stream is not None:
        raise BufferRefused(refusal(DOOR, f"{producer(obj)}: stream", str(stream), "None",
                                    "a CPU buffer takes no stream"))
    return from_facts(obj, "__array_interface__", facts, (CPU, 0), 0, assume_writable)


def through_cuda_interface(obj: object, facts: Any, stream: int | None, assume_writable: bool) -> _core.BufferView:
    """By ``__cuda_array_interface__``; its own stream, from version 3 on, is ordered before `stream`."""
    name = "__cuda_array_interface__"
    wanted = DEFAULT_STREAM if stream is None else stream
    address, _ = pair(obj, name, facts)
    device = device_holding(address) if address else 0
    own = field(obj, name, facts, "stream", int, optional=True)
    if own is not None:
        order(DOOR, CUDA, device, stream_code(DOOR, own), wanted)
    return from_facts(obj, name, facts, (CUDA, device), wanted, assume_writable)


def from_facts(obj: object, protocol: str, facts: Any, device: tuple[int, int], stream: int,
               assume_writable: bool) -> _core.BufferView:
    """The view that an array interface describes."""
    if field(obj, protocol, facts, "mask", object, optional=True) is not None:
        raise BufferRefused(refusal(DOOR, f"{producer(obj)}: mask", "a masked array", "an array without a mask",
                                    "pass its elements filled in, or without the mask"))
    address, read_only = pair(obj, protocol, facts)
    shape = integers(obj, protocol, "shape", field(obj, protocol, facts, "shape", tuple))
    strides = field(obj, protocol, facts, "strides", tuple, optional=True)
    if strides is not None:
        strides = integers(obj, protocol, "strides", strides)
    typestr = field(obj, protocol, facts, "typestr", str)
    return _core.view_of_array(obj, (obj, facts), address, typestr, shape, strides, read_only, *device, stream,
                               assume_writable)


def malformed(obj: object, protocol: str, name: str, found: str, wanted: str) -> BufferRefused:
    return BufferRefused(refusal(DOOR, producer(obj), f"{found} as {name} of {protocol}", wanted,
                                 f"correct what its {protocol} says"))


def field(obj: object, protocol: str, facts: Any, name: str, kind: type, optional: bool = False) -> Any:
    """One field of an array interface, of the type it must have; None where an optional one is left out."""
    if not isinstance(facts, dict):
        raise BufferRefused(refusal(DOOR, producer(obj), f"{shown(facts)} as {protocol}", "a dict",
                                    f"correct what its {protocol} says"))
    value = facts.get(name)
    if value is None and (optional or kind is object):
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise malformed(obj, protocol, name, shown(value), f"a {kind.__name__}")
    return value


def pair(obj: object, protocol: str, facts: Any) -> tuple[int, bool]:
    """The field ``data``: an address, and whether it is read-only."""
    data = field(obj, protocol, facts, "data", tuple)
    if len(data) != 2 or not isinstance(data[0], int) or not 0 <= data[0] < 2**64:
        raise malformed(obj, protocol, "data", shown(data), "a pair (address, read-only)")
    return data[0], bool(data[1])


def integers(obj: object, protocol: str, name: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape or strides: integers of 64 bits."""
    for value in values:
        if not isinstance(value, INTEGERS) or not -2**63 <= value < 2**63:
            raise malformed(obj, protocol, name, shown(values), "integers of 64 bits")
    return tuple(map(int, values))
