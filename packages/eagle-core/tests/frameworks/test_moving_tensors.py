# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch that get other storage, or a gradient, behind a plan's back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernels
import numpy as np
import producers
import pytest

import eagle
from eagle import BufferRefused

torch = pytest.importorskip("torch", reason="framework-missing: torch")

N = 1000
CHANGES: dict[str, Callable[[Any], object]] = {
    "data": lambda t: setattr(t, "data", torch.full((N,), 5.0, dtype=torch.float64)),
    "resize_": lambda t: t.resize_(100 * N),
    "set_": lambda t: t.set_(torch.full((N,), 5.0, dtype=torch.float64)),
    "reshaped": lambda t: t.resize_(N // 2, 2),
}


def sevens() -> list[Any]:
    """Tensors that take the room that was just left."""
    return [torch.full((N,), 7.0, dtype=torch.float64) for _ in range(20)]


@pytest.mark.parametrize("change", CHANGES)
def test_neither_launch_nor_clear_writes_where_it_was(change: str) -> None:
    t = torch.zeros(N, dtype=torch.float64)
    bound = eagle.deploy(kernels.scale).bind(x=np.ones(N), a=1.0, b=0.0, out=t)
    bound.launch()
    assert (t == 1.0).all()
    CHANGES[change](t)
    others = sevens()
    for door in (bound.launch, lambda: bound.clear("out")):
        with pytest.raises(BufferRefused, match="output 'out': found an array that moved"):
            door()
    assert all((other == 7.0).all() for other in others)


def test_a_gradient_that_comes_later() -> None:
    t = torch.ones(N, dtype=torch.float64)
    bound = eagle.deploy(kernels.scale).bind(x=np.ones(N), a=3.0, b=0.0, out=t)
    t.requires_grad_()
    for door in (bound.launch, lambda: bound.clear("out")):
        with pytest.raises(BufferRefused, match="'out': found an array that .*may no longer be written"):
            door()
    assert (t == 1.0).all()


@pytest.mark.parametrize("role", ["reads", "writes"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_graph_refuses_own_code_over_it(change: str, role: str) -> None:
    t, hits = torch.zeros(N, dtype=torch.float64), []
    node = eagle.opaque(lambda: hits.append(1), **{role: {"t": t}})
    g = eagle.Graph().add_node(node, name="mine").build().launch(2)
    CHANGES[change](t)
    with pytest.raises(BufferRefused, match=r"^eagle\.Graph\.launch: node 'mine', plane 't': found an array at"):
        g.launch()
    assert hits == [1, 1]


@pytest.mark.parametrize("role", ["guard", "limit", "brk"])
def test_a_graph_refuses_cells_that_moved(role: str) -> None:
    cells, hits = torch.ones(N, dtype=torch.uint32), []
    made = {"guard": eagle.SkipGuard.nonzero(cells)} if role == "guard" else {role: cells}
    g = eagle.Graph().add_node(eagle.repeat_while(eagle.opaque(lambda: hits.append(1)), max_iters=1, **made)).build()
    g.launch()
    cells.resize_(100 * N)
    with pytest.raises(BufferRefused, match=rf"^eagle\.Graph\.launch: node 'repeat_while', plane '{role}': found"):
        g.launch()
    assert hits == [1]


def test_a_graph_refuses_a_gradient_that_comes_later() -> None:
    t = torch.ones(N, dtype=torch.float64)
    g = eagle.Graph().add(eagle.deploy(kernels.scale).bind(x=np.ones(N), a=3.0, b=0.0, out=t)).build()
    t.requires_grad_()
    with pytest.raises(BufferRefused, match="plane 'out': found an array that .*may no longer be written"):
        g.launch()
    assert (t == 1.0).all()


def test_own_code_may_write_to_a_parameter() -> None:
    t = torch.ones(4, dtype=torch.float64, requires_grad=True)

    def shrink() -> None:
        with torch.no_grad():
            t.mul_(0.5)

    eagle.Graph().add_node(eagle.opaque(shrink, writes={"t": t})).build().launch(2)
    assert t.tolist() == [0.25] * 4


class Mover(producers.Producer):
    """A producer whose code does something to others each time it is read."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__(array)
        self.action: Callable[[], object] = lambda: None

    def __dlpack__(self, **kw: Any) -> Any:
        self.action()
        return super().__dlpack__(**kw)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("door", ["run", "call", "careful", "bind", "launch"])
def test_a_producer_that_moves_a_tensor(door: str, change: str) -> None:
    """The tensor was read, or checked, before the producer's code runs."""
    t, x, others = torch.zeros(N, dtype=torch.float64), Mover(np.ones(N)), []
    plan = eagle.deploy(kernels.scale)

    def move() -> None:
        CHANGES[change](t)
        others.extend(sevens())

    if door == "launch":
        bound = plan.bind(x=x, a=1.0, b=0.0, out=t)
        x.action = move
        act: Callable[[], object] = bound.launch
    else:
        x.action = move
        doors: dict[str, Callable[..., object]] = {"run": plan.run, "call": plan, "bind": plan.bind,
                                                   "careful": plan.run}
        # A Param of numpy's float32 keeps the call from the way in C.
        a = np.float32(1.0) if door == "careful" else 1.0
        act = lambda: doors[door](x=x, a=a, b=0.0, out=t)  # noqa: E731
    with pytest.raises((BufferRefused, eagle.LayoutError), match="'out': found"):
        act()
    assert all((other == 7.0).all() for other in others)
