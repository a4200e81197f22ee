# SPDX-License-Identifier: Apache-2.0
"""Which engine steps a model over bound planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from eagle import _core
from eagle.stepping.loop import Loop
from eagle.stepping.model import Kernel, Model

__all__ = ["Engine", "make_engine"]

Array = np.ndarray[Any, Any]


class Engine(Protocol):
    """Steps samples until all are done."""

    def run(self, max_steps: int, threads: int, native: bool,
            progress: Callable[[int, int], object] | None, /) -> tuple[int, int, bool, int, bool]:
        """(launches, steps, whether these are exact, visits of samples, whether it was stopped). `threads` 0: as many
        as the process uses; `native`: at the backend's own pace."""

    def stop(self) -> None:
        """Let a run in another thread return at its next round. It changes nothing between runs."""


def make_engine(door: str, model: Model, packed: tuple[_core.Bound, ...], n: int, counter: Array, word: Array | None,
                written: tuple[Array, ...]) -> Engine:
    """The native engine over what the kernels of a model run; a loop in Python for a step with nodes. `written` is what
    a step changes."""
    native = getattr(_core, "Steps", None)
    if native is not None and not model.has_nodes:
        engine: Engine = native(packed, 0 if model.auto else model.steps, model.fused, model.moves)
        return engine
    bounds = iter(packed)
    calls = [_launch(door, next(bounds)) if isinstance(item, Kernel) else item for item in model.items]
    return Loop(calls, n, counter, 0 if model.auto else int(model.steps), word, model.fused, model.steps_max, written)


def _launch(door: str, bound: _core.Bound) -> Callable[[], object]:
    return lambda: bound.launch(door)
