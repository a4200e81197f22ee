# SPDX-License-Identifier: Apache-2.0
"""A batch for the group filtering in memory of the library, and what NumPy says of it."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eagle_conformance.blocks import Block
from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import (
    MASK_IS_DROP,
    CompactClassesDesc,
    CompactDesc,
    Library,
    ReorderClassesDesc,
    ReorderDesc,
    ReorderPlane,
)

UNTOUCHED = 0xA5A5A5A5
GROUP = 32
SMALLEST_SPAN = 4096
Array = NDArray[Any]


class Batch:
    """`n` samples: named arrays in memory of the library, and calls over them."""

    def __init__(self, library: Library, quirks: Quirks, n: int) -> None:
        self.library, self.quirks, self.n = library, quirks, n
        self.planes: list[str] = []
        self._blocks: dict[str, Block] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._scratches: list[Block] = []
        self.put("map", np.full(n, UNTOUCHED, np.uint32))
        for cell in ("count", "live32", "span", "fire", "mixed32", "class_fire", "stale_count", "class_sorts"):
            self.put(cell, np.array([UNTOUCHED], np.uint32))

    def put(self, name: str, values: Array | int) -> None:
        """A new array, or new values for one cell."""
        array = np.ascontiguousarray(np.atleast_1d(np.asarray(values, self._dtypes.get(name))))
        if name in self._blocks:
            self._blocks.pop(name).free()
        self._blocks[name], self._dtypes[name] = Block(self.library, self.quirks, array.tobytes()), array.dtype

    def put_plane(self, name: str, values: Array) -> None:
        """An array that a reorder moves."""
        self.put(name, values)
        self.planes.append(name)

    def put_slots(self, perm: Array, count: int, span: int) -> None:
        """The arrays and cells of a reorder, beside the map."""
        self.put("perm", perm.astype(np.int32))
        self.put("inv", np.argsort(perm).astype(np.int32))
        self.put("count", count)
        self.put("span", span)

    def get(self, name: str) -> Array:
        """What an array holds, after a look at its canaries."""
        return np.frombuffer(self._blocks[name].read(), self._dtypes[name])

    def cell(self, name: str) -> int:
        """What a cell holds."""
        return int(self.get(name)[0])

    def state(self) -> dict[str, bytes]:
        """Everything, to see what a call changed."""
        return {name: block.read() for name, block in self._blocks.items()}

    def at(self, name: str) -> int:
        """The address of an array."""
        return self._blocks[name].address

    def free(self) -> None:
        """Gives the memory back."""
        for block in (*self._blocks.values(), *self._scratches):
            block.free()

    # ---- descs -------------------------------------------------------------------------------------------------------

    def compaction(self, drop: bool, **fields: Any) -> CompactDesc:
        """A desc without trigger, but for the fields given."""
        own = {"flags": MASK_IS_DROP * drop, "device": -1, "n": self.n}
        own |= {"mask": self.at("mask"), "index_map": self.at("map"), "count": self.at("count")}
        return CompactDesc(**(own | fields))

    def trigger(self, theta: float) -> dict[str, Any]:
        """The fields of a trigger."""
        return {**{cell: self.at(cell) for cell in ("live32", "span", "fire")}, "theta": theta}

    def class_compaction(self, classes: int, theta: float, class_theta: float, **fields: Any) -> CompactClassesDesc:
        """A desc of masks that drop, with its triggers, but for the fields given."""
        own = {"flags": MASK_IS_DROP, "device": -1, "n": self.n} | self.trigger(theta)
        own |= {"mask": self.at("mask"), "index_map": self.at("map"), "count": self.at("count")}
        own |= {cell: self.at(cell) for cell in ("class_plane", "mixed32", "class_fire", "stale_count")}
        return CompactClassesDesc(**(own | {"classes": classes, "class_theta": class_theta} | fields))

    def _slots(self, flags: int) -> dict[str, Any]:
        rows = [ReorderPlane(self.at(name), self._dtypes[name].itemsize) for name in self.planes]
        self._rows = (ReorderPlane * len(rows))(*rows)
        own = {"flags": flags, "device": -1, "n": self.n, "n_planes": len(rows)}
        own |= {"planes": ctypes.addressof(self._rows), "index_map": self.at("map")}
        return own | {name: self.at(name) for name in ("mask", "perm", "inv", "count", "span")}

    def reorder(self, flags: int = MASK_IS_DROP, **fields: Any) -> ReorderDesc:
        """A desc of masks that drop, but for the fields given."""
        return ReorderDesc(**(self._slots(flags) | fields))

    def class_reorder(self, classes: int, flags: int = MASK_IS_DROP, **fields: Any) -> ReorderClassesDesc:
        """A desc of masks that drop, but for the fields given."""
        own = self._slots(flags) | {name: self.at(name) for name in ("class_plane", "offsets", "class_sorts")}
        return ReorderClassesDesc(**(own | {"classes": classes} | fields))

    def call(self, symbol: str, desc: ctypes.Structure) -> None:
        """Asks for the scratch and calls with exactly as much, canaries around it."""
        self.prepare(symbol, desc)
        self.library.ok(symbol, byref(desc))

    def prepare(self, symbol: str, desc: ctypes.Structure) -> None:
        """Gives a desc the scratch it asks for."""
        head: Any = head_of(desc)
        self.library.ok(symbol, byref(desc))
        assert head.scratch_bytes > 0, "no bytes of scratch would be no scratch"
        self._scratches.append(Block(self.library, self.quirks, bytes(head.scratch_bytes)))
        head.scratch = self._scratches[-1].address

    def check_scratch(self) -> None:
        """Nothing was written beside the scratch."""
        for block in self._scratches:
            block.read()


def head_of(desc: ctypes.Structure) -> Any:
    """The part of a desc that has its size and scratch."""
    return getattr(desc, "compact", None) or getattr(desc, "reorder", None) or desc


# ---- what NumPy says -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """What a compaction counts."""

    kept: Array
    live32: int
    mixed32: int

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self.kept)

    def fires(self, theta: float, span: int) -> int:
        """Whether a reorder is due: in float64, which holds the product of a float32 and a count."""
        full = np.float64(np.float32(theta)) * GROUP * self.live32
        return int(self.count < full and self.count < span and span >= SMALLEST_SPAN)

    def class_fires(self, theta: float, class_theta: float, span: int, stale: int) -> int:
        """Whether a class sort is due."""
        mixed = self.mixed32 > 0 and self.mixed32 >= np.float64(np.float32(class_theta)) * self.live32
        return int((mixed and span >= SMALLEST_SPAN) or 20 * stale > self.count or bool(self.fires(theta, span)))


def counted(keep: Array, classes: Array | None = None) -> Counts:
    """Of what is kept, and of a class each."""
    kept = np.flatnonzero(keep)
    groups = kept // GROUP
    mixed = 0
    if classes is not None and kept.size:
        pairs = np.unique(np.stack([groups, classes[kept]]), axis=1)
        mixed = int((np.bincount(pairs[0]) > 1).sum())
    return Counts(kept, len(np.unique(groups)), mixed)


def moved(array: Array, order: Array) -> Array:
    """The first slots in another order."""
    result = array.copy()
    result[: len(order)] = array[order]
    return result


# ---- batches ---------------------------------------------------------------------------------------------------------

PLANES = {"bytes": np.uint8, "halves": np.uint16, "words": np.int32, "doubles": np.float64, "pairs": np.complex128}


def mask_of(n: int, live: float, seed: int = 0) -> Array:
    """Set where a sample is finished; any value but 0 is set."""
    random = np.random.default_rng((n, int(live * 100), seed))
    return np.where(random.random(n) < live, 0, random.integers(1, 256, n)).astype(np.uint8)


def fill(batch: Batch, mask: Array, span: int, class_of: Array | None = None) -> dict[str, Array]:
    """A batch that was reordered before; every plane by name, and perm."""
    random, n = np.random.default_rng(batch.n), batch.n
    mask = np.where(np.arange(n) < span, mask, 1).astype(np.uint8)
    held: dict[str, Array] = {"mask": mask, "perm": random.permutation(n).astype(np.int32)}
    held |= {name: random.integers(0, 200, n).astype(dtype) for name, dtype in PLANES.items()}
    if class_of is not None:
        held["class_plane"] = class_of
    for name, values in held.items():
        if name != "perm":
            batch.put_plane(name, values)
    batch.put_slots(held["perm"], int((mask == 0).sum()), span)
    return held


def expect_moved(batch: Batch, held: dict[str, Array], order: Array) -> None:
    """Every plane, perm and inv were moved alike."""
    for name, values in held.items():
        np.testing.assert_array_equal(batch.get(name), moved(values, order), name)
    np.testing.assert_array_equal(batch.get("inv"), np.argsort(moved(held["perm"], order)))


def spans(n: int) -> list[int]:
    """Slots in play."""
    return sorted({n, n // 2, n * 7 // 8})
