# SPDX-License-Identifier: Apache-2.0
"""Kernels that step until done, for the tests of the runner."""

from __future__ import annotations

import hawk
import hawk.math
from hawk import Grid, Index, Int32, Mutable, Param, Scalar, Table, Terminated, Vector
from hawk.ext import Guard, Kind

ACTIVE = Kind("active", guard=Guard(active_set=True))
DEAD = Kind("dead", guard=Guard(mask="dead"))
TWO_MASKS = Kind("two_masks", guard=Guard(masks=("terminated", "held")))


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


@hawk.kernel(steps=4)
def decay_four(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(kind=ACTIVE)
def decay_active(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel
def gauge(y: Scalar, terminated: Terminated, e: Mutable[Scalar]):
    e = y * y


@hawk.kernel
def ticking(ticks: Mutable[Scalar]):
    ticks = ticks + 1.0


@hawk.kernel
def stop_below(y: Scalar, floor: Param, terminated: Terminated):
    terminated = y < floor


@hawk.kernel
def shrink(rate: Scalar, y: Mutable[Scalar], terminated: Terminated):
    y = y * rate


@hawk.kernel
def walk(w: Vector[2], limit: Scalar, v: Mutable[Vector[2]], terminated: Terminated):
    v = v + w
    terminated = v[0] > limit


@hawk.kernel
def from_table(t: Table[Scalar], k: Index, y: Mutable[Scalar], terminated: Terminated):
    y = y + t[k]
    terminated = y > 10.0


@hawk.kernel
def branching(k: Index, y: Mutable[Scalar], terminated: Terminated):
    y = hawk.math.dispatch(k, [y + 1.0, y + 2.0], policy="auto")
    terminated = y > 10.0


@hawk.kernel
def up_to(most: Param[Int32], y: Mutable[Scalar], terminated: Terminated):
    y = y + 1.0
    terminated = y > hawk.math.real(most)


@hawk.kernel
def in_lanes(lane: Grid["row", "col":3], u: Mutable[Scalar], terminated: Terminated):
    u = u * 2.0
    terminated = u > 100.0


@hawk.kernel(kind=TWO_MASKS)
def with_two_masks(y: Mutable[Scalar], terminated: Terminated, held: Terminated):
    y = y + 1.0
    terminated = y > 5.0


@hawk.kernel
def total(y: Scalar, terminated: Terminated, s: Mutable[Scalar]):
    s = hawk.sum(y)


@hawk.kernel
def centred(x: Scalar, z: Mutable[Scalar]):
    z = x - hawk.mean(x)


@hawk.kernel(kind=DEAD)
def other_mask(y: Scalar, dead: Terminated):
    dead = y < 0.0


@hawk.kernel(kind=ACTIVE, steps=1)
def decay_active_one(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(kind=ACTIVE, steps=3)
def decay_active_three(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel
def push(w: Vector[2], v: Mutable[Vector[2]], terminated: Terminated):
    v = v + w


@hawk.kernel
def stop_beyond(v: Vector[2], limit: Scalar, terminated: Terminated):
    terminated = v[0] > limit


@hawk.kernel
def on_lanes(lane: Grid["row", "column":3], b: Scalar, u: Mutable[Scalar], terminated: Terminated):
    u = u + b
    terminated = u > 10.0


@hawk.kernel
def endless(a: Mutable[Scalar], b: Mutable[Scalar], terminated: Terminated):
    a = a + 1.0
    b = b + 2.0
    terminated = a < 0.0


@hawk.kernel(steps=1)
def endless_one(a: Mutable[Scalar], b: Mutable[Scalar], terminated: Terminated):
    a = a + 1.0
    b = b + 2.0
    terminated = a < 0.0


@hawk.kernel(kind=ACTIVE)
def endless_active(a: Mutable[Scalar], b: Mutable[Scalar], terminated: Terminated):
    a = a + 1.0
    b = b + 2.0
    terminated = a < 0.0


@hawk.kernel(kind=ACTIVE, group=4)
def in_fours(stop: Scalar, y: Mutable[Scalar], terminated: Terminated):
    y = y + 1.0
    terminated = y >= stop


@hawk.kernel(kind=ACTIVE, steps=1, group=4)
def in_fours_one(stop: Scalar, y: Mutable[Scalar], terminated: Terminated):
    y = y + 1.0
    terminated = y >= stop
