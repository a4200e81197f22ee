# SPDX-License-Identifier: Apache-2.0
"""How many threads a launch on the host may use."""

from __future__ import annotations

from . import backends
from .errors import refusal

__all__ = ["num_threads", "set_num_threads"]

HOST_MEMORY = 1  # DLPack device type
MOST = 1024


def num_threads() -> int:
    """The threads a host launch may use, the calling one included.

    It starts as ``$EAGLE_NUM_THREADS``, else ``$OMP_NUM_THREADS``, else what the process's CPU affinity and cgroup
    quota allow. Raises BackendUnavailable without a backend for host memory.
    """
    return backends.load(backends.for_device_type(HOST_MEMORY)).team_size(0)


def set_num_threads(n: int) -> int:
    """Let host launches use `n` threads from now on, and return how many it was before. Results never depend on it.

    Raises TypeError for what is no integer, ValueError outside 1 to 1024, BackendUnavailable without a backend for
    host memory.
    """
    door = "eagle.set_num_threads"
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(refusal(door, "n", repr(n), "an integer"))
    if not 1 <= n <= MOST:
        raise ValueError(refusal(door, "n", str(n), f"1 to {MOST}"))
    return backends.load(backends.for_device_type(HOST_MEMORY)).team_size(n)
