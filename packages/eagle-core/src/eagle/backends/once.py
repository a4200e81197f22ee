# SPDX-License-Identifier: Apache-2.0
"""Caches that compute each value once per process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, ParamSpec, TypeVar

__all__ = ["Once"]

P = ParamSpec("P")
V = TypeVar("V")


class Once(Generic[P, V]):
    """A function whose value is computed once for each tuple of arguments; other threads wait for it.

    Kept for the life of the process, so for module-level functions. A forked child keeps the values and gets a lock of
    its own: the parent's may be held by a thread the child does not have.
    """

    def __init__(self, compute: Callable[P, V]) -> None:
        self._compute = compute
        self._values: dict[Hashable, V] = {}
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> V:
        key = args
        if key not in self._values:
            with self._lock:
                if key not in self._values:
                    self._values[key] = self._compute(*args, **kwargs)
        return self._values[key]

    def forget(self) -> None:
        """Drops every value; for tests."""
        with self._lock:
            self._values.clear()
