# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and whatever else has a handler in Python, between the steps and copies of a run, not in the middle."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its getsignal takes a twentieth of the time
import signal
import threading
from collections.abc import Callable
from enum import Enum
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

__all__ = ["Hold", "Interrupts", "between"]

Result = TypeVar("Result")
_SIGNALS = tuple(sorted(signal.valid_signals()))


class Hold(Enum):
    """What is held back."""

    NOTHING = 0
    STEP = 1  #: SIGINT; a second one goes through at once: a step may never end
    ALL = 2  #: every signal with a handler in Python, for what has an end and must not be left half-way


class Interrupts:
    """Holds signals back while it is entered, on the main thread, as :attr:`hold` says; :meth:`deliver` lets the
    handlers that were there have them. A signal that comes twice is delivered once.

    Set :attr:`hold` to ALL as the first thing of a ``finally``, where nothing is delivered in between, and in any case
    before leaving.
    """

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self._handlers: dict[int, Any] = {}
        self._held: dict[int, FrameType | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            try:
                for number in _SIGNALS:
                    if callable(handler := _signal.getsignal(number)):
                        self._handlers[number] = handler
                        signal.signal(number, self._on)
            except BaseException:  # of a handler whose turn was not yet
                self._end()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._end()

    def deliver(self) -> None:
        """What was held back since, to the handlers."""
        if self._held:
            number = next(iter(self._held))
            frame = self._held.pop(number)
            try:
                self._handlers[number](number, frame)
            finally:
                self.deliver()

    def _end(self) -> None:
        self.hold = Hold.ALL
        try:
            self._leave()
        finally:
            self.deliver()

    def _leave(self) -> None:
        """The handlers that were there, but where somebody has put another one since."""
        try:
            for number, handler in self._handlers.items():
                if _signal.getsignal(number) == self._on:
                    signal.signal(number, handler)
        except BaseException:  # of a handler that is back by now
            self._leave()
            raise
        self.hold = Hold.NOTHING  # for those who kept ours

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self.hold is Hold.ALL or (self.hold is Hold.STEP and number == signal.SIGINT and number not in self._held):
            self._held[number] = frame
        else:
            self._held.pop(number, None)
            self._handlers[number](number, frame)


def between(run: Callable[[], Result], after: Callable[[], object],
            before: Callable[[], object] | None = None) -> Result:
    """What `run` gives, with `before` and, in any case, `after`: signals may end it, and neither of these."""
    with Interrupts(Hold.ALL) as interrupts:
        if before is not None:
            before()
        try:
            interrupts.hold = Hold.NOTHING
            interrupts.deliver()
            return run()
        finally:
            interrupts.hold = Hold.ALL
            after()
