# SPDX-License-Identifier: Apache-2.0
"""``dispatch=`` of a build: how the "auto" groups of its launches run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eagle.errors import refusal, shown
from eagle.graph.tree import LAUNCH, WAIT, Launch, arms_of, every, with_arms
from eagle.nodes import Node
from eagle.plan import BoundPlan
from eagle.plan.deploy import deploy_kernels, hawk_source
from eagle.stepping.branches import groups_of
from eagle.stepping.dispatch import read_dispatch, resolved

__all__ = ["DISPATCHES", "dispatched"]

DISPATCHES = ("switch", "predicated")

Chosen = dict[str, dict[str, str]]


def dispatched(door: str, nodes: Sequence[Node], dispatch: Any) -> tuple[list[Node], Chosen]:
    """The nodes with their "auto" groups at the policies that `dispatch` says, and those by label and group.

    None: a launch runs as it was built, as a switch. Raises ValueError for anything else than "switch" or "predicated",
    or these by group, that some group of the launches can take.
    """
    launches = [node for node in every(nodes) if node.kind == LAUNCH]
    known: dict[int, list[str]] = {}  # by the identity of a kernel, which may have been deployed often
    found: dict[int, tuple[Node, list[str]]] = {}
    for node in launches:
        kernel = kernel_of(node.payload.bound) or node.payload.bound.plan
        if id(kernel) not in known:
            known[id(kernel)] = _auto_groups(node.payload.bound)
        if auto := known[id(kernel)]:
            found[id(node)] = node, auto
    if dispatch is None:
        return list(nodes), _merged((node.label, dict.fromkeys(auto, "switch")) for node, auto in found.values())
    _check(door, dispatch)
    items = [kernel_of(node.payload.bound) or node.payload.bound.plan for node in launches]
    policies = read_dispatch(door, dispatch, items).policies
    chosen = {at: {name: policies.get(name, "switch") for name in auto} for at, (_, auto) in found.items()}
    made = {at: _lowered(door, node, policies) for at, (node, _) in found.items()}
    return [_replaced(node, made) for node in nodes], _merged((found[at][0].label, one) for at, one in chosen.items())


def kernel_of(bound: BoundPlan) -> Any:
    """The hawk kernel a plan was deployed from; None where that is not known."""
    source = hawk_source(bound.plan.plugin)
    return source.kernel if source is not None and hasattr(source.kernel, "walk") else None


def _check(door: str, dispatch: Any) -> None:
    wanted = f"None, one of {DISPATCHES}, or {{group: policy}}"
    if not isinstance(dispatch, str | Mapping):
        raise ValueError(refusal(door, "dispatch", shown(dispatch), wanted, "leave it out"))
    for policy in dispatch.values() if isinstance(dispatch, Mapping) else (dispatch,):
        if policy == "segmented":
            raise ValueError(refusal(door, "dispatch", "'segmented'", wanted, "a built graph is one fixed structure: "
                                     "eagle.simulate splits groups"))
        if policy not in DISPATCHES:
            raise ValueError(refusal(door, "dispatch", shown(policy), wanted, "choose one of these"))


def _auto_groups(bound: BoundPlan) -> list[str]:
    if (kernel := kernel_of(bound)) is not None:
        return [group.name for group in groups_of(kernel).values() if group.policy == "auto"]
    return [str(group["name"]) for group in getattr(bound.plan.plugin, "dispatch", None) or ()
            if group.get("policy") == "auto"]


def _lowered(door: str, node: Node, policies: Mapping[str, str]) -> Node:
    """A launch over the same planes, of the kernel with these policies."""
    bound: BoundPlan = node.payload.bound
    plan, arguments, source, kernel = bound.plan, bound.arguments, hawk_source(bound.plan.plugin), kernel_of(bound)
    if source is None or kernel is None or (other := resolved(kernel, policies)) is kernel:
        return node
    cut = {"npartitions": plan.npartitions, "partitions": plan.partitions, "n_samples": plan.n_samples,
           "policy": plan.policy}
    deployed = deploy_kernels(door, [other], getattr(plan.plugin, "scalar_type", None), None, source.cache_dir, cut)[0]
    planes = arguments.again() | arguments.made | {name: arguments.packed[name] for name in arguments.broadcast}
    taken = {slot.name for slot in deployed.host.signature.arguments} | arguments.extents.keys()
    made = deployed.bind_by_name(door, (), None, None, {name: plane for name, plane in planes.items() if name in taken})
    return replace(node, payload=Launch(made.over(door, {}, bound.cleared) if bound.cleared else made))


def _replaced(node: Node, made: dict[int, Node]) -> Node:
    """A node with those of `made` in the place of what it holds, and of what it waits for; it is in `made` then."""
    if id(node) not in made:
        if arms := arms_of(node):
            made[id(node)] = with_arms(node, tuple(tuple(_replaced(one, made) for one in arm) for arm in arms))
        elif node.kind == WAIT:
            made[id(node)] = replace(node, payload=replace(node.payload, writer=_replaced(node.payload.writer, made)))
    return made.get(id(node), node)


def _merged(pairs: Any) -> Chosen:
    chosen: Chosen = {}
    for label, groups in pairs:
        chosen.setdefault(label, {}).update(groups)
    return chosen
