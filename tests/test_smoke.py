# SPDX-License-Identifier: Apache-2.0
"""A short flight through every native path; nox repeats it under the sanitizers."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import eagle

pytestmark = pytest.mark.smoke
KERNELS = Path(__file__).resolve().parents[1] / "examples" / "flight_kernels.py"


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flight_kernels", KERNELS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["flight_kernels"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("n", [0, 1, 7, 1000, 100_003])
def test_run_call_and_launch_agree(kernels: ModuleType, n: int) -> None:
    x = np.arange(n, dtype=np.float64)
    plan = eagle.deploy(kernels.axpb)
    wanted = 2.0 * x + 1.0  # exact, fused or not
    assert np.array_equal(plan.run(x=x, a=2.0, b=1.0), wanted)
    assert np.array_equal(plan(x, 2.0, 1.0), wanted)
    y = np.zeros(n)
    bound = plan.bind(x=x, a=2.0, b=1.0, out=y)
    bound.launch()
    assert np.array_equal(y, wanted)
    bound.rebind(b=3.0).launch()
    assert np.array_equal(y, wanted + 2.0)


def test_vectors(kernels: ModuleType) -> None:
    n = 1000
    r = np.repeat(np.array([0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0])[:, None], n, axis=1)
    v = np.arange(3.0 * n).reshape(3, n)
    assert np.array_equal(eagle.deploy(kernels.rotate).run(r=r, v=v), np.stack([-v[1], v[0], v[2]]))


def test_a_refusal_changes_nothing(kernels: ModuleType) -> None:
    y = np.zeros(8)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="out"):
        eagle.deploy(kernels.axpb).run(x=np.ones(8), a=1.0, b=1.0, out=y)
    assert not y.any()


def test_threads_launch_side_by_side(kernels: ModuleType) -> None:
    plan = eagle.deploy(kernels.axpb)
    x = np.arange(20_000.0)
    results = [np.zeros_like(x) for _ in range(4)]

    def work(number: int) -> None:
        bound = plan.bind(x=x, a=float(number), b=1.0, out=results[number])
        for _ in range(20):
            bound.launch()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in enumerate(results):
        assert np.array_equal(result, number * x + 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_launches(kernels: ModuleType) -> None:
    x, y = np.arange(100_003.0), np.zeros(100_003)
    bound = eagle.deploy(kernels.axpb).bind(x=x, a=2.0, b=0.0, out=y)
    bound.launch()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # a child that hangs ends itself
        y[:] = 0.0
        bound.launch()
        os._exit(0 if np.array_equal(y, 2.0 * x) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
