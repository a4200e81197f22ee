# SPDX-License-Identifier: Apache-2.0
"""Kernels over integer planes, masks, integer parameters, tables, wide buffers and neighbours."""

from __future__ import annotations

import hawk
import hawk.math
from hawk import (
    Index,
    Int32,
    Mutable,
    Param,
    Scalar,
    Sorted,
    Staged,
    Table,
    Terminated,
    UInt32,
    Vector,
    Wide,
    WideOut,
)


@hawk.kernel
def integers(i: Index, k: Int32, u: UInt32, o: Mutable[Index], p: Mutable[Int32], q: Mutable[UInt32]):
    o = i * 2 + 1
    p = k * 3
    q = u + u


@hawk.kernel
def counters(k: Int32, u: UInt32, i: Index, p: Mutable[Int32], q: Mutable[UInt32], o: Mutable[Index]):
    p = p + k
    q = q + u
    o = o + i


@hawk.kernel
def sorted_ids(k: Sorted[Index], x: Scalar) -> Scalar:
    return x + hawk.math.real(k)


@hawk.kernel
def masked(x: Scalar, terminated: Terminated, y: Mutable[Scalar]):
    y = x * 2.0


@hawk.kernel
def int_params(x: Scalar, n: Param[Int32], u: Param[UInt32]):
    return x * hawk.math.real(n) + hawk.math.real(u)


@hawk.kernel
def table(i: Index, t: Table[Scalar], y: Mutable[Scalar]):
    y = t.at(i)


@hawk.kernel
def table_axes(i: Index, j: Index, t: Table["row":4, "col":3], y: Mutable[Scalar]):
    y = t.at(row=i, col=j)


@hawk.kernel
def table_rows(i: Index, t: Table["elem", "c":3], y: Mutable[Scalar]):
    y = t.at(elem=i, c=0) - t.at(elem=i, c=2)


@hawk.kernel
def staged(i: Index, f: Staged[Vector[3], 50], y: Mutable[Scalar]):
    y = f.at(plane=1, sample=i)


@hawk.kernel
def wide(e: Index, b: Wide[4], y: Mutable[Scalar]):
    y = b.at(edge=e, component=2)


@hawk.kernel
def wide_out(x: Scalar, b: WideOut[Scalar]):
    b = x * 2.0


@hawk.kernel
def neighbour(x: Scalar, i: Index, y: Mutable[Scalar]):
    y = x.at(i) - x


@hawk.kernel
def constant(t: Table[Scalar], y: Mutable[Scalar]):
    y = t.at(1)
