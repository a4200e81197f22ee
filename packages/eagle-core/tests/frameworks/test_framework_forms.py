# SPDX-License-Identifier: Apache-2.0
"""Every kernel form with its arrays given by another library: the bits that NumPy's arrays give.

tests/forms says what those are.
"""

from __future__ import annotations

import functools
import importlib.util
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from forms import DTYPES, FORMS, Form, Planes
from libraries import Library
from test_forms import by_name, check, copied, filled, outputs

import eagle

SIZES = (0, 1, 33, 1000)
FRAMEWORKS = ("torch", "warp", "jax")

if not any(map(importlib.util.find_spec, FRAMEWORKS)):
    pytest.skip("framework-missing: torch, warp, jax", allow_module_level=True)

pytestmark = [pytest.mark.timeout(func_only=True),
              pytest.mark.parametrize("dtype", DTYPES),
              pytest.mark.parametrize("name", FORMS, ids=lambda name: name.replace(" ", "_")),
              pytest.mark.parametrize("lib", FRAMEWORKS, indirect=True)]


@functools.cache
def plan_of(name: str, dtype: str) -> Any:
    return eagle.deploy(FORMS[name].kernel, scalar_type=dtype)


@pytest.fixture(scope="module", autouse=True)
def _build_side_by_side() -> None:
    """Builds all forms, two at a time; before the first test, so that only the bodies are timed."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: plan_of(*key), [(name, dtype) for name in FORMS for dtype in DTYPES]))


@functools.cache
def cases(name: str, dtype: str) -> list[tuple[int, Planes, Planes]]:
    """n, the planes, and those that NumPy's arrays have after a run: the written ones, given or left out."""
    form, made = FORMS[name], []
    for n in sorted({form.n_of(n) for n in (SIZES if len(form.sizes) > 1 else form.sizes)}):
        if n == 0 and (form.reduces or 0 not in form.sizes):
            continue
        planes = form.planes(np.random.default_rng(n), n, DTYPES[dtype])
        with np.errstate(all="ignore"):
            written = form.expected(planes)
        own = copied(planes)
        result = by_name(plan_of(name, dtype).run(**own), outputs(written))
        found = {**own, **result}
        made.append((n, planes, {plane: found[plane] for plane in written if plane in found}))
    assert made
    return made


def given(lib: Library, planes: Planes, written: Planes) -> Planes:
    """The planes with the library's arrays, NumPy's where the library's are never written."""
    owner = lib if lib.writes else Library()
    return {name: plane if not isinstance(plane, np.ndarray) else (owner if name in written else lib).new(plane)
            for name, plane in planes.items()}


def read(lib: Library, planes: Planes) -> Planes:
    """What every plane holds, by its own library's means."""
    return {name: lib.read(plane) if isinstance(plane, lib.kind) else plane for name, plane in planes.items()}


def test_run(lib: Library, name: str, dtype: str) -> None:
    for _, planes, wanted in cases(name, dtype):
        own = given(lib, planes, wanted)
        result = by_name(plan_of(name, dtype).run(**own), outputs(wanted))
        for plane, array in result.items():
            assert array is own[plane] if plane in own else isinstance(array, lib.made), plane
        check({**read(lib, own), **read(lib, result)}, wanted)
        unwritten = {plane: array for plane, array in planes.items()
                     if plane not in wanted and isinstance(array, np.ndarray)}
        check(read(lib, own), unwritten)


def test_bind(lib: Library, name: str, dtype: str) -> None:
    form: Form = FORMS[name]
    for n, planes, wanted in cases(name, dtype):
        own = given(lib, {**form.bound(n), **filled(form, form.sinks(n, DTYPES[dtype])), **copied(planes)}, wanted)
        bound = plan_of(name, dtype).bind(**own)
        bound.launch()
        assert bound.n == n
        check(read(lib, own), wanted, shaped=False)
