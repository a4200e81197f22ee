# SPDX-License-Identifier: Apache-2.0
"""Every program in examples/ runs from start to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAMS = sorted(path for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_example(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(program), "10000"], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "PYTHONWARNINGS": "error"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_examples() -> None:
    assert PROGRAMS
