"""Measures this project side by side with a peer. See README.md."""

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import suites
from bench import machine, report
from bench.measure import Measured, measure
from bench.workers import Pool, WorkerError

HERE = Path(__file__).parent
TARGET, QUICK_TARGET = 0.02, 0.005  # seconds of work a round


def arguments() -> argparse.Namespace:
    names = [module.name for module in pkgutil.iter_modules(suites.__path__)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="+", choices=names, metavar="SUITE", help=", ".join(names))
    parser.add_argument("--ours", required=True, metavar="PYTHON", help="interpreter with this project installed")
    parser.add_argument("--peer", required=True, metavar="PYTHON", help="interpreter with the peer installed")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go (default: results, --quick: nowhere)")
    parser.add_argument("--quick", action="store_true", help="few rounds, no large sizes; prints only, unless --out")
    parser.add_argument("--patience", type=float, default=0.0, metavar="S", help="wait so long a cell for quiet CPUs")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a goal is missed or results differ")
    return parser.parse_args()


def versions(pool: Pool) -> dict[str, dict[str, str]]:
    found = {}
    for tool in ("ours", "peer"):
        try:
            found[tool] = pool.worker(tool, {}).ask("versions", 60)
        except WorkerError as error:
            found[tool] = {"error": str(error)}
    return found


def run(name: str, pool: Pool, quick: bool, patience: float) -> list[Measured]:
    """All cells of one suite, told on stderr as they are done."""
    results = []
    for cell in importlib.import_module(f"suites.{name}").cells(quick):
        machine.await_quiet(patience)
        start = time.monotonic()
        results.append(measure(pool, cell, QUICK_TARGET if quick else TARGET))
        size = "" if cell.n is None else f" n = {cell.n:,}"
        print(f"{name}: {cell.name}{size} ({time.monotonic() - start:.1f} s)", file=sys.stderr, flush=True)
    return results


def main() -> int:
    args = arguments()
    out = args.out or (None if args.quick else HERE / "results")
    missed = False
    pythons = {"ours": args.ours, "peer": args.peer, "plain": args.ours}
    with tempfile.TemporaryDirectory() as cache, Pool(pythons, Path(cache)) as pool:
        tools = {"versions": versions(pool), "quick": args.quick}
        for name in args.suites:
            facts = {"machine": machine.facts(), **tools}
            results = run(name, pool, args.quick, args.patience)
            facts["machine"]["busy_after"] = machine.busy()
            print(report.write(out, name, facts, results), flush=True)
            missed |= any(not result.passed for result in results)
    return int(args.strict and missed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
