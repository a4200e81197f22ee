# SPDX-License-Identifier: Apache-2.0
"""Edges of graphs: which views of memory share a byte, and what follows from it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle import _core

Plane = tuple[str, int, int, tuple[int, ...], tuple[int, ...], int, int]
READ, WRITTEN, BOTH = 0, 1, 2


def where(array):
    return array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize


def plane(name, node, array, access) -> Plane:
    return (name, node, *where(array), access)


def bytes_of(array) -> set[int]:
    """The addresses of every byte of an array, one by one."""
    return {array.__array_interface__["data"][0] + sum(i * s for i, s in zip(index, array.strides, strict=True)) + byte
            for index in np.ndindex(array.shape) for byte in range(array.itemsize)}


@st.composite
def views(draw, buffer):
    """A view of a buffer of bytes: any strides, also 0 and backwards, up to three axes, no alignment."""
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    shape = draw(st.lists(st.integers(0, 5), max_size=3))
    strides = [draw(st.integers(-40, 40)) for _ in shape]
    low = sum(min(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True) if n)
    high = sum(max(0, s * (n - 1)) for s, n in zip(strides, shape, strict=True) if n) + itemsize
    if high - low > buffer.nbytes:
        shape, strides, low, high = [], [], 0, itemsize
    offset = draw(st.integers(-low, buffer.nbytes - high))
    return np.ndarray(shape, f"u{itemsize}", buffer, offset, strides)


BUFFER = np.zeros(400, np.uint8)


@settings(max_examples=1500)
@given(views(BUFFER), views(BUFFER))
def test_overlap_is_a_common_byte(a, b):
    shared = not bytes_of(a).isdisjoint(bytes_of(b))
    assert np.shares_memory(a, b, max_work=-1) == shared
    assert _core.overlap(where(a), where(b)) == shared
    assert _core.overlap(where(b), where(a)) == shared


@pytest.mark.parametrize(("a", "b", "shared"), [
    (np.s_[:, 0], np.s_[:, 1], False),       # two columns of one matrix
    (np.s_[:, 0], np.s_[3:, 0], True),       # the tail of a column
    (np.s_[::2], np.s_[1::2], False),        # even and odd rows
    (np.s_[::-1], np.s_[:1], True),
    (np.s_[:0], np.s_[:], False),            # nothing shares nothing
    (np.s_[::2, ::3], np.s_[::4, 1::3], False),
    (np.s_[::2, ::3], np.s_[::4, 3::2], True)])
def test_views_of_a_matrix(a, b, shared):
    matrix = np.zeros((64, 7))
    assert _core.overlap(where(matrix[a]), where(matrix[b])) is shared


def test_nested_views_are_told_apart():
    whole = np.zeros((30, 31, 32), np.int16)
    assert not _core.overlap(where(whole[::2, ::3, ::4]), where(whole[::2, ::3, 2::4]))
    assert _core.overlap(where(whole[::2, ::3, ::4]), where(whole[4::5, ::7, ::3]))


def test_two_long_strides_are_told_apart_at_once():
    # 1 000 003 and 1 000 000 have no common divisor: only numbers tell, not ranges.
    a, b = (0, (10**6,), (10**6 * 8,), 8), (8, (10**6,), (1_000_003 * 8,), 8)
    assert _core.overlap(a, b, 5)  # 10**6 x == 1 + 1 000 003 y for x = 333334, y = 333333
    few = (8, (333_333,), (1_000_003 * 8,), 8)  # y < 333333
    assert not _core.overlap(a, few, 5)


def test_what_takes_too_long_overlaps():
    a, b = (0, (10**6,), (10**6 * 8,), 8), (8, (333_333,), (1_000_003 * 8,), 8)
    assert _core.overlap(a, b, 0)
    assert not _core.overlap(a, b)
    assert _core.OVERLAP_MAX_WORK == 100_000


@pytest.mark.parametrize("strides", [(2**62,), (-(2**63),), (2**62, 2**62)])
def test_impossible_arrays_overlap(strides):
    absurd = (2**63, (2**40,) * len(strides), strides, 8)
    assert _core.overlap(absurd, (0, (1,), (8,), 8))
    assert _core.overlap((0, (1,), (-(2**63),), 8), (4, (1,), (2**62,), 8))  # an axis of one element has no step


def test_axes_without_strides_are_refused():
    with pytest.raises(ValueError, match="strides"):
        _core.overlap((0, (1, 2), (8,), 8), (0, (1,), (8,), 8))
    with pytest.raises(ValueError, match="2 extents and 1 strides"):
        _core.derive_edges([("x", 0, 0, (1, 2), (8,), 8, READ)])
    with pytest.raises(ValueError, match="below 0"):
        _core.derive_edges([("x", -1, 0, (1,), (8,), 8, READ)])


def brute(planes: list[Plane], apart=lambda a, b: False) -> list[tuple[int, int, str, str]]:
    """The list of edges as the specification words it."""
    edges = []
    nodes = max((p[1] for p in planes), default=-1) + 1

    def meets(mine, dst, accesses):
        return any(p[1] == dst and p[6] in accesses and _shares(mine, p) for p in planes)

    for src in range(nodes):
        for dst in range(src + 1, nodes):
            if apart(src, dst):
                continue
            mine = [p for p in planes if p[1] == src]
            found = []
            for p in mine:
                if p[6] in (WRITTEN, BOTH):
                    found += [(src, dst, p[0], "RAW")] * meets(p, dst, (READ, BOTH))
                    found += [(src, dst, p[0], "WAW")] * meets(p, dst, (WRITTEN, BOTH))
            for p in mine:
                if p[6] in (READ, BOTH):
                    found += [(src, dst, p[0], "WAR")] * meets(p, dst, (WRITTEN, BOTH))
            edges += dict.fromkeys(found)
    return edges


def _shares(a: Plane, b: Plane) -> bool:
    def addresses(p):
        return {p[2] + sum(i * s for i, s in zip(index, p[4], strict=True)) + k
                for index in np.ndindex(p[3]) for k in range(p[5])}
    return not addresses(a).isdisjoint(addresses(b))


small_planes = st.lists(st.builds(
    lambda name, node, base, shape, stride, access: (name, node, 100 + base, (shape,), (stride,), 2, access),
    st.sampled_from(["x", "y", "out"]), st.integers(0, 7), st.integers(0, 12), st.integers(0, 3), st.integers(-4, 4),
    st.sampled_from([READ, WRITTEN, BOTH])), max_size=16)


@settings(max_examples=400)
@given(small_planes)
def test_edges_are_every_hazard_of_every_pair(planes):
    edges = _core.derive_edges(planes)
    assert edges.tuples() == tuple(brute(planes))
    assert len(edges) == len(brute(planes))


@settings(max_examples=300)
@given(small_planes, st.permutations(range(8)), st.integers(1, 6))
def test_branches_of_a_group_do_not_wait_for_each_other(planes, order, cut):
    outer = [order[:cut], order[cut:]]  # a group of all, and one inside its second branch
    inner = [order[cut:cut + 1], order[cut + 1:]]
    in_outer, in_inner = ({n: i for i, branch in enumerate(group) for n in branch} for group in (outer, inner))

    def apart(a, b):
        return in_outer[a] != in_outer[b] or (a in in_inner and b in in_inner and in_inner[a] != in_inner[b])

    assert _core.derive_edges(planes, [outer, inner]).tuples() == tuple(brute(planes, apart))
    conflicts = _core.sibling_conflicts(planes, [outer, inner])
    assert [(a, b, plane, kind) for a, b, plane, _, kind in conflicts] == brute(planes, lambda a, b: not apart(a, b))
    for a, b, mine, theirs, _ in conflicts:
        assert any(_shares(p, q) for p in planes for q in planes
                   if (p[0], p[1], q[0], q[1]) == (mine, a, theirs, b))


def test_a_conflict_names_both_planes():
    x = np.zeros(8)
    planes = [plane("mine", 3, x[:5], WRITTEN), plane("theirs", 4, x[4:], READ), plane("x", 9, x, BOTH)]
    assert _core.sibling_conflicts(planes, [[[3], [4]]]) == [(3, 4, "mine", "theirs", "RAW")]
    assert _core.sibling_conflicts(planes, [[[3, 4], [5]]]) == []


def test_meanings():
    assert _core.EDGE_MEANINGS == {"RAW": "data flows", "WAR": "must wait to overwrite", "WAW": "same output"}


def chain(n: int, *accesses: int) -> list[Plane]:
    """Nodes that all use the same planes."""
    arrays = [np.zeros(1000) for _ in accesses]
    return [plane(f"plane{k}", i, arrays[k], access) for i in range(n) for k, access in enumerate(accesses)]


def test_a_long_chain_in_place_is_fast():
    planes = chain(1000, BOTH, BOTH)
    begun = time.process_time()
    edges = _core.derive_edges(planes)
    assert time.process_time() - begun < 0.05
    assert len(edges) == 2 * 3 * 1000 * 999 // 2
