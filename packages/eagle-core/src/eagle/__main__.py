# SPDX-License-Identifier: Apache-2.0
"""The command ``eagle``."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from eagle.backends import doctor

__all__ = ["main"]

CONFIG = {"cmakedir": "the folder for find_package(eagle CONFIG): pass it as eagle_DIR",
          "includes": "the headers, as options of a compiler", "version": "the version of eagle-core"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; the exit status, 1 where no backend is found. Wrong arguments end the process with a usage
    message and status 2."""
    parser = argparse.ArgumentParser(prog="eagle", description="eagle, an execution engine for per-sample kernels")
    commands = parser.add_subparsers(dest="command", required=True)
    doctor_options = commands.add_parser("doctor", help="show every backend found and how far it gets")
    doctor_options.add_argument("--json", action="store_true", help="print JSON for a program to read")
    doctor_options.add_argument("--timeout", type=float, default=20.0, metavar="SECONDS",
                                help="how long each backend may take (default: %(default)g)")
    config_options = commands.add_parser("config", help="show what a build of C++ needs, one line each")
    for option, text in CONFIG.items():
        config_options.add_argument(f"--{option}", action="append_const", dest="facts", const=option, help=text)
    chosen = parser.parse_args(arguments)
    if chosen.command == "config":
        if not chosen.facts:
            config_options.error("one of --" + ", --".join(CONFIG) + " is required")
        print(*map(config, chosen.facts), sep="\n")
        return 0
    return show_backends(chosen)


def show_backends(chosen: argparse.Namespace) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths and messages may hold any bytes
    rows = doctor.report(chosen.timeout)
    print(json.dumps({"backends": rows}, indent=2) if chosen.json else doctor.table(rows))
    if warning := doctor.neighbour():
        print(f"\n{warning}", file=sys.stderr if chosen.json else sys.stdout)
    return 0 if rows else 1


def config(fact: str) -> str:
    """One of CONFIG."""
    folder = Path(__file__).absolute().parent
    return {"cmakedir": str(folder / "cmake"), "includes": shlex.join([f"-I{folder / 'include'}"]),
            "version": version("eagle-core")}[fact]


if __name__ == "__main__":
    sys.exit(main())
