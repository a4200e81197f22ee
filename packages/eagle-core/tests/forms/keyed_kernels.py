# SPDX-License-Identifier: Apache-2.0
"""Kernels that write by key: stores and keyed sums."""

from __future__ import annotations

import hawk
from hawk import Index, Int32, Mutable, Scalar, Sorted, Vector


@hawk.kernel
def keyed_store(k: Index, x: Scalar, b: Mutable["bin":64]):
    hawk.scatter(b)[k] = x


@hawk.kernel
def keyed_add(k: Index, x: Scalar, acc: Mutable["bin":64]):
    hawk.scatter(acc)[k] += x


@hawk.kernel
def keyed_plain(k: Index, x: Scalar, acc: Mutable["bin":64]):
    hawk.scatter(acc, policy="plain")[k] += x


@hawk.kernel
def keyed_or(k: Index, bits: Int32, m: Mutable[Int32, "word":8]):
    hawk.scatter(m, policy="or")[k] |= bits


@hawk.kernel
def keyed_vector(k: Index, v: Vector[3], acc: Mutable[Vector[3], "bin":8]):
    hawk.scatter(acc)[k] += v


@hawk.kernel
def keyed_axes(i: Index, j: Index, x: Scalar, acc: Mutable["row":4, "col":8]):
    hawk.scatter(acc)[i, j] += x


@hawk.kernel
def keyed_nodes(k: Index, x: Scalar, acc: Mutable["node"]):
    hawk.scatter(acc)[k] += x


@hawk.kernel
def keyed_sorted(k: Sorted[Index], x: Scalar, acc: Mutable["bin":16]):
    hawk.scatter(acc)[k] += x


@hawk.kernel
def keyed_beside(k: Index, x: Scalar, acc: Mutable["bin":16]) -> Scalar:
    hawk.scatter(acc)[k] += x
    return x * 2.0
