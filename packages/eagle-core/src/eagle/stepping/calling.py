# SPDX-License-Identifier: Apache-2.0
"""How a model is called: the parameters of its kernels, each once, in the order they are first declared."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eagle.errors import ArgumentError, refusal, shown
from eagle.plan import AutoPlan
from eagle.plan.advice import example
from eagle.plan.signature import Slot, Use
from eagle.roles import MASK
from eagle.stepping.model import Kernel, Model

__all__ = ["FIELDS", "OPTIONS", "Calling", "Parameter", "read_calling"]

#: What a result has beside its planes.
FIELDS = ("state", "finished", "done", "steps", "status", "report", "n", "wall_s", "allocated", "record", "t_stop",
          "event_status")
#: What simulate and simulation take beside the planes.
OPTIONS = ("until", "max_steps", "every", "reorder", "scalar_type", "layout", "record", "window", "memory_budget",
           "dispatch", "events", "on_no_event", "progress", "max_memory")
_FAMILIES = {Use.NUMBER: "Param", Use.SAMPLES: "per-sample plane", Use.TABLE: "Table", Use.SINK: "output of its own "
             "length", Use.CELL: "reduction"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One name of the step. `slot` is of a kernel that writes it, where one does; None where no kernel reads it."""

    name: str
    kernel: str  #: which declares it first
    slot: Slot | None
    optional: bool = False  #: keyword-only, and made where it is left out

    @property
    def is_state(self) -> bool:
        return self.slot is not None and self.slot.is_output

    @property
    def what(self) -> str:
        return f"parameter {self.name!r} of kernel {self.kernel!r}"


@dataclass(frozen=True, slots=True)
class Calling:
    """What a call of a model takes."""

    parameters: Mapping[str, Parameter]
    positional: tuple[str, ...] | None  #: None: some kernel's order is not known
    labels: frozenset[str]  #: extents
    owned: Mapping[str, str]  #: names that are no arguments, and what they are
    kernels: str  #: as messages name them

    def names(self, *, state: bool) -> tuple[str, ...]:
        """The names of the state, or of all else that is read."""
        return tuple(name for name, one in self.parameters.items() if one.slot is not None and one.is_state is state)

    def arguments(self, door: str, args: tuple[Any, ...], kw: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, without those no kernel reads. ArgumentError for unknown, doubled, missing
        and surplus ones."""
        self._refuse_owned(door, kw)
        positional = self.positional
        if args and positional is None:
            raise ArgumentError(refusal(door, "arguments", f"{len(args)} without a name", "names only: a plan without "
                                        "its hawk kernel has no order of parameters", f"call {self._spelled(door)}"))
        if len(args) > len(positional or ()):
            raise ArgumentError(refusal(door, self.kernels, f"{len(args)} arguments without a name",
                                        f"at most {len(positional or ())}: {list(positional or ())}",
                                        "pass what may be left out, and options, by name"))
        given = dict(zip(positional or (), args, strict=False))
        for name, value in kw.items():
            if name in given:
                raise ArgumentError(refusal(door, self.parameters[name].what, "two values", "one",
                                            "give it by position or by name"))
            if name not in self.parameters and name not in self.labels:
                raise self._unknown(door, name, value)
            given[name] = value
        for name, one in self.parameters.items():
            if one.slot is None:
                given.pop(name, None)
            elif name not in given and not one.optional and not one.slot.optional:
                why = "; it is the state, which needs a start" if one.is_state else ""
                raise ArgumentError(refusal(door, one.what, "nothing", f"a {one.slot.kind}{why}",
                                            f"pass {name}={example(one.slot, 'n')}" if one.slot.is_array
                                            else f"pass {name}=..."))
        return given

    def _refuse_owned(self, door: str, kw: Mapping[str, Any]) -> None:
        for name in kw:
            if name in self.owned:
                raise ValueError(refusal(door, f"argument {name!r}", f"a value for {self.owned[name]}",
                                         "nothing: the run makes it", f"leave {name}= out, or use eagle.until_done"
                                         if self.owned[name] == "the finish mask" else f"leave {name}= out"))

    def _unknown(self, door: str, name: str, value: Any) -> ArgumentError:
        if name in ("state", "params") and isinstance(value, Mapping):
            return ArgumentError(refusal(door, f"argument {name!r}", "a mapping of planes",
                                         "each plane by its own name", f"call {self._spelled(door)}"))
        known = [*self.parameters, *sorted(self.labels)]
        close = difflib.get_close_matches(name, [*known, *OPTIONS], 1)
        return ArgumentError(refusal(door, f"argument {name!r}", "a name without a parameter",
                                     f"one of {known} of {self.kernels}",
                                     f"did you mean {close[0]!r}?" if close else f"leave {name}= out"))

    def _spelled(self, door: str) -> str:
        names = [f"{name}=..." for name, one in self.parameters.items() if one.slot is not None and not one.optional]
        return f"{door}(model, {', '.join([*names, 'max_steps=...'])})"


def read_calling(door: str, model: Model) -> Calling:
    """How a model is called. ValueError for kernels that declare one name in two ways, and for names that options or
    results have."""
    found: dict[str, tuple[Slot | None, str]] = {}
    owned: dict[str, str] = {}
    early: set[str] = set()  # what some kernel reads before any has written it
    written: set[str] = set()
    for kernel in model.kernels:
        slots = {slot.name: slot for slot in kernel.signature.arguments}
        unread = kernel.signature.unread
        owned |= _owned(slots.values(), model)
        priors = _priors(kernel)
        for name in [*(name for name in _declared(kernel) if name in slots or name in unread),
                     *(name for name in [*slots, *sorted(unread)] if name not in _declared(kernel))]:
            slot = slots.get(name)
            if name not in owned and (slot is None or name not in found or found[name][0] is None):
                found.setdefault(name, (slot, kernel.name))
                if found[name][0] is None and slot is not None:
                    found[name] = slot, kernel.name
            elif name not in owned and slot is not None:
                other, first = found[name]
                assert other is not None
                _check_alike(door, first, other, kernel.name, slot)
                if slot.writes and not other.writes:
                    found[name] = slot, first
        early |= {name for name, slot in slots.items() if name not in written and (not slot.writes or name in priors)}
        written |= {name for name, slot in slots.items() if slot.writes}
    names = [kernel.name for kernel in model.kernels]
    parameters = {name: Parameter(name, kernel, slot, slot is not None and (
        slot.role == MASK or slot.use in (Use.SINK, Use.CELL) or slot.is_output and name not in early))
        for name, (slot, kernel) in found.items()}
    for one in parameters.values():
        _check_name(door, one)
    ordered = all(_declared(kernel) for kernel in model.kernels)
    positional = tuple(name for name, one in parameters.items() if not one.optional) if ordered else None
    return Calling(parameters, positional, frozenset().union(*(kernel.signature.labels for kernel in model.kernels)),
                   owned, f"kernel {names[0]!r}" if len(names) == 1 else f"kernels {names}")


def _declared(kernel: Kernel) -> tuple[str, ...]:
    """The parameters of a hawk kernel in order; none where it is not known."""
    hawk_kernel = kernel.plan.kernel if isinstance(kernel.plan, AutoPlan) else None
    return tuple(getattr(hawk_kernel, "planes", None) or ())


def _priors(kernel: Kernel) -> set[str]:
    """The planes whose value a single step starts from. An automatic entry also keeps what it only writes."""
    hawk_kernel = kernel.plan.kernel if isinstance(kernel.plan, AutoPlan) else None
    if hawk_kernel is not None:
        return set((getattr(hawk_kernel, "step", None) or hawk_kernel).walk.prior_reads)
    return {slot.name for slot in kernel.signature.arguments if slot.reads_prior}


def _owned(slots: Iterable[Slot], model: Model) -> dict[str, str]:
    """The names that are the run's own."""
    owned = {model.mask: "the finish mask"}
    for slot in slots:
        if slot.use in (Use.WORD, Use.MAP, Use.LIVE, Use.OFFSETS, Use.MIX):
            owned[slot.name] = "a reserved plane"
        elif slot.use is Use.COMPANION:
            owned[slot.name] = f"the companion of {slot.like!r}"
    return owned


def _check_alike(door: str, first: str, one: Slot, second: str, other: Slot) -> None:
    """Refuse a name that two kernels declare in two ways: equal names are one array."""
    if _form(one) != _form(other) or (one.declared and other.declared and one.dtype != other.dtype):
        raise ValueError(refusal(door, f"kernels {first!r} and {second!r}, plane {one.name!r}",
                                 f"{_text(one)} and {_text(other)}", "one declaration: equal names are one array",
                                 "rename one, or declare both alike"))


def _form(slot: Slot) -> tuple[Any, ...]:
    return (_FAMILIES.get(slot.use, slot.use), slot.role == MASK, *((slot.width, slot.matrix)
            if slot.use in (Use.SAMPLES, Use.CELL) else ()))


def _text(slot: Slot) -> str:
    form = f"Matrix[{slot.matrix[0]}, {slot.matrix[1]}]" if slot.matrix else f"width {slot.width}"
    family = "mask" if slot.role == MASK else _FAMILIES.get(slot.use, slot.kind)
    return f"{family} of {slot.dtype}" + (f", {form}" if slot.use is Use.SAMPLES and slot.role != MASK else "")


def _check_name(door: str, one: Parameter) -> None:
    if one.name in OPTIONS:
        raise ValueError(refusal(door, one.what, f"a name that the option {one.name}= has", "another name",
                                 "rename the plane, or use eagle.until_done"))
    if one.is_state and one.name in FIELDS:
        raise ValueError(refusal(door, one.what, f"a state plane with the name of the result's field "
                                 f"{shown(one.name)}", "another name", "rename the plane, or use eagle.until_done"))
