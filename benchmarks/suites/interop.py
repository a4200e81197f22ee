"""What it costs to take a buffer of another library in, and to hand it on."""

from dataclasses import replace

from bench.cells import Cell, at_most, both, times

NEVER_SLOWER = times("peer", 0.97)
IMPORT = "import_buffer(x)"
EXPORT = "view.__dlpack__(max_version=(1, 0))"


def cells(quick: bool) -> list[Cell]:
    found = [Cell(f"`{statement}`, {library}", both("exchange", statement=statement, library=library),
                  (*((at_most(400),) if statement == IMPORT else ()), NEVER_SLOWER))
             for library in ("numpy", "torch") for statement in (IMPORT, EXPORT)]
    return [replace(cell, rounds=3) for cell in found] if quick else found
