# SPDX-License-Identifier: Apache-2.0
"""Runs that are treated badly: the process ends, or forks, or planes go, in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stepping_forms import MODELS

import eagle

HERE = str(Path(__file__).parent)


def ran(program: str) -> subprocess.CompletedProcess[str]:
    head = f"import sys, os, threading, time\nsys.path.insert(0, {HERE!r})\nimport numpy as np, eagle\n" \
           "from stepping_forms import MODELS\n"
    return subprocess.run([sys.executable, "-c", head + program], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("progress", ["None", "lambda *told: None"])
@pytest.mark.parametrize("form", ["RK4 oscillator", "integers and a counter"])
def test_a_process_ends_while_a_thread_steps(form: str, progress: str) -> None:
    """A daemon's run does not keep it, and does not abort it."""
    done = ran(f"""
model = MODELS[{form!r}]
run = eagle.until_done(model.plan, max_steps=2**40, progress={progress}, **model.planes(1000, 3, "never"))
threading.Thread(target=run.run, daemon=True).start()
time.sleep(0.3)
print("end", flush=True)
""")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


@pytest.mark.parametrize("work", [
    "run.run()",
    "memory.memcpy(b.ctypes.data, a.ctypes.data, a.nbytes)",
    "active.compact()",
], ids=["progress", "memcpy", "compact"])
def test_a_process_ends_while_threads_come_back_for_the_interpreter(work: str) -> None:
    """The interpreter that is gone ends such a thread, which must not end the process."""
    done = ran(f"""
from eagle import _core as memory
model = MODELS["decay"]
a, b = np.zeros(1 << 18), np.zeros(1 << 18)
def work():
    planes = model.planes(100, 3, "never")
    run = eagle.until_done(model.plan, max_steps=2**40, progress=lambda *_: time.sleep(0.05), **planes)
    active = eagle.ActiveSet(np.zeros(1 << 18, bool))
    while True:
        {work}
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
class Slow:
    def __del__(self):
        time.sleep(0.3)
sys.modules["slow"] = Slow()
print("end", flush=True)
""")
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr


@pytest.mark.parametrize("leave", ["raise SystemExit(7)", "return"])
def test_a_child_that_is_forked_in_a_run_ends(leave: str) -> None:
    """Its parent's threads are not there; the parent's run goes on."""
    done = ran(f"""
model = MODELS["RK4 oscillator"]
planes = model.planes(3000, 3, "never")
pids = []
def progress(done, n, steps):
    if steps and not pids:
        pids.append(os.fork())
        if pids[0] == 0:
            {leave}
eagle.set_num_threads(2)
run = eagle.until_done(model.plan, max_steps=100_000, progress=progress, **planes)
try:
    report = run.run()
except RuntimeError as error:
    assert "forked" in str(error) and pids == [0], error
    os._exit(7)
assert pids[0] > 0 and report.steps == 100_000
print(os.waitstatus_to_exitcode(os.waitpid(pids[0], 0)[1]))
""")
    assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


@pytest.mark.parametrize("form", ["RK4 oscillator", "sample_index", "integers and a counter"])
@pytest.mark.parametrize("calls", [1, 2], ids=["as it begins", "in the middle"])
def test_a_plane_that_goes_in_a_run(form: str, calls: int) -> None:
    """What the function that is told of progress resizes is not written any more."""
    model = MODELS[form]
    planes = model.planes(2000, 3, "never")
    name = "x" if "x" in planes else next(key for key, plane in planes.items() if isinstance(plane, np.ndarray))
    told = []

    def progress(*_: int) -> None:
        told.append(1)
        if len(told) == calls:
            planes[name].resize(10, refcheck=False)

    run = eagle.until_done(model.plan, max_steps=10**9, progress=progress, **planes)
    run.host_threads = 1
    with pytest.raises(eagle.BufferRefused, match="moved"):
        run.run()
    assert len(told) == calls
