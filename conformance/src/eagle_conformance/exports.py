# SPDX-License-Identifier: Apache-2.0
"""What a library file exports, read with the system's nm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from eagle_conformance.skips import Skip, skip

LINKERS = {"_init", "_fini", "__bss_start", "_edata", "_end"}  # some linkers add these to every library


def exported(path: Path) -> set[str]:
    """The names a shared library defines for others; skips the test where there is no nm."""
    if shutil.which("nm") is None:
        skip(Skip.NEEDS_TOOLKIT, "no nm to read the exported symbols")
    flags = ["-gU"] if sys.platform == "darwin" else ["-D", "--defined-only"]
    done = subprocess.run(["nm", *flags, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"nm cannot read {path}: {done.stderr.strip()}"
    rows = [line.split() for line in done.stdout.splitlines()]
    names = {row[-1].split("@")[0] for row in rows if len(row) > 1 and row[-2] != "A"}  # A: the name of a version
    return ({name.removeprefix("_") for name in names} if sys.platform == "darwin" else names) - LINKERS
