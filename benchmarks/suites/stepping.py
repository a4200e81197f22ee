"""Stepping every sample until it is done: three models, five mixes of stop times, from one sample to a million."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench import plot, rates
from bench.cells import Cell, Contender, Goal, threads, times
from bench.measure import Measured

OTHERS = ("numba", "jax", "torch")
MODELS = ("osc", "table", "orbit")
MIXES = ("spread", "uniform", "once", "straggler", "bimodal")
SIZES = (1, 64, 10**3, 10**4, 10**5, 10**6)
VARIANTS = ("osc_compacting", "osc_one", "osc_eight")
BOUND = 15.0  # seconds of a batch
RUN, UNIFORM, PLAIN = "ours run", "ours run, uniform", "ours run, plain osc"


def stepped(tool: str, how: str, number: int, compared: bool = True, **what: object) -> Contender:
    """A tool steps a batch with so many threads."""
    by = "eagle" if tool in ("ours", "peer") else tool
    return Contender(tool, "stepping", {"by": by, "how": how, **what}, threads(number), compared)


def doors(number: int, **what: object) -> dict[str, Contender]:
    """The whole call and `run()` alone, of this project and of the peer."""
    return {f"{tool}{name}": stepped(tool, how, number, **what)
            for name, how in (("", "Simulate"), (" run", "Run")) for tool in ("ours", "peer")}


def mix(model: str, mix: str, number: int, n: int) -> Cell:
    """One model, one mix, all tools."""
    what = {"model": model, "mix": mix, "n": n}
    contenders = doors(number, **what) | {tool: stepped(tool, "Call", number, **what) for tool in OTHERS}
    goals: list[Goal] = [times(tool, 1.0) for tool in OTHERS]
    if n == 64:
        goals.append(times("peer", 10.0))
    if n >= 1000:
        least = 3.5 if mix == "spread" else 3.0 if (model, mix) == ("table", "uniform") else 0.97
        goals += [times("peer", least), times("peer run", least, RUN)]
    if n >= 1000 and mix == "spread":
        contenders[UNIFORM] = stepped("ours", "Run", number, False, **{**what, "mix": "uniform"})
        goals.append(times(UNIFORM, 0.8, RUN))
    if n >= 1000 and model == "table" and mix in ("spread", "uniform"):
        contenders[PLAIN] = stepped("ours", "Run", number, False, **{**what, "model": "osc"})
        goals.append(times(PLAIN, 0.2, RUN))
    return Cell(f"{model}, {mix}, {_threads(number)}", contenders, tuple(goals), n, "s/step",
                memory=len(contenders) * 200 * n, bound=BOUND, target=0.01)


def variant(variant: str, mix: str, n: int, number: int = 2) -> Cell:
    """The oscillator built otherwise, beside the automatic one."""
    what = {"model": "osc", "mix": mix, "n": n}
    contenders = {f"{tool} run": stepped(tool, "Run", number, variant=variant, **what) for tool in ("ours", "peer")}
    contenders[PLAIN] = stepped("ours", "Run", number, False, **what)
    half = (times(PLAIN, 0.5, RUN),) if variant == "osc_compacting" else ()
    return Cell(f"{variant}, {mix}, {_threads(number)}", contenders, (times("peer run", 0.97, RUN), *half), n, "s/step",
                memory=len(contenders) * 200 * n, bound=BOUND, target=0.01)


def beyond(n: int) -> Cell:
    """What `simulate` costs beyond the run, where that is shortest."""
    contenders = {tool: Contender(tool, "beyond", {"model": "osc", "mix": "once", "n": n}) for tool in ("ours", "peer")}
    goal = Goal("ours ≤ 20 us", _ours, 20e-6, False, "s")
    return Cell("`simulate` beyond `run()`, osc, once", contenders, (goal,), n, memory=2 * 200 * n)


def _ours(medians: Mapping[str, float]) -> float:
    return medians["ours"]


def _threads(number: int) -> str:
    return f"{number} thread{'s' * (number > 1)}"


def cells(quick: bool) -> list[Cell]:
    sizes = [n for n in SIZES if not quick or n <= 1000]
    found = [
        *(mix(model, name, number, n) for number in (2, 1) for model in MODELS for name in MIXES for n in sizes),
        *(variant(name, mix, n) for name in VARIANTS for mix in ("spread", "uniform") for n in sizes if n >= 1000),
        *(beyond(n) for n in sizes),
    ]
    return [replace(cell, rounds=3) for cell in found] if quick else found


def body(results: Sequence[Measured]) -> str:
    """Pictures, goals and rates."""
    return f"{plot.shown()}\n\n{rates.body(results)}"


def draw(folder: Path) -> None:
    plot.draw(folder)
