# SPDX-License-Identifier: Apache-2.0
"""hawk kernels that finish their samples, one of each form. hawk traces source text, so they live in a file.

Most of them count their steps in `k` and stop at the plane `stop`; what the others wait for is made from `stop` by
stepping_forms.py.
"""

from __future__ import annotations

import hawk
import hawk.math as m
from hawk import (
    Grid,
    Index,
    Int32,
    Matrix,
    Mutable,
    Param,
    Scalar,
    Staged,
    Table,
    Terminated,
    UInt32,
    Vector,
    Wide,
    WideOut,
)
from hawk.ext import Guard, Kind

ACTIVE = Kind("active", guard=Guard(active_set=True))
TWO_MASKS = Kind("two_masks", guard=Guard(masks=("terminated", "rejected")))


# ---- automatic: the launch reads its steps from a word -------------------------------------------------------------


@hawk.kernel
def linear(a: Param, b: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = a * x + b
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def countdown(terminated: Terminated, left: Mutable[Scalar]):
    left -= 1.0
    terminated = left <= 0.0


@hawk.kernel
def decay(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel
def oscillator(omega: Scalar, zeta: Scalar, stop: Scalar, dt: Param, terminated: Terminated,
               x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    w2 = omega * omega
    c = 2.0 * zeta * omega
    x0, v0 = x, v
    k1x = v0
    k1v = -w2 * x0 - c * v0
    k2x = v0 + 0.5 * dt * k1v
    k2v = -w2 * (x0 + 0.5 * dt * k1x) - c * k2x
    k3x = v0 + 0.5 * dt * k2v
    k3v = -w2 * (x0 + 0.5 * dt * k2x) - c * k3x
    k4x = v0 + dt * k3v
    k4v = -w2 * (x0 + dt * k3x) - c * k4x
    x = x0 + dt / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x)
    v = v0 + dt / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def frames(f: Vector[2], w: Matrix[2, 3], stop: Scalar, terminated: Terminated,
           p: Mutable[Vector[2]], q: Mutable[Matrix[2, 3]], k: Mutable[Scalar]):
    q = q * 0.5 + w
    p = p * 0.875 + f * q[0, 1]
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def series(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    s = 1.0
    for _j in range(5):
        s = s * a + 0.5
    x = 0.5 * x + s
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def chain(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.log(2.0 + m.exp(m.sin(x * a)) + m.sqrt(1.0 + x * x))
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def collatz(terminated: Terminated, x: Mutable[Scalar], highest: Mutable[Scalar]):
    half = m.floor(x * 0.5)
    if x > 2.0 * half:  # noqa: SIM108  an `if` of hawk
        x = 3.0 * x + 1.0
    else:
        x = half
    highest = m.maximum(highest, x)
    terminated = x == 1.0


@hawk.kernel
def integers(i: Index, u: UInt32, stop: Int32, terminated: Terminated,
             o: Mutable[Index], p: Mutable[Int32], q: Mutable[UInt32]):
    o = o * 3 + i
    q = q + u
    p = p + 1
    terminated = p >= stop


@hawk.kernel
def counts_samples(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + m.real(m.n_samples())
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def own_index(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + m.real(m.sample_index())
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def one_draw(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + m.random_uniform(7, 3)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def table_read(i: Index, t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
               k: Mutable[Scalar]):
    x = x * 0.5 + t.at(i)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def table_at_own_index(t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
                       k: Mutable[Scalar]):
    x = x * 0.5 + t.at(m.sample_index())
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def neighbour(i: Index, u: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + u.at(i)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def in_stages(i: Index, f: Staged[Vector[3], 50], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
              k: Mutable[Scalar]):
    x = x * 0.5 + f.at(plane=2, sample=i)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def wide(e: Index, b: Wide[4], stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + b.at(edge=e, component=2)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def write_only(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], last: Mutable[Scalar],
               k: Mutable[Scalar]):
    last = a * 3.0
    x = x + a
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def unused(a: Scalar, spare: Scalar, b: Param, stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
           k: Mutable[Scalar]):
    x = x * 0.5 + a
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def mixed(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def switched(kind: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="switch")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def mixed_vectors(kind: Index, stop: Scalar, terminated: Terminated, p: Mutable[Vector[3]], k: Mutable[Scalar]):
    p = m.dispatch(kind, [p * 0.5, p + m.vec(1.0, 1.0, 1.0)], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def two_groups(one: Index, two: Index, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    y = m.dispatch(one, [x * 0.5, x + 1.0], policy="auto")
    x = m.dispatch(two, [y * 0.25, m.sin(y), y - 1.0], policy="auto")
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def wandering(stop: Scalar, terminated: Terminated, kind: Mutable[Index], x: Mutable[Scalar], k: Mutable[Scalar]):
    x = m.dispatch(kind, [x * 0.5, x + 1.0, m.sin(x)], policy="auto")
    kind = m.index(m.absolute(x) * 1.5, 3)
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def grid(lane: Grid["row", "col":8], a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
         k: Mutable[Scalar]):
    x = x * 0.5 + a
    k += 1.0
    terminated = k >= stop


@hawk.kernel
def grid_column(lane: Grid["row", "col":8], a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
                k: Mutable[Scalar]):
    x = x * 0.5 + a * m.real(lane.col)
    k += 1.0
    terminated = k >= stop


@TWO_MASKS
def two_masks(a: Scalar, stop: Scalar, terminated: Terminated, rejected: Terminated, x: Mutable[Scalar],
              k: Mutable[Scalar]):
    x = x * 0.5 + a
    k += 1.0
    terminated = k >= stop


# ---- integrators ---------------------------------------------------------------------------------------------------


@hawk.kernel
def tabled_oscillator(omega: Scalar, force: Table[Scalar], i: Index, stop: Scalar, dt: Param, terminated: Terminated,
                      x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    w2 = omega * omega
    g = force.at(i)
    k1x = v
    k1v = g - w2 * x
    k2x = v + 0.5 * dt * k1v
    k2v = g - w2 * (x + 0.5 * dt * k1x)
    k3x = v + 0.5 * dt * k2v
    k3v = g - w2 * (x + 0.5 * dt * k2x)
    k4x = v + dt * k3v
    k4v = g - w2 * (x + dt * k3x)
    x = x + dt / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x)
    v = v + dt / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v)
    k += 1.0
    terminated = k >= stop


def pull(s):
    """The derivative of (x, y, vx, vy) around a unit mass at the origin."""
    square = s[0] * s[0] + s[1] * s[1]
    weight = -1.0 / (square * m.sqrt(square))
    return m.vec(s[2], s[3], weight * s[0], weight * s[1])


@hawk.kernel
def orbit(t_end: Scalar, tol: Param, terminated: Terminated, s: Mutable[Vector[4]], t: Mutable[Scalar],
          h: Mutable[Scalar], k: Mutable[Scalar]):
    """Dormand-Prince 5(4): one attempt a step. An attempt whose error is too large changes only `h` and `k`."""
    left = t_end - t
    d = m.minimum(h, left)
    k1 = pull(s)
    k2 = pull(s + k1 * (d * 0.2))
    k3 = pull(s + (k1 * 0.075 + k2 * 0.225) * d)
    k4 = pull(s + (k1 * (44.0 / 45.0) - k2 * (56.0 / 15.0) + k3 * (32.0 / 9.0)) * d)
    k5 = pull(s + (k1 * (19372.0 / 6561.0) - k2 * (25360.0 / 2187.0) + k3 * (64448.0 / 6561.0)
                   - k4 * (212.0 / 729.0)) * d)
    k6 = pull(s + (k1 * (9017.0 / 3168.0) - k2 * (355.0 / 33.0) + k3 * (46732.0 / 5247.0) + k4 * (49.0 / 176.0)
                   - k5 * (5103.0 / 18656.0)) * d)
    after = s + (k1 * (35.0 / 384.0) + k3 * (500.0 / 1113.0) + k4 * (125.0 / 192.0) - k5 * (2187.0 / 6784.0)
                 + k6 * (11.0 / 84.0)) * d
    k7 = pull(after)
    e = (k1 * (71.0 / 57600.0) - k3 * (71.0 / 16695.0) + k4 * (71.0 / 1920.0) - k5 * (17253.0 / 339200.0)
         + k6 * (22.0 / 525.0) - k7 * (1.0 / 40.0)) * d
    error = m.sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2] + e[3] * e[3]) / tol
    grow = m.minimum(5.0, m.maximum(0.2, 0.9 * m.power(m.maximum(error, 1e-10), -0.2)))
    if error <= 1.0:
        s = after
        t = t + d
    h = d * grow
    k += 1.0
    terminated = t_end - t <= 1e-9


# ---- steps of a fixed number a launch: see FIXED in stepping_forms.py ----------------------------------------------


@hawk.kernel(steps=1)
def one_step(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * a + 0.25
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def vector_step(f: Vector[3], stop: Scalar, terminated: Terminated, p: Mutable[Vector[3]], k: Mutable[Scalar]):
    p = p * 0.5 + f
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def newton(a: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    before = x
    for _j in range(2):
        x = 0.9375 * x + 0.0625 * a / x
    k += 1.0
    terminated = m.absolute(x - before) < 1e-6


@hawk.kernel(steps=1)
def random_walk(wall: Scalar, seed: Index, terminated: Terminated, x: Mutable[Scalar], c: Mutable[Index]):
    x = x + m.random_normal(seed, c)
    c = c + 1
    terminated = m.absolute(x) >= wall


@hawk.kernel(steps=1)
def pointer(table: Table[Scalar], stop: Scalar, terminated: Terminated, i: Mutable[Index], x: Mutable[Scalar],
            k: Mutable[Scalar]):
    x = x * 0.5 + table.at(i)
    i = m.index(table.at(i) * 64.0, 64)
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def own_column(a: Scalar, stop: Scalar, terminated: Terminated, k: Mutable[Scalar], b: WideOut[Scalar]):
    b = a * 2.0 + k
    k += 1.0
    terminated = k >= stop


@hawk.kernel(steps=1)
def bins(i: Index, a: Scalar, stop: Scalar, terminated: Terminated, k: Mutable[Scalar], acc: Mutable["bin":16]):
    k += 1.0
    hawk.scatter(acc, policy="plain")[i] += a * k
    terminated = k >= stop


@hawk.kernel(steps=1)
def keyed(i: Index, a: Scalar, stop: Scalar, terminated: Terminated, k: Mutable[Scalar], acc: Mutable["bin":16]):
    k += 1.0
    hawk.scatter(acc)[i] += a * k
    terminated = k >= stop


@hawk.kernel(steps=1)
def summed(a: Scalar, stop: Scalar, terminated: Terminated, k: Mutable[Scalar], total: Mutable[Scalar]):
    total = hawk.sum(a * k)
    k += 1.0
    terminated = k >= stop


# ---- compacting ----------------------------------------------------------------------------------------------------


@ACTIVE
def live_linear(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * a + 0.25
    k += 1.0
    terminated = k >= stop


@ACTIVE(steps=1)
def live_one_step(a: Scalar, stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * a + 0.25
    k += 1.0
    terminated = k >= stop


@ACTIVE
def live_integers(i: Index, u: UInt32, stop: Int32, terminated: Terminated,
                  o: Mutable[Index], p: Mutable[Int32], q: Mutable[UInt32]):
    o = o * 3 + i
    q = q + u
    p = p + 1
    terminated = p >= stop


@ACTIVE
def live_index(stop: Scalar, terminated: Terminated, x: Mutable[Scalar], k: Mutable[Scalar]):
    x = x * 0.5 + m.real(m.sample_index())
    k += 1.0
    terminated = k >= stop


@ACTIVE
def live_table(i: Index, t: Table[Scalar], stop: Scalar, terminated: Terminated, x: Mutable[Scalar],
               k: Mutable[Scalar]):
    x = x * 0.5 + t.at(i)
    k += 1.0
    terminated = k >= stop


@ACTIVE
def live_vector(f: Vector[3], stop: Scalar, terminated: Terminated, p: Mutable[Vector[3]], k: Mutable[Scalar]):
    p = p * 0.5 + f
    k += 1.0
    terminated = k >= stop


# ---- kernels beside a finishing one --------------------------------------------------------------------------------


@hawk.kernel
def gauge(y: Scalar, terminated: Terminated, e: Mutable[Scalar]):
    e = y * y


@hawk.kernel
def counter(steps_seen: Mutable[Scalar]):
    steps_seen = steps_seen + 1.0


@hawk.kernel
def pushed(a: Scalar, terminated: Terminated, y: Mutable[Scalar]):
    y = y + a


@hawk.kernel
def running_total(y: Scalar, terminated: Terminated, total: Mutable[Scalar]):
    total = hawk.sum(y)


@hawk.kernel(steps=1)
def stop_above(y: Scalar, wall: Scalar, terminated: Terminated, crossed: Mutable[Scalar]):
    crossed = crossed + y
    terminated = y > wall


@hawk.kernel(steps=1)
def stop_at(stop: Scalar, terminated: Terminated, k: Mutable[Scalar]):
    k += 1.0
    terminated = k >= stop
