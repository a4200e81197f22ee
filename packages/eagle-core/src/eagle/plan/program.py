# SPDX-License-Identifier: Apache-2.0
"""The kernels of a call with every buffer they need: what eagle owns beside what the caller gives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eagle import _core, backends
from eagle.plan.arguments import Arguments
from eagle.plan.signature import Cell, Signature, Slot, Stage, Use

__all__ = ["Kernels", "bind"]

_OPS = {"sum": 0, "max": 1, "min": 2}  # as include/eagle/reduce/Canonical.h numbers them


class Kernels:
    """The prepared entries of a signature, one a stage."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._declared = tuple(self._prepare(stage, stage.slots) for stage in signature.stages)

    @property
    def first(self) -> _core.Kernel:
        return self._declared[0]

    def of(self, stage: int, slots: tuple[Slot, ...]) -> _core.Kernel:
        """The entry for these slots, which are the declared ones unless a plane declares no dtype."""
        declared = self._signature.stages[stage]
        return self._declared[stage] if slots == declared.slots else self._prepare(declared, slots)

    def _prepare(self, stage: Stage, slots: tuple[Slot, ...]) -> _core.Kernel:
        plugin = stage.plugin
        at = {slot.name: i for i, slot in enumerate(slots)}
        live = [i for i, slot in enumerate(slots) if slot.use is Use.LIVE]
        results = {cell.planes()[0]: cell for cell in stage.cells}
        return _core.Kernel(
            name=str(getattr(plugin, "name", None) or self._signature.kernel), backend=backends.host(),
            entry=plugin.host_entry, slots=tuple(_packed(slot, results.get(slot.name)) for slot in slots),
            keepalive=(plugin, getattr(plugin, "_keepalive", ())),
            serial=plugin.exec_access == "cross_sample_write", aliasable=self._signature.aliasable,
            lone=not self._signature.lanes.declared, live=live[0] if live else -1,
            lanes=stage.box[0], stride=stage.box[1],
            reductions=tuple((_OPS[cell.op], tuple(at[name] for name in cell.planes()),
                              tuple(at[name] for name in cell.lost())) for cell in stage.cells),
            folds=tuple((at[companion], at[sink], stage.folds[sink])
                        for companion, sink in stage.companions.items()))


def _packed(slot: Slot, cell: Cell | None) -> tuple[Any, ...]:
    """A slot as ``native/kernel.cpp`` reads it; the first rows of a cell go by the cell's name."""
    result = slot.is_output or (cell is not None and not cell.internal)
    return (cell.name if cell else slot.name, slot.kind, int(slot.box), slot.dtype.num, slot.width, slot.start,
            slot.writes, result, slot.zero, slot.omissible("run"), slot.omissible("call"), slot.dims)


def bind(door: str, signature: Signature, kernels: Kernels, arguments: Arguments, npartitions: int,
         partitions: Sequence[tuple[int, int, int]], copied: bool = True, cleared: Collection[str] = ()) -> _core.Bound:
    """Pack every stage over the arguments and over buffers of its own; `copied`: launches copy sample-major planes;
    `cleared`: outputs that each launch begins with zeros in."""
    buffers = arguments.packed | _owned(signature, arguments)
    counted: set[str] = set()
    begun: set[str] = set()
    for cell in signature.cells:
        result = np.zeros(cell.columns, signature.real) if cell.internal else buffers[cell.name]
        buffers[cell.name] = result
        for column, name in enumerate(cell.planes()):
            buffers.setdefault(name, result[column:column + 1])
    stages = []
    for i, stage in enumerate(signature.stages):
        slots = tuple(slot if slot.declared or slot.name not in arguments.slots
                      else replace(slot, dtype=arguments.slots[slot.name].dtype) for slot in stage.slots)
        results = {cell.planes()[0]: buffers[cell.name] for cell in stage.cells}
        values = tuple(results.get(slot.name) if slot.use is Use.ROWS else buffers.get(slot.name) for slot in slots)
        clears = tuple(buffers[slot.name] for slot in stage.slots if slot.writes and (
            slot.name in signature.keyed or slot.name in cleared and slot.name not in begun))
        begun.update(slot.name for slot in stage.slots)
        mixes = {slot.name: slot for slot in slots if slot.use is Use.MIX}
        if repeated := mixes.keys() & counted:  # a stage that takes the branches again does not count them again
            values = tuple(np.zeros(slot.width, slot.dtype) if slot.name in repeated else value
                           for slot, value in zip(slots, values, strict=True))
        counted |= mixes.keys()
        sizes = tuple(arguments.sizes.get(slot.name, -1) if slot.use is not Use.ROWS and slot.name not in repeated
                      else -1 for slot in slots)
        stages.append((kernels.of(i, slots), values, sizes, clears))
    return _core.Bound(tuple(stages), arguments.n, npartitions, tuple(partitions), arguments.watched(door),
                       arguments.copied() if copied else ())


def _owned(signature: Signature, arguments: Arguments) -> dict[str, Any]:
    """The buffers that are eagle's where the caller gives none."""
    owned: dict[str, Any] = {}
    n, given = arguments.n, arguments.packed
    for stage in signature.stages:
        for slot in stage.slots:
            if slot.name in given or slot.name in owned:
                continue
            if slot.use is Use.MAP:
                owned[slot.name] = np.arange(n, dtype=slot.dtype)
            elif slot.use is Use.LIVE:
                owned[slot.name] = np.array([n], slot.dtype)
            elif slot.use is Use.MIX:
                owned[slot.name] = np.zeros(slot.width, slot.dtype)
            elif slot.name in signature.keyed:
                width, axes = signature.keyed[slot.name]
                cells = [n // signature.lanes.row if extent is None else extent for _, extent in axes]
                owned[slot.name] = np.zeros(width * int(np.prod(cells)), slot.dtype)
    return owned
