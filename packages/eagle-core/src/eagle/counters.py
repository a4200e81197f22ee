# SPDX-License-Identifier: Apache-2.0
"""How often things were made, in this process: for tests, and for who wonders why a program is slow."""

from __future__ import annotations

import os
import threading

__all__ = ["add", "snapshot"]

_counts = dict.fromkeys(("captures", "instantiations", "binds", "rebinds", "updates", "graph_builds", "reverses",
                         "records", "host_syncs"), 0)
_lock = threading.Lock()


def add(*names: str) -> None:
    """Count one more of each."""
    with _lock:
        for name in names:
            _counts[name] += 1


def snapshot() -> dict[str, int]:
    """The counts by name; they only grow. A forked child goes on from its parent's."""
    with _lock:
        return dict(_counts)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
