# SPDX-License-Identifier: Apache-2.0
"""hawk kernels that use their position, or seem to, in places where it is easy to overlook."""

from __future__ import annotations

import hawk
import hawk.math as m
from hawk import Index, Matrix, Mutable, Quat, Scalar, Sorted, Table, Terminated, Vector
from hawk.ext import Guard, Kind
from hawk.trace import raw_device

ACTIVE = Kind("active", guard=Guard(active_set=True))

twice = raw_device("(2.0 * hawk_raw_arg0)", access="sample_local")
placed = raw_device("static_cast<Real>(hawk_j)", access="sample_local")
of_others = raw_device("mut_x[aether::SampleIndex::make(0)].get()()", access="cross_sample_read")


@hawk.kernel(steps=1)
def raw_own(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = twice(x)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def raw_placed(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x + placed()
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def raw_of_others(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = 0.5 * x + of_others()
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def draw_in_a_loop(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    for j in range(3):
        x = x * 0.5 + m.random_uniform(7, j)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def index_in_a_loop(t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    for j in range(3):
        x = x * 0.5 + t.at(m.sample_index() + j)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def index_at_the_break(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    for _j in range(9):
        x = x * 0.5 + 1.0
        if x > m.real(m.sample_index()):
            break
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def index_in_a_branch(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + m.real(m.sample_index())], policy="switch")
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def index_at_the_stop(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5
    k += 1.0
    terminated = k >= stop + m.real(m.sample_index())


@hawk.kernel(steps=1)
def row_of_another(i: Index, f: Vector[3], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
                   k: Mutable[Scalar]):
    x = x * 0.5 + f.at(i)[1]
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def in_order(i: Sorted[Index], t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
             k: Mutable[Scalar]):
    x = x * 0.5 + t.at(i)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(group=32)
def grouped(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + a
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def table_in_a_loop(t: Table[Scalar], i: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
                    k: Mutable[Scalar]):
    for j in range(4):
        if x > 3.0:
            break
        x = x * 0.5 + t.at(i + j)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def turns(q: Quat, stop: Scalar, terminated: Terminated, v: Mutable[Vector[3]], k: Mutable[Scalar]):
    v = m.quat_rotate(q, v) * 0.5 + m.vec(0.5, 0.25, 0.125)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def solves(a: Matrix[3, 3], stop: Scalar, terminated: Terminated, v: Mutable[Vector[3]], k: Mutable[Scalar]):
    v = m.solve(a, v)[0] * 0.25 + m.vec(1.0, 2.0, 3.0)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def looping_table(t: Table[Scalar], i: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
                  k: Mutable[Scalar]):
    for _j in range(4):
        x = x * 0.5 + t.at(i)
    k += 1.0
    terminated = k >= stop


@ACTIVE
def looping_live(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    for _j in range(4):
        x = x * 0.5 + 1.0
    k += 1.0
    terminated = k >= stop
