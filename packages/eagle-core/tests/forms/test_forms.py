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


def outputs(expected: Planes) -> set[str]:
    """What run returns: all that is written but the mask and the counters."""
    return expected.keys() - {"terminated", "finished_count", "dispatch0_mix"}


def by_name(result: Any, names: set[str]) -> Planes:
    """A result as a dict of these names: one output comes alone."""
    found = result if isinstance(result, dict) else dict(zip(names, [result], strict=True))
    assert found.keys() == names
    return found


@pytest.mark.smoke
def test_run(form: Form, dtype: str, deploy: Deploy) -> None:
    for n, planes, expected in cases(form, dtype):
        for parts, threads in form.cuts(n):
            eagle.set_num_threads(threads)
            own = copied(planes)
            result = by_name(deploy(parts).run(**own), outputs(expected))
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
            if (parts + n) % 2 == 0:
                own |= filled(form, {name: sinks[name] for name in (sinks if form.tree else form.cells)
                                     if name not in form.tree})
            result = by_name(deploy(parts)(**own), set(form.tree) or outputs(expected))
            assert all(result[name] is own[name] for name in result.keys() & own.keys())
            found = {**own, **result}
            unseen = sinks.keys() - found.keys()  # made by the call, and not in its tree
            assert expected.keys() - found.keys() == unseen and (form.tree or not unseen)
            check(found, {name: want for name, want in expected.items() if name not in unseen})


@pytest.mark.parametrize("name", ["Index, Int32, UInt32", "Table", "sum", "stages, mean handed back",
                                  "Grid, lane-shaped"])
def test_every_cut_with_every_team(form: Form, dtype: str, deploy: Deploy) -> None:
    """One form of each kind, at its largest size."""
    n = form.n_of(max(form.sizes))
    planes = form.planes(np.random.default_rng(n), n, DTYPES[dtype])
    expected = form.expected(planes)
    for parts in (1, 2, 3, 7):
        for threads in (1, 2, 4):
            eagle.set_num_threads(threads)
            check(by_name(deploy(parts).run(**planes), outputs(expected)), expected)
