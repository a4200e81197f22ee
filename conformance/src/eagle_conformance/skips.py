# SPDX-License-Identifier: Apache-2.0
"""The closed list of reasons for which a test may be skipped. An absent capability is none of them."""

from __future__ import annotations

from enum import StrEnum
from typing import NoReturn

import pytest


class Skip(StrEnum):
    """What is missing."""

    NO_DEVICE = "no-device"
    NEEDS_TOOLKIT = "needs-toolkit"
    TOO_LITTLE_MEMORY = "too-little-memory"
    FRAMEWORK_MISSING = "framework-missing"


def skip(kind: Skip, reason: str) -> NoReturn:
    """Skips the running test; reports carry the kind and the reason."""
    pytest.skip(f"{kind}: {reason}")


def parse(text: str) -> tuple[Skip, str] | None:
    """Kind and reason of a skip's text; None when it is not of the list."""
    kind, _, reason = text.removeprefix("Skipped: ").partition(": ")
    return (Skip(kind), reason) if kind in set(Skip) and reason else None
