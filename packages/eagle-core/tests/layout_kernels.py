# SPDX-License-Identifier: Apache-2.0
"""Kernels over vectors and matrices for the tests of layouts and of one sample."""

from __future__ import annotations

import hawk
from hawk import Matrix, Mutable, Param, Scalar, Table, Terminated, Vector


@hawk.kernel
def approach(v: Vector[2], limit: Scalar, x: Mutable[Vector[2]], y: Mutable[Vector[2]], terminated: Terminated):
    x = x + v
    y = v * 2.0
    terminated = x[0] > limit


@hawk.kernel
def turn(m: Matrix[2, 3], v: Vector[2], a: Param):
    return {"scaled": m * a, "moved": v * a, "norm": v[0] * v[0] + v[1] * v[1]}


@hawk.kernel
def column(m: Matrix[3, 1], a: Param) -> Scalar:
    return m[0, 0] * a


@hawk.kernel
def single(v: Vector[1], a: Param):
    return v * a


@hawk.kernel
def sums(v: Vector[2], x: Scalar, s: Mutable[Scalar], t: Mutable[Vector[2]]):
    s = hawk.sum(x)
    t = hawk.sum(v)


@hawk.kernel
def shifted(x: Scalar, t: Table[Scalar]) -> Scalar:
    return x + t.at(1)
