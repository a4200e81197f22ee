# SPDX-License-Identifier: Apache-2.0
"""Group stream."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_uint64, c_void_p, sizeof
from typing import Any

import pytest

from eagle_conformance.seam import STREAM_NON_BLOCKING, Library, Status, StreamDesc
from eagle_conformance.structs import oversized

pytestmark = pytest.mark.eagle_group("stream")
Isolate = Callable[..., Any]


def create(library: Library, **fields: int) -> c_void_p:
    """A stream on the derived device."""
    stream = c_void_p()
    library.ok("stream_create", byref(StreamDesc(**({"device": -1} | fields))), byref(stream))
    assert stream.value
    return stream


def raw(library: Library, stream: c_void_p) -> int:
    """The raw stream behind a handle."""
    address = c_uint64(0)
    library.ok("stream_ptr", stream, byref(address))
    return address.value


@pytest.mark.parametrize("flags", [0, STREAM_NON_BLOCKING])
@pytest.mark.parametrize("ordinal", [-1, 0])
def test_a_stream_lives(device: Library, flags: int, ordinal: int) -> None:
    stream = create(device, flags=flags, device=ordinal)
    assert raw(device, stream) == raw(device, stream)
    device.ok("stream_synchronize", stream)
    device.call("stream_release", stream)


def test_live_streams_are_distinct_and_none_is_the_default(device: Library) -> None:
    streams = [create(device) for _ in range(8)]
    addresses = {raw(device, stream) for stream in streams}
    assert len(addresses) == 8
    assert 0 not in addresses
    for stream in streams:
        device.call("stream_release", stream)


def test_a_desc_may_be_as_short_as_twelve_bytes(device: Library) -> None:
    device.call("stream_release", create(device, struct_size=12))


@pytest.mark.parametrize("size", [0, 4, 8, 11])
def test_a_shorter_desc_is_refused(device: Library, size: int) -> None:
    stream = c_void_p()
    device.refuses(Status.INVALID_ARGUMENT, "stream_create", byref(StreamDesc(struct_size=size)), byref(stream))


def test_a_longer_desc_is_accepted(device: Library) -> None:
    stream = c_void_p()
    assert sizeof(StreamDesc) == 16
    device.ok("stream_create", oversized(StreamDesc(device=-1)), byref(stream))
    device.call("stream_release", stream)


@pytest.mark.parametrize("bit", [1, 7, 16, 31])
def test_an_unknown_flag_is_unsupported(device: Library, bit: int) -> None:
    stream = c_void_p()
    device.refuses(Status.UNSUPPORTED, "stream_create", byref(StreamDesc(device=-1, flags=1 << bit)), byref(stream))


@pytest.mark.parametrize("ordinal", [-2, -(2**31)])
def test_a_device_below_minus_one_is_refused(device: Library, ordinal: int) -> None:
    stream = c_void_p()
    device.refuses(Status.INVALID_ARGUMENT, "stream_create", byref(StreamDesc(device=ordinal)), byref(stream))


def test_a_device_that_does_not_exist_is_refused(device: Library) -> None:
    device.refuses(None, "stream_create", byref(StreamDesc(device=2**31 - 1)), byref(c_void_p()))


# ---- null pointers and handles ---------------------------------------------------------------------------------------


def create_without(library: Library, missing: str) -> None:
    """stream_create with one pointer NULL."""
    desc, out = byref(StreamDesc(device=-1)), byref(c_void_p())
    library.refuses(None, "stream_create", None if missing == "desc" else desc, None if missing == "out" else out)


@pytest.mark.parametrize("missing", ["desc", "out"])
def test_create_refuses_null(device: Library, isolate: Isolate, missing: str) -> None:
    isolate(create_without, missing)


def null_handle(library: Library, name: str) -> None:
    """A call over the NULL handle."""
    library.refuses(Status.BAD_HANDLE, name, None, *([byref(c_uint64())] if name == "stream_ptr" else []))


@pytest.mark.parametrize("name", ["stream_ptr", "stream_synchronize"])
def test_the_null_handle_is_a_bad_handle(isolate: Isolate, name: str) -> None:
    isolate(null_handle, name)


def ptr_without_out(library: Library) -> None:
    """stream_ptr with nowhere to write."""
    library.refuses(None, "stream_ptr", create(library), None)


def test_ptr_refuses_null(device: Library, isolate: Isolate) -> None:
    isolate(ptr_without_out)


def released_handle(library: Library, name: str) -> None:
    """A call over a handle that was given back."""
    stream = create(library)
    library.call("stream_release", stream)
    library.refuses(Status.BAD_HANDLE, name, stream, *([byref(c_uint64())] if name == "stream_ptr" else []))


@pytest.mark.parametrize("name", ["stream_ptr", "stream_synchronize"])
def test_a_released_handle_is_a_bad_handle(device: Library, isolate: Isolate, name: str) -> None:
    isolate(released_handle, name)


def release_null(library: Library) -> None:
    """stream_release(NULL)."""
    library.call("stream_release", None)


def test_release_takes_null(isolate: Isolate) -> None:
    isolate(release_null)
