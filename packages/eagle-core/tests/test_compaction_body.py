# SPDX-License-Identifier: Apache-2.0
"""compaction_body: the parts of a loop, and a kernel stepped by hand with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compaction_kernels import decay

import eagle

Array = np.ndarray[Any, Any]


def test_parts_are_steps_a_compaction_and_perhaps_a_reorder() -> None:
    calls: list[int] = []
    small, large = eagle.ActiveSet(np.zeros(10, bool), reorder=0.5), eagle.ActiveSet(np.zeros(4096, bool), reorder=0.5)
    plain, finished = eagle.ActiveSet(np.zeros(5000, bool)), np.zeros(1, np.uint32)
    steps, compact = eagle.compaction_body(lambda: calls.append(1), plain, every=np.int64(5))
    steps()
    assert (calls, compact) == ([1] * 5, plain.compact)
    _, compact = eagle.compaction_body(calls.clear, plain, finished=finished)
    assert isinstance(compact, eagle.Skippable) and compact.guard.count_arr is finished
    assert len(eagle.compaction_body(calls.clear, small)) == 2
    assert len(eagle.compaction_body(calls.clear, small, reorder=True)) == 3
    assert len(eagle.compaction_body(calls.clear, large, reorder=False)) == 2
    parts = eagle.compaction_body(calls.clear, large)
    assert isinstance(parts[2], eagle.Skippable) and parts[2].guard.count_arr is large.fire
    assert len(eagle.compaction_body(calls.clear, plain, every=1, steps_per_call=4)) == 2


@pytest.mark.parametrize(("step", "options", "error", "words"), [
    (3, {}, TypeError, "step: found 3, a int, wanted a callable"),
    (print, {"active": 3}, TypeError, "active: found 3, a int, wanted an ActiveSet"),
    (print, {"every": "a"}, TypeError, "every: found 'a', a str, wanted an integer"),
    (print, {"every": True}, TypeError, "every: found True, a bool"),
    (print, {"every": 4.0}, TypeError, "every: found 4.0, a float"),
    (print, {"every": 3}, ValueError, "every: found 3 calls of 1 steps, wanted 4 steps or more"),
    (print, {"every": 1, "steps_per_call": 3}, ValueError, "every: found 1 calls of 3 steps"),
    (print, {"every": -8, "steps_per_call": 1}, ValueError, "every: found -8 calls"),
    (print, {"steps_per_call": 0}, ValueError, "steps_per_call: found 0, wanted an integer of 1 or more"),
    (print, {"steps_per_call": True}, ValueError, "steps_per_call: found True"),
    (print, {"steps_per_call": 2.0}, ValueError, "steps_per_call: found 2.0"),
    (print, {"reorder": True}, ValueError, "reorder: found True, for a set that does not reorder"),
    (print, {"reorder": 3}, ValueError, "reorder: found 3, wanted True, False or None"),
])
def test_bad_bodies_are_refused(step: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    active = options.pop("active", None) or eagle.ActiveSet(np.zeros(10, bool))
    with pytest.raises(error, match=f"^eagle.compaction_body: {words}"):
        eagle.compaction_body(step, active, **options)


class Batch:
    """Samples that count steps and finish after `lifetime` of them; a step visits what the map says, or all in play."""

    def __init__(self, n: int) -> None:
        self.lifetime = np.random.default_rng(n).integers(1, 60, n).astype(np.float64)
        self.lifetime[7 % n] = 70
        self.ages, self.mask = np.zeros(n), np.zeros(n, bool)
        self.finished, self.total = np.zeros(1, np.uint32), np.full(1, n, np.uint32)
        self.visits = 0

    def step(self, active: eagle.ActiveSet) -> None:
        slots = active.map[:active.live]
        slots = slots[~self.mask[slots]]
        self.visits += active.live
        self.ages[slots] += 1
        done = slots[self.ages[slots] >= self.lifetime[slots]]
        self.mask[done] = True
        self.finished += np.uint32(len(done))


@pytest.mark.parametrize("theta", [None, 0.75])
@pytest.mark.parametrize("n", [100, 9000])
def test_a_loop_steps_every_sample_until_it_is_done(n: int, theta: float | None) -> None:
    batch = Batch(n)
    lifetime = batch.lifetime.copy()
    active = eagle.ActiveSet(batch.mask, reorder=theta)
    if theta is not None:
        active.own(batch.ages, batch.lifetime)
    body = eagle.compaction_body(lambda: batch.step(active), active, every=4, finished=batch.finished)
    loop = eagle.repeat_while(body, eagle.SkipGuard(batch.finished, 0, batch.total, 0), 100)
    loop()
    assert (loop.iterations(), active.live) == (18, 0)
    assert active.permuted == (theta is not None and n > 4096)
    assert batch.visits < 60 * n
    active.restore()
    np.testing.assert_array_equal(batch.ages, lifetime)


def test_a_compacting_kernel_is_stepped_by_hand() -> None:
    rate, y, hits = np.array([.5, .6, .7, .8, .9]), np.ones(5), np.zeros(5)
    mask, fin, total = np.zeros(5, bool), np.zeros(1, np.uint32), np.full(1, 5, np.uint32)
    act = eagle.ActiveSet(mask)
    b = eagle.deploy(decay).bind(rate=rate, floor=.1, y=y, hits=hits, terminated=mask, finished_count=fin,
                                 **act.planes())
    loop = eagle.repeat_while(eagle.compaction_body(b.launch, act, every=4, finished=fin),
                              eagle.SkipGuard(fin, 0, total, 0), 25)
    loop()
    assert (loop.iterations(), act.live) == (6, 0)
    np.testing.assert_array_equal(hits, [4, 5, 7, 11, 22])


@pytest.mark.parametrize("every", [4, 16])
def test_reordering_changes_no_bit_of_any_sample(every: int) -> None:
    n, random = 20_000, np.random.default_rng(0)
    rates = 1 - random.random(n) ** 3 * 0.5 - 0.01
    found = []
    for theta in (None, 0.25, 0.75):
        rate, y, hits, mask = rates.copy(), np.ones(n), np.zeros(n), np.zeros(n, bool)
        fin, total = np.zeros(1, np.uint32), np.full(1, n, np.uint32)
        act = eagle.ActiveSet(mask, reorder=theta)
        if theta is not None:
            act.own(rate, y, hits)
        b = eagle.deploy(decay).bind(rate=rate, floor=.1, y=y, hits=hits, terminated=mask, finished_count=fin,
                                     **act.planes())
        eagle.repeat_while(eagle.compaction_body(b.launch, act, every=every, finished=fin),
                           eagle.SkipGuard(fin, 0, total, 0), 1000)()
        assert theta is None or int(act.reorders[0]) >= 1
        act.restore()
        assert act.live == 0
        found.append([array.tobytes() for array in (rate, y, hits, mask)])
    assert found[0] == found[1] == found[2]
    np.testing.assert_array_equal(mask, True)


# ---- bind ------------------------------------------------------------------------------------------------------------

N = 5000


def planes() -> dict[str, Any]:
    return {"rate": np.full(N, 0.5), "floor": 0.1, "y": np.ones(N), "hits": np.zeros(N),
            "finished_count": np.zeros(1, np.uint32)}


def test_bind_wants_every_plane_in_a_set_that_moves_samples() -> None:
    mask, given = np.zeros(N, bool), planes()
    act, plan = eagle.ActiveSet(mask, reorder=0.5), eagle.deploy(decay)
    with pytest.raises(ValueError, match="decay.bind: Mutable 'hits': found a plane that the ActiveSet of active_map "
                                         "does not move, wanted one it owns"):
        plan.bind(**given, terminated=mask, **act.planes())
    act.own(given["y"], given["hits"]).indirect(given["rate"])
    plan.bind(**given, terminated=mask, **act.planes())
    with pytest.raises(ValueError, match="own: planes: found a set whose planes are fixed"):
        act.own(given["rate"])
    with pytest.raises(ValueError, match="Terminated 'terminated': found a plane that the ActiveSet of active_map"):
        plan.bind(**given, terminated=mask.copy(), **act.planes())


def test_bind_refuses_planes_of_another_set_and_other_groups() -> None:
    mask, given, plan = np.zeros(N, bool), planes(), eagle.deploy(decay)
    other, act, groups = (eagle.ActiveSet(np.zeros(N, bool), reorder=0.5).own(given["y"]), eagle.ActiveSet(mask),
                          eagle.ActiveSet(mask, group=4))
    with pytest.raises(ValueError, match="decay.bind: Mutable 'y': found a plane that another ActiveSet moves"):
        plan.bind(**given, terminated=mask, **act.planes())
    with pytest.raises(ValueError, match="'active_map': found the map of an ActiveSet of group 4, wanted one of "
                                         "group 1, which the kernel has; make the set with group=1"):
        plan.bind(**planes(), terminated=mask, **groups.planes())
    del other
    plan.bind(**given, terminated=mask, **act.planes())
    plan.bind(**given, terminated=mask, active_map=np.arange(N, dtype=np.int32),
              active_count=np.array([N], np.uint32))  # a map of no set


def test_sets_and_partitions_do_not_go_together() -> None:
    with pytest.raises(ValueError, match="npartitions: found 2, wanted 1 for a kernel with an active set"):
        eagle.deploy(decay, npartitions=2)
