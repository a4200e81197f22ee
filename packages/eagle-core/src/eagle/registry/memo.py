# SPDX-License-Identifier: Apache-2.0
"""A bounded memo, of loaded kernels keyed by what they were loaded from, and of others."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Memo"]

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """The last `most` values by key, for module-level use. A forked child keeps the values and gets a lock of its
    own.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: dict[Hashable, Value] = {}
        self._youngest: Hashable = None
        self._renew_lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def find(self, key: Hashable) -> Value | None:
        """The value of `key`, which is then the youngest; None when there is none."""
        if key == self._youngest:  # nothing to move
            return self._values.get(key)
        with self._lock:
            if key in self._values:
                self._values[key] = self._values.pop(key)
                self._youngest = key
            return self._values.get(key)

    def keep(self, key: Hashable, value: Value) -> Value:
        """The value of `key` from now on: `value`, or what another thread kept before."""
        with self._lock:
            value = self._values.setdefault(key, value)
            self._youngest = key
            while len(self._values) > self.most:
                del self._values[next(iter(self._values))]
        return value

    def forget(self) -> None:
        """Drops every value; for tests."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)
