# SPDX-License-Identifier: Apache-2.0
"""The branches of a dispatch group, as hawk kernels of their own: one step of each, and what decides which."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from eagle.registry.walks import nodes_of

__all__ = ["Branches", "Group", "groups_of", "take_apart"]


@dataclass(frozen=True)
class Group:
    """What a kernel says of a group."""

    name: str
    policy: str  #: "auto": the caller's to choose
    size: int  #: branches
    fixed: bool  #: a step writes no plane that its selector reads
    nested: bool  #: a loop of the step holds it, or uses what it gives: its policy cannot be changed


@dataclass(frozen=True)
class Branches:
    """A step taken apart at a group. `kernels` take its branches; the branch of a sample is the plane `selector`, or,
    where that is an expression, what `classifier` writes to it."""

    kernels: tuple[Any, ...]
    selector: str
    classifier: Any


def groups_of(kernel: Any) -> dict[str, Group]:
    """The groups of a hawk kernel by name."""
    from hawk.ir.walk import dispatch_groups

    walk = _step(kernel).walk
    looped = {id(node) for loop in walk.order if hasattr(loop, "body_nodes")
              for node in nodes_of((*loop.body_nodes(), *loop.body_sinks))}
    return {info.name: Group(info.name, info.policy, info.K, info.static_selector,
                             id(dispatch_groups(walk)[info.name]) in looped) for info in walk.dispatches}


def take_apart(kernel: Any, group: str) -> Branches:
    """The branches of a group of a hawk kernel, which is not nested."""
    import hawk
    from hawk.ir.walk import dispatch_groups
    from hawk.trace.steps import default_steps

    step = _step(kernel)
    node = dispatch_groups(step.walk)[group]
    kernels = []
    for i, branch in enumerate(node.branches):
        one = hawk.Kernel(f"{step.name}__k{i}", _replaced(step, node, branch), step.planes, kind=step.kind)
        kernels.append(one if kernel.step is None else default_steps(one))
    selector: Any = node.selector
    if getattr(selector, "role", None) in ("per_sample", "mutable"):
        return Branches(tuple(kernels), selector.name, None)
    plane = f"{group}_class"
    return Branches(tuple(kernels), plane, hawk.Kernel(f"{step.name}__cls", (_assignment(plane, selector, node.K),),
                                                       step.planes))


def _step(kernel: Any) -> Any:
    return getattr(kernel, "step", None) or kernel


def _replaced(step: Any, node: Any, branch: Any) -> tuple[Any, ...]:
    """The sinks of a step where `branch` is in the place of `node`."""
    made: dict[int, Any] = {}
    for each in step.walk.order:  # operands first
        operands = tuple(made.get(id(operand), operand) for operand in each.operands)
        if each is node:
            made[id(each)] = made.get(id(branch), branch)
        elif any(new is not old for new, old in zip(operands, each.operands, strict=True)):
            made[id(each)] = copy.copy(each)
            made[id(each)].operands = operands
    return tuple(made.get(id(sink), sink) for sink in step.sinks)


def _assignment(plane: str, selector: Any, size: int) -> Any:
    """The sink of a kernel that writes the branch of each sample."""
    from hawk.ir.nodes import Assign
    from hawk.ir.segment import clamped
    from hawk.types import TensorType

    return Assign(plane, clamped(selector, size), TensorType((), "i32"))
