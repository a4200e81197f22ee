# SPDX-License-Identifier: Apache-2.0
"""The handshake with a backend library, and what a loaded one answers."""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import eagle.errors
from eagle import _core

if TYPE_CHECKING:
    from conftest import MakeLibrary


def open_backend(path: Path, kind: str = "fake") -> _core.Backend:
    return _core.Backend(kind, os.fsencode(path))


def refused(path: Path, why: str, kind: str = "fake") -> None:
    """The load is refused with exactly this message, after the kind and the file."""
    with pytest.raises(eagle.errors.BackendUnavailable) as caught:
        open_backend(path, kind)
    assert str(caught.value) == f"backend '{kind}' ({path}): {why}"


def test_a_minimal_backend_loads(make_library: MakeLibrary) -> None:
    path = make_library(DEVICES="77,78")
    backend = open_backend(path)
    assert (backend.kind, backend.path, backend.version) == ("fake", str(path), "1.6")
    assert (backend.capabilities, backend.device_types) == (0, (77, 78))
    assert backend.build_info == {"abi_version": 65542, "cudart_version": 0, "eagle_version": "9.9.9", "archs": "none",
                                  "backend_kind": "fake"}
    assert list(backend.groups) == list(_core.GROUPS)
    assert all(backend.groups[group] == f"backend 'fake' ({path}) does not provide {group}" for group in _core.GROUPS)
    assert backend.has("probe") and not backend.has("memcpy") and not backend.has("nonsense")
    backend.probe()


def test_another_major_is_refused_before_anything_else_is_looked_up(make_library: MakeLibrary) -> None:
    refused(make_library(VERSION="(2u << 16 | 3)", ONLY_VERSION=1),
            "found seam version 2.3 (major 2), wanted major 1; install a build of the backend for eagle-backend/1")


@pytest.mark.parametrize("minor", [0, 9])
def test_any_minor_loads(make_library: MakeLibrary, minor: int) -> None:
    assert open_backend(make_library(VERSION=f"(1u << 16 | {minor})")).version == f"1.{minor}"


def test_a_missing_required_symbol_is_named(make_library: MakeLibrary) -> None:
    refused(make_library(OMIT_PROBE=1), "found no symbol eagle_backend_probe, which every backend exports")


def test_a_bit_promises_its_whole_group(make_library: MakeLibrary) -> None:
    refused(make_library(BITS=1, STREAMS=1),
            "sets the capability bit of group stream without exporting eagle_backend_stream_release")
    assert open_backend(make_library(BITS=1, STREAMS=2)).groups["stream"] == ""


def test_a_clear_bit_withholds_the_group_even_when_its_symbols_are_exported(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library(STREAMS=2))
    assert not backend.has("stream_create")
    with pytest.raises(eagle.errors.BackendUnavailable, match=r"does not provide device$"):
        backend.device_props(0)


@pytest.mark.parametrize("bit", [8, 15, 40, 63])
def test_bits_not_assigned_yet_are_tolerated(make_library: MakeLibrary, bit: int) -> None:
    assert open_backend(make_library(BITS=f"(1ull << {bit})")).capabilities == 1 << bit


@pytest.mark.parametrize(("number", "symbol"), [(1, "capabilities"), (2, "device_types"), (3, "build_info")])
def test_a_failing_answer_is_told(make_library: MakeLibrary, number: int, symbol: str) -> None:
    text = f"no {symbol.replace('_', ' ')} today"
    refused(make_library(FAIL=number), f"eagle_backend_{symbol} failed with status 1: {text}")


def test_fields_a_first_backend_does_not_fill_are_absent(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library("other", BUILD_BYTES=176))
    assert set(backend.build_info) == {"abi_version", "cudart_version", "eagle_version", "archs"}
    assert set(open_backend(make_library(BUILD_BYTES=8)).build_info) == {"abi_version"}


def test_another_kind_is_refused_naming_both(make_library: MakeLibrary) -> None:
    refused(make_library("other"), "found a backend of kind 'other', wanted kind 'fake'")


def test_more_device_types_than_the_core_asks_for(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library(DEVICES=",".join(map(str, range(100, 170)))))
    assert backend.device_types == tuple(range(100, 164))


def test_what_is_no_library(tmp_path: Path) -> None:
    text = tmp_path / "libeagle_fake.so"
    text.write_text("not a library")
    why = re.escape(f"backend 'fake' ({text}): cannot be opened: ")
    with pytest.raises(eagle.errors.BackendUnavailable, match=why):
        open_backend(text)


def test_a_library_that_is_no_backend() -> None:
    refused(Path(_core.__file__), "found no symbol eagle_backend_version, so it is no backend library")


def test_a_path_that_is_no_utf8(make_library: MakeLibrary, tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9.so"
    os.symlink(make_library(), odd)
    assert os.fsencode(_core.Backend("fake", odd).path) == odd
    with pytest.raises(eagle.errors.BackendUnavailable, match=r"caf\\xe9\.so.*wanted kind 'x'"):
        _core.Backend("x", odd)


def test_a_failed_probe_raises_what_the_backend_said(make_library: MakeLibrary) -> None:
    with pytest.raises(eagle.errors.BackendUnavailable) as caught:
        open_backend(make_library(FAIL=4)).probe()
    assert str(caught.value) == r"caf\xe9: no device"


def test_devices(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library(BITS="(1 << EAGLE_CAP_DEVICE)"))
    assert backend.devices() == ["fake device 0", "fake device 1"]
    assert backend.device_props(1)["name"] == "fake device 1"
    with pytest.raises(ValueError, match="^there are two devices$"):
        backend.device_props(5)
    assert open_backend(make_library()).devices() == []


def test_team_size(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library(EXTENSIONS=1))
    assert [backend.team_size(n) for n in (0, 7, 4)] == [4, 4, 7]
    path = make_library()
    with pytest.raises(eagle.errors.BackendUnavailable) as caught:
        open_backend(path).team_size(1)
    assert str(caught.value) == f"backend 'fake' ({path}) does not provide eagle_backend_team_size"


def test_modules_are_released_with_their_object(make_library: MakeLibrary) -> None:
    backend = open_backend(make_library(EXTENSIONS=1))
    module = backend.module_load(b"\0")
    assert module.function("entry") == 1001 and module.global_("entry") == (1001, 8)
    with pytest.raises(IndexError, match="^no such entry$"):
        module.function("other")
    second = backend.module_load(b"\0")
    assert module.function("entry") == 1002
    del second
    gc.collect()
    assert module.function("entry") == 1001
    del backend
    assert module.function("entry") == 1001


@pytest.mark.parametrize(("status", "raised"), [
    (1, RuntimeError), (2, ValueError), (3, IndexError), (4, _core.InteropError), (5, eagle.errors.BackendUnavailable),
    (6, RuntimeError), (7, RuntimeError), (8, RuntimeError), (99, RuntimeError)])
def test_each_status_raises_its_exception(make_library: MakeLibrary, status: int, raised: type[Exception]) -> None:
    path = make_library(EXTENSIONS=1)
    with pytest.raises(Exception, match="told to fail") as caught:
        open_backend(path).module_load(bytes([status]))
    assert type(caught.value) is raised
    prefix = f"backend 'fake' ({path}): status {status}: " if status >= 8 else ""
    assert str(caught.value) == f"{prefix}module_load was told to fail"


def test_the_exceptions_are_the_public_ones() -> None:
    assert _core.BackendUnavailable is eagle.errors.BackendUnavailable
    assert issubclass(_core.InteropError, ValueError)
