# SPDX-License-Identifier: Apache-2.0
"""The suite's own view of the seam is the locked one."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance import captures, seam

LOCK = Path(__file__).resolve().parents[2] / "packages/eagle-core/abi/eagle_backend.lock.json"
LOCKED: dict[str, Any] = json.loads(LOCK.read_text())
ROWS = {name: row for symbols in LOCKED["symbols"].values() for name, row in symbols.items()}


STRUCTS = seam.STRUCTS | captures.STRUCTS


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_have_the_locked_layout(name: str) -> None:
    struct, locked = STRUCTS[name], LOCKED["structs"][name]
    fields = [field[0] for field in struct._fields_]
    found = {field: [getattr(struct, field).offset, getattr(struct, field).size] for field in fields}
    assert ctypes.sizeof(struct) == locked["size"]
    assert found == {field: row[:2] for field, row in locked["fields"].items()}


def test_groups_have_the_locked_symbols() -> None:
    assert list(seam.REQUIRED) == [name for name, row in ROWS.items() if row[1] == "REQUIRED"]
    for group, row in seam.GROUPS.items():
        assert row.bit == LOCKED["constants"][f"EAGLE_CAP_{group.upper()}"]
        assert set(row.promised) == {name for name, found in ROWS.items() if found[:2] == [group, "BIT"]}
        assert set(row.later) == {name for name, found in ROWS.items() if found[:2] == [group, "ALONE"]}
    assert {row[0] for row in ROWS.values()} == {"core", "experimental", "extension", *seam.GROUPS}
    assert set(LOCKED["symbols"]["extension"]) == set(seam.EXTENSIONS)
    assert {seam.PREFIX + name for name in ROWS} == seam.SYMBOLS


LETTERS = {
    "void": "-",
    "uint32_t": "u",
    "int32_t": "i",
    "eagle_status": "i",
    "uint64_t": "U",
    "int64_t": "I",
    "const char*": "s",
}


@pytest.mark.parametrize("name", seam.SIGNATURES)
def test_signatures_are_the_locked_prototypes(name: str) -> None:
    result, _, parameters = ROWS[name][2].partition("(")
    types = [] if parameters == "void)" else parameters.removesuffix(")").replace("(*)(void*)", "*").split(", ")
    assert seam.SIGNATURES[name] == LETTERS[result] + "".join(LETTERS.get(each, "p") for each in types)


def test_constants_are_the_locked_ones() -> None:
    locked = LOCKED["constants"]
    assert {status.name: status.value for status in seam.Status} == {
        name: locked[f"EAGLE_{name}"] for name in seam.Status.__members__
    }
    assert {copy.name: copy.value for copy in seam.Copy} == {
        name: locked[f"EAGLE_COPY_{name}"] for name in seam.Copy.__members__
    }
    assert (locked["EAGLE_BACKEND_VERSION_MAJOR"], locked["EAGLE_BACKEND_VERSION_MINOR"]) == (seam.MAJOR, seam.MINOR)
    assert locked["EAGLE_NO_STREAM"] == seam.NO_STREAM
    assert locked["EAGLE_STREAM_NON_BLOCKING"] == seam.STREAM_NON_BLOCKING
    assert (locked["EAGLE_MASK_IS_DROP"], locked["EAGLE_WITHIN_LIVE"]) == (seam.MASK_IS_DROP, seam.WITHIN_LIVE)
    assert locked["EAGLE_MAX_CLASSES"] == seam.MAX_CLASSES
    for name in ("MIRROR", "WRITES", "GUARD", "COUNTS", "MOVABLE", "ABANDON", "EXACT", "STOPPED"):
        assert locked[f"EAGLE_STEP_{name}"] == getattr(seam, f"STEP_{name}")
    assert {where.name: where.value for where in seam.Residency} == {
        name: locked[f"EAGLE_RESIDENCY_{name}"] for name in seam.Residency.__members__
    }
