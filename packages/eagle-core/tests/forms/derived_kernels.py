# SPDX-License-Identifier: Apache-2.0
"""Kernels hawk derives from others: reverse and forward mode, taping twins, fused groups."""

from __future__ import annotations

import hawk
import hawk.diff
import hawk.math
from hawk import Index, Kernel, Mutable, Param, Scalar, Table, Terminated, Vector
from hawk.emit.fused import compose


@hawk.kernel
def product(v: Vector[2], x: Scalar, y: Mutable[Scalar]):
    y = v[0] * x + v[1] * 0.5


@hawk.kernel
def weighted(i: Index, x: Scalar, t: Table[Scalar], y: Mutable[Scalar]):
    y = x * t.at(i)


@hawk.kernel(jump=0.25)
def threshold(x: Scalar, at: Scalar, y: Mutable[Scalar]):
    value = hawk.math.where(x < at, x * 2.0, x * 3.0)
    y = value * value


@hawk.kernel(jump=0.25)
def two_thresholds(x: Scalar, at: Scalar, y: Mutable[Scalar]):
    first = hawk.math.where(x < at, x * 2.0, x * 3.0)
    second = hawk.math.where(x < at + 0.125, x, x * 5.0)
    y = first * second


@hawk.kernel
def decay(x: Mutable[Scalar], rate: Scalar, terminated: Terminated):
    x = x - x * rate
    terminated = x < 0.125


@hawk.kernel
def shift(x: Scalar, a: Param, y: Mutable[Scalar]):
    y = x + a


@hawk.kernel
def stretch(x: Scalar, b: Param, z: Mutable[Scalar]):
    z = x * b


product_vjp = Kernel("product_vjp", hawk.diff.vjp(product, wrt=("v", "x")))
product_jvp = Kernel("product_jvp", hawk.diff.jvp(product, wrt=("v", "x")))
weighted_vjp = Kernel("weighted_vjp", hawk.diff.vjp(weighted, wrt=("t", "x")))
threshold_vjp = Kernel("threshold_vjp", hawk.diff.vjp(threshold, wrt=("x", "at")))
two_thresholds_vjp = Kernel("two_thresholds_vjp", hawk.diff.vjp(two_thresholds, wrt=("x", "at")))
decay_tape = hawk.diff.tape(decay, 3)
shift_stretch = compose([shift, stretch], "shift_stretch")
