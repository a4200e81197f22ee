# SPDX-License-Identifier: Apache-2.0
"""simulate() and simulation(): a model called like its kernels, stepped until every sample is done."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from eagle import _core
from eagle.errors import PerformanceWarning, warn
from eagle.interop.frameworks import ORIGINS, Adapter, detect
from eagle.plan.layout import unmarked
from eagle.registry.memo import Memo
from eagle.stepping.blocks import check_blocks, step_blocks
from eagle.stepping.calling import Calling, read_calling
from eagle.stepping.dispatch import read_dispatch
from eagle.stepping.items import build_items, read_items
from eagle.stepping.making import complete
from eagle.stepping.model import Model, read_model, refuse_options
from eagle.stepping.progress import Progress
from eagle.stepping.quick import Quick
from eagle.stepping.report import RunReport
from eagle.stepping.result import SimResult
from eagle.stepping.runner import Runner, make_runner
from eagle.stepping.split import read_split

__all__ = ["Simulation", "simulate", "simulation"]

MOST_MODELS = 64


class Prepared:
    """A model that was built and read: everything that does not depend on the planes."""

    def __init__(self, items: tuple[Any, ...], model: Model, calling: Calling) -> None:
        self.items = items  # held, so that nothing else gets their identity
        self.model, self.calling = model, calling
        self.quick = Quick.of(model, calling)


#: The last models by the identity of their items and what they were built with.
_seen: Memo[Prepared] = Memo(MOST_MODELS)


def forget() -> None:
    """Drops the memo of models; for tests."""
    _seen.forget()


class Simulation:
    """A model bound to its planes: :meth:`run` steps every sample until it is done. What :func:`simulation` makes.

    One run at a time: another one raises Busy.
    """

    def __init__(self, door: str, prepared: Prepared, planes: Mapping[str, Any], given: Mapping[str, Any],
                 runner: Runner) -> None:
        calling = prepared.calling
        self._prepared, self._runner, self._planes = prepared, runner, planes
        self._turns = _core.Turns("Simulation")
        self._made = tuple(name for name in planes if name not in given)
        mask = prepared.model.mask
        self._ours = {mask, *(name for name in planes if planes[name] is not given.get(name))}
        self._names = {"state": calling.names(state=True), "params": (*calling.names(state=False), mask),
                       "allocated": self._made}
        found = {adapter.name: adapter for value in unmarked(door, given)[0].values()
                 if (adapter := detect(value)) is not None and adapter.name in ORIGINS}
        self._origin: Adapter | None = next(iter(found.values())) if len(found) == 1 else None

    def run(self) -> SimResult:
        """Step until all samples are done or `max_steps` more steps were offered; the next run goes on from there.
        Raises what :meth:`Runner.run` raises."""
        with self._turns("run"):
            began = perf_counter()
            report = self._runner.run_for("Simulation.run")
            return self._result(report, perf_counter() - began)

    def _run_blocks(self, door: str, most: int, **options: Any) -> SimResult:
        """The first run, in at most `most` bytes; `options` are those it was made with."""
        return self._result(*step_blocks(door, self._prepared.model, self._prepared.calling, self._planes, self._made,
                                         self._runner, most, **options))

    def _result(self, report: RunReport, wall: float) -> SimResult:
        return SimResult({name: self._delivered(name) for name in self._names["state"]},
                         self._delivered(self._prepared.model.mask), report, wall, self._made)

    def _delivered(self, name: str) -> Any:
        """A plane as the caller gets it: what eagle made is of his framework."""
        array = self._runner.result(name)
        return array if self._origin is None or name not in self._ours else self._origin.from_numpy(array.copy())

    def reset(self) -> None:
        """Clear mask and counter; the state keeps its values, the caller seeds it anew. Raises Busy beside a run."""
        with self._turns("reset"):
            self._runner.reset()

    def stop(self) -> None:
        """From any thread: let :meth:`run` return at its next round, as :meth:`Runner.stop` says."""
        self._runner.stop()

    @property
    def runner(self) -> Runner:
        """The runner behind it."""
        return self._runner

    @property
    def loop(self) -> Any:
        """The loop that is the run, as :attr:`Runner.loop`."""
        return getattr(self._runner, "loop", None)

    @property
    def pipeline(self) -> Any:
        """None on the host."""
        return self._runner.pipeline

    @property
    def plans(self) -> tuple[Any, ...]:
        """The plans of the step, in order."""
        return tuple(kernel.plan for kernel in self._prepared.model.kernels)

    @property
    def n(self) -> int:
        """The samples of the batch."""
        return self._runner.n

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The names of the planes: "state", "params" (with the mask) and "allocated"."""
        return dict(self._names)

    @property
    def active(self) -> Any:
        """The active set of compacting kernels, else None."""
        return self._runner.active

    @property
    def finished(self) -> Any:
        """The counter of samples that are done: one uint32 cell."""
        return self._runner.finished

    @property
    def terminated(self) -> Any:
        """The mask."""
        return self._runner.terminated

    @property
    def every(self) -> int | None:
        """The steps between two compactions, as :attr:`Runner.every`."""
        return self._runner.every

    @property
    def record(self) -> None:
        """None: this version records nothing."""

    def __repr__(self) -> str:
        kernels = [kernel.name for kernel in self._prepared.model.kernels]
        return f"Simulation({kernels}, n={self.n}, names={self._names})"


def simulate(model: Any, /, *args: Any, max_steps: int, until: Any = None, every: int | None = None,
             reorder: float | bool | None = None, scalar_type: str | None = None, layout: str | None = None,
             record: bool = False, window: int | None = None, memory_budget: int | None = None,
             dispatch: str | Mapping[str, str | None] | None = None, events: str = "step", on_no_event: str = "raise",
             progress: bool | Progress | None = None, max_memory: int | None = None, **kwargs: Any) -> SimResult:
    """Step every sample of a model until it is done, at most `max_steps` steps in this run: ``simulation(...).run()``.

    `model` is a hawk kernel, a plan of :func:`eagle.deploy`, or a list of kernels, plans and nodes that are one step
    together; `until` is a kernel that finishes the samples, appended last. The planes are given as to the kernel, by
    position, by name, or both, over the parameters of all kernels in the order they are first declared. Arrays are
    stepped where they are; a written array of another framework is copied, and the result holds its answer. A Mutable
    is the state and needs a start; one that the step writes before it reads it, and an output, may be left out, and
    starts at zero. With numbers, or arrays without an axis of samples, for all per-sample planes it is one sample.

    `scalar_type` ("float64" or "float32") says how hawk kernels are built, `dispatch` how their "auto" groups run: one
    of "auto", "switch", "predicated", "segmented" (sorted by branch, a kernel for each; PerformanceWarning where the
    step changes the selector), or {group: policy}. `every` and `reorder` are for kernels with an active set;
    `layout`, `progress` and the errors are those of :func:`eagle.until_done`; names raise ArgumentError. A model is
    built and read when it is first seen. `max_memory` are the bytes of planes that a run may hold at once, for
    kernels that touch only their own sample: arrays, numpy memmaps among them, are then stepped block by block.
    """
    door = "eagle.simulate"
    prepared = _prepared(door, model, until, scalar_type, dispatch)
    if prepared.quick is not None and progress is None and layout is None and every is None and reorder is None \
            and max_memory is None and record is False and window is None and memory_budget is None \
            and events == "step" and on_no_event == "raise":
        result = prepared.quick(args, dict(kwargs), max_steps)
        if result is not None:
            return result
    refuse_options(door, record=record, window=window, memory_budget=memory_budget, events=events,
                   on_no_event=on_no_event)
    most = None if max_memory is None else check_blocks(door, prepared.model, max_memory)
    made = _simulation(door, prepared, args, kwargs, max_steps=max_steps, every=every, reorder=reorder, layout=layout,
                       progress=progress)
    return made.run() if most is None else made._run_blocks(
        door, most, max_steps=max_steps, every=every, reorder=reorder, layout=layout, progress=progress)


def simulation(model: Any, /, *args: Any, max_steps: int, until: Any = None, every: int | None = None,
               reorder: float | bool | None = None, scalar_type: str | None = None, layout: str | None = None,
               record: bool = False, window: int | None = None, memory_budget: int | None = None,
               dispatch: str | Mapping[str, str | None] | None = None, events: str = "step",
               on_no_event: str = "raise", progress: bool | Progress | None = None, **kwargs: Any) -> Simulation:
    """The :class:`Simulation` of a model over its planes, checked and bound: what :func:`simulate` runs."""
    door = "eagle.simulation"
    refuse_options(door, record=record, window=window, memory_budget=memory_budget, events=events,
                   on_no_event=on_no_event)
    prepared = _prepared(door, model, until, scalar_type, dispatch)
    return _simulation(door, prepared, args, kwargs, max_steps=max_steps, every=every, reorder=reorder, layout=layout,
                       progress=progress)


def _simulation(door: str, prepared: Prepared, args: tuple[Any, ...], kw: Mapping[str, Any], *, layout: str | None,
                **options: Any) -> Simulation:
    given = prepared.calling.arguments(door, args, kw)
    planes = complete(door, prepared.model, prepared.calling, given, layout)
    runner = make_runner(door, prepared.model, planes=planes, layout=layout, **options)
    return Simulation(door, prepared, planes, given, runner)


def _prepared(door: str, model: Any, until: Any, scalar_type: Any, dispatch: Any) -> Prepared:
    """The model, as it was read the first time."""
    key = _key(model, until, scalar_type, dispatch)
    if key is None or (prepared := _seen.find(key)) is None:
        items = read_items(door, model, until)
        chosen = read_dispatch(door, dispatch, items)
        parts = build_items(door, items, scalar_type, chosen.policies)
        read = read_model(door, parts[0] if len(parts) == 1 else parts)
        if chosen.divisible:
            read = replace(read, split=read_split(door, chosen, parts[0], read))
        prepared = Prepared(items, read, read_calling(door, read))
        if key is not None:
            prepared = _seen.keep(key, prepared)
    split = prepared.model.split
    if split is not None and split.forced and not split.divisions[0].fixed:
        name = split.divisions[0].name
        warn(f"dispatch, group {name!r}", "is split by branch, and the step changes its selector: samples are sorted "
             f"anew in each step; dispatch={{{name!r}: 'switch'}} needs no sort", PerformanceWarning, each=True)
    return prepared


def _key(model: Any, until: Any, scalar_type: Any, dispatch: Any) -> Hashable:
    """What tells one model from another; None for options that are refused."""
    if not isinstance(scalar_type, str | None) or not isinstance(dispatch, str | dict | None):
        return None
    if isinstance(dispatch, dict):
        if not all(isinstance(group, str) and isinstance(policy, str | None) for group, policy in dispatch.items()):
            return None
        dispatch = frozenset(dispatch.items())
    return tuple(map(id, model)) if isinstance(model, list | tuple) else id(model), id(until), scalar_type, dispatch
