"""Numba: a loop over the samples, shared by its threads, and inside it a loop over the steps of one."""

from typing import Any

import numba
import numpy as np

from steppers.batch import Batch
from steppers.bodies import dopri
from steppers.bodies import rk4 as plain_rk4
from steppers.inputs import CAP, batch

compiled = numba.njit(fastmath={"contract"})  # a fused multiply-add where it fits, as hawk's kernels have it
rk4 = compiled(plain_rk4)


@numba.njit(inline="always")
def where(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


@numba.njit(inline="always")
def power(base: Any, exponent: Any) -> Any:
    return base**exponent


@numba.njit(inline="always")
def clip(x: Any, low: Any, high: Any) -> Any:
    return min(max(x, low), high)


trial = dopri(where, np.sqrt, power, clip, compiled)
parallel = numba.njit(parallel=True, fastmath={"contract"})


@parallel
def osc(cap: int, omega: Any, zeta: Any, nstop: Any, dt: float, x: Any, v: Any, k: Any) -> None:
    for i in numba.prange(x.size):
        w2, c, stop = omega[i] * omega[i], 2.0 * zeta[i] * omega[i], nstop[i]
        xi, vi, ki = x[i], v[i], k[i]
        for _ in range(cap):
            xi, vi = rk4(xi, vi, w2, c, dt)
            ki += 1.0
            if ki >= stop:
                break
        x[i], v[i], k[i] = xi, vi, ki


@parallel
def table(
    cap: int, omega: Any, zeta: Any, nstop: Any, dt: float, x: Any, v: Any, k: Any, medium: Any, drag: Any
) -> None:
    for i in numba.prange(x.size):
        w2, c, stop = omega[i] * omega[i], 2.0 * zeta[i] * omega[i] * drag[medium[i]], nstop[i]
        xi, vi, ki = x[i], v[i], k[i]
        for _ in range(cap):
            xi, vi = rk4(xi, vi, w2, c, dt)
            ki += 1.0
            if ki >= stop:
                break
        x[i], v[i], k[i] = xi, vi, ki


@parallel
def orbit(cap: int, end: Any, tolerance: float, x: Any, y: Any, u: Any, v: Any, t: Any, h: Any, k: Any) -> None:
    for i in numba.prange(x.size):
        xi, yi, ui, vi, ti, hi, ki, stop = x[i], y[i], u[i], v[i], t[i], h[i], k[i], end[i]
        for _ in range(cap):
            xi, yi, ui, vi, ti, hi = trial(xi, yi, ui, vi, ti, hi, stop, tolerance)
            ki += 1.0
            if ti >= stop:
                break
        x[i], y[i], u[i], v[i], t[i], h[i], k[i] = xi, yi, ui, vi, ti, hi, ki


class Call(Batch):
    """One call of the compiled function, in place."""

    def __init__(self, model: str, mix: str, n: int) -> None:
        self.function, self.cap = globals()[model], CAP[model]
        self.function(self.cap, *batch(model, "once", 2).values())
        super().__init__(model, mix, n)

    def step(self) -> None:
        self.function(self.cap, *self.given.values())
