# SPDX-License-Identifier: Apache-2.0
"""Group interop: fences; copies, page-locked memory and host functions each by presence."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int64, c_uint64, c_void_p
from typing import Any

import pytest

from eagle_conformance.blocks import Block
from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import NO_STREAM, Copy, HostFunction, Library, Status, StreamDesc

interop = pytest.mark.eagle_group("interop")
loaded = pytest.mark.eagle_loaded
Isolate = Callable[..., Any]

PATTERN = bytes(range(1, 251)) * 4
CUDA, HIP = 2, 10


def symbols(*names: str) -> pytest.MarkDecorator:
    """Applies where all are exported."""
    return pytest.mark.eagle_symbols(*names)


# ---- fences ----------------------------------------------------------------------------------------------------------


@interop
@pytest.mark.parametrize("codes", [(NO_STREAM, NO_STREAM), (-1, -1), (-1, NO_STREAM), (NO_STREAM, -1)])
def test_a_fence_takes_no_stream_and_no_ordering(device: Library, codes: tuple[int, int]) -> None:
    for device_type in device.device_types:
        device.ok("fence", device_type, 0, *codes)


@interop
@pytest.mark.parametrize("codes", [(-2, -1), (-1, -7), (NO_STREAM + 1, NO_STREAM)])
def test_a_fence_refuses_codes_below_minus_one(device: Library, codes: tuple[int, int]) -> None:
    for device_type in device.device_types:
        device.refuses(None, "fence", device_type, 0, *codes)


@interop
def test_a_fence_knows_the_default_streams(device: Library) -> None:
    if CUDA in device.device_types:
        device.ok("fence", CUDA, 0, 1, 2)
        device.refuses(Status.INTEROP, "fence", CUDA, 0, 0, 1)
    if HIP in device.device_types:
        device.ok("fence", HIP, 0, 0, 0)


@interop
@pytest.mark.parametrize("device_type", [0, 77, -1])
def test_a_fence_of_a_type_not_served_is_unsupported(device: Library, device_type: int) -> None:
    device.refuses(Status.UNSUPPORTED, "fence", device_type, 0, NO_STREAM, NO_STREAM)


@interop
def test_the_event_pool_only_grows(device: Library) -> None:
    counts = (c_int64(-1), c_int64(-1))
    for count in counts:
        device.ok("event_pool_created", byref(count))
        device.ok("fence", device.device_types[0], 0, NO_STREAM, NO_STREAM)
    assert 0 <= counts[0].value <= counts[1].value


def pool_without_out(library: Library) -> None:
    """event_pool_created with nowhere to write."""
    library.refuses(None, "event_pool_created", None)


@interop
def test_the_event_pool_refuses_null(device: Library, isolate: Isolate) -> None:
    isolate(pool_without_out)


# ---- device memory ---------------------------------------------------------------------------------------------------


@pytest.fixture
def block(device: Library, quirks: Quirks) -> Iterator[Callable[[bytes], Block]]:
    """Makes device memory that holds some bytes."""
    made: list[Block] = []

    def make(data: bytes) -> Block:
        made.append(Block(device, quirks, data))
        return made[-1]

    yield make
    for each in made:
        each.free()


Make = Callable[[bytes], Block]


@symbols("memset_device")
@pytest.mark.parametrize("nbytes", [0, 1, 7, 512, 1000])
def test_memset_zeroes_exactly(device: Library, block: Make, nbytes: int) -> None:
    target = block(PATTERN)
    device.ok("memset_device", target.address, nbytes, 0)
    assert target.read() == bytes(nbytes) + PATTERN[nbytes:]


@symbols("memcpy_device")
@pytest.mark.parametrize("nbytes", [0, 1, 7, 512, 1000])
def test_memcpy_device_copies_exactly(device: Library, block: Make, nbytes: int) -> None:
    source, target = block(PATTERN), block(bytes(1000))
    device.ok("memcpy_device", target.address, source.address, nbytes, 0)
    assert target.read() == PATTERN[:nbytes] + bytes(1000 - nbytes)
    assert source.read() == PATTERN


@symbols("memcpy")
@pytest.mark.parametrize("nbytes", [0, 1, 7, 512, 1000])
@pytest.mark.parametrize("direction", Copy)
def test_memcpy_copies_in_each_direction(device: Library, block: Make, direction: Copy, nbytes: int) -> None:
    host_source, host_target = ctypes.create_string_buffer(PATTERN, 1000), ctypes.create_string_buffer(1000)
    source, target = block(PATTERN), block(bytes(1000))
    from_host = direction in (Copy.H2D, Copy.H2H)
    to_host = direction in (Copy.D2H, Copy.H2H)
    start = ctypes.addressof(host_source) if from_host else source.address
    end = ctypes.addressof(host_target) if to_host else target.address
    device.ok("memcpy", end, start, nbytes, direction, 0)
    device_side = target.read()  # waits for the default stream
    expected = PATTERN[:nbytes] + bytes(1000 - nbytes)
    assert (host_target.raw if to_host else device_side) == expected
    assert (device_side if to_host else host_target.raw) == bytes(1000)


@symbols("memcpy", "stream_create", "stream_ptr", "stream_synchronize", "stream_release")
@pytest.mark.parametrize("direction", Copy, ids=[each.name for each in Copy])
def test_a_copy_is_there_after_its_stream_was_waited_for(device: Library, block: Make, direction: Copy) -> None:
    host = ctypes.create_string_buffer(PATTERN, 1000), ctypes.create_string_buffer(1000)
    source, target = block(PATTERN), block(bytes(1000))
    start = ctypes.addressof(host[0]) if direction in (Copy.H2D, Copy.H2H) else source.address
    end = ctypes.addressof(host[1]) if direction in (Copy.D2H, Copy.H2H) else target.address
    stream, raw = c_void_p(), c_uint64()
    device.ok("stream_create", byref(StreamDesc()), byref(stream))
    device.ok("stream_ptr", stream, byref(raw))
    device.ok("memcpy", end, start, 1000, direction, raw.value)
    device.ok("stream_synchronize", stream)
    assert (host[1].raw if direction in (Copy.D2H, Copy.H2H) else target.read()) == PATTERN
    device.call("stream_release", stream)


@symbols("memcpy")
@pytest.mark.parametrize("direction", [4, -1, 2**31 - 1])
@pytest.mark.parametrize("nbytes", [0, 8])
def test_an_unknown_direction_is_refused_even_for_no_bytes(
    device: Library, block: Make, direction: int, nbytes: int
) -> None:
    source, target = block(PATTERN), block(bytes(1000))
    device.refuses(Status.INVALID_ARGUMENT, "memcpy", target.address, source.address, nbytes, direction, 0)
    assert target.read() == bytes(1000)


@symbols("memcpy")
@pytest.mark.parametrize("direction", [Copy.D2D])
def test_memcpy_onto_itself_is_nothing(device: Library, block: Make, direction: Copy) -> None:
    target = block(PATTERN)
    device.ok("memcpy", target.address, target.address, 1000, direction, 0)
    assert target.read() == PATTERN


# ---- page-locked memory ----------------------------------------------------------------------------------------------

pinned = symbols("host_alloc", "host_free")


@pinned
@pytest.mark.parametrize("nbytes", [1, 63, 64, 4097, 1 << 20])
def test_host_memory_is_aligned_and_ours(device: Library, nbytes: int) -> None:
    addresses = (c_uint64(0), c_uint64(0))
    for address in addresses:
        device.ok("host_alloc", nbytes, byref(address))
        assert address.value != 0
        assert address.value % 64 == 0
    first, second = (address.value for address in addresses)
    assert abs(first - second) >= nbytes
    ctypes.memset(first, 1, nbytes)
    ctypes.memset(second, 2, nbytes)
    assert ctypes.string_at(first, nbytes) == b"\1" * nbytes
    for address in addresses:
        device.ok("host_free", address.value)


@pinned
def test_no_bytes_are_address_zero(device: Library) -> None:
    address = c_uint64(77)
    device.ok("host_alloc", 0, byref(address))
    assert address.value == 0
    device.ok("host_free", 0)


@pinned
@pytest.mark.parametrize("nbytes", [2**63, 2**64 - 1])
def test_too_many_bytes_are_refused(device: Library, nbytes: int) -> None:
    device.refuses(None, "host_alloc", nbytes, byref(c_uint64()))


def alloc_without_out(library: Library) -> None:
    """host_alloc with nowhere to write."""
    library.refuses(None, "host_alloc", 64, None)


@pinned
def test_host_alloc_refuses_null(device: Library, isolate: Isolate) -> None:
    isolate(alloc_without_out)


# ---- host functions --------------------------------------------------------------------------------------------------


@symbols("host_func")
def test_host_functions_run_once_each_in_stream_order(device: Library) -> None:
    calls: list[int] = []
    last = threading.Event()

    @HostFunction
    def call(argument: int | None) -> None:
        calls.append(argument or 0)
        if argument == 20:
            last.set()

    for argument in range(1, 21):
        device.ok("host_func", 0, call, argument)
    assert last.wait(20), f"20 host functions were enqueued, {len(calls)} ran"
    assert calls == list(range(1, 21))


def host_func_without_fn(library: Library) -> None:
    """host_func with no function."""
    library.refuses(None, "host_func", 0, None, None)


@symbols("host_func")
def test_host_func_refuses_null(device: Library, isolate: Isolate) -> None:
    isolate(host_func_without_fn)
