# SPDX-License-Identifier: Apache-2.0
"""Where planes are, and the words a launch needs beside them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BufferRefused, refusal
from eagle.interop.buffer import BufferView
from eagle.roles import FUSED_STEPS, JUMP_SEED, UNIFORM, WORDS

__all__ = ["FUSED_STEPS_SLOT", "device_resident", "one_step_word", "residency"]

#: The slot of an automatic kernel that says how many steps a launch takes.
FUSED_STEPS_SLOT = ("lookup", FUSED_STEPS)


def device_resident(value: Any) -> bool:
    """Whether `value` lives in a device's memory: it has a CUDA array interface, or is a view of such memory. Never
    raises."""
    if isinstance(value, BufferView):
        return value.device[0] not in HOST_DEVICE_TYPES
    try:
        return getattr(value, "__cuda_array_interface__", None) is not None
    except Exception:  # noqa: BLE001  a property of a foreign object may raise anything
        return False


def residency(planes: dict[str, Any], *, door: str = "eagle.plan.auto", what: str = "kernel") -> str:
    """``"device"`` or ``"host"``: where these planes are.

    Raises BufferRefused when they are on both sides, naming one of each, the door and the object.
    """
    sides = {name: device_resident(value) for name, value in planes.items()}
    if len(set(sides.values())) > 1:
        device, host = (next(name for name, side in sides.items() if side is wanted) for wanted in (True, False))
        raise BufferRefused(refusal(door, f"{what}, planes {device!r} and {host!r}", "one on a device, one on the host",
                                    "all on one side", "move one of them"))
    return "device" if any(sides.values()) else "host"


def one_step_word(arg_spec: Iterable[tuple[str, str]], planes: dict[str, Any],
                  framework: str = "numpy") -> dict[str, Any]:
    """`planes` with what one launch of a kernel needs and the caller left out: the word that says one step, one int64
    cell of `framework`, and the seed 0 of a derivative's jumps. `planes` itself where nothing is missing.
    """
    slots = {tuple(slot) for slot in arg_spec}
    made: dict[str, Any] = {}
    if FUSED_STEPS_SLOT in slots and FUSED_STEPS not in planes:
        dtype, start = WORDS[FUSED_STEPS]
        made[FUSED_STEPS] = import_module(framework).full(1, start, dtype)
    if (UNIFORM, JUMP_SEED) in slots and JUMP_SEED not in planes:
        made[JUMP_SEED] = 0
    return planes | made if made else planes
