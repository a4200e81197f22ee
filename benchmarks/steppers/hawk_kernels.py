"""The models as hawk kernels, for this project and the peer. hawk traces source text, so they live in a file."""

import hawk
from hawk import Index, Mutable, Param, Scalar, Table, Terminated
from hawk.ext import Guard, Kind
from hawk.math import clip, power, sqrt, where

from steppers.bodies import dopri, rk4

trial = dopri(where, sqrt, power, clip)


@hawk.kernel
def osc(omega: Scalar, zeta: Scalar, nstop: Scalar, dt: Param, terminated: Terminated,
        x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    """An oscillator that stops after its own number of steps."""
    x, v = rk4(x, v, omega * omega, 2.0 * zeta * omega, dt)
    k += 1.0
    terminated = k >= nstop


@hawk.kernel(kind=Kind("active", guard=Guard(active_set=True)))
def osc_compacting(omega: Scalar, zeta: Scalar, nstop: Scalar, dt: Param, terminated: Terminated,
                   x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    """The same, run through a map of the samples that go on."""
    x, v = rk4(x, v, omega * omega, 2.0 * zeta * omega, dt)
    k += 1.0
    terminated = k >= nstop


@hawk.kernel(steps=1)
def osc_one(omega: Scalar, zeta: Scalar, nstop: Scalar, dt: Param, terminated: Terminated,
            x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    """The same, built to take one step a launch."""
    x, v = rk4(x, v, omega * omega, 2.0 * zeta * omega, dt)
    k += 1.0
    terminated = k >= nstop


@hawk.kernel(steps=8)
def osc_eight(omega: Scalar, zeta: Scalar, nstop: Scalar, dt: Param, terminated: Terminated,
              x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    """The same, built to take eight steps a launch."""
    x, v = rk4(x, v, omega * omega, 2.0 * zeta * omega, dt)
    k += 1.0
    terminated = k >= nstop


@hawk.kernel
def table(omega: Scalar, zeta: Scalar, nstop: Scalar, dt: Param, medium: Index, drag: Table[Scalar],
          terminated: Terminated, x: Mutable[Scalar], v: Mutable[Scalar], k: Mutable[Scalar]):
    """The oscillator in one of several media: its damping is read from a table."""
    x, v = rk4(x, v, omega * omega, 2.0 * zeta * omega * drag.at(medium), dt)
    k += 1.0
    terminated = k >= nstop


@hawk.kernel
def orbit(end: Scalar, tolerance: Param, terminated: Terminated, x: Mutable[Scalar], y: Mutable[Scalar],
          u: Mutable[Scalar], v: Mutable[Scalar], t: Mutable[Scalar], h: Mutable[Scalar], k: Mutable[Scalar]):
    """An orbit with a step size of its own for each sample, until its end time."""
    x, y, u, v, t, h = trial(x, y, u, v, t, h, end, tolerance)
    k += 1.0
    terminated = t >= end
