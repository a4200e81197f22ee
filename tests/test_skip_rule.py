# SPDX-License-Identifier: Apache-2.0
"""The rule of skips holds, and can fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


def run(folder: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Run one test file under the repository's conftest, in a folder of its own."""
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    (folder / "test_it.py").write_text(f"import pytest\n{body}\n")
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)], cwd=folder,
                          capture_output=True, text=True)


def test_listed_reasons_are_counted(tmp_path: Path) -> None:
    done = run(tmp_path, "def test_a(): pytest.skip('no-device: none found')\n"
                         "def test_b(): pytest.skip('too-little-memory')\n"
                         "def test_c(): pytest.skip('no-device')")
    assert done.returncode == 0, done.stdout
    assert "3 left out: 2 no-device, 1 too-little-memory" in done.stdout


@pytest.mark.parametrize("body", [
    "def test_a(): pytest.skip('flaky')",
    "pytest.importorskip('no_such_module_anywhere')\ndef test_a(): pass",
    "@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass",
])
def test_any_other_reason_fails_the_run(tmp_path: Path, body: str) -> None:
    done = run(tmp_path, body + "\n")
    assert done.returncode != 0
    assert "a skip needs one of" in done.stdout


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    done = run(tmp_path, "@pytest.mark.xfail\ndef test_a(): assert False")
    assert done.returncode == 0, done.stdout
    assert "0 left out" in done.stdout
