# SPDX-License-Identifier: Apache-2.0
"""The libraries of the tests, and a record of what happened to their arrays, for the table in docs/frameworks.md."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import libraries
import pytest

RECORD = "EAGLE_FRAMEWORKS_RECORD"  # where the record goes; tools/frameworks_table.py reads it
TABLE = "test_doors.py"  # its tests are the columns

_says = pytest.StashKey[list[str]]()
_cells: dict[str, dict[str, dict[str, str]]] = {}  # library, column, door


@pytest.fixture(params=libraries.KINDS)
def lib(request: pytest.FixtureRequest) -> Iterator[libraries.Library]:
    """Each library; left out where it is not installed."""
    found = libraries.library(request.param)
    with found.around():
        yield found


@pytest.fixture
def says(request: pytest.FixtureRequest) -> list[str]:
    """What a test of the table found, for its cell: recorded when the test has passed."""
    return request.node.stash.setdefault(_says, [])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.passed and item.path.name == TABLE and item.stash.get(_says, []):
        params = item.callspec.params  # type: ignore[attr-defined]
        column = item.originalname.removeprefix("test_").replace("_", " ")  # type: ignore[attr-defined]
        cell = _cells.setdefault(params["lib"], {}).setdefault(column, {})
        cell[params.get("door", "")] = "; ".join(item.stash[_says])
    return report


def pytest_sessionfinish() -> None:
    if RECORD in os.environ:
        rows = [{"library": kind.label, "version": libraries.version(name), "cells": _cells[name]}
                for name, kind in libraries.KINDS.items() if name in _cells]
        Path(os.environ[RECORD]).write_text(json.dumps(rows))
