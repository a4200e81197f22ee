# SPDX-License-Identifier: Apache-2.0
"""Kernels with a declared lane space."""

from __future__ import annotations

import hawk
import hawk.math
from hawk import Grid, Mutable, Scalar, Vector


@hawk.kernel
def grid(lane: Grid["row", "col":8], x: Scalar, y: Mutable[Scalar]):
    y = x + hawk.math.real(lane.col) * 0.5


@hawk.kernel
def grid_returned(lane: Grid["row", "col":8], x: Scalar):
    return {"twice": x * 2.0, "row": hawk.math.real(lane.row)}


@hawk.kernel
def grid_static(lane: Grid["row":4, "col":8], x: Scalar, y: Mutable[Scalar]):
    y = x * 2.0 + hawk.math.real(lane.row)


@hawk.kernel
def grid_vector(lane: Grid["row", "col":8], x: Scalar, v: Vector[2], y: Mutable[Vector[2]]):
    y = v * x


@hawk.kernel
def grid_broadcast(lane: Grid["row", "col":8], x: Scalar, b: Scalar, y: Mutable[Scalar]):
    y = x + b


@hawk.kernel
def grid_sum_columns(lane: Grid["row", "col":8], x: Scalar):
    return hawk.sum(x, over="col")


@hawk.kernel
def grid_sum_rows(lane: Grid["row", "col":8], x: Scalar):
    return hawk.sum(x, over="row")


@hawk.kernel
def grid_total(lane: Grid["row", "col":8], x: Scalar, s: Mutable[Scalar]):
    s = hawk.sum(x)


@hawk.kernel
def grid_share(lane: Grid["row", "col":8], x: Scalar):
    return x / hawk.sum(x, over="col")


@hawk.kernel
def grid_nodes(lane: Grid["row", "col":8], x: Scalar, acc: Mutable["node"]):
    hawk.scatter(acc)[lane.col] += x
