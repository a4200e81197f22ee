# SPDX-License-Identifier: Apache-2.0
"""until_done(): step every sample until it is done. Runner: the planes bound once, for runs that cost microseconds."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from eagle import _core
from eagle.errors import refusal, shown
from eagle.nodes import Node, RepeatWhile, SkipGuard, opaque
from eagle.plan import AutoPlan, BoundPlan, Plan
from eagle.stepping.active_set import ActiveSet
from eagle.stepping.binding import bind_step
from eagle.stepping.herd import Herd, make_herd
from eagle.stepping.model import (
    Model,
    read_cap,
    read_every,
    read_model,
    read_reorder,
    refuse_options,
    refuse_reserved,
)
from eagle.stepping.progress import Bar, Progress, read_progress
from eagle.stepping.report import RunReport, Verdict, new_report
from eagle.stepping.split import SplitEngine
from eagle.stepping.steps import Engine

__all__ = ["POLICIES", "Runner", "make_report", "make_runner", "run_until_done", "until_done"]

POLICIES = ("auto", "tiled", "measured", "band")
MOST_THREADS = 1024


class Runner:
    """A step bound to its planes: :meth:`run` steps every sample until it is done.

    Planes and mask stay the caller's between runs, who may edit both. One run at a time: another one raises Busy.
    """

    __slots__ = ("__weakref__", "_before", "_binding", "_bytes", "_counter", "_door", "_engine", "_entered", "_every",
                 "_herd", "_host_policy", "_host_threads", "_last", "_loop", "_max_steps", "_model", "_moves",
                 "_progress", "_ran", "_stale", "_turns", "_word")

    def __init__(self, door: str, model: Model, max_steps: int, every: int | None, theta: float | None,
                 layout: str | None, progress: Progress | None, planes: Mapping[str, Any]) -> None:
        single = len(model.items) == 1
        self._model, self._max_steps, self._progress = model, max_steps, progress
        self._counter = np.zeros(1, np.uint32)
        self._word = np.ones(1, np.int64) if single and model.auto else None
        self._binding = binding = bind_step(door, model, layout, planes, self._counter, self._word)
        self._every, self._door = every, door
        self._herd = make_herd(door, model, binding, theta, every) if theta is not None else None
        self._moves = self._herd is not None and self._herd.moves
        self._stale = True  # whether the active set has not seen the mask as it is
        whole = Engine(door, model, binding.packed, binding.n, self._counter, self._word,
                       lambda: tuple(binding.written.values()),
                       partial(_over_herd, weakref.ref(self)) if model.compacting else None)
        self._engine = whole if model.split is None or theta is not None and not model.split.forced else SplitEngine(
            door, model, whole, binding.bounds[0].arguments.packed, binding.n, self._counter)
        self._bytes = binding.mask.view(np.uint8)
        self._turns = _core.Turns("Runner")
        self._host_policy = "auto"
        self._host_threads: int | None = None
        self._last: RunReport | None = None
        self._before = 0
        # Steps, whether exact, visits of samples, compactions, reorders, what was decided.
        self._ran: tuple[int, bool, int, int, int, Verdict | None] = (0, True, 0, 0, 0, None)
        self._entered: int | None = None  # the thread that is about to step, in its turn
        all_done = SkipGuard(self._counter, 0, np.array([binding.n], np.uint32), 0)
        self._loop = RepeatWhile(Stepping(self), all_done, 1)

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def step(self) -> BoundPlan | tuple[BoundPlan, ...]:
        """The bound plan; a tuple of them for several."""
        bounds = self._binding.bounds
        return bounds[0] if len(self._model.items) == 1 else bounds

    @property
    def n(self) -> int:
        """The samples of the batch."""
        return self._binding.n

    @property
    def terminated(self) -> np.ndarray[Any, Any]:
        """The mask: the caller's array where one was given; of one sample its (1,) view."""
        return self._binding.shown

    @property
    def finished(self) -> np.ndarray[Any, Any]:
        """The counter of samples that are done: one uint32 cell."""
        return self._counter

    @property
    def active(self) -> ActiveSet | None:
        """The active set of a compacting kernel, which says who is live; None without one. Raises Busy beside a run,
        which keeps the set."""
        if not self._model.compacting:
            return None
        if self._stale:
            with self._turns("active"):
                self._keep_herd().active.rebuild()
                self._stale = False
        return self._keep_herd().active

    @property
    def steps_per_launch(self) -> int | str:
        """K, or "auto"; 1 for several plans."""
        return self._model.steps

    @property
    def auto(self) -> bool:
        """Whether the kernel is automatic."""
        return self._model.auto

    @property
    def fused_steps(self) -> np.ndarray[Any, Any] | None:
        """The word of an automatic kernel: one int64 cell."""
        return self._word

    @property
    def every(self) -> int | None:
        """The steps between two compactions, where K is fixed; else K, and None of an automatic kernel."""
        return self._every

    @property
    def launches_per_compaction(self) -> int:
        """The launches between two compactions, where K is fixed; else 1."""
        return 1 if self._every is None else self._every // int(self._model.steps)

    @property
    def loop(self) -> RepeatWhile:
        """The loop that is the run: one call of the engine, unless all are done. Call :meth:`run`, which counts anew
        who is done."""
        return self._loop

    @property
    def pipeline(self) -> None:
        """None on the host."""

    @property
    def record(self) -> None:
        """None: this version records nothing."""

    t_stop = event_status = record

    @property
    def host_policy(self) -> str:
        """How runs on the host are paced, one of "auto" (the backend's own engine), "tiled", "measured", "band" (the
        portable loop). All give the same bits."""
        return self._host_policy

    @host_policy.setter
    def host_policy(self, value: str) -> None:
        if not isinstance(value, str) or value not in POLICIES:
            raise (ValueError if isinstance(value, str) else TypeError)(
                refusal("Runner", "host_policy", shown(value), f"one of {POLICIES}", "leave it at 'auto'"))
        self._host_policy = value

    @property
    def host_threads(self) -> int | None:
        """The threads of this runner's runs; None: as many as the process uses."""
        return self._host_threads or None

    @host_threads.setter
    def host_threads(self, value: int | None) -> None:
        if value is not None:
            if isinstance(value, bool) or not hasattr(type(value), "__index__"):
                raise TypeError(refusal("Runner", "host_threads", shown(value), "an integer or None", "pass an int"))
            if not 1 <= int(value) <= MOST_THREADS:
                raise ValueError(refusal("Runner", "host_threads", shown(value), f"1 to {MOST_THREADS}, or None",
                                         "pass one within"))
            value = int(value)
        self._host_threads = value

    @property
    def policy(self) -> dict[str, int] | None:
        """The last run of an automatic kernel: {"k", "finished_at_launch", "steps_done", "max_steps", "go"}."""
        if self._word is None:
            return None
        last = self._last
        steps = last.steps if last is not None else 0
        go = last is None or not last.done and steps < self._max_steps
        return {"k": self._model.steps_max if self._model.fused else 1, "finished_at_launch": self._before,
                "steps_done": steps, "max_steps": self._max_steps, "go": int(go)}

    @property
    def launch_policy(self) -> dict[str, Any]:
        """{"block", "grid", "chunk", "fill", "rate", "k"}: the first three are None on the host; `fill` is the share of
        samples that are not done, `rate` how many were done a step of the last run."""
        last = self._last
        fill = 1.0 - int(self._counter[0]) / self.n if self.n else 0.0
        rate = (last.finished - self._before) / last.steps if last is not None and last.steps else 0.0
        return {"block": None, "grid": None, "chunk": None, "fill": fill, "rate": rate, "k": self._model.steps}

    def _keep_herd(self) -> Herd:
        if self._herd is None:
            self._herd = make_herd(self._door, self._model, self._binding, None, self._every)
        return self._herd

    def _over_herd(self) -> tuple[Herd, tuple[_core.Bound, ...]]:
        herd = self._keep_herd()
        return herd, herd.packed(self._door, self._binding)

    # ---- what it does ------------------------------------------------------------------------------------------------

    def run(self) -> RunReport:
        """Step until all samples are done or `max_steps` more steps were offered, from the planes and the mask as they
        are now.

        Raises Busy beside another call on this runner, BufferRefused for a plane that moved since it was bound,
        KeyboardInterrupt with every sample between two steps, and what a node of the step or a function for
        ``progress=`` raises; the runner can go on behind each.
        """
        return self.run_for("Runner.run")

    def run_for(self, door: str) -> RunReport:
        """What :meth:`run` does, for the door named `door`."""
        with self._turns("run"):
            self._begin(door)
            counter, n = self._counter, self._binding.n
            self._entered = threading.get_ident()
            try:
                self._loop()
            finally:
                self._entered = None
            steps, exact, mapped, compactions, reorders, verdict = self._ran
            report = make_report(self._model, n, int(counter[0]), steps, exact, mapped, compactions, reorders, verdict)
            self._last = report
            return report

    def _begin(self, door: str) -> None:
        """What comes first in the runner's turn: :meth:`stop` counts from now on."""
        self._engine.arm()
        self._refuse_moved(door)
        self._counter[0] = self._before = int(np.count_nonzero(self._bytes))
        self._ran = (0, True, 0, 0, 0, self._engine.nothing())

    def _refuse_moved(self, door: str) -> None:
        for bound, packed in self._binding.pairs:
            bound.refuse_moved(door, packed)

    def _step(self) -> None:
        """The body of the loop, which :meth:`run` calls, or somebody else."""
        if self._entered == threading.get_ident():
            self._entered = None
            self._step_all()
            return
        with self._turns("loop"):
            self._begin("Runner.loop")
            self._step_all()

    def _touched(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arrays that a run reads and those it writes, by name."""
        binding = self._binding
        reads: dict[str, Any] = {}
        writes: dict[str, Any] = {"finished": self._counter}
        for bound in binding.bounds:
            for name, slot in bound.arguments.slots.items():
                array = bound.arguments.packed.get(name)
                if not slot.is_array or not isinstance(array, np.ndarray):
                    continue
                array = next((plane for copy, plane, _ in binding.copies if np.may_share_memory(copy, array)), array)
                reads[name] = array
                if slot.writes:
                    writes[name] = array
        for node in (item for item in self._model.items if isinstance(item, Node)):
            reads |= {f"{node.label}.{plane.name}": plane.array for plane in node.reads}
            writes |= {f"{node.label}.{plane.name}": plane.array for plane in node.writes}
        return reads, writes

    def _step_all(self) -> None:
        """One call of the engine."""
        progress = None if self._progress is None else self._told
        binding, herd, self._stale = self._binding, self._herd, True
        if herd is not None:
            herd.compactions = herd.reorders = 0
        try:
            if progress is not None:
                progress(self._before, 0)
                self._refuse_moved("Runner.run")  # by whoever is told
            _, steps, exact, mapped, _ = binding.run(self._engine.run, self._max_steps, self._host_threads or 0,
                                                     self._host_policy == "auto" and not self._moves, progress)
            herd = self._herd  # made by now, where the loop kept one
            self._ran = (steps, exact, mapped, herd.compactions if herd else 0, herd.reorders if herd else 0,
                     self._engine.verdict)
        finally:
            if isinstance(self._progress, Bar):
                self._progress.close()

    def _told(self, done: int, offered: int) -> object:
        assert self._progress is not None
        return self._progress(done, self._binding.n, offered)

    def stop(self) -> None:
        """From any thread: let :meth:`run` return at its next round, with ``done`` false and every sample between
        two steps. The next run goes on. Without a run it does nothing."""
        self._engine.stop()

    def reset(self) -> None:
        """Clear mask and counter, and let all samples live in the active set; the state keeps its values. Raises Busy
        beside a run."""
        with self._turns("reset"):
            self._refuse_moved("Runner.reset")
            if self._herd is not None:
                self._herd.active.reset()
            self._bytes.fill(0)
            self._counter.fill(0)

    def result(self, name: str) -> Any:
        """The plane `name`: the caller's own array or number; of a written plane of another framework a fresh array of
        it. Raises KeyError for other names."""
        binding = self._binding
        if name in binding.answers:
            return binding.answers[name].deliver()
        if name not in binding.planes:
            raise KeyError(refusal("Runner.result", f"name {shown(name)}", "no plane of the step",
                                   f"one of {list(binding.planes)}", "ask for one of these"))
        return binding.planes[name]

    def __repr__(self) -> str:
        model = self._model
        most = f", steps_max={model.steps_max}" if model.auto else ""
        return (f"Runner(host, n={self.n}, steps_per_launch={model.steps!r}{most}, every={self.every}, "
                f"launches_per_compaction={self.launches_per_compaction}, active={self._model.compacting})")


# A runner is held by nobody that it holds, so that planes which its active set owns are free once it is gone.


class Stepping:
    """The body of a runner's loop."""

    __slots__ = ("_runner",)

    def __init__(self, runner: Runner) -> None:
        self._runner = weakref.ref(runner)

    def __call__(self) -> None:
        if (found := self._runner()) is not None:
            found._step()

    def as_node(self) -> Node:
        """The same as a node, which says what it touches and holds the runner."""
        runner = self._runner()
        if runner is None:
            raise ValueError(refusal("Runner.loop", "the runner", "one that is gone",
                                     "one that lives as long as its loop",
                                     "keep a reference to it"))
        reads, writes = runner._touched()
        return opaque(runner._step, reads=reads, writes=writes, name="run")


def _over_herd(runner: weakref.ref[Runner]) -> tuple[Herd, tuple[_core.Bound, ...]]:
    found = runner()
    assert found is not None
    return found._over_herd()


def make_report(model: Model, n: int, finished: int, steps: int, exact: bool, mapped: int, compactions: int = 0,
                reorders: int = 0, verdict: Verdict | None = None) -> RunReport:
    """The report of a run that took `steps`."""
    k, split = model.steps, verdict.steps if verdict is not None else 0
    whole = steps - split
    by_k = {} if not whole else {whole: 1} if k == "auto" else {int(k): -(-whole // int(k))}
    report = new_report(n=n, finished=finished, done=finished == n, launches=sum(by_k.values()), steps=steps,
                        compactions=compactions, reorders=reorders, build_s=0.0, launches_by_k=by_k, exact_steps=exact,
                        mapped=mapped)
    return report if verdict is None else replace(
        report, launches=report.launches + split * verdict.branches, class_sorts=verdict.sorts,
        launches_by_k=by_k | ({1: by_k.get(1, 0) + split} if split else {}), dispatch=dict(verdict.groups))


Step = Plan | AutoPlan | list[Any] | tuple[Any, ...]


def until_done(plan: Step, /, *, max_steps: int, every: int | None = None, reorder: float | bool | None = None,
               record: bool = False, window: int | None = None, memory_budget: int | None = None,
               events: str = "step", on_no_event: str = "raise", layout: str | None = None,
               progress: bool | Progress | None = None, **planes: Any) -> Runner:
    """A :class:`Runner` that steps every sample until it is done.

    `plan` is what :func:`eagle.deploy` returns, or a list of plans and nodes that are one step together. `max_steps`
    are the most steps that a run offers a sample. The planes are those of :meth:`Plan.bind`; the mask may be left out,
    then it is all false. Arrays of numpy are stepped where they are; a written plane of another framework is copied
    once, and :meth:`Runner.result` gives its answer.

    `every` (steps between compactions) and `reorder` (a threshold) are for kernels with an active set. `progress` is
    True for a bar, or a function of (samples done, samples, steps), called when a run begins, now and then, and when
    its steps are through; the steps are those offered to all samples together. `record`, `window`, `memory_budget`,
    `events` and `on_no_event` are reserved.

    Raises ValueError for a step that does not finish or cannot be stepped, for options that do not fit and for planes
    as :meth:`Plan.bind` does; TypeError for what is no plan and no number.
    """
    refuse_options("eagle.until_done", record=record, window=window, memory_budget=memory_budget, events=events,
                   on_no_event=on_no_event)
    return make_runner("eagle.until_done", read_model("eagle.until_done", plan), max_steps=max_steps, every=every,
                       reorder=reorder, layout=layout, progress=progress, planes=planes)


def run_until_done(plan: Step, /, *, max_steps: int, every: int | None = None, reorder: float | bool | None = None,
                   record: bool = False, window: int | None = None, memory_budget: int | None = None,
                   events: str = "step", on_no_event: str = "raise", layout: str | None = None,
                   progress: bool | Progress | None = None, **planes: Any) -> RunReport:
    """``until_done(...).run()``: see :func:`until_done`."""
    refuse_options("eagle.run_until_done", record=record, window=window, memory_budget=memory_budget, events=events,
                   on_no_event=on_no_event)
    return make_runner("eagle.run_until_done", read_model("eagle.run_until_done", plan), max_steps=max_steps,
                       every=every, reorder=reorder, layout=layout, progress=progress, planes=planes).run()


def make_runner(door: str, model: Model, *, max_steps: Any, planes: Mapping[str, Any], every: Any = None,
                reorder: Any = None, layout: str | None = None, progress: Any = None) -> Runner:
    """What :func:`until_done` does with a model that was read, for the door named `door`."""
    steps = read_cap(door, max_steps)
    refuse_reserved(door, planes)
    cadence = read_every(door, model, every)
    theta = read_reorder(door, model, reorder)
    return Runner(door, model, steps, cadence, theta, layout, read_progress(door, progress), planes)
