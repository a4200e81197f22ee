# SPDX-License-Identifier: Apache-2.0
"""One kernel for each kind of argument that a refusal gives advice about."""

from __future__ import annotations

import hawk
import hawk.diff
import hawk.math
from hawk import Grid, Index, Int32, Matrix, Mutable, Param, Scalar, Table, Terminated, UInt32, Vector
from hawk.ext import Guard, Kind


@hawk.kernel
def line(x: Scalar, a: Param, b: Param) -> Scalar:
    return a * x + b


@hawk.kernel
def corner(r: Matrix[2, 2]) -> Scalar:
    return r[0, 1]


@hawk.kernel
def first(v: Vector[3]) -> Scalar:
    return v[0]


@hawk.kernel
def twice(u: UInt32, k: Int32):
    return {"u2": u + u, "k2": k + k}


@hawk.kernel
def pick(i: Index, t: Table[Scalar]) -> Scalar:
    return t.at(i)


@hawk.kernel
def weigh(lane: Grid["row", "column":3], x: Scalar, w: Scalar) -> Scalar:
    return x * w


@hawk.kernel
def total(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x)


@hawk.kernel
def histogram(k: Index, w: Scalar, bins: Mutable["bin"]):
    hawk.scatter(bins)[k] += w


@hawk.kernel
def until(limit: Scalar, x: Mutable[Scalar], terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel(kind=Kind("active", guard=Guard(active_set=True)))
def active(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel
def affine(x: Scalar, z: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x * z + b


@hawk.kernel
def branches(k: Index, x: Scalar) -> Scalar:
    return hawk.math.dispatch(k, [x, x * x], policy="segmented")


affine_vjp = hawk.Kernel("affine_vjp", hawk.diff.vjp(affine))
