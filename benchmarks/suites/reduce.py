"""Kernels whose samples meet: reductions over all of them, scatter adds into bins, table reads at random places."""

from collections.abc import Mapping
from dataclasses import replace

from bench.cells import ONE_THREAD, Cell, both, times

REDUCE = "s.run(x=x)"
SCATTER = "s.run(k=k, x=x, acc=acc)"
READ = "s.run(k=k, t=t, out=y)"


def call(statement: str, kernel: str, n: int, cells: int = 0, env: Mapping[str, str] | None = None) -> Cell:
    """One statement of user code; the kernels and their bits are the same for all."""
    words = [kernel, *([f"{cells:,} cells"] if cells else []), *(["1 thread"] if env else [])]
    contenders = both("call", env, statement=statement, n=n, kernel=kernel, cells=cells)
    memory = len(contenders) * (24 if cells else 16) * n
    return Cell(f"`{statement}`, {', '.join(words)}", contenders, (times("peer", 0.97),), n, memory=memory)


def cells(quick: bool) -> list[Cell]:
    few, many = 10**5, 10**6 if quick else 10**7
    found = [
        *(call(REDUCE, kernel, n) for kernel in ("total", "largest") for n in (1000, few, many)),
        *(
            call(SCATTER, kernel, n, bins, ONE_THREAD)
            for kernel in ("binned", "binned_plainly")
            for bins in (64, 10**5)
            for n in (few, many)
        ),
        *(call(READ, "gathered", n, 10**4) for n in (few, many)),
    ]
    return [replace(cell, rounds=3) for cell in found] if quick else found
