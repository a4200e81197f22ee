# SPDX-License-Identifier: Apache-2.0
"""Exchanging buffers leaves nothing behind. In a process of its own, whose peak of memory nobody else set."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXCHANGES = """
import resource
import numpy as np
from eagle.interop import import_buffer
from producers import OldProducer, Producer

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

a, producers = np.zeros(3), [Producer(np.zeros(3)), OldProducer(np.zeros(3))]

def fast(times):
    for _ in range(times):
        import_buffer(a).__dlpack__(max_version=(1, 0))

def chains(times):
    for producer in producers:
        for _ in range(times):
            np.from_dlpack(import_buffer(import_buffer(producer)))

def refusals(times):
    for _ in range(times):
        for wrong in ({"stream": 1}, {"require": strict}):
            try:
                import_buffer(producers[0], **wrong)
            except ValueError:
                pass

from eagle.interop import Requirements
strict = Requirements(count=4)
for exchange, times in ((fast, 10**6), (chains, 10**4), (refusals, 10**4)):
    exchange(1000)
    before = peak()
    exchange(times)
    print(exchange.__name__, peak() - before)
assert sum(p.made - p.deleted for p in producers) == 0
"""


def test_memory_does_not_grow() -> None:
    pytest.importorskip("resource", reason="needs-toolkit: no resource module")
    done = subprocess.run([sys.executable, "-c", f"import sys\n{EXCHANGES}"], capture_output=True, text=True,
                          cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    grew = {name: int(count) for name, count in (line.split() for line in done.stdout.splitlines())}
    assert grew.keys() == {"fast", "chains", "refusals"}
    assert max(grew.values()) < 2**20, grew
