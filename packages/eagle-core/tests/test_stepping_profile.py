# SPDX-License-Identifier: Apache-2.0
"""Under the profile that hawk builds with by itself, which contracts: bits do not depend on the schedule either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.want("2.5")
def test_the_cut_of_a_batch_changes_no_bit() -> None:
    """Whatever the threads, the samples beside it and its position, a sample has one result."""
    program = Path(__file__).with_name("profile_program.py")
    env = {name: value for name, value in os.environ.items() if name != "HAWK_HOST_PROFILE"}
    ran = subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == ""
