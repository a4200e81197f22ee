# SPDX-License-Identifier: Apache-2.0
"""The hawk kernels of the tests of ``Graph.builder``."""

from __future__ import annotations

import hawk
from hawk import Index, Mutable, Param, Scalar, Table, Terminated, UInt32, Vector
from hawk.math import real, select, uint32, vec


@hawk.kernel
def shrink(v: Scalar) -> Scalar:
    return v / 2.0


@hawk.kernel
def add(x: Scalar, y: Scalar) -> Scalar:
    return x + y


@hawk.kernel
def scale(x: Scalar, a: Param) -> Scalar:
    return x * a


@hawk.kernel
def both(x: Scalar, y: Scalar):
    return x + y, x - y


@hawk.kernel
def named(x: Scalar):
    return {"up": x + 1.0, "down": x - 1.0}


@hawk.kernel
def turned(p: Vector[2]) -> Vector[2]:
    return vec(p[1], p[0] + 1.0)


@hawk.kernel
def hot(v: Scalar, busy: Mutable[UInt32]):
    hawk.scatter(busy, policy="or")[0] |= uint32(select(v > 1.0, 1, 0))


@hawk.kernel
def high(v: Scalar, cell: Mutable[UInt32, "cell":1]):
    hawk.scatter(cell, policy="or")[0] |= uint32(select(v > 1.0, 1, 0))


@hawk.kernel
def count(x: Scalar, i: Table[UInt32], y: Mutable[Scalar]):
    y = x + real(i.at(0))


@hawk.kernel
def picked(i: Index, t: Table[Scalar]) -> Scalar:
    return t.at(i)


@hawk.kernel
def total(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x)


@hawk.kernel
def grow(x: Scalar, terminated: Terminated, y: Mutable[Scalar]):
    y = x * 2.0
    terminated = x > 4.0
