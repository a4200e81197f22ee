# SPDX-License-Identifier: Apache-2.0
"""run, the call form, bind and launch against NumPy, to the bit."""

from __future__ import annotations

import itertools
from typing import Any

import kernels
import numpy as np
import pytest
from oracle import FORMS, Form, bits, typed

import eagle

SIZES = (0, 1, 7, 1000, 100_003)
PARTITIONS = range(1, 8)
THREADS = range(1, 5)
LAYOUT: dict[str, Any] = {}


@pytest.fixture(params=FORMS, ids=lambda name: name.replace(" ", "_"))
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> type:
    return request.param


@pytest.fixture(autouse=True)
def _restore_threads() -> Any:
    before = eagle.num_threads()
    yield
    eagle.set_num_threads(before)


def outputs(plan: Any) -> list[str]:
    return [slot.name for slot in plan.host.signature.arguments if slot.is_output]


def run(plan: Any, form: Form, planes: dict[str, Any]) -> dict[str, Any]:
    """One run over copies of `planes`: every output, and the mask."""
    own = {name: plane.copy() for name, plane in planes.items()}
    result = plan.run(**own, **form.uniforms)
    names = outputs(plan)
    result = {names[0]: result} if len(names) == 1 else result
    return {**result, **{name: own[name] for name in ("terminated",) if name in own}}


@pytest.mark.smoke
def test_equal_to_numpy_whatever_the_cut(form: Form, dtype: type) -> None:
    """Sizes, partitions and threads: every combination gives NumPy's bits."""
    plans = {parts: eagle.deploy(form.kernel, scalar_type=np.dtype(dtype).name, npartitions=parts)
             for parts in PARTITIONS}
    for n in SIZES:
        planes = form.inputs(np.random.default_rng(n), n, dtype)
        with np.errstate(all="ignore"):
            expected = {name: bits(array) for name, array in form.expected(typed(form, planes, dtype)).items()}
        for parts, threads in itertools.product(PARTITIONS, THREADS):
            eagle.set_num_threads(threads)
            got = run(plans[parts], form, planes)
            assert {name: bits(array) for name, array in got.items()} == expected, (n, parts, threads)
            assert all(array.dtype == dtype for name, array in got.items() if name != "terminated")


def test_bind_and_launch_equal_run(form: Form, dtype: type) -> None:
    plan = eagle.deploy(form.kernel, scalar_type=np.dtype(dtype).name)
    for n in SIZES:
        planes = form.inputs(np.random.default_rng(n), n, dtype)
        expected = {name: bits(array) for name, array in form.expected(typed(form, planes, dtype)).items()}
        own = {name: plane.copy() for name, plane in planes.items()}
        for slot in plan.host.signature.arguments:
            if slot.is_output:
                own.setdefault(slot.name, np.full(slot.shape(n), np.nan, dtype))
        assert plan.bind(**own, **form.uniforms).launch() is None
        assert {name: bits(own[name]) for name in expected} == expected


def test_large_n_uses_several_pieces_and_the_same_bits() -> None:
    plan = eagle.deploy(kernels.scale)
    x = np.random.default_rng(1).normal(size=3_000_001)
    for threads in THREADS:
        eagle.set_num_threads(threads)
        assert bits(plan.run(x=x, a=1.5, b=0.5)) == bits(1.5 * x + 0.5)


def test_run_returns_the_plane_or_a_dict() -> None:
    x = np.arange(3.0)
    assert eagle.deploy(kernels.scale).run(x=x, a=2.0, b=1.0).tolist() == [1.0, 3.0, 5.0]
    both = eagle.deploy(kernels.sum_difference).run(x=x, y=x)
    assert {name: plane.tolist() for name, plane in both.items()} == {"out0": [0, 2, 4], "out1": [0, 0, 0]}


def test_a_given_output_is_written_in_place_and_returned() -> None:
    plan, x, y = eagle.deploy(kernels.scale), np.arange(4.0), np.zeros(4)
    assert plan.run(x=x, a=2.0, b=0.0, out=y) is y
    assert y.tolist() == [0, 2, 4, 6]
    mapped = np.zeros(4).view(type("Mine", (np.ndarray,), {}))
    assert plan.run(x=x, a=3.0, b=0.0, out=mapped) is mapped
    assert mapped.tolist() == [0, 3, 6, 9]


def test_the_call_form_returns_the_kernels_own_tree() -> None:
    x, v = np.arange(3.0), np.ones((3, 5))
    assert eagle.deploy(kernels.scale)(x, 2.0, 1.0).tolist() == [1, 3, 5]
    assert eagle.deploy(kernels.scale)(x, 2.0, b=1.0).tolist() == [1, 3, 5]
    pair = eagle.deploy(kernels.sum_difference)(x, y=x)
    assert isinstance(pair, tuple) and [plane.tolist() for plane in pair] == [[0, 2, 4], [0, 0, 0]]
    tree = eagle.deploy(kernels.named)(np.arange(5.0), v, 2.0)
    assert list(tree) == ["moved", "shifted"] and (tree["moved"] == 2).all()
    pair = eagle.deploy(kernels.listed)(x, x)
    assert isinstance(pair, list) and [plane.tolist() for plane in pair] == [[0, 2, 4], [0, 0, 0]]
    k = x.copy()
    assert eagle.deploy(kernels.mixed)(x, k, 2.0).tolist() == [-2, -1, 0]
    assert k.tolist() == [0, 2, 4]
    y = np.zeros(3)
    assert eagle.deploy(kernels.into)(x, 2.0, y=y) is y
    assert eagle.deploy(kernels.trailing)(x, 2.0, y) is y and y.tolist() == [0, 2, 4]


def test_hawks_own_call_goes_through_eagle() -> None:
    assert kernels.scale(np.arange(3.0), 2.0, b=1.0).tolist() == [1, 3, 5]


def test_a_mask_left_out_of_the_call_is_all_false() -> None:
    x, limit = np.ones(3), np.array([0.0, 5.0, 1.0])
    assert eagle.deploy(kernels.double_until)(x, limit) is x
    assert x.tolist() == [2, 2, 2]
    mask = np.array([True, False, False])
    eagle.deploy(kernels.double_until)(x, limit, mask)
    assert x.tolist() == [2, 4, 4] and mask.tolist() == [True, False, True]


def test_finished_count_may_be_given_and_counts() -> None:
    count, mask = np.zeros(1, np.uint32), np.zeros(4, bool)
    eagle.deploy(kernels.double_until).run(x=np.ones(4), limit=np.array([0.0, 1.0, 2.0, 3.0]), terminated=mask,
                                           finished_count=count)
    assert count.tolist() == [2] and mask.tolist() == [True, True, False, False]


def test_a_parameter_that_is_never_read_may_be_given() -> None:
    plan, x = eagle.deploy(kernels.unread), np.arange(3.0)
    assert plan(x, x, 2.0).tolist() == plan.run(x=x, a=2.0).tolist() == plan.run(x=x, a=2.0, u=x).tolist() == [0, 2, 4]


def test_outputs_left_out_start_at_zero_where_the_kernel_may_skip_them() -> None:
    done = np.ones(3, bool)
    assert eagle.deploy(kernels.double_until).run(limit=np.ones(3), terminated=done).tolist() == [0, 0, 0]
    assert eagle.deploy(kernels.advance).run(v=np.ones((3, 2)), dt=2.0).tolist() == [[2, 2]] * 3


def test_more_slots_than_the_stack_holds() -> None:
    plan = eagle.deploy(kernels.many)
    planes = [np.arange(4.0) + k for k in range(17)]
    got = plan(*planes, 2.0)
    for i in range(8):
        assert got[i].tolist() == (planes[2 * i] + planes[2 * i + 1]).tolist()
    assert got[8].tolist() == (planes[16] * 2.0).tolist()


def test_call_sites_are_told_apart_by_their_positions() -> None:
    plan, x = eagle.deploy(kernels.scale), np.arange(3.0)
    for _ in range(3):
        assert plan(x, 2.0, b=1.0).tolist() == [1, 3, 5]  # the keyword tuples of this function are one object
        with pytest.raises(eagle.ArgumentError, match="'a'.*nothing"):
            plan(x, b=1.0)
        with pytest.raises(eagle.ArgumentError, match="'b'.*two values"):
            plan(x, 2.0, 3.0, b=1.0)
    with pytest.raises(eagle.ArgumentError, match="'a'.*nothing"):
        plan.run(x=x, b=1.0)


def test_neighbours_in_one_array_are_separate_planes() -> None:
    memory = np.arange(8.0)
    eagle.deploy(kernels.scale).run(x=memory[:4], a=2.0, b=0.0, out=memory[4:])
    assert memory.tolist() == [0, 1, 2, 3, 0, 2, 4, 6]


def test_one_call_site_with_many_keyword_orders() -> None:
    plan, x = eagle.deploy(kernels.scale), np.arange(3.0)
    for order in itertools.permutations(["x", "a", "b", "out"]):
        given = {"x": x, "a": 2.0, "b": 1.0, "out": np.zeros(3)}
        assert plan.run(**{name: given[name] for name in order}).tolist() == [1, 3, 5]


def test_float32_uniforms_round_once() -> None:
    plan, x = eagle.deploy(kernels.scale, scalar_type="float32"), np.ones(2, np.float32)
    assert bits(plan.run(x=x, a=0.1, b=0.0)) == bits(np.full(2, np.float32(0.1)))
