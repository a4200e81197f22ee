"""Streaming y = a*x + b, 16 bytes a sample, from one sample to memory speed; a launch after idleness."""

from dataclasses import replace

from bench.cells import ONE_THREAD, Cell, Contender, Goal, both, times

from suites.calls import LAUNCH, RUN_OUT

SIZES = {1: 0.97, 10**3: 2.0, 10**4: 0.97, 10**5: 3.0, 10**6: 2.5, 10**7: 1.6, 10**8: 1.6}
PLAIN_FROM = 10**7


def stream(statement: str, n: int, least: float) -> Cell:
    """One size; from 1e7 on also against the plain loop."""
    contenders = {**both("call", statement=statement, n=n), "plain": Contender("plain", "plain", {"n": n})}
    goals = (times("peer", least), *((times("plain", 0.97),) if n >= PLAIN_FROM else ()))
    return Cell(f"`{statement}`", contenders, goals, n, memory=len(contenders) * 16 * n, moved=16 * n)


def after_idle(n: int) -> Cell:
    """The default team against one thread, both after 20 ms of idleness."""
    one = {f"{who}, 1 thread": contender for who, contender in both("after_idle", ONE_THREAD, n=n).items()}
    goal = Goal("ours/(1 thread) ≤ 3", lambda m: m["ours"] / m["ours, 1 thread"], 3.0, False)
    return Cell("`launch()` after 20 ms idle", {**both("after_idle", n=n), **one}, (goal, times("peer", 0.97)), n)


def cells(quick: bool) -> list[Cell]:
    sizes = [(n, least) for n, least in SIZES.items() if not quick or n <= 10**6]
    found = [stream(statement, n, least) for statement in (RUN_OUT, LAUNCH) for n, least in sizes]
    found.append(after_idle(10**5))
    return [replace(cell, rounds=3) for cell in found] if quick else found
