# SPDX-License-Identifier: Apache-2.0
"""Kernels that step until done, for the tests of the runner."""

from __future__ import annotations

import hawk
from hawk import Mutable, Param, Scalar, Terminated
from hawk.ext import Guard, Kind

ACTIVE = Kind("active", guard=Guard(active_set=True))


@hawk.kernel
def decay(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(steps=1)
def decay_one(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(steps=4)
def decay_four(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor


@hawk.kernel(kind=ACTIVE)
def decay_active(rate: Scalar, floor: Param, terminated: Terminated, y: Mutable[Scalar], hits: Mutable[Scalar]):
    y = y * rate
    hits = hits + 1.0
    terminated = y < floor
