# SPDX-License-Identifier: Apache-2.0
"""The hawk kernels of the graphs that draw_graphs.py draws."""

from __future__ import annotations

import hawk
from hawk import Mutable, Param, Scalar, UInt32
from hawk.math import select, uint32


@hawk.kernel
def kick(x: Scalar, v: Mutable[Scalar], k: Param):
    v = v - k * x


@hawk.kernel
def drift(x: Mutable[Scalar], v: Scalar, h: Param):
    x = x + h * v


@hawk.kernel
def energy(x: Scalar, v: Scalar, e: Mutable[Scalar]):
    e = 0.5 * (x * x + v * v)


@hawk.kernel
def half(v: Scalar) -> Scalar:
    return v / 2.0


@hawk.kernel
def add(a: Scalar, b: Scalar, c: Mutable[Scalar]):
    c = a + b


@hawk.kernel
def hot(v: Scalar, cell: Mutable[UInt32, "cell":1]):
    hawk.scatter(cell, policy="or")[0] |= uint32(select(v > 1.0, 1, 0))
