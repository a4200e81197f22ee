# SPDX-License-Identifier: Apache-2.0
"""Conditions and loops of a builder, as they run: over values of Python what they are, over cells a node."""

from __future__ import annotations

import builtins
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from eagle.errors import refusal, shown
from eagle.graph.tree import BRANCHES, REPEAT_WHILE, Branches, Conditional
from eagle.nodes import Node, SkipGuard, repeat_while
from eagle.transfer import copy_node

if TYPE_CHECKING:
    from eagle.graph.recorder import Frame

__all__ = ["Branch", "Loop", "Region", "is_cell", "is_plane", "locals_of", "refuse_cell", "run_nodes", "share"]

ONE = np.ones(1, np.uint32)
ONE.flags.writeable = False


def is_plane(value: Any) -> TypeGuard[np.ndarray[Any, Any]]:
    return isinstance(value, np.ndarray) and value.ndim > 0


def is_cell(value: Any) -> bool:
    """Whether a value is a cell: one number of uint32 in an array, which is read at each run."""
    return is_plane(value) and value.dtype == np.uint32 and value.shape == (1,)


def share(a: Any, b: Any) -> bool:
    """Whether two arrays of NumPy have bytes in common, as far as their bounds tell."""
    return a is b or bool(np.may_share_memory(a, b))


def locals_of(depth: int) -> dict[str, Any]:
    """The variables of a caller's caller, those of enclosing functions left out."""
    frame = sys._getframe(depth + 1)
    return {name: value for name, value in frame.f_locals.items() if name not in frame.f_code.co_freevars}


def refuse_cell(where: str, found: str, wanted: str, fix: str = "move it, or decide it by a value of Python"
                ) -> ValueError:
    return ValueError(refusal(where, "control flow", found, wanted, fix))


class Region:
    """Statements of which cells decide whether, and how often, they run.

    `bound` are the names they bind, `carried` those that are read later, `needed` those that must be bound ahead of
    them. `before` is what names were then, `now` what they are to be.
    """

    def __init__(self, frame: Frame, line: int, bound: Sequence[str], carried: Sequence[str],
                 needed: Sequence[str]) -> None:
        self.frame, self.line = frame, line
        self.bound, self.carried, self.needed = bound, frozenset(carried), needed
        self.before: dict[str, Any] = {}
        self.now: dict[str, Any] = {}
        self.swapped: list[tuple[Any, Any]] = []  # arrays, and the buffers their names have instead
        self.device = False  # decided by cells
        self._scopes = 0

    @property
    def where(self) -> str:
        return self.frame.at(self.line)

    def truth(self, value: Any, negate: bool) -> bool:
        """What a value of Python decides. Raises ValueError for an array that is no cell."""
        if is_plane(value) or hasattr(value, "__dlpack__") and len(value.shape) > 0:
            raise refuse_cell(self.where, f"an array of {value.dtype} and shape {tuple(value.shape)} as a condition",
                              "a cell, numpy.uint32 of shape (1,), or a value of Python", "let a kernel write a cell")
        return bool(value) is not negate

    def enter(self, local: Mapping[str, Any]) -> None:
        """Begin: from here on cells decide. Names that are carried get buffers that are theirs alone."""
        recorder = self.frame.recorder
        for name in self.needed:
            if name not in local:
                raise refuse_cell(self.where, f"{name!r}, which is bound here and read behind it or in another arm or "
                                  "iteration", "a name that has an array ahead of it", f"bind {name} before")
        self.device = True
        self.before = {name: local[name] for name in self.bound if name in local}
        for name in self.bound:
            value = self.before.get(name)
            if name not in self.carried or not is_plane(value):
                continue
            others = (other for key, other in local.items() if key != name and is_plane(other))
            if not self.frame.is_own(value) or any(share(value, other) for other in others):
                self.before[name] = buffer = recorder.zeros(value)
                self.swapped.append((value, buffer))
                recorder.copy(value, buffer, f"seed({name})")
        self.now = dict(self.before)
        self.frame.regions.append(self)
        recorder.unfinished += 1
        self._scopes = len(recorder.scopes)

    def open(self) -> list[Node]:
        """A scope that is recorded into until it is closed."""
        scope: list[Node] = []
        self.frame.recorder.scopes.append(scope)
        return scope

    def settle(self, local: Mapping[str, Any]) -> None:
        """Copy what carried names have now to the buffers they had; then they have those again."""
        pending = []
        for name in self.bound:
            if name not in self.carried:
                continue
            old, new = self.before[name], local.get(name)
            if new is old:
                continue
            if is_plane(old) and is_plane(new):
                if (old.shape, old.dtype) != (new.shape, new.dtype):
                    raise refuse_cell(self.where, f"{name!r} of {new.dtype} and shape {new.shape}", f"{old.dtype} and "
                                      f"shape {old.shape}, as before", "assign to another name")
                pending.append((new, old))
            elif is_plane(old) or is_plane(new) or type(old) is not type(new) or old != new:
                raise refuse_cell(self.where, f"{name!r}, which was {shown(old)} and becomes {shown(new)}",
                                  "arrays: values of Python are decided once", "keep it in a cell")
        recorder = self.frame.recorder
        sources = []
        for new, old in pending:
            if any(share(new, other) for _, other in pending):  # before it is overwritten
                kept = recorder.zeros(new)
                recorder.copy(new, kept)
                new = kept
            sources.append((new, old))
        for new, old in sources:
            recorder.copy(new, old)
        self.now = dict(self.before)

    def close(self) -> None:
        """Leave every scope that is open."""
        del self.frame.recorder.scopes[self._scopes:]

    def exit(self) -> None:
        self.frame.regions.remove(self)
        self.frame.recorder.unfinished -= 1

    def guard(self, cell: Any, negate: bool) -> SkipGuard:
        """The guard of a cell, or of the buffer its name has now."""
        for value, buffer in self.swapped:
            if value is cell:
                cell = buffer
        return SkipGuard(cell, negate=negate)


class Branch(Region):
    """An if with its elifs and else, or a match."""

    def __init__(self, frame: Frame, line: int, bound: Sequence[str], carried: Sequence[str], needed: Sequence[str],
                 subject: Any = None, cases: Sequence[int | str | None] = ()) -> None:
        super().__init__(frame, line, bound, carried, needed)
        self.subject, self._cases = subject, cases
        self._taken = -1
        self._asked = False
        self._guards: list[SkipGuard | None] = []
        self._arms: list[list[Node]] = []
        if cases and is_cell(subject):
            for case in cases:
                if isinstance(case, str):
                    raise SyntaxError(refusal(self.where, "match of a cell", case, "integers of 0 to 2**32 - 1, and "
                                              "`case _` last", "write an if"))
            self.enter(locals_of(2))

    def _arm(self, guard: SkipGuard | None) -> bool:
        self._guards.append(guard)
        self._arms.append(self.open())
        return True

    def test(self, value: Any, negate: bool) -> bool:
        """Whether the statements of a condition run now."""
        cell = is_cell(value)
        if self._asked and cell is not self.device:
            raise refuse_cell(self.where, "cells and values of Python in one chain of if and elif", "one kind",
                              "write one if in the other")
        if not cell:
            self._asked = True
            taken = self.truth(value, negate)
            self._taken = 0 if taken else -1
            return taken
        if not self._asked:
            self.enter(locals_of(1))
        self._asked = True
        return self._arm(SkipGuard(value, negate=negate))

    def more(self) -> bool:
        """Whether the next condition is asked."""
        return self.device or self._taken < 0

    def other(self) -> bool:
        """Whether the statements of the else run now."""
        return self._arm(None) if self.device else self._taken < 0

    def plain(self) -> bool:
        """Whether Python matches."""
        return not self.device

    def take(self, case: int) -> None:
        self._taken = case

    def case(self, number: int) -> bool:
        """Whether the statements of a case run now."""
        if not self.device:
            return self._taken == number
        value = self._cases[number]
        if value is None:
            return self._arm(None)
        constant = self.frame.recorder.own(np.array([value], np.uint32))
        return self._arm(SkipGuard(self.subject, 0, constant, 0, negate=True))

    def leave(self) -> None:
        """The end of an arm."""
        if self.device:
            self.settle(locals_of(1))
            self.close()

    def done(self) -> None:
        if self.device:
            self.exit()
            if any(self._arms):
                self.frame.recorder.add(Node(BRANCHES, Branches(tuple(self._guards), tuple(map(tuple, self._arms)))))


class Loop(Region):
    """A loop of any kind."""

    def __init__(self, frame: Frame, line: int, bound: Sequence[str], carried: Sequence[str],
                 needed: Sequence[str]) -> None:
        super().__init__(frame, line, bound, carried, needed)
        self._depth = len(frame.regions)
        self._ended = False
        self._cap: Any = None
        self._limit: Any = None
        self._index: Any = None
        self._used = False
        self._break: Any = None
        self._guard: tuple[Any, bool] | None = None
        self._body: list[Node] = []
        self._rests: list[tuple[tuple[SkipGuard | None, ...], tuple[Node, ...] | None, list[Node]]] = []

    # ---- heads -------------------------------------------------------------------------------------------------------

    def again(self) -> bool:
        """Whether a while goes on to ask its condition."""
        return not self._ended

    def stops(self, value: Any, negate: bool, orelse: bool) -> bool:
        """Whether a while ends here."""
        if not is_cell(value):
            return not self.truth(value, negate)
        self._no_else(orelse)
        warnings.warn_explicit(f"{self.where}: a loop without a cap runs until its cell ends it; write "
                               "`for _ in range(N): if not cell: break` to cap it", UserWarning,
                               sys._getframe(1).f_code.co_filename, self.line)
        self._begin((value, negate), locals_of(1))
        return False

    def over(self, function: Any, args: tuple[Any, ...], head: bool, orelse: bool) -> Iterator[Any]:
        """What a ``for _ in range(...)`` goes over; where cells decide, once."""
        if function is not builtins.range:
            yield from function(*args)
            return
        counted = len(args) == 1 and is_cell(args[0])
        if counted:
            self._no_else(orelse)
            self._limit, self._index = args[0], self.frame.recorder.own(np.zeros(1, np.uint32))
            yield self._index
            return
        for value in args:
            if is_plane(value):
                raise refuse_cell(self.where, f"range() of an array of {value.dtype} and shape {value.shape}",
                                  "an int, or one cell", "pass a cell of numpy.uint32 alone")
        self._cap, self._orelse = args, orelse
        for value in range(*args):
            yield value
            if self.device:
                return

    def ends(self, value: Any, negate: bool) -> bool:
        """Whether a for ends by the `if ...: break` it begins with."""
        if not is_cell(value):
            return self.truth(value, negate)
        if self._limit is None:
            self._no_else(self._orelse)
            if len(self._cap) != 1 or type(self._cap[0]) is not int:
                raise TypeError(refusal(self.where, "range", shown(self._cap), "one int of Python, the cap of the loop",
                                        "write range(N)"))
            self._cap, self._index = self._cap[0], self.frame.recorder.own(np.zeros(1, np.uint32))
        self._begin((value, not negate), locals_of(1))
        return False

    def index(self, value: Any, used: bool) -> Any:
        """What the variable of a for is; `used`: the function reads it."""
        self._used = used
        if self._limit is not None and not self.device:
            self._begin(None, locals_of(1))
        return self._index if self.device else value

    def _no_else(self, orelse: bool) -> None:
        if orelse:
            raise SyntaxError(refusal(self.where, "control flow", "an else of a loop that cells decide", "none",
                                      "write the statements behind the loop"))

    def _begin(self, guard: tuple[Any, bool] | None, local: Mapping[str, Any]) -> None:
        self.enter(local)
        self._guard = guard
        self._body = self.open()

    # ---- bodies ------------------------------------------------------------------------------------------------------

    def jump(self, value: Any, negate: bool, word: str, line: int) -> bool:
        """Whether an ``if ...: break``, or continue, that stands directly in the loop is taken now."""
        where = self.frame.at(line)
        if not is_cell(value):
            taken = self.truth(value, negate)
            if taken:
                self.leaves(word, line)
            return taken
        if not self.device:
            raise refuse_cell(where, f"`{word}` by a cell in a loop of Python", "a loop that a cell decides",
                              "begin the loop with `if not cell: break`, in `for _ in range(N)`")
        self.settle(locals_of(1))
        self.now = {name: array for name, array in self.before.items() if name in self.carried}  # others go on
        guard = SkipGuard(value, negate=negate)
        if word == "break":
            if self._break is None:
                self._break = self.frame.recorder.own(np.zeros(1, np.uint32))
            arm = (copy_node(ONE, self._break, "break"),)
            self._rests.append(((guard, None), arm, self.open()))
        else:
            self._rests.append(((guard.negated(),), None, self.open()))
        return False

    def leaves(self, word: str, line: int) -> None:
        """Refuse a break or continue that values of Python decide where cells decide the loop, or a part of it."""
        if self.device or len(self.frame.regions) > self._depth:
            raise refuse_cell(self.frame.at(line), f"`{word}` within what cells decide", f"`if cell: {word}`, directly "
                              "in a loop that a cell decides")

    def end(self) -> None:
        """The end of the body."""
        if not self.device or self._ended:
            return
        self._ended = True
        self.settle(locals_of(1))
        recorder = self.frame.recorder
        for guards, taken, rest in reversed(self._rests):
            recorder.scopes.pop()
            arms = (tuple(rest),) if taken is None else (taken, tuple(rest))
            if any(arms):
                recorder.add(Node(BRANCHES, Branches(guards, arms)))
        self.close()
        self.exit()
        if not self._body:
            raise refuse_cell(self.where, "a loop that launches nothing", "one that does", "leave it out")
        self._record()

    def _record(self) -> None:
        recorder, body, limit = self.frame.recorder, self._body, self._limit
        if limit is not None and any(share(plane.array, limit) for node in body for plane in node.writes):
            limit = recorder.zeros(limit)  # range() looks once
            recorder.copy(self._limit, limit, "limit")
        guard = None if self._guard is None else self.guard(*self._guard)
        cap = self._cap if isinstance(self._cap, int) else None
        made = repeat_while(partial(run_nodes, body), guard, cap, limit=limit, brk=self._break)
        if self._used:
            body.insert(0, copy_node(made.iteration_index, self._index, "index"))
        recorder.add(Node(REPEAT_WHILE, Conditional(made, tuple(body))))

    def done(self) -> None:
        self.now = dict(self.before)


def run_nodes(nodes: Sequence[Node]) -> None:
    """Do the work of each, in order."""
    for node in nodes:
        node()
