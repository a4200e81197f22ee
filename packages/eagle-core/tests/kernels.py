# SPDX-License-Identifier: Apache-2.0
"""The hawk kernels of the tests. hawk traces source text, so they live in a file."""

from __future__ import annotations

import hawk
from hawk import Grid, Index, Matrix, Mutable, Param, Quat, Scalar, Staged, Table, Terminated, Vector, Wide
from hawk.math import vec


@hawk.kernel
def scale(x: Scalar, a: Param, b: Param) -> Scalar:
    return a * x + b


@hawk.kernel
def sum_difference(x: Scalar, y: Scalar):
    return x + y, x - y


@hawk.kernel
def named(x: Scalar, v: Vector[3], a: Param):
    return {"moved": v * a, "shifted": x + a}


@hawk.kernel
def shapes(p: Vector[3], m: Matrix[2, 3], q: Quat, s: Scalar, a: Param):
    return {"vector": p * a, "matrix": m * s, "quat": q * s, "scalar": s * a}


@hawk.kernel
def advance(v: Vector[3], dt: Param, x: Mutable[Vector[3]]):
    x = x + v * dt


@hawk.kernel
def into(x: Scalar, y: Mutable[Scalar], a: Param):
    y = x * a


@hawk.kernel
def trailing(x: Scalar, a: Param, y: Mutable[Scalar]):
    y = x * a


@hawk.kernel
def mixed(x: Scalar, y: Mutable[Scalar], k: Mutable[Scalar], a: Param) -> Scalar:
    y = x * a
    k += x
    return x - a


@hawk.kernel
def double_until(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel
def swapped(x: Scalar, y: Scalar):
    return y * 2.0, x * 3.0


@hawk.kernel
def listed(x: Scalar, y: Scalar):
    return [x + y, x - y]


@hawk.kernel
def turned(p: Vector[3], u: Mutable[Vector[3]]):
    u = vec(p[1] * 2.0 - p[2], p[2] - p[0] * 3.0, p[0] + p[1])


@hawk.kernel
def unread(x: Scalar, u: Scalar, a: Param) -> Scalar:
    return x * a


@hawk.kernel
def total(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x)


@hawk.kernel
def share(x: Scalar) -> Scalar:
    return x / hawk.sum(x)


@hawk.kernel
def product(lane: Grid["row", "column":64], a: Table["r", "k":16], b: Table["q":16, "c":64]) -> Scalar:
    y = 0.0
    for k in range(16):
        y = y + a.at(r=lane.row, k=k) * b.at(q=k, c=lane.column)
    return y


@hawk.kernel
def many(a0: Scalar, a1: Scalar, a2: Scalar, a3: Scalar, a4: Scalar, a5: Scalar, a6: Scalar, a7: Scalar, a8: Scalar,
         a9: Scalar, b0: Scalar, b1: Scalar, b2: Scalar, b3: Scalar, b4: Scalar, b5: Scalar, b6: Scalar, p: Param):
    return (a0 + a1, a2 + a3, a4 + a5, a6 + a7, a8 + a9, b0 + b1, b2 + b3, b4 + b5, b6 * p)


@hawk.kernel
def neighbour(x: Scalar, i: Index, y: Mutable[Scalar]):
    y = x.at(i)


@hawk.kernel
def kept(i: Index, j: Mutable[Index]):
    j = i + 0


@hawk.kernel
def pulled(v: Vector[3], i: Index, u: Mutable[Vector[3]]):
    u = v.at(i)


@hawk.kernel
def looked_up(i: Index, t: Table[Scalar], y: Mutable[Scalar]):
    y = t.at(i)


@hawk.kernel
def in_stages(i: Index, f: Staged[Vector[3], 50], y: Mutable[Scalar]):
    y = f.at(plane=2, sample=i)


@hawk.kernel
def edges(e: Index, b: Wide[4], y: Mutable[Scalar]):
    y = b.at(edge=e, component=2)


@hawk.kernel
def stored(k: Index, x: Scalar, b: Mutable["bin":64]):
    hawk.scatter(b)[k] = x


@hawk.kernel
def added(k: Index, x: Scalar, b: Mutable["bin":64]):
    hawk.scatter(b)[k] += x


@hawk.kernel
def pulled_total(x: Scalar, i: Index, s: Mutable[Scalar]):
    s = hawk.sum(x.at(i))


@hawk.kernel
def in_two_kernels(x: Scalar, i: Index, t: Table[Scalar], s: Mutable[Scalar], y: Mutable[Scalar]):
    s = hawk.sum(x)
    y = x / s + t.at(i)
