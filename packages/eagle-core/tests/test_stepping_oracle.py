# SPDX-License-Identifier: Apache-2.0
"""The oracle of the stepping tests is right: a loop of bound launches gives NumPy's bits, and counts what it takes."""

from __future__ import annotations

import numpy as np
import pytest
from stepping_forms import DISTS, MODELS
from stepping_oracle import NUMPY, Serial, assert_same, in_numpy


@pytest.mark.parametrize("dist", DISTS)
@pytest.mark.parametrize("form", NUMPY)
def test_launches_of_one_step_give_the_bits_of_numpy(form: str, dist: str) -> None:
    model = MODELS[form]
    planes = model.planes(65, 5, dist)
    mask = np.random.default_rng(1).integers(0, 7, 65) == 0
    for cap in (1, 7, 130):
        want = in_numpy(model, NUMPY[form], planes, cap, mask)
        got = Serial(model, planes, mask).run(cap)
        assert_same(got.planes, got.mask, want)
        assert got.counts.tolist() == want.counts.tolist()


@pytest.mark.parametrize("form", MODELS)
def test_every_model_finishes(form: str) -> None:
    model = MODELS[form]
    answer = Serial(model, model.planes(65, 3, "spread")).run(5000)
    rejected = answer.planes.get("rejected", np.zeros(answer.n, bool))
    assert (answer.mask == ~rejected).all() and 1 < answer.steps < 5000
    assert len(set(answer.counts.tolist())) > 5  # samples stop at different times


@pytest.mark.parametrize("form", MODELS)
def test_a_sample_that_is_never_done_runs_to_the_cap(form: str) -> None:
    model = MODELS[form]
    answer = Serial(model, model.planes(9, 3, "never")).run(100)
    assert answer.finished == 0 and answer.steps >= 100


def test_what_moves_is_what_the_specification_says() -> None:
    """A batch in another order gives the same results in that order, exactly where a model may be moved.

    Of those that may not be moved, some give the same results all the same.
    """
    for form, model in MODELS.items():
        if not model.single or model.owned:
            continue
        planes = model.planes(72, 11, "spread")
        order = np.random.default_rng(2).permutation(72)
        moved = {name: value[..., order] if np.ndim(value) and np.shape(value)[-1] == 72 else value
                 for name, value in planes.items()}
        a, b = Serial(model, planes).run(5000), Serial(model, moved).run(5000)
        same = (a.mask[order] == b.mask).all() and all(
            np.array_equal(value[..., order], b.planes[name], equal_nan=True) for name, value in a.planes.items()
            if name in ("x", "y", "k", "s", "v", "p", "q", "o"))
        if model.moves:
            assert same, form
        else:
            assert not same or form in ("Grid", "WideOut", "bins", "keyed sum", "sum over samples"), form
