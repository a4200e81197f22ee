# SPDX-License-Identifier: Apache-2.0
"""What the tests of graphs make their nodes of."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


def refused(raised: type[Exception], *facts: str) -> Any:
    """Expects an exception of exactly that class whose message has each of the facts, and the form of a refusal."""
    class Expected:
        def __enter__(self) -> None: ...

        def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
            assert kind is raised, f"wanted {raised}, found {error!r}"
            text = str(error)
            assert [fact for fact in facts if fact not in text] == [], text
            assert ": found " in text and ", wanted " in text
            return True

    return Expected()


def interrupted(call: Callable[[], object]) -> float:
    """The seconds from a Ctrl-C to the end of a call that it ends."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.2, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        call()
    took = time.perf_counter() - sent[0]
    timer.join()
    return took
