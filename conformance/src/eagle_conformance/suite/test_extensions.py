# SPDX-License-Identifier: Apache-2.0
"""Extensions: module_* and team_size, each by presence."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from ctypes import byref, c_char_p, c_int32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance.launches import Visits
from eagle_conformance.quirks import KERNEL, TABLE, TABLE_VALUES, HostQuirks, Quirks, module_desc
from eagle_conformance.seam import Library, ModuleDesc, Status
from eagle_conformance.structs import oversized

modules = pytest.mark.eagle_symbols("module_load", "module_function", "module_release")
Isolate = Callable[..., Any]


def load(library: Library, image: bytes, **fields: int) -> c_void_p:
    """A module on the derived device."""
    desc, keep = module_desc(image, **fields)
    module = c_void_p()
    library.ok("module_load", byref(desc), byref(module))
    assert module.value
    del keep
    return module


def function(library: Library, module: c_void_p) -> int:
    """The address of the suite's kernel."""
    address = c_uint64(0)
    library.ok("module_function", module, KERNEL.encode(), byref(address))
    assert address.value != 0
    return address.value


@pytest.fixture
def image(device: Library, quirks: Quirks, image_folder: Path) -> bytes:
    """The suite's kernel image."""
    return quirks.image(image_folder)


@pytest.fixture
def module(device: Library, image: bytes) -> Iterator[c_void_p]:
    """The suite's module."""
    loaded = load(device, image)
    yield loaded
    device.call("module_release", loaded)


# ---- modules ---------------------------------------------------------------------------------------------------------


@modules
@pytest.mark.eagle_group("exec")
def test_a_loaded_function_launches(device: Library, quirks: Quirks, module: c_void_p) -> None:
    planes = Visits(device, quirks, function(device, module), 1003)
    assert planes.launch() == 1
    planes.expect(0, 1003)
    planes.free()


@modules
def test_a_name_has_one_address(device: Library, module: c_void_p) -> None:
    assert function(device, module) == function(device, module)


@modules
@pytest.mark.parametrize("name", ["eagle_conformance_missing", ""])
def test_a_missing_function_is_an_index(device: Library, module: c_void_p, name: str) -> None:
    device.refuses(Status.INDEX, "module_function", module, name.encode(), byref(c_uint64()))


@modules
@pytest.mark.eagle_symbols("module_global")
def test_a_global_has_an_address_and_maybe_a_size(device: Library, quirks: Quirks, module: c_void_p) -> None:
    address, nbytes = c_uint64(0), c_uint64(77)
    device.ok("module_global", module, TABLE.encode(), byref(address), byref(nbytes))
    assert nbytes.value in (0, 16)
    assert quirks.read(device, address.value, 16) == bytes((c_int32 * 4)(*TABLE_VALUES))


@modules
@pytest.mark.eagle_symbols("module_global")
def test_a_missing_global_is_an_index(device: Library, module: c_void_p) -> None:
    device.refuses(
        Status.INDEX, "module_global", module, b"eagle_conformance_none", byref(c_uint64()), byref(c_uint64())
    )


@modules
@pytest.mark.parametrize(
    "image", [b"/eagle/conformance/none.so", b"not an image", b"\x7fELF"], ids=["path", "text", "elf"]
)
def test_what_is_no_image_is_refused(device: Library, image: bytes) -> None:
    desc, keep = module_desc(image)
    device.refuses(None, "module_load", byref(desc), byref(c_void_p()))
    del keep


@modules
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"struct_size": 0}, Status.INVALID_ARGUMENT),
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
        ({"struct_size": 16}, None),  # no image
        ({"image": 0}, None),
        ({"image_bytes": 0}, None),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        ({"flags": 1}, Status.UNSUPPORTED),
        ({"flags": 1 << 31}, Status.UNSUPPORTED),
    ],
    ids=str,
)
def test_a_bad_desc_is_refused(device: Library, image: bytes, fields: dict[str, int], status: int | None) -> None:
    desc, keep = module_desc(image, **fields)
    device.refuses(status, "module_load", byref(desc), byref(c_void_p()))
    del keep


@modules
def test_a_longer_desc_is_accepted(device: Library, image: bytes) -> None:
    desc, keep = module_desc(image)
    module = c_void_p()
    device.ok("module_load", oversized(desc), byref(module))
    device.call("module_release", module)
    del keep


@modules
@pytest.mark.eagle_host
def test_the_image_is_as_long_as_image_bytes_says(device: Library, image: bytes) -> None:
    buffer = ctypes.create_string_buffer(image + b".no-such-file")
    module = c_void_p()
    desc = ModuleDesc(device=-1, image=ctypes.addressof(buffer), image_bytes=len(image))
    device.ok("module_load", byref(desc), byref(module))
    device.call("module_release", module)


def null_arguments(library: Library, name: str, folder: str, missing: int) -> None:
    """A call over a good module with one argument NULL."""
    desc, keep = module_desc(HostQuirks().image(Path(folder)))
    arguments: list[Any]
    if name == "module_load":
        arguments = [byref(desc), byref(c_void_p())]
    else:
        entry = KERNEL if name == "module_function" else TABLE
        arguments = [load(library, keep.value), c_char_p(entry.encode()), byref(c_uint64()), byref(c_uint64())]
        arguments = arguments[: 3 if name == "module_function" else 4]
    arguments[missing] = None
    library.refuses(Status.BAD_HANDLE if name != "module_load" and missing == 0 else None, name, *arguments)


@modules
@pytest.mark.eagle_symbols("module_global")
@pytest.mark.eagle_host
@pytest.mark.parametrize(
    ("name", "missing"),
    [
        *(("module_load", i) for i in (0, 1)),
        *(("module_function", i) for i in (0, 1, 2)),
        *(("module_global", i) for i in (0, 1, 2)),
    ],
)
def test_null_is_refused(image: bytes, isolate: Isolate, image_folder: Path, name: str, missing: int) -> None:
    isolate(null_arguments, name, str(image_folder), missing)


def function_of_a_released_module(library: Library, folder: str) -> None:
    """module_function over a module that was given back."""
    module = load(library, HostQuirks().image(Path(folder)))
    library.call("module_release", module)
    library.refuses(Status.BAD_HANDLE, "module_function", module, KERNEL.encode(), byref(c_uint64()))


@modules
@pytest.mark.eagle_host
def test_a_released_module_is_a_bad_handle(image: bytes, isolate: Isolate, image_folder: Path) -> None:
    isolate(function_of_a_released_module, str(image_folder))


def release_null(library: Library) -> None:
    """module_release(NULL)."""
    library.call("module_release", None)


@modules
def test_release_takes_null(isolate: Isolate) -> None:
    isolate(release_null)


# ---- team size -------------------------------------------------------------------------------------------------------

team = pytest.mark.eagle_symbols("team_size")


def set_team(library: Library, n: int) -> int:
    """Sets the team's size; the size before."""
    previous = c_int32(-77)
    library.ok("team_size", n, byref(previous))
    return previous.value


@pytest.fixture
def first_size(device: Library) -> Iterator[int]:
    """The size found, restored afterwards."""
    size = set_team(device, 0)
    yield size
    set_team(device, size)


@team
def test_zero_asks_and_a_number_sets(device: Library, first_size: int) -> None:
    assert first_size >= 1
    assert set_team(device, 0) == first_size
    assert set_team(device, 1) == first_size
    assert set_team(device, 3) == 1
    assert set_team(device, 0) == 3
    assert set_team(device, first_size) == 3
    assert set_team(device, 0) == first_size


@team
@pytest.mark.parametrize("n", [-1, -(2**31)])
def test_a_negative_size_is_refused_and_changes_nothing(device: Library, first_size: int, n: int) -> None:
    device.refuses(Status.INVALID_ARGUMENT, "team_size", n, byref(c_int32()))
    assert set_team(device, 0) == first_size


@team
@pytest.mark.eagle_group("exec")
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_every_team_covers_a_batch_once(
    device: Library, quirks: Quirks, image_folder: Path, first_size: int, n: int
) -> None:
    set_team(device, n)
    planes = Visits(device, quirks, quirks.entry(device, image_folder), 20011)
    for _ in range(3):
        planes.launch(block=64)
    planes.expect(0, 20011, visits=3)
    planes.free()


def team_size_without_out(library: Library) -> None:
    """team_size with nowhere to write."""
    library.refuses(None, "team_size", 0, None)


@team
def test_team_size_refuses_null(device: Library, isolate: Isolate) -> None:
    isolate(team_size_without_out)
