# SPDX-License-Identifier: Apache-2.0
"""A model run branch by branch: samples that take one branch of a dispatch group are stepped together, by a kernel that
has that branch alone.

Samples stay where they are: those of the other branches are masked, and the engine brings what is left together in its
lanes. So a kernel may use its position, and nothing has to be put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import BufferRefused, refusal
from eagle.plan import AutoPlan
from eagle.roles import ACTIVE_COUNT, ACTIVE_MAP, FINISHED_COUNT, FUSED_STEPS
from eagle.stepping.branches import Branches, Group, take_apart
from eagle.stepping.costs import EARLY, ENTER, KEEP, Cost, branch_costs, predicted_gain, same_bits
from eagle.stepping.dispatch import Dispatch
from eagle.stepping.items import build_kernels
from eagle.stepping.model import Model, read_model
from eagle.stepping.relocation import Reach
from eagle.stepping.report import Verdict
from eagle.stepping.steps import Engine

__all__ = ["Division", "Split", "SplitEngine", "read_split"]

Array = np.ndarray[Any, Any]
Build = Callable[[Sequence[Any]], Sequence[AutoPlan]]
Progress = Callable[[int, int], object]


class Division:
    """A group of a model's kernel, and what it takes to split it. `build` deploys hawk kernels."""

    def __init__(self, group: Group, branches: Branches, build: Build) -> None:
        self.name, self.size, self.fixed = group.name, group.size, group.fixed
        self.selector = branches.selector  #: the plane that says which branch a sample takes
        self._branches, self._build = branches, build

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The branches; built when a run first splits."""
        return tuple(read_model("eagle.simulate", plan) for plan in self._build(self._branches.kernels))

    @cached_property
    def classifier(self) -> AutoPlan | None:
        """The kernel that writes the selector; None where that is a plane of the model."""
        kernel = self._branches.classifier
        return None if kernel is None else self._build([kernel])[0]

    @cached_property
    def same_bits(self) -> bool:
        """Whether a split never changes one, so that a run may decide."""
        return same_bits()

    @cached_property
    def costs(self) -> tuple[Cost, ...]:
        """Of each branch."""
        return branch_costs(self._branches.kernels)


@dataclass(frozen=True)
class Split:
    """How the kernel of a model may be split; `forced`: it is, at the only division."""

    divisions: tuple[Division, ...]
    forced: bool


def read_split(door: str, dispatch: Dispatch, plan: AutoPlan, model: Model) -> Split | None:
    """How a run may split the one kernel of a model, which was built as `plan`; None where it may not. ValueError where
    it is to, and its samples do not go one by one."""
    forced = f"dispatch, group {dispatch.divisible[0].name!r}" if dispatch.forced else None
    if model.reach < Reach.LOCAL:
        if forced is not None:
            raise ValueError(refusal(door, forced, f"'segmented' with kernel {plan.kernel.name!r}, whose samples are "
                                     "not known to be independent of each other", "one without sums, scattered writes "
                                     "and broadcast planes", "choose 'switch'"))
        return None
    found = ((group, take_apart(plan.kernel, group.name)) for group in dispatch.divisible)
    divisions = tuple(Division(group, branches, lambda kernels: build_kernels(door, kernels, plan.plugin.scalar_type))
                      for group, branches in found if branches is not None)
    if forced is not None and not divisions:
        raise ValueError(refusal(door, forced, "'segmented', and a loop of the step uses what the group gives",
                                 "a group that is used outside of loops", "choose 'switch'"))
    return Split(divisions, dispatch.forced) if divisions else None


class SplitEngine:
    """Steps the samples of a model as :class:`Engine` does, branch by branch while that is predicted to pay.

    `engine` steps them without a split. `values` are what the kernel was bound to, by name: flat arrays and numbers.
    """

    def __init__(self, door: str, model: Model, engine: Engine, values: Mapping[str, Any], n: int,
                 counter: Array) -> None:
        assert model.split is not None
        self.split: Split = model.split
        self.engine, self.n, self.counter, self.mask = engine, n, counter, values[model.mask]
        self._door, self._model, self._values = door, model, values
        self.classes = np.empty(n, np.uint8)  # of each sample at the last look; behind the branches: finished
        self.rest, self._own = np.empty(n, np.bool_), np.empty(n, np.bool_)  # the mask of a branch; who is of it
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self._selectors = {one.name: _Selector(one, values, n) for one in self.split.divisions}
        self.stopped = False
        self.verdict = self.nothing()

    def nothing(self) -> Verdict:
        """The verdict of a run with nothing to do."""
        policy = "segmented" if self.split.forced else "switch"
        return Verdict({one.name: (policy, (0,) * one.size, 1.0) for one in self.split.divisions})

    def run(self, max_steps: int, threads: int, native: bool,
            progress: Progress | None) -> tuple[int, int, bool, int, bool]:
        """As :meth:`Engine.run`; :attr:`verdict` tells more."""
        self.stopped = False
        course = _Course(self, max_steps, threads, native, progress)
        try:
            course.run()
        finally:
            self.verdict = course.verdict()
        return course.launches, course.steps, course.exact, course.visits, self.stopped

    def stop(self) -> None:
        """Let a run in another thread return at its next round."""
        self.stopped = True
        self.engine.stop()
        for parts in list(self._parts.values()):
            for part in parts:
                part.engine.stop()

    def look(self, division: Division) -> tuple[int, ...]:
        """The live samples of each branch."""
        self._selectors[division.name].read(self._door, self.classes)
        if self.counter[0]:
            np.putmask(self.classes, self.mask, division.size)
        return tuple(self._samples(i) for i in range(division.size))

    def _samples(self, branch: int) -> int:
        """Masks all samples but those of a branch; how many these are."""
        return self.n - int(np.count_nonzero(np.not_equal(self.classes, branch, out=self.rest)))

    def parts(self, division: Division, *, profiting: bool = False) -> tuple[_Part, ...]:
        """The branches over the planes; of those that are not `profiting` the whole kernel, where that is asked for."""
        if division.name not in self._parts:
            values = {**self._values, self._model.mask: self.rest}
            if self._model.compacting:  # launches go over all samples
                values[ACTIVE_MAP] = np.arange(self.n, dtype=np.int32)
                values[ACTIVE_COUNT] = np.full(1, self.n, np.uint32)
            self._parts[division.name] = tuple(
                _Part(self._door, self._model if profiting and not cost.profits else model, values, self.n)
                for model, cost in zip(division.models, division.costs, strict=True))
        return self._parts[division.name]

    def step(self, branch: int, part: _Part, max_steps: int, threads: int, native: bool,
             progress: Progress | None) -> tuple[int, bool, int]:
        """Step the samples of a branch, as of the last look: (steps, whether these are exact, visits)."""
        live = self._samples(branch)
        if not live or self.stopped:
            return 0, True, 0
        others, before = self.n - live, int(self.counter[0])
        part.counter[0] = others
        told = None if progress is None else lambda done, steps: progress(before + done - others, steps)
        try:
            _, steps, exact, visits, stopped = part.engine.run(max_steps, threads, native, told)
        finally:
            np.logical_and(self.rest, np.equal(self.classes, branch, out=self._own), out=self._own)
            np.logical_or(self.mask, self._own, out=self.mask)
            self.counter[0] = np.count_nonzero(self.mask)
        self.stopped |= stopped
        return steps, exact, visits


class _Course:
    """One run of a split engine, and what it comes to."""

    def __init__(self, over: SplitEngine, max_steps: int, threads: int, native: bool,
                 progress: Progress | None) -> None:
        self._over, self._max_steps, self._how, self._progress = over, max_steps, (threads, native), progress
        self._groups = dict(over.nothing().groups)
        self.launches = self.steps = self.visits = self._sorts = self._split_steps = self._branches = 0
        self.exact = True

    def verdict(self) -> Verdict:
        return Verdict(self._groups, self._sorts, self._split_steps, self._branches)

    def run(self) -> None:
        over = self._over
        over.counter[0] = np.count_nonzero(over.mask)
        if over.split.forced:
            self._forced(over.split.divisions[0])
        elif self._left > 0:
            self._decided()

    @property
    def _left(self) -> int:
        over = self._over
        return 0 if over.stopped or over.counter[0] >= over.n else self._max_steps - self.steps

    def _forced(self, division: Division) -> None:
        while self._left > 0:
            self._groups[division.name] = ("segmented", self._over.look(division), 1.0)
            steps = self._left if division.fixed else 1  # the next step may find its samples at other branches
            if self._sorted(division, self._over.parts(division), steps) < steps:
                return  # all done, stopped, or what is left is held by another mask

    def _decided(self) -> None:
        gains = {division: self._look(division) for division in self._over.split.divisions}
        division = max(gains, key=lambda one: gains[one])
        if gains[division] >= ENTER and division.same_bits:
            self._fused(min(EARLY, self._left))
            if self._left > 0 and (gain := self._look(division)) >= KEEP:
                self._groups[division.name] = ("segmented", self._groups[division.name][1], gain)
                # Later looks would find the same: every branch goes the way that is better for it.
                self._sorted(division, self._over.parts(division, profiting=True), self._left)
                return
        if self._left > 0:
            self._fused(self._left)

    def _look(self, division: Division) -> float:
        mix = self._over.look(division)
        gain = predicted_gain(division.costs, mix, self._left)
        self._groups[division.name] = ("switch", mix, gain)
        return gain

    def _fused(self, steps: int) -> None:
        launches, taken, exact, visits, stopped = self._over.engine.run(steps, *self._how, self._told())
        self._over.stopped |= stopped
        self._add(launches, taken, exact, visits)

    def _sorted(self, division: Division, parts: Sequence[_Part], steps: int) -> int:
        """Steps by branch; how many the busiest sample took."""
        came = [self._over.step(i, part, steps, *self._how, self._told()) for i, part in enumerate(parts)]
        taken = max(one for one, _, _ in came)
        self._sorts += 1
        self._split_steps += taken
        self._branches = division.size
        self._add(taken * division.size, taken, all(exact or one < taken for one, exact, _ in came),
                  sum(visits for _, _, visits in came))
        return taken

    def _add(self, launches: int, steps: int, exact: bool, visits: int) -> None:
        self.launches += launches
        self.steps += steps
        self.exact &= exact
        self.visits += visits

    def _told(self) -> Progress | None:
        tell, before = self._progress, self.steps
        return None if tell is None else lambda done, steps: tell(done, before + steps)


class _Selector:
    """Which branch each sample takes now."""

    def __init__(self, division: Division, values: Mapping[str, Any], n: int) -> None:
        self._division, self._values = division, values
        self._written = division.selector not in values
        self._plane: Array = np.zeros(n, np.int32) if self._written else values[division.selector]
        self._bound: _core.Bound | None = None

    def read(self, door: str, classes: Array) -> None:
        classifier = self._division.classifier if self._written else None
        if classifier is not None:
            if self._bound is None:
                self._bound = _bound(classifier, {**self._values, self._division.selector: self._plane})
            if (moved := self._bound.launch(door)) is not None:
                raise BufferRefused(refusal(door, f"plane {moved!r}", "an array that moved in the middle of a run",
                                            "one that stays where it is", "change it between runs"))
        np.clip(self._plane, 0, self._division.size - 1, out=classes, casting="unsafe")


class _Part:
    """A branch over the planes of a model."""

    def __init__(self, door: str, model: Model, values: Mapping[str, Any], n: int) -> None:
        self.counter = np.zeros(1, np.uint32)
        word = np.ones(1, np.int64) if model.auto else None
        kernel = model.kernels[0]
        bound = _bound(kernel.plan, {**values, FINISHED_COUNT: self.counter, FUSED_STEPS: word})
        slots = kernel.signature.stages[0].slots
        written = tuple(plane for slot, plane in zip(slots, bound.planes(), strict=True)
                        if slot.writes and not slot.is_word and plane is not None)
        self.engine = Engine(door, model, (bound,), n, self.counter, word, lambda: written)


def _bound(plan: Any, values: Mapping[str, Any]) -> _core.Bound:
    """A kernel over some of the values that another one was bound to."""
    host = plan.host if isinstance(plan, AutoPlan) else plan
    slots = host.signature.stages[0].slots
    bound = _core.Bound.exactly(host.kernels.first, tuple(values[slot.name] for slot in slots), 1, ())
    assert bound is not None, f"kernel {host.signature.kernel!r} takes other planes than the one it is a branch of"
    return bound
