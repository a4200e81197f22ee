# SPDX-License-Identifier: Apache-2.0
"""The body of a loop that steps a batch and now and then compacts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

from eagle.errors import refusal, shown
from eagle.integers import index_of
from eagle.stepping.active_set import ActiveSet

__all__ = ["compaction_body"]

DOOR = "eagle.compaction_body"
FEWEST_STEPS = 4  # a compaction looks at every sample: it must save more than it costs
SMALLEST_REORDERED = 4096  # samples

Part = Callable[[], object]


def compaction_body(step: Part, active: ActiveSet, *, every: SupportsIndex = 16, finished: Any = None,
                    reorder: bool | None = None, steps_per_call: SupportsIndex = 1) -> tuple[Part, ...]:
    """The parts of a body for ``eagle.repeat_while``: `step` called `every` times, then a compaction of the set.

    finished: the uint32 counter of finished samples; the set is compacted when it moved, without it always. reorder:
    None adds a third part, the reorder that is due, for a set of 4096 samples or more that reorders; True and False
    decide. steps_per_call: the steps one call of `step` takes. The loop's guard is looked at once per `every` calls.

    Raises TypeError for a step that cannot be called, what is no set, and an `every` that is no integer; ValueError for
    fewer than 4 steps between compactions, and for ``reorder=True`` of a set that does not reorder.
    """
    if not callable(step):
        raise TypeError(refusal(DOOR, "step", f"{shown(step)}, a {type(step).__name__}",
                                "a callable without arguments", "pass bound.launch"))
    if not isinstance(active, ActiveSet):
        raise TypeError(refusal(DOOR, "active", f"{shown(active)}, a {type(active).__name__}", "an ActiveSet",
                                "make one of the mask"))
    calls, each = index_of(every), index_of(steps_per_call)
    if calls is None:
        raise TypeError(refusal(DOOR, "every", f"{shown(every)}, a {type(every).__name__}", "an integer",
                                "pass the calls between compactions"))
    if each is None or each < 1:
        raise ValueError(refusal(DOOR, "steps_per_call", shown(steps_per_call), "an integer of 1 or more",
                                 "pass the steps one call takes"))
    if calls * each < FEWEST_STEPS:
        raise ValueError(refusal(DOOR, "every", f"{calls} calls of {each} steps", f"{FEWEST_STEPS} steps or more",
                                 "compact less often: it looks at every sample"))
    if reorder not in (None, True, False):
        raise ValueError(refusal(DOOR, "reorder", shown(reorder), "True, False or None", "leave it out"))
    if reorder and active.theta is None:
        raise ValueError(refusal(DOOR, "reorder", "True, for a set that does not reorder", "one that does",
                                 "make it ActiveSet(mask, reorder=0.5)"))

    def steps() -> None:
        for _ in range(calls):
            step()

    compact = active.compact if finished is None else active.when_finished(finished)
    if reorder is None:
        reorder = active.theta is not None and active.n >= SMALLEST_REORDERED
    return (steps, compact, active.reorder_if_degraded()) if reorder else (steps, compact)
