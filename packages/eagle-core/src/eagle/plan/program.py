# SPDX-License-Identifier: Apache-2.0
"""The kernels of a call with every buffer they need: what eagle owns beside what the caller gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eagle import _core, backends
from eagle.errors import refusal
from eagle.plan.arguments import Arguments, rows_of
from eagle.plan.signature import Cell, Signature, Slot, Stage, Use

__all__ = ["Kernels", "bind"]

_OPS = {"sum": 0, "max": 1, "min": 2}  # as include/eagle/reduce/Canonical.h numbers them


class Kernels:
    """The prepared entries of a signature, one a stage."""

    def __init__(self, door: str, signature: Signature) -> None:
        self._signature = signature
        self._declared = tuple(self._prepare(stage, stage.slots) for stage in signature.stages)
        for stage in signature.stages:
            for target in stage.companions.values():
                if target not in (getattr(stage.plugin, "fold_entries", None) or {}):
                    raise ValueError(refusal(door, f"kernel {signature.kernel!r}", f"no entry that folds {target!r}",
                                             "one for every sink with a companion",
                                             "load its bundle with eagle.load_bundle"))

    @property
    def first(self) -> _core.Kernel:
        return self._declared[0]

    def of(self, stage: int, slots: tuple[Slot, ...]) -> _core.Kernel:
        """The entry for these slots, which are the declared ones unless a plane declares no dtype."""
        declared = self._signature.stages[stage]
        return self._declared[stage] if slots == declared.slots else self._prepare(declared, slots)

    def _prepare(self, stage: Stage, slots: tuple[Slot, ...]) -> _core.Kernel:
        plugin = stage.plugin
        live = [i for i, slot in enumerate(slots) if slot.use is Use.LIVE]
        return _core.Kernel(
            name=str(getattr(plugin, "name", None) or self._signature.kernel), backend=backends.host(), entry=plugin.host_entry,
            slots=tuple((s.name, s.role, int(s.box), s.dtype.num, s.width, s.start, s.writes, s.is_output, s.zero,
                         s.omissible("run"), s.omissible("call")) for s in slots),
            keepalive=(plugin, getattr(plugin, "_keepalive", ())),
            serial=plugin.exec_access == "cross_sample_write", aliasable=self._signature.aliasable,
            live=live[0] if live else -1, lanes=stage.box[0], stride=stage.box[1])


def bind(signature: Signature, kernels: Kernels, arguments: Arguments, npartitions: int,
         partitions: Sequence[tuple[int, int, int]]) -> _core.Bound:
    """Pack every stage over the arguments and over buffers of its own."""
    buffers = arguments.packed | _owned(signature, arguments)
    cells = {cell.name: _outcome(signature, cell, buffers) for cell in signature.cells}
    for cell in signature.cells:
        for column, name in enumerate(cell.planes()):
            buffers.setdefault(name, cells[cell.name][column:column + 1])
    stages = []
    for i, stage in enumerate(signature.stages):
        slots = tuple(slot if slot.declared or slot.name not in arguments.slots
                      else replace(slot, dtype=arguments.slots[slot.name].dtype) for slot in stage.slots)
        rows = {name: np.zeros(rows_of(arguments.n), signature.real)
                for name in (slot.name for slot in slots if slot.use is Use.ROWS)}
        stages.append((kernels.of(i, slots), tuple((buffers | rows).get(slot.name) for slot in slots),
                       _clears(signature, i, buffers, arguments), _folds(signature, i, buffers, arguments),
                       tuple(_finish(cell, name, column, rows, cells) for cell in stage.cells
                             for column, name in enumerate(cell.planes()))))
    return _core.Bound(tuple(stages), arguments.n, npartitions, tuple(partitions))


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
        for companion, target in stage.companions.items():
            if companion not in given and companion not in owned:
                owned[companion] = np.zeros_like((given | owned)[target])
    return owned


def _outcome(signature: Signature, cell: Cell, buffers: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Where a cell's columns go: the caller's array, or one that only the stages see."""
    if cell.internal:
        return np.zeros(cell.columns, signature.real)
    array: np.ndarray[Any, Any] = buffers[cell.name]
    return array


def _clears(signature: Signature, at: int, buffers: dict[str, Any], arguments: Arguments) -> tuple[Any, ...]:
    """What starts each launch at zero: sums between stages and companions, before the first stage that adds to them."""
    names = [*signature.keyed, *(name for stage in signature.stages for name in stage.companions)]
    return tuple(buffers[name] for name in dict.fromkeys(names) if name not in arguments.packed and at == next(
        i for i, stage in enumerate(signature.stages) if any(slot.name == name for slot in stage.slots)))


def _folds(signature: Signature, at: int, buffers: dict[str, Any], arguments: Arguments) -> tuple[tuple[int, int], ...]:
    """The entries that put a companion into its sink, behind the last stage that adds to both."""
    stage = signature.stages[at]
    later = {slot.name for other in signature.stages[at + 1:] for slot in other.slots}
    return tuple((stage.plugin.fold_entries[target], buffers[target].size)
                 for companion, target in stage.companions.items()
                 if companion not in arguments.packed and companion not in later)


def _finish(cell: Cell, rows_name: str, column: int, rows: dict[str, Any],
            cells: dict[str, Any]) -> tuple[str, int, Any, Any, Any, int]:
    return (cell.name, _OPS[cell.op], rows[rows_name], rows.get(f"{rows_name}_comp"), cells[cell.name], column)
