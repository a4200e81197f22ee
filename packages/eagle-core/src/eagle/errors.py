# SPDX-License-Identifier: Apache-2.0
"""Every exception and warning eagle raises, and the one form of their messages.

A message reads ``<door>: <argument>: found <what>, wanted <what>; <next step>``. The door is what the caller called:
``line()``, ``line.run``, ``line.bind`` of a kernel named line, ``eagle.deploy``. Nothing ran and nothing changed before
a refusal.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["ArgumentError", "BackendUnavailable", "BufferRefused", "Busy", "LayoutError", "LayoutWarning",
           "NonToggleableMemberError", "OutOfBounds", "PerformanceWarning", "REBUILD", "UnknownMemberError", "WARNED",
           "busy", "moved_midway", "out_of_bounds", "refusal", "shown", "warn"]

#: The next step where what a producer wrote is malformed.
REBUILD = "rebuild the artifact"


def __dir__() -> list[str]:
    return sorted(__all__)


class ArgumentError(ValueError, TypeError):
    """An argument's name is unknown, missing or given twice, or its value is of a kind it never takes: a number, None
    or a list for an array, a fraction for an integer."""


class BufferRefused(ValueError):
    """An array cannot serve: its dtype, memory order, writability or overlap is not what the kernel needs."""


class LayoutError(ValueError):
    """An array's shape is not one the plane can take."""


class BackendUnavailable(RuntimeError):
    """No backend, no device, or no symbol for what was asked; the message names the kind, the file and the fix."""


class Busy(RuntimeError):
    """Another call is still running on the object, in another thread or further out in this one."""


class UnknownMemberError(LookupError):
    """A pipeline has no member of that name or index."""


class NonToggleableMemberError(TypeError):
    """A pipeline's member cannot be switched on and off: it holds a conditional."""


class OutOfBounds(IndexError):
    """A kernel's index led outside a plane, in a launch that was checked (:func:`eagle.exec.checking`). No plane was
    changed. Attributes: the plane's name, the element that was reached, counted from the plane's first, and the first
    sample that does so, None where it is unknown."""

    plane: str
    element: int
    sample: int | None


class PerformanceWarning(UserWarning):
    """The call works, at a cost the caller can avoid."""


class LayoutWarning(UserWarning):
    """A plane is sample-major in memory: each call copies it, and what the kernel wrote is copied back."""


#: Whom :func:`warn` has told: (file, line, argument, category). Cleared, everybody is told again. One set.add under the
#: interpreter's lock; a forked child goes on with its parent's.
WARNED: set[tuple[str, int, str, type[Warning]]] = set()

_LIBRARIES = ("eagle", "hawk", "torch", "cupy")  # their frames called in the name of somebody


def warn(argument: str, text: str, category: type[Warning], *, each: bool = False) -> None:
    """Warn about an argument, once for each line of code that gives it; where a filter makes an error of it, or for
    `each` call, always."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    site = (frame.f_code.co_filename, frame.f_lineno, argument, category)
    if each or site not in WARNED or _is_error(f"{argument} {text}", category, frame):
        warnings.warn(f"{argument} {text}", category, stacklevel=level)
        WARNED.add(site)


def _is_error(text: str, category: type[Warning], frame: FrameType) -> bool:
    """Whether a filter makes an error of a warning."""
    module = str(frame.f_globals.get("__name__"))
    for action, message, kind, where, line in warnings.filters:
        if issubclass(category, kind) and (message is None or message.match(text)) and (
                where is None or where.match(module)) and line in (0, frame.f_lineno):
            return action == "error"
    return False


def refusal(door: str, argument: str, found: str, wanted: str, fix: str) -> str:
    """The text of a refusal."""
    text = f"{door}: {argument}: found {found}, wanted {wanted}"
    return f"{text}; {fix}" if fix else text


def busy(owner: str, method: str) -> Busy:
    """The exception of a method of the class `owner` that was called while another call runs on the object."""
    return Busy(refusal(f"{owner}.{method}", f"this {owner}", "another call that is still running on it",
                        "one call at a time", f"give each thread its own {owner}, or wait for it"))


def moved_midway(plane: str) -> BufferRefused:
    """The exception of a run in which a plane moved: what was not written back by then is lost."""
    return BufferRefused(refusal("Runner.run", f"plane {plane!r}", "an array that moved in the middle of the run",
                                 "one that stays where it is", "change arrays between runs, and start anew"))


def out_of_bounds(door: str, kernel: str, role: str, plane: str, access: str, element: int, length: int, rows: int,
                  first: int, alike: int, stride: int, partition: tuple[int, int, int]) -> OutOfBounds:
    """The exception of a checked launch. The plane has `length` elements in `rows`; `first` is the first of `alike`
    samples, `stride` apart, that cannot be told apart, or negative."""
    index = f" (index {element - 2**32})" if element >= 2**31 else ""
    samples = "" if first < 0 else f" by sample {first}"
    if samples and alike > 1:
        samples = f" by one of the samples {first} to {first + (alike - 1) * stride}"
        samples += f" in steps of {stride}" if stride > 1 else ""
    wanted = f"0 to {length - 1}" if length else "none: the plane is empty"
    if rows > 1:
        wanted += f", counted over the {rows} rows"
    error = OutOfBounds(refusal(
        door, f"kernel {kernel!r}, {role} {plane!r}", f"{access} of element {element}{index}{samples}", wanted,
        f"correct the indices of partition (base, count, n) {partition}; no plane was changed"))
    error.plane, error.element, error.sample = plane, element, first if first >= 0 and alike == 1 else None
    return error


def shown(value: object, most: int = 80) -> str:
    """`value` as a message shows it: its repr, cut where that is long, its type where it has none."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  a foreign object's repr may raise anything
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."
