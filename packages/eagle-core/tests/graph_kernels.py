# SPDX-License-Identifier: Apache-2.0
"""The hawk kernels of the tests of graphs. hawk traces source text, so they live in a file."""

from __future__ import annotations

import hawk
import hawk.math as m
from hawk import Index, Mutable, Param, Scalar, Table, Terminated, Vector


@hawk.kernel
def affine(x: Scalar, a: Param, b: Param) -> Scalar:
    return a * x + b


@hawk.kernel
def drift(x: Mutable[Scalar], y: Scalar, a: Param):
    x = x * a + y


@hawk.kernel
def both(x: Scalar, y: Scalar):
    return {"s": x + y, "d": x * 0.5 - y}


@hawk.kernel
def lookup(i: Index, t: Table[Scalar]) -> Scalar:
    return t.at(i) * 0.5


@hawk.kernel
def whole(i: Index, j: Index):
    return {"k": i + j}


@hawk.kernel
def count(i: Mutable[Index], j: Index):
    i = i + j


@hawk.kernel
def turn(v: Mutable[Vector[3]], a: Param):
    v = m.vec(v[1] * a, v[2] - v[0], v[0] + v[1])


@hawk.kernel
def halve(x: Mutable[Scalar]):
    x = x * 0.5


@hawk.kernel
def spread(x: Scalar) -> Scalar:
    return x - hawk.sum(x)


@hawk.kernel
def added(k: Index, x: Scalar, b: Mutable["bin":8]):
    hawk.scatter(b)[k] += x


@hawk.kernel
def branchy(kind: Index, x: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")


@hawk.kernel
def authored(kind: Index, x: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.25, x - 1.0, m.cos(x)], policy="predicated")


@hawk.kernel(steps=1)
def stepped(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5
    k += 1.0
    terminated = k >= stop
