# SPDX-License-Identifier: Apache-2.0
"""``eagle doctor``: what each installed backend came to, told by a process of its own each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import cast

from eagle.backends import discovery
from eagle.backends.probe import NEXT_STEP, Row, blank_row

__all__ = ["examine", "neighbour", "report", "table"]


def examine(kind: str, seconds: float) -> Row:
    """A kind's row. Its plug-in and library run in a child process, killed after `seconds`."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    command = [sys.executable, "-P", "-m", "eagle.backends.probe", kind]
    # Files, not pipes: a grandchild that keeps a pipe open would keep us reading.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                              env={**os.environ, "PYTHONPATH": path}) as child:
            try:
                ending = _ending(child.wait(seconds))
            except subprocess.TimeoutExpired:
                child.kill()
                ending = f"did not end within {seconds:g} s and was killed"
        out.seek(0)
        err.seek(0)
        steps = [json.loads(line) for line in out.read().splitlines() if line.endswith(b"}}")]
        said = err.read().decode(errors="backslashreplace").strip()
    row = cast(Row, steps[-1]["row"]) if steps else blank_row(kind)
    if not (steps and steps[-1]["finished"]):
        where = NEXT_STEP[row["state"]] if steps else "starting"
        row["error"] = f"while {where}, the probe's process {ending}"
        if said:
            row["error"] += f"; it wrote\n{textwrap.indent(said, '  ')}"
    return row


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended by itself with exit status {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def report(seconds: float) -> list[Row]:
    """A row for each kind any place names. Never raises for what a backend does."""
    kinds = discovery.kinds()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(lambda kind: examine(kind, seconds), kinds))


def neighbour() -> str:
    """A warning when raptor-eagle is installed too; empty otherwise."""
    try:
        version = metadata.version("raptor-eagle")
    except metadata.PackageNotFoundError:
        return ""
    return (f"raptor-eagle {version} is installed beside eagle-core: both own the package eagle, and files of one "
            "overwrite the other's; pip uninstall raptor-eagle, then reinstall eagle-core")


def table(rows: Sequence[Row]) -> str:
    """The rows for a reader: a block each, nothing shortened."""
    if not rows:
        return "no backend found; for host memory: pip install eagle-backend-cpu"
    return "\n\n".join(map(_block, rows))


def _block(row: Row) -> str:
    claims = discovery.claims().get(row["kind"], ())
    facts = {
        "distribution": ", ".join(f"{claim.distribution} {claim.version}" for claim in claims),
        "file": row["file"],
        "seam": row["seam"],
        "groups": ", ".join(row["groups"]),
        "device types": ", ".join(map(str, row["device_types"])),
        "devices": ", ".join(row["devices"]),
        "why not": row["error"],
    }
    lines = [f"{row['kind']}: {row['state']}"]
    for name, value in facts.items():
        if value:
            first, *rest = value.splitlines()
            lines += [f"  {name:<12}  {first}", *(f"  {'':<12}  {line}" for line in rest)]
    return "\n".join(lines)
