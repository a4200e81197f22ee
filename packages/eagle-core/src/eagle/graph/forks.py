# SPDX-License-Identifier: Apache-2.0
"""``with g.parallel() as p: with p.branch() as b:``: branches of a builder's graph that may run at the same time."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from eagle.errors import refusal
from eagle.graph.recorder import GraphRecorder
from eagle.graph.regions import share
from eagle.graph.tree import GROUP, WAIT, Wait, leaves
from eagle.nodes import Node

__all__ = ["BranchHandle", "Parallel"]

DOOR = "eagle.Graph"


class Parallel:
    """A fork: each :meth:`branch` is one of its branches, and what comes behind waits for all."""

    def __init__(self, recorder: GraphRecorder, owner: BranchHandle | None) -> None:
        if (recorder.forks[-1] if recorder.forks else None) is not owner:
            raise RuntimeError(refusal(f"{DOOR}.parallel", "this graph", "a fork within a branch", "one of that branch",
                                       "call parallel() of the branch's handle"))
        self.recorder = recorder
        self.arms: list[list[Node]] = []
        self.is_open = self._entered = False

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError(refusal(f"{DOOR}.parallel", "this fork", "one that was entered", "a new one",
                                       "call parallel() for each"))
        self.is_open = self._entered = True
        self.recorder.unfinished += 1
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.is_open = False
        self.recorder.unfinished -= kind is None
        arms = [tuple(arm) for arm in self.arms if arm]
        if kind is None and len(arms) > 1:
            self.recorder.add(Node(GROUP, tuple(arms)))
        elif kind is None:
            for node in arms[0] if arms else ():
                self.recorder.scopes[-1].append(node)

    def branch(self) -> BranchHandle:
        """The next branch: ``with p.branch() as b:``."""
        if not self.is_open:
            raise RuntimeError(refusal(f"{DOOR}.parallel", "branch", "a fork that is not open", "one within its with",
                                       "write `with g.parallel() as p: with p.branch() as b:`"))
        return BranchHandle(self)


class BranchHandle:
    """A branch while it is recorded; blocks take it in place of the graph."""

    def __init__(self, fork: Parallel) -> None:
        self._fork, self.recorder = fork, fork.recorder
        self._nodes: list[Node] = []
        self._entered = False

    def __enter__(self) -> Self:
        if self._entered:
            raise RuntimeError(refusal(f"{DOOR}.parallel", "branch", "one that was entered", "a new one",
                                       "call p.branch() for each"))
        self._entered = True
        self.recorder.unfinished += 1
        self._fork.arms.append(self._nodes)
        self._depth = len(self.recorder.scopes)
        self.recorder.scopes.append(self._nodes)
        self.recorder.forks.append(self)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.recorder.unfinished -= kind is None
        del self.recorder.scopes[self._depth:]
        del self.recorder.forks[self.recorder.forks.index(self):]

    def _innermost(self, method: str) -> None:
        if not (self.recorder.forks and self.recorder.forks[-1] is self):
            raise RuntimeError(refusal(f"{DOOR}.{method}", "this branch", "one that is not open", "the innermost one",
                                       "call it within `with p.branch() as b:`"))

    def parallel(self) -> Parallel:
        """A fork within this branch."""
        return Parallel(self.recorder, self)

    def add(self, bound: Any, *, name: str | None = None, grad: bool = True) -> Self:
        """Graph.add, to this branch."""
        self._innermost("add")
        self.recorder.graph.add(bound, name=name, grad=grad)
        return self

    def add_node(self, node: Any, *, name: str | None = None) -> Self:
        """Graph.add_node, to this branch."""
        self._innermost("add_node")
        self.recorder.graph.add_node(node, name=name)
        return self

    def add_group(self, branches: Any, *, names: Any = None) -> Self:
        """Graph.add_group, to this branch."""
        self._innermost("add_group")
        self.recorder.graph.add_group(branches, names=names)
        return self

    def wait(self, *planes: Any) -> Self:
        """What comes next in this branch waits until an earlier branch has written the planes.

        Raises ValueError for planes that no earlier branch writes, RuntimeError outside this branch.
        """
        door = f"{DOOR}.wait"
        self._innermost("wait")
        earlier = [leaf for arm in self._fork.arms if arm is not self._nodes for leaf in leaves(arm)]
        for i, plane in enumerate(planes):
            if not isinstance(plane, np.ndarray):
                raise TypeError(refusal(door, f"planes[{i}]", f"a {type(plane).__name__}", "an array of NumPy",
                                        "pass what a kernel of another branch returned"))
            writers = [leaf for leaf in earlier if any(share(written.array, plane) for written in leaf.writes
                                                       if isinstance(written.array, np.ndarray))]
            if not writers:
                raise ValueError(refusal(door, f"planes[{i}]", "an array that no earlier branch of this fork writes",
                                         "one that does: what was written before the fork is there, and a branch "
                                         "cannot wait for itself or for a later one", "leave wait() out, or move the "
                                         "branches"))
            self._nodes.append(Node(WAIT, Wait(plane, writers[-1])))  # ahead of what cells decide within the branch
        return self
