# SPDX-License-Identifier: Apache-2.0
"""ActiveSet: what is live, what moves, what is refused."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagle
from eagle.interop.held import owner_of
from eagle.stepping.arrays import memory_of

Array = np.ndarray[Any, Any]


def sparse(n: int, live: float = 0.3, seed: int = 0) -> Array:
    """A mask of which this share is live."""
    return np.random.default_rng(seed).random(n) >= live


def reordered(n: int = 5000, *, live: float = 0.3) -> tuple[eagle.ActiveSet, Array, Array]:
    """A set that was reordered, its mask, and a plane that holds the samples' numbers."""
    mask, numbers = np.zeros(n, bool), np.arange(n, dtype=np.float64)
    active = eagle.ActiveSet(mask, reorder=0.5).own(numbers)
    mask[:] = sparse(n, live)
    active.compact()
    active.reorder()
    assert active.permuted
    return active, mask, numbers


# ---- what is live ----------------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 4097, 100_000])
def test_a_set_begins_all_live_and_reads_the_mask_when_it_compacts(n: int) -> None:
    mask = np.ones(n, bool)
    active = eagle.ActiveSet(mask)
    assert (active.live, active.map.dtype, active.count.dtype) == (n, np.int32, np.uint32)
    np.testing.assert_array_equal(active.map, np.arange(n))
    mask[::3] = False
    active.compact()
    np.testing.assert_array_equal(active.map[:active.live], np.arange(0, n, 3))
    active.reset()
    assert active.live == n
    np.testing.assert_array_equal(active.map, np.arange(n))
    assert (mask == (np.arange(n) % 3 != 0)).all()
    active.active()
    assert active.live == len(range(0, n, 3))


def test_a_plain_set_has_no_moves() -> None:
    active = eagle.ActiveSet(np.zeros(10, np.uint8))
    assert {name: getattr(active, name) for name in (
        "theta", "perm", "inv", "span", "fire", "live32", "reorders", "classes", "class_theta", "class_plane",
        "offsets", "class_sorts", "mixed32", "class_fire", "stale_count")} == dict.fromkeys((
            "theta", "perm", "inv", "span", "fire", "live32", "reorders", "classes", "class_theta", "class_plane",
            "offsets", "class_sorts", "mixed32", "class_fire", "stale_count"))
    assert (active.permuted, active.epochs, active.bytes_per_sample(), repr(active)) == (
        False, (), 0, "ActiveSet(n=10, host)")
    active.restore()
    active.prepare_compaction()
    assert list(active.planes()) == ["active_map", "active_count"]
    assert active.planes()["active_map"] is active.map and active.planes()["active_count"] is active.count


@pytest.mark.parametrize(("n", "group"), [(5000, 3), (10, 4), (9, 3), (2, 5), (0, 2)])
def test_a_group_lives_while_one_of_its_samples_does(n: int, group: int) -> None:
    mask = sparse(n, 0.2)
    active = eagle.ActiveSet(mask, group=group)
    assert (active.n_groups, active.live) == (-(-n // group), -(-n // group) * group)
    active.compact()
    groups = [g for g in range(active.n_groups) if not mask[g * group:(g + 1) * group].all()]
    assert active.live == len(groups) * group
    np.testing.assert_array_equal(active.map[:len(groups)], groups)


def test_when_finished_compacts_when_the_counter_moved() -> None:
    mask, finished = np.zeros(100, bool), np.zeros(1, np.uint32)
    active = eagle.ActiveSet(mask)
    compact = active.when_finished(finished)
    mask[:10] = True
    compact()
    assert active.live == 100
    finished[0] = 10
    compact()
    assert active.live == 90
    mask[:20] = True
    compact()
    assert active.live == 90
    active.reset()
    compact()
    assert active.live == 80


@pytest.mark.want("4c")
def test_rebuild_finds_what_somebody_made_live_again() -> None:
    active, mask, numbers = reordered()
    beyond = int(active.span[0]) + 5
    sample = int(active.perm[beyond])
    mask[beyond] = False
    active.rebuild()
    assert int(active.span[0]) == active.n
    assert beyond in active.map[:active.live]
    active.restore()
    assert not mask[sample] and sample in active.map[:active.live]
    np.testing.assert_array_equal(numbers, np.arange(active.n))


# ---- moves -----------------------------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [np.uint8, bool, np.int16, np.float16, np.float32, np.int32, np.float64, np.int64,
                                   np.complex128, "U4", "datetime64[s]"])
@pytest.mark.parametrize("shape", [(5000,), (1, 5000), (3, 5000)])
def test_owned_planes_of_every_size_move_and_come_back(dtype: Any, shape: tuple[int, ...]) -> None:
    mask = np.zeros(5000, bool)
    original = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    plane = original.copy()
    active = eagle.ActiveSet(mask, reorder=True).own(plane)
    assert active.bytes_per_sample() == 1 + original.nbytes // 5000
    mask[:] = finished = sparse(5000)
    active.compact()
    active.reorder()
    order = np.argsort(finished, kind="stable")
    np.testing.assert_array_equal(plane, original[..., order])
    np.testing.assert_array_equal(active.perm, order)
    np.testing.assert_array_equal(mask, finished[order])
    np.testing.assert_array_equal(active.in_sample_order(plane), original)
    active.restore()
    np.testing.assert_array_equal(plane, original)
    np.testing.assert_array_equal(mask, finished)
    np.testing.assert_array_equal(active.perm, np.arange(5000))
    np.testing.assert_array_equal(active.inv, np.arange(5000))
    assert (active.permuted, int(active.span[0]), active.live) == (False, 5000, (~finished).sum())


def test_a_reorder_waits_until_it_is_due() -> None:
    mask = np.zeros(5000, bool)
    active = eagle.ActiveSet(mask, reorder=0.5)
    mask[:2000] = True
    active.compact()
    active.reorder()  # the live lie together already
    assert (int(active.fire[0]), int(active.reorders[0]), active.permuted) == (0, 0, False)
    mask[::2] = mask[1::4] = True
    active.compact()
    assert int(active.fire[0]) == 1
    step = active.reorder_if_degraded()
    step()
    assert (int(active.fire[0]), int(active.reorders[0]), active.permuted) == (0, 1, True)
    step()
    assert int(active.reorders[0]) == 1


@pytest.mark.want("11a")
def test_reset_of_a_permuted_set_restores_sample_order_first() -> None:
    active, mask, numbers = reordered()
    finished = active.in_sample_order(mask)
    active.reset()
    np.testing.assert_array_equal(numbers, np.arange(5000))
    np.testing.assert_array_equal(mask, finished)
    assert (active.live, int(active.span[0]), int(active.reorders[0]), active.permuted) == (5000, 5000, 0, False)
    np.testing.assert_array_equal(active.map, np.arange(5000))


@pytest.mark.parametrize(("n", "rows"), [(0, 2), (0, 0), (5000, 0)])
def test_nothing_to_move_moves_and_comes_back(n: int, rows: int) -> None:
    mask, classes = np.zeros(n, bool), np.zeros(n, np.uint8)
    active = eagle.ActiveSet(mask, reorder=True, classes=2, class_plane=classes).own(np.zeros((rows, n)))
    active.prepare_compaction()
    assert active.class_sort() and active.class_sort(within_live=True)
    active.restore()
    assert (active.permuted, active.live, active.bytes_per_sample()) == (False, n, 2 + 8 * rows)


def classes_of(n: int, classes: int, **options: Any) -> tuple[eagle.ActiveSet, Array, Array]:
    mask, class_plane = np.zeros(n, bool), np.random.default_rng(2).integers(0, classes, n).astype(np.uint8)
    return eagle.ActiveSet(mask, reorder=0.5, classes=classes, class_plane=class_plane, **options), mask, class_plane


def test_a_class_sort_orders_live_samples_by_class() -> None:
    active, mask, class_plane = classes_of(6000, 5)
    was, mask[:] = class_plane.copy(), sparse(6000, 0.9)
    finished = mask.copy()
    active.compact()
    assert (int(active.mixed32[0]), int(active.class_fire[0])) == (188, 1)
    assert active.class_sort(if_fired=True)
    order = np.argsort(np.where(finished, 5, was), kind="stable")
    np.testing.assert_array_equal(active.perm, order)
    np.testing.assert_array_equal(class_plane, was[order])
    counts = np.bincount(was[~finished], minlength=5)
    np.testing.assert_array_equal(active.offsets, [0, *np.cumsum(counts)])
    assert [int(cell[0]) for cell in (active.class_sorts, active.class_fire, active.fire, active.reorders)] == [
        1, 0, 0, 0]
    assert active.live == active.span[0] == counts.sum()
    active.compact()
    assert (int(active.mixed32[0]) <= 4, active.class_sort(if_fired=True)) == (True, False)


def test_class_sort_within_the_live_leaves_the_rest_alone() -> None:
    active, mask, class_plane = classes_of(6000, 3)
    mask[:] = sparse(6000, 0.5)
    active.compact()
    active.class_sort()
    live = active.live
    class_plane[:live] = np.random.default_rng(3).integers(0, 3, live)
    tail, perm = class_plane[live:].copy(), active.perm.copy()
    order = np.argsort(class_plane[:live], kind="stable")
    assert active.class_sort(within_live=True)
    np.testing.assert_array_equal(active.perm, [*perm[:live][order], *perm[live:]])
    np.testing.assert_array_equal(class_plane[live:], tail)
    assert (np.diff(class_plane[:live].astype(int)) >= 0).all()
    assert (active.live, int(active.span[0]), int(active.class_sorts[0])) == (live, live, 2)


def test_a_class_set_has_one_kind_of_move() -> None:
    active, mask, class_plane = classes_of(6000, 2)
    class_plane[:] = 0
    mask[:] = sparse(6000, 0.1)
    active.compact()
    assert [int(cell[0]) for cell in (active.fire, active.class_fire, active.mixed32)] == [1, 1, 0]
    active.reorder_if_degraded()()
    assert [int(cell[0]) for cell in (active.fire, active.class_fire, active.reorders, active.class_sorts)] == [
        0, 0, 0, 1]
    assert not mask[:active.live].any()


def test_stale_classes_make_a_sort_due() -> None:
    active, _, class_plane = classes_of(100, 2)
    class_plane[:] = 0
    for stale, due in ((5, 0), (6, 1)):
        active.stale_count[0] = stale
        active.compact()
        assert int(active.class_fire[0]) == due


def test_epochs_keep_perm_after_each_move() -> None:
    active, _, class_plane = classes_of(5000, 2, epochs=True)
    kept = []
    for seed in range(3):
        class_plane[:] = np.random.default_rng(seed).integers(0, 2, 5000)
        active.class_sort()
        kept.append(active.perm.copy())
    assert len(active.epochs) == 3
    for epoch, perm in zip(active.epochs, kept, strict=True):
        np.testing.assert_array_equal(epoch, perm)
    active.restore()
    assert len(active.epochs) == 3
    active.reset()
    assert active.epochs == ()


# ---- who owns what ---------------------------------------------------------------------------------------------------


def test_owned_planes_have_one_mover_until_it_goes() -> None:
    n = 100
    shared, mask = np.zeros((2, n)), np.zeros(n, bool)
    first = eagle.ActiveSet(mask, reorder=0.5).own(shared)
    second = eagle.ActiveSet(np.zeros(n, bool), reorder=0.5)
    for plane in (shared, shared[1], mask.view(np.uint8)):
        with pytest.raises(ValueError, match="plane 0: found memory of a plane that another ActiveSet owns already"):
            second.own(plane)
    with pytest.raises(ValueError, match="eagle.ActiveSet: mask: found memory of a plane that another ActiveSet"):
        eagle.ActiveSet(mask, reorder=0.5)
    with pytest.raises(ValueError, match="plane 0: found memory of a plane that this set owns already"):
        first.own(mask)
    twice = np.zeros(n)
    with pytest.raises(ValueError, match="plane 1: found memory of a plane that this set owns already"):
        first.own(twice, twice)
    assert eagle.ActiveSet(mask).live == n  # a set that only reads
    assert owner_of(memory_of("test", "shared", shared[0])) is not None
    del first
    gc.collect()
    assert owner_of(memory_of("test", "shared", shared[0])) is None
    assert second.own(shared).moves(shared)


def test_all_planes_are_taken_or_none() -> None:
    active = eagle.ActiveSet(np.zeros(100, bool), reorder=0.5)
    good = np.zeros(100)
    with pytest.raises(ValueError, match="plane 1: found shape"):
        active.own(good, np.zeros(99))
    assert (active.bytes_per_sample(), active.moves(good)) == (1, False)
    active.own(good)


@pytest.mark.want("11b")
@pytest.mark.parametrize("before", [0, 1])
def test_a_plane_that_may_not_be_written_is_refused_before_anything_moved(before: int) -> None:
    fixed = np.arange(100.0)
    fixed.flags.writeable = False
    active = eagle.ActiveSet(np.zeros(100, bool), reorder=0.5)
    with pytest.raises(ValueError, match=f"plane {before}: found an array that may not be written, .*pass a copy"):
        active.own(*[np.zeros(100) for _ in range(before)], fixed)
    with pytest.raises(ValueError, match="mask: found an array that may not be written"):
        eagle.ActiveSet(_read_only(np.zeros(100, bool)), reorder=0.5)
    assert eagle.ActiveSet(_read_only(np.zeros(100, bool))).live == 100


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


@pytest.mark.want("11c")
def test_an_input_that_two_sets_read_is_copied_or_stays_in_sample_order() -> None:
    rates = _read_only(np.arange(5000.0))
    sets = []
    for seed in range(2):
        mask, own = np.zeros(5000, bool), rates.copy()
        active = eagle.ActiveSet(mask, reorder=0.5).own(own).indirect(rates)
        assert (active.keeps(rates), active.moves(rates), active.moves(own)) == (True, False, True)
        mask[:] = sparse(5000, 0.3, seed)
        active.compact()
        active.reorder()
        np.testing.assert_array_equal(own, rates[active.perm])
        sets.append(active)
    np.testing.assert_array_equal(rates, np.arange(5000))


def test_planes_come_before_the_first_move() -> None:
    active, _, _ = reordered()
    with pytest.raises(ValueError, match="planes: found a set whose planes are fixed"):
        active.own(np.zeros(5000))
    active.restore()
    active.own(np.zeros(5000))
    active.reorder_if_degraded()
    with pytest.raises(ValueError, match="own every plane before it is bound and before reorder"):
        active.own(np.zeros(5000))


# ---- refusals --------------------------------------------------------------------------------------------------------

MASK = np.zeros(100, bool)
PLANE = np.zeros(100, np.uint8)


@pytest.mark.parametrize(("mask", "options", "error", "words"), [
    ([False] * 100, {}, TypeError, "mask: found .* a list, wanted an array of NumPy or CuPy"),
    (np.ma.masked_array(MASK), {}, TypeError, "mask: found"),
    (np.zeros((2, 2), bool), {}, ValueError, r"mask: found shape \(2, 2\), wanted \(n,\)"),
    (np.zeros((), bool), {}, ValueError, r"mask: found shape \(\)"),
    (np.zeros(4), {}, ValueError, "mask: found float64, wanted bool or uint8"),
    (np.zeros(8, bool)[::2], {}, ValueError, "mask: found an array that is not C-contiguous"),
    (MASK, {"group": 0}, ValueError, "group: found 0, wanted an integer of 1"),
    (MASK, {"group": True}, ValueError, "group: found True"),
    (MASK, {"group": 2.0}, ValueError, "group: found 2.0"),
    (MASK, {"group": 2, "reorder": True}, ValueError, "group: found 2, with reorder="),
    (MASK, {"reorder": "x"}, TypeError, "reorder: found 'x', a str, wanted a number"),
    (MASK, {"reorder": 0}, ValueError, "reorder: found 0, wanted 0.25 to 0.75"),
    (MASK, {"reorder": 0.76}, ValueError, "reorder: found 0.76"),
    (MASK, {"reorder": 10**400}, ValueError, "reorder: found 1000"),
    (MASK, {"reorder": float("nan")}, ValueError, "reorder: found nan"),
    (MASK, {"classes": 3, "class_plane": PLANE}, ValueError, "classes: found 3, without reorder="),
    (MASK, {"classes": 3, "reorder": True}, ValueError, "class_plane: found nothing"),
    (MASK, {"class_plane": PLANE, "reorder": True}, ValueError, "class_plane: found it without classes="),
    (MASK, {"class_theta": 0.5, "reorder": True}, ValueError, "class_theta: found it without classes="),
    *((MASK, {"classes": classes, "class_plane": PLANE, "reorder": True}, ValueError, "classes: found .* 2 to 255")
      for classes in (1, 256, True, 2.0, "3")),
    (MASK, {"classes": 2, "class_plane": PLANE[:10], "reorder": True}, ValueError, r"class_plane: found uint8 \(10,\)"),
    (MASK, {"classes": 2, "class_plane": MASK, "reorder": True}, ValueError, "class_plane: found bool"),
    (MASK, {"classes": 2, "class_plane": [0] * 100, "reorder": True}, TypeError, "class_plane: found"),
    (MASK, {"classes": 2, "class_plane": PLANE, "reorder": True, "class_theta": 0.9}, ValueError, "class_theta: found"),
    (MASK, {"classes": 2, "class_plane": PLANE, "reorder": True, "class_theta": ""}, TypeError, "class_theta: found"),
])
def test_a_bad_set_is_refused(mask: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"^eagle.ActiveSet: {words}"):
        eagle.ActiveSet(mask, **options)


def test_more_samples_than_indices_can_tell_are_refused() -> None:
    with pytest.raises(ValueError, match="mask: found 2147483648 samples, wanted at most 2147483647"):
        eagle.ActiveSet(np.zeros(2**31, bool))  # pages nobody touches are not there


@pytest.mark.parametrize("theta", [0.25, 0.75, np.float32(0.3), True, np.True_])
def test_thetas_are_numbers(theta: Any) -> None:
    wanted = 0.5 if isinstance(theta, bool | np.bool_) else float(theta)
    assert eagle.ActiveSet(MASK.copy(), reorder=theta).theta == wanted
    assert eagle.ActiveSet(MASK, reorder=np.False_).theta is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("plane", "error", "words"), [
    ([0.0] * 100, TypeError, "found .*, a list, wanted an array of NumPy or CuPy"),
    (np.zeros(99), ValueError, r"found shape \(99,\), wanted \(100,\) or \(D, 100\)"),
    (np.zeros((100, 2)), ValueError, r"found shape \(100, 2\)"),
    (np.zeros((2, 3, 100)), ValueError, "found shape"),
    (np.zeros(100, "S3"), ValueError, r"found \|S3, 3 bytes each, wanted elements of 1, 2, 4, 8, 16 bytes"),
    (np.zeros(100, object), ValueError, "found object, 8 bytes each"),
    (np.zeros(200)[::2], ValueError, "found an array that is not C-contiguous"),
    (np.zeros((100, 2)).T, ValueError, "found an array that is not C-contiguous"),
])
def test_a_plane_that_cannot_be_moved_is_refused(plane: Any, error: type[Exception], words: str) -> None:
    active = eagle.ActiveSet(np.zeros(100, bool), reorder=0.5)
    with pytest.raises(error, match=f"^eagle.ActiveSet.own: plane 0: {words}"):
        active.own(plane)


Call = Callable[[eagle.ActiveSet], object]


@pytest.mark.parametrize(("name", "call"), [
    ("reorder", lambda active: active.reorder()),
    ("reorder_if_degraded", lambda active: active.reorder_if_degraded()),
    ("own", lambda active: active.own(np.zeros(100))),
    ("indirect", lambda active: active.indirect(np.zeros(100))),
    ("in_sample_order", lambda active: active.in_sample_order(active.mask)),
    ("class_sort", lambda active: active.class_sort()),
])
def test_a_set_that_does_not_move_refuses_moves(name: str, call: Call) -> None:
    with pytest.raises(ValueError, match=rf"^eagle.ActiveSet.{name}: set: found one .*make it"):
        call(eagle.ActiveSet(MASK))


@pytest.mark.parametrize("name", ["map", "count", "perm", "inv"])
def test_what_moves_and_launches_trust_is_read_only(name: str) -> None:
    active, _, plane = reordered()
    for array in (getattr(active, name), active.planes().get(f"active_{name}", getattr(active, name))):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2**31 - 1
    active.restore()
    active.reset()
    assert active.map.tolist() == active.perm.tolist() == active.inv.tolist() == list(range(active.n))
    assert active.count[0] == active.n and (np.sort(plane) == plane).all()


def test_other_calls_are_refused() -> None:
    active, mask, class_plane = classes_of(100, 3)
    class_plane[7] = 3
    with pytest.raises(ValueError, match="class_sort: class_plane: found class 3, wanted classes 0 to 2"):
        active.class_sort()
    assert not active.permuted
    with pytest.raises(ValueError, match="in_sample_order: plane: found a ndarray the set does not own"):
        active.in_sample_order(mask.view())
    with pytest.raises(AttributeError, match="eagle.ActiveSet.map: assignment"):
        active.map = mask
    for finished in ([0], np.zeros(1), np.zeros(2, np.uint32), np.zeros((), np.uint32)):
        with pytest.raises(ValueError, match="when_finished: finished: found .* wanted a uint32 array of one element"):
            active.when_finished(finished)
    with pytest.raises(TypeError, match="indirect: plane 0: found"):
        active.indirect([0])


# ---- threads, fork ---------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_sets_of_their_own_compact_and_move_at_once() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for turn in range(10):
                active, mask, numbers = reordered(20_000, live=0.1 + 0.03 * seed)
                np.testing.assert_array_equal(numbers, active.perm)
                active.restore()
                np.testing.assert_array_equal(numbers, np.arange(20_000), f"turn {turn}")
                assert active.live == (~mask).sum()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_every_team_gives_the_same_moves() -> None:
    size, found = eagle.num_threads(), []
    try:
        for team in (1, 2, 3):
            eagle.set_num_threads(team)
            active, mask, numbers = reordered(70_001)
            found.append([array.tobytes() for array in (active.perm, active.inv, active.map[:active.live], mask)])
    finally:
        eagle.set_num_threads(size)
    assert found[0] == found[1] == found[2]


def test_a_compaction_lets_other_threads_run() -> None:
    active = eagle.ActiveSet(np.zeros(30_000_000, bool))
    turns, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            turns[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        while not turns[0]:
            time.sleep(0.001)
        before, start = turns[0], time.perf_counter()
        while time.perf_counter() - start < 0.2:
            active.compact()
        assert turns[0] > before
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: this system has no fork")
def test_a_forked_child_has_sets_of_its_own() -> None:
    active, _, numbers = reordered(40_000)
    child = os.fork()
    if child == 0:
        try:
            active.restore()
            assert (numbers == np.arange(40_000)).all()
            fresh, _, _ = reordered(40_000)
            fresh.restore()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert active.permuted
