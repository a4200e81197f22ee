# SPDX-License-Identifier: Apache-2.0
"""The kernels of first_flight.py: functions of one sample. They live in a file because hawk reads their source."""

import hawk
from hawk import Matrix, Param, Scalar, Vector


@hawk.kernel
def axpb(x: Scalar, a: Param, b: Param) -> Scalar:
    return a * x + b


@hawk.kernel
def rotate(r: Matrix[3, 3], v: Vector[3]) -> Vector[3]:
    return r @ v
