# SPDX-License-Identifier: Apache-2.0
"""What simulate is given: hawk kernels, plans and nodes, which become the plans and nodes of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

from eagle.errors import ArgumentError, refusal, shown
from eagle.nodes import Node
from eagle.plan import AutoPlan, Plan
from eagle.plan.deploy import PRECISIONS, deploy_kernels
from eagle.plan.plan import is_hawk_kernel
from eagle.sidecar import derived_tag
from eagle.stepping.dispatch import resolved

__all__ = ["build_items", "build_kernels", "read_items"]


def read_items(door: str, model: Any, until: Any) -> tuple[Any, ...]:
    """The items of a model, with the stop rule last. ValueError for what is none, naming its index and type."""
    single = not isinstance(model, list | tuple)
    items = (model,) if single else tuple(model)
    if not items:
        raise ValueError(refusal(door, "model", f"an empty {type(model).__name__}", "at least one hawk kernel",
                                 "pass the kernels of a step"))
    for i, item in enumerate(items):
        _check(door, "model" if single else f"model[{i}]", item)
    if until is None:
        return items
    if not (is_hawk_kernel(until) or isinstance(until, Plan | AutoPlan)):
        what = "a Python function" if isinstance(until, FunctionType | BuiltinFunctionType) else \
            f"the text {shown(until)}" if isinstance(until, str) else \
            f"the number {shown(until)}" if isinstance(until, int | float) else f"a {type(until).__name__}"
        raise ArgumentError(refusal(door, "until", what, "a kernel: a stop rule is a kernel that assigns `terminated`",
                                    "write `terminated = <condition>` in a function with @hawk.kernel"))
    _check(door, "until", until)
    return (*items, until)


def _check(door: str, what: str, item: Any) -> None:
    if is_hawk_kernel(item) or isinstance(item, Plan | AutoPlan):
        tag = derived_tag(item)
        if tag is not None:
            kind, primal = tag
            raise ValueError(refusal(door, what, f"the {kind} of {shown(primal)}", "a kernel that is no derivative",
                                     f"pass {shown(primal)} itself"))
    elif not isinstance(item, Node):
        fix = "decorate it with @hawk.kernel, or wrap it in an opaque node" if isinstance(item, FunctionType) else \
            "pass hawk kernels, plans of eagle.deploy, or nodes"
        raise ArgumentError(refusal(door, what, f"a {type(item).__name__}, {shown(item)}", "a hawk kernel or a plan",
                                    fix))


def build_items(door: str, items: Sequence[Any], scalar_type: Any, policies: Mapping[str, str]) -> tuple[Any, ...]:
    """`items` with a plan for each hawk kernel; kernels of one access class are built into one bundle."""
    if scalar_type is not None:
        if not (isinstance(scalar_type, str) and scalar_type in PRECISIONS):
            raise ValueError(refusal(door, "scalar_type", shown(scalar_type), f"one of {PRECISIONS}",
                                     "leave it out for float64"))
        built = next((item for item in items if not is_hawk_kernel(item)), None)
        if built is not None:
            raise ValueError(refusal(door, "scalar_type", f"{scalar_type!r} with a {type(built).__name__} in the model",
                                     "None: it says how hawk kernels are built",
                                     "leave it out, and build the plan with eagle.deploy(k, scalar_type=...)"))
    unique = {id(item): resolved(item, policies) for item in items}
    precisions: dict[int, Any] = {}
    names: dict[str, int] = {}
    for key, item in unique.items():
        if not is_hawk_kernel(item):
            continue
        if names.setdefault(item.name, key) != key:
            raise ValueError(refusal(door, "model", f"two kernels named {item.name!r}", "different names",
                                     "rename one"))
        known = next((one for one in items if id(one) == key), None)
        precisions[key] = known.plugin.scalar_type if isinstance(known, AutoPlan) else scalar_type
    for precision in set(precisions.values()):
        keys = [key for key, own in precisions.items() if own == precision]
        unique |= zip(keys, build_kernels(door, [unique[key] for key in keys], precision), strict=True)
    return tuple(unique[id(item)] for item in items)


def build_kernels(door: str, kernels: Sequence[Any], scalar_type: str | None) -> tuple[AutoPlan, ...]:
    """A plan for each hawk kernel; those of one access class are built into one bundle."""
    bundles: dict[str, list[Any]] = {}
    for kernel in kernels:
        bundles.setdefault(kernel.walk.access, []).append(kernel)
    plans = {id(kernel): plan for alike in bundles.values()
             for kernel, plan in zip(alike, deploy_kernels(door, alike, scalar_type), strict=True)}
    return tuple(plans[id(kernel)] for kernel in kernels)
