# SPDX-License-Identifier: Apache-2.0
"""The rules of the house: who imports whom, what stays private, what the core must not know.

Sources are read, not imported. Each rule is shown to fail on a small wrong source.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "packages" / "eagle-core" / "src" / "eagle"
GUESTS = sorted([*(ROOT / "packages").glob("eagle-backend-*/src"), *ROOT.glob("conformance/src")])

# The floors, from the ground up. A room imports rooms of the rows before its own, and rooms of its own row as long as
# no circle comes of it.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("_core", "errors"),
    ("counters", "dtypes", "abi", "integers", "objects", "roles", "sidecar"),
    ("backends",),
    ("interop",),
    ("nodes",),
    ("registry",),
    ("exec", "plan", "transfer"),
    ("stepping",),
    ("graph",),
    ("diff", "frameworks", "marshal", "launch", "loaded", "host_launch", "pipeline", "compose"),
    ("__init__", "__main__", "_counters"),
)
OUTSIDE = ("native_build",)  # used while wheels are built; it imports no room, and no room imports it
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}

KINDS = {"cpu", "cuda", "hip", "metal", "opencl"}
# {file: {kind: the contract that makes this name more than a kind}}
KIND_MAY_STAND: dict[str, dict[str, str]] = {}

LONGEST = 650
LONG_BY_NATURE = {".json", ".svg"}  # generated


@dataclass(frozen=True)
class Source:
    """One module: its dotted name, whether it is a package's __init__, and its syntax tree."""

    name: str
    is_package: bool
    tree: ast.Module

    @property
    def room(self) -> str:
        return room_of(self.name)


@dataclass(frozen=True)
class Import:
    """One imported thing: ``from eagle.plan import bound as b`` is module eagle.plan, item bound, alias b."""

    module: str
    item: str | None
    alias: str
    line: int


def room_of(dotted: str) -> str:
    """The room of a module of eagle: ``eagle.plan.bound`` is in ``plan``, ``eagle`` itself in ``__init__``."""
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def parse(text: str, name: str, is_package: bool = False) -> Source:
    return Source(name, is_package, ast.parse(text))


def read(src: Path) -> list[Source]:
    """Every module under a source root, by its dotted name."""
    sources = []
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        sources.append(parse(path.read_text(), ".".join(parts[:-1] if is_package else parts), is_package))
    return sources


def imports(source: Source) -> Iterator[Import]:
    """Every import of a module, at any depth, relative ones resolved."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                bound = name.asname or name.name.split(".")[0]
                yield Import(name.name, None, bound, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                up = source.name.split(".")
                up = up[:len(up) - node.level + (1 if source.is_package else 0)]
                module = ".".join([*up, module]) if module else ".".join(up)
            for name in node.names:
                yield Import(module, name.name, name.asname or name.name, node.lineno)


def of_eagle(source: Source) -> Iterator[Import]:
    return (found for found in imports(source) if found.module.split(".")[0] == "eagle")


def target_room(found: Import) -> str:
    """The room an import of eagle leads to; ``from eagle import errors`` leads to errors."""
    if found.module == "eagle" and found.item in FLOOR:
        return str(found.item)
    return room_of(found.module)


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


# ---- the rules -------------------------------------------------------------------------------------------------------


def wrong_arrows(sources: list[Source]) -> list[str]:
    """Imports that climb, rooms without a floor, and circles within a row."""
    wrong, siblings = [], set()
    for source in sources:
        if source.name == "eagle._core":
            continue
        if source.room in OUTSIDE:
            wrong += [f"{source.name}:{found.line} imports {found.module}" for found in of_eagle(source)]
            continue
        if source.room not in FLOOR:
            wrong.append(f"{source.name}: the room {source.room!r} has no floor")
            continue
        for found in of_eagle(source):
            room = target_room(found)
            if room == source.room:
                continue
            if FLOOR.get(room, len(FLOORS)) > FLOOR[source.room]:
                wrong.append(f"{source.name}:{found.line} imports {room}, which is above {source.room}")
            elif FLOOR[room] == FLOOR[source.room]:
                siblings.add((source.room, room))
    reach = set(siblings)
    while more := {(a, d) for a, b in reach for c, d in siblings if b == c} - reach:
        reach |= more
    return wrong + [f"{room} imports itself in a circle" for room in sorted({a for a, b in reach if a == b})]


def private_crossings(sources: list[Source]) -> list[str]:
    """Names with a leading underscore that another room, or another distribution, reaches for."""
    wrong = []
    for source in sources:
        at_home = source.name.split(".")[0] == "eagle"
        modules: dict[str, str] = {}  # local name -> the room it stands for
        for found in of_eagle(source):
            room = target_room(found)
            names = [*found.module.split(".")[1:], *([found.item] if found.item else [])]
            core = at_home and names[:1] == ["_core"]
            if (not at_home or room != source.room) and any(private(name) for name in (names[1:] if core else names)):
                wrong.append(f"{source.name}:{found.line} takes {'.'.join([found.module, found.item or ''])}")
            modules[found.alias] = room
        for node in ast.walk(source.tree):
            if not (isinstance(node, ast.Attribute) and private(node.attr)):
                continue
            path = dotted_path(node)
            if path[0] not in modules or (at_home and node.attr == "_core" and path == ["eagle", "_core"]):
                continue
            room = path[1] if path[0] == "eagle" and path[1] in FLOOR else modules[path[0]]
            if not at_home or room != source.room:
                wrong.append(f"{source.name}:{node.lineno} takes {'.'.join(path)}")
    return wrong


def dotted_path(node: ast.expr) -> list[str]:
    """``a.b.c`` as its names; an empty first name where the root is no plain name."""
    if isinstance(node, ast.Attribute):
        return [*dotted_path(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def kinds_in_logic(source: Source) -> list[str]:
    """Names of kinds that are compared with, matched, or used as a key."""
    wrong = []
    allowed = KIND_MAY_STAND.get(source.name, {})
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Compare | ast.MatchValue):
            spots: list[ast.AST] = [node]
        elif isinstance(node, ast.Dict):
            spots = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            spots = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in (
                "startswith", "endswith", "get", "index", "count"):
            spots = list(node.args[:1])
        else:
            continue
        for spot in spots:
            for inner in ast.walk(spot):
                if isinstance(inner, ast.Constant) and inner.value in KINDS and inner.value not in allowed:
                    wrong.append(f"{source.name}:{inner.lineno} decides by {inner.value!r}")
    return sorted(set(wrong))


def too_long(files: dict[str, int]) -> list[str]:
    return [f"{name}: {lines} lines" for name, lines in files.items()
            if lines > LONGEST and Path(name).suffix not in LONG_BY_NATURE]


# ---- the house keeps them --------------------------------------------------------------------------------------------


def test_arrows() -> None:
    assert wrong_arrows(read(CORE.parent)) == []


def test_nothing_private_crosses_a_room() -> None:
    assert private_crossings(read(CORE.parent)) == []


@pytest.mark.parametrize("src", GUESTS, ids=lambda src: src.parent.name)
def test_guests_use_what_is_public(src: Path) -> None:
    assert private_crossings(read(src)) == []


def test_core_decides_nothing_by_kind() -> None:
    assert [line for source in read(CORE.parent) for line in kinds_in_logic(source)] == []


def test_core_imports_no_guest() -> None:
    names = {found.module.split(".")[0] for source in read(CORE.parent) for found in imports(source)}
    assert not {name for name in names if name.startswith("eagle_")}


def test_files_are_of_readable_length() -> None:
    shown = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in shown.stdout.split("\0") if name]
    lines = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in paths if path.is_file()}
    assert lines and too_long(lines) == []


IMPORT_EAGLE = """
import importlib.metadata, json, sys

def refuse(*args, **kwargs):
    raise AssertionError("import eagle reads entry points")

import numpy
importlib.metadata.entry_points = importlib.metadata.distributions = refuse
before = set(sys.modules)
import eagle
maps = open("/proc/self/maps").read() if sys.platform == "linux" else ""
print(json.dumps({"modules": sorted(set(sys.modules) - before), "backend": "libeagle_" in maps}))
"""


def test_import_eagle_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_EAGLE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    roots = {name.split(".")[0] for name in found["modules"]}
    assert not roots & {"pluggy", "raptor", "hawk", "torch", "cupy", "jax", "tqdm", "eagle_backend_cpu"}
    assert not found["backend"], "import eagle opened a backend"
    assert {name for name in found["modules"] if name.startswith("eagle")} <= {"eagle", "eagle._core", "eagle.errors"}


# ---- and each rule can fail ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text"), [
    ("eagle.errors", "from eagle.plan import Plan"),
    ("eagle.backends.discovery", "from ..plan import Plan"),
    ("eagle.roles", "def f():\n    import eagle.graph.builder"),
    ("eagle.interop", "from eagle import nodes"),
    ("eagle.interop", "from . import nodes"),
    ("eagle.plan", "import eagle"),
    ("eagle.shed", "x = 1"),
    ("eagle.plan", "from eagle.shed import x"),
    ("eagle.native_build", "from eagle import errors"),
])
def test_a_wrong_arrow_is_seen(name: str, text: str) -> None:
    assert wrong_arrows([parse(text, name)])


def test_relative_imports_start_at_their_package() -> None:
    inside = parse("from . import errors", "eagle.interop", is_package=True)
    assert [found.module for found in imports(inside)] == ["eagle.interop"]
    beside = parse("from . import errors", "eagle.interop")
    assert [found.module for found in imports(beside)] == ["eagle"]


def test_a_circle_within_a_row_is_seen() -> None:
    there = parse("from eagle.exec import HostTeam", "eagle.plan")
    back = parse("from eagle.plan import Plan", "eagle.exec")
    assert wrong_arrows([there]) == []
    assert wrong_arrows([there, back])


def test_right_arrows_are_left_alone() -> None:
    assert wrong_arrows([parse("from eagle import _core, errors\nfrom eagle.backends import info\nimport numpy",
                               "eagle.plan.bound")]) == []


@pytest.mark.parametrize(("name", "text"), [
    ("eagle.plan.bound", "from eagle.interop.buffer import _helper"),
    ("eagle.plan.bound", "from eagle.interop._buffer import helper"),
    ("eagle.plan.bound", "from eagle import interop\ninterop._helper()"),
    ("eagle.plan.bound", "import eagle.interop as i\ni.buffer._helper()"),
    ("eagle.plan.bound", "import eagle\neagle.interop._helper()"),
    ("eagle.plan.bound", "from eagle._core import _helper"),
    ("eagle_backend_acme", "from eagle import _core"),
    ("eagle_backend_acme", "import eagle._core"),
    ("eagle_backend_acme", "import eagle\neagle._core.call()"),
    ("eagle_backend_acme", "from eagle.backends import _load"),
])
def test_a_private_name_is_seen(name: str, text: str) -> None:
    assert private_crossings([parse(text, name)])


@pytest.mark.parametrize(("name", "text"), [
    ("eagle.plan.bound", "from eagle.plan._pack import _helper"),
    ("eagle.plan.bound", "from eagle import _core\n_core.call(self._block)"),
    ("eagle.plan.bound", "import eagle\neagle._core.call()"),
    ("eagle_backend_acme", "from eagle.backends import BackendSpec\nimport eagle\neagle.__version__"),
])
def test_what_is_at_home_is_left_alone(name: str, text: str) -> None:
    assert private_crossings([parse(text, name)]) == []


@pytest.mark.parametrize("text", [
    "if kind == 'cuda': pass",
    "x = kind in ('cuda', 'hip')",
    "x = 'metal' != kind",
    "match kind:\n    case 'opencl': pass",
    "TABLE = {'cpu': 1}",
    "x = table['hip']",
    "x = table.get('hip')",
    "x = kind.startswith('cuda')",
])
def test_a_decision_by_kind_is_seen(text: str) -> None:
    assert kinds_in_logic(parse(text, "eagle.plan"))


def test_a_name_in_a_message_is_left_alone() -> None:
    assert kinds_in_logic(parse("raise ValueError('cuda')\nx = f(kind, default='cpu')", "eagle.plan")) == []


def test_a_long_file_is_seen() -> None:
    assert too_long({"a.py": LONGEST + 1, "lock.json": 9999, "b.py": LONGEST}) == [f"a.py: {LONGEST + 1} lines"]
