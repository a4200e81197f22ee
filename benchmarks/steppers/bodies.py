"""One step of each model, written once: hawk traces it, Numba and JAX compile it, PyTorch runs it on tensors."""

from collections.abc import Callable
from typing import Any


def rk4(x0: Any, v0: Any, w2: Any, c: Any, dt: Any) -> Any:
    """A step of Runge and Kutta for a damped oscillator: position and speed after `dt`."""
    k1x = v0
    k1v = -w2 * x0 - c * v0
    x1 = x0 + 0.5 * dt * k1x
    v1 = v0 + 0.5 * dt * k1v
    k2x = v1
    k2v = -w2 * x1 - c * v1
    x2 = x0 + 0.5 * dt * k2x
    v2 = v0 + 0.5 * dt * k2v
    k3x = v2
    k3v = -w2 * x2 - c * v2
    x3 = x0 + dt * k3x
    v3 = v0 + dt * k3v
    k4x = v3
    k4v = -w2 * x3 - c * v3
    return (
        x0 + dt / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x),
        v0 + dt / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v),
    )


def dopri(
    where: Callable[..., Any],
    sqrt: Callable[..., Any],
    power: Callable[..., Any],
    clip: Callable[..., Any],
    compiled: Callable[..., Any] = lambda function: function,
) -> Any:
    """The trial step of Dormand and Prince for an orbit around a mass of 1, made of a tool's own functions.

    It takes position x, y, speed u, v, time t, the step size h to try, the end time and the tolerance. It returns the
    six after the trial: moved on where the estimated error is within the tolerance, and with the size to try next. The
    last step is cut to end at the end time. As the pull depends on the position alone, the stages of the speed are put
    into those of the position: their coefficients are those of the method's matrix times itself.
    """

    @compiled
    def pull(x: Any, y: Any) -> Any:
        r2 = x * x + y * y
        w = -1.0 / (r2 * sqrt(r2))
        return w * x, w * y

    @compiled
    def stage(x: Any, u: Any, s: Any, share: float, pulled: Any) -> Any:
        return x + s * (share * u + s * pulled)

    @compiled
    def speed(u: Any, s: Any, a1: Any, a3: Any, a4: Any, a5: Any, a6: Any) -> Any:
        return u + s * (35 / 384 * a1 + 500 / 1113 * a3 + 125 / 192 * a4 - 2187 / 6784 * a5 + 11 / 84 * a6)

    @compiled
    def errors(s: Any, a1: Any, a3: Any, a4: Any, a5: Any, a6: Any, a7: Any) -> Any:
        """Squares of the errors of position and speed, both divided by the step size."""
        ex = s * (611 / 230400 * a1 - 514 / 83475 * a3 + 391 / 38400 * a4 - 4617 / 1356800 * a5 - 11 / 3360 * a6)
        eu = 71 / 57600 * a1 - 71 / 16695 * a3 + 71 / 1920 * a4 - 17253 / 339200 * a5 + 22 / 525 * a6 - 1 / 40 * a7
        return ex * ex + eu * eu

    @compiled
    def trial(x: Any, y: Any, u: Any, v: Any, t: Any, h: Any, end: Any, tolerance: Any) -> Any:
        last = h >= end - t
        s = where(last, end - t, h)
        a1, b1 = pull(x, y)
        a2, b2 = pull(x + s * (0.2 * u), y + s * (0.2 * v))
        a3, b3 = pull(stage(x, u, s, 0.3, 9 / 200 * a1), stage(y, v, s, 0.3, 9 / 200 * b1))
        a4, b4 = pull(
            stage(x, u, s, 0.8, 4 / 5 * a2 - 12 / 25 * a1),
            stage(y, v, s, 0.8, 4 / 5 * b2 - 12 / 25 * b1),
        )
        a5, b5 = pull(
            stage(x, u, s, 8 / 9, 7208 / 2187 * a2 - 12248 / 6561 * a1 - 6784 / 6561 * a3),
            stage(y, v, s, 8 / 9, 7208 / 2187 * b2 - 12248 / 6561 * b1 - 6784 / 6561 * b3),
        )
        a6, b6 = pull(
            stage(x, u, s, 1.0, 91 / 22 * a2 - 533 / 264 * a1 - 56 / 33 * a3 + 7 / 88 * a4),
            stage(y, v, s, 1.0, 91 / 22 * b2 - 533 / 264 * b1 - 56 / 33 * b3 + 7 / 88 * b4),
        )
        x7 = stage(x, u, s, 1.0, 35 / 384 * a1 + 50 / 159 * a3 + 25 / 192 * a4 - 243 / 6784 * a5)
        y7 = stage(y, v, s, 1.0, 35 / 384 * b1 + 50 / 159 * b3 + 25 / 192 * b4 - 243 / 6784 * b5)
        a7, b7 = pull(x7, y7)
        scale = s / tolerance
        squares = errors(s, a1, a3, a4, a5, a6, a7) + errors(s, b1, b3, b4, b5, b6, b7)
        error = 0.25 * scale * scale * squares
        good = error <= 1.0
        return (
            where(good, x7, x),
            where(good, y7, y),
            where(good, speed(u, s, a1, a3, a4, a5, a6), u),
            where(good, speed(v, s, b1, b3, b4, b5, b6), v),
            where(good, where(last, end, t + s), t),
            s * clip(0.9 * power(error + 1e-30, -0.1), 0.2, 5.0),
        )

    return trial
