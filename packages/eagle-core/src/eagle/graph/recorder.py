# SPDX-License-Identifier: Apache-2.0
"""What a builder's calls are recorded with: scopes of nodes, the names of the function, the buffers of the graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eagle.errors import ArgumentError, refusal, shown
from eagle.graph.regions import Branch, Loop, Region, is_cell, is_plane, locals_of, refuse_cell, share
from eagle.graph.tree import LAUNCH, every, launch
from eagle.nodes import Node
from eagle.plan import AutoPlan
from eagle.plan.plan import is_hawk_kernel
from eagle.plan.signature import Use
from eagle.stepping.relocation import Reach, reach
from eagle.transfer import copy_node

__all__ = ["Frame", "GraphRecorder"]

Array = np.ndarray[Any, Any]


class Target(NamedTuple):
    """What the results of a call are assigned to: a name, or one for each; and the names there are."""

    names: str | tuple[str, ...]
    frame: Frame
    local: Mapping[str, Any]


class GraphRecorder:
    """Records the calls of a thread as nodes; `root` is the list they go to, `graph` the graph that has it."""

    def __init__(self, door: str, root: list[Node], graph: Any = None) -> None:
        self.door, self.graph = door, graph
        self.scopes = [root]
        self.forks: list[Any] = []  # the branches that are open
        self.unfinished = 0  # forks, branches and statements that cells decide, entered and not left by their end
        self.target: Target | None = None
        self._labels = Counter(node.label.partition("#")[0] for node in every(root) if node.kind == LAUNCH)
        self._loose: dict[int, tuple[list[Node], Node]] = {}  # own code, by its payload: where it was recorded
        self._own: list[Array] = []

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def add(self, node: Node) -> None:
        """Record a node that was just made."""
        self.scopes[-1].append(node)
        self._loose[id(node.payload)] = self.scopes[-1], node

    def put(self, node: Node) -> None:
        """Record a node that a method of the graph was given. Own code in it, which was recorded when it was made, goes
        there."""
        for inner in every([node]):
            scope, loose = self._loose.pop(id(inner.payload), ([], inner))
            if loose in scope:
                scope.remove(loose)
        self.scopes[-1].append(node)

    def refuse_unfinished(self) -> None:
        """Raise RuntimeError where an exception, caught since, left a part whose nodes are therefore lost."""
        if self.unfinished:
            raise RuntimeError(refusal(self.door, "the function", "a fork, a branch, or control flow on cells, "
                                       "that did not come to its end", "each one to end", "let exceptions leave the "
                                       "function, and use `with` for forks and branches"))

    def copy(self, src: Array, into: Array, name: str | None = None) -> None:
        self.add(copy_node(src, into, name))

    def zeros(self, like: Array) -> Array:
        """A buffer of the graph's."""
        made = np.zeros_like(like, order="C", subok=False)
        self._own.append(made)
        return made

    def own(self, array: Array) -> Array:
        self._own.append(array)
        return array

    def is_own(self, array: Any) -> bool:
        return any(array is buffer for buffer in self._own)

    def label(self, name: str) -> str:
        self._labels[name] += 1
        count = self._labels[name]
        return name if count == 1 else f"{name}#{count}"

    # ---- calls -------------------------------------------------------------------------------------------------------

    def call(self, plan: AutoPlan, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
        """Record a launch; what the call returns. Outputs that are left out are buffers of the graph's."""
        target, self.target = self.target, None
        buffer, device, layout = (kw.pop(name, None) for name in ("buffer", "device", "layout"))
        given = plan.bind_args(args, kw)
        kernel = plan.host.signature.kernel
        door = f"{kernel}()"
        given |= self._buffers(door, plan, buffer, given)
        bound = plan.bind_by_name(door, (), device, layout, given, "record", given.keys())
        made = bound.arguments.made
        for array in made.values():
            array[...] = 0
        instead = self._in_place(door, plan, target, given, made)
        cleared = self._kept_zeros(plan) & made.keys()
        if instead or cleared:
            bound = bound.over(door, instead, cleared)
        self._own += [array for output, array in made.items() if output not in instead]
        name = target.names if target is not None and isinstance(target.names, str) else kernel
        self.add(launch(door, bound, self.label(name)))
        return plan.answer(plan.select(given), given | made | instead)

    def _buffers(self, door: str, plan: AutoPlan, buffer: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays that ``buffer=`` gives, by output; True stands for a new one."""
        if buffer is None:
            return {}
        outputs = [slot.name for slot in plan.host.signature.arguments if slot.is_output]
        order = plan.returns or tuple(outputs)
        if isinstance(buffer, Mapping):
            named = dict(buffer)
        elif isinstance(buffer, list | tuple):
            if len(buffer) != len(order):
                raise ValueError(refusal(door, "buffer", f"{len(buffer)} of them", f"{len(order)}, one for each of "
                                         f"{list(order)}", "pass None for those that need none"))
            named = dict(zip(order, buffer, strict=True))
        elif buffer is True:
            named = dict.fromkeys(order, True)
        elif len(order) == 1:
            named = {order[0]: buffer}
        else:
            raise ValueError(refusal(door, "buffer", shown(buffer), f"one for each of {list(order)}",
                                     "pass a dict, or a sequence"))
        found = {}
        for name, value in named.items():
            if name not in outputs:
                raise ValueError(refusal(door, "buffer", f"the name {shown(name)}", f"some of {outputs}",
                                         "name outputs of the kernel"))
            if value is True or value is None or value is False:
                continue
            if not is_plane(value):
                raise TypeError(refusal(door, f"buffer, {name!r}", f"{shown(value)}, a {type(value).__name__}",
                                        "True, or an array of NumPy", "pass buffer=True for a new one"))
            if name in given:
                raise ArgumentError(refusal(door, f"argument {name!r}", "two arrays", "one", "leave one of them out"))
            found[name] = self.own(value)
        return found

    def _in_place(self, door: str, plan: AutoPlan, target: Target | None, given: Mapping[str, Any],
                  made: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs that can be written at once into the buffers the assigned names have."""
        if target is None or not target.frame.regions:
            return {}
        names = (target.names,) if isinstance(target.names, str) else target.names
        found = {}
        if len(names) == len(plan.returns):
            for name, output in zip(names, plan.returns, strict=True):
                if output in made and self._fits(door, plan, name, output, target, given, made[output]):
                    found[output] = target.frame.regions[-1].before[name]
        return found

    @staticmethod
    def _kept_zeros(plan: AutoPlan) -> set[str]:
        """The outputs of which a kernel may leave cells as they were: a call that leaves them out starts from zeros."""
        return {slot.name for slot in plan.host.signature.arguments
                if slot.zero and slot.use in (Use.SAMPLES, Use.SINK)}

    def _fits(self, door: str, plan: AutoPlan, name: str, output: str, target: Target, given: Mapping[str, Any],
              made: Array) -> bool:
        region = target.frame.regions[-1]
        buffer = region.before.get(name) if name in region.carried else None
        if not is_plane(buffer) or (buffer.shape, buffer.dtype) != (made.shape, made.dtype):
            return False
        readers = {key: value for key, value in given.items() if is_plane(value) and share(value, buffer)}
        signature = plan.host.signature
        if readers and not (reach(signature) >= Reach.LOCAL and all(
                slot.use is Use.SAMPLES for slot in signature.arguments if slot.name in readers)):
            raise ValueError(refusal(door, f"{name!r}", f"an assignment at line {region.line} or behind it that writes "
                                     "what the kernel reads", "a kernel whose samples read nothing of each other",
                                     "assign to another name, and copy"))
        if readers and not (signature.aliasable and output not in self._kept_zeros(plan)
                            and all(value is buffer for value in readers.values())):
            return False
        return not any(other != name and is_plane(value) and share(value, buffer)
                       for other, value in target.local.items())


class Frame:
    """One run of a rewritten function: what it knows as ``__eagle__``. `foreign` are its arguments."""

    def __init__(self, recorder: GraphRecorder, name: str, foreign: Iterable[Any]) -> None:
        self.recorder, self.name = recorder, name
        self.regions: list[Region] = []  # those that are open, of this frame
        self._foreign = list(foreign)

    def is_own(self, array: Any) -> bool:
        """Whether the names of this function alone have an array."""
        return self.recorder.is_own(array) and not any(array is other for other in self._foreign)

    def at(self, line: int) -> str:
        return f"{self.name}, line {line}"

    def call(self, names: Any, function: Any, /, *args: Any, **kw: Any) -> Any:
        if not (is_hawk_kernel(function) or isinstance(function, AutoPlan)):
            return function(*args, **kw)
        self.recorder.target = Target(names, self, locals_of(1))
        try:
            return function(*args, **kw)
        finally:
            self.recorder.target = None

    def plain(self, value: Any, line: int) -> Any:
        """A value that decides something now; refused where it is a cell."""
        if is_cell(value):
            raise refuse_cell(self.at(line), "a cell within an expression", "a condition that is a cell, or `not` one")
        return value

    def branch(self, line: int, bound: Sequence[str], carried: Sequence[str], needed: Sequence[str]) -> Branch:
        return Branch(self, line, bound, carried, needed)

    def switch(self, line: int, bound: Sequence[str], carried: Sequence[str], needed: Sequence[str], subject: Any,
               cases: Sequence[int | str | None]) -> Branch:
        return Branch(self, line, bound, carried, needed, subject, cases)

    def loop(self, line: int, bound: Sequence[str], carried: Sequence[str], needed: Sequence[str]) -> Loop:
        return Loop(self, line, bound, carried, needed)

    def leaves(self, word: str, line: int) -> None:
        if self.regions:
            raise refuse_cell(self.at(line), f"`{word}` where cells decide", f"`{word}` outside what they decide")
