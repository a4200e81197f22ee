# SPDX-License-Identifier: Apache-2.0
"""Kernels that step, finish, run a live set, or choose among branches."""

from __future__ import annotations

import hawk
import hawk.math
from hawk import Index, Mutable, Scalar, Terminated
from hawk.ext import Guard, Kind

ACTIVE = Kind("active", guard=Guard(active_set=True))


@hawk.kernel
def automatic(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel(steps=4)
def four_steps(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel(steps=1)
def one_step(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel(kind=ACTIVE)
def active(x: Mutable[Scalar], limit: Scalar, terminated: Terminated):
    x = x * 2.0
    terminated = x > limit


@hawk.kernel
def switched(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = hawk.math.dispatch(k, [x * 2.0, x + 1.0, x * x], policy="switch")


@hawk.kernel
def predicated(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = hawk.math.dispatch(k, [x * 2.0, x + 1.0, x * x], policy="predicated")


@hawk.kernel
def counted(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = hawk.math.dispatch(k, [x * 2.0, x + 1.0, x * x], policy="auto")


@hawk.kernel
def segmented(k: Index, x: Scalar, y: Mutable[Scalar]):
    y = hawk.math.dispatch(k, [x * 2.0, x + 1.0, x * x], policy="segmented")
