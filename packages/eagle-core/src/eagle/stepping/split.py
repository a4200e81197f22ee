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
from eagle.stepping.interrupts import between
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
        self.is_plane = branches.classifier is None  #: of the model
        self._branches, self._build = branches, build

    @cached_property
    def models(self) -> tuple[Model, ...]:
        """The branches; built when a run first splits."""
        return tuple(read_model("eagle.simulate", plan) for plan in self._build(self._branches.kernels))

    @cached_property
    def classifier(self) -> AutoPlan:
        """The kernel that writes the selector, where it is no plane of the model."""
        return self._build([self._branches.classifier])[0]

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
    if model.reach < Reach.LOCAL:
        if dispatch.forced:
            raise ValueError(refusal(door, f"dispatch, group {dispatch.divisible[0].name!r}",
                                     f"'segmented' with kernel {plan.kernel.name!r}, whose samples are not known to be "
                                     "independent of each other", "one without sums, scattered writes and broadcast "
                                     "planes", "choose 'switch'"))
        return None

    def build(kernels: Sequence[Any]) -> Sequence[AutoPlan]:
        return build_kernels(door, kernels, plan.plugin.scalar_type)

    return Split(tuple(Division(group, take_apart(plan.kernel, group.name), build) for group in dispatch.divisible),
                 dispatch.forced)


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
        self.whole = 1 if model.auto else int(model.steps)  # launches without a split are not cut, so no run is
        self._own, self._rest = np.empty(n, np.bool_), np.empty(n, np.bool_)  # who takes a branch; the mask of it
        self._selectors = [_Selector(one, values, n) for one in self.split.divisions]
        self._parts: dict[str, tuple[_Part, ...]] = {}
        self.stopped = False
        self.verdict: Verdict | None = None

    def nothing(self) -> Verdict:
        """The verdict of a run with nothing to do."""
        policy = "segmented" if self.split.forced else "switch"
        return Verdict({one.name: (policy, (0,) * one.size, 1.0) for one in self.split.divisions})

    def run(self, max_steps: int, threads: int, native: bool,
            progress: Progress | None) -> tuple[int, int, bool, int, bool]:
        """As :meth:`Engine.run`; :attr:`verdict` tells more."""
        course = _Course(self, max_steps, threads, native, progress)
        try:
            course.run()
        finally:
            self.verdict = course.verdict()
        return course.launches, course.steps, course.exact, course.visits, self.stopped

    def arm(self) -> None:
        """A run is about to begin; :meth:`stop` counts from now on."""
        self.stopped = False
        for engine in self._engines():
            engine.arm()

    def stop(self) -> None:
        """Let a run in another thread return at its next round."""
        self.stopped = True
        for engine in self._engines():
            engine.stop()

    def _engines(self) -> tuple[Engine, ...]:
        return self.engine, *(part.engine for parts in list(self._parts.values()) for part in parts)

    def look(self, which: int) -> tuple[int, ...]:
        """The live samples of each branch of a division."""
        selector, own, mix = self._selectors[which], self._own, []
        selector.read(self._door)
        for branch in range(self.split.divisions[which].size):
            selector.takes(branch, own)
            if self.counter[0]:
                np.greater(own, self.mask, out=own)
            mix.append(int(np.count_nonzero(own)))
        return tuple(mix)

    def parts(self, which: int) -> tuple[_Part, ...]:
        """The branches of a division over the planes. Where a run decides, those that do not profit are left to the
        whole kernel."""
        division = self.split.divisions[which]
        if division.name not in self._parts:
            values = {**self._values, self._model.mask: self._rest}
            if self._model.compacting:  # launches go over all samples
                values[ACTIVE_MAP] = np.arange(self.n, dtype=np.int32)
                values[ACTIVE_COUNT] = np.full(1, self.n, np.uint32)
            self._parts[division.name] = tuple(
                _Part(self._door, model if self.split.forced or cost.profits else self._model, values, self.n)
                for model, cost in zip(division.models, division.costs, strict=True))
        return self._parts[division.name]

    def step(self, which: int, branch: int, max_steps: int, threads: int, native: bool,
             progress: Progress | None) -> tuple[int, bool, int]:
        """Step the samples of a branch, as of the last look: (steps, whether these are exact, visits)."""
        part, own, rest = self.parts(which)[branch], self._own, self._rest
        self._selectors[which].takes(branch, own)
        np.logical_not(own, out=rest)
        np.logical_or(rest, self.mask, out=rest)
        others, before = int(np.count_nonzero(rest)), int(self.counter[0])
        if others == self.n or self.stopped:
            return 0, True, 0
        part.counter[0] = others
        told = None if progress is None else lambda done, offered: progress(before + done - others, offered)

        def count() -> None:
            np.logical_and(rest, own, out=rest)
            np.logical_or(self.mask, rest, out=self.mask)
            self.counter[0] = np.count_nonzero(self.mask)

        _, steps, exact, visits, stopped = between(lambda: part.engine.run(max_steps, threads, native, told), count)
        self.stopped |= stopped
        return steps, exact, visits


class _Course:
    """One run of a split engine, and what it comes to."""

    def __init__(self, over: SplitEngine, max_steps: int, threads: int, native: bool,
                 progress: Progress | None) -> None:
        self._over, self._how, self._progress = over, (threads, native), progress
        self._max_steps = -(-max_steps // over.whole) * over.whole
        self._groups: dict[str, tuple[str, tuple[int, ...], float]] = {}
        self.launches = self.steps = self.visits = self._sorts = self._split_steps = self._branches = 0
        self._offered = 0  # as far as somebody is told
        self.exact = True

    def verdict(self) -> Verdict:
        return Verdict(self._groups, self._sorts, self._split_steps, self._branches)

    def run(self) -> None:
        over = self._over
        over.counter[0] = np.count_nonzero(over.mask)
        if over.split.forced:
            self._forced(over.split.divisions[0])
        else:
            self._decided()

    @property
    def _left(self) -> int:
        over = self._over
        return 0 if over.stopped or over.counter[0] >= over.n else self._max_steps - self.steps

    def _forced(self, division: Division) -> None:
        self._groups = dict(self._over.nothing().groups)
        while self._left > 0:
            self._groups[division.name] = ("segmented", self._over.look(0), 1.0)
            steps = self._left if division.fixed else 1  # the next step may find its samples at other branches
            if self._sorted(0, steps) < steps:
                return  # all done, stopped, or what is left is held by another mask

    def _decided(self) -> None:
        divisions = self._over.split.divisions
        gains = [self._look(i) for i in range(len(divisions))]
        best = gains.index(max(gains))
        if gains[best] >= ENTER and divisions[best].same_bits:
            self._fused(min(EARLY, self._left))
            if self._left > 0 and (gain := self._look(best)) >= KEEP:
                name = divisions[best].name
                self._groups[name] = ("segmented", self._groups[name][1], gain)
                self._sorted(best, self._left)  # a later look finds the same: each branch goes the way it profits from
                return
        if self._left > 0:
            self._fused(self._left)

    def _look(self, which: int) -> float:
        division, mix = self._over.split.divisions[which], self._over.look(which)
        gain = predicted_gain(division.costs, mix, self._max_steps - self.steps)
        self._groups[division.name] = ("switch", mix, gain)
        return gain

    def _fused(self, steps: int) -> None:
        launches, taken, exact, visits, stopped = self._over.engine.run(steps, *self._how, self._told())
        self._over.stopped |= stopped
        self._add(launches, taken, exact, visits)

    def _sorted(self, which: int, steps: int) -> int:
        """Steps by branch; how many the busiest sample took."""
        size = self._over.split.divisions[which].size
        came = [self._over.step(which, branch, steps, *self._how, self._told()) for branch in range(size)]
        taken = max(one for one, _, _ in came)
        self._sorts += 1
        self._split_steps += taken
        self._branches = size
        self._add(taken * size, taken, all(exact or one < taken for one, exact, _ in came),
                  sum(visits for _, _, visits in came))
        return taken

    def _add(self, launches: int, steps: int, exact: bool, visits: int) -> None:
        self.launches += launches
        self.steps += steps
        self.exact &= exact
        self.visits += visits

    def _told(self) -> Progress | None:
        tell, before = self._progress, self._offered
        if tell is None:
            return None

        def told(done: int, offered: int) -> object:
            self._offered = before + offered
            return tell(done, self._offered)

        return told


class _Selector:
    """Which branch each sample takes, as of the last reading."""

    def __init__(self, division: Division, values: Mapping[str, Any], n: int) -> None:
        self._division, self._values = division, values
        self._source: Array | None = values[division.selector] if division.is_plane else None
        self._plane: Array = self._source if self._source is not None and division.fixed else np.zeros(n, np.int64)
        self._bound: _core.Bound | None = None

    def read(self, door: str) -> None:
        """Read it anew, where it is not the plane itself."""
        if self._plane is self._source:
            return
        if self._source is not None:
            np.clip(self._source, 0, self._division.size - 1, out=self._plane, casting="unsafe")
            return
        if self._bound is None:
            self._bound = _bound(self._division.classifier, {**self._values, self._division.selector: self._plane})
        if (moved := self._bound.launch(door)) is not None:
            raise BufferRefused(refusal(door, f"plane {moved!r}", "an array that moved in the middle of a run",
                                        "one that stays where it is", "change it between runs"))

    def takes(self, branch: int, out: Array) -> None:
        """Which samples take a branch."""
        last = self._division.size - 1
        (np.less_equal if branch == 0 else np.greater_equal if branch == last else np.equal)(
            self._plane, branch, out=out)


class _Part:
    """A kernel over the planes of a model, for the samples of a branch."""

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
