# SPDX-License-Identifier: Apache-2.0
"""Streams of devices: their codes, and ordering one before another without blocking the host.

Codes are those of DLPack: None and 1 the legacy default stream, 2 the per-thread default, -1 no ordering, 0 refused,
any other number a stream's handle.
"""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

from eagle import backends
from eagle.backends.once import Once
from eagle.errors import BackendUnavailable, BufferRefused, refusal, shown

__all__ = ["CUDA", "DEFAULT_STREAM", "cupy_module", "device_holding", "external_stream", "order", "refence",
           "stream_code", "stream_handle"]

CUDA = 2  # DLPack device type
DEFAULT_STREAM = 1
NO_ORDER = -1
FORMS = "an int, or an object with __cuda_stream__(), cuda_stream or ptr"
ON_DEVICE, MANAGED = 1, 2  # where the seam says that a pointer is


def stream_handle(door: str, stream: Any) -> int:
    """The handle of a stream of some library, or an int itself. Raises TypeError for another object, BufferRefused for
    a negative number and one of more than 64 bits."""
    number = operator.index(_handle_of(door, stream))
    if not 0 <= number < 2**64:
        raise BufferRefused(refusal(door, "stream", str(number), "a handle", "pass the stream itself"))
    return number


def stream_code(door: str, stream: Any) -> int:
    """The code of a stream as a door takes it: None, an int, or a stream of some library.

    Raises TypeError for another object, BufferRefused for 0 and for codes below -1.
    """
    if stream is None:
        return DEFAULT_STREAM
    handle = _handle_of(door, stream)
    code = operator.index(handle)
    if code == 0 and handle is not stream:
        return DEFAULT_STREAM  # a library's object for the default stream has the null handle
    if code == 0:
        raise BufferRefused(refusal(door, "stream", "0, which is ambiguous", "a stream",
                                    "pass 1 for the legacy default stream, 2 for the per-thread one"))
    if not NO_ORDER <= code < 2**63:
        raise BufferRefused(refusal(door, "stream", str(code), "-1 or a stream", "pass -1 for no ordering"))
    return code


def _handle_of(door: str, stream: Any) -> Any:
    handle = stream
    if hasattr(stream, "__cuda_stream__"):
        handle = stream.__cuda_stream__()[1]
    elif not hasattr(stream, "__index__"):
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
    if isinstance(handle, bool) or not hasattr(handle, "__index__"):
        raise TypeError(refusal(door, "stream", f"{shown(stream)}, a {type(stream).__name__}", FORMS,
                                "pass the stream's handle"))
    return handle


def order(door: str, device_type: int, device_id: int, producer: int, consumer: Any) -> None:
    """Orders what is on `producer` before what comes on `consumer`, both on one device; never blocks.

    Raises BackendUnavailable where no backend serves the device.
    """
    code = stream_code(door, consumer)
    if NO_ORDER in (producer, code) or producer == code:
        return
    backends.load(backends.for_device_type(device_type)).fence(device_type, device_id, producer, code)


def refence(producer_stream: Any, consumer_stream: Any, device: int = -1) -> None:
    """Orders `producer_stream` before `consumer_stream` on a device of the installed GPU kind, -1 the current one.

    One record and one wait, never a host synchronization; nothing where both are one stream or either is -1. Raises
    BufferRefused for 0 and codes below -1, BackendUnavailable without a device.
    """
    door = "eagle.interop.refence"
    producer, consumer = stream_code(door, producer_stream), stream_code(door, consumer_stream)
    if not isinstance(device, int) or isinstance(device, bool):
        raise TypeError(refusal(door, "device", shown(device), "an int", "pass the device's ordinal"))
    if not -1 <= device < 2**31:
        raise BufferRefused(refusal(door, "device", str(device), "an ordinal, or -1 for the current device",
                                    "leave it out for the current device"))
    if NO_ORDER in (producer, consumer) or producer == consumer:
        return
    kind = backends.resolve("gpu")
    backends.load(kind).fence(backends.spec(kind).device_types[0], device, producer, consumer)


def device_holding(address: int) -> int:
    """The ordinal of the device whose memory is at an address of the CUDA array interface; 0 where none says so.

    Raises BackendUnavailable where no backend serves such devices.
    """
    backend = backends.load(backends.for_device_type(CUDA))
    for device in range(len(backend.devices())):
        if backend.pointer_residency(device, address) in (ON_DEVICE, MANAGED):
            return device
    return 0


def external_stream(ptr: Any) -> Any:
    """CuPy's object for a stream's handle, the same each time; it never destroys the stream.

    Raises BackendUnavailable without CuPy.
    """
    return _wrapper_once(stream_code("eagle.interop.external_stream", ptr))


def _wrapper(code: int) -> Any:
    return cupy_module("eagle.interop.external_stream").cuda.ExternalStream(code)


_wrapper_once = Once(_wrapper)


def cupy_module(door: str) -> Any:
    """The module cupy. Raises BackendUnavailable where it is not installed."""
    try:
        return import_module("cupy")
    except ImportError:
        raise BackendUnavailable(refusal(door, "cupy", "no CuPy", "the package cupy",
                                         "install it for your CUDA version")) from None
