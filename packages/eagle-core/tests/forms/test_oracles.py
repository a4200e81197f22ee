# SPDX-License-Identifier: Apache-2.0
"""The oracles themselves: sums against math.fsum, forms against hawk's own runtime. test_reduce.py has known sums."""

from __future__ import annotations

from pathlib import Path

import hawk
import numpy as np
import pytest
import serial
from forms import DTYPES, Form
from hawk import artifact


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 140_000])
def test_sums_over_samples_are_nearly_correctly_rounded(n: int, dtype: str) -> None:
    x = np.random.default_rng(n).uniform(1, 2, n).astype(DTYPES[dtype])
    serial.check_sum(x, serial.sum_over_samples(x))


def test_the_forms_by_hawks_own_runtime(form: Form, dtype: str, tmp_path: Path) -> None:
    primal = getattr(form.kernel.sinks, "primal", None)  # of a derivative, which names the unit that has it
    artifact.build_bundle([form.kernel], tmp_path, mode=dtype, targets=("host",),
                          derivative={form.kernel.name: (primal, "0" * 64)} if primal else None)
    kernel = hawk.load(tmp_path, form.kernel.name)
    for n in {form.n_of(n) for n in form.sizes if 0 < n <= 1000}:
        planes = form.planes(np.random.default_rng(n), n, DTYPES[dtype])
        with np.errstate(all="ignore"):
            expected = form.expected(planes)
        own = {**form.bound(n), **form.sinks(n, DTYPES[dtype]), **planes}
        own = {name: plane.copy() if isinstance(plane, np.ndarray) else plane for name, plane in own.items()}
        given = {name: plane for name, plane in own.items() if name != "node"}
        if form.kernel.name == "grid_share":
            given["out"] = given["out"].reshape(-1)  # hawk takes a stage's outputs flat only
        hawk.run(kernel, **given)
        for name, want in expected.items():
            assert own[name].dtype == want.dtype and own[name].tobytes() == want.tobytes(), name
