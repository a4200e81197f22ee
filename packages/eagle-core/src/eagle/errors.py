# SPDX-License-Identifier: Apache-2.0
"""Every exception and warning eagle raises, and the one form of their messages.

A message reads ``<door>: <argument>: found <what>, wanted <what>; <next step>``. The door is what the caller wrote
(``Plan.run``, ``eagle.deploy``). Nothing ran and nothing changed before a refusal.
"""

from __future__ import annotations

__all__ = ["ArgumentError", "BackendUnavailable", "BufferRefused", "Busy", "LayoutError", "PerformanceWarning",
           "refusal", "shown"]


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


def shown(value: object, most: int = 80) -> str:
    """`value` as a message shows it: its repr, cut where that is long, its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a foreign object's repr may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."
