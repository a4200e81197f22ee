# SPDX-License-Identifier: Apache-2.0
"""Sums and extremes over samples, and keyed sums, as plain loops in a given precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Pair = tuple[Any, Any]

ROW, LEAF, SLOTS = 32, 4096, 256


def error(a: Any, b: Any, s: Any) -> Any:
    """What rounding a + b to s lost."""
    t = s - a
    return (a - (s - t)) + (b - t)


def join(a: Pair, b: Pair) -> Pair:
    """Two partial sums, each a sum and its compensation, as one: numbers, or arrays element by element."""
    s = a[0] + b[0]
    c = (a[1] + b[1]) + error(a[0], b[0], s)
    return s, np.where(s - s == 0, c, 0).astype(s.dtype) if isinstance(s, np.ndarray) else c if s - s == 0 else 0 * a[1]


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


def canonical(high: Array, low: Array) -> Any:
    """The canonical sum of the pairs high[i] + low[i]: leaves of 4096, 256 slots each, then neighbours in pairs."""
    real = high.dtype.type
    number = float if real is np.float64 else real  # the same arithmetic, and quicker
    leaves: list[Pair] = []
    for begin in range(0, len(high), LEAF):
        h = [number(x) for x in high[begin:begin + LEAF]]
        c = [number(x) for x in low[begin:begin + LEAF]]
        live = min(len(h), SLOTS)
        slots: list[Pair] = []
        for t in range(live):
            total, rest = h[t], c[t] if h[t] - h[t] == 0 else number(0)
            for i in range(t + SLOTS, len(h), SLOTS):
                s = total + h[i]
                finite = s - s == 0
                rest = rest + error(total, h[i], s) if finite else number(0)
                rest = rest + c[i] if finite else number(0)
                total = s
            slots.append((total, rest))
        offset = SLOTS // 2
        while offset:
            for t in range(min(offset, live - offset)):
                slots[t] = join(slots[t], slots[t + offset])
            offset //= 2
        leaves.append(slots[0])
    while len(leaves) > 1:
        pairs = [join(leaves[i], leaves[i + 1]) for i in range(0, len(leaves) - 1, 2)]
        leaves = pairs + leaves[len(leaves) - len(leaves) % 2:]
    total, rest = leaves[0]
    return real(total + rest if total - total == 0 else total)


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
