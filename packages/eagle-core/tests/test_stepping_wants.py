# SPDX-License-Identifier: Apache-2.0
"""Every number of wants.py is carried by a test, and every mark carries such a number."""

from __future__ import annotations

import ast
from pathlib import Path

from wants import WANTS


def shown() -> dict[str, list[str]]:
    """{number: the tests with ``@pytest.mark.want(number)``}."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for mark in getattr(node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.want":
                    assert isinstance(node, ast.FunctionDef) and node.name.startswith("test_"), node
                    (number,) = mark.args
                    assert isinstance(number, ast.Constant), ast.unparse(mark)
                    found.setdefault(number.value, []).append(f"{path.name}::{node.name}")
    return found


def test_each_want_is_shown() -> None:
    assert sorted(WANTS.keys() - shown().keys()) == []


def test_each_mark_is_a_want() -> None:
    assert sorted(shown().keys() - WANTS.keys()) == []
