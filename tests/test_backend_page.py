# SPDX-License-Identifier: Apache-2.0
"""The backend that docs/backends.md prints is one: its listings are built as they stand, and pass the suite."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import eagle

PAGE = Path(__file__).resolve().parents[1] / "docs" / "backends.md"
LISTING = re.compile(r"^`(?P<path>[\w/.]+)`:\n\n```\w+\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
INCLUDE = Path(eagle.__file__).parent / "include"
CORE_VERSION = importlib.metadata.version("eagle-core")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The listings as files."""
    for listing in LISTING.finditer(PAGE.read_text()):
        path = tmp_path / listing["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(listing["text"])
    return tmp_path


def check(library: Path, folder: Path) -> dict[str, Any]:
    """The suite's report on a library that passes it."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "eagle_conformance",
               "--eagle-library", str(library), "--eagle-report", str(report)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(json.loads(report.read_text()))


def test_the_page_prints_every_file_it_lists(project: Path) -> None:
    tree = re.search(r"```text\nacme-eagle-backend/\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert tree is not None
    listed = {line.split()[0] for line in tree[1].splitlines()}
    assert listed == {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}


def test_the_library_passes_the_suite(project: Path) -> None:
    library = project / "libeagle_acme.so"
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic",
                    "-O2", "-fvisibility=hidden", "-shared", "-fPIC", f"-I{INCLUDE}",
                    f'-DEAGLE_CORE_VERSION="{CORE_VERSION}"', str(project / "native" / "libeagle_acme.c"),
                    "-o", str(library)], check=True)
    report = check(library, project)
    assert report["backend"] == {"kind": "acme", "file": str(library), "version": "1.6", "device_types": [12],
                                 "groups": []}
    assert report["skips"] == []


def test_cmake_builds_the_same_and_installs_it_beside_the_module(project: Path) -> None:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("needs-toolkit: no cmake and ninja")
    build, prefix = project / "build", project / "prefix"
    for command in (["cmake", "-S", str(project / "native"), "-B", str(build), "-G", "Ninja",
                     f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DEAGLE_INCLUDE_DIR={INCLUDE}",
                     f"-DPython_EXECUTABLE={sys.executable}"],
                    ["cmake", "--build", str(build)], ["cmake", "--install", str(build)]):
        subprocess.run(command, check=True, capture_output=True)
    installed = [path for path in prefix.rglob("*") if path.is_file()]
    assert [path.parent.name for path in installed] == ["eagle_backend_acme"]
    check(installed[0], project)
    assert CORE_VERSION.encode() in installed[0].read_bytes()


def test_project_file_and_module_agree(project: Path) -> None:
    settings = tomllib.loads((project / "pyproject.toml").read_text())
    module_name = settings["project"]["entry-points"]["eagle.backends"]["acme"]
    path = project / "src" / module_name / "__init__.py"
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"src/{module_name}"]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.eagle_backend()
    assert (found.kind, found.library.name, found.device_types) == ("acme", eagle.backends.library_name("acme"), (12,))
