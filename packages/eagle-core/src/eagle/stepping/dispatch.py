# SPDX-License-Identifier: Apache-2.0
"""``dispatch=``: how the branches of a kernel's "auto" groups are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle.errors import refusal, shown
from eagle.nodes import Node
from eagle.plan import AutoPlan, Plan
from eagle.plan.plan import is_hawk_kernel
from eagle.stepping.branches import Group, groups_of

__all__ = ["POLICIES", "Dispatch", "read_dispatch", "resolved"]

POLICIES = ("auto", "switch", "predicated", "segmented")
MOST_BRANCHES = 16


@dataclass(frozen=True)
class Dispatch:
    """How the "auto" groups of a model run."""

    policies: Mapping[str, str] = field(default_factory=dict)  #: what each is built with
    divisible: tuple[Group, ...] = ()  #: those that a run may split by branch
    forced: bool = False  #: the one that is split in any case


def read_dispatch(door: str, dispatch: Any, items: Sequence[Any]) -> Dispatch:
    """What `dispatch=` says of a model. ValueError for anything else than a policy, or policies by group, that the
    model's groups can take.

    Where nothing is said, groups are built as a switch, which counts no branches, and one-kernel models may split a
    group whose selector a step does not change.
    """
    given = _read(door, dispatch)
    groups = _groups(items)
    free = {name: group for name, group in groups.items() if group.policy == "auto" and not group.nested}
    if given:
        _check(door, dispatch, given, items, groups, free)
    by_group = dict.fromkeys(sorted(free), given[""]) if "" in given else given
    chosen = {name: policy for name, policy in by_group.items() if policy not in (None, "auto")}
    forced = [name for name, policy in chosen.items() if policy == "segmented"]
    if forced:
        _check_split(door, forced, items, free)
    open_ = [group for name, group in free.items() if name not in chosen and group.fixed and _is_divisible(group)]
    divisible = tuple(free[name] for name in forced) or (tuple(open_) if len(items) == 1 else ())
    return Dispatch({name: chosen[name] if chosen.get(name) == "predicated" else "switch" for name in free},
                    divisible, bool(forced))


def resolved(item: Any, policies: Mapping[str, str]) -> Any:
    """The hawk kernel of an item with its "auto" groups at their policies; the item itself where it has none."""
    own = {name: policies[name] for name, group in _groups([item]).items() if group.policy == "auto"
           and name in policies}
    if not own:
        return item
    import hawk

    kernel = item.kernel if isinstance(item, AutoPlan) else item
    several = kernel.walk.finish[1] if kernel.walk.finish is not None else 1
    if several in (1, "auto"):
        return hawk.resolve_dispatch(kernel, own)
    return hawk.steps(hawk.resolve_dispatch(kernel.step, own), several)


def _read(door: str, dispatch: Any) -> dict[str, str | None]:
    """The policies by group; by "" the one of all groups."""
    if dispatch is None:
        return {}
    if not isinstance(dispatch, str | Mapping):
        raise ValueError(refusal(door, "dispatch", shown(dispatch), f"one of {POLICIES}, or {{group: policy}}",
                                 "leave it out"))
    given = dict(dispatch) if isinstance(dispatch, Mapping) else {"": dispatch}
    for group in given if isinstance(dispatch, Mapping) else ():
        if not isinstance(group, str) or not group:
            raise ValueError(refusal(door, "dispatch", f"the group {shown(group)}", "the name of a group, a str",
                                     "name a group of hawk.math.dispatch"))
    for policy in given.values():
        if policy is not None and policy not in POLICIES:
            raise ValueError(refusal(door, "dispatch", shown(policy), f"one of {POLICIES}", "choose one of these"))
    return {} if given == {"": "auto"} else given


def _check(door: str, dispatch: Any, given: Mapping[str, str | None], items: Sequence[Any],
           groups: Mapping[str, Group], free: Mapping[str, Group]) -> None:
    if any(isinstance(item, Node) for item in items):
        raise ValueError(refusal(door, "dispatch", shown(dispatch), "None: the step has nodes", "leave it out"))
    for name in given:
        if name == "":
            continue
        if name not in groups:
            raise ValueError(refusal(door, f"dispatch, group {shown(name)}", "no group of the model",
                                     f"one of {sorted(groups)}" if groups else "none: it has no groups",
                                     "name a group of hawk.math.dispatch"))
        if groups[name].policy != "auto":
            raise ValueError(refusal(door, f"dispatch, group {name!r}", f"the policy {groups[name].policy!r} of its "
                                     "author", "a group whose policy is 'auto'", "leave it out"))
        if name not in free:
            raise ValueError(refusal(door, f"dispatch, group {name!r}", "a group that a loop of the "
                                     "step uses", "one outside of loops", "give it a policy in the kernel"))
    if not free:
        raise ValueError(refusal(door, "dispatch", shown(dispatch), "None: the model has no 'auto' groups whose "
                                 "policy may be chosen", "leave it out"))


def _check_split(door: str, groups: Sequence[str], items: Sequence[Any], free: Mapping[str, Group]) -> None:
    if len(groups) > 1:
        raise ValueError(refusal(door, f"dispatch, group {groups[1]!r}", f"'segmented' beside {groups[0]!r}",
                                 "one split group", "choose 'switch' for it"))
    if len(items) > 1:
        raise ValueError(refusal(door, f"dispatch, group {groups[0]!r}",
                                 f"'segmented' in a step of {len(items)} kernels", "a step of one kernel",
                                 "choose 'switch'"))
    if not _is_divisible(free[groups[0]]):
        raise ValueError(refusal(door, f"dispatch, group {groups[0]!r}", f"'segmented' with {free[groups[0]].size} "
                                 f"branches", f"2 to {MOST_BRANCHES}", "choose 'switch'"))


def _is_divisible(group: Group) -> bool:
    return 2 <= group.size <= MOST_BRANCHES


def _groups(items: Sequence[Any]) -> dict[str, Group]:
    """The groups by name; "auto" where one is so in some kernel whose hawk kernel is known."""
    groups: dict[str, Group] = {}
    for item in items:
        kernel = item if is_hawk_kernel(item) else item.kernel if isinstance(item, AutoPlan) else None
        if kernel is not None and hasattr(kernel, "walk"):
            found = groups_of(kernel)
        elif isinstance(item, Plan | AutoPlan):
            found = {str(one["name"]): Group(str(one["name"]), f"{one['policy']} (built)", int(one["K"]), False, False)
                     for one in getattr(item.plugin, "dispatch", None) or ()}
        else:
            found = {}
        groups |= {name: group for name, group in found.items()
                   if name not in groups or groups[name].policy != "auto"}
    return groups
