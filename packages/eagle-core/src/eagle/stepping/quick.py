# SPDX-License-Identifier: Apache-2.0
"""The exact case of simulate: arrays of numpy just as the kernels take them are packed in C, and stepped."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from types import NoneType
from typing import Any

import numpy as np

from eagle import _core
from eagle.plan.signature import Signature, Use
from eagle.roles import FINISHED_COUNT, FUSED_STEPS
from eagle.stepping.calling import Calling
from eagle.stepping.model import MOST_STEPS, Model
from eagle.stepping.result import SimResult
from eagle.stepping.split import SplitEngine
from eagle.stepping.steps import Engine

__all__ = ["Quick"]

DOOR = "eagle.simulate"
_ONE = np.ones(1, np.int64)  # np.ones takes a microsecond


class _Entry:
    """One kernel: what each slot of its block is called, in order."""

    def __init__(self, kernel: _core.Kernel, signature: Signature, parts: int,
                 partitions: tuple[tuple[int, int, int], ...]) -> None:
        self.kernel, self.parts, self.partitions = kernel, parts, partitions
        slots = signature.stages[0].slots
        cells = {cell.planes()[0]: cell.name for cell in signature.cells}
        self.names = tuple(cells.get(slot.name, slot.name) if slot.use is not Use.ROWS or slot.name in cells else ""
                           for slot in slots)
        self.mixes = {slot.name: slot.width for slot in slots if slot.use is Use.MIX}
        # The arrays that may have been made: numbers and what is left out.
        self.arrays = tuple((name, i) for i, (slot, name) in enumerate(zip(slots, self.names, strict=True))
                            if name and not slot.is_uniform and (slot.use in (Use.SAMPLES, Use.SINK, Use.ROWS)))
        self.writes = tuple(i for i, slot in enumerate(slots) if slot.writes and not slot.is_word and self.names[i])


class Quick:
    """Steps a model over planes that need no closer look."""

    def __init__(self, model: Model, calling: Calling, entries: tuple[_Entry, ...]) -> None:
        self._model, self._entries = model, entries
        self._positional = calling.positional or ()
        self._known = frozenset(calling.parameters)
        self._optional = tuple(name for name, one in calling.parameters.items() if one.optional)
        self._required = self._known.difference(
            self._optional, (name for name, one in calling.parameters.items() if one.slot is None or one.slot.optional))
        self._state = calling.names(state=True)
        self._auto = model.auto and len(model.items) == 1

    @staticmethod
    def of(model: Model, calling: Calling) -> Quick | None:
        """None where a model always needs a closer look."""
        if model.has_nodes or model.compacting or not all(_fits(kernel.signature) for kernel in model.kernels):
            return None
        return Quick(model, calling, tuple(
            _Entry(kernel.host.kernels.first, kernel.signature, kernel.host.npartitions, kernel.host.partitions or ())
            for kernel in model.kernels))

    def __call__(self, args: tuple[Any, ...], planes: dict[str, Any], max_steps: Any) -> SimResult | None:
        """The result of a run over `planes`, which is changed; None, before anything was changed, where some value is
        not exactly what its kernel takes."""
        if type(max_steps) is not int or not 0 < max_steps <= MOST_STEPS:
            return None
        if args:
            positional = self._positional[:len(args)]
            if len(args) > len(positional) or not planes.keys().isdisjoint(positional):
                return None
            planes |= zip(positional, args, strict=True)
        given = planes.keys()
        if not (given <= self._known and given >= self._required) or NoneType in map(type, planes.values()):
            return None
        allocated = tuple([name for name in self._optional if name not in planes])
        planes[FINISHED_COUNT] = counter = np.zeros(1, np.uint32)
        word = None
        if self._auto:
            planes[FUSED_STEPS] = word = _ONE.copy()
        bounds = self._bind(planes)
        if bounds is None:
            return None
        mask = planes[self._model.mask]
        n = mask.size
        if n == 0 or self._model.split is not None and not mask.ndim:
            return None
        whole = Engine(DOOR, self._model, bounds, n, counter, word, lambda: self._written(bounds))
        engine = whole if self._model.split is None else SplitEngine(DOOR, self._model, whole, planes, n, counter)
        began = perf_counter()
        _, steps, exact, mapped, _ = engine.run(max_steps, 0, True, None)
        wall = perf_counter() - began
        return SimResult({name: planes[name] for name in self._state}, mask,
                         (self._model, n, int(counter[0]), steps, exact, mapped, 0, 0, engine.verdict), wall, allocated)

    def _bind(self, planes: dict[str, Any]) -> tuple[_core.Bound, ...] | None:
        """Each kernel bound; what was made is among `planes` then."""
        bounds = []
        for entry in self._entries:
            for name, width in entry.mixes.items():
                planes[name] = np.zeros(width, np.uint32)
            bound = _core.Bound.exactly(entry.kernel, tuple(map(planes.get, entry.names)), entry.parts,
                                        entry.partitions)
            if bound is None:
                return None
            bounds.append(bound)
            found = bound.planes()
            for name, i in entry.arrays:
                planes[name] = found[i]
        return tuple(bounds) if len(bounds) == 1 or _core.Bound.alike(tuple(bounds)) else None

    def _written(self, bounds: tuple[_core.Bound, ...]) -> tuple[np.ndarray[Any, Any], ...]:
        """What a step changes."""
        planes = [(entry, bound.planes()) for entry, bound in zip(self._entries, bounds, strict=True)]
        return tuple(plane for entry, found in planes for i in entry.writes if (plane := found[i]) is not None)


def _fits(signature: Signature) -> bool:
    """Whether packing exactly given planes is all there is to bind, counters of branches aside."""
    first, *later = signature.stages
    others = replace(first, slots=tuple(slot for slot in first.slots if slot.use is not Use.MIX))
    return replace(signature, stages=(others, *later)).plain
