# SPDX-License-Identifier: Apache-2.0
"""The argument-block ABI of a compiled kernel: its tags, its boxes, and the sizes an artifact must agree with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eagle.errors import REBUILD, BufferRefused, refusal, shown

__all__ = ["ABI_TAG_V1", "ABI_TAG_V2", "ABI_VERSION", "ACCEPTED_ABI_TAGS", "DEVICE_CPU", "DEVICE_CUDA", "GREF_DTYPE",
           "HANDLE_DTYPE", "LAYOUT_FIELDS", "LAYOUT_SIZES", "LAYOUT_SYMBOL", "TAG_SYMBOL", "abi_version_of",
           "check_aether_abi", "check_exports", "make_gref", "make_handle"]


def __dir__() -> list[str]:
    return sorted(__all__)


ABI_TAG_V1 = "aether-abi/1"
ABI_TAG_V2 = "aether-abi/2"
ABI_VERSION = ABI_TAG_V1
ACCEPTED_ABI_TAGS = (ABI_TAG_V1, ABI_TAG_V2)

#: The data symbols every aether-abi/2 object exports.
TAG_SYMBOL = "eagle_abi_tag"
LAYOUT_SYMBOL = "eagle_layout_sizes"

#: What ``eagle_layout_sizes`` lists, in order, and the bytes of each (``include/eagle/plugin.h``).
LAYOUT_FIELDS = ("GRefMirror", "ScalarHandle", "IntHandle", "aether::idx_t", "partition triple")
LAYOUT_SIZES = (40, 32, 32, 4, 24)

#: The device types of a box, as DLPack numbers them.
DEVICE_CPU = 1
DEVICE_CUDA = 2

#: The box of a vector or matrix plane; strides and extents count elements.
GREF_DTYPE = np.dtype([("data", "<u8"), ("samples", "<u8"), ("compStride", "<u8"), ("sampleStride", "<u8"),
                       ("deviceType", "<i4"), ("deviceId", "<i4")])
#: The box of a scalar plane, a table or a wide buffer.
HANDLE_DTYPE = np.dtype([("data", "<u8"), ("samples", "<u8"), ("stride", "<u8"), ("deviceType", "<i4"),
                         ("deviceId", "<i4")])


def abi_version_of(tag: object) -> int:
    """1 or 2 for the tag of that ABI, 0 for anything else."""
    return ACCEPTED_ABI_TAGS.index(tag) + 1 if isinstance(tag, str) and tag in ACCEPTED_ABI_TAGS else 0


def check_aether_abi(meta: Mapping[str, Any], *, kind: str, name: str, door: str = "eagle.abi.check_aether_abi") -> str:
    """The ABI tag of a document. `kind` ("sidecar", "manifest") and `name` say which, `door` the call a refusal names.

    Raises ValueError for an absent and for an unknown tag.
    """
    tag = meta.get("aether_abi")
    if not isinstance(tag, str) or tag not in ACCEPTED_ABI_TAGS:
        raise ValueError(refusal(door, f"{kind} {name}, key 'aether_abi'",
                                 f"aether_abi {shown(tag)}", " or ".join(map(repr, ACCEPTED_ABI_TAGS)),
                                 "rebuild the artifact, or upgrade eagle-core where its tag is newer"))
    return tag


def check_exports(door: str, artifact: str, tag: str, sizes: Sequence[int]) -> None:
    """Refuse an artifact whose exported tag or box sizes are not this build's.

    Raises ValueError that names the artifact and the first field that differs.
    """
    if tag != ABI_TAG_V2:
        raise ValueError(refusal(door, artifact, f"the ABI tag {shown(tag)}", repr(ABI_TAG_V2), REBUILD))
    if len(sizes) != len(LAYOUT_SIZES):
        raise ValueError(refusal(door, artifact, f"{len(sizes)} sizes in {LAYOUT_SYMBOL}", f"{len(LAYOUT_SIZES)}",
                                 "rebuild the artifact with headers of this ABI"))
    for field, found, wanted in zip(LAYOUT_FIELDS, sizes, LAYOUT_SIZES, strict=True):
        if found != wanted:
            raise ValueError(refusal(door, artifact, f"{found} bytes for {field} in {LAYOUT_SYMBOL}",
                                     f"{wanted} bytes", "rebuild the artifact with headers of this ABI"))


def make_gref(arr: Any, n: int) -> np.void:
    """The :data:`GREF_DTYPE` box of a vector or matrix plane over `n` samples: ``(W, n)``, or flat, of any dtype.

    The box holds no reference: keep `arr` alive. Raises TypeError for what is no array, BufferRefused for rows that
    are not contiguous.
    """
    door = "eagle.abi.make_gref"
    facts = _facts(door, arr)
    shape, itemsize = facts["shape"], np.dtype(facts["typestr"]).itemsize
    strides = facts.get("strides") or (shape[-1] * itemsize, itemsize)[-len(shape):] if shape else (itemsize,)
    if len(shape) > 2 or (shape and shape[-1] > 1 and strides[-1] != itemsize):
        raise BufferRefused(refusal(door, "arr", f"shape {shape}, strides {strides}", "contiguous rows",
                                    "pass numpy.ascontiguousarray(arr)"))
    samples, row = (shape[-1], strides[0] // itemsize) if len(shape) == 2 else (n, n)
    if row < 0:
        raise BufferRefused(refusal(door, "arr", f"strides {strides}", "rows in ascending order",
                                    "pass numpy.ascontiguousarray(arr)"))
    return _box(GREF_DTYPE, (facts["data"][0], samples, row, 1, *_device(arr)))


def make_handle(arr: Any, n: int) -> np.void:
    """The :data:`HANDLE_DTYPE` box of a flat plane whose `samples` shall read `n`. The box holds no reference.

    Raises TypeError for what is no array, BufferRefused for one that is not contiguous.
    """
    door = "eagle.abi.make_handle"
    facts = _facts(door, arr)
    if facts.get("strides") is not None and not arr.flags["C_CONTIGUOUS"]:
        raise BufferRefused(refusal(door, "arr", f"strides {facts['strides']}", "a C-contiguous array",
                                    "pass numpy.ascontiguousarray(arr)"))
    return _box(HANDLE_DTYPE, (facts["data"][0], n, 1, *_device(arr)))


def _facts(door: str, arr: Any) -> Mapping[str, Any]:
    """The array interface, of a device or the host."""
    for protocol in ("__cuda_array_interface__", "__array_interface__"):
        facts = getattr(arr, protocol, None)
        if isinstance(facts, Mapping):
            return facts
    raise TypeError(refusal(door, "arr", f"a {type(arr).__name__}", "an array of numpy or cupy", "convert it first"))


def _device(arr: Any) -> tuple[int, int]:
    kind, ordinal = arr.__dlpack_device__()
    return int(kind), int(ordinal)


def _box(dtype: np.dtype[Any], values: tuple[int, ...]) -> np.void:
    box: np.void = np.array([values], dtype)[0]
    return box
