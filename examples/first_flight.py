# SPDX-License-Identifier: Apache-2.0
"""Two kernels over a million samples: deploy, run, bind, launch.

Run it with ``python first_flight.py [samples]``, in an environment that holds ``eagle[hawk]``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from flight_kernels import axpb, rotate

import eagle


def milliseconds(call: Callable[[], object], repeats: int = 9) -> float:
    """The median time of a call, after one that warms it up."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.median(times))


def worst(result: np.ndarray, reference: np.ndarray) -> float:
    """The largest difference, for values of size one.

    It is not always zero: by default hawk lets the compiler fuse ``a * x + b`` into one rounding, NumPy rounds twice.
    Set ``HAWK_HOST_PROFILE=native`` before the kernel is built to get NumPy's bits.
    """
    error = float(np.max(np.abs(result - reference), initial=0.0))
    assert error < 1e-14, f"off by {error}"
    return error


def line(what: str, ms: float, nbytes: int) -> None:
    print(f"  {what:34}{ms:9.3f} ms{nbytes / ms / 1e6:9.1f} GB/s")


def scalars(n: int, rng: np.random.Generator) -> None:
    x = rng.uniform(-1.0, 1.0, n)
    plan = eagle.deploy(axpb)

    y = plan.run(x=x, a=0.3, b=0.1)
    print(f"axpb: y = a*x + b over {n:,} samples; y[:3] = {y[:3]}, NumPy differs by {worst(y, 0.3 * x + 0.1):.1e}")
    assert np.array_equal(plan(x, 0.3, 0.1), y), "the kernel's own call form is the same call"

    bound = plan.bind(x=x, a=0.3, b=0.1, out=y)  # checked and packed once; launch does nothing but run
    y[:] = 0.0
    bound.launch()
    worst(y, 0.3 * x + 0.1)
    line("run, result allocated", milliseconds(lambda: plan.run(x=x, a=0.3, b=0.1)), 2 * x.nbytes)
    line("run, result in place", milliseconds(lambda: plan.run(x=x, a=0.3, b=0.1, out=y)), 2 * x.nbytes)
    line("bound launch", milliseconds(bound.launch), 2 * x.nbytes)
    line("NumPy", milliseconds(lambda: 0.3 * x + 0.1), 2 * x.nbytes)


def vectors(n: int, rng: np.random.Generator) -> None:
    angle = rng.uniform(-np.pi, np.pi, n)
    c, s, zero, one = np.cos(angle), np.sin(angle), np.zeros(n), np.ones(n)
    r = np.stack([c, -s, zero, s, c, zero, zero, zero, one])  # (9, n): component-major, like every plane
    v = rng.uniform(-1.0, 1.0, (3, n))
    plan = eagle.deploy(rotate)

    w = plan.run(r=r, v=v)
    reference = np.einsum("ijn,jn->in", r.reshape(3, 3, n), v)
    print(f"rotate: w = R v, a rotation of its own for each sample; w.shape = {w.shape}, "
          f"NumPy differs by {worst(w, reference):.1e}")
    bound = plan.bind(r=r, v=v, out=w)
    line("bound launch", milliseconds(bound.launch), r.nbytes + v.nbytes + w.nbytes)
    line("NumPy", milliseconds(lambda: np.einsum("ijn,jn->in", r.reshape(3, 3, n), v)), r.nbytes + v.nbytes + w.nbytes)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(1)
    scalars(n, rng)
    vectors(n, rng)


if __name__ == "__main__":
    main()
