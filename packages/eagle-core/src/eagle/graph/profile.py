# SPDX-License-Identifier: Apache-2.0
"""``Profile``: where the time of a graph goes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from eagle.errors import refusal, shown
from eagle.graph.tree import BRANCHES, CONDITIONALS, LAUNCH, WAIT, arms_of, leaves
from eagle.nodes import Node

__all__ = ["Profile", "Timing", "profile_of", "shares_of", "units"]


@dataclass(frozen=True)
class Timing:
    """What a node, or a stage, took: the median of all replays in seconds, and its share of the whole."""

    label: str
    stage: int
    seconds: float
    share: float


@dataclass(frozen=True)
class Profile:
    """The times of a graph in `replays` replays: of each node, those within conditionals too, and of each stage."""

    nodes: tuple[Timing, ...]
    stages: tuple[Timing, ...]
    seconds: float  #: of a replay: the sum of the medians
    replays: int

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return asdict(self)

    def to_chrome_trace(self, path: str | Path) -> None:
        """Write the nodes, one behind the other, as a trace that Perfetto and chrome://tracing open. Times are in
        microseconds; see the Trace Event Format."""
        begin, events = 0.0, []
        for node in self.nodes:
            events.append({"name": node.label, "cat": "node", "ph": "X", "ts": begin * 1e6, "dur": node.seconds * 1e6,
                           "pid": 0, "tid": 0, "args": {"stage": node.stage, "share": node.share}})
            begin += node.seconds
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))

    def __str__(self) -> str:
        width = max((len(node.label) for node in self.nodes), default=4)
        rows = [f"eagle.Graph  {_shown(self.seconds)} a replay, medians of {self.replays}", ""]
        rows += [f"  stage {node.stage:<4} {node.label:<{width}}  {_shown(node.seconds):>9}  {node.share:>6.1%}"
                 for node in self.nodes]
        return "\n".join(rows)


def _shown(seconds: float) -> str:
    """Three digits, in ns, us, ms or s."""
    units = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3))
    unit, size = next((one for one in units if seconds < 999.5 * one[1]), ("s", 1.0))
    value = seconds / size
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {unit}"


def units(nodes: Sequence[Node], within: str = "") -> Iterator[str]:
    """What is timed by itself, in the order it is recorded."""
    for node in nodes:
        label = f"{within}{node.label}"
        if node.kind == WAIT:
            continue  # is an order, and no work
        if node.kind == LAUNCH or not arms_of(node):
            yield label
        for arm in arms_of(node):
            yield from units(arm, f"{label} > " if node.kind in (BRANCHES, *CONDITIONALS) else within)


def profile_of(nodes: Sequence[Node], replays: Sequence[Sequence[float]]) -> Profile:
    """The profile of what was timed."""
    labels = [(stage, label) for stage, node in enumerate(nodes) for label in units([node])]
    times = [median(each) for each in zip(*replays, strict=True)]
    whole = sum(times)

    def timing(label: str, stage: int, seconds: float) -> Timing:
        return Timing(label, stage, seconds, seconds / whole if whole else 0.0)

    timed = tuple(timing(label, stage, seconds) for (stage, label), seconds in zip(labels, times, strict=True))
    stages = tuple(timing(node.label, stage, sum(one.seconds for one in timed if one.stage == stage))
                   for stage, node in enumerate(nodes))
    return Profile(timed, stages, whole, len(replays))


def shares_of(door: str, nodes: Sequence[Node], profile: Any) -> dict[int, float]:
    """The share of each node that is drawn: of a conditional that of all it holds. Raises TypeError for what is no
    profile, ValueError for that of another graph."""
    if not isinstance(profile, Profile):
        raise TypeError(refusal(door, "profile", f"{shown(profile)}, a {type(profile).__name__}", "a Profile",
                                "pass what profile() returned"))
    counts = [sum(1 for _ in units([leaf])) for leaf in leaves(nodes)]
    if sum(counts) != len(profile.nodes):
        raise ValueError(refusal(door, "profile", f"one of {len(profile.nodes)} nodes", f"one of {sum(counts)}",
                                 "pass what profile() of this graph returned"))
    timed = iter(profile.nodes)
    return {i: sum(timing.share for timing in islice(timed, count)) for i, count in enumerate(counts)}
