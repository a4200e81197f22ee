# SPDX-License-Identifier: Apache-2.0
"""Every form through every door, for every cut and number of threads, against its oracle to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from forms import DTYPES, Form, Planes

import eagle

Deploy = Callable[[int], Any]


def cases(form: Form, dtype: str) -> Iterator[tuple[int, Planes, Planes]]:
    """n, the planes and what comes of them, for each size at which the form runs."""
    for n in map(form.n_of, form.sizes):
        if n == 0 and form.reduces:
            continue
        planes = form.planes(np.random.default_rng(n), n, DTYPES[dtype])
        with np.errstate(all="ignore"):
            yield n, planes, form.expected(planes)


def copied(planes: Planes) -> Planes:
    return {name: plane.copy() if isinstance(plane, np.ndarray) else plane for name, plane in planes.items()}


def check(found: Planes, expected: Planes, shaped: bool = True) -> None:
    """Every plane of `expected` with its very bits."""
    for name, want in expected.items():
        got = found[name]
        assert got.dtype == want.dtype, name
        assert got.shape == want.shape or not shaped and got.size == want.size, name
        assert got.tobytes() == want.tobytes(), (name, np.flatnonzero(got.reshape(-1) != want.reshape(-1))[:5])


def by_name(form: Form, result: Any) -> Planes:
    """run's result as a dict: one output comes alone."""
    if isinstance(result, dict):
        return result
    (name,) = form.sinks(8, np.float64) or ("x",)
    return {name: result}


@pytest.mark.smoke
def test_run(form: Form, dtype: str, deploy: Deploy) -> None:
    for n, planes, expected in cases(form, dtype):
        for parts, threads in form.cuts(n):
            eagle.set_num_threads(threads)
            own = copied(planes)
            result = by_name(form, deploy(parts).run(**own))
            assert {name for name in expected if name not in own} <= result.keys() <= expected.keys()
            assert all(result[name] is own[name] for name in result.keys() & own.keys())
            check({**own, **result}, expected)


def test_bind(form: Form, dtype: str, deploy: Deploy) -> None:
    for n, planes, expected in cases(form, dtype):
        sinks = form.sinks(n, DTYPES[dtype])
        for parts, threads in form.cuts(n):
            eagle.set_num_threads(threads)
            own = {**form.bound(n), **filled(form, sinks), **copied(planes)}
            bound = deploy(parts).bind(**own)
            assert bound.launch() is None and bound.n == n
            check(own, expected, shaped=False)


def filled(form: Form, sinks: Planes) -> Planes:
    """Copies of the sinks: zeros where the kernel adds to them or leaves some alone, else nonsense."""
    return {name: sink.copy() if form.one_cut else np.full_like(sink, 99) for name, sink in sinks.items()}


def test_call(form: Form, dtype: str, deploy: Deploy) -> None:
    """The call form returns the kernel's own tree, and makes or fills the cells."""
    for n, planes, expected in cases(form, dtype):
        sinks = form.sinks(n, DTYPES[dtype])
        for parts, threads in form.cuts(n):
            eagle.set_num_threads(threads)
            own = copied(planes)
            if parts % 2 == 0:
                own |= {name: np.full_like(sinks[name], np.nan) for name in form.cells if name not in form.tree}
            result = deploy(parts)(**own)
            if not form.tree:
                result = by_name(form, result)
            elif len(form.tree) == 1:
                result = {form.tree[0]: result}
            assert result.keys() == (set(form.tree) or result.keys()) and result.keys() <= expected.keys()
            assert all(result[name] is own[name] for name in result.keys() & own.keys())
            found = {**own, **result}
            check(found, {name: want for name, want in expected.items() if name in found})
