# SPDX-License-Identifier: Apache-2.0
"""``Fusion``: which consecutive launches may run tile by tile, together."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Iterator, Sequence

import numpy as np

from eagle import _core
from eagle.graph.tree import GROUP, LAUNCH, SEQUENCE, arms_of
from eagle.nodes import Node
from eagle.plan import BoundPlan
from eagle.plan.deploy import hawk_source
from eagle.plan.signature import Use
from eagle.stepping.relocation import Reach, reach

__all__ = ["Fusion"]


class Fusion:
    """Which consecutive launches may run tile by tile, together, and whether they do; for one build of a graph.

    Launches over the same samples, each of which touches of every plane that some of them writes the cells of its own
    sample alone, and which share memory only where a plane is the very same.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._local: dict[Hashable, _Slots | None] = {}  # by kernel
        self._found: dict[tuple[int, ...], list[list[Node]]] = {}

    def fusible(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The nodes in order; what may run together in one list."""
        key = tuple(map(id, nodes))
        if key not in self._found:
            self._found[key] = list(self._runs(nodes))
        return self._found[key]

    def fused(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The nodes in order; what does run together in one list."""
        return self.fusible(nodes) if self.enabled else [[node] for node in nodes]

    def within(self, node: Node) -> Iterator[list[Node]]:
        """What runs together of all that a node holds."""
        for arm in arms_of(node):
            for run in self.fused(arm):
                if len(run) > 1:
                    yield run
                else:
                    yield from self.within(run[0])

    def tiles(self, nodes: Sequence[Node], start: int = 0) -> list[int]:
        """Of each leaf the number of the run it is in, -1: it runs by itself. Numbers begin with `start`; those of runs
        within nodes come behind."""
        runs, found, number = self.fused(nodes), [], start
        inner = start + sum(len(run) > 1 for run in runs)
        for run in runs:
            if len(run) > 1:
                found += [number] * len(run)
                number += 1
            elif run[0].kind in (GROUP, SEQUENCE):
                for arm in arms_of(run[0]):
                    found += (some := self.tiles(arm, inner))
                    inner = max((inner, *(tile + 1 for tile in some)))
            else:
                found.append(-1)
        return found

    def _runs(self, nodes: Sequence[Node]) -> Iterator[list[Node]]:
        run: list[Node] = []
        tiles = _Tiles()
        for node in nodes:
            slots = self._slots_of(node.payload.bound) if node.kind == LAUNCH else None
            if slots is not None and tiles.take(node.payload.bound, slots):
                run.append(node)
                continue
            if run:
                yield run
            run, tiles = [], _Tiles()
            if slots is not None and tiles.take(node.payload.bound, slots):
                run.append(node)
            else:
                yield [node]
        if run:
            yield run

    def _slots_of(self, bound: BoundPlan) -> _Slots | None:
        """What a launch takes, if each of its samples touches only its own cells of what is written."""
        plan = bound.plan
        if plan.npartitions != 1 or plan.partitions is not None or bound.cleared:
            return None
        signature = plan.signature
        source = hawk_source(plan.plugin)
        key = (id(signature), None) if source is None else (id(source.kernel), source.digest)
        if key not in self._local:  # the same kernel may have been deployed often
            local = len(signature.stages) == 1 and reach(signature) >= Reach.LOCAL and all(
                slot.use is Use.SAMPLES or not slot.writes for slot in signature.stages[0].slots)
            self._local[key] = tuple((slot.name, slot.width, slot.use is Use.SAMPLES, slot.writes)
                                               for slot in signature.arguments) if local else None
        return self._local[key]


_Slots = tuple[tuple[str, int, bool, bool], ...]  # name, width, whether it has a column a sample, whether it is written
_Key = tuple[int, int, int, bool]  # address, bytes, width, whether it has a column a sample


class _Tiles:
    """What the launches of a run touch."""

    def __init__(self) -> None:
        self._n: int | None = None
        self._planes: dict[_Key, bool] = {}  # whether it is written
        self._spans: list[tuple[int, int, bool, _Key]] = []  # begin, end, written, whose
        self._longest = 0

    def take(self, bound: BoundPlan, slots: _Slots) -> bool:
        """Whether a launch may join; if so it has."""
        if self._n is not None and bound.n != self._n:
            return False
        packed = bound.arguments.packed
        new: dict[_Key, bool] = {}
        for name, width, own, writes in slots:
            array = packed.get(name)
            if not isinstance(array, np.ndarray) or not array.size:
                continue
            key = (_core.address(array), array.nbytes, width, own)
            known = self._planes.get(key)
            asked = known is not None and (known or not writes)
            if not asked and not self._is_apart(key, writes):
                return False
            if known is not None and not own and (known or writes):
                return False
            new[key] = new.get(key, False) or writes
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
        while at >= 0 and (other := self._spans[at])[0] > begin - self._longest:
            if other[1] > begin and (written or other[2]) and other[3] != key:
                return False
            at -= 1
        return True
