# SPDX-License-Identifier: Apache-2.0
"""Kernels whose declarations say more than their sidecars: axes of tables, widths of integers, trees of returns."""

from __future__ import annotations

import hawk
import hawk.math
from hawk import Grid, Index, Int32, Mutable, Param, Scalar, Staged, Table, UInt32, Vector, Wide, WideOut


@hawk.kernel
def one_leaf(x: Scalar):
    return {"a": {"b": x + 1.0}}


@hawk.kernel
def one_cell(x: Scalar):
    return [hawk.max(x)]


@hawk.kernel
def pick(r: Index, c: Index, t: Table["row":4, "column":3]) -> Scalar:
    return t.at(row=r, column=c)


@hawk.kernel
def pick_open(r: Index, c: Index, t: Table["row", "column":3]) -> Scalar:
    return t.at(row=r, column=c)


@hawk.kernel
def pick_staged(r: Index, s: Staged[Vector[3], 4]) -> Scalar:
    return s.at(plane=1, sample=r)


@hawk.kernel
def pick_wide(r: Index, w: Wide[2]) -> Scalar:
    return w.at(edge=r, component=1)


@hawk.kernel
def narrow(x: Scalar, n: Param[Int32], u: Param[UInt32]) -> Scalar:
    return x * hawk.math.real(n) + hawk.math.real(u)


@hawk.kernel
def histogram(k: Index, w: Scalar, bins: Mutable["bin"]):
    hawk.scatter(bins)[k] += w


@hawk.kernel
def columns(lane: Grid["row", "col":8], x: Scalar, acc: Mutable["col"]):
    hawk.scatter(acc)[lane.col] += x


@hawk.kernel
def chosen_share(k: Index, x: Scalar) -> Scalar:
    v = hawk.math.dispatch(k, [x, x * 2.0, x * 3.0], policy="auto")
    return v / hawk.sum(v)


@hawk.kernel
def table_total(i: Index, t: Table[Scalar], s: Mutable[Scalar]):
    s = hawk.sum(t.at(i))


@hawk.kernel
def binned(k: Index, w: Scalar, acc: Mutable["bin"]) -> Scalar:
    hawk.scatter(acc)[k] += w
    return w * 2.0


@hawk.kernel
def own_and_keyed(x: Scalar, k: Index, b: WideOut[Scalar], acc: Mutable["bin":4]):
    b = x * 2.0
    hawk.scatter(acc, policy="plain")[k] += x


@hawk.kernel
def keyed_shares(x: Scalar, k: Index, acc: Mutable["bin":4]):
    hawk.scatter(acc, policy="plain")[k] += x / hawk.sum(x)


@hawk.kernel
def scaled(x: Scalar, a: Param) -> Scalar:
    return x * a
