# SPDX-License-Identifier: Apache-2.0
"""Which engine steps a model over bound planes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import BufferRefused, refusal
from eagle.stepping.herd import Herd
from eagle.stepping.loop import Loop
from eagle.stepping.model import Kernel, Model
from eagle.stepping.relocation import Reach, unaligned
from eagle.stepping.report import Verdict

__all__ = ["Engine"]

Array = np.ndarray[Any, Any]


class Engine:
    """Steps the samples of a model until all are done, by the backend's engine or by the portable loop: bits and steps
    are the same.

    `packed` is what each kernel of the model runs over `n` samples; `counter` and `word` are the cells they read;
    `written` gives the arrays that a step changes. `herd` gives what keeps an active set beside the portable loop, and
    what kernels run over that.
    """

    verdict: Verdict | None = None  #: nothing was to decide

    def __init__(self, door: str, model: Model, packed: tuple[_core.Bound, ...], n: int, counter: Array,
                 word: Array | None, written: Callable[[], tuple[Array, ...]],
                 herd: Callable[[], tuple[Herd, tuple[_core.Bound, ...]]] | None = None) -> None:
        self._door, self._model, self._packed, self._n = door, model, packed, n
        self._counter, self._word, self._written = counter, word, written
        self._herd = herd
        self._stopping = False
        self._steps: _core.Steps | None = None
        if not model.has_nodes:
            self._steps = _core.Steps(packed, model.mask, 1 if model.auto else int(model.steps), model.fused,
                                      model.reach >= Reach.LOCAL, model.reach >= Reach.MOVABLE,
                                      unaligned(model.kernels[0].signature), model.step_ops)

    def run(self, max_steps: int, threads: int, native: bool,
            progress: Callable[[int, int], object] | None) -> tuple[int, int, bool, int, bool]:
        """(launches, steps, whether these are exact, visits of samples, whether it was stopped). `threads` 0: as many
        as the process uses; `native`: at the backend's own pace."""
        native = native or (self._herd is None and len(self._packed) > 1)  # kernels in turn: there is one pace
        if native and self._steps is not None and self._steps.native:
            return self._steps.run(max_steps, threads, progress)
        rounds = self._steps if native and not self._model.fused else None
        engine: _core.Steps | Loop = self._loop if rounds is None else rounds
        launches, steps, exact, visits, stopped = engine.run(max_steps, threads, progress)
        if exact and self._model.holds and self._counter[0] < self._n:
            exact = False  # all that are left may be held
        return launches, steps, exact, visits, stopped

    def nothing(self) -> Verdict | None:
        """The verdict of a run with nothing to do."""
        return None

    def arm(self) -> None:
        """A run is about to begin; :meth:`stop` counts from now on."""
        self._stopping = False
        for engine in self._engines():
            engine.arm()

    def stop(self) -> None:
        """Let a run in another thread return at its next round."""
        self._stopping = True
        for engine in self._engines():
            engine.stop()

    def _engines(self) -> tuple[_core.Steps | Loop, ...]:
        """Those that were made."""
        loop = vars(self).get("_loop")
        return tuple(engine for engine in (self._steps, loop) if engine is not None)

    @cached_property
    def _loop(self) -> Loop:
        model = self._model
        herd, packed = self._herd() if self._herd is not None else (None, self._packed)
        bounds = iter(packed)
        calls: list[Callable[[], object]]
        if model.has_nodes or len(packed) == 1:
            calls = [_launch(self._door, next(bounds)) if isinstance(item, Kernel) else item for item in model.items]
        else:  # by one call: nothing comes between the kernels of a step
            calls = [partial(_core.Steps(packed, model.mask, 1, False, False, False, False, 0).run, 1, 0, None)]
        loop = Loop(calls, self._n, self._counter, 0 if model.auto else int(model.steps), self._word, model.fused,
                    model.steps_max, self._written(), herd)
        if self._stopping:
            loop.stop()
        return loop


def _launch(door: str, bound: _core.Bound) -> Callable[[], object]:
    def launch() -> None:
        if (moved := bound.launch(door)) is not None:
            raise BufferRefused(refusal(door, f"plane {moved!r}", "an array that moved in the middle of a run",
                                        "one that stays where it is", "change it between runs"))

    return launch
