# SPDX-License-Identifier: Apache-2.0
"""Plans of the forms; and a record of what passed, for the table in docs/forms.md."""

from __future__ import annotations

import ast
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forms import DTYPES, FORMS, Form

import eagle

DOORS = {"test_run": "run", "test_bind": "bind", "test_call": "call"}
RECORD = "EAGLE_FORMS_RECORD"  # the folder of the record, which tools/forms_table.py reads

_passed: dict[str, set[tuple[str, str]]] = {}


@functools.cache
def plan_of(name: str, dtype: str, partitions: int = 1) -> Any:
    return eagle.deploy(FORMS[name].kernel, scalar_type=dtype, npartitions=partitions)


@pytest.fixture(params=FORMS, ids=lambda name: name.replace(" ", "_"))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def form(name: str) -> Form:
    return FORMS[name]


@pytest.fixture
def deploy(name: str, dtype: str) -> Callable[[int], Any]:
    """The form's plan for a number of partitions."""
    return functools.partial(plan_of, name, dtype)


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = eagle.num_threads()
    yield
    eagle.set_num_threads(before)


# ---- the record ------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    door = DOORS.get(getattr(item, "originalname", "")) if item.path.name == "test_forms.py" else None
    if report.when == "call" and report.passed and door:
        params = item.callspec.params  # type: ignore[attr-defined]
        _passed.setdefault(params["name"], set()).add((door, params["dtype"]))
    return report


def pytest_sessionfinish() -> None:
    if RECORD in os.environ:
        bodies = shown()
        rows = [{"form": name, "kernel": bodies[form.kernel.name.removesuffix("_x4")],
                 "doors": sorted(_passed.get(name, ())), "partitions": 1 if form.one_cut else 7,
                 "against": form.against} for name, form in FORMS.items()]
        folder = Path(os.environ[RECORD])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json").write_text(json.dumps(rows))


def shown() -> dict[str, str]:
    """{kernel: its body in one line, or the expression that derives it}."""
    found = {}
    for path in Path(__file__).parent.glob("*_kernels.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = "; ".join(ast.unparse(line) for line in node.body)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found[ast.unparse(node.targets[0])] = ast.unparse(node.value)
    return found
