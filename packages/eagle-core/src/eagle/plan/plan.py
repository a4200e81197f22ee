# SPDX-License-Identifier: Apache-2.0
"""plan(): where and how a kernel runs. Plan: the result, with its doors run and bind."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from eagle import _core
from eagle.errors import ArgumentError, BufferRefused, refusal, shown
from eagle.exec import HostTeam, Partition, RankPartition, Structure, check_placement
from eagle.integers import index_of
from eagle.plan.arguments import moved_while_checked, settle
from eagle.plan.bound import BoundPlan, Route
from eagle.plan.broadcast import Broadcast
from eagle.plan.lanes import MOST_SAMPLES
from eagle.plan.program import Kernels, bind
from eagle.plan.signature import ROW, Signature, Use, read_signature

__all__ = ["Plan", "check_policy", "is_hawk_kernel", "make_plan", "plan", "read_cut", "results"]

MOST_PARTITIONS = 2**20
POLICIES = ("compensated", "ordered", "auto")

class Plan(_core.Runs):
    """A kernel, the structure it runs on and its partitions: what :func:`plan` returns. A frozen value.

    `partitions` are the explicit ones, or None when they follow from the samples of each call. Several threads may
    use one plan.
    """

    plugin: Any
    structure: Structure
    access: str
    op: str | None
    partitions: tuple[Partition, ...] | None
    npartitions: int
    n_samples: int | None
    inner: Structure | None
    gather: bool
    policy: str
    signature: Signature
    kernels: Kernels
    _fields = ("plugin", "structure", "access", "op", "partitions", "npartitions", "n_samples", "inner", "gather",
               "policy")

    def __init__(self, plugin: Any, structure: Structure, access: str, op: str | None,
                 partitions: tuple[Partition, ...] | None, npartitions: int, n_samples: int | None,
                 inner: Structure | None = None, gather: bool = True, policy: str = "compensated",
                 door: str = "eagle.plan.plan") -> None:
        signature = read_signature(door, plugin, access)
        self.__dict__.update(plugin=plugin, structure=structure, access=access, op=op, partitions=partitions,
                             npartitions=npartitions, n_samples=n_samples, inner=inner, gather=gather, policy=policy,
                             signature=signature, kernels=Kernels(signature))
        if signature.plain and structure == HostTeam:
            self._arm(self.kernels.first, npartitions, partitions or (), (), -1)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(refusal("Plan", name, "an assignment", "no change", "make another plan"))

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(refusal("Plan", name, "a deletion", "no change", "make another plan"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.plugin is other.plugin and all(
            getattr(self, field) == getattr(other, field) for field in self._fields[1:])

    def __hash__(self) -> int:
        return hash((id(self.plugin), *(getattr(self, field) for field in self._fields[1:])))

    def __repr__(self) -> str:
        cut = f"partitions={list(self.partitions)}" if self.partitions else f"npartitions={self.npartitions}"
        return f"Plan({self.signature.kernel!r}, {self.structure}, {cut}, arguments={self.signature.names})"

    def partitions_for(self, n: int) -> tuple[Partition, ...]:
        """The partitions of a run over `n` samples: the explicit ones, or an even cut with the larger parts first.

        Raises ValueError when the plan was made for another n.
        """
        n = _positive("Plan.partitions_for", "n", n, least=0)
        self.check_samples("Plan.partitions_for", n)
        cut = _core.cut(self.npartitions, self.partitions or (), self.signature.stages[0].threads(n))
        return tuple(Partition(base, count, n) for base, count, _ in cut)

    def check_samples(self, door: str, n: int) -> None:
        """Raise ValueError when the plan was made for another number of samples than `n`."""
        if self.n_samples is not None and n != self.n_samples:
            raise ValueError(refusal(door, "planes", f"{n} samples", f"{self.n_samples}, the plan's n_samples",
                                     "make another plan, or leave n_samples= and partitions= out"))

    def bind(self, /, *args: Any, device: int | None = None, layout: str | None = None, **planes: Any) -> BoundPlan:
        """Pack the planes once, for launches that cost nanoseconds.

        Inputs, outputs, state, the mask, reductions and an active set must be given, as arrays of the exact dtype and
        in C order, in the shapes that :meth:`run` takes; the arrays stay the caller's, and a launch reads and writes
        them in place. A plane with its samples first whose memory is not component-major is copied in by each launch,
        and back where the kernel writes it, with a LayoutWarning here. Only integers narrower than their Index or Int32
        plane are copied once. eagle makes ``finished_count``, counters of dispatch groups and companions of sums where
        they are left out.

        Raises what :meth:`run` raises, and BufferRefused for an array that would have to be converted.
        """
        return self.bind_by_name(f"{self.signature.kernel}.bind", args, device, layout, planes)

    def bind_by_name(self, door: str, args: tuple[Any, ...], device: Any, layout: str | None, planes: dict[str, Any],
                     route: Route | None = None, mode: str = "bind", known: Collection[str] = ()) -> BoundPlan:
        """What :meth:`bind` does, for the door named `door`; `route` is that of :class:`BoundPlan`, `mode` and `known`
        those of :func:`settle`."""
        if self.structure != HostTeam:
            raise ValueError(refusal(door, "structure", repr(self.structure), repr(HostTeam),
                                     "ranks gather what they wrote: use run"))
        self.refuse_positions(door, args, "bind")
        given = self.given(door, device, planes)
        return BoundPlan(self, door, planes if route else given, layout, route, mode, known)

    def run_planes(self, door: str, device: Any, layout: str | None, planes: dict[str, Any],
                   mode: str, n: int | None = None, call: Broadcast | None = None) -> dict[str, Any]:
        """Run over `planes` and return every plane by name; those that were given are the caller's own objects.

        `mode` ("run" or "call") says what may be left out; `n` and `call` are those of :func:`settle`. Raises as
        :meth:`run` says, before anything is written.
        """
        if self.structure == RankPartition:
            RankPartition.world()
        arguments = settle(door, self.signature, self.given(door, device, planes), layout, mode, n, call)
        self.check_samples(door, arguments.n)
        bound = bind(door, self.signature, self.kernels, arguments, self.npartitions, self.partitions or ())
        if (moved := bound.launch(door)) is not None:
            raise moved_while_checked(door, arguments.slots[moved])
        return arguments.results()

    def refuse_positions(self, door: str, args: tuple[Any, ...], omissible: str) -> None:
        """Raise ArgumentError for arguments without a name."""
        if args:
            names = ", ".join(f"{name}=..." for name in self.signature.required(omissible))
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name", "names only",
                                        f"name them: {names}"))

    def given(self, door: str, device: Any, planes: dict[str, Any]) -> dict[str, Any]:
        """`planes` without those the kernel declares and never reads. BufferRefused for a `device`."""
        if device is not None:
            raise BufferRefused(refusal(door, "device", shown(device), "none on a host plan", "leave device= out"))
        return {name: value for name, value in planes.items() if name not in self.signature.unread}

    def _run(self, /, *args: Any, device: int | None = None, layout: str | None = None, **planes: Any) -> Any:
        door = f"{self.signature.kernel}.run"
        self.refuse_positions(door, args, "run")
        return results(self.signature, self.run_planes(door, device, layout, planes, "run"))


def results(signature: Signature, planes: dict[str, Any]) -> Any:
    """What run returns of `planes`: the one output, or {name: output}."""
    outputs = {slot.name: planes[slot.name] for slot in signature.arguments if slot.is_output}
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def plan(plugin: Any, *, structure: Structure, inner: Structure | None = None, npartitions: int = 1,
         partitions: Iterable[tuple[int, int, int]] | None = None, n_samples: int | None = None,
         policy: str = "compensated") -> Plan:
    """A :class:`Plan` of running `plugin` on `structure`.

    `plugin` is a loaded kernel: what ``eagle.load_bundle`` or ``hawk.artifact.plugins`` returns. `partitions` are
    ``(base, count, n)`` triples that tile ``[0, n)``, in the order they shall run; without them the samples of a call
    are cut evenly into `npartitions`. `n_samples` fixes the samples of every call. `policy` says how reductions over
    samples are finished: ``"compensated"``, ``"ordered"`` or ``"auto"``.

    Raises ValueError for a declaration, cut or placement that cannot run, TypeError for an object that is no plugin,
    BackendUnavailable when no backend for host memory is installed.
    """
    return make_plan("eagle.plan.plan", plugin, structure=structure, inner=inner, npartitions=npartitions,
                     partitions=partitions, n_samples=n_samples, policy=policy)


def make_plan(door: str, plugin: Any, *, structure: Structure, inner: Structure | None = None, npartitions: int = 1,
              partitions: Iterable[tuple[int, int, int]] | None = None, n_samples: int | None = None,
              policy: str = "compensated") -> Plan:
    """What :func:`plan` does, for the door named `door`."""
    if is_hawk_kernel(plugin):
        raise TypeError(refusal(door, "plugin", f"the hawk kernel {plugin.name!r}", "a built plugin",
                                "use eagle.deploy(kernel)"))
    for attribute in ("exec_access", "arg_spec"):
        if not hasattr(plugin, attribute):
            raise TypeError(refusal(door, "plugin", f"a {type(plugin).__name__} without {attribute}",
                                    "a loaded kernel", "load one with eagle.load_bundle, or use eagle.deploy"))
    boxed = bool(getattr(plugin, "box", None))
    if boxed and partitions is not None:
        raise ValueError(refusal(door, "partitions", shown(partitions),
                                 "None: a thread of this kernel computes several samples",
                                 "pass npartitions=, or build the kernel with HAWK_BOX=0"))
    cut, npartitions, n_samples = read_cut(door, npartitions, partitions, n_samples)
    if boxed:
        cut = None  # threads are cut, not samples
    if npartitions > 1 and getattr(plugin, "abi_tag", None) == "aether-abi/1":
        raise ValueError(refusal(door, "npartitions", str(npartitions), "1 for a legacy aether-abi/1 plugin",
                                 "rebuild it with hawk"))
    check_policy(door, policy)
    if not isinstance(structure, Structure):
        raise TypeError(refusal(door, "structure", shown(structure), "a Structure", "eagle.exec.HostTeam"))
    inner = _read_inner(door, structure, inner)
    check_placement(plugin.exec_access, structure, npartitions, door=door)
    if (inner or structure) != HostTeam:
        raise ValueError(refusal(door, "structure" if inner is None else "inner", shown(inner or structure),
                                 repr(HostTeam), "this version runs plans on the host"))
    entry = getattr(plugin, "host_entry", None)
    if not isinstance(entry, int) or isinstance(entry, bool) or entry <= 0:
        raise ValueError(refusal(door, f"kernel {getattr(plugin, 'name', '')!r}", f"no host_entry ({entry!r})",
                                 f"an entry for {structure}", 'build it with targets=("host",)'))
    made = Plan(plugin, structure, plugin.exec_access, getattr(plugin, "exec_op", None), cut, npartitions, n_samples,
                inner, policy=policy, door=door)
    if npartitions > 1 and any(slot.use is Use.LIVE for slot in made.signature.arguments):
        raise ValueError(refusal(door, "npartitions", str(npartitions), "1 for a kernel with an active set",
                                 "leave npartitions= and partitions= out"))
    for stage in made.signature.stages[1:]:  # the first one's class is the plugin's
        check_placement(stage.plugin.exec_access, structure, npartitions)
    odd = [part.base for part in cut or () if part.base % ROW] \
        if structure == RankPartition and partitions is not None else []
    if odd and made.signature.cells:
        raise ValueError(refusal(door, "partitions", f"a base of {odd[0]}", f"multiples of {ROW}: ranks cut a kernel "
                                 "that reduces over samples at whole rows", "move the bases"))
    return made


def _read_inner(door: str, structure: Structure, inner: Any) -> Structure | None:
    """The structure each rank's share runs on; None where there are no ranks."""
    if structure != RankPartition:
        if inner is not None:
            raise ValueError(refusal(door, "inner", shown(inner), "None",
                                     "leave it out: only rank plans have an inner structure"))
        return None
    if inner is None:
        return HostTeam
    if not isinstance(inner, Structure):
        raise TypeError(refusal(door, "inner", shown(inner), "a Structure", "pass eagle.exec.HostTeam"))
    return inner


def read_cut(door: str, npartitions: Any = 1, partitions: Any = None, n_samples: Any = None,
             ) -> tuple[tuple[Partition, ...] | None, int, int | None]:
    """The explicit partitions, their number and the fixed number of samples that these keywords of plan() mean."""
    cut = _read_partitions(door, partitions)
    npartitions = _positive(door, "npartitions", npartitions, most=MOST_PARTITIONS)
    if n_samples is not None:
        n_samples = _positive(door, "n_samples", n_samples, least=0)
    if cut is not None:
        if n_samples is not None and n_samples != cut[0].n_samples:
            raise ValueError(refusal(door, "n_samples", str(n_samples), f"{cut[0].n_samples}, the partitions' n",
                                     "leave n_samples= out"))
        return cut, len(cut), cut[0].n_samples
    if n_samples is not None:
        cut = tuple(Partition(*part) for part in _core.cut(npartitions, (), n_samples))
    return cut, npartitions, n_samples


def check_policy(door: str, policy: Any) -> None:
    if not isinstance(policy, str) or policy not in POLICIES:
        raise ValueError(refusal(door, "policy", shown(policy), f"one of {POLICIES}", "leave policy= out"))


def is_hawk_kernel(value: Any) -> bool:
    """Whether `value` is a kernel traced by hawk: told by its type, without importing hawk."""
    return type(value).__module__.split(".")[0] == "hawk" and hasattr(value, "walk") and hasattr(value, "sinks")


def _positive(door: str, name: str, value: Any, *, least: int = 1, most: int = MOST_SAMPLES) -> int:
    if (number := index_of(value)) is None:
        raise TypeError(refusal(door, name, shown(value), "an integer", "convert it first"))
    if number < least:
        raise ValueError(refusal(door, name, shown(number), f"at least {least}", "pass a larger one"))
    if number > most:
        raise ValueError(refusal(door, name, shown(number), f"at most {most}", "pass a smaller one"))
    return number


def _read_partitions(door: str, partitions: Any) -> tuple[Partition, ...] | None:
    """The triples, refused unless they tile [0, n) once."""
    if partitions is None:
        return None
    try:
        triples = [tuple(triple) for triple in partitions]
        if any(len(triple) != 3 for triple in triples):
            raise TypeError("not three numbers")
        cut = tuple(Partition(*(_positive(door, "partitions", v, least=0) for v in triple)) for triple in triples)
        n = cut[0].n_samples
    except (TypeError, IndexError) as error:
        raise ValueError(refusal(door, "partitions", shown(partitions),
                                 "(base, count, n) triples of integers, at least one",
                                 "for example [(0, 4, 8), (4, 4, 8)]")) from error
    expected = 0
    for part in sorted(cut):
        if part.n_samples != n:
            raise ValueError(refusal(door, "partitions", f"n {n} and n {part.n_samples}", "one n",
                                     "give every triple the samples of a call"))
        if part.base != expected:
            raise ValueError(refusal(door, "partitions", f"a partition that starts at {part.base}",
                                     f"one that starts at {expected}: they tile [0, {n}) without gap or overlap",
                                     "move the bases"))
        expected += part.count
    if expected != n:
        raise ValueError(refusal(door, "partitions", f"[0, {expected})", f"[0, {n}), all samples",
                                 "add what is missing"))
    return cut
