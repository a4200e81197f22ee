# SPDX-License-Identifier: Apache-2.0
"""What a device is, of every kind."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import eagle
from eagle import BackendUnavailable, backends
from eagle.backends import DeviceProps

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site

ORDER = ["name", "cc_major", "cc_minor", "sm_count", "clock_rate_khz", "memory_clock_rate_khz", "memory_bus_width_bits",
         "shared_mem_per_block", "shared_mem_per_sm", "regs_per_block", "regs_per_sm", "warp_size", "peak_bytes_per_s",
         "peak_flops_sp", "peak_flops_dp", "fp64_ratio", "ridge_flops_per_byte_sp", "ridge_flops_per_byte_dp"]
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.5, 13.5, 14.5, 15.5, 16.5, 17.5)
BITS = "(1 << EAGLE_CAP_DEVICE)"


def test_the_host() -> None:
    kind = backends.for_device_type(1)
    host = eagle.device_props(kind=kind)
    assert [field.name for field in dataclasses.fields(host)] == ORDER
    assert host.name and host.sm_count == eagle.num_threads() and host.warp_size == 1
    known = ("name", "sm_count", "warp_size")
    assert [value for name, value in dataclasses.asdict(host).items() if name not in known] == [0] * 15
    assert [type(value) for value in dataclasses.astuple(host)] == [str, *[int] * 11, *[float] * 6]
    assert eagle.device_props(0, kind) == host
    if not backends.gpus():
        assert eagle.device_props() == host
    with pytest.raises(dataclasses.FrozenInstanceError):
        host.name = "other"  # type: ignore[misc]


def test_the_one_gpu_with_a_device_comes_first(site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-host", "host", make_library("host", DEVICES=1), device_types=(1, 3))
    site.install_backend("acme-dead", "dead", make_library("dead", FAIL=4, BITS=BITS), device_types=(90,))
    site.install_backend("acme-gone", "gone", site.folder / "absent.so", device_types=(91,))
    site.install_backend("acme-shine", "shine", make_library("shine", BITS=BITS), device_types=(77,))
    assert backends.gpus() == ("shine",)
    assert eagle.device_props(0) == DeviceProps("fake device 0", *NUMBERS)
    assert eagle.device_props() == eagle.device_props(1) == eagle.device_props(np.int64(1), kind="shine")
    with pytest.raises(BackendUnavailable, match=r"found 'dead' without a usable device, wanted a device; caf.*: no"):
        eagle.device_props(kind="dead")
    with pytest.raises(BackendUnavailable, match=r"found no library that loads"):
        eagle.device_props(kind="gone")
    with pytest.raises(BackendUnavailable, match=r"does not provide device$"):
        eagle.device_props(kind="host")
    with pytest.raises(BackendUnavailable, match=r"pip install eagle-backend-nosuch"):
        eagle.device_props(kind="nosuch")
    with pytest.raises(ValueError, match=r"^eagle\.device_props: device: found 2, wanted a device of 'shine'; the"):
        eagle.device_props(2)


def test_a_gpu_without_a_device_leaves_the_host(site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-dead", "dead", make_library("dead", FAIL=4, BITS=BITS), device_types=(90,))
    with pytest.raises(BackendUnavailable, match="pip install eagle-backend-cpu"):
        eagle.device_props()
    backends.choosing.forget()
    site.install_backend("acme-host", "host", make_library("host", DEVICES=1, BITS=BITS), device_types=(1, 3))
    assert eagle.device_props().name == "fake device 1" and backends.gpus() == ()


def test_two_gpus_with_devices(site: Site, make_library: MakeLibrary) -> None:
    for kind, device_type in (("shine", 77), ("gleam", 78)):
        site.install_backend(f"acme-{kind}", kind, make_library(kind, BITS=BITS), device_types=(device_type,))
    with pytest.raises(ValueError, match=r"kind: found None, and devices of gleam, shine, wanted one of them; pass "):
        eagle.device_props()
    assert eagle.device_props(0, kind="gleam").name == "fake device 0"


@pytest.mark.parametrize(("device", "raised"), [
    (-2, ValueError), (2**31, ValueError), (1.0, TypeError), ("0", TypeError), (True, TypeError), (None, TypeError)])
def test_what_is_no_ordinal(device: Any, raised: type[Exception]) -> None:
    with pytest.raises(raised, match=r"^eagle\.device_props: device: found "):
        eagle.device_props(device)


@pytest.mark.want("15")
def test_ridges() -> None:
    props = DeviceProps("x", *NUMBERS)
    assert (props.ridge_flops_per_byte("float32"), props.ridge_flops_per_byte("float64")) == (16.5, 17.5)
    for wrong in ("float16", "f8", "", None, np.float64, np.dtype("float64"), ["float32"]):
        with pytest.raises(ValueError, match=r"dtype: found .*, wanted one of \('float32', 'float64'\); pass"):
            props.ridge_flops_per_byte(wrong)  # type: ignore[arg-type]
