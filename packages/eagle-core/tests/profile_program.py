# SPDX-License-Identifier: Apache-2.0
"""Steps kernels as the process's profile builds them, however the batch is cut; test_stepping_profile.py runs it.

Prints the models whose samples have other bits in some cut than in the whole batch.
"""

import sys

import numpy as np
from stepping_forms import MODELS

import eagle

FORMS = ("plain arithmetic", "plain arithmetic, float32", "decay", "RK4 oscillator", "RK4 oscillator, float32",
         "vectors and matrices", "sin, exp, log", "integer planes", "Table", "RK4 with a Table", "orbit", "steps=1",
         "steps=4", "steps=1, vector", "compacting", "compacting, steps=1", "compacting, Table")
N, CAP = 1003, 150


def stepped(model, planes, start, stop, team, policy):
    """Samples [start, stop) of the batch by themselves."""
    part = {name: plane[..., start:stop].copy() if isinstance(plane, np.ndarray) and plane.shape[-1] == N else plane
            for name, plane in planes.items()}
    before = eagle.set_num_threads(team)
    try:
        runner = eagle.until_done(model.plan, max_steps=CAP, **part)
        runner.host_policy = policy
        runner.run()
    finally:
        eagle.set_num_threads(before)
    return {name: plane for name, plane in part.items() if isinstance(plane, np.ndarray)}, runner.terminated


def differs(model):
    planes = model.planes(N, 3, "spread")
    whole, done = stepped(model, planes, 0, N, 1, "auto")
    for start, stop, team in ((0, N, 2), (0, N, 3), (5, N, 1), (0, 1, 1), (1, 8, 1), (3, 70, 2), (500, 757, 2)):
        part, finished = stepped(model, planes, start, stop, team, "auto")
        if not np.array_equal(finished, done[start:stop]):
            return True
        for name, plane in part.items():
            alike = whole[name][..., start:stop] if plane.shape[-1] == stop - start else whole[name]
            if plane.tobytes() != np.ascontiguousarray(alike).tobytes():
                return True
    return False


print(*(name for name in FORMS if differs(MODELS[name])), sep="\n", file=sys.stdout)
