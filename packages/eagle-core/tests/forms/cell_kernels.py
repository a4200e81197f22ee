# SPDX-License-Identifier: Apache-2.0
"""Kernels that reduce over all samples, and split kernels that read the result again."""

from __future__ import annotations

import hawk
from hawk import Mutable, Scalar, Vector


@hawk.kernel
def total(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x)


@hawk.kernel
def total_returned(x: Scalar):
    return hawk.sum(x)


@hawk.kernel
def total_compensated(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x, policy="compensated")


@hawk.kernel
def total_ordered(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x, policy="ordered")


@hawk.kernel
def total_where(x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x, where=x > 0.0)


@hawk.kernel
def total_vector(v: Vector[3], s: Mutable[Vector[3]]):
    s = hawk.sum(v)


@hawk.kernel
def moments(x: Scalar):
    return {"first": hawk.sum(x), "second": hawk.sum(x * x), "doubled": x * 2.0}


@hawk.kernel
def average(x: Scalar, s: Mutable[Scalar]) -> Scalar:
    s = hawk.mean(x)
    return x * 2.0


@hawk.kernel
def highest(x: Scalar, s: Mutable[Scalar]):
    s = hawk.max(x)


@hawk.kernel
def lowest(x: Scalar, s: Mutable[Scalar]):
    s = hawk.min(x)


@hawk.kernel
def highest_vector(v: Vector[2], s: Mutable[Vector[2]]):
    s = hawk.max(v)


@hawk.kernel
def normalise(x: Scalar, y: Mutable[Scalar]):
    y = x / hawk.sum(x)


@hawk.kernel
def centre(x: Scalar, s: Mutable[Scalar], y: Mutable[Scalar]):
    s = hawk.mean(x)
    y = x - s


@hawk.kernel
def three_stages(x: Scalar, y: Mutable[Scalar]):
    d = x - hawk.mean(x)
    y = d / hawk.sum(d * d)
