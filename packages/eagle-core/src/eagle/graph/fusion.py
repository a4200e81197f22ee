# SPDX-License-Identifier: Apache-2.0
"""``Fusion``: which consecutive launches may run tile by tile, together."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence

import numpy as np

from eagle.graph.tree import LAUNCH
from eagle.nodes import Node
from eagle.plan import BoundPlan
from eagle.plan.signature import Use
from eagle.stepping.relocation import Reach, reach

__all__ = ["Fusion"]


class Fusion:
    """Which consecutive launches run tile by tile, together; of a graph that is asked to, and for one build.

    Launches over the same samples, each of which touches of every plane that some of them writes the cells of its own
    sample alone, and which share memory only where a plane is the very same.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._local: dict[int, bool] = {}  # by the identity of a signature
        self._found: dict[tuple[int, ...], list[list[Node]]] = {}

    def runs(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The nodes in order; what runs together in one list."""
        key = tuple(map(id, nodes))
        if key not in self._found:
            self._found[key] = list(self._runs(nodes)) if self._wanted else [[node] for node in nodes]
        return self._found[key]

    def _runs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        run: list[Node] = []
        tiles = _Tiles()
        for node in nodes:
            fits = node.kind == LAUNCH and self._is_local(node)
            if fits and tiles.take(node):
                run.append(node)
                continue
            if run:
                yield run
            run, tiles = [], _Tiles()
            if fits and tiles.take(node):
                run.append(node)
            else:
                yield [node]
        if run:
            yield run

    def _is_local(self, node: Node) -> bool:
        """Whether each sample of a launch touches only its own cells of what is written."""
        bound: BoundPlan = node.payload.bound
        signature = bound.plan.signature
        if (known := self._local.get(id(signature))) is None:
            known = len(signature.stages) == 1 and reach(signature) >= Reach.LOCAL and all(
                slot.use is Use.SAMPLES or not slot.writes for slot in signature.stages[0].slots)
            self._local[id(signature)] = known
        whole = bound.plan.npartitions == 1 and bound.plan.partitions is None
        return known and whole and not bound.cleared


_Key = tuple[int, int, int, bool]  # address, bytes, width, whether it has a column a sample


class _Tiles:
    """What the launches of a run touch."""

    def __init__(self) -> None:
        self._n: int | None = None
        self._planes: dict[_Key, bool] = {}  # whether it is written
        self._spans: list[tuple[int, int, bool, _Key]] = []  # begin, end, written, whose
        self._longest = 0

    def take(self, node: Node) -> bool:
        """Whether a launch may join; if so it has."""
        bound = node.payload.bound
        if self._n is not None and bound.n != self._n:
            return False
        new: dict[_Key, bool] = {}
        for name, slot in bound.arguments.slots.items():
            array = bound.arguments.packed.get(name)
            if not isinstance(array, np.ndarray) or not array.size:
                continue
            own, begin = slot.use is Use.SAMPLES, int(array.ctypes.data)
            key = (begin, array.nbytes, slot.width, own)
            known = self._planes.get(key)
            asked = known is not None and (known or not slot.writes)
            if not asked and not self._is_apart(key, slot.writes):
                return False
            if known is not None and not own and (known or slot.writes):
                return False
            new[key] = new.get(key, False) or slot.writes
        self._n = bound.n
        for key, written in new.items():
            known = self._planes.get(key)
            self._planes[key] = bool(known) or written
            if known is None or written and not known:
                insort(self._spans, (key[0], key[0] + key[1], written, key))
                self._longest = max(self._longest, key[1])
        return True

    def _is_apart(self, key: _Key, written: bool) -> bool:
        """Whether nothing else that a plane overlaps is written, by it or by others."""
        begin, end = key[0], key[0] + key[1]
        at = bisect_right(self._spans, (end,)) - 1
        while at >= 0 and self._spans[at][0] > begin - self._longest:
            other = self._spans[at]
            if other[1] > begin and (written or other[2]) and other[3] != key:
                return False
            at -= 1
        return True
