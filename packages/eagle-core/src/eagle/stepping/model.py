# SPDX-License-Identifier: Apache-2.0
"""What a step is made of, and whether it can be stepped: kernels and nodes, the mask they share, the steps of a launch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle.errors import refusal, shown
from eagle.exec import HostTeam
from eagle.nodes import Node
from eagle.plan import AutoPlan, Plan
from eagle.plan.plan import is_hawk_kernel
from eagle.plan.signature import Signature
from eagle.roles import ACTIVE_COUNT, ACTIVE_MAP, MASK, RESERVED_DTYPES
from eagle.sidecar import read_finish, refuse_derived

__all__ = ["AUTO", "Kernel", "Model", "read_cap", "read_model", "refuse_options", "refuse_reserved"]

AUTO = "auto"
MOST_STEPS = 2**63 - 1
SMALL_STEP = 8  # operations of a step below which a scalar loop of steps costs less than a launch of each
NODES = ("opaque", "child")  # kinds that may stand in a step


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
    compacting: bool
    fused: bool  #: whether launches of an automatic kernel take several steps; never one, unless one is all there is

    @property
    def auto(self) -> bool:
        return self.steps == AUTO

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
    return Model(items, kernels, first.finish["mask"], steps, first.finish["steps_max"] if auto else steps,
                 first.compacting, auto and _is_fused(first.plugin))


def _read_item(door: str, what: str, item: Any) -> Kernel | Node:
    if isinstance(item, Node):
        if item.kind not in NODES:
            raise ValueError(refusal(door, what, f"a node of kind {item.kind!r}", f"a plan, or a node of {NODES}",
                                     "do its work between runs"))
        return item
    if is_hawk_kernel(item):
        raise TypeError(refusal(door, what, f"the hawk kernel {item.name!r}", "a plan of it",
                                "pass eagle.deploy(kernel), or call eagle.simulate"))
    if not isinstance(item, Plan | AutoPlan):
        fix = "wrap it in an opaque node, eagle.graph.opaque(...)" if callable(item) else "pass eagle.deploy(kernel)"
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
    """Whether an automatic entry is given several steps a launch: a rule of the artifact, since it decides bits."""
    ops = getattr(plugin, "step_ops", None)
    return getattr(plugin, "host_tile", 0) > 0 or ops is not None and ops <= SMALL_STEP


# ---- options ---------------------------------------------------------------------------------------------------------


def read_cap(door: str, value: Any) -> int:
    """`max_steps=` as an integer."""
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise TypeError(refusal(door, "max_steps", shown(value), "an integer", "pass the most steps of a sample"))
    steps = operator.index(value)
    if not 1 <= steps <= MOST_STEPS:
        raise ValueError(refusal(door, "max_steps", shown(steps), f"1 to {MOST_STEPS}", "pass one within"))
    return steps


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
