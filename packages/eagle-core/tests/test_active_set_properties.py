# SPDX-License-Identifier: Apache-2.0
"""ActiveSet against a model of a few lines of NumPy, whatever is called in whatever order."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import eagle

Array = np.ndarray[Any, Any]

SIZES = st.one_of(st.integers(0, 300), st.sampled_from([0, 1, 4095, 4096, 4097, 4128, 16_383, 16_385, 40_000]))
SHARES = st.sampled_from([0.0, 0.01, 0.1, 0.3, 0.7, 0.97, 1.0])
SEEDS = st.integers(0, 2**32 - 1)


def groups_of(kept: Array) -> Array:
    return np.unique(kept // 32)


def fires(kept: Array, theta: float, span: int) -> bool:
    full = float(np.float32(theta)) * 32 * len(groups_of(kept))
    return len(kept) < full and len(kept) < span and span >= 4096


@settings(max_examples=300, deadline=None)
@given(n=SIZES, live=SHARES, seed=SEEDS, theta=st.floats(0.25, 0.75), clumps=st.integers(1, 64))
def test_what_a_compaction_counts(n: int, live: float, seed: int, theta: float, clumps: int) -> None:
    random = np.random.default_rng(seed)
    mask = np.repeat(random.random(n // clumps + 1) >= live, clumps)[:n]
    classes = np.repeat(random.integers(0, 3, n // 50 + 1), 50)[:n].astype(np.uint8)
    active = eagle.ActiveSet(mask, reorder=theta, classes=3, class_plane=classes, class_theta=theta)
    stale = int(random.integers(0, 1 + n // 10))
    active.stale_count[0] = stale
    active.compact()
    kept = np.flatnonzero(~mask)
    mixed = sum(len(set(classes[kept[kept // 32 == group]])) > 1 for group in groups_of(kept))
    np.testing.assert_array_equal(active.map[:active.live], kept)
    assert int(active.live32[0]) == len(groups_of(kept))
    assert bool(active.fire[0]) == fires(kept, theta, n)
    assert int(active.mixed32[0]) == mixed
    many = mixed > 0 and mixed >= float(np.float32(theta)) * len(groups_of(kept)) and n >= 4096
    assert bool(active.class_fire[0]) == (many or 20 * stale > len(kept) or fires(kept, theta, n))


class Moves(RuleBasedStateMachine):
    """A reordering set beside arrays in sample order, which are what they are whatever moves."""

    @initialize(n=SIZES, classes=st.one_of(st.none(), st.integers(2, 255)), theta=st.floats(0.25, 0.75), seed=SEEDS)
    def begin(self, n: int, classes: int | None, theta: float, seed: int) -> None:
        self.random, self.n, self.theta = np.random.default_rng(seed), n, theta
        self.finished = np.zeros(n, bool)  # by sample, as all of these
        self.planes = {
            "numbers": np.arange(n), "bytes": self.random.integers(0, 255, n).astype(np.uint8),
            "vectors": self.random.random((3, n)).astype(np.float32), "pairs": self.random.random(n) + 1j}
        self.class_of = self.random.integers(0, classes or 1, n).astype(np.uint8)
        self.own = {name: plane.copy() for name, plane in self.planes.items()}
        self.mask, self.class_plane = self.finished.copy(), self.class_of.copy()
        options = {} if classes is None else {"classes": classes, "class_plane": self.class_plane}
        self.active = eagle.ActiveSet(self.mask, reorder=theta, **options).own(*self.own.values())
        self.classes, self.perm, self.span, self.kept, self.count = classes, np.arange(n), n, np.arange(n), n
        self.sorts = self.reorders = 0
        self.is_moved = False

    @rule(share=SHARES)
    def finish_some(self, share: float) -> None:
        self.finished |= self.random.random(self.n) < share
        self.mask[:] = self.finished[self.perm]

    @rule()
    def compact(self) -> None:
        self.active.compact()
        self.kept = np.flatnonzero(~self.finished[self.perm])
        self.count = len(self.kept)
        assert bool(self.active.fire[0]) == fires(self.kept, self.theta, self.span)

    def moved(self, order: Array) -> None:
        self.perm = np.concatenate([self.perm[order], self.perm[len(order):]])
        self.span = self.count = int((~self.finished[self.perm]).sum())
        self.kept, self.is_moved = np.arange(self.span), True

    @precondition(lambda self: self.classes is None)
    @rule()
    def reorder(self) -> None:
        self.compact()
        due = bool(self.active.fire[0])
        self.active.reorder()
        if due:
            self.moved(np.argsort(self.finished[self.perm[:self.span]], kind="stable"))
            self.reorders += 1

    @precondition(lambda self: self.classes is not None)
    @rule(if_fired=st.booleans())
    def class_sort(self, if_fired: bool) -> None:
        self.compact()
        due = bool(self.active.class_fire[0])
        assert self.active.class_sort(if_fired=if_fired) == (due or not if_fired)
        if due or not if_fired:
            slots = self.perm[:self.span]
            self.moved(np.argsort(np.where(self.finished[slots], 255, self.class_of[slots]), kind="stable"))
            self.sorts += 1
            counts = np.bincount(self.class_of[~self.finished], minlength=self.classes)
            np.testing.assert_array_equal(self.active.offsets, [0, *np.cumsum(counts)])

    @rule()
    def restore(self) -> None:
        self.active.restore()
        self.perm, self.span, self.is_moved = np.arange(self.n), self.n, False
        self.kept = np.flatnonzero(~self.finished)
        self.count = len(self.kept)

    @rule()
    def reset(self) -> None:
        self.active.reset()
        self.perm, self.span, self.kept, self.is_moved = np.arange(self.n), self.n, np.arange(self.n), False
        self.count, self.sorts, self.reorders = self.n, 0, 0

    @invariant()
    def agrees(self) -> None:
        active = self.active
        np.testing.assert_array_equal(active.perm, self.perm)
        np.testing.assert_array_equal(active.perm[active.inv], np.arange(self.n))
        np.testing.assert_array_equal(self.mask, self.finished[self.perm])
        np.testing.assert_array_equal(self.class_plane, self.class_of[self.perm])
        for name, plane in self.planes.items():
            np.testing.assert_array_equal(self.own[name], plane[..., self.perm], name)
            np.testing.assert_array_equal(active.in_sample_order(self.own[name]), plane, name)
        assert (active.live, int(active.span[0]), active.permuted) == (self.count, self.span, self.is_moved)
        np.testing.assert_array_equal(active.map[:self.count], self.kept)
        assert int(active.reorders[0]) == self.reorders
        assert self.classes is None or int(active.class_sorts[0]) == self.sorts


TestMoves = Moves.TestCase
TestMoves.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
