# SPDX-License-Identifier: Apache-2.0
"""The size rules of structs, as checks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from eagle_conformance.seam import Library, Status

CANARY = 0xA5
BEYOND = 512
LARGEST = 4096


def filled(library: Library, size: int, call: Callable[[Any], int]) -> tuple[int, bytes]:
    """What an output call writes back as struct_size, and all bytes: ``size`` of them zero before, canaries behind."""
    buffer = (ctypes.c_uint8 * (size + BEYOND))(*[0] * size, *[CANARY] * BEYOND)
    ctypes.c_uint32.from_buffer(buffer).value = size
    status = call(buffer)
    assert status == Status.OK, f"struct_size {size} is answered {status}: {library.error()}"
    return ctypes.c_uint32.from_buffer(buffer).value, bytes(buffer)


def check_output(library: Library, size: int, call: Callable[[Any], int]) -> None:
    """An output struct of ``size`` bytes: the smaller of the two sizes is written back, and no byte beyond changes."""
    own_size, everything = filled(library, LARGEST, call)
    written, found = filled(library, size, call)
    assert written == min(size, own_size)
    assert found[4:written] == everything[4:written]
    assert found[written:] == bytes(size - written) + bytes([CANARY]) * BEYOND


def oversized(desc: ctypes.Structure, extra: int = 64) -> ctypes.Array[ctypes.c_uint8]:
    """The desc of a newer caller: longer, its unknown tail zero."""
    size = ctypes.sizeof(desc) + extra
    buffer = (ctypes.c_uint8 * size)(*bytes(desc))
    ctypes.c_uint32.from_buffer(buffer).value = size
    return buffer
