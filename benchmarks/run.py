"""Measures this project side by side with a peer. See README.md."""

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import suites
from bench import machine, report
from bench.cells import Cell
from bench.measure import Measured, measure
from bench.workers import Pool, WorkerError

HERE = Path(__file__).parent
QUICK_TARGET = 0.005  # seconds of work a round
OTHERS = ("numba", "jax", "torch")


def arguments() -> argparse.Namespace:
    names = [module.name for module in pkgutil.iter_modules(suites.__path__)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=names, metavar="SUITE", help=", ".join(names))
    parser.add_argument("--ours", required=True, metavar="PYTHON", help="interpreter with this project installed")
    parser.add_argument("--peer", required=True, metavar="PYTHON", help="interpreter with the peer installed")
    for tool in OTHERS:
        parser.add_argument(f"--{tool}", metavar="PYTHON", help=f"interpreter with {tool} installed (suite stepping)")
    parser.add_argument("--only", action="append", metavar="WORDS", help="only the cells whose name and n have all "
                        "these words, as in osc,spread,1e5; may be repeated; prints only, unless --out")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: results; with --quick or "
                        "--only: nowhere)")
    parser.add_argument("--quick", action="store_true", help="few rounds, no large sizes; prints only, unless --out")
    parser.add_argument("--patience", type=float, default=0.0, metavar="S", help="wait so long a cell for quiet CPUs")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a goal is missed or results differ")
    return parser.parse_args()


def versions(pool: Pool, tools: Sequence[str]) -> dict[str, dict[str, str]]:
    found = {}
    for tool in tools:
        try:
            found[tool] = pool.worker(tool, {}).ask("versions", 60)
        except WorkerError as error:
            found[tool] = {"error": str(error)}
    return found


def wanted(cell: Cell, only: Sequence[str] | None) -> bool:
    """Whether the name and n of a cell have all the words of one of these."""
    words = {*cell.name.replace("`", "").split(", "), *([] if cell.n is None else [cell.n])}
    return not only or any(all(_word(text) in words for text in texts.split(",")) for texts in only)


def _word(text: str) -> str | int:
    try:
        return int(float(text))
    except ValueError:
        return text.strip()


def run(suite: ModuleType, pool: Pool, args: argparse.Namespace) -> list[Measured]:
    """All cells of one suite, told on stderr as they are done."""
    name = suite.__name__.rpartition(".")[2]
    results: list[Measured] = []
    for cell in suite.cells(args.quick):
        if not wanted(cell, args.only):
            continue
        if args.quick:
            cell = replace(cell, target=QUICK_TARGET)
        machine.await_quiet(args.patience)
        start = time.monotonic()
        results.append(measure(pool, cell, results))
        size = "" if cell.n is None else f" n = {cell.n:,}"
        print(f"{name}: {cell.name}{size} ({time.monotonic() - start:.1f} s)", file=sys.stderr, flush=True)
    return results


def main() -> int:
    args = arguments()
    out = args.out or (None if args.quick or args.only else HERE / "results")
    missed = False
    pythons = {"ours": args.ours, "peer": args.peer, "plain": args.ours}
    others = {tool: getattr(args, tool) for tool in OTHERS if getattr(args, tool)}
    with tempfile.TemporaryDirectory() as cache, Pool({**pythons, **others}, Path(cache)) as pool:
        for name in args.suites:
            suite = importlib.import_module(f"suites.{name}")
            tools = ("ours", "peer", *getattr(suite, "OTHERS", ()))
            facts = {"machine": machine.facts(), "versions": versions(pool, tools), "quick": args.quick}
            results = run(suite, pool, args)
            facts["machine"]["busy_after"] = machine.busy()
            print(report.write(out, name, facts, results, getattr(suite, "body", report.table)), flush=True)
            if out and hasattr(suite, "draw"):
                suite.draw(out)
            missed |= any(not result.passed for result in results)
    return int(args.strict and missed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
