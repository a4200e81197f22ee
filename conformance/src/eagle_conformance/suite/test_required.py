# SPDX-License-Identifier: Apache-2.0
"""The seven required symbols, and the rules that hold without a device."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from ctypes import byref, c_int32, c_uint64
from typing import Any

import pytest

from eagle_conformance.exports import exported
from eagle_conformance.plugin import Run
from eagle_conformance.seam import (
    FIRST_CALLS,
    GROUPS,
    KNOWN_BITS,
    MAJOR,
    MINOR,
    PREFIX,
    REQUIRED,
    SYMBOLS,
    BuildInfo,
    Library,
    Status,
)
from eagle_conformance.structs import check_output

loaded = pytest.mark.eagle_loaded
Isolate = Callable[..., Any]


@pytest.mark.parametrize("name", REQUIRED)
def test_every_required_symbol_is_exported(library: Library, name: str) -> None:
    assert library.has(name)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.eagle_symbols(n)) for n in FIRST_CALLS])
def test_a_first_call_returns(library: Library, name: str) -> None:
    assert name not in library.crashed, f"{name} {library.crashed[name]}"


@pytest.mark.eagle_answers("version")
def test_version_packs_major_one(library: Library) -> None:
    assert library.version >> 16 == MAJOR


def test_only_symbols_of_the_seam_are_exported(library: Library) -> None:
    others = exported(library.path) - SYMBOLS
    if library.version >> 16 == MAJOR and library.version & 0xFFFF > MINOR:  # the seam has grown since
        others = {name for name in others if not name.startswith(PREFIX)}
    assert sorted(others) == []


# ---- capabilities ----------------------------------------------------------------------------------------------------


@loaded
def test_only_known_bits_are_set(library: Library) -> None:
    mask = c_uint64(0)
    library.ok("capabilities", byref(mask))
    assert mask.value & ~KNOWN_BITS == 0


@loaded
def test_capabilities_do_not_change(library: Library) -> None:
    masks = (c_uint64(0), c_uint64(2**64 - 1))
    for mask in masks:
        library.ok("capabilities", byref(mask))
    assert masks[0].value == masks[1].value == library.capabilities


@loaded
@pytest.mark.parametrize("group", GROUPS)
def test_a_set_bit_promises_its_symbols(library: Library, group: str) -> None:
    promised = GROUPS[group].promised if library.promises(group) else ()
    assert [name for name in promised if not library.has(name)] == []


# ---- device types ----------------------------------------------------------------------------------------------------


@loaded
@pytest.mark.parametrize("cap", [0, 1, 2, 64])
def test_device_types_writes_at_most_cap(library: Library, cap: int) -> None:
    types, count = (c_int32 * 65)(*[-77] * 65), c_int32(-77)
    library.ok("device_types", types, cap, byref(count))
    assert count.value == len(library.device_types)
    written = min(cap, count.value)
    assert list(types) == library.device_types[:written] + [-77] * (65 - written)


@loaded
def test_device_types_are_distinct_codes(library: Library) -> None:
    types = library.device_types
    assert types != []
    assert len(set(types)) == len(types)
    assert min(types) >= 1


# ---- build info ------------------------------------------------------------------------------------------------------


@loaded
@pytest.mark.parametrize("size", [16, 48, 176, 192, 256])
def test_build_info_keeps_to_the_smaller_size(library: Library, size: int) -> None:
    check_output(library, size, lambda out: library.call("build_info", out))


@loaded
def test_build_info_tells_the_version(library: Library) -> None:
    info = BuildInfo()
    library.ok("build_info", byref(info))
    assert info.struct_size >= 176
    assert info.abi_version == library.version
    assert info.eagle_version != b""


@loaded
def test_the_kind_is_the_one_of_the_file(library: Library, eagle_run: Run) -> None:
    if library.build_info.get("struct_size", 0) >= 192:
        kind = library.build_info["backend_kind"]
        assert re.fullmatch("[a-z][a-z0-9_]{0,14}", kind), "a kind is a lower-case identifier of at most 15 characters"
        named = re.fullmatch("libeagle_([^.]+)[.].+", library.path.name)
        assert kind == (eagle_run.asked_kind or (named[1] if named else kind))


# ---- probe, errors ---------------------------------------------------------------------------------------------------


@loaded
def test_probe_answers_ok_or_unavailable_with_a_reason(library: Library) -> None:
    status = library.call("probe")
    assert status in (Status.OK, Status.UNAVAILABLE)
    if status == Status.UNAVAILABLE:
        assert library.error() != ""


def errors_of_two_threads(library: Library) -> list[str]:
    """Messages: of this thread; of a thread without failure; of that thread after one; of this thread again."""
    messages: list[str] = []

    def other() -> None:
        messages.append(library.error())
        library.call("device_types", None, 0, None)
        messages.append(library.error())

    library.call("capabilities", None)
    messages.append(library.error())
    library.call("capabilities", None)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    messages.append(library.error())
    return messages


@loaded
def test_the_error_message_belongs_to_its_thread(isolate: Isolate) -> None:
    mine, fresh, others, again = isolate(errors_of_two_threads)
    assert mine != ""
    assert fresh == ""
    assert others != ""
    assert again == mine


# ---- null pointers ---------------------------------------------------------------------------------------------------


def null_out(library: Library, name: str, *arguments: int | None) -> None:
    """A required function without a place for its result."""
    library.refuses(None, name, *arguments)


@loaded
@pytest.mark.parametrize(
    ("name", "arguments"), [("build_info", [None]), ("capabilities", [None]), ("device_types", [None, 0, None])]
)
def test_a_null_out_pointer_is_refused(isolate: Isolate, name: str, arguments: list[int | None]) -> None:
    isolate(null_out, name, *arguments)


def free_null(library: Library) -> None:
    """free(NULL)."""
    library.call("free", None)


@loaded
def test_free_takes_null(isolate: Isolate) -> None:
    isolate(free_null)


def build_info_of_size(library: Library, size: int) -> int:
    """The status for an output struct too small to hold anything."""
    buffer = (ctypes.c_uint32 * 64)(size)
    status = int(library.call("build_info", buffer))
    assert list(buffer)[2:] == [0] * 62, "build_info writes beyond a struct of 8 bytes"
    return status


@loaded
@pytest.mark.parametrize("size", [0, 4, 8])
def test_an_output_struct_that_holds_nothing_is_not_overrun(isolate: Isolate, size: int) -> None:
    assert isolate(build_info_of_size, size) in (Status.OK, Status.INVALID_ARGUMENT)
