# SPDX-License-Identifier: Apache-2.0
"""What the kernels of kernels.py compute, by NumPy: ``{form: (kernel, planes(n), uniforms, expected(planes))}``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kernels
import numpy as np

Planes = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """One kernel form. `inputs(rng, n, dtype)` makes its planes; `expected(planes)` its outputs after one launch."""

    kernel: Any
    inputs: Callable[[np.random.Generator, int, type], Planes]
    uniforms: dict[str, float]
    expected: Callable[[Planes], Planes]


def _normal(rng: np.random.Generator, dtype: type, *shape: int) -> np.ndarray[Any, Any]:
    return rng.normal(size=shape).astype(dtype)


def _double(p: Planes) -> Planes:
    x = np.where(p["terminated"], p["x"], p["x"] * 2)
    return {"x": x, "terminated": p["terminated"] | (x > p["limit"])}


FORMS = {
    "scalar": Form(kernels.scale, lambda r, n, t: {"x": _normal(r, t, n)}, {"a": 1.5, "b": -0.25},
                   lambda p: {"out": p["a"] * p["x"] + p["b"]}),
    "tuple": Form(kernels.sum_difference, lambda r, n, t: {"x": _normal(r, t, n), "y": _normal(r, t, n)}, {},
                  lambda p: {"out0": p["x"] + p["y"], "out1": p["x"] - p["y"]}),
    "dict": Form(kernels.named, lambda r, n, t: {"x": _normal(r, t, n), "v": _normal(r, t, 3, n)}, {"a": 0.75},
                 lambda p: {"moved": p["v"] * p["a"], "shifted": p["x"] + p["a"]}),
    "vector, matrix, quat": Form(
        kernels.shapes,
        lambda r, n, t: {"p": _normal(r, t, 3, n), "m": _normal(r, t, 6, n), "q": _normal(r, t, 4, n),
                         "s": _normal(r, t, n)},
        {"a": 2.5},
        lambda p: {"vector": p["p"] * p["a"], "matrix": p["m"] * p["s"], "quat": p["q"] * p["s"],
                   "scalar": p["s"] * p["a"]}),
    "mutable with prior": Form(kernels.advance, lambda r, n, t: {"v": _normal(r, t, 3, n), "x": _normal(r, t, 3, n)},
                               {"dt": 0.125}, lambda p: {"x": p["x"] + p["v"] * p["dt"]}),
    "mutable": Form(kernels.into, lambda r, n, t: {"x": _normal(r, t, n)}, {"a": 3.0},
                    lambda p: {"y": p["x"] * p["a"]}),
    "mutables and a return": Form(
        kernels.mixed, lambda r, n, t: {"x": _normal(r, t, n), "k": _normal(r, t, n)}, {"a": 0.5},
        lambda p: {"y": p["x"] * p["a"], "k": p["k"] + p["x"], "out": p["x"] - p["a"]}),
    "terminated": Form(
        kernels.double_until,
        lambda r, n, t: {"x": _normal(r, t, n), "limit": _normal(r, t, n), "terminated": r.integers(0, 2, n) > 0},
        {}, _double),
}


def bits(array: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def typed(form: Form, planes: Planes, dtype: type) -> Planes:
    """`planes` and the uniforms in the kernel's precision, for the oracle."""
    return {**planes, **{name: dtype(value) for name, value in form.uniforms.items()}}
