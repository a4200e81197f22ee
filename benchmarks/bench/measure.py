"""Measures cells: every contender once a round, rounds interleaved, the order turned round each time."""

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.cells import Cell
from bench.machine import free_memory
from bench.workers import Pool, Worker, WorkerError

SETTLE = 0.02  # seconds between two contenders: longer than a thread team of either tool keeps spinning
OPEN_LIMIT = 120.0  # seconds to compile the kernel, fill the arrays and calibrate
ROUND_LIMIT = 30.0
CELL_LIMIT = 240.0  # no new round after this many seconds


@dataclass
class Figures:
    """What one contender gave in one cell."""

    values: list[float] = field(default_factory=list)
    calls: int = 0
    digest: str | None = None
    error: str | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def unsteady(self) -> bool:
        """Whether the rounds are too far apart for the median to be trusted."""
        return not self.error and self.quartiles[1] > 1.5 * self.quartiles[0]

    def as_json(self) -> dict[str, Any]:
        if self.error:
            return {"error": self.error}
        return {
            "median": self.median,
            "min": min(self.values),
            "quartiles": self.quartiles,
            "unsteady": self.unsteady,
            "values": self.values,
            "calls_a_round": self.calls,
        }


@dataclass
class Measured:
    """A cell with its figures."""

    cell: Cell
    figures: dict[str, Figures] = field(default_factory=dict)
    skipped: str | None = None

    @property
    def medians(self) -> dict[str, float]:
        return {who: figures.median for who, figures in self.figures.items() if not figures.error}

    @property
    def ratio(self) -> float | None:
        """The peer's median divided by ours."""
        found = self.medians
        return found["peer"] / found["ours"] if {"peer", "ours"} <= found.keys() else None

    @property
    def ratio_of_minima(self) -> float | None:
        """The same for the fastest rounds, which busy neighbours disturb least."""
        if self.ratio is None:
            return None
        return min(self.figures["peer"].values) / min(self.figures["ours"].values)

    @property
    def same_bits(self) -> bool | None:
        """Whether all contenders computed the same bits; None where there is nothing to compare."""
        digests = [figures.digest for figures in self.figures.values() if figures.digest]
        return len(set(digests)) == 1 if len(digests) > 1 else None

    @property
    def met(self) -> bool | None:
        """Whether every goal is met; None where one could not be checked."""
        checks = [goal.check(self.medians)[1] for goal in self.cell.goals]
        return False if False in checks else None if None in checks else True

    @property
    def passed(self) -> bool:
        """Whether nothing is to be complained of: skipped, or all goals met by results that do not differ."""
        return self.skipped is not None or (self.met is True and self.same_bits is not False)

    def as_json(self) -> dict[str, Any]:
        goals = []
        for goal in self.cell.goals:
            value, met = goal.check(self.medians)
            goals.append({"goal": goal.text, "value": value, "limit": goal.limit, "met": met})
        return {
            "name": self.cell.name,
            "n": self.cell.n,
            "unit": self.cell.unit,
            "contenders": {who: figures.as_json() for who, figures in self.figures.items()},
            "ratio": self.ratio,
            "ratio_of_minima": self.ratio_of_minima,
            "goals": goals,
            "met": self.met,
            "same_bits": self.same_bits,
            "skipped": self.skipped,
        }


def measure(pool: Pool, cell: Cell, target: float) -> Measured:
    """One cell, all rounds. A contender that fails keeps its error text; the others go on."""
    measured = Measured(cell)
    free = free_memory()
    if free is not None and cell.memory > 0.8 * free:
        measured.skipped = f"needs {cell.memory / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        return measured
    workers = {}
    for who, contender in cell.contenders.items():
        measured.figures[who] = figures = Figures()
        with _kept(figures):
            workers[who] = worker = pool.worker(contender.tool, contender.env)
            time.sleep(SETTLE)
            answer = worker.ask("open", OPEN_LIMIT, job=contender.job, params=dict(contender.params), target=target)
            figures.calls, figures.digest = answer["calls"], answer["digest"]
    _rounds(cell, measured.figures, workers)
    for who, worker in workers.items():
        if worker.alive:
            with _kept(measured.figures[who]):
                worker.ask("close", ROUND_LIMIT)
    return measured


def _rounds(cell: Cell, figures: Mapping[str, Figures], workers: Mapping[str, Worker]) -> None:
    start = time.monotonic()
    order = list(cell.contenders)
    for done in range(cell.rounds):
        if done >= 2 and time.monotonic() - start > CELL_LIMIT:
            return
        for who in order:
            if figures[who].error is None:
                time.sleep(SETTLE)
                with _kept(figures[who]):
                    figures[who].values.append(workers[who].ask("round", ROUND_LIMIT)["value"])
        order.reverse()


class _kept:
    """Keeps a worker's error as the contender's figure."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, WorkerError):
            self._figures.error = str(error)
            return True
        return False
