# SPDX-License-Identifier: Apache-2.0
"""Steps kernels as the process's profile builds them, however a run is cut; test_stepping_profile.py runs it.

Prints what came out otherwise: the model, and what was done with it.
"""

import sys

import numpy as np
from stepping_forms import MODELS

import eagle

FORMS = ("plain arithmetic", "plain arithmetic, float32", "decay", "RK4 oscillator", "RK4 oscillator, float32",
         "vectors and matrices", "sin, exp, log", "integer planes", "Table", "RK4 with a Table", "orbit", "steps=1",
         "steps=4", "steps=1, vector", "compacting", "compacting, steps=1", "compacting, Table")
FUSED = FORMS[:7]  # whose launches take several steps: for them other paces have the same bits
N = 1003


def stepped(model, planes, cap, policy="auto", runs=1):
    """Copies of the planes, the mask and the steps of each run after so many runs."""
    part = {name: plane.copy() if isinstance(plane, np.ndarray) else plane for name, plane in planes.items()}
    runner = eagle.until_done(model.plan, max_steps=cap, **part)
    runner.host_policy = policy
    reports = [runner.run() for _ in range(runs)]
    arrays = {name: plane for name, plane in part.items() if isinstance(plane, np.ndarray)}
    return arrays, runner.terminated.copy(), reports


def alike(one, other):
    return np.array_equal(one[1], other[1]) and all(
        plane.tobytes() == other[0][name].tobytes() for name, plane in one[0].items())


def cut(planes, start, stop):
    return {name: np.ascontiguousarray(plane[..., start:stop]) if is_long(plane) else plane
            for name, plane in planes.items()}


def is_long(plane):
    return isinstance(plane, np.ndarray) and plane.shape[-1] == N


def off_by(plane):
    """The plane in memory that begins 24 bytes behind a cache line."""
    room = np.empty(plane.nbytes + 128, np.uint8)
    at = -room.ctypes.data % 64 + 24
    moved = room[at:at + plane.nbytes].view(plane.dtype).reshape(plane.shape)
    moved[...] = plane
    return moved


def differences(name):
    model = MODELS[name]
    planes = model.planes(N, 3, "spread")
    whole = stepped(model, planes, 150)
    for threads in (2, 3):
        before = eagle.set_num_threads(threads)
        if not alike(whole, stepped(model, planes, 150)):
            yield f"{threads} threads"
        eagle.set_num_threads(before)
    for start, stop in ((5, N), (0, 1), (1, 8), (3, 70), (500, 757)):
        part = stepped(model, cut(planes, start, stop), 150)
        if not alike((cut(whole[0], start, stop), whole[1][start:stop]), part):
            yield f"samples {start} to {stop}"
    moved = {key: off_by(plane) if is_long(plane) else plane for key, plane in planes.items()}
    given = dict(moved)
    runner = eagle.until_done(model.plan, max_steps=150, **given)
    runner.run()
    if not alike(whole, ({key: given[key] for key in whole[0]}, runner.terminated)):
        yield "planes elsewhere in their cache lines"
    for cap in (2, 3, 17, 18, 63, 64, 65, 66, 67, 129, 131) if name in FUSED else ():
        if not alike(stepped(model, planes, cap), stepped(model, planes, cap, "band")):
            yield f"the portable loop, cap {cap}"
    if name in FUSED:
        once, twice = stepped(model, planes, 150), stepped(model, planes, 75, runs=2)
        if not alike(once, twice):
            yield "two runs"
        steps = max(map(int, np.atleast_1d(whole[0]["k"]).ravel())) if "k" in whole[0] else None
        report = whole[2][0]
        if report.exact_steps and steps is not None and report.steps != steps:
            yield f"steps {report.steps} for {steps}"


for form in FORMS:
    for what in differences(form):
        print(f"{form}: {what}", file=sys.stdout)
