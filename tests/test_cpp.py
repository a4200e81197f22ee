# SPDX-License-Identifier: Apache-2.0
"""The C++ headers as they are installed: CMake finds them, the example builds and runs, each stands on its own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "cpp_graph"
PAGE = ROOT / "docs" / "cpp.md"
PUBLIC = ("ExecGraph.h", "ScratchArena.h", "cpu/Graph.h", "exec/HostSchedule.h", "exec/HostTeam.h", "exec/Partition.h",
          "graph.h", "plugin.h", "util/Busy.h")

PRINTED = """\
  stage 0          ┌───────┐
                   │ fall  │
                   └───┬───┘
                       │
               ┌───────┴──────┐
          ┌────┴────┐   ┌─────┴─────┐
          │ kinetic │   │ potential │
          └────┬────┘   └─────┬─────┘
               │              │
               └───────┬──────┘
                    ┌──┴──┐
                    │ add │
                    └──┬──┘
                       │
                       │
                   ┌───┴───┐
                   │ mean  │
                   └───────┘
after 1 s: height 95.090 m, speed -9.81 m/s, energy 980.95 J/kg
"""


def done(*command: str | Path, cwd: Path | None = None) -> str:
    shown = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=cwd)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


def config(*options: str) -> list[str]:
    return done(sys.executable, "-m", "eagle", "config", *options).splitlines()


def compiler() -> list[str]:
    command = shlex.split(os.environ.get("CXX", "c++"))
    if shutil.which(command[0]) is None:
        pytest.skip("needs-toolkit: no C++ compiler")
    return command


def cmake() -> str:
    found = shutil.which("cmake")
    if found is None or shutil.which("ninja") is None:
        pytest.skip("needs-toolkit: no cmake and ninja")
    return found


def configured(source: Path, build: Path, *options: str) -> subprocess.CompletedProcess[str]:
    compiler()
    return subprocess.run([cmake(), "-S", source, "-B", build, "-G", "Ninja", *options], capture_output=True, text=True)


def test_the_example(tmp_path: Path) -> None:
    (folder,) = config("--cmakedir")
    made = configured(EXAMPLE, tmp_path, f"-Deagle_DIR={folder}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
    assert made.returncode == 0, made.stderr
    done(cmake(), "--build", tmp_path)
    assert done(tmp_path / "cpp_graph") == PRINTED


@pytest.mark.parametrize("wanted, found", [("", True), ("{0}", True), ("{0} EXACT", True), ("0.7", False),
                                           ("1.0", False)])
def test_versions(tmp_path: Path, wanted: str, found: bool) -> None:
    folder, version = config("--cmakedir", "--version")
    (tmp_path / "CMakeLists.txt").write_text(f"""\
cmake_minimum_required(VERSION 3.24)
project(asks LANGUAGES CXX)
find_package(eagle {wanted.format(version)} CONFIG REQUIRED)
find_package(eagle CONFIG REQUIRED)  # a second time
""")
    made = configured(tmp_path, tmp_path / "build", f"-DCMAKE_PREFIX_PATH={folder}")
    assert (made.returncode == 0) is found, made.stderr
    assert found or version in made.stderr


@pytest.mark.parametrize("header", PUBLIC)
def test_a_header_needs_the_standard_library_only(header: str, tmp_path: Path) -> None:
    """And nothing that was included before it."""
    (includes,) = config("--includes")
    (option,) = shlex.split(includes)
    source = tmp_path / "source.cpp"
    source.write_text(f'#include "eagle/{header}"\n#include "eagle/{header}"\nint main() {{}}\n')
    options = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-pedantic", "-DEAGLE_CPU_ONLY", option]
    done(*compiler(), *options, "-fsyntax-only", source)
    rule = done(*compiler(), *options, "-MM", source)  # all but the system's headers
    used = [Path(name) for name in rule.replace("\\\n", " ").split()[1:]]
    folder = Path(option.removeprefix("-I"))
    assert [path for path in used if path != source and not path.is_relative_to(folder)] == []


def test_the_page_names_every_header() -> None:
    named = set(re.findall(r"`eagle/([\w/]+\.h)`", PAGE.read_text()))
    assert set(PUBLIC) <= named
    (includes,) = config("--includes")
    folder = Path(shlex.split(includes)[0].removeprefix("-I")) / "eagle"
    assert [name for name in sorted(named) if not (folder / name).is_file()] == []


def test_the_listing_of_the_page_runs(tmp_path: Path) -> None:
    listing, printed = re.search(r"^```cpp\n(.*?)^```\n.*?^```text\n(.*?)^```", PAGE.read_text(),
                                 re.MULTILINE | re.DOTALL).groups()  # type: ignore[union-attr]
    source, program = tmp_path / "page.cpp", tmp_path / "page"
    source.write_text(listing)
    (includes,) = config("--includes")
    done(*compiler(), "-std=c++20", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", *shlex.split(includes), source,
         "-o", program)
    assert done(program) == printed


def test_config() -> None:
    folder, includes, version = config("--cmakedir", "--includes", "--version")
    assert (Path(folder) / "eagleConfig.cmake").is_file()
    assert (Path(shlex.split(includes)[0].removeprefix("-I")) / "eagle" / "eagle_backend.h").is_file()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert config("--version", "--cmakedir") == [version, folder]
    nothing = subprocess.run([sys.executable, "-m", "eagle", "config"], capture_output=True, text=True)
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("usage: eagle config") and "--cmakedir" in nothing.stderr
