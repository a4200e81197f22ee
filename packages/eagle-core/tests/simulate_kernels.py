# SPDX-License-Identifier: Apache-2.0
"""Kernels for the tests of simulate. hawk traces source text, so they live in a file."""

from __future__ import annotations

import hawk
from hawk import Grid, Index, Int32, Mutable, Param, Scalar, Table, Terminated, Vector
from hawk.ext import Guard, Kind
from hawk.math import dispatch, n_samples, real, sample_index, sin

TWO_MASKS = Kind("two_masks", guard=Guard(masks=("terminated", "rejected")))
ACTIVE = Kind("active", guard=Guard(active_set=True))


@hawk.kernel
def decay(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(steps=1)
def decay_one(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(steps=1)
def halving(y: Mutable[Scalar], floor: Param, terminated: Terminated):
    y = y * 0.5
    terminated = y < floor


@hawk.kernel
def gauge(y: Scalar, e: Mutable[Scalar]):
    e = y * y


@hawk.kernel
def under(e: Scalar, x: Mutable[Scalar]):
    x = e + 0.0


@hawk.kernel
def shrink(y: Mutable[Scalar], rate: Scalar):
    y = y * rate


@hawk.kernel(steps=1)
def below(y: Scalar, floor: Param, terminated: Terminated):
    terminated = y < floor


@hawk.kernel
def unused(rate: Scalar, spare: Scalar, floor: Param, knob: Param, terminated: Terminated, y: Mutable[Scalar]):
    y = y * rate
    terminated = y < floor


@hawk.kernel
def squares(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], e: Mutable[Scalar]):
    y = y * rate
    e = y * y
    terminated = y < floor


@hawk.kernel(steps=3)
def squares_by_three(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], e: Mutable[Scalar]):
    y = y * rate
    e = y * y
    terminated = y < floor


@hawk.kernel
def turning(w: Vector[2], stop: Scalar, terminated: Terminated, p: Mutable[Vector[2]], k: Mutable[Scalar]):
    p = p * 0.5 + w
    k += 1.0
    terminated = k >= stop


@hawk.kernel(kind=TWO_MASKS)
def two_masks(terminated: Terminated, rejected: Terminated, y: Mutable[Scalar]):
    y = y * 0.5
    terminated = y < 0.1


@hawk.kernel
def collect(bin: Index, y: Scalar, h: Mutable["bin":4]):
    hawk.scatter(h)[bin] += y


@hawk.kernel
def total(y: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(y)


@hawk.kernel
def on_grid(lane: Grid["row", "column":3], rate: Scalar, terminated: Terminated, y: Mutable[Scalar],
            at: Mutable[Scalar]):
    y = y * rate
    at = real(lane.column)
    terminated = y < 0.1


@hawk.kernel
def indexed(i: Index, t: Table[Scalar], terminated: Terminated, y: Mutable[Scalar]):
    y = y * t.at(i)
    terminated = y < 0.1


@hawk.kernel
def branching(k: Index, floor: Param, terminated: Terminated, y: Mutable[Scalar]):
    y = y * dispatch(k, [0.5, 0.25, 0.125 + 0.0 * sin(y)], policy="auto")
    terminated = y < floor


@hawk.kernel
def decided(k: Index, floor: Param, terminated: Terminated, y: Mutable[Scalar]):
    y = y * dispatch(k, [0.5, 0.25], policy="switch")
    terminated = y < floor


@hawk.kernel
def any_name(self: Param, plan: Scalar, model: Scalar, args: Param, kwargs: Param, terminated: Terminated,
             y: Mutable[Scalar], runner: Mutable[Scalar]):
    y = y * plan * self
    runner = runner + model + args * kwargs
    terminated = y < 0.1


@hawk.kernel
def named_like_an_option(window: Scalar, terminated: Terminated, y: Mutable[Scalar]):
    y = y * window
    terminated = y < 0.1


@hawk.kernel
def named_like_a_field(terminated: Terminated, t_stop: Mutable[Scalar]):
    t_stop = t_stop * 0.5
    terminated = t_stop < 0.1


@hawk.kernel
def wide_y(y: Vector[2], e: Mutable[Scalar]):
    e = y[0] + y[1]


@hawk.kernel(kind=ACTIVE)
def compacted(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


def made_like(name: str) -> hawk.Kernel:
    """Another kernel of that name."""
    return hawk.Kernel(name, gauge.sinks, gauge.planes)


@hawk.kernel
def floor_plane(floor: Scalar, e: Mutable[Scalar]):
    e = floor * 2.0


@hawk.kernel(steps=1)
def marking(level: Param, terminated: Terminated, e: Mutable[Scalar]):
    e = level
    terminated = e > 0.0


@hawk.kernel
def counts_samples(y: Mutable[Scalar], floor: Param, terminated: Terminated):
    y = y * 0.5 + 0.0 * real(n_samples())
    terminated = y < floor


@hawk.kernel
def own_index(y: Mutable[Scalar], floor: Param, terminated: Terminated):
    y = y * 0.5 + 0.0 * real(sample_index())
    terminated = y < floor


@hawk.kernel
def counting(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x + 1.0
    k = k + 1.0
    terminated = k >= stop


@hawk.kernel
def two_turning(stop: Scalar, terminated: Terminated, p: Mutable[Vector[2]], q: Mutable[Vector[2]], k: Mutable[Scalar]):
    p = p + 1.0
    q = q + 1.0
    k = k + 1.0
    terminated = k >= stop


@hawk.kernel
def two_ways(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = dispatch(kind, [x * 0.5, x + 1.0], policy="auto")
    k = k + 1.0
    terminated = k >= stop


@hawk.kernel
def shrinks(y: Mutable[Scalar], rate: Scalar, terminated: Terminated):
    y = y * rate


@hawk.kernel
def gauges(y: Scalar, e: Mutable[Scalar], terminated: Terminated):
    e = y * y


@hawk.kernel
def beside(terminated: Terminated, e: Mutable[Scalar]):
    e = e * 2.0


@hawk.kernel
def at_index(i: Index, terminated: Terminated, e: Mutable[Scalar]):
    e = real(i)


@hawk.kernel
def at_int32(i: Int32, terminated: Terminated, x: Mutable[Scalar]):
    x = real(i)
