# SPDX-License-Identifier: Apache-2.0
"""Arrays of NumPy and CuPy as the seam's group filtering takes them: addresses, and what they must be."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle.backends.choosing import HOST_MEMORY
from eagle.errors import BufferRefused, LayoutError, refusal, shown
from eagle.interop.frameworks import framework_of
from eagle.interop.held import Memory
from eagle.interop.streams import cupy_module

__all__ = ["THETAS", "Array", "address_of", "check_plane", "memory_of", "module_of", "require_contiguous",
           "require_side", "rows_of"]

Array = np.ndarray[Any, Any]  # of NumPy, or of CuPy alike

MOVABLE = (1, 2, 4, 8, 16)  # bytes of an element
THETAS = (0.25, 0.75)  # the least and the most share of live slots below which an active set is reordered


def memory_of(door: str, argument: str, array: Any) -> Memory:
    """Where an array of NumPy or CuPy is. Raises TypeError for any other object."""
    if isinstance(array, np.ndarray) and not hasattr(array, "mask"):
        return Memory(address_of(array), array.nbytes, HOST_MEMORY, 0)
    if not isinstance(array, np.ndarray) and framework_of(type(array)) == "cupy":
        return Memory(address_of(array), array.nbytes, *map(int, array.__dlpack_device__()))
    raise TypeError(refusal(door, argument, f"{shown(array)}, a {type(array).__name__}", "an array of NumPy or CuPy",
                            "convert it first"))


def module_of(door: str, array: Any) -> Any:
    """The module that makes arrays like this one."""
    return np if isinstance(array, np.ndarray) else cupy_module(door)


def address_of(array: Any) -> int:
    """The address of an array's first element; 0 for None."""
    if array is None:
        return 0
    interface = array.__array_interface__ if isinstance(array, np.ndarray) else array.__cuda_array_interface__
    return int(interface["data"][0])


def rows_of(plane: Any) -> tuple[int, int]:
    """How many rows of n elements, and the bytes of an element."""
    return (plane.shape[0] if plane.ndim == 2 else 1), plane.dtype.itemsize


def require_side(door: str, argument: str, memory: Memory, mask: Memory) -> None:
    """Raises TypeError for an array on another device than the mask."""
    if memory[2:] != mask[2:]:
        raise TypeError(refusal(door, argument, f"an array on DLPack device {memory[2:]}",
                                f"{mask[2:]}, where the mask is", "copy it there"))


def require_contiguous(door: str, argument: str, array: Any) -> None:
    """Raises BufferRefused for an array that is not C-contiguous."""
    if not array.flags.c_contiguous:
        raise BufferRefused(refusal(door, argument, "an array that is not C-contiguous", "a contiguous one",
                                    "pass a contiguous copy"))


def check_plane(door: str, argument: str, plane: Any, n: int) -> None:
    """Raises ValueError for an array that a reorder cannot move."""
    if plane.ndim not in (1, 2) or plane.shape[-1] != n:
        raise LayoutError(refusal(door, argument, f"shape {plane.shape}", f"({n},) or (D, {n})",
                                  "pass the samples last"))
    if plane.dtype.hasobject or plane.dtype.itemsize not in MOVABLE:
        raise BufferRefused(refusal(door, argument, f"{plane.dtype}, {plane.dtype.itemsize} bytes each",
                                    f"elements of {', '.join(map(str, MOVABLE))} bytes", "convert it first"))
    require_contiguous(door, argument, plane)
    if isinstance(plane, np.ndarray) and not plane.flags.writeable:
        raise BufferRefused(refusal(door, argument, "an array that may not be written",
                                    "one whose samples can be moved", "pass a copy of it"))
