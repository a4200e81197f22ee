"""Measures cells: every contender once a round, rounds interleaved, the order turned round each time."""

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.cells import Cell
from bench.machine import free_memory
from bench.workers import Pool, TookTooLong, Worker, WorkerError

SETTLE = 0.02  # seconds between two contenders: longer than a thread team of either tool keeps spinning
OPEN_LIMIT = 120.0  # seconds to compile the kernel, fill the arrays and calibrate
BOUND_LIMIT = 3.0  # the same for a cell with a bound, in multiples of it
ROUND_LIMIT = 30.0
CELL_LIMIT = 240.0  # no new round after this many seconds
SCALES = 0.2  # seconds: what takes longer takes in proportion to n
ENOUGH = 3.0  # seconds of rounds after which a contender needs no more than three


@dataclass
class Figures:
    """What one contender gave in one cell."""

    values: list[float] = field(default_factory=list)
    calls: int = 0
    steps: float | None = None
    digest: str | None = None
    summary: dict[str, Any] | None = None
    error: str | None = None
    estimated: bool = False  # not run: the one value is that of a smaller batch
    closed: bool = False  # to no more rounds
    spent: float = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def unsteady(self) -> bool:
        """Whether the rounds are too far apart for the median to be trusted."""
        return not self.error and self.quartiles[1] > 1.5 * self.quartiles[0]

    @property
    def enough(self) -> bool:
        """Whether another round is not worth its time, or not to be had."""
        return self.error is not None or self.closed or (self.spent > ENOUGH and len(self.values) >= 3)

    def estimate(self, value: float) -> None:
        """Takes the figure of a smaller batch for its own, and no rounds."""
        self.values, self.estimated, self.closed = [value], True, True

    def as_json(self) -> dict[str, Any]:
        if self.error:
            return {"error": self.error}
        if self.estimated:
            return {"estimate": self.median}
        steps = {} if self.steps is None else {"steps": self.steps}
        return {
            **steps,
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
    def same_results(self) -> bool | None:
        """Whether the tools that may round otherwise agree in what must be equal, and nearly in the rest."""
        summaries = [figures.summary for figures in self.figures.values() if figures.summary]
        return all(_alike(summaries[0], other) for other in summaries[1:]) if len(summaries) > 1 else None

    @property
    def met(self) -> bool | None:
        """Whether every goal is met; None where one could not be checked."""
        checks = [goal.check(self.medians)[1] for goal in self.cell.goals]
        return False if False in checks else None if None in checks else True

    @property
    def passed(self) -> bool:
        """Whether nothing is to be complained of: skipped, or all goals met by results that do not differ."""
        differ = False in (self.same_bits, self.same_results)
        return self.skipped is not None or (self.met is True and not differ)

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
            "same_results": self.same_results,
            "skipped": self.skipped,
        }


def measure(pool: Pool, cell: Cell, earlier: Sequence[Measured] = ()) -> Measured:
    """One cell, all rounds. A contender that fails keeps its error text; the others go on."""
    measured = Measured(cell)
    free = free_memory()
    if free is not None and cell.memory > 0.8 * free:
        measured.skipped = f"needs {cell.memory / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free"
        return measured
    workers = {}
    for who, contender in cell.contenders.items():
        measured.figures[who] = figures = Figures()
        smaller = next((m for m in reversed(earlier) if m.cell.name == cell.name and who in m.medians), None)
        if smaller and _hopeless(cell, who, smaller):
            figures.estimate(smaller.medians[who])
            continue
        with _kept(figures, smaller.medians[who] if smaller and cell.bound else None):
            workers[who] = worker = pool.worker(contender.tool, contender.env)
            time.sleep(SETTLE)
            limit = BOUND_LIMIT * cell.bound if cell.bound else OPEN_LIMIT
            answer = worker.ask("open", limit, name=who, job=contender.job, params=dict(contender.params),
                                target=cell.target)
            figures.calls, figures.steps = answer["calls"], answer["steps"]
            if contender.compared:
                figures.digest, figures.summary = answer["digest"], answer["summary"]
            if answer["only"] is not None:
                figures.values, figures.closed = [answer["only"]], True
    _rounds(cell, measured.figures, workers)
    for who, worker in workers.items():
        if worker.alive:
            with _kept(measured.figures[who]):
                worker.ask("close", ROUND_LIMIT)
    return measured


def _hopeless(cell: Cell, who: str, smaller: Measured) -> bool:
    """Whether a contender, at its speed on a smaller batch, takes longer than the cell's bound."""
    if cell.bound is None:
        return False
    if smaller.figures[who].estimated:
        return True
    steps = next((figures.steps for figures in smaller.figures.values() if figures.steps), 0.0)
    took = smaller.medians[who] * steps
    return took > SCALES and took * (cell.n or 1) / (smaller.cell.n or 1) > cell.bound


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two summaries agree: in what must be equal, and within the tolerance in all numbers."""
    return one["equal"] == other["equal"] and all(
        math.isclose(a, b, rel_tol=one["tolerance"], abs_tol=one["tolerance"])
        for name, values in one["near"].items()
        for a, b in zip(values, other["near"][name], strict=True)
    )


def _rounds(cell: Cell, figures: Mapping[str, Figures], workers: Mapping[str, Worker]) -> None:
    start = time.monotonic()
    order = list(cell.contenders)
    for done in range(cell.rounds):
        if done >= 2 and time.monotonic() - start > CELL_LIMIT:
            return
        for who in order:
            if not figures[who].enough:
                time.sleep(SETTLE)
                began = time.monotonic()
                with _kept(figures[who]):
                    figures[who].values.append(workers[who].ask("round", ROUND_LIMIT, name=who)["value"])
                figures[who].spent += time.monotonic() - began
        order.reverse()


class _kept:
    """Keeps a worker's error as the contender's figure; where it took too long, its figure of a smaller n, if any."""

    def __init__(self, figures: Figures, smaller: float | None = None) -> None:
        self._figures = figures
        self._smaller = smaller

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, TookTooLong) and self._smaller is not None:
            self._figures.estimate(self._smaller)
        elif isinstance(error, WorkerError):
            self._figures.error = str(error)
        return isinstance(error, WorkerError)
