# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C between the steps of a run in Python, not in the middle of one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupts"]


class Interrupts:
    """Holds SIGINT back while it is entered, on the main thread; :meth:`deliver` lets the handler that was there have
    it. A second one goes through at once: a step may never end."""

    def __init__(self) -> None:
        self._handler: Any = None
        self._held: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._handler = handler
            signal.signal(signal.SIGINT, self._hold)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handler is not None:
            if signal.getsignal(signal.SIGINT) == self._hold:  # nobody set another meanwhile
                signal.signal(signal.SIGINT, self._handler)
            self.deliver()

    def deliver(self) -> None:
        """What was held back since, to the handler."""
        if self._held is not None:
            held, self._held = self._held, None
            self._handler(*held)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._held is not None:
            self._held = None
            self._handler(number, frame)
        else:
            self._held = number, frame
