# SPDX-License-Identifier: Apache-2.0
"""Group device."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import byref
from typing import Any

import pytest

from eagle_conformance.seam import DeviceProps, Library, Status
from eagle_conformance.structs import check_output

pytestmark = pytest.mark.eagle_group("device")


def props(library: Library, ordinal: int) -> DeviceProps:
    """The properties of one device."""
    out = DeviceProps()
    library.ok("device_props", ordinal, byref(out))
    return out


@pytest.mark.parametrize("ordinal", [-1, 0])
def test_a_device_has_a_name_and_units(device: Library, ordinal: int) -> None:
    found = props(device, ordinal)
    assert found.struct_size == 368
    assert found.device == 0 if ordinal == 0 else found.device >= 0
    assert found.name.decode().strip() != ""
    assert found.sm_count >= 1
    assert found.warp_size >= 1


def test_an_unknown_property_is_zero_and_none_is_negative(device: Library) -> None:
    found = props(device, 0)
    numbers = [getattr(found, name) for name, ctype, *_ in DeviceProps._fields_ if name not in ("name", "reserved")]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)


@pytest.mark.parametrize("size", [264, 304, 320, 368, 512])
def test_props_keep_to_the_smaller_size(device: Library, size: int) -> None:
    check_output(device, size, lambda out: device.call("device_props", 0, out))


@pytest.mark.parametrize("ordinal", [-2, -(2**31)])
def test_a_device_below_minus_one_is_refused(device: Library, ordinal: int) -> None:
    device.refuses(Status.INVALID_ARGUMENT, "device_props", ordinal, byref(DeviceProps()))


def test_a_device_that_does_not_exist_is_refused(device: Library) -> None:
    device.refuses(None, "device_props", 2**31 - 1, byref(DeviceProps()))


def props_without_out(library: Library) -> None:
    """device_props with nowhere to write."""
    library.refuses(None, "device_props", 0, None)


def test_props_refuse_null(device: Library, isolate: Callable[..., Any]) -> None:
    isolate(props_without_out)
