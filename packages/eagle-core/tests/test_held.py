# SPDX-License-Identifier: Apache-2.0
"""Planes that a set holds permuted leave eagle by no door, and the way back is named."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagle
from eagle.errors import BufferRefused
from eagle.interop import as_out_buffer, export_like, host_ptr, import_buffer
from eagle.interop.held import Holder, Memory, owner_of, refuse_permuted

Array = np.ndarray[Any, Any]
Door = Callable[[Array], object]
WAYS_OUT = r"found a plane that an eagle.ActiveSet holds permuted .*; call ActiveSet.restore\(\) first, or pass " \
           r"ActiveSet.in_sample_order\(plane\), a copy"


def permuted(n: int = 5000) -> tuple[eagle.ActiveSet, Array]:
    mask, plane = np.zeros(n, bool), np.arange(2.0 * n).reshape(2, n)
    active = eagle.ActiveSet(mask, reorder=0.5).own(plane)
    mask[::2] = mask[1::8] = True
    active.compact()
    active.reorder()
    return active, plane


DOORS: list[tuple[str, Door]] = [
    ("eagle.interop.import_buffer: numpy.ndarray", import_buffer),
    ("eagle.to_cupy: x: numpy.ndarray", eagle.to_cupy),
    ("eagle.interop.export_like: native: numpy.ndarray", lambda plane: export_like(np.zeros(1), plane)),
    ("eagle.interop.host_ptr: x: numpy.ndarray", host_ptr),
    ("Adapter.to_cupy: x: numpy.ndarray", lambda plane: eagle.detect(plane).to_cupy(plane)),  # type: ignore[union-attr]
    ("Adapter.from_numpy: a: numpy.ndarray",
     lambda plane: eagle.detect(plane).from_numpy(plane)),  # type: ignore[union-attr]
    ("eagle.copy: src: numpy.ndarray", lambda plane: eagle.copy(plane, into=np.zeros(plane.shape))),
    ("eagle.copy: into: numpy.ndarray", lambda plane: eagle.copy(np.zeros(plane.shape), into=plane)),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("words", "door"), DOORS, ids=[words for words, _ in DOORS])
def test_doors_refuse_a_permuted_plane_and_its_views(words: str, door: Door) -> None:
    active, plane = permuted()
    for array in (plane, plane[1], plane[:, 100:200]):
        with pytest.raises(BufferRefused, match=f"^{words}: {WAYS_OUT}"):
            door(array)
    inside = active.in_sample_order(plane)
    np.testing.assert_array_equal(np.asarray(import_buffer(inside)), np.arange(10_000.0).reshape(2, 5000))
    active.restore()
    np.testing.assert_array_equal(np.asarray(import_buffer(plane)), inside)


def test_a_view_made_before_hands_nothing_on() -> None:
    mask, plane = np.zeros(5000, bool), np.arange(5000.0)
    view = import_buffer(plane)
    active = eagle.ActiveSet(mask, reorder=0.5).own(plane)
    mask[::2] = mask[1::8] = True
    active.compact()
    np.testing.assert_array_equal(np.asarray(view), np.arange(5000))  # nothing has moved yet
    active.reorder()
    for export in (view.__dlpack__, lambda: view.__dlpack__(max_version=(1, 0)), lambda: np.asarray(view),
                   lambda: import_buffer(view)):
        with pytest.raises(BufferRefused, match=WAYS_OUT):
            export()
    active.restore()
    np.testing.assert_array_equal(np.asarray(view), np.arange(5000))


def test_masks_are_planes_too_and_other_arrays_are_not() -> None:
    active, plane = permuted()
    with pytest.raises(BufferRefused, match=WAYS_OUT):
        import_buffer(active.mask)
    for free in (active.perm, active.map, plane.copy(), plane[:, :0]):
        import_buffer(free)
    active.reset()
    import_buffer(active.mask)


def test_neighbours_of_a_permuted_plane_are_free() -> None:
    whole = np.zeros(15_000)
    mask, plane = np.zeros(5000, bool), whole[5000:10_000]
    active = eagle.ActiveSet(mask, reorder=0.5).own(plane)
    mask[::2] = mask[1::8] = True
    active.compact()
    active.reorder()
    import_buffer(whole[:5000])
    import_buffer(whole[10_000:])
    for array in (whole, whole[:5001], whole[9999:], whole[::2]):
        with pytest.raises(BufferRefused, match=WAYS_OUT):
            import_buffer(array)


def test_a_set_that_is_gone_holds_nothing() -> None:
    active, plane = permuted()
    del active
    gc.collect()
    import_buffer(plane)


def test_doors_ask_before_they_are_used() -> None:
    refuse_permuted("door", "x", object())  # nothing is held: nothing is read
    active, plane = permuted()
    with pytest.raises(BufferRefused, match="^door: x: numpy.ndarray: "):
        refuse_permuted("door", "x", plane)
    active.restore()
    refuse_permuted("door", "x", plane)


def test_as_out_buffer_asks_first() -> None:
    _, plane = permuted()
    with pytest.raises(BufferRefused, match=f"as_out_buffer: out: numpy.ndarray: {WAYS_OUT}"):
        as_out_buffer(plane, plane.shape)


def test_a_claim_is_all_or_nothing() -> None:
    first, second = Holder(), Holder()
    assert first.claim([Memory(100, 10, 1, 0), Memory(200, 10, 1, 0)]) is None
    assert second.claim([Memory(300, 10, 1, 0), Memory(205, 1, 1, 0)]) == (1, first)
    assert owner_of(Memory(300, 10, 1, 0)) is None
    assert first.claim([Memory(400, 10, 1, 0), Memory(409, 10, 1, 0)]) == (1, first)
    assert second.claim([Memory(110, 90, 1, 0), Memory(200, 10, 2, 0), Memory(200, 10, 2, 1)]) is None
    assert owner_of(Memory(209, 100, 1, 0)) is first
    assert owner_of(Memory(0, 0, 1, 0)) is None
    assert owner_of(Memory(205, 1, 2, 0)) is second
