# SPDX-License-Identifier: Apache-2.0
"""Nodes over other arrays: what ``Graph.bind`` makes of those a builder recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BufferRefused, LayoutError, refusal, shown
from eagle.graph.regions import run_nodes, share
from eagle.graph.tree import (
    BRANCHES,
    CONDITIONALS,
    LAUNCH,
    SKIPPABLE,
    WAIT,
    Conditional,
    Launch,
    Wait,
    arms_of,
    with_arms,
)
from eagle.interop.buffer import view_for
from eagle.nodes import Node, SkipGuard, reduce, repeat_while, skippable
from eagle.transfer import copy_node

__all__ = ["rebound"]

HOST = (1, 0)  # DLPack device


def rebound(door: str, nodes: Sequence[Node], result: Any, parameters: Mapping[str, Any], planes: Mapping[str, Any],
            ) -> tuple[list[Node], Any]:
    """The nodes, and the result, of a builder whose `parameters` were these, with `planes` in place of some."""
    for name, new in planes.items():
        if name not in parameters:
            raise ValueError(refusal(door, f"argument {name!r}", "a name that is no argument of a builder",
                                     f"one of {list(parameters)}", "call the builder again for other arrays"))
        _check(door, name, parameters[name], new)
        for other, array in parameters.items():
            if array is parameters[name] and planes.get(other, array) is not new:
                raise ValueError(refusal(door, name, f"an array that is {other!r} too", "one of its own, or the same "
                                         "one for both", "call the builder again"))
    changed = _Rebinding(door, [(name, parameters[name], new) for name, new in planes.items()])
    return changed.nodes(nodes), changed.tree(result)


def _check(door: str, name: str, old: Any, new: Any) -> None:
    """Refuse what cannot take the place of a builder's argument."""
    if not hasattr(old, "__dlpack__"):
        raise ValueError(refusal(door, name, f"{shown(old)}, which decided how the graph was built", "an array",
                                 "call the builder again"))
    if not hasattr(new, "__dlpack__") or isinstance(new, type):
        raise TypeError(refusal(door, name, f"{shown(new)}, a {type(new).__name__}", "an array", "pass one"))
    (shape, dtype, device), (others, other, there) = (_facts(door, name, array) for array in (old, new))
    if others != shape:
        raise LayoutError(refusal(door, name, f"shape {others}", f"{shape}, as the builder was given",
                                  "call the builder again for other shapes"))
    if other != dtype:
        raise BufferRefused(refusal(door, name, other, f"{dtype}, as the builder was given",
                                    "convert it, or call the builder again"))
    if there != device:
        raise BufferRefused(refusal(door, name, f"device {there} (DLPack type, ordinal)", f"{device}, as the builder "
                                    "was given", "copy it there, or call the builder again"))


def _facts(door: str, name: str, array: Any) -> tuple[tuple[int, ...], str, tuple[int, int]]:
    """The shape, dtype and device of an array."""
    if isinstance(array, np.ndarray):
        return array.shape, str(array.dtype), HOST
    view = view_for(door, name, array)
    return view.shape, view.dtype, HOST if view.device[0] in HOST_DEVICE_TYPES else view.device


def _memory(array: Any) -> Any:
    """An array of NumPy over the memory of an array on the host."""
    return array if isinstance(array, np.ndarray) else np.asarray(view_for("eagle.Graph.bind", "an argument", array))


class _Rebinding:
    """Arrays, by the name of the parameter, and those that take their place."""

    def __init__(self, door: str, swaps: Iterable[tuple[str, Any, Any]]) -> None:
        self._door = door
        self._swaps = [(name, old, new, _memory(old)) for name, old, new in swaps]
        self._made: dict[int, tuple[Node, Node]] = {}  # by the identity of the old node, which is kept

    def array(self, array: Any) -> Any:
        return next((new for _, old, new, _ in self._swaps if old is array), array)

    def tree(self, value: Any) -> Any:
        """A result with the arrays swapped."""
        if isinstance(value, dict):
            return {key: self.tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return getattr(type(value), "_make", type(value))(map(self.tree, value))  # a named tuple has its own way
        return self.array(value)

    def nodes(self, nodes: Iterable[Node]) -> list[Node]:
        return [self.node(node) for node in nodes]

    def node(self, node: Node) -> Node:
        """The node over the new arrays; itself where it touches none of the old ones."""
        if id(node) not in self._made:
            touched = next((name for name, _, _, memory in self._swaps for plane in (*node.reads, *node.writes)
                            if share(_memory(plane.array), memory)), None)
            made = node if touched is None and node.kind != WAIT else self._swapped(node, touched)
            self._made[id(node)] = node, made
        return self._made[id(node)][1]

    def _swapped(self, node: Node, name: str | None) -> Node:
        payload: Any = node.payload
        if node.kind == LAUNCH:
            bound = payload.bound
            changed = {plane: self.array(array) for plane, array in bound.planes.items()
                       if self.array(array) is not array}
            self._refuse_views(node, bound.planes.values())
            return replace(node, payload=Launch(bound.over(self._door, changed)))
        if node.kind == "copy":
            self._refuse_views(node, (payload.src, payload.into))
            return replace(node, payload=copy_node(self.array(payload.src), self.array(payload.into)).payload)
        if node.kind == "reduce":
            arrays = payload.arrays
            self._refuse_views(node, arrays.values())
            made = reduce(self.array(arrays["x"]), self.array(arrays["out"]), op=payload.op, policy=payload.policy,
                          comp=self.array(arrays.get("comp")))
            return replace(node, payload=made.payload)
        if node.kind == WAIT:
            return replace(node, payload=Wait(self.array(payload.plane), self.node(payload.writer)))
        if node.kind in CONDITIONALS:
            return self._conditional(node)
        if node.kind == BRANCHES:
            node = replace(node, payload=replace(payload, guards=tuple(map(self._guard, payload.guards))))
        if arms := arms_of(node):
            return with_arms(node, tuple(tuple(self.nodes(arm)) for arm in arms))
        raise ValueError(refusal(self._door, str(name), f"an array that own code touches, node {node.label!r}",
                                 "one that kernels and copies alone touch", "call the builder again, or write into the "
                                 "array that is bound"))

    def _conditional(self, node: Node) -> Node:
        old = node.payload.made_of
        body: list[Node] = []
        step = partial(run_nodes, body)
        if node.kind == SKIPPABLE:
            made: Any = skippable(step, self._guard(old.guard))  # type: ignore[arg-type]
        else:
            made = repeat_while(step, self._guard(old.guard), old.max_iters, limit=self.array(old.limit),
                                brk=self.array(old.brk))
            self._swaps.append(("", old.iteration_index, made.iteration_index, old.iteration_index))
        body += self.nodes(node.payload.body)
        return replace(node, payload=Conditional(made, tuple(body)))

    def _guard(self, guard: SkipGuard | None) -> SkipGuard | None:
        if guard is None:
            return None
        return SkipGuard(self.array(guard.count_arr), guard.count_idx, self.array(guard.baseline_arr),
                         guard.baseline_idx, guard.negate)

    def _refuse_views(self, node: Node, arrays: Iterable[Any]) -> None:
        for array in arrays:
            for name, old, _, memory in self._swaps:
                if hasattr(array, "__dlpack__") and array is not old and share(_memory(array), memory):
                    raise ValueError(refusal(self._door, name, f"an array of which node {node.label!r} has a view",
                                             "one that nodes touch as it is", "call the builder again"))
