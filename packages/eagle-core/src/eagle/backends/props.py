# SPDX-License-Identifier: Apache-2.0
"""What a device is: its name, units and rates."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, SupportsIndex

from eagle.backends import choosing, loading
from eagle.errors import BackendUnavailable, refusal, shown
from eagle.integers import index_of

__all__ = ["DeviceProps", "device_ordinal", "device_props"]

DOOR = "eagle.device_props"


@dataclass(frozen=True)
class DeviceProps:
    """A device as its backend describes it; 0 where it does not know."""

    name: str
    cc_major: int
    cc_minor: int
    sm_count: int
    clock_rate_khz: int
    memory_clock_rate_khz: int
    memory_bus_width_bits: int
    shared_mem_per_block: int
    shared_mem_per_sm: int
    regs_per_block: int
    regs_per_sm: int
    warp_size: int
    peak_bytes_per_s: float
    peak_flops_sp: float
    peak_flops_dp: float
    fp64_ratio: float
    ridge_flops_per_byte_sp: float
    ridge_flops_per_byte_dp: float

    def ridge_flops_per_byte(self, dtype: str) -> float:
        """The operations a byte from which on a kernel in "float32" or "float64" is bound by arithmetic, not memory."""
        ridges = {"float32": self.ridge_flops_per_byte_sp, "float64": self.ridge_flops_per_byte_dp}
        if not isinstance(dtype, str) or dtype not in ridges:
            raise ValueError(refusal("DeviceProps.ridge_flops_per_byte", "dtype", shown(dtype), f"one of {(*ridges,)}",
                                     "pass the scalar_type of a kernel"))
        return ridges[dtype]


def device_props(device: SupportsIndex = -1, kind: str | None = None) -> DeviceProps:
    """The properties of a device, -1 the current one, of a kind of backend.

    Without a kind: the one installed GPU kind with a device, else the host's. Raises BackendUnavailable, with what to
    install or what the driver said, where there is no usable device; ValueError for a device that is not there, and
    where several GPU kinds have one.
    """
    ordinal = device_ordinal(DOOR, device)
    found = _kind() if kind is None else choosing.resolve(kind, DOOR, "kind")
    backend = loading.load(found)
    try:
        backend.probe()
    except BackendUnavailable as error:
        raise BackendUnavailable(refusal(DOOR, "kind", f"{found!r} without a usable device", "a device",
                                         str(error))) from None
    try:
        told: dict[str, Any] = backend.device_props(ordinal)
    except (ValueError, IndexError) as error:
        raise ValueError(refusal(DOOR, "device", str(ordinal), f"a device of {found!r}", str(error))) from None
    return DeviceProps(**{field.name: told[field.name] for field in fields(DeviceProps)})


def device_ordinal(door: str, device: Any) -> int:
    """The ordinal of a device as a door takes it, -1 the current one. Raises TypeError and ValueError."""
    if (ordinal := index_of(device)) is None:
        raise TypeError(refusal(door, "device", shown(device), "an int", "pass the device's ordinal"))
    if not -1 <= ordinal < 2**31:
        raise ValueError(refusal(door, "device", str(ordinal), "an ordinal, or -1 for the current device",
                                 "leave it out for the current device"))
    return ordinal


def _kind() -> str:
    """The kind meant by none."""
    gpus = choosing.gpus()
    if len(gpus) > 1:
        raise ValueError(refusal(DOOR, "kind", f"None, and devices of {', '.join(gpus)}", "one of them",
                                 f"pass kind={gpus[0]!r}"))
    return gpus[0] if gpus else choosing.for_device_type(choosing.HOST_MEMORY)
