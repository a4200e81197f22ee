"""What is measured: a cell is one figure that several contenders give, with the goals it must meet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ONE_THREAD = {"EAGLE_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Contender:
    """A job for the worker of one tool ("ours", "peer" or "plain") under extra environment variables."""

    tool: str
    job: str
    params: Mapping[str, Any]
    env: Mapping[str, str] = field(default_factory=dict)


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


def times(who: str, limit: float) -> Goal:
    """That contender must take at least `limit` times what ours takes."""
    return Goal(f"{who}/ours ≥ {limit:g}", lambda m: m[who] / m["ours"], limit, True)


def at_most(nanoseconds: float) -> Goal:
    """Ours must stay within a fixed time."""
    return Goal(f"ours ≤ {nanoseconds:g} ns", lambda m: m["ours"], nanoseconds * 1e-9, False, "s")


@dataclass(frozen=True)
class Cell:
    """One row of a table. `memory` is what all contenders' arrays take; `moved` the bytes one call moves."""

    name: str
    contenders: Mapping[str, Contender]
    goals: tuple[Goal, ...]
    n: int | None = None
    unit: str = "s"  # or "" for a share
    rounds: int = 7
    memory: int = 0
    moved: int = 0


def both(job: str, env: Mapping[str, str] | None = None, **params: Any) -> dict[str, Contender]:
    """The same job for ours and the peer."""
    return {tool: Contender(tool, job, params, env or {}) for tool in ("ours", "peer")}
