# SPDX-License-Identifier: Apache-2.0
"""The planes of a step, bound: one array a name for all kernels, and what is copied before and behind a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import ArgumentError, BufferRefused, LayoutError, refusal
from eagle.interop.buffer import view_for
from eagle.interop.frameworks import Adapter, detect
from eagle.plan import BoundPlan, samples_first, samples_last
from eagle.plan.layout import overlaps_itself, unmarked
from eagle.plan.signature import Slot
from eagle.plan.values import check_overlap
from eagle.roles import FINISHED_COUNT, FUSED_STEPS
from eagle.stepping.interrupts import between
from eagle.stepping.model import Kernel, Model

__all__ = ["Answer", "Binding", "bind_step"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Answer:
    """Our copy of a written plane of another framework, in the shape the caller gave it."""

    array: Array
    adapter: Adapter

    def deliver(self) -> Any:
        """A fresh array of the framework."""
        return self.adapter.from_numpy(self.array.copy())


@dataclass
class Binding:
    """Kernels bound over one set of planes."""

    pairs: tuple[tuple[BoundPlan, _core.Bound], ...]  #: each kernel, and what its launches run
    n: int
    one: bool  #: one sample, without an axis for it
    mask: Array  #: the finish mask as the kernels take it, (n,)
    shown: Array  #: the caller's mask; of one sample the (1,) view
    planes: dict[str, Any]  #: what `result` gives: the caller's own objects, and masks we made
    answers: dict[str, Answer] = field(default_factory=dict)
    #: (copy, plane, whether it is written) of sample-major planes, copied in before a run, and back
    copies: tuple[tuple[Array, Array, bool], ...] = ()
    written: dict[str, Array] = field(default_factory=dict)  #: what a step changes, as the kernels take it

    @property
    def bounds(self) -> tuple[BoundPlan, ...]:
        return tuple(bound for bound, _ in self.pairs)

    @property
    def packed(self) -> tuple[_core.Bound, ...]:
        return tuple(packed for _, packed in self.pairs)

    def run(self, engine: Callable[..., Any], *options: Any) -> Any:
        """What `engine` gives for the options, with sample-major planes copied before it and back behind it; not back
        where a plane moved meanwhile."""
        if not self.copies:
            return engine(*options)
        moved = False

        def run() -> Any:
            nonlocal moved
            try:
                return engine(*options)
            except BufferRefused:
                moved = True
                raise

        return between(run, lambda: None if moved else self.end(), self.begin)

    def begin(self) -> None:
        """What comes before a run."""
        for copy, plane, _ in self.copies:
            np.copyto(copy, plane)

    def end(self) -> None:
        """What comes behind it."""
        for copy, plane, writes in self.copies:
            if writes:
                np.copyto(plane, copy)


def bind_step(door: str, model: Model, layout: str | None, planes: Mapping[str, Any], counter: Array,
              word: Array | None) -> Binding:
    """Bind every kernel of a step over the planes it declares. Raises what Plan.bind raises, for the door `door`."""
    _check_names(door, model, planes)
    slots = _union(model)
    given, axes = unmarked(door, planes)
    answers = {name: Answer(_own_copy(door, slot, given[name]), adapter) for name, slot in slots.items()
               if slot.writes and name in given and (adapter := _foreign(given[name])) is not None}
    given |= {name: answer.array for name, answer in answers.items()}
    for name, axis in axes.items():
        given[name] = (samples_first if axis == "first" else samples_last)(given[name])
    bounds: dict[int, BoundPlan] = {}
    copies: dict[str, tuple[Array, Array, bool]] = {}
    made: dict[str, Array] = {}
    # Masks that are left out take the shape of the first kernel's that has one: those that finish come first.
    for i, kernel in sorted(enumerate(model.kernels), key=lambda pair: pair[1].finish is None):
        names = _names(kernel) if len(model.kernels) > 1 else given.keys() | made.keys()  # bind refuses the unknown
        own = {name: value for name, value in (given | made).items() if name in names}
        own |= _words(kernel, model, counter, word)
        bounds[i] = kernel.plan.bind_by_name(door, (), None, layout, own, mode="step",
                                             known=answers.keys() | copies.keys())
        arguments = bounds[i].arguments
        for name, array in arguments.made.items():
            made[name] = array.reshape(()) if arguments.one else array
        for (name, _), (copy, plane, _, _) in zip(arguments.copies.items(), arguments.copied(), strict=True):
            _check_written(door, slots[name], plane)
            copies[name] = copy, plane, slots[name].writes
            given[name] = samples_last(copy)
    ordered = tuple(bounds[i] for i in range(len(model.kernels)))
    n = _samples(door, model, ordered)
    if len(ordered) > 1:
        _share_nothing(door, slots, ordered, {name: plane for name, (_, plane, _) in copies.items()})
    first = next(bound for bound, kernel in zip(ordered, model.kernels, strict=True) if kernel.finish is not None)
    mask = first.arguments.packed[model.mask]
    for name in answers.keys() & copies.keys():
        ours, plane, _ = copies.pop(name)
        np.copyto(ours, plane)
        answers[name] = Answer(_as_given(answers[name].array, ours, plane), answers[name].adapter)
    results = {name: value for name, value in unmarked(door, planes)[0].items() if name in slots} | made
    written = {name: bound.arguments.packed[name] for bound in ordered for name, slot in bound.arguments.slots.items()
               if slot.writes and not slot.is_word and name in bound.arguments.packed}
    shown = mask if first.arguments.one else results[model.mask] if model.mask not in answers else \
        answers[model.mask].array
    return Binding(tuple((bound, bound.packed(door)) for bound in ordered), n, first.arguments.one, mask,
                   shown, results, answers, tuple(copies.values()), written)


def _check_written(door: str, slot: Slot, plane: Array) -> None:
    """Refuse a plane that some kernel of the step writes, and that nothing can be copied back to."""
    if slot.writes and (not plane.flags.writeable or overlaps_itself(plane)):
        found = "an array whose elements share memory" if plane.flags.writeable else "a read-only array"
        raise BufferRefused(refusal(door, slot.what, found, "a writable array", "pass an array of your own"))


def _as_given(array: Array, copy: Array, plane: Array) -> Array:
    """`copy`, component-major, as a view in the shape of `array`; `plane` is that with the samples last."""
    turned = copy.reshape(plane.shape)
    return np.moveaxis(turned, -1, 0).reshape(array.shape) if turned.ndim > 1 else turned


def _foreign(value: Any) -> Adapter | None:
    """The adapter of an array that is neither of numpy nor cupy's."""
    if isinstance(value, np.ndarray | np.generic | int | float) or value is None:
        return None
    adapter = detect(value)
    return None if adapter is None or adapter.cuda or adapter.name in ("numpy", "cupy") else adapter


def _own_copy(door: str, slot: Slot, value: Any) -> Array:
    return np.array(np.asarray(view_for(door, slot.what, value)), copy=True, order="C")


def _union(model: Model) -> dict[str, Slot]:
    """Every slot a caller may give, once; one that some kernel writes counts as written."""
    found: dict[str, Slot] = {}
    for kernel in model.kernels:
        for slot in kernel.signature.arguments:
            if slot.name not in found or slot.writes:
                found[slot.name] = slot
    return found


def _names(kernel: Kernel) -> set[str]:
    return {slot.name for slot in kernel.signature.arguments} | kernel.signature.labels | kernel.signature.unread


def _check_names(door: str, model: Model, planes: Mapping[str, Any]) -> None:
    """Refuse names that no kernel of several declares; of one kernel bind does."""
    if len(model.kernels) == 1:
        return
    known = set().union(*map(_names, model.kernels))
    for name in planes:
        if name not in known:
            names = sorted({name for kernel in model.kernels for name in kernel.signature.names})
            raise ArgumentError(refusal(door, f"argument {name!r}", "a name that no kernel of the step declares",
                                        f"one of {names}", f"leave {name}= out"))


def _words(kernel: Kernel, model: Model, counter: Array, word: Array | None) -> dict[str, Any]:
    """The words of a kernel that are the run's; in a step of several items each launch takes one step."""
    slots = {slot.name for slot in kernel.signature.arguments}
    words: dict[str, Any] = {FINISHED_COUNT: counter} if FINISHED_COUNT in slots else {}
    if FUSED_STEPS in slots and word is not None:
        words[FUSED_STEPS] = word
    return words


def _samples(door: str, model: Model, bounds: tuple[BoundPlan, ...]) -> int:
    """The samples of a step, the same in each kernel."""
    n, first = bounds[0].n, model.kernels[0]
    for kernel, bound in zip(model.kernels, bounds, strict=True):
        if bound.n != n:
            raise LayoutError(refusal(door, f"kernels {first.name!r} and {kernel.name!r}",
                                      f"planes of {n} and of {bound.n} samples", "one number of samples",
                                      "every plane of a step has the same number of samples"))
    return n


def _share_nothing(door: str, slots: Mapping[str, Slot], bounds: tuple[BoundPlan, ...],
                   copied: dict[str, Array]) -> None:
    """Refuse two names of a step for one memory, one of them written. `copied` are the planes that have copies."""
    memory = {name: array for bound in bounds for name, array in bound.arguments.packed.items()
              if isinstance(array, np.ndarray) and name in slots} | copied
    for name, output in check_overlap(door, tuple(slots.values()), False, memory, ()).items():
        raise LayoutError(refusal(door, f"{name!r} and {output!r}", "one array, which the step writes",
                                  "separate arrays", f"pass a copy for {name!r}"))
