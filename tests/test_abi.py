# SPDX-License-Identifier: Apache-2.0
"""The lock of the seam: the tree passes, and each way to break a released row is named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEADER = "packages/eagle-core/include/eagle/eagle_backend.h"
SYMBOLS = "packages/eagle-core/include/eagle/eagle_backend_symbols.def"
LOCK = "packages/eagle-core/abi/eagle_backend.lock.json"
LAYOUT_TEST = "packages/eagle-core/native/tests/layout.c"
COPIED = (HEADER, SYMBOLS, LOCK, LAYOUT_TEST, "docs/backends.md")


def abi(root: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit status and messages of tools/abi.py over a tree."""
    command = [sys.executable, str(ROOT / "tools/abi.py"), "--root", str(root), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr.splitlines()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that the tool reads."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path.name}"
    path.write_text(text.replace(old, new))


def test_the_tree_passes() -> None:
    assert abi(ROOT, "--check") == (0, [])


def test_the_layout_test_compiles_as_cpp() -> None:
    flags = ["-x", "c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    subprocess.run(["c++", *flags, f"-I{(ROOT / HEADER).parents[1]}", str(ROOT / LAYOUT_TEST)], check=True)


def test_a_reordered_field_is_named(tree: Path) -> None:
    edit(
        tree / HEADER,
        "    uint64_t brk_ptr;\n    uint64_t limit_ptr;",
        "    uint64_t limit_ptr;\n    uint64_t brk_ptr;",
    )
    status, messages = abi(tree, "--check")
    assert status == 1
    assert messages[:2] == [
        "abi: struct eagle_conditional_desc: field brk_ptr is now [72, 8, 'uint64_t'], "
        "locked as [64, 8, 'uint64_t'] (offset, size, type)",
        "abi: struct eagle_conditional_desc: field limit_ptr is now [64, 8, 'uint64_t'], "
        "locked as [72, 8, 'uint64_t'] (offset, size, type)",
    ]
    assert any("offset of eagle_conditional_desc.brk_ptr" in message for message in messages)


def test_a_changed_constant_is_named(tree: Path) -> None:
    edit(tree / HEADER, "EAGLE_UNSUPPORTED = 8", "EAGLE_UNSUPPORTED = 9")
    status, messages = abi(tree, "--check")
    assert (status, messages[0]) == (1, "abi: constant EAGLE_UNSUPPORTED: now 9, locked as 8")


def test_a_removed_symbol_is_named(tree: Path) -> None:
    edit(tree / SYMBOLS, "EAGLE_SYMBOL(fork_size, fork, 0, BIT)\n", "")
    edit(tree / HEADER, "EAGLE_BACKEND_API eagle_status eagle_backend_fork_size(eagle_fork fork, uint64_t *out);\n", "")
    status, messages = abi(tree, "--check")
    assert (status, messages[0]) == (1, "abi: symbol fork_size: locked in minor 0, now missing there")


def test_a_changed_prototype_is_named_and_a_renamed_parameter_is_not(tree: Path) -> None:
    edit(
        tree / HEADER,
        "eagle_backend_memset_device(uint64_t ptr, uint64_t bytes,",
        "eagle_backend_memset_device(uint64_t p, uint32_t bytes,",
    )
    status, messages = abi(tree, "--check")
    assert status == 1
    assert messages[0] == (
        "abi: symbol memset_device: now ['interop', 'ALONE', 'eagle_status(uint64_t, uint32_t, uint64_t)'], "
        "locked as ['interop', 'ALONE', 'eagle_status(uint64_t, uint64_t, uint64_t)']"
    )
    edit(tree / HEADER, "(uint64_t p, uint32_t bytes,", "(uint64_t p, uint64_t bytes,")
    assert abi(tree, "--check") == (0, [])


def test_reordered_rows_are_named(tree: Path) -> None:
    first, second = "EAGLE_SYMBOL(fork_mark, fork, 5, ALONE)\n", "EAGLE_SYMBOL(fork_wait, fork, 5, ALONE)\n"
    edit(tree / SYMBOLS, first + second, second + first)
    status, messages = abi(tree, "--check")
    assert status == 1
    assert messages[0] == "abi: the symbols of minor 5: reordered, fork_wait stands where fork_mark was"


def test_a_released_minor_takes_no_new_symbol(tree: Path) -> None:
    edit(tree / SYMBOLS, "#undef EAGLE_SYMBOL", "EAGLE_SYMBOL(launcher_pause, launcher, 6, ALONE)\n#undef EAGLE_SYMBOL")
    pause = "EAGLE_BACKEND_API eagle_status eagle_backend_launcher_pause(eagle_launcher launcher);\n"
    edit(tree / HEADER, "/* ---- exec, device", pause + "/* ---- exec, device")
    for command in ("--check", "--write"):
        status, messages = abi(tree, command)
        assert status == 1
        assert messages[0] == (
            "abi: symbol launcher_pause: minor 6 is released; a new symbol takes the next minor, or -1"
        )


def test_a_symbol_needs_a_declaration(tree: Path) -> None:
    edit(tree / SYMBOLS, "#undef EAGLE_SYMBOL", "EAGLE_SYMBOL(launch_all, extension, -1, ALONE)\n#undef EAGLE_SYMBOL")
    status, messages = abi(tree, "--check")
    assert (status, messages) == (1, [f"abi: symbol launch_all: in {SYMBOLS}, not declared in {HEADER}"])


def test_growth_at_the_end_is_recorded_by_write(tree: Path) -> None:
    edit(
        tree / HEADER,
        "    const void *image;\n    uint64_t image_bytes;",
        "    const void *image;\n    uint64_t image_bytes;\n    uint64_t options;",
    )
    edit(tree / LAYOUT_TEST, "SIZE(module_desc, 32);", "SIZE(module_desc, 40);\nAT(module_desc, 32, options);")
    assert abi(tree, "--check") == (1, [f"abi: {LOCK}: the seam has grown; run tools/abi.py --write"])
    assert abi(tree, "--write") == (0, [])
    assert abi(tree, "--check") == (0, [])
    struct = json.loads((tree / LOCK).read_text())["structs"]["eagle_module_desc"]
    assert (struct["size"], struct["older_sizes"]) == (40, [32])
    assert struct["fields"]["options"] == [32, 8, "uint64_t"]


def test_a_field_in_the_middle_is_refused_by_write(tree: Path) -> None:
    edit(tree / HEADER, "    const void *image;\n", "    uint64_t options;\n    const void *image;\n")
    before = (tree / LOCK).read_text()
    status, messages = abi(tree, "--write")
    assert status == 1
    assert "abi: struct eagle_module_desc: new field options lies before the locked end, 32" in messages
    assert (tree / LOCK).read_text() == before


def test_a_stale_table_and_a_missing_layout_line_are_said(tree: Path) -> None:
    edit(tree / "docs/backends.md", "| exec | 9 | `eagle_backend_run_device` | 1.0 | with the bit |\n", "")
    edit(tree / LAYOUT_TEST, "AT(graph_desc, 8, device);\n", "")
    assert abi(tree, "--check") == (
        1,
        [
            "abi: docs/backends.md: the symbol table is stale; run tools/abi.py --write",
            f"abi: {LAYOUT_TEST}: no line for eagle_graph_desc.device",
        ],
    )


def test_the_lock_knows_the_older_sizes() -> None:
    structs = json.loads((ROOT / LOCK).read_text())["structs"]
    assert {name: (row["size"], row["older_sizes"]) for name, row in structs.items() if row["older_sizes"]} == {
        "eagle_build_info": (192, [176]),
        "eagle_fork_desc": (40, [32]),
        "eagle_conditional_desc": (80, [48]),
        "eagle_compact_desc": (104, [72]),
        "eagle_reduce_desc": (96, [72]),
        "eagle_step_report": (40, [32]),
    }


REQUIRED = """
#include <stdint.h>
uint32_t eagle_backend_version(void) { return 65542; }
const char *eagle_backend_last_error(void) { return ""; }
int32_t eagle_backend_build_info(void *out) { return !out; }
int32_t eagle_backend_probe(void) { return 5; }
void eagle_backend_free(void *array) { (void)array; }
int32_t eagle_backend_device_types(int32_t *types, int32_t cap, int32_t *count) { return !types || cap || !count; }
"""


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("int32_t eagle_backend_capabilities(uint64_t *out) { *out = 0; return 0; }", []),
        ("", ["lacks the required eagle_backend_capabilities"]),
        (
            "int32_t eagle_backend_capabilities(uint64_t *out) { *out = 1 << 9; return 0; }",
            ["sets the bit of exec and lacks eagle_backend_run_device"],
        ),
        (
            "int32_t eagle_backend_capabilities(uint64_t *out) { *out = 0; return 0; } int helper(void) { return 1; }",
            ["exports helper, which the seam does not have"],
        ),
    ],
)
def test_a_library_exports_the_seam_and_nothing_else(tmp_path: Path, source: str, expected: list[str]) -> None:
    library = tmp_path / "libeagle_tiny.so"
    library.with_suffix(".c").write_text(REQUIRED + source)
    subprocess.run(["cc", "-shared", "-fPIC", str(library.with_suffix(".c")), "-o", str(library)], check=True)
    status, messages = abi(ROOT, "--check", "--library", str(library))
    assert (status, messages) == (int(bool(expected)), [f"abi: {library}: {line}" for line in expected])


def test_a_version_name_is_no_export(tmp_path: Path) -> None:
    library, script = tmp_path / "libeagle_tiny.so", tmp_path / "map"
    library.with_suffix(".c").write_text(
        REQUIRED + "int32_t eagle_backend_capabilities(uint64_t *p) { return *p = 0; }"
    )
    script.write_text("EAGLE_BACKEND_1 { global: eagle_backend_*; local: *; };")
    link = ["-shared", "-fPIC", f"-Wl,--version-script={script}"]
    subprocess.run(["cc", *link, str(library.with_suffix(".c")), "-o", str(library)], check=True)
    assert abi(ROOT, "--check", "--library", str(library)) == (0, [])
