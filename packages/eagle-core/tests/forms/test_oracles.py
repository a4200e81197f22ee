# SPDX-License-Identifier: Apache-2.0
"""The oracles themselves: the sums against published values and math.fsum, the forms against hawk's own runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hawk
import numpy as np
import pytest
import serial
from forms import DTYPES, Form
from hawk import artifact


def cancelling(n: int, spread: int, dtype: type) -> np.ndarray[Any, Any]:
    """Terms of many magnitudes of which nearly all cancel."""
    x = np.zeros(n, dtype)
    for i in range(n):
        h = (i * 2654435761 + 12345) % 2**32
        x[i] = ((h % 2001) - 1000) * 2.0 ** (((h >> 11) % (2 * spread + 1)) - spread)
    k = n // 2
    for i in range(k):
        x[k + i] = -x[(7 * i + 3) % k]
    x[n - 1] = dtype(1) / dtype(3)
    return x


@pytest.mark.parametrize(("n", "double", "single"), [
    (12, "0x1.55555558p-2", "0x1.55706ep-2"), (256, "0x1.5554p-2", "-0x1.6caac0p+4"), (600, "0x1.556p-2", "0x1.55p-2"),
    (1000, "0x1.5554p-2", "0x1.6e156p+10"), (4098, "0x1.554p-2", "0x1.56p-2"), (10000, "0x1.6ddp-2", "0x1.72p-2"),
])
def test_the_canonical_sum(n: int, double: str, single: str) -> None:
    for spread, dtype, want in ((80, np.float64, double), (26, np.float32, single)):
        x = cancelling(n, spread, dtype)
        assert serial.canonical(x, np.zeros_like(x)) == float.fromhex(want)


@pytest.mark.parametrize(("n", "want"), [
    (5, "0x1.45e666666663p+8"), (257, "-0x1.bbdbb33333334p+16"), (4097, "-0x1.7ef2bcccccccdp+19")])
def test_well_conditioned_sums(n: int, want: str) -> None:
    x = np.array([((i * 2654435761 % 1048583) - 524291) * 0.1 for i in range(n)])
    assert serial.canonical(x, np.zeros(n)) == float.fromhex(want)
    small = np.array([1e16, 1, -1e16, 1])
    assert serial.canonical(small, np.zeros(4)) == 2.0


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
