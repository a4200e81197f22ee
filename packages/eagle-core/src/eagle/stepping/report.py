# SPDX-License-Identifier: Apache-2.0
"""What a run of a stepper did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

__all__ = ["RunReport", "Verdict", "new_report", "together"]


@dataclass(frozen=True)
class RunReport:
    """What one run did. A value: frozen, compared by its fields, copied and pickled.

    `launches` are calls of the engine: 1 of an automatic kernel, ``ceil(steps / K)`` of one with a fixed K, one a step
    of several plans, one a step and branch where a group was split; `launches_by_k` are the same by the steps of each,
    with one a step where a group was split. `mapped` are the visits of samples by entries.
    """

    n: int  #: samples of the batch
    finished: int  #: set bytes of the mask at the end
    done: bool  #: whether these are all
    launches: int
    steps: int  #: the most steps a sample took
    compactions: int
    reorders: int
    build_s: float  #: seconds of a one-time capture; 0.0 on the host
    launches_by_k: dict[int, int] = field(default_factory=dict)
    exact_steps: bool = False  #: whether `steps` is known; else it is a bound
    slot_fill: float | None = None
    mode: str = "band"
    probe: bool = False
    timed: bool = False
    dispatch: dict[str, tuple[Any, ...]] | None = None  #: {group: (policy, samples by branch, predicted gain)}
    class_sorts: int = 0  #: how often samples were sorted by branch
    mapped: int = 0


@dataclass(frozen=True)
class Verdict:
    """What came of ``dispatch=``."""

    groups: Mapping[str, tuple[str, tuple[int, ...], float]]  #: what the report has for `dispatch`
    sorts: int = 0
    steps: int = 0  #: those that were split
    branches: int = 0  #: into how many kernels


def together(verdict: Verdict | None, report: RunReport) -> Verdict | None:
    """`verdict` of the parts of a batch before, with one part more: a group is split where it is in some part."""
    if report.dispatch is None:
        return verdict
    before = verdict or Verdict({})
    groups: dict[str, tuple[str, tuple[int, ...], float]] = {}
    steps = branches = 0
    for name, (policy, mix, gain) in report.dispatch.items():
        others, known, _ = before.groups.get(name, (policy, (0,) * len(mix), gain))
        groups[name] = min(policy, others), tuple(map(sum, zip(mix, known, strict=True))), gain
        if policy == "segmented":
            steps, branches = report.steps, len(mix)
    return Verdict(groups, before.sorts + report.class_sorts, max(before.steps, steps), max(before.branches, branches))


_USUAL = {one.name: one.default for one in fields(RunReport) if one.default is not MISSING}


def new_report(**values: Any) -> RunReport:
    """A report of `values`, all that have no default and ``launches_by_k`` among them; quick, as runs are."""
    report = object.__new__(RunReport)
    report.__dict__.update(_USUAL)
    report.__dict__.update(values)
    return report
