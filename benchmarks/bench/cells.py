"""What is measured: a cell is one figure that several contenders give, with the goals it must meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


def threads(number: int) -> dict[str, str]:
    """What tells each tool how many threads to use."""
    return dict.fromkeys(("EAGLE_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), str(number))


ONE_THREAD = threads(1)


@dataclass(frozen=True)
class Contender:
    """A job for the worker of one tool ("ours", "peer", "plain", ...) under extra environment variables.

    Its results are compared with those of the other contenders, unless it does other work.
    """

    tool: str
    job: str
    params: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)
    compared: bool = True


@dataclass(frozen=True)
class Goal:
    """A limit on a value made of the contenders' medians."""

    text: str
    value: Callable[[Mapping[str, float]], float]
    limit: float
    at_least: bool
    unit: str = ""

    def check(self, medians: Mapping[str, float]) -> tuple[float | None, bool | None]:
        """The value and whether it meets the limit; None where a contender has no figure."""
        try:
            value = self.value(medians)
        except KeyError:
            return None, None
        return value, value >= self.limit if self.at_least else value <= self.limit


def times(who: str, limit: float, ours: str = "ours") -> Goal:
    """That contender must take at least `limit` times what ours takes."""
    return Goal(f"{who}/{ours} ≥ {limit:g}", lambda m: m[who] / m[ours], limit, True)


def at_most(nanoseconds: float) -> Goal:
    """Ours must stay within a fixed time."""
    return Goal(f"ours ≤ {nanoseconds:g} ns", lambda m: m["ours"], nanoseconds * 1e-9, False, "s")


@dataclass(frozen=True)
class Cell:
    """One row of a table. `memory` is what all contenders' arrays take; `moved` the bytes one call moves.

    `unit` is "s", "s/step" or "" for a share. A contender that would need more than `bound` seconds, by its speed in
    the same cell of a smaller n, is not run.
    """

    name: str
    contenders: Mapping[str, Contender]
    goals: tuple[Goal, ...]
    n: int | None = None
    unit: str = "s"
    rounds: int = 7
    memory: int = 0
    moved: int = 0
    bound: float | None = None
    target: float = 0.02  # seconds of work a round


def both(job: str, env: Mapping[str, str] | None = None, **params: Any) -> dict[str, Contender]:
    """The same job for ours and the peer."""
    return {tool: Contender(tool, job, params, env or {}) for tool in ("ours", "peer")}
