"""What a worker can be asked to measure of stepping."""

import hashlib
import importlib
import statistics
import time
from typing import Any

import numpy as np
from jobs import Job, Timed

SLOW = 2.0  # seconds: a batch that takes longer is stepped once
WARM = 0.1  # seconds: a batch that takes longer needs no warming up
CHECKED = 200  # samples whose state is compared with that of other tools


def stepper(by: str, how: str, **what: Any) -> Any:
    """A batch and the way to step it: the class `how` of the module by_`by`."""
    return getattr(importlib.import_module(f"steppers.by_{by}"), how)(**what)


def timed(batch: Any) -> float:
    """Seconds to step a batch once, from its first state; bringing that back is not counted."""
    batch.reset()
    start = time.perf_counter()
    batch.step()
    return time.perf_counter() - start


class Stepping(Timed):
    """Seconds a step of a sample: the time until all samples are done, divided by all the steps they took."""

    def __init__(self, by: str, **what: Any) -> None:
        self.batch = stepper(by, **what)
        self.exact = self.batch.exact
        self.first = timed(self.batch)
        self.found = self.batch.result()
        self.steps = self.taken = float(self.found["k"].sum())
        self.summary = _summary(self.found)
        if self.first > SLOW:
            self.only = self.first / self.taken

    def prepare(self, target: float) -> int:
        if self.first < target:
            self.warm_up = target / 2
            self._warm()
            self.calls = self._calibrated(target)
        return self.calls

    def round(self) -> float:
        if self.first < WARM:
            self._warm()
        return self.seconds(self.calls) / self.calls / self.taken

    def seconds(self, calls: int) -> float:
        return sum(timed(self.batch) for _ in range(calls))

    def digest(self) -> str | None:
        if not self.exact:
            return None
        return hashlib.sha256(b"".join(np.ascontiguousarray(plane).data for plane in self.found.values())).hexdigest()


class Beyond(Job):
    """Seconds that `simulate` takes beyond the `run()` of a runner on the same kernel and batch."""

    def __init__(self, model: str, mix: str, n: int, repeats: int = 15) -> None:
        self.whole, self.run = (stepper("eagle", how, model=model, mix=mix, n=n) for how in ("Simulate", "Run"))
        self.repeats = repeats
        timed(self.whole), timed(self.run)

    def round(self) -> float:
        pairs = [(timed(self.whole), timed(self.run)) for _ in range(self.repeats)]
        return statistics.median(whole for whole, _ in pairs) - statistics.median(run for _, run in pairs)


def _summary(found: dict[str, np.ndarray]) -> dict[str, Any]:
    """What tools that round otherwise must agree in: `equal`, and numbers that are `near` within a tolerance.

    Where the step size `h` is found on the way, rounding moves it, and may turn down a trial that another tool takes.
    """
    adaptive = "h" in found
    some = np.unique(np.linspace(0, found["k"].size - 1, CHECKED).astype(int))
    near = {name: [*plane[some].tolist(), float(plane.mean())] for name, plane in found.items() if name != "h"}
    equal = None if adaptive else hashlib.sha256(found["k"].tobytes()).hexdigest()
    return {"equal": equal, "near": near, "tolerance": 1e-6 if adaptive else 1e-9}


STEPPING_JOBS: dict[str, type[Job]] = {"stepping": Stepping, "beyond": Beyond}
