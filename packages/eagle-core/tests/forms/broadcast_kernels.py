# SPDX-License-Identifier: Apache-2.0
"""Kernels over lanes, whose inputs tests give broadcast."""

from __future__ import annotations

import hawk
import hawk.diff
import hawk.math
from hawk import Grid, Index, Int32, Kernel, Matrix, Mutable, Scalar, Terminated, Vector


@hawk.kernel
def one(lane: Grid["row"], x: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x * b


@hawk.kernel
def two(lane: Grid["row", "col":8], x: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x * b


@hawk.kernel
def three(lane: Grid["a", "b":3, "c":4], x: Scalar, v: Vector[2], m: Matrix[2, 2], y: Mutable[Scalar]):
    y = x * v[0] + v[1] * m[1, 0] - m[0, 1]


@hawk.kernel
def declared(lane: Grid["a":2, "b":3, "c":4], x: Scalar, v: Vector[2], m: Matrix[2, 2], y: Mutable[Scalar]):
    y = x * v[0] + v[1] * m[1, 0] - m[0, 1]


@hawk.kernel
def static(lane: Grid["row":4, "col":8], x: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x * b


@hawk.kernel
def vectors(lane: Grid["row", "col":8], x: Scalar, v: Vector[2], y: Mutable[Vector[2]]):
    y = v * x


@hawk.kernel
def whole(lane: Grid["row", "col":8], x: Scalar, i: Index, k: Int32, y: Mutable[Scalar]):
    y = x + hawk.math.real(i) * hawk.math.real(k)


@hawk.kernel
def skipping(lane: Grid["row", "col":8], x: Scalar, done: Terminated, y: Mutable[Scalar]):
    y = x * 2.0


@hawk.kernel
def added(lane: Grid["row", "col":8], x: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x + b


@hawk.kernel
def shifted(lane: Grid["row", "col":8], x: Scalar, b: Scalar, i: Index, y: Mutable[Scalar]):
    y = x * b.at(i)


@hawk.kernel
def sums(lane: Grid["row", "col":8], x: Scalar, b: Scalar):
    return hawk.sum(x * b, over="col")


@hawk.kernel
def share(lane: Grid["row", "col":8], x: Scalar, b: Scalar):
    return x * b / hawk.sum(x * b, over="col")


two_vjp = Kernel("two_vjp", hawk.diff.vjp(two, wrt=("x", "b")))
two_jvp = Kernel("two_jvp", hawk.diff.jvp(two, wrt=("x", "b")))
added_vjp = Kernel("added_vjp", hawk.diff.vjp(added, wrt=("x", "b")))
three_vjp = Kernel("three_vjp", hawk.diff.vjp(three, wrt=("x", "v", "m")))
