# SPDX-License-Identifier: Apache-2.0
"""Conditions on cells, and what runs by them: ``SkipGuard``, ``skippable``, ``repeat_while``.

A cell is an element of a uint32 array on the host or on a device. It is read each time, never when an object is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import numpy as np

from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BufferRefused, LayoutError, refusal, shown
from eagle.integers import index_of
from eagle.interop.buffer import view_for

__all__ = ["RepeatWhile", "SkipGuard", "Skippable", "repeat_while", "skippable"]

GUARD, SKIPPABLE, REPEAT_WHILE = "eagle.SkipGuard", "eagle.skippable", "eagle.repeat_while"
ENDLESS = 2**32 - 1  # iterations, the most a cell counts

Part = Callable[[], object]
Holder = Callable[[], object] | None  # a weak reference to the graph that has a conditional


def cells(door: str, argument: str, array: Any, *, writable: bool = False) -> tuple[Any, int]:
    """An array of cells, of numpy where it is in host memory, and how many there are. Raises TypeError for what is no
    array of uint32, LayoutError for another number of axes, BufferRefused for one that shall be written and may not."""
    memory, may_write = array, False
    if isinstance(array, np.ndarray):
        dtype, shape, may_write = str(array.dtype), array.shape, array.flags.writeable
    else:
        view = view_for(door, argument, array)
        dtype, shape, may_write = view.dtype, view.shape, view.writable
        if view.device[0] in HOST_DEVICE_TYPES:
            memory = np.asarray(view)
    if dtype != "uint32":
        raise TypeError(refusal(door, argument, f"an array of {dtype}", "uint32", "pass an array of numpy.uint32"))
    if len(shape) != 1:
        raise LayoutError(refusal(door, argument, f"shape {shape}", "one axis", "reshape it"))
    if writable and not may_write:
        raise BufferRefused(refusal(door, argument, "an array that may not be written", "a writable one",
                                    "pass one: a loop clears it when it starts"))
    return memory, int(shape[0])


def index_in(door: str, argument: str, index: Any, length: int) -> int:
    """An index of 0 to `length` - 1. Raises TypeError, or IndexError naming index and length."""
    number = whole(door, argument, index)
    if not 0 <= number < length:
        raise IndexError(refusal(door, argument, f"{number} of an array of {length} cells",
                                 f"0 to {length - 1}" if length else "an array that has cells", "count from 0"))
    return number


def whole(door: str, argument: str, value: Any) -> int:
    """`value` as an int. Raises TypeError for bools and what is no integer."""
    if (number := index_of(value)) is None:
        raise TypeError(refusal(door, argument, f"{shown(value)}, a {type(value).__name__}", "an integer",
                                "pass an int"))
    return number


def reader(memory: Any) -> Callable[[int], int]:
    """What reads a cell; of a device, it waits for the work enqueued there."""
    return memory.item if isinstance(memory, np.ndarray) else lambda index: int(memory[index])


@dataclass(frozen=True, eq=False)
class SkipGuard:
    """A condition: ``count_arr[count_idx] != baseline``, the baseline a cell too or 0; `negate` turns it around.

    It keeps its arrays. Raises TypeError for what is no array of uint32, LayoutError for more than one axis, IndexError
    for an index outside its array.
    """

    count_arr: Any
    count_idx: int = 0
    baseline_arr: Any = None
    baseline_idx: int = 0
    negate: bool = False
    _holds: Callable[[], bool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        memory, length = cells(GUARD, "count_arr", self.count_arr)
        count, read, negate = index_in(GUARD, "count_idx", self.count_idx, length), reader(memory), self.negate
        if not isinstance(negate, bool | np.bool_):
            raise TypeError(refusal(GUARD, "negate", shown(negate), "True or False", "pass one of them"))
        negate = bool(negate)
        if self.baseline_arr is None:
            if (baseline := whole(GUARD, "baseline_idx", self.baseline_idx)) != 0:
                raise IndexError(refusal(GUARD, "baseline_idx", f"{baseline} without a baseline_arr", "0",
                                         "pass baseline_arr= as well"))
            holds = lambda: (read(count) != 0) is not negate  # noqa: E731  looked up once: loops ask each time
        else:
            memory, length = cells(GUARD, "baseline_arr", self.baseline_arr)
            baseline, other = index_in(GUARD, "baseline_idx", self.baseline_idx, length), reader(memory)
            holds = lambda: (read(count) != other(baseline)) is not negate  # noqa: E731
        for name, value in (("count_idx", count), ("baseline_idx", baseline), ("negate", negate), ("_holds", holds)):
            object.__setattr__(self, name, value)

    @classmethod
    def nonzero(cls, array: Any) -> SkipGuard:
        """Holds while ``array[0] != 0``."""
        return cls(array)

    @classmethod
    def intent(cls, array: Any, index: SupportsIndex) -> SkipGuard:
        """Holds while ``array[index] != 0``."""
        door = f"{GUARD}.intent"
        return cls(array, index_in(door, "index", index, cells(door, "array", array)[1]))

    @classmethod
    def nonempty_bucket(cls, offsets: Any, bucket: SupportsIndex) -> SkipGuard:
        """Holds while bucket ``[offsets[bucket], offsets[bucket + 1])`` has something in it."""
        door = f"{GUARD}.nonempty_bucket"
        number = index_in(door, "bucket", bucket, max(cells(door, "offsets", offsets)[1] - 1, 0))
        return cls(offsets, number + 1, offsets, number)

    def evaluate(self) -> bool:
        """Whether it holds, read on the host now; a device is waited for."""
        return self._holds()

    def negated(self) -> SkipGuard:
        """The guard that holds where this one does not."""
        return SkipGuard(self.count_arr, self.count_idx, self.baseline_arr, self.baseline_idx, not self.negate)


def parts_of(door: str, step: Any) -> tuple[Part, ...]:
    """The callables of a step: one, or a tuple or list of them. Raises TypeError for others, ValueError for none."""
    if isinstance(step, tuple | list):
        if not step:
            raise ValueError(refusal(door, "step", "no parts", "one or more", "pass what shall run"))
        named = [(f"step, part {i}", part) for i, part in enumerate(step)]
    else:
        named = [("step", step)]
    for argument, part in named:
        if not callable(part):
            fix = "pass its launch" if callable(getattr(part, "launch", None)) else "pass a function, such as x.launch"
            raise TypeError(refusal(door, argument, f"{shown(part)}, a {type(part).__name__}",
                                    "a callable without arguments", fix))
    return tuple(part for _, part in named)


def check_guard(door: str, guard: object) -> None:
    if not isinstance(guard, SkipGuard):
        raise TypeError(refusal(door, "guard", f"{shown(guard)}, a {type(guard).__name__}", "a SkipGuard",
                                "pass eagle.SkipGuard.nonzero(cells) or another"))


@dataclass(frozen=True, eq=False)
class Skippable:
    """A step that a call runs where the guard holds. `parts` are its callables, run in order."""

    step: Any
    guard: SkipGuard
    parts: tuple[Part, ...] = field(init=False, repr=False)
    holder: Holder = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", parts_of(SKIPPABLE, self.step))
        check_guard(SKIPPABLE, self.guard)

    def __call__(self) -> None:
        """Run the step if the guard holds."""
        if self.guard._holds():
            for part in self.parts:
                part()


def skippable(step: Part | Sequence[Part], guard: SkipGuard) -> Skippable:
    """A step that a call runs where the guard holds: a callable without arguments, or a tuple of them run in order.

    Raises TypeError for another step and for what is no guard, ValueError for an empty tuple.
    """
    return Skippable(step, guard)


@dataclass(frozen=True, eq=False)
class RepeatWhile:
    """A loop; a call runs it. `parts` are the callables of its body, `cap` the most iterations there can be.

    `iteration_index` is one read-only cell: 0, 1, 2, ... while the body runs.
    """

    step: Any
    guard: SkipGuard | None = None
    max_iters: int | None = None
    limit: Any = field(default=None, kw_only=True)
    brk: Any = field(default=None, kw_only=True)
    parts: tuple[Part, ...] = field(init=False, repr=False)
    cap: int = field(init=False, repr=False)
    iteration_index: np.ndarray[Any, np.dtype[np.uint32]] = field(init=False, repr=False)
    counter: np.ndarray[Any, np.dtype[np.uint32]] = field(init=False, repr=False)  #: iterations left, and those done
    holder: Holder = field(default=None, init=False, repr=False)
    _limit: Any = field(init=False, repr=False)  # the arrays, of numpy where they are in host memory
    _brk: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = parts_of(REPEAT_WHILE, self.step)
        if self.guard is not None:
            check_guard(REPEAT_WHILE, self.guard)
        most = None if self.max_iters is None else whole(REPEAT_WHILE, "max_iters", self.max_iters)
        if most is not None and not 1 <= most <= ENDLESS:
            raise ValueError(refusal(REPEAT_WHILE, "max_iters", str(most), f"1 to {ENDLESS}, or None",
                                     "leave it out where a guard, limit or brk ends the loop"))
        arrays = {"_limit": None, "_brk": None}
        for argument, array in (("limit", self.limit), ("brk", self.brk)):
            if array is not None:
                arrays[f"_{argument}"], length = cells(REPEAT_WHILE, argument, array, writable=argument == "brk")
                index_in(REPEAT_WHILE, argument, 0, length)
        if self.guard is None and self.limit is None and self.brk is None:
            raise ValueError(refusal(REPEAT_WHILE, "guard", "nothing that ends the loop", "a guard, limit= or brk=",
                                     "use range() for a fixed number of iterations"))
        counter = np.zeros(2, np.uint32)
        index = counter[1:]
        index.flags.writeable = False
        for name, value in (("parts", parts), ("max_iters", most), ("cap", ENDLESS if most is None else most),
                            ("iteration_index", index), ("counter", counter), *arrays.items()):
            object.__setattr__(self, name, value)

    def __call__(self) -> None:
        """Run the loop, on the host. An exception of the body leaves by here, and the loop can run again."""
        parts, cap, counter = self.parts, self.cap, self.counter
        holds = None if self.guard is None else self.guard._holds
        limit = None if self._limit is None else reader(self._limit)
        brk = None if self._brk is None else reader(self._brk)
        if brk is not None:
            self._brk[0] = 0
        counter[1] = ran = 0
        while ran < cap and (limit is None or ran < limit(0)) and (holds is None or holds()):
            for part in parts:
                part()
            ran += 1
            counter[1] = ran  # what the next iteration is called, and how many there were
            if brk is not None and brk(0):
                break
        counter[0], counter[1] = cap - ran, ran  # a body that ran this very loop left other numbers there

    def iterations(self) -> int:
        """The iterations of the last run; of one that an exception ended, the index of the iteration it left."""
        return int(self.counter[1])


def repeat_while(step: Part | Sequence[Part], guard: SkipGuard | None = None, max_iters: SupportsIndex | None = None, *,
                 limit: Any = None, brk: Any = None) -> RepeatWhile:
    """A loop around a callable without arguments, or a tuple of them run in order: functions, ``bound.launch``, nodes,
    other loops.

    It goes on while it ran less than `max_iters` times, and less than `limit[0]`, and the guard holds; an iteration
    that leaves `brk[0]` nonzero is its last. `limit` and `brk` are cells, read each time; `brk[0]` is cleared at the
    start. Without max_iters there are at most 4294967295 iterations.

    Raises TypeError for a part that cannot be called, what is no guard, cell or integer; ValueError for no parts, a
    max_iters out of range, and where neither guard, limit nor brk ends the loop.
    """
    return RepeatWhile(step, guard, max_iters, limit=limit, brk=brk)  # type: ignore[arg-type]
