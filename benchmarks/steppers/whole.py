"""The models for tools that write one sample and a whole batch alike."""

from collections.abc import Callable
from typing import Any

from steppers.bodies import rk4

SHARED = ("dt", "tolerance", "drag")  # what all samples have in common


def functions(model: str, trial: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`step(state, **fixed) -> state` and `done(state, **fixed)`; a trial step of the orbit by the tool's functions."""

    def osc(state: Any, omega: Any, zeta: Any, nstop: Any, dt: Any, drag: Any = 1.0) -> Any:
        x, v, k = state
        return (*rk4(x, v, omega * omega, 2.0 * zeta * omega * drag, dt), k + 1.0)

    def table(state: Any, omega: Any, zeta: Any, nstop: Any, dt: Any, medium: Any, drag: Any) -> Any:
        return osc(state, omega, zeta, nstop, dt, drag[medium])

    def orbit(state: Any, end: Any, tolerance: Any) -> Any:
        *moved, k = state
        return (*trial(*moved, end, tolerance), k + 1.0)

    def counted(state: Any, nstop: Any, **_: Any) -> Any:
        return state[-1] >= nstop

    def arrived(state: Any, end: Any, **_: Any) -> Any:
        return state[4] >= end

    return {"osc": (osc, counted), "table": (table, counted), "orbit": (orbit, arrived)}[model]
