# SPDX-License-Identifier: Apache-2.0
"""hawk kernels with a dispatch group, one of each form that a split has to get right. hawk traces source text, so they
live in a file."""

from __future__ import annotations

import hawk
import hawk.math as m
from hawk import Index, Int32, Matrix, Mutable, Param, Scalar, Table, Terminated, UInt32, Vector
from hawk.ext import Guard, Kind

ACTIVE = Kind("active", guard=Guard(active_set=True))
TWO_MASKS = Kind("two_masks", guard=Guard(masks=("terminated", "rejected")))


@hawk.kernel
def table(kind: Index, i: Index, t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
          k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5 + t.at(i), x + 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def shapes(kind: Int32, a: Param, f: Vector[2], stop: Scalar, terminated: Terminated, p: Mutable[Vector[2]],
           q: Mutable[Matrix[2, 2]], k: Mutable[Scalar]):
    p = m.dispatch(kind, [p * a + f, p - f, f * q[0, 1]], policy="auto")
    q = q * 0.75
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def unsigned(kind: UInt32, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(m.index(m.real(kind) * 1.0, 9), [x * 0.5, x + 1.0, x - 3.0, x * x * 0.25], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def computed(a: Scalar, b: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    """Its selector is an expression."""
    x = m.dispatch(m.index(a + b * 2.0, 4), [x * 0.5, x + 1.0, x - 3.0, x * x * 0.25], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def own_index(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5 + m.real(m.sample_index()), x + 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def draws(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5 + m.random_uniform(7, 3), x + 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def one_step(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=4)
def four_steps(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@ACTIVE
def live(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    k += 1.0
    terminated = k >= stop


@ACTIVE(steps=1)
def live_one_step(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    k += 1.0
    terminated = k >= stop


@TWO_MASKS
def two_masks(kind: Index, stop: Scalar, terminated: Terminated, rejected: Terminated, x: Mutable[Scalar],
              k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def stops(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    """Its stop rule is what the group gives."""
    x = m.dispatch(kind, [x + 1.0, x + 2.0, x + 0.5], policy="auto")
    k += 1.0
    terminated = x >= stop


@hawk.kernel
def ages(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    """Its step changes its selector, which is an expression."""
    x = m.dispatch(m.index(k * 0.25, 3), [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    k += 1.0
    terminated = k >= stop


def _long(x):
    s = x
    for i in range(40):
        s = s * x + (0.25 + 0.015625 * i)
    return s * 2.0**-40


@hawk.kernel
def long_branch(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [_long(x), x * 0.5], policy="auto")
    k += 1.0
    terminated = k >= stop


# ---- what cannot be split ------------------------------------------------------------------------------------------


@hawk.kernel
def seventeen(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x + 1.0, x + 2.0, x + 3.0, x + 4.0, x + 5.0, x + 6.0, x + 7.0, x + 8.0, x + 9.0, x + 10.0,
                          x + 11.0, x + 12.0, x + 13.0, x + 14.0, x + 15.0, x + 16.0, x + 17.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def in_a_loop(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    y = x
    for _j in range(3):
        y = m.dispatch(kind, [y * 0.5, y + 1.0], policy="auto")
    x = y
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def in_front_of_a_loop(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    """Its loop uses what the group gives."""
    d = m.dispatch(kind, [0.5, 0.25], policy="auto")
    for _j in range(5):
        x = x * d + 0.25
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def bins(kind: Index, i: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar],
         acc: Mutable["bin":8]):
    y = m.dispatch(kind, [x * 0.5, x + 1.0], policy="auto")
    hawk.scatter(acc, policy="plain")[i] += y
    x = y
    k += 1.0
    terminated = k >= stop
