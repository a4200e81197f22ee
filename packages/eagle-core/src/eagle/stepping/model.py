# SPDX-License-Identifier: Apache-2.0
"""What a step is made of, and whether it can be stepped: kernels and nodes, the mask they share, the steps of a launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eagle.errors import refusal, shown
from eagle.exec import HostTeam
from eagle.integers import index_of
from eagle.nodes import Node
from eagle.plan import AutoPlan, Plan
from eagle.plan.plan import is_hawk_kernel
from eagle.plan.signature import Signature
from eagle.roles import ACTIVE_COUNT, ACTIVE_MAP, MASK, RESERVED_DTYPES
from eagle.sidecar import read_finish, refuse_derived
from eagle.stepping.arrays import THETAS
from eagle.stepping.relocation import Reach, reach

__all__ = ["AUTO", "Kernel", "Model", "read_cap", "read_every", "read_model", "read_reorder", "refuse_options",
           "refuse_reserved"]

AUTO = "auto"
MOST_STEPS = 2**63 - 1
USUAL_EVERY, LEAST_EVERY = 16, 4  # steps between compactions
SMALL_STEP = 4  # operations of a step up to which a scalar loop of steps beats launches of one; docs/design.md
NODES = ("opaque", "child")  # kinds that may stand in a step
BETWEEN = ("opaque_stream", "opaque_host")  # code that a captured loop cannot call


@dataclass(frozen=True)
class Kernel:
    """A kernel of a step, and what it says of finishing; None where it never finishes."""

    plan: Plan | AutoPlan
    host: Plan
    finish: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        return self.host.signature.kernel

    @property
    def signature(self) -> Signature:
        return self.host.signature

    @property
    def plugin(self) -> Any:
        """The loaded kernel, complete."""
        return self.signature.stages[0].plugin

    @property
    def masks(self) -> tuple[str, ...]:
        return tuple(slot.name for slot in self.signature.arguments if slot.role == MASK)

    @property
    def compacting(self) -> bool:
        return {ACTIVE_MAP, ACTIVE_COUNT} <= {slot.name for slot in self.signature.arguments}


@dataclass(frozen=True)
class Model:
    """A checked step. Nothing of it depends on the planes."""

    items: tuple[Kernel | Node, ...]
    kernels: tuple[Kernel, ...]
    mask: str  #: the name of the finish mask
    steps: int | str  #: of one launch; AUTO: the kernel is told
    steps_max: int  #: the steps a launch of an automatic kernel is tuned for, else those it takes
    automatic: bool  #: whether a kernel is automatic, also where each launch is told one step
    compacting: bool
    fused: bool  #: whether launches of an automatic kernel take several steps; never one, unless one is all there is
    split: Any = None  #: how a run may be split by branch: a `split.Split`

    @property
    def auto(self) -> bool:
        return self.steps == AUTO

    @cached_property
    def reach(self) -> Reach:
        """How independent the samples are while they are stepped."""
        return reach(self.kernels[0].signature) if len(self.items) == 1 else Reach.BATCH

    @cached_property
    def holds(self) -> bool:
        """Whether a sample may be held by another mask than the finish mask."""
        return len({name for kernel in self.kernels for name in kernel.masks}) > 1

    @cached_property
    def step_ops(self) -> int:
        """The operations of one step; 0: not known."""
        return getattr(self.kernels[0].plugin, "step_ops", None) or 0

    @property
    def has_nodes(self) -> bool:
        return len(self.kernels) < len(self.items)


def read_model(door: str, plan: Any) -> Model:
    """The step of a plan, or of a list of plans and nodes. TypeError for what is neither, ValueError for what cannot be
    stepped."""
    single = not isinstance(plan, list | tuple)
    given = (plan,) if single else tuple(plan)
    if not given:
        raise ValueError(refusal(door, "plan", "an empty list", "at least one plan", "pass what eagle.deploy returns"))
    items = tuple(_read_item(door, "plan" if single else f"plan[{i}]", item) for i, item in enumerate(given))
    kernels = tuple(item for item in items if isinstance(item, Kernel))
    for kernel in kernels:
        _check(door, kernel)
    finishing = [kernel for kernel in kernels if kernel.finish is not None]
    if not finishing:
        name = f"kernel {kernels[-1].name!r}" if kernels else "plan"
        raise ValueError(refusal(door, name, "no kernel that finishes its samples",
                                 "one with `terminated: Terminated` that it assigns",
                                 "loop over launches yourself with eagle.repeat_while and eagle.SkipGuard, or add a "
                                 "stop rule"))
    _check_together(door, kernels, finishing)
    first = finishing[0]
    assert first.finish is not None
    several = len(items) > 1
    if several:
        _check_one_step(door, finishing, len(kernels) < len(items))
    steps = 1 if several else first.finish["steps"]
    auto = steps == AUTO
    automatic = any(kernel.finish is not None and kernel.finish["steps"] == AUTO for kernel in finishing)
    return Model(items, kernels, first.finish["mask"], steps, first.finish["steps_max"] if auto else steps, automatic,
                 first.compacting, auto and _is_fused(first.plugin))


def _read_item(door: str, what: str, item: Any) -> Kernel | Node:
    if isinstance(item, Node):
        if item.kind in BETWEEN:
            raise ValueError(refusal(door, what, f"a node with stream= or eager=, {item.label!r}", "one without",
                                     "leave them out, or run a step at a time and call your code between"))
        if item.kind not in NODES:
            raise ValueError(refusal(door, what, f"a node of kind {item.kind!r}", f"a plan, or a node of {NODES}",
                                     "do its work between runs"))
        return item
    if is_hawk_kernel(item):
        raise TypeError(refusal(door, what, f"the hawk kernel {item.name!r}", "a plan of it",
                                "pass eagle.deploy(kernel), or call eagle.simulate"))
    if not isinstance(item, Plan | AutoPlan):
        fix = "make a node of it: eagle.opaque(function, reads=..., writes=...)" if callable(item) else \
            "pass eagle.deploy(kernel)"
        raise TypeError(refusal(door, what, f"a {type(item).__name__}, {shown(item)}", "a plan", fix))
    refuse_derived(item, door=door)
    host = item.host if isinstance(item, AutoPlan) else item
    if host.structure != HostTeam:
        raise ValueError(refusal(door, what, f"a plan on {host.structure}", f"one on {HostTeam}",
                                 "pass what eagle.deploy returns"))
    return Kernel(item, host, _finish(door, host))


def _finish(door: str, plan: Plan) -> Mapping[str, Any] | None:
    """What a kernel declares of finishing, checked."""
    plugin = plan.signature.stages[0].plugin
    sidecar = getattr(plugin, "sidecar", None)
    meta = dict(sidecar) if isinstance(sidecar, Mapping) else {
        "finish": getattr(plugin, "finish", None),
        "terminated_readonly": getattr(plugin, "terminated_readonly", None) or False}
    meta["arg_spec"] = [list(pair) for pair in plugin.arg_spec]
    return read_finish(meta, name=plan.signature.kernel, door=door)


def _check(door: str, kernel: Kernel) -> None:
    what = f"kernel {kernel.name!r}"
    stages = kernel.signature.stages
    if len(stages) > 1:
        raise ValueError(refusal(door, what, f"{len(stages)} stages, around a reduction it reads back", "one stage",
                                 "reduce in a kernel of its own"))


def _check_together(door: str, kernels: tuple[Kernel, ...], finishing: list[Kernel]) -> None:
    """One mask, and all or none compact."""
    first = finishing[0]
    assert first.finish is not None
    mask = first.finish["mask"]
    for other in kernels:
        own = other.finish["mask"] if other.finish is not None else mask if mask in other.masks else \
            next(iter(other.masks), mask)
        if own != mask:
            raise ValueError(refusal(door, f"kernels {first.name!r} and {other.name!r}",
                                     f"the masks {mask!r} and {own!r}", "one mask", "give it one name"))
        if other.masks and other.compacting != first.compacting:
            one, two = (first, other) if first.compacting else (other, first)
            raise ValueError(refusal(door, f"kernels {one.name!r} and {two.name!r}",
                                     "one that reads an active set and one that does not", "all or none",
                                     "build them with the same guard"))


def _check_one_step(door: str, finishing: list[Kernel], has_nodes: bool) -> None:
    for kernel in finishing:
        assert kernel.finish is not None
        steps = kernel.finish["steps"]
        if steps == 1 or steps == AUTO and not has_nodes:
            continue
        found = "as many steps a launch as it is told" if steps == AUTO else f"{steps} steps a launch"
        raise ValueError(refusal(door, f"kernel {kernel.name!r}", found, "one, beside other items of a step",
                                 "build it with @hawk.kernel(steps=1)"))


def _is_fused(plugin: Any) -> bool:
    """Whether an automatic entry is given several steps a launch: a rule of the artifact, since it decides bits.

    Those with a tile are, and small ones. A kernel with a loop in its step has no tile, and its operations are not
    counted: its steps are vectorised where its samples are independent and in order.
    """
    if getattr(plugin, "host_tile", 0) > 0:
        return True
    ops = getattr(plugin, "step_ops", None)
    if ops is None:
        return plugin.exec_access == "sample_local" and ("lookup", ACTIVE_MAP) not in map(tuple, plugin.arg_spec)
    return bool(ops <= SMALL_STEP)


# ---- options ---------------------------------------------------------------------------------------------------------


def read_cap(door: str, value: Any) -> int:
    """`max_steps=` as an integer."""
    if (steps := index_of(value)) is None:
        raise TypeError(refusal(door, "max_steps", shown(value), "an integer", "pass the most steps of a sample"))
    if not 1 <= steps <= MOST_STEPS:
        raise ValueError(refusal(door, "max_steps", shown(steps), f"1 to {MOST_STEPS}", "pass one within"))
    return steps


def read_every(door: str, model: Model, value: Any) -> int | None:
    """`every=` in steps: where K is fixed the least multiple of K that is at least 16, of a plain kernel K itself."""
    if value is None:
        if model.auto:
            return None
        return -(-USUAL_EVERY // int(model.steps)) * int(model.steps) if model.compacting else int(model.steps)
    names = [kernel.name for kernel in model.kernels]
    if not model.compacting:
        raise ValueError(refusal(door, "every", shown(value), f"None: {names} read no active set",
                                 'leave it out, or build with Guard(active_set=True)'))
    if model.automatic:
        raise ValueError(refusal(door, "every", shown(value), f"None: {names} are told how many steps a launch takes",
                                 "leave it out, or build with @hawk.kernel(steps=1)"))
    if (steps := index_of(value)) is None or steps < 1:
        raise ValueError(refusal(door, "every", shown(value), "an integer of at least 1", "pass steps"))
    k = int(model.steps)
    if steps % k:
        near = [str(multiple) for multiple in (steps // k * k, (steps // k + 1) * k) if multiple >= LEAST_EVERY]
        raise ValueError(refusal(door, "every", str(steps), f"a multiple of {k}, the steps of a launch",
                                 f"pass {' or '.join(near)}"))
    if steps < LEAST_EVERY:
        raise ValueError(refusal(door, "every", str(steps), f"at least {LEAST_EVERY} steps", "pass more"))
    return steps


def read_reorder(door: str, model: Model, value: Any) -> float | None:
    """`reorder=` as a threshold, None where it is off."""
    if value is None or value is False:
        return None
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise TypeError(refusal(door, "reorder", shown(value), "a number, True or None", "pass a threshold"))
    if not model.compacting:
        raise ValueError(refusal(door, "reorder", shown(value), "None: no kernel of the step reads an active set",
                                 "leave it out, or build with Guard(active_set=True)"))
    (least, most), theta = THETAS, 0.5 if value is True else value
    if not least <= theta <= most:  # before it is a float: an integer may be too large for one
        raise ValueError(refusal(door, "reorder", shown(value), f"{least} to {most}", "pass one within"))
    return float(theta)


def refuse_options(door: str, *, record: Any = False, window: Any = None, memory_budget: Any = None,
                   events: Any = "step", on_no_event: Any = "raise") -> None:
    """Refuse what belongs to differentiation, which this version has not."""
    for name, value in (("window", window), ("memory_budget", memory_budget)):
        if value is not None and record is False:
            raise ValueError(refusal(door, name, shown(value), "None without record=True", f"leave {name}= out"))
    for name, value, default in (("record", record, False), ("events", events, "step"),
                                 ("on_no_event", on_no_event, "raise")):
        if type(value) is not type(default) or value != default:
            raise ValueError(refusal(door, name, shown(value), f"{default!r}: this version records nothing and refines "
                                     "no events", f"leave {name}= out"))


def refuse_reserved(door: str, planes: Mapping[str, Any]) -> None:
    """Refuse planes that are the runner's own."""
    for name in planes:
        if name in RESERVED_DTYPES:
            raise ValueError(refusal(door, f"plane {name!r}", "a value", "nothing: the run makes it",
                                     f"leave {name}= out"))
