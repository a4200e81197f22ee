# SPDX-License-Identifier: Apache-2.0
"""The portable loop: launches one behind the other, until every sample is done or no steps are left.

It serves steps with nodes, where Python is called in every step anyway, and what no engine serves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eagle import backends
from eagle.stepping.interrupts import Hold, Interrupts

if TYPE_CHECKING:
    from eagle.stepping.herd import Herd

__all__ = ["Loop"]

Array = np.ndarray[Any, Any]


class Loop:
    """Runs `calls` in order, once a launch, over `n` samples, counted in `counter`.

    A launch takes `k` steps; 0: those that `word` says, several where `fused`, else one. `written` are the arrays the
    calls change: what a fused launch finishes too early is taken back and stepped again, to know the steps it took.
    `herd`, where the calls launch over an active set, is what keeps that.
    """

    def __init__(self, calls: Sequence[Callable[[], object]], n: int, counter: Array, k: int, word: Array | None,
                 fused: bool, steps_max: int, written: Sequence[Array], herd: Herd | None = None) -> None:
        self._calls, self._n, self._counter, self._k, self._word = tuple(calls), n, counter, k, word
        self._fused = fused and word is not None
        self._most = max(steps_max, 2)
        self._written = tuple(written) if self._fused else ()
        self._before = tuple(np.empty_like(array) for array in self._written)
        self._after = tuple(np.empty_like(array) for array in self._written)
        self._herd = herd
        self._stopped = False

    def run(self, max_steps: int, threads: int,
            progress: Callable[[int, int], object] | None) -> tuple[int, int, bool, int, bool]:
        """Step until all are done, `max_steps` were offered or :meth:`stop` was called: (launches, steps, whether
        these are exact, visits of samples, whether it was stopped). `progress` is told of samples done and of steps
        offered to samples that were not, behind each launch."""
        if not threads:
            return self._run(max_steps, progress)
        team = backends.host()
        before = team.team_size(threads)
        try:
            return self._run(max_steps, progress)
        finally:
            team.team_size(before)

    def arm(self) -> None:
        """A run is about to begin; :meth:`stop` counts from now on."""
        self._stopped = False

    def stop(self) -> None:
        """Let a run in another thread return at the next launch."""
        self._stopped = True

    def _run(self, max_steps: int, progress: Callable[[int, int], object] | None) -> tuple[int, int, bool, int, bool]:
        herd = self._herd
        with Interrupts(Hold.STEP) as interrupts:
            try:
                if herd is not None:
                    herd.begin()
                return self._steps(max_steps, progress, interrupts)
            finally:
                interrupts.hold = Hold.ALL
                if herd is not None:
                    herd.end()

    def _steps(self, max_steps: int, progress: Callable[[int, int], object] | None,
               interrupts: Interrupts) -> tuple[int, int, bool, int, bool]:
        counter, n, herd = self._counter, self._n, self._herd
        launches = steps = mapped = offered = 0
        exact = True
        while steps < max_steps and counter[0] < n and not self._stopped:
            mapped += n if herd is None else herd.live
            left = n - int(counter[0])
            if self._fused and max_steps > 1:
                taken, exact = self._fused_launch(max_steps - steps)
            else:
                taken = self._k or 1
                self._launch(1)
                exact = taken == 1 or int(counter[0]) < n
            launches += 1
            steps += taken
            offered += taken * left
            if herd is not None:
                herd.follow(int(counter[0]))
            interrupts.deliver()
            if progress is not None:
                progress(int(counter[0]), offered)
        return launches, steps, exact, mapped, self._stopped

    def _launch(self, word: int) -> None:
        if self._word is not None:
            self._word[0] = word
        for call in self._calls:
            call()

    def _fused_launch(self, left: int) -> tuple[int, bool]:
        """One launch of several steps: the most that a sample took, and whether that is known."""
        word = min(self._most, left)
        if left - word == 1:
            word -= 1  # never a word of 1: the other side of the entry has other last bits
        if word < 2:  # 3 steps of at most 2 a launch
            word = left
        counted = int(self._counter[0])
        self._copy(self._before, self._written)
        self._launch(word)
        if self._counter[0] < self._n:
            return word, True
        try:
            least, most = 2, word
            while least < most:  # the fewest steps that finish all
                middle = (least + most) // 2
                self._again(counted, middle)
                least, most = (least, middle) if self._counter[0] >= self._n else (middle + 1, most)
            self._again(counted, most)
            return (most, True) if most > 2 else self._one_or_two(counted)
        except BaseException:
            self._again(counted, word)
            raise

    def _one_or_two(self, counted: int) -> tuple[int, bool]:
        """Whether the last two steps were one: the other side of the entry tells, where it gives the same bits."""
        self._copy(self._after, self._written)
        self._again(counted, 1)
        steps = 1 if self._counter[0] >= self._n else 2
        if steps == 2:
            self._launch(1)
        exact = self._counter[0] >= self._n and all(
            a.tobytes() == b.tobytes() for a, b in zip(self._written, self._after, strict=True))
        self._copy(self._written, self._after)
        self._counter[0] = self._n
        return steps if exact else 2, exact

    def _again(self, counted: int, word: int) -> None:
        """Takes the launch back, and makes it anew with another word."""
        self._copy(self._written, self._before)
        self._counter[0] = counted
        self._launch(word)

    @staticmethod
    def _copy(into: Sequence[Array], arrays: Sequence[Array]) -> None:
        for target, array in zip(into, arrays, strict=True):
            np.copyto(target, array)
