# SPDX-License-Identifier: Apache-2.0
"""A kernel that steps the samples of an active set."""

from __future__ import annotations

import hawk
from hawk import Mutable, Param, Scalar, Terminated
from hawk.ext import Guard, Kind


@hawk.kernel(steps=1, kind=Kind("active", guard=Guard(active_set=True)))
def decay(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor
