# SPDX-License-Identifier: Apache-2.0
"""AutoPlan: a deployed kernel, run where its data lives and called like the kernel."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Sequence
from inspect import Parameter
from inspect import Signature as CallSignature
from typing import Any

from eagle import _core
from eagle.errors import ArgumentError, refusal
from eagle.exec import HostTeam
from eagle.nodes import recorder
from eagle.plan.bound import BoundPlan
from eagle.plan.broadcast import Broadcast, Variants, read_broadcast
from eagle.plan.plan import Plan, make_plan, results
from eagle.plan.residency import residency
from eagle.plan.signature import Signature
from eagle.plan.values import TO_HOST

__all__ = ["AutoPlan"]

DOOR = "eagle.deploy"
RUN_RESULT, RETURN_TREE = -1, -2  # what the call form returns, as native/runs.cpp numbers it


class AutoPlan(_core.Calls):
    """A deployed kernel. Call it like the kernel, or :meth:`run` and :meth:`bind` it by name.

    The call takes the kernel's parameters by name, or by position, in order: the required ones, and behind them those
    that may be left out. These are outputs that the kernel writes before it reads them, reductions, and the mask (then
    all false); given, they are written in place. It returns the kernel's own tree of returns, or what :meth:`run`
    returns when the kernel has none. ``device=`` and ``layout=`` are those of :meth:`run`, and so are the errors.

    `kernel` is the hawk kernel, None for a plugin that was built before: that one takes names only. Several threads may
    use one AutoPlan.
    """

    def __init__(self, plugin: Any, plan_kw: dict[str, Any], kernel: Any = None,
                 variants: Variants | None = None, door: str = DOOR) -> None:
        self.plugin = plugin
        self.plan_kw = plan_kw
        self.kernel = kernel
        self._tree = getattr(kernel, "returns", None)  # the kernel's own tree of returns
        self._host: Plan | None = None
        self._positional: tuple[str, ...] | None = None
        self._variants = variants
        self._door = door
        if getattr(plugin, "host_entry", None):
            self.host  # noqa: B018  made now: a kernel that cannot run is refused by deploy, and the first call is fast

    @property
    def host(self) -> Plan:
        """The plan for host memory. ValueError when the plugin has no host entry."""
        if self._host is None:
            host = make_plan(self._door, self.plugin, structure=HostTeam, **self.plan_kw)
            self._positional = self._positions(host.signature)
            if host.signature.plain and self._variants is None:
                stage = host.signature.stages[0]
                index = {slot.name: i for i, slot in enumerate(stage.slots)}
                index |= {cell.name: index[cell.planes()[0]] for cell in stage.cells}
                order = tuple(index[name] for name in self._positional or ()) \
                    if index.keys() >= set(self._positional or ()) else ()
                self._arm(host.kernels.first, host.npartitions, host.partitions or (), order, self._returns(index))
            self.__signature__ = _call_signature(host.signature, self._positional or ())
            self._host = host
        return self._host

    def select(self, planes: dict[str, Any]) -> Plan:
        """The plan for where `planes` are; with none, the host's.

        Raises BufferRefused for planes on both sides, ValueError for a side the kernel was not built for.
        """
        return self._select(f"{self._name}.select", planes)

    def _select(self, door: str, planes: dict[str, Any]) -> Plan:
        uniforms = {slot.name for slot in self._host.signature.arguments if slot.is_uniform} if self._host else set()
        arrays = {name: value for name, value in planes.items() if name not in uniforms}
        if residency(arrays, door=door, what=f"kernel {self._name!r}") == "device":
            raise ValueError(refusal(door, f"kernel {self._name!r}", "planes on a device", "planes on the host: this "
                                     "version launches nothing on a device", TO_HOST))
        return self.host

    def bind(self, /, *args: Any, device: int | None = None, layout: str | None = None, **planes: Any) -> BoundPlan:
        """Check and pack the planes once, for launches that cost nanoseconds: what :meth:`Plan.bind` says. Inputs of a
        Grid may be broadcast, as contiguous arrays."""
        return self.bind_by_name(f"{self._name}.bind", args, device, layout, planes)

    def bind_by_name(self, door: str, args: tuple[Any, ...], device: Any, layout: str | None, planes: dict[str, Any],
                     mode: str = "bind", known: Collection[str] = ()) -> BoundPlan:
        """What :meth:`bind` does, for the door named `door`; `mode` and `known` are those of :func:`settle`."""
        return self._select(door, planes).bind_by_name(door, args, device, layout, planes,
                                                        self._routed if self._variants else None, mode, known)

    def bind_args(self, args: Sequence[Any], kw: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name. Positions are the kernel's parameters in order: those that are required, and
        behind them those that may be left out.

        Raises ArgumentError for doubled and surplus arguments.
        """
        door, positional = f"{self._name}()", self._positional
        if positional is None:
            if args:
                raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name",
                                            "names only: a built plugin has no order of parameters",
                                            f"name them: {self.host.signature.names}"))
            return kw
        if args and not positional:
            whose = "a derivative" if hasattr(getattr(self.kernel, "sinks", None), "primal") else "this kernel"
            names = ", ".join(f"{name}=..." for name in self.host.signature.required("call"))
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name", "names only",
                                        f"{whose} takes names only: {names}"))
        if len(args) > len(positional):
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name",
                                        f"at most {len(positional)}: {list(positional)}",
                                        "pass outputs and masks by name"))
        bound = dict(zip(positional, args, strict=False))
        for name in kw:
            if name in bound:
                raise ArgumentError(refusal(door, f"argument {name!r}", "two values", "one",
                                            "give it by position or by name"))
        return bound | kw

    def returned(self, planes: dict[str, Any]) -> Any:
        """The kernel's own tree of returns (a plane, tuple, list or dict), filled from ``{name: plane}``."""
        return planes if self._tree is None else _fill(self._tree, planes)

    def __repr__(self) -> str:
        arguments = f", arguments={self._host.signature.names}" if self._host else ""
        return f"AutoPlan({self._name!r}, targets={list(self._targets)}{arguments})"

    @property
    def _name(self) -> str:
        return str(getattr(self.plugin, "name", "kernel"))

    @property
    def _targets(self) -> tuple[str, ...]:
        """What this version runs of what was built."""
        return ("host",) if getattr(self.plugin, "host_entry", None) else ()

    def _positions(self, signature: Signature) -> tuple[str, ...] | None:
        """The names positions stand for: the required parameters in order, then those that may be left out, where
        they stand behind all required ones. A position never has two meanings."""
        if not hasattr(self.kernel, "planes"):  # built before, or a fused group
            return None
        slots = {slot.name: slot for slot in signature.arguments}
        returned = set(_leaves(self._tree))
        names = [name for name in self.kernel.planes
                 if name not in returned and (name in slots or name in signature.unread)]
        required = [name for name in names if name not in slots or not slots[name].omissible("call")]
        return tuple(names if names[:len(required)] == required else required)

    def _returns(self, index: dict[str, int]) -> int:
        if self._tree is None:
            return RUN_RESULT
        return index[self._tree] if isinstance(self._tree, str) else RETURN_TREE

    def _routed(self, door: str, given: dict[str, Any], mode: str, n: int | None = None) -> tuple[Plan, Broadcast]:
        """The plan for how a Grid kernel's inputs are given: the host's, or that of a variant; and what it takes."""
        assert self._variants is not None
        call = read_broadcast(door, self.host.signature, self._variants, given, mode, n)
        return self._variants.plan(door, call.pattern).host if call.pattern else self.host, call

    def _planes(self, door: str, plan: Plan, device: Any, layout: str | None, planes: dict[str, Any],
                mode: str) -> dict[str, Any]:
        """:meth:`Plan.run_planes`, through a variant of the kernel where inputs are broadcast."""
        if self._variants is None:
            return plan.run_planes(door, device, layout, planes, mode)
        plan.given(door, device, planes)
        plan, call = self._routed(door, planes, mode)  # an input a derivative does not read tells its gradient's shape
        return plan.run_planes(door, None, layout, call.packed, mode, call.n, call)

    def _run(self, /, *args: Any, device: int | None = None, layout: str | None = None, **planes: Any) -> Any:
        door = f"{self._name}.run"
        plan = self._select(door, planes)
        plan.refuse_positions(door, args, "run")
        return results(plan.signature, self._planes(door, plan, device, layout, planes, "run"))

    def _call(self, /, *args: Any, device: int | None = None, layout: str | None = None, **kw: Any) -> Any:
        door = f"{self._name}()"
        if (recording := recorder()) is not None:
            kw |= {name: value for name, value in (("device", device), ("layout", layout)) if value is not None}
            return recording.call(self, args, kw)
        given = self.bind_args(args, kw)
        plan = self._select(door, given)
        return self.answer(plan, self._planes(door, plan, device, layout, given, "call"))

    def answer(self, plan: Plan, planes: dict[str, Any]) -> Any:
        """What a call returns of all planes."""
        return results(plan.signature, planes) if self._tree is None else self.returned(planes)

    @property
    def returns(self) -> tuple[str, ...]:
        """The outputs a call returns one by one, in order; () where it returns a dict."""
        if self._tree is None:
            outputs = [slot.name for slot in self.host.signature.arguments if slot.is_output]
            return tuple(outputs) if len(outputs) == 1 else ()
        tree = [self._tree] if isinstance(self._tree, str) else self._tree
        flat = isinstance(tree, list | tuple) and all(isinstance(name, str) for name in tree)
        return tuple(tree) if flat else ()


_core.keep_call(AutoPlan)


def _call_signature(signature: Signature, positional: tuple[str, ...]) -> CallSignature:
    """The call form as :func:`inspect.signature` shows it; what may be left out is None."""
    keywords = [*sorted(signature.labels), "device", "layout"]
    optional = {slot.name for slot in signature.arguments if slot.omissible("call")}.union(keywords)
    named = sorted((name for name in signature.names if name not in positional), key=optional.__contains__)
    return CallSignature([
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD if name in positional else Parameter.KEYWORD_ONLY,
                  default=None if name in optional else Parameter.empty)
        for name in dict.fromkeys([*positional, *named, *keywords])
        if name.isidentifier() and not keyword.iskeyword(name)])


def _leaves(tree: Any) -> list[str]:
    if tree is None:
        return []
    if isinstance(tree, str):
        return [tree]
    return [leaf for branch in (tree.values() if isinstance(tree, dict) else tree) for leaf in _leaves(branch)]


def _fill(tree: Any, planes: dict[str, Any]) -> Any:
    if isinstance(tree, str):
        return planes[tree]
    if isinstance(tree, dict):
        return {key: _fill(branch, planes) for key, branch in tree.items()}
    return type(tree)(_fill(branch, planes) for branch in tree)
