# SPDX-License-Identifier: Apache-2.0
"""The command ``eagle``."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence

from eagle.backends import doctor

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status, 1 where no backend is found. Wrong arguments end the process with a usage
    message and status 2."""
    parser = argparse.ArgumentParser(prog="eagle", description="eagle, an execution engine for per-sample kernels")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor_options = commands.add_parser("doctor", help="show every backend found and how far it gets")
    doctor_options.add_argument("--json", action="store_true", help="print JSON for a program to read")
    doctor_options.add_argument("--timeout", type=float, default=20.0, metavar="SECONDS",
                                help="how long each backend may take (default: %(default)g)")
    chosen = parser.parse_args(arguments)

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths and messages may hold any bytes
    rows = doctor.report(chosen.timeout)
    print(json.dumps({"backends": rows}, indent=2) if chosen.json else doctor.table(rows))
    if warning := doctor.neighbour():
        print(f"\n{warning}", file=sys.stderr if chosen.json else sys.stdout)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
