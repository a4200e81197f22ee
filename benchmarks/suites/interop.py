"""Arrays of other libraries and memory orders: what it costs to take them in, hand them on, and run on them."""

from dataclasses import replace

from bench.cells import Cell, at_most, both, times

NEVER_SLOWER = times("peer", 0.97)
IMPORT = "import_buffer(x)"
EXPORT = "view.__dlpack__(max_version=(1, 0))"
GIVEN, MADE = "s.run(x=x, a=1.1, b=0.3, out=y)", "s.run(x=x, a=1.1, b=0.3)"
PUSH = "s.run(v=v, dt=1.1, p=p)"


def handed(statement: str, n: int, what: str, **how: str) -> Cell:
    """A run over `n` samples; 0 is one of them, without an axis."""
    return Cell(f"`{statement}`, {what}", both("handed", statement=statement, n=n, **how), (NEVER_SLOWER,), n or 1,
                memory=2 * 48 * n)


def cells(quick: bool) -> list[Cell]:
    few, many = 10**5, 10**6 if quick else 10**7
    found = [
        *(Cell(f"`{statement}`, {library}", both("exchange", statement=statement, library=library),
               (*((at_most(400),) if statement == IMPORT else ()), NEVER_SLOWER))
          for library in ("numpy", "torch") for statement in (IMPORT, EXPORT)),
        *(handed(statement, n, "torch", library="torch") for statement in (GIVEN, MADE) for n in (1, few)),
        *(handed(statement, 0, "one sample") for statement in (GIVEN, MADE, "s.run(x=2.0, a=1.1, b=0.3)")),
        *(handed(statement, n, "samples first", kernel="push") for statement in (PUSH, "launch()")
          for n in (1000, few, many)),
    ]
    return [replace(cell, rounds=3) for cell in found] if quick else found
