# SPDX-License-Identifier: Apache-2.0
"""What only the kernel declares: axes of tables, widths of integers, trees of returns; and buffers without a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import shape_kernels as kernels

import eagle

R, C = np.array([0, 3, 1]), np.array([2, 0, 1])


def through_every_door(kernel: Any, **planes: Any) -> list[Any]:
    """The result of run, of the call by name, of lists instead of arrays, and of a launch."""
    plan = eagle.deploy(kernel)
    out = np.zeros(len(planes["r"]))
    plan.bind(**planes, out=out).launch()
    lists = {name: value.tolist() if name in "rc" else value for name, value in planes.items()}
    return [plan.run(**planes), plan(**planes), plan.run(**lists), out]


@pytest.mark.parametrize(("kernel", "name", "table", "expected"), [
    (kernels.pick, "t", np.arange(12.0).reshape(4, 3), lambda t: t[R, C]),
    (kernels.pick_open, "t", np.arange(12.0).reshape(4, 3), lambda t: t[R, C]),
    (kernels.pick_staged, "s", np.arange(12.0).reshape(3, 4), lambda s: s[1, R]),
    (kernels.pick_wide, "w", np.arange(8.0).reshape(4, 2), lambda w: w[R, 1]),
], ids=lambda value: getattr(value, "name", None))
def test_a_table_has_its_axes_or_is_flat(kernel: Any, name: str, table: np.ndarray[Any, Any], expected: Any) -> None:
    indices = {"r": R, "c": C} if "c" in kernel.planes else {"r": R}
    for given in (table, table.ravel()):
        for found in through_every_door(kernel, **indices, **{name: given}):
            assert (found == expected(table)).all()
    for wrong in (np.ascontiguousarray(table.T), table.ravel()[:-1], table.reshape(2, 2, -1), np.zeros((0, 3))):
        plan = eagle.deploy(kernel)
        for door in (plan.run, plan, lambda **planes: plan.bind(**planes, out=np.zeros(3))):  # noqa: B023
            with pytest.raises(eagle.LayoutError, match=f"'{name}': found shape"):
                door(**indices, **{name: wrong})


def test_a_tree_with_one_leaf() -> None:
    x = np.arange(4.0)
    for given in (x, x.tolist()):
        tree = eagle.deploy(kernels.one_leaf)(given)
        assert list(tree) == ["a"] and list(tree["a"]) == ["b"] and (tree["a"]["b"] == x + 1).all()
        (cell,) = eagle.deploy(kernels.one_cell)(given)
        assert cell.shape == (1,) and cell[0] == 3.0


@pytest.mark.parametrize(("n", "u", "bounds"), [
    (2**31, 0, "-2147483648 to 2147483647"), (-2**31 - 1, 0, "-2147483648 to 2147483647"),
    (0, -1, "0 to 4294967295"), (0, 2**32, "0 to 4294967295"), (2.0**31, 0, "-2147483648 to 2147483647")])
def test_integers_of_32_bits_do_not_wrap(n: Any, u: Any, bounds: str) -> None:
    plan, x = eagle.deploy(kernels.narrow), np.ones(3)
    for door in (plan.run, plan, lambda **given: plan.bind(**given, out=np.zeros(3))):
        with pytest.raises(ValueError, match=bounds):
            door(x=x, n=n, u=u)
    assert (plan(x, -2**31, 2**32 - 1) == -2.0**31 + 2.0**32 - 1).all()


def test_a_buffer_without_a_cell_serves_no_sample() -> None:
    plan, k, w, none = eagle.deploy(kernels.histogram), np.zeros(9, int), np.ones(9), np.zeros(0)
    for door in (plan.run, plan, plan.bind):
        with pytest.raises(eagle.LayoutError, match=r"'bins': found shape \(0,\), wanted at least one cell"):
            door(k=k, w=w, bins=none)
    assert plan.run(k=k[:0], w=none, bins=none) is none
    with pytest.raises(eagle.LayoutError, match="'w': found shape"):
        eagle.deploy(kernels.pick_wide).run(r=R, w=none)
