# SPDX-License-Identifier: Apache-2.0
"""What the tests of graphs make their nodes of."""

from __future__ import annotations

from typing import Any

import numpy as np

import eagle
from eagle import opaque
from eagle.graph import Node

Array = np.ndarray[Any, Any]


def u32(*values: int) -> Array:
    return np.array(values, np.uint32)


def ramp(n: int = 8) -> Array:
    return np.linspace(-1.0, 2.0, n)


def bind(kernel: Any, **planes: Any) -> Any:
    return eagle.deploy(kernel).bind(**planes)


def nothing() -> None: ...


def touching(reads: Any = (), writes: Any = (), name: str | None = None) -> Node:
    return opaque(nothing, reads=reads, writes=writes, name=name)


def add_one(x: Array) -> Node:
    return opaque(lambda: np.add(x, 1, out=x, casting="unsafe"), reads={"x": x}, writes={"x": x})
