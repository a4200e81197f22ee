# SPDX-License-Identifier: Apache-2.0
"""hawk kernels of every form, for the tests of artifacts."""

import hawk
from hawk import (
    Grid,
    Index,
    Int32,
    Matrix,
    Mutable,
    Param,
    Scalar,
    Sorted,
    Table,
    Terminated,
    UInt32,
    Vector,
    Wide,
    WideOut,
)
from hawk.ext import Guard, Kind
from hawk.math import dispatch, real, sin

ACTIVE = Kind("active", guard=Guard(active_set=True))


@hawk.kernel
def plain(x: Scalar, v: Vector[3], m: Matrix[2, 2], a: Param, n: Param[Int32]):
    return {"scaled": v * a, "kept": m * x, "shifted": x + real(n)}


@hawk.kernel
def integers(i: Index, k: Int32, u: UInt32, o: Mutable[Index], p: Mutable[Int32], q: Mutable[UInt32]):
    o = i * 2 + 1
    p = k * 3
    q = u + u


@hawk.kernel(kind=ACTIVE)
def active(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel
def choice(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = dispatch(k, [x * 2.0, x + 1.0, sin(x)], policy="auto")


@hawk.kernel
def segments(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = dispatch(k, [x * 2.0, x + 1.0, sin(x)], policy="segmented")


@hawk.kernel
def table(i: Index, t: Table[Scalar], y: Mutable[Scalar]):
    y = t.at(i)


@hawk.kernel
def wide(e: Index, b: Wide[4], y: Mutable[Scalar]):
    y = b.at(edge=e, component=2)


@hawk.kernel
def widened(x: Scalar, b: WideOut[Scalar]):
    b = x * 2.0


@hawk.kernel
def bins(k: Index, x: Scalar, acc: Mutable["bin":8]):
    hawk.scatter(acc)[k] += x


@hawk.kernel
def runs(k: Sorted[Index], x: Scalar, acc: Mutable["bin":8]):
    hawk.scatter(acc)[k] += x


@hawk.kernel
def total(v: Vector[3], s: Mutable[Vector[3]]):
    s = hawk.sum(v)


@hawk.kernel
def highest(x: Scalar, s: Mutable[Scalar]):
    s = hawk.max(x)


@hawk.kernel
def normalise(x: Scalar, y: Mutable[Scalar]):
    y = x / hawk.sum(x)


@hawk.kernel
def softmax(lane: Grid["row", "col":8], x: Scalar):
    return x / hawk.sum(x, over="col")


ALL = (plain, integers, active, choice, segments, table, wide, widened, bins, runs, total, highest, normalise, softmax)
