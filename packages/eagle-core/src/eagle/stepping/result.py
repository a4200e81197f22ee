# SPDX-License-Identifier: Apache-2.0
"""SimResult: where a simulation stands."""

from __future__ import annotations

from typing import Any, NoReturn

from eagle.errors import refusal, shown
from eagle.stepping.report import RunReport
from eagle.stepping.runner import make_report

__all__ = ["SimResult"]


class SimResult:
    """What a simulation made. ``result.y`` and ``result["y"]`` are the state plane y. Read-only; it can be copied and
    pickled.

    `state` holds the Mutable planes and the outputs by name: the caller's own arrays, those that were `allocated`, and
    fresh ones of another framework. `finished` is the mask: which samples are done. `wall_s` are seconds of the run.
    """

    __slots__ = ("state", "finished", "wall_s", "allocated", "_report")

    state: dict[str, Any]
    finished: Any
    wall_s: float
    allocated: tuple[str, ...]  #: what was left out, and started at zero

    def __init__(self, state: dict[str, Any], finished: Any, report: RunReport | tuple[Any, ...], wall_s: float,
                 allocated: tuple[str, ...]) -> None:  # the arguments of make_report: most callers look at arrays only
        put = object.__setattr__
        put(self, "state", state)
        put(self, "finished", finished)
        put(self, "_report", report)
        put(self, "wall_s", wall_s)
        put(self, "allocated", allocated)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(refusal("SimResult", f"attribute {name!r}", "an assignment", "no change: it is read-only",
                                     "write to the arrays it holds"))

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(refusal("SimResult", f"attribute {name!r}", "a deletion", "no change: it is read-only",
                                     "make a copy of the state"))

    def __reduce__(self) -> tuple[Any, ...]:
        return SimResult, (self.state, self.finished, self.report, self.wall_s, self.allocated)

    @property
    def report(self) -> RunReport:
        """What the run did."""
        if isinstance(self._report, tuple):
            object.__setattr__(self, "_report", make_report(*self._report))
        report: RunReport = self._report
        return report

    @property
    def done(self) -> bool:
        """Whether every sample is done."""
        return self.report.done

    @property
    def status(self) -> str:
        """``"finished"``, or ``"max_steps"`` where samples are left."""
        return "finished" if self.report.done else "max_steps"

    @property
    def steps(self) -> int:
        """The most steps a sample took."""
        return self.report.steps

    @property
    def n(self) -> int:
        """The samples of the batch."""
        return self.report.n

    @property
    def record(self) -> None:
        """None: nothing was recorded. So are `t_stop` and `event_status`."""

    t_stop = event_status = record

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self.state:
            raise AttributeError(refusal("SimResult", f"attribute {name!r}", "no field and no state plane",
                                         f"one of the state {list(self.state)}", "ask for one of these"))
        return self.state[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self.state:
            raise KeyError(refusal("SimResult", f"key {shown(name)}", "no state plane", f"one of {list(self.state)}",
                                   "ask for one of these"))
        return self.state[name]

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self.state})

    def __repr__(self) -> str:
        return f"SimResult({self.status}, n={self.n}, steps={self.steps}, state={list(self.state)})"
