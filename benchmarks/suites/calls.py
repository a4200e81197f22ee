"""What a call costs: import, launch, run, and what other threads of the same process notice."""

from dataclasses import replace

from bench.cells import ONE_THREAD, Cell, Contender, Goal, at_most, both, times

NEVER_SLOWER = times("peer", 0.97)
LAUNCH = "launch()"
BOUND_LAUNCH = "bound.launch()"
RUN_OUT = "s.run(x=x, a=1.1, b=0.3, out=y)"
RUN = "s.run(x=x, a=1.1, b=0.3)"
CALL = "s(x, 1.1, 0.3)"


def call(statement: str, n: int, *goals: Goal) -> Cell:
    """One statement of user code."""
    return Cell(f"`{statement}`", both("call", statement=statement, n=n), (*goals, NEVER_SLOWER), n)


def imports() -> Cell:
    """`import eagle` beside `import numpy` alone, in fresh interpreters."""
    contenders = both("import_time", module="eagle")
    contenders["numpy"] = Contender("ours", "import_time", {"module": "numpy"})
    goal = Goal("ours - numpy ≤ 15 ms", lambda m: m["ours"] - m["numpy"], 0.015, False, "s")
    return Cell("`import eagle`", contenders, (goal, NEVER_SLOWER), rounds=15)


def threads() -> list[Cell]:
    """With a team of one, other threads of the process keep running."""
    beside, two = both("beside", ONE_THREAD, n=10**7), both("two_threads", ONE_THREAD, n=10**5)
    fast = Goal("ours ≥ 0.6", lambda m: m["ours"], 0.6, True)
    parallel = Goal("ours ≤ 1/1.6", lambda m: m["ours"], 1 / 1.6, False)
    return [
        Cell("Python thread beside launches, speed / alone", beside, (fast,), 10**7, unit="", memory=2 * 16 * 10**7),
        Cell("two threads launching, time / serial", two, (parallel,), 10**5, unit=""),
    ]


def cells(quick: bool) -> list[Cell]:
    found = [
        imports(),
        call(LAUNCH, 1, at_most(60)),
        call(BOUND_LAUNCH, 1, at_most(60)),
        call(RUN_OUT, 1, at_most(250)),
        call(RUN, 1, at_most(350)),
        call(CALL, 1),
        *(call(statement, n) for n in (1000, 100_000) for statement in (LAUNCH, RUN_OUT, RUN, CALL)),
        *threads(),
    ]
    return [replace(cell, rounds=3) for cell in found] if quick else found
