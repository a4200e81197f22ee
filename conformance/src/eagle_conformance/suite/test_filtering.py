# SPDX-License-Identifier: Apache-2.0
"""Group filtering: maps of what is kept, reorders, class sorts."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32
from typing import Any

import numpy as np
import pytest

from eagle_conformance.filters import UNTOUCHED, Batch, counted, expect_moved, fill, head_of, mask_of, spans
from eagle_conformance.quirks import HostQuirks, Quirks
from eagle_conformance.seam import MASK_IS_DROP, WITHIN_LIVE, Library, Residency, Status

filtering = pytest.mark.eagle_group("filtering")
Isolate = Callable[..., Any]
Make = Callable[[int], Batch]

SIZES = [0, 1, 31, 32, 33, 4095, 4096, 4097, 100_000]
TOO_MANY = 2**31
THETA = 0.5


def symbols(*names: str) -> pytest.MarkDecorator:
    """Applies where the bit is set and all of these are exported."""
    return pytest.mark.eagle_symbols(*names)


reordering = symbols("reorder_device")
classing = symbols("compact_classes_device")
class_sorting = symbols("reorder_classes_device")


@pytest.fixture
def make(device: Library, quirks: Quirks) -> Iterator[Make]:
    """Makes batches; looks at the scratch of each when the test is over."""
    made: list[Batch] = []

    def batch(n: int) -> Batch:
        made.append(Batch(device, quirks, n))
        return made[-1]

    yield batch
    for each in made:
        each.check_scratch()
        each.free()


# ---- compaction ------------------------------------------------------------------------------------------------------


@filtering
@pytest.mark.parametrize("live", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("drop", [True, False], ids=["drop", "keep"])
@pytest.mark.parametrize("n", SIZES)
def test_the_map_holds_what_is_kept_in_ascending_order(make: Make, n: int, drop: bool, live: float) -> None:
    batch, mask = make(n), mask_of(n, live)
    batch.put("mask", mask)
    batch.call("compact_device", batch.compaction(drop))
    kept = np.flatnonzero((mask == 0) == drop)
    assert batch.cell("count") == len(kept)
    np.testing.assert_array_equal(batch.get("map")[: len(kept)], kept)
    np.testing.assert_array_equal(batch.get("mask"), mask)
    assert [batch.cell(name) for name in ("live32", "span", "fire")] == [UNTOUCHED] * 3


@filtering
@pytest.mark.parametrize("live", [0.0, 0.02, 0.4, 1.0])
@pytest.mark.parametrize("n", SIZES)
def test_the_trigger_counts_groups_and_fires(make: Make, n: int, live: float) -> None:
    batch, mask = make(n), mask_of(n, live)
    batch.put("mask", mask)
    batch.put("span", n)
    batch.call("compact_device", batch.compaction(True, **batch.trigger(THETA)))
    counts = counted(mask == 0)
    assert batch.cell("count") == counts.count
    assert batch.cell("live32") == counts.live32
    assert batch.cell("fire") == counts.fires(THETA, n)
    assert batch.cell("span") == n


# In 4096 slots and more each group keeps `each` of its 32 samples.
@filtering
@pytest.mark.parametrize(
    ("n", "each", "theta", "span", "fires"),
    [
        (8192, 16, 0.5, 8192, 0),  # exactly half is not less than half
        (8192, 15, 0.5, 8192, 1),
        (8192, 15, 0.46875, 8192, 0),
        (8192, 15, 0.47, 8192, 1),
        (4096, 8, 0.5, 4096, 1),
        (4096, 8, 0.5, 4095, 0),  # so small a batch is never worth it
        (8192, 16, 0.75, 4096, 0),  # count == span: the kept are together already
        (8192, 16, 0.75, 4097, 1),
    ],
)
def test_fire_is_decided_by_density_span_and_size(
    make: Make, n: int, each: int, theta: float, span: int, fires: int
) -> None:
    batch = make(n)
    batch.put("mask", (np.arange(n) % 32 >= each).astype(np.uint8))
    batch.put("span", span)
    batch.call("compact_device", batch.compaction(True, **batch.trigger(theta)))
    assert (batch.cell("count"), batch.cell("live32"), batch.cell("fire")) == (each * n // 32, n // 32, fires)


@filtering
def test_theta_is_the_float32_and_the_product_is_exact(make: Make) -> None:
    batch, n = make(5120), 5120
    mask = np.ones(n, np.uint8)
    for group in range(160):  # 1536 of 5120: 0.3 of the slots, and the float32 is a little more
        mask[32 * group : 32 * group + (10 if group % 5 < 3 else 9)] = 0
    batch.put("mask", mask)
    batch.put("span", n)
    batch.call("compact_device", batch.compaction(True, **batch.trigger(0.3)))
    assert (batch.cell("count"), batch.cell("live32"), batch.cell("fire")) == (1536, 160, 1)


@filtering
def test_a_shorter_desc_has_no_trigger(make: Make) -> None:
    batch, mask = make(5000), mask_of(5000, 0.1)
    batch.put("mask", mask)
    batch.call("compact_device", batch.compaction(True, struct_size=72, **batch.trigger(THETA)))
    assert batch.cell("count") == (mask == 0).sum()
    assert [batch.cell(name) for name in ("live32", "span", "fire")] == [UNTOUCHED] * 3


@filtering
def test_calls_of_one_stream_run_one_after_another(make: Make) -> None:
    batch, mask = make(5000), mask_of(5000, 0.3)
    batch.put("mask", mask)
    desc = batch.compaction(True)
    batch.prepare("compact_device", desc)
    for _ in range(20):
        batch.library.ok("compact_device", byref(desc))
    np.testing.assert_array_equal(batch.get("map")[: batch.cell("count")], np.flatnonzero(mask == 0))


@filtering
def test_concurrent_compactions_are_exact(make: Make) -> None:
    batches, failures = [make(40_009) for _ in range(4)], []
    masks = [mask_of(40_009, 0.5, seed) for seed in range(4)]
    descs = []
    for batch, mask in zip(batches, masks, strict=True):
        batch.put("mask", mask)
        descs.append(batch.compaction(True))
        batch.prepare("compact_device", descs[-1])

    def work(batch: Batch, desc: Any) -> None:
        try:
            for _ in range(30):
                batch.library.ok("compact_device", byref(desc))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(batches, descs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for batch, mask in zip(batches, masks, strict=True):
        np.testing.assert_array_equal(batch.get("map")[: batch.cell("count")], np.flatnonzero(mask == 0))


# ---- compaction with classes -----------------------------------------------------------------------------------------


@filtering
@classing
@pytest.mark.parametrize("live", [0.0, 0.05, 0.6, 1.0])
@pytest.mark.parametrize("classes", [2, 255])
@pytest.mark.parametrize("n", SIZES)
def test_class_compaction_counts_mixed_groups(make: Make, n: int, classes: int, live: float) -> None:
    batch, mask = make(n), mask_of(n, live)
    class_of = np.random.default_rng(n).integers(0, classes, n).astype(np.uint8)
    class_of[: n // 2] = np.arange(n // 2) // 100 % classes  # half of them sorted
    batch.put("mask", mask)
    batch.put("class_plane", class_of)
    batch.put("span", n)
    batch.put("stale_count", 0)
    batch.call("compact_classes_device", batch.class_compaction(classes, THETA, 0.25))
    counts = counted(mask == 0, class_of)
    np.testing.assert_array_equal(batch.get("map")[: counts.count], counts.kept)
    found = {name: batch.cell(name) for name in ("count", "live32", "fire", "mixed32", "class_fire")}
    assert found == {
        "count": counts.count,
        "live32": counts.live32,
        "fire": counts.fires(THETA, n),
        "mixed32": counts.mixed32,
        "class_fire": counts.class_fires(THETA, 0.25, n, 0),
    }


@filtering
@classing
@pytest.mark.parametrize(
    ("mixed", "span", "stale", "fires"),
    [
        (0, 4096, 0, 0),
        (1, 4096, 0, 0),  # 1 of 128 groups, 32 wanted
        (31, 4096, 0, 0),
        (32, 4096, 0, 1),
        (32, 4095, 0, 0),
        (0, 4096, 204, 0),  # 5 % of 4096 are 204.8
        (0, 4096, 205, 1),
        (0, 4095, 205, 1),  # stale classes are no matter of size
        (0, 4096, None, 0),
    ],
)
def test_class_fire_is_decided_by_mixed_groups_and_stale_classes(
    make: Make, mixed: int, span: int, stale: int | None, fires: int
) -> None:
    batch, n = make(4096), 4096
    class_of = np.zeros(n, np.uint8)
    class_of[np.arange(mixed) * 32 + 7] = 1
    batch.put("mask", np.zeros(n, np.uint8))
    batch.put("class_plane", class_of)
    batch.put("span", span)
    batch.put("stale_count", UNTOUCHED if stale is None else stale)
    fields = {"stale_count": 0} if stale is None else {}
    batch.call("compact_classes_device", batch.class_compaction(2, THETA, 0.25, **fields))
    assert (batch.cell("mixed32"), batch.cell("fire"), batch.cell("class_fire")) == (mixed, 0, fires)


@filtering
@classing
def test_exactly_five_percent_is_not_stale(make: Make) -> None:
    for stale, fires in ((5, 0), (6, 1)):
        batch = make(100)
        batch.put("mask", np.zeros(100, np.uint8))
        batch.put("class_plane", np.zeros(100, np.uint8))
        batch.put("span", 100)
        batch.put("stale_count", stale)
        batch.call("compact_classes_device", batch.class_compaction(2, THETA, 0.25))
        assert batch.cell("class_fire") == fires


@filtering
@classing
def test_a_reorder_that_is_due_makes_a_class_sort_due(make: Make) -> None:
    batch, n = make(8192), 8192
    batch.put("mask", (np.arange(n) % 32 != 0).astype(np.uint8))
    batch.put("class_plane", np.zeros(n, np.uint8))
    batch.put("span", n)
    batch.put("stale_count", 0)
    batch.call("compact_classes_device", batch.class_compaction(2, THETA, 0.25))
    assert (batch.cell("mixed32"), batch.cell("fire"), batch.cell("class_fire")) == (0, 1, 1)


# ---- reorder ---------------------------------------------------------------------------------------------------------


@filtering
@reordering
@pytest.mark.parametrize("live", [0.0, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("n", SIZES)
def test_a_reorder_moves_the_kept_to_the_front(make: Make, n: int, live: float) -> None:
    for span in spans(n):
        batch, mask = make(n), mask_of(n, live)
        held = fill(batch, mask, span)
        batch.call("reorder_device", batch.reorder())
        within = held["mask"][:span]
        order = np.concatenate([np.flatnonzero(within == 0), np.flatnonzero(within)])
        kept = int((within == 0).sum())
        expect_moved(batch, held, order)
        np.testing.assert_array_equal(batch.get("map")[:kept], np.arange(kept))
        assert (batch.cell("count"), batch.cell("span")) == (kept, kept)


@filtering
@pytest.mark.parametrize(
    "symbol", [pytest.param(name, marks=symbols(name)) for name in ("reorder_device", "reorder_classes_device")]
)
def test_slots_beyond_the_span_stay(make: Make, symbol: str) -> None:
    batch, n, span = make(9000), 9000, 5000
    class_of = (np.arange(n) % 3).astype(np.uint8)
    held = fill(batch, mask_of(n, 0.6), n, class_of)
    batch.put("span", span)
    batch.put("count", 100)
    batch.put("offsets", np.zeros(4, np.uint32))
    batch.put("class_sorts", 0)
    batch.call(symbol, batch.reorder() if symbol == "reorder_device" else batch.class_reorder(3))
    for name, values in held.items():
        np.testing.assert_array_equal(batch.get(name)[span:], values[span:], name)
        assert (batch.get(name)[:span] != values[:span]).any(), f"{name} did not move"


@filtering
@reordering
def test_without_the_flag_a_set_byte_keeps(make: Make) -> None:
    batch, n = make(5000), 5000
    held = fill(batch, mask_of(n, 0.3), n)
    batch.put("count", int((held["mask"] != 0).sum()))
    batch.call("reorder_device", batch.reorder(flags=0))
    order = np.concatenate([np.flatnonzero(held["mask"]), np.flatnonzero(held["mask"] == 0)])
    expect_moved(batch, held, order)
    assert batch.cell("span") == (held["mask"] != 0).sum()


@filtering
@reordering
def test_a_reorder_waits_for_fire_and_clears_it(make: Make) -> None:
    batch, n = make(5000), 5000
    held = fill(batch, mask_of(n, 0.3), n)
    batch.put("fire", 0)
    before = batch.state()
    desc = batch.reorder(fire=batch.at("fire"))
    batch.call("reorder_device", desc)
    assert batch.state() == before
    batch.put("fire", 1)
    desc.fire = batch.at("fire")
    batch.library.ok("reorder_device", byref(desc))
    assert batch.cell("fire") == 0
    assert batch.cell("span") == (held["mask"] == 0).sum()


@filtering
@symbols("reorder_device", "reset_device")
@pytest.mark.parametrize("n", [1000, 40_001])
def test_rounds_of_compaction_and_reorder_keep_every_sample(make: Make, n: int) -> None:
    batch, random = make(n), np.random.default_rng(n)
    mask, values = np.zeros(n, np.uint8), np.arange(n, dtype=np.float64)
    batch.put_plane("mask", mask)
    batch.put_plane("doubles", values)
    batch.put_slots(np.arange(n), 0, 0)
    batch.library.ok("reset_device", byref(batch.reorder()))
    finished = np.zeros(n, bool)  # by sample
    for _ in range(6):
        finished |= random.random(n) < 0.3
        perm = batch.get("perm")
        batch.put("mask", finished[perm].astype(np.uint8))
        batch.call("compact_device", batch.compaction(True))
        batch.call("reorder_device", batch.reorder())
        perm = batch.get("perm")
        np.testing.assert_array_equal(batch.get("doubles"), values[perm])
        np.testing.assert_array_equal(batch.get("mask"), finished[perm])
        np.testing.assert_array_equal(perm[batch.get("inv")], np.arange(n))
        live = batch.cell("count")
        np.testing.assert_array_equal(perm[:live], np.flatnonzero(~finished))


# ---- class sort ------------------------------------------------------------------------------------------------------


@filtering
@class_sorting
@pytest.mark.parametrize("live", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("classes", [2, 3, 255])
@pytest.mark.parametrize("n", SIZES)
def test_a_class_sort_orders_the_kept_by_class(make: Make, n: int, classes: int, live: float) -> None:
    for span in spans(n):
        batch, mask = make(n), mask_of(n, live)
        class_of = np.random.default_rng(n).integers(0, classes, n).astype(np.uint8)
        held = fill(batch, mask, span, class_of)
        batch.put("offsets", np.full(classes + 1, UNTOUCHED, np.uint32))
        batch.put("class_sorts", 7)
        batch.call("reorder_classes_device", batch.class_reorder(classes))
        dropped = held["mask"][:span] != 0
        order = np.argsort(np.where(dropped, classes, class_of[:span]), kind="stable")
        kept = int((~dropped).sum())
        expect_moved(batch, held, order)
        np.testing.assert_array_equal(batch.get("map")[:kept], np.arange(kept))
        counts = np.bincount(class_of[:span][~dropped], minlength=classes)
        np.testing.assert_array_equal(batch.get("offsets"), np.concatenate([[0], np.cumsum(counts)]))
        assert (batch.cell("count"), batch.cell("span"), batch.cell("class_sorts")) == (kept, kept, 8)


@filtering
@class_sorting
@pytest.mark.parametrize("n", SIZES)
def test_within_live_sorts_the_first_count_slots(make: Make, n: int) -> None:
    batch, count = make(n), n * 2 // 3
    class_of = np.random.default_rng(n).integers(0, 5, n).astype(np.uint8)
    held = fill(batch, (np.arange(n) >= count).astype(np.uint8), n, class_of)
    batch.put("offsets", np.full(6, UNTOUCHED, np.uint32))
    batch.put("class_sorts", 0)
    batch.call("reorder_classes_device", batch.class_reorder(5, MASK_IS_DROP | WITHIN_LIVE))
    expect_moved(batch, held, np.argsort(class_of[:count], kind="stable"))
    counts = np.bincount(class_of[:count], minlength=5)
    np.testing.assert_array_equal(batch.get("offsets"), np.concatenate([[0], np.cumsum(counts)]))
    assert (batch.cell("count"), batch.cell("span"), batch.cell("class_sorts")) == (count, n, 1)


@filtering
@class_sorting
def test_a_class_sort_waits_for_fire_and_clears_it(make: Make) -> None:
    batch, n = make(5000), 5000
    fill(batch, mask_of(n, 0.3), n, np.random.default_rng(0).integers(0, 3, n).astype(np.uint8))
    batch.put("offsets", np.full(4, UNTOUCHED, np.uint32))
    batch.put("class_sorts", 0)
    batch.put("class_fire", 0)
    before = batch.state()
    desc = batch.class_reorder(3, fire=batch.at("class_fire"))
    batch.call("reorder_classes_device", desc)
    assert batch.state() == before
    batch.put("class_fire", 1)
    desc.reorder.fire = batch.at("class_fire")
    batch.library.ok("reorder_classes_device", byref(desc))
    assert (batch.cell("class_fire"), batch.cell("class_sorts")) == (0, 1)


# ---- reset, residency ------------------------------------------------------------------------------------------------


@filtering
@symbols("reset_device")
@pytest.mark.parametrize("with_map", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_reset_is_the_identity(make: Make, n: int, with_map: bool) -> None:
    batch = make(n)
    mask = mask_of(n, 0.5)
    batch.put_plane("mask", mask)
    batch.put_slots(np.arange(n)[::-1].copy(), 0, 0)
    ignored = {"flags": 1 << 9, "mask": 0, "planes": 0, "n_planes": 9, "fire": 0, "scratch": 0}
    desc = batch.reorder(**ignored, **({} if with_map else {"index_map": 0}))
    batch.library.ok("reset_device", byref(desc))
    for name in ("perm", "inv", *(["map"] if with_map else [])):
        np.testing.assert_array_equal(batch.get(name), np.arange(n), name)
    if not with_map:
        np.testing.assert_array_equal(batch.get("map"), np.full(n, UNTOUCHED, np.uint32))
    assert (batch.cell("count"), batch.cell("span")) == (n, n)
    np.testing.assert_array_equal(batch.get("mask"), mask)


@filtering
@symbols("pointer_residency")
def test_residency_tells_where_memory_is(device: Library, make: Make) -> None:
    where = c_int32(-77)
    device.ok("pointer_residency", 0, make(100).at("map"), byref(where))
    host = (Residency.HOST, Residency.PAGEABLE)
    assert where.value in (host if device.on_host else (Residency.DEVICE, Residency.MANAGED, Residency.MAPPED_HOST))


@filtering
@symbols("pointer_residency")
def test_residency_refuses_no_device_and_null(device: Library, isolate: Isolate, make: Make) -> None:
    device.refuses(Status.INVALID_ARGUMENT, "pointer_residency", -2, make(1).at("map"), byref(c_int32()))
    isolate(residency_without_out)


def residency_without_out(library: Library) -> None:
    """pointer_residency with nowhere to write."""
    library.refuses(None, "pointer_residency", 0, 4096, None)


# ---- scratch, threads ------------------------------------------------------------------------------------------------

CALLS = ["compact_device", "compact_classes_device", "reorder_device", "reorder_classes_device"]


def desc_for(batch: Batch, symbol: str, **fields: Any) -> ctypes.Structure:
    """A good desc of a call, but for the fields given, over a batch of a mask, classes and doubles."""
    n = batch.n
    if not batch.planes:
        fill(batch, mask_of(n, 0.5), n, (np.arange(n) % 3).astype(np.uint8))
        batch.put("offsets", np.full(4, UNTOUCHED, np.uint32))
        batch.put("class_sorts", 0)
        batch.put("stale_count", 0)
    if symbol == "compact_device":
        return batch.compaction(True, **(batch.trigger(THETA) | fields))
    if symbol == "compact_classes_device":
        return batch.class_compaction(3, THETA, 0.5, **fields)
    return batch.reorder(**fields) if symbol == "reorder_device" else batch.class_reorder(3, **fields)


def each_call(test: Any, calls: list[str] = CALLS) -> Any:
    """A test for each call there is."""
    marked = [pytest.param(name, marks=symbols(name)) for name in calls]
    return filtering(pytest.mark.parametrize("symbol", marked)(test))


def each_reorder(test: Any) -> Any:
    """A test for each call that moves planes."""
    return each_call(test, CALLS[2:])


@each_call
@pytest.mark.parametrize("n", SIZES)
def test_a_query_tells_the_scratch_and_does_nothing(make: Make, symbol: str, n: int) -> None:
    batch = make(n)
    desc = desc_for(batch, symbol, scratch_bytes=-5)
    before = batch.state()
    batch.library.ok(symbol, byref(desc))
    assert head_of(desc).scratch_bytes > 0
    assert batch.state() == before


@each_call
@pytest.mark.eagle_symbols("team_size")
def test_every_team_gives_the_same(make: Make, device: Library, symbol: str) -> None:
    first, found = c_int32(), []
    device.ok("team_size", 0, byref(first))
    try:
        for team in (1, 2, 3, 8):
            device.ok("team_size", team, byref(c_int32()))
            batch = make(70_001)
            batch.call(symbol, desc_for(batch, symbol))
            found.append(batch.state())
    finally:
        device.ok("team_size", first.value, byref(c_int32()))
    assert all(state == found[0] for state in found)


# ---- refusals --------------------------------------------------------------------------------------------------------


@each_call
@pytest.mark.parametrize("scratch", [False, True], ids=["query", "call"])
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"n": -1}, Status.INVALID_ARGUMENT),
        ({"n": TOO_MANY}, Status.UNSUPPORTED),
        ({"flags": 1 << 7}, Status.UNSUPPORTED),
        ({"flags": 1 << 31}, Status.UNSUPPORTED),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        ({"struct_size": 0}, Status.INVALID_ARGUMENT),
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
    ],
    ids=str,
)
def test_a_bad_desc_is_refused_and_changes_nothing(
    make: Make, symbol: str, fields: dict[str, int], status: int, scratch: bool
) -> None:
    batch = make(100)
    desc = desc_for(batch, symbol)
    if scratch:
        batch.prepare(symbol, desc)
    for name, value in fields.items():
        setattr(head_of(desc), name, value)
    before = batch.state()
    batch.library.refuses(status, symbol, byref(desc))
    assert batch.state() == before


@filtering
@pytest.mark.parametrize(
    ("symbol", "fields", "status"),
    [
        pytest.param(*row, marks=symbols(row[0]), id=f"{row[0]}-{row[1]}")
        for row in [
            ("compact_device", {"flags": WITHIN_LIVE}, Status.UNSUPPORTED),
            ("compact_device", {"theta": 0.0}, Status.INVALID_ARGUMENT),
            ("compact_device", {"theta": 1.0}, Status.INVALID_ARGUMENT),
            ("compact_device", {"theta": float("nan")}, Status.INVALID_ARGUMENT),
            ("compact_device", {"reserved2": 1}, None),
            ("compact_device", {"span": 0}, Status.INVALID_ARGUMENT),
            ("compact_device", {"fire": 0}, Status.INVALID_ARGUMENT),
            ("compact_classes_device", {"struct_size": 104}, Status.UNSUPPORTED),
            ("compact_classes_device", {"struct_size": 151}, Status.UNSUPPORTED),
            ("compact_classes_device", {"classes": 1}, Status.INVALID_ARGUMENT),
            ("compact_classes_device", {"classes": 256}, Status.INVALID_ARGUMENT),
            ("compact_classes_device", {"live32": 0}, Status.INVALID_ARGUMENT),
            ("compact_classes_device", {"mixed32": 0}, Status.INVALID_ARGUMENT),
            ("compact_classes_device", {"class_fire": 0}, Status.INVALID_ARGUMENT),
            ("reorder_device", {"flags": MASK_IS_DROP | WITHIN_LIVE}, Status.UNSUPPORTED),
            ("reorder_classes_device", {"struct_size": 112}, Status.UNSUPPORTED),
            ("reorder_classes_device", {"classes": 1}, Status.INVALID_ARGUMENT),
            ("reorder_classes_device", {"classes": 256}, Status.INVALID_ARGUMENT),
        ]
    ],
)
def test_a_desc_of_its_own_faults_is_refused(
    make: Make, device: Library, symbol: str, fields: dict[str, Any], status: int | None
) -> None:
    batch = make(100)
    desc = desc_for(batch, symbol)
    batch.prepare(symbol, desc)
    for name, value in fields.items():
        owner = head_of(desc)
        setattr(owner if hasattr(owner, name) else desc, name, value)
    before = batch.state()
    device.refuses(status, symbol, byref(desc))
    assert batch.state() == before


@each_reorder
@pytest.mark.parametrize("size", [0, 3, 5, 6, 7, 12, 32])
def test_other_element_sizes_are_refused(make: Make, symbol: str, size: int) -> None:
    batch = make(100)
    desc = desc_for(batch, symbol)
    batch.prepare(symbol, desc)
    before = batch.state()
    ctypes.cast(head_of(desc).planes + 8, ctypes.POINTER(ctypes.c_uint32))[0] = size
    batch.library.refuses(Status.INVALID_ARGUMENT, symbol, byref(desc))
    assert batch.state() == before


def null_desc(library: Library, symbol: str) -> None:
    """A call without a desc."""
    library.refuses(None, symbol, None)


@each_call
def test_null_is_refused(device: Library, isolate: Isolate, symbol: str) -> None:
    isolate(null_desc, symbol)


def sort_of_a_class_too_many(library: Library) -> None:
    """A class sort that meets a class it has no room for: refused, or any order, but no crash."""
    batch = Batch(library, HostQuirks(), 1000)
    desc = desc_for(batch, "reorder_classes_device")
    batch.put("class_plane", np.full(1000, 200, np.uint8))
    desc = batch.class_reorder(3)
    batch.prepare("reorder_classes_device", desc)
    library.call("reorder_classes_device", byref(desc))
    batch.check_scratch()
    batch.state()


@filtering
@class_sorting
@pytest.mark.eagle_host
def test_a_class_out_of_range_does_no_damage(device: Library, isolate: Isolate) -> None:
    isolate(sort_of_a_class_too_many)
