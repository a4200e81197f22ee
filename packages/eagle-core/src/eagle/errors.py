# SPDX-License-Identifier: Apache-2.0
"""Every exception and warning eagle raises, and the one form of their messages.

A message reads ``<door>: <argument>: found <what>, wanted <what>; <next step>``. The door is what the caller wrote
(``Plan.run``, ``eagle.deploy``). Nothing ran and nothing changed before a refusal.
"""

from __future__ import annotations

__all__ = ["ArgumentError", "BackendUnavailable", "BufferRefused", "Busy", "LayoutError", "PerformanceWarning",
           "refusal"]


class ArgumentError(ValueError, TypeError):
    """An argument's name is unknown, missing or given twice."""


class BufferRefused(ValueError):
    """An array cannot serve: its dtype, memory order, writability or overlap is not what the kernel needs."""


class LayoutError(ValueError):
    """An array's shape is not one the plane can take."""


class BackendUnavailable(RuntimeError):
    """No backend, no device, or no symbol for what was asked; the message names the kind, the file and the fix."""


class Busy(RuntimeError):
    """The object is running in another thread."""


class PerformanceWarning(UserWarning):
    """The call works, at a cost the caller can avoid."""


def refusal(door: str, argument: str, found: str, wanted: str, fix: str = "") -> str:
    """The text of a refusal."""
    text = f"{door}: {argument}: found {found}, wanted {wanted}"
    return f"{text}; {fix}" if fix else text
