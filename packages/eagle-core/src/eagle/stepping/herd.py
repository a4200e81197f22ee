# SPDX-License-Identifier: Apache-2.0
"""An active set beside a run: compacted now and then, its samples moved together where that may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import refusal
from eagle.nodes import Node
from eagle.plan.bound import lane_group
from eagle.stepping.active_set import ActiveSet
from eagle.stepping.binding import Binding
from eagle.stepping.model import Kernel, Model
from eagle.stepping.relocation import Reach, reach

__all__ = ["Herd", "make_herd"]

Array = np.ndarray[Any, Any]


class Herd:
    """An active set and how a run keeps it.

    It is compacted every `launches`; None: after each launch in which a sample finished. `moves`: samples are moved
    together where that is due, in the planes the set owns; `copies` are (copy, plane) of inputs, of which the copies
    move. `instead` are the arrays that launches take in place of those that were bound.
    """

    def __init__(self, active: ActiveSet, launches: int | None, moves: bool, copies: tuple[tuple[Array, Array], ...],
                 instead: Mapping[str, Array]) -> None:
        self.active, self.instead = active, instead
        self.moves = moves
        self._every, self._copies = launches, copies
        self._launches = self._seen = self.live = 0
        self.compactions = self.reorders = 0  #: of the last run

    def packed(self, door: str, binding: Binding) -> tuple[_core.Bound, ...]:
        """What the launches of a step run over the set."""
        return tuple(bound.packed(door, {name: array for name, array in self.instead.items()
                                         if name in bound.arguments.slots}) for bound in binding.bounds)

    def begin(self) -> None:
        """Start a run from the mask as it is, with every sample where it belongs."""
        if self.active.permuted:
            self.active.restore()
        self.compactions = self.reorders = self._launches = 0
        for copy, plane in self._copies:
            np.copyto(copy, plane)
        self.active.rebuild()
        self.live = self.active.live
        self._seen = self.active.n - self.live

    def follow(self, finished: int) -> None:
        """A launch is through, and so many samples are finished."""
        self._launches += 1
        if finished == self._seen if self._every is None else self._launches < self._every:
            return
        self._launches, self._seen = 0, finished
        self.active.compact()
        self.compactions += 1
        self.live = self.active.live
        if self.moves and (fire := self.active.fire) is not None and fire[0]:
            self.active.reorder()
            self.reorders += 1

    def end(self) -> None:
        """The run is over: every sample is where it was."""
        self.active.restore()
        self.active.compact()


def make_herd(door: str, model: Model, binding: Binding, theta: float | None, every: int | None) -> Herd:
    """The active set of a step over its planes. With `theta` it moves the samples of kernels whose results do not
    depend on where a sample is; a node sees them move, so it may have no planes of its own: ValueError, as for planes
    that another set moves, and for samples in groups."""
    group = max(lane_group(kernel.host) for kernel in model.kernels)
    if theta is not None and group > 1:
        raise ValueError(refusal(door, "reorder", str(theta), f"None: samples live and die in groups of {group}",
                                 "leave it out, or build the kernel without group="))
    if theta is not None and model.has_nodes:
        _refuse_planes_of_nodes(door, model, binding)
    active = ActiveSet(binding.mask, reorder=theta, group=group)
    moves = theta is not None and all(reach(kernel.signature) is Reach.MOVABLE for kernel in model.kernels)
    instead, copies = dict(active.planes()), []
    if moves:
        for name, plane in per_sample(binding).items():
            if name == model.mask:
                continue
            if name not in binding.written and not model.has_nodes:
                copies.append((np.empty_like(plane), plane))
                instead[name] = plane = copies[-1][0]
            active.own(plane)
    launches = None if every is None else every // int(model.steps)
    return Herd(active, launches, moves, tuple(copies), instead)


def per_sample(binding: Binding) -> dict[str, Array]:
    """The planes with a column a sample, by name, as the kernels take them."""
    return {name: bound.arguments.packed[name] for bound in binding.bounds
            for name, slot in bound.arguments.slots.items() if slot.is_plane and name in bound.arguments.packed}


def _refuse_planes_of_nodes(door: str, model: Model, binding: Binding) -> None:
    kernels = list(per_sample(binding).values())
    for i, item in enumerate(model.items):
        if isinstance(item, Kernel):
            continue
        assert isinstance(item, Node)
        for plane in (*item.reads, *item.writes):
            array = plane.array
            if np.ndim(array) and np.shape(array)[-1] == binding.n and not (
                    isinstance(array, np.ndarray) and any(np.may_share_memory(array, other) for other in kernels)):
                raise ValueError(refusal(door, f"plan[{i}], plane {plane.name!r}", "a plane that only a node has",
                                         "planes of the kernels: a reorder moves their samples, and not this one's",
                                         "leave reorder= out"))
