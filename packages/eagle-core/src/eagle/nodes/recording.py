# SPDX-License-Identifier: Apache-2.0
"""The one hook by which a call is recorded instead of run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from eagle import _core
from eagle.nodes.node import Node

__all__ = ["Recorder", "record_with", "recorder"]


class Recorder(Protocol):
    """What a thread hands its calls to."""

    def call(self, plan: Any, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
        """Record the call of a deployed kernel; what it returns."""

    def add(self, node: Node) -> None:
        """Record a node that was just made."""


class _Here(threading.local):
    recorder: Recorder | None = None


_here = _Here()


def recorder() -> Recorder | None:
    """The one that records this thread's calls; None where they run."""
    return _here.recorder


@contextmanager
def record_with(wanted: Recorder | None) -> Iterator[None]:
    """While it is open, this thread's calls go to a recorder; None: they run."""
    before = _here.recorder
    _here.recorder = wanted
    _core.ask_records(1)
    try:
        yield
    finally:
        _here.recorder = before
        _core.ask_records(-1)
