# SPDX-License-Identifier: Apache-2.0
"""``dispatch=``: how the branches of a kernel's "auto" groups are run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagle.errors import refusal, shown
from eagle.nodes import Node
from eagle.plan import AutoPlan, Plan
from eagle.plan.plan import is_hawk_kernel

__all__ = ["POLICIES", "read_dispatch", "resolved"]

POLICIES = ("auto", "switch", "predicated", "segmented")


def read_dispatch(door: str, dispatch: Any, items: Sequence[Any]) -> dict[str, str]:
    """The policy of each group of a model that a call chooses; "auto" is none of them. ValueError for anything else
    than a policy, or policies by group, that the model's groups can take.
    """
    if dispatch is None or dispatch == "auto":
        return {}
    if not isinstance(dispatch, str | Mapping):
        raise ValueError(refusal(door, "dispatch", shown(dispatch), f"one of {POLICIES}, or {{group: policy}}",
                                 "leave it out"))
    given: Mapping[Any, Any] = dispatch if isinstance(dispatch, Mapping) else {}
    for policy in given.values() if isinstance(dispatch, Mapping) else (dispatch,):
        if policy is not None and policy not in POLICIES:
            raise ValueError(refusal(door, "dispatch", shown(policy), f"one of {POLICIES}", "choose one of these"))
    if not given and isinstance(dispatch, Mapping):
        return {}
    if any(isinstance(item, Node) for item in items):
        raise ValueError(refusal(door, "dispatch", shown(dispatch), "None: the step has nodes", "leave it out"))
    groups = _groups(items)
    free = {name for name, policy in groups.items() if policy == "auto"}
    for name in given:
        if name not in groups:
            raise ValueError(refusal(door, f"dispatch, group {shown(name)}", "no group of the model",
                                     f"one of {sorted(groups)}" if groups else "none: it has no groups",
                                     "name a group of hawk.math.dispatch"))
        if name not in free:
            raise ValueError(refusal(door, f"dispatch, group {name!r}", f"the policy {groups[name]!r} of its author",
                                     "a group whose policy is 'auto'", "leave it out"))
    if not free:
        raise ValueError(refusal(door, "dispatch", shown(dispatch), "None: the model has no 'auto' groups",
                                 "leave it out"))
    chosen = {name: policy for name, policy in (given or dict.fromkeys(sorted(free), dispatch)).items()
              if policy not in (None, "auto")}
    split = [name for name, policy in chosen.items() if policy == "segmented"]
    if split:
        _check_split(door, split, items)
    return chosen


def resolved(item: Any, policies: Mapping[str, str]) -> Any:
    """The hawk kernel of an item with those of its "auto" groups at the policies that were chosen; the item itself
    where none was."""
    own = {name: policies[name] for name, policy in _groups([item]).items() if policy == "auto" and name in policies}
    if not own:
        return item
    from hawk import resolve_dispatch

    return resolve_dispatch(item.kernel if isinstance(item, AutoPlan) else item, own)


def _check_split(door: str, groups: Sequence[str], items: Sequence[Any]) -> None:
    if len(groups) > 1:
        raise ValueError(refusal(door, f"dispatch, group {groups[1]!r}", f"'segmented' beside {groups[0]!r}",
                                 "one split group", "choose 'switch' for it"))
    if len(items) > 1:
        raise ValueError(refusal(door, f"dispatch, group {groups[0]!r}",
                                 f"'segmented' in a step of {len(items)} kernels", "a step of one kernel",
                                 "choose 'switch'"))
    raise ValueError(refusal(door, f"dispatch, group {groups[0]!r}", "'segmented'", "'switch' or 'predicated': this "
                             "version splits no step", "leave it out"))


def _groups(items: Sequence[Any]) -> dict[str, str]:
    """The policy of each group; "auto" where it is so in some kernel whose hawk kernel is known."""
    groups: dict[str, str] = {}
    for item in items:
        kernel = item if is_hawk_kernel(item) else getattr(item, "kernel", None) if isinstance(item, AutoPlan) else None
        if kernel is not None:
            infos = [(info.name, info.policy) for info in (getattr(kernel, "step", None) or kernel).walk.dispatches]
        elif isinstance(item, Plan | AutoPlan):
            infos = [(str(group["name"]), f"{group['policy']} (built)")
                     for group in getattr(item.plugin, "dispatch", None) or ()]
        else:
            infos = []
        for name, policy in infos:
            if groups.get(name) != "auto":
                groups[name] = policy
    return groups
