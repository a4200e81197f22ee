# SPDX-License-Identifier: Apache-2.0
"""Sums and extremes over samples, and keyed sums, as plain loops in a given precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pair = tuple[Any, Any]

ROW, LEAF, SLOTS = 32, 4096, 256
SUM, MAX, MIN = 0, 1, 2  # reductions, as the core numbers them


def error(a: Any, b: Any, s: Any) -> Any:
    """What rounding a + b to s lost."""
    t = s - a
    return (a - (s - t)) + (b - t)


def join(a: Pair, b: Pair) -> Pair:
    """Two partial sums, each a sum and its compensation, as one: numbers, or arrays element by element."""
    s = a[0] + b[0]
    return kept(s, (a[1] + b[1]) + error(a[0], b[0], s))


def kept(s: Any, c: Any) -> Pair:
    """A sum and its compensation, which is zero where the sum is not finite."""
    if isinstance(s, np.ndarray):
        return s, np.where(s - s == 0, c, 0).astype(s.dtype)
    return s, c if s - s == 0 else type(s)(0)


def rows_of(terms: Array, nothing: float, combine: Callable[[Any, Any], Any], start: Callable[[Array], Any]) -> Any:
    """Every 32 terms combined, slot l with slot l + 16, then 8, 4, 2, 1; absent slots hold `nothing`.

    A slot is an array with an element per row, so that the loop goes over slots only.
    """
    count = -(-len(terms) // ROW)
    padded = np.full(count * ROW, nothing, terms.dtype)
    padded[:len(terms)] = terms
    slots = [start(np.ascontiguousarray(column)) for column in padded.reshape(count, ROW).T]
    for offset in (16, 8, 4, 2, 1):
        for slot in range(offset):
            slots[slot] = combine(slots[slot], slots[slot + offset])
    return slots[0]


class Sum:
    """What the tree does to terms x, each with a companion y or None."""

    def first(self, x: Any, y: Any) -> Pair:
        return kept(x, type(x)(0) if y is None else y)

    def add(self, p: Pair, x: Any, y: Any) -> Pair:
        total = join(p, (x, type(x)(0)))
        return total if y is None else kept(total[0], total[1] + y)

    join = staticmethod(join)

    def value(self, p: Pair) -> Any:
        return p[0] + p[1] if p[0] - p[0] == 0 else p[0]


class Extreme:
    """The largest term, or the smallest: NaN only where all are."""

    def __init__(self, larger: bool) -> None:
        self.larger = larger

    def first(self, x: Any, y: Any) -> Pair:
        return x, None

    def add(self, p: Pair, x: Any, y: Any) -> Pair:
        return self.join(p, (x, None))

    def join(self, a: Pair, b: Pair) -> Pair:
        if a[0] != a[0]:
            return b
        if b[0] != b[0]:
            return a
        return b if (b[0] > a[0] if self.larger else b[0] < a[0]) else a

    def value(self, p: Pair) -> Any:
        return p[0]


def walk(op: int, x: Array, comp: Array | None = None) -> Any:
    """The canonical reduction of `x` (a sum: with companions): leaves of 4096, 256 slots each, then neighbours in
    pairs, one operation after another; float64 in Python's floats, float32 in numpy's.
    """
    scalars = x.tolist() if x.dtype == np.float64 else list(x)
    companions = [None] * len(x) if comp is None else comp.tolist() if x.dtype == np.float64 else list(comp)
    rule: Any = Sum() if op == SUM else Extreme(op == MAX)
    with np.errstate(all="ignore"):
        level = []
        for begin in range(0, len(scalars), LEAF):
            terms = list(zip(scalars, companions, strict=True))[begin:begin + LEAF]
            slots = [rule.first(*term) for term in terms[:SLOTS]]
            for i, term in enumerate(terms[SLOTS:]):
                slots[i % SLOTS] = rule.add(slots[i % SLOTS], *term)
            for offset in (128, 64, 32, 16, 8, 4, 2, 1):
                for t in range(min(offset, len(slots) - offset)):
                    slots[t] = rule.join(slots[t], slots[t + offset])
            level.append(slots[0])
        while len(level) > 1:
            level = [a if b is None else rule.join(a, b) for a, b in zip_longest(level[::2], level[1::2])]
        return rule.value(level[0])


def canonical(high: Array, low: Array | None) -> Any:
    """The canonical sum of the pairs high[i] + low[i], in their precision."""
    return high.dtype.type(walk(SUM, high, low))


def cancelling(n: int, spread: int, dtype: type) -> Array:
    """Terms of widely different size of which nearly all cancel in pairs; the last is 1/3."""
    x = np.zeros(n, dtype)
    for i in range(n):
        h = (i * 2654435761 + 12345) % 2**32
        x[i] = math.ldexp(h % 2001 - 1000, (h >> 11) % (2 * spread + 1) - spread)
    k = n // 2
    for i in range(k):
        x[k + i] = -x[(7 * i + 3) % k]
    x[n - 1] = dtype(1) / dtype(3)
    return x


def sum_over_samples(terms: Array) -> Any:
    """What hawk.sum of `terms` is, in their precision: rows of 32, then the canonical sum of the rows."""
    with np.errstate(invalid="ignore", over="ignore"):
        high, low = rows_of(terms, 0.0, join, lambda slot: (slot, np.zeros_like(slot)))
        return canonical(high, low)


def check_sum(terms: Array, found: Any) -> None:
    """`found` is the correctly rounded sum of terms of one sign, to one unit in the last place."""
    exact = math.fsum(float(x) for x in terms)
    assert abs(float(found) - exact) <= float(np.spacing(terms.dtype.type(abs(exact)))), (found, exact)


def extreme_over_samples(terms: Array, largest: bool) -> Any:
    """The largest (or smallest) of `terms` that is a number, found one by one."""
    best = terms.dtype.type(-math.inf if largest else math.inf)
    for x in terms:
        if x > best if largest else x < best:
            best = x
    return best


def keyed_sum(start: Array, keys: Iterable[int], terms: Array, compensated: bool) -> Array:
    """`start` plus each term at its key, in the order of the samples; what rounding lost is added once at the end."""
    number = float if terms.dtype == np.float64 else terms.dtype.type
    total = [number(x) for x in start]
    lost = [number(0)] * len(start)
    for key, x in zip(keys, terms.tolist() if number is float else terms, strict=True):
        s = total[key] + x
        lost[key] += error(total[key], x, s)
        total[key] = s
    if compensated:
        total = [t + c for t, c in zip(total, lost, strict=True)]
    return np.array(total, terms.dtype)
