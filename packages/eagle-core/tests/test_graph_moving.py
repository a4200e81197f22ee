# SPDX-License-Identifier: Apache-2.0
"""Arrays of a graph that moved, became read-only or never could be written: refused by name, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import Array, bind, nothing, refused, touching, u32

import eagle
from eagle import BufferRefused, SkipGuard, opaque, repeat_while, skippable
from eagle.graph import Graph, Node, register_node_kind


def zeros(n: int = 4) -> Array:
    return np.zeros(n)


def built_over(kind: str, x: Array) -> Graph:
    g = Graph()
    if kind == "launch":
        g.add(bind(ks.halve, x=x), name="victim")
    elif kind == "opaque":
        g.add_node(opaque(lambda: x.fill(1.0), writes={"x": x}), name="victim")
    elif kind == "body":
        g.add_node(skippable(bind(ks.halve, x=x).launch, SkipGuard.nonzero(u32(1))), name="victim")
    else:
        g.add_group([opaque(lambda: x.fill(1.0), writes={"x": x}), touching()], names=["victim", None])
    return g.build()


def doors(g: Graph) -> list[tuple[str, Callable[[], object]]]:
    return [("launch", g.launch), ("enqueue", g.enqueue), ("launch", g), ("launch", lambda: g.launch(3))]


@pytest.mark.parametrize("kind", ["launch", "opaque", "body", "group"])
@pytest.mark.parametrize("size", [1000, 1, 0])
def test_planes_that_were_resized(kind: str, size: int) -> None:
    x = zeros(64)
    g = built_over(kind, x)
    g.launch()
    x.resize(size, refcheck=False)
    for method, call in doors(g):
        with refused(BufferRefused, f"eagle.Graph.{method}: ", "'x'", "victim"):
            call()
    assert x.tolist() == x.tolist()


class Elsewhere:
    """An array of some other library, which can be given other memory."""

    def __init__(self, array: Array) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __dlpack__(self, **kw: Any) -> Any:
        return self.array.__dlpack__(**kw)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("role", ["reads", "writes", "guard", "limit", "brk", "bound", "copied"])
@pytest.mark.parametrize("change", ["moved", "shaped", "gone"])
def test_planes_of_other_libraries_that_moved(role: str, change: str) -> None:
    cells = role in ("guard", "limit", "brk")
    x = Elsewhere(u32(1, 0) if cells else zeros())
    memory = x.array
    g = Graph()
    if role in ("reads", "writes"):
        g.add_node(opaque(nothing, **{role: {"x": x}}), name="victim")  # type: ignore[arg-type]
    elif role == "guard":
        g.add_node(skippable(touching(), SkipGuard.nonzero(x)), name="victim")
    elif cells:
        g.add_node(repeat_while(touching(), None, 2, **{role: x}), name="victim")
    elif role == "bound":
        g.add(eagle.deploy(ks.affine).bind(x=x, out=zeros(), a=1.0, b=1.0), name="victim")
    else:
        g.add_node(eagle.copy(x, into=zeros()), name="victim")
    g.build().launch(2)
    if change == "gone":
        del x.array
    else:
        x.array = memory.copy() if change == "moved" else memory[:1]
    for method, call in doors(g):
        with refused(BufferRefused, "eagle.copy: src" if role == "copied" else f"eagle.Graph.{method}: node 'victim'"):
            call()
    with refused(BufferRefused, "eagle.Graph.profile: node 'victim'"):
        g.profile(2)
    x.array = memory
    assert g.launch() is g


def test_read_only_planes_of_other_libraries() -> None:
    x = zeros()
    x.flags.writeable = False
    view = eagle.interop.import_buffer(x)
    with refused(BufferRefused, "eagle.Graph.build", "'x'", "mine", "read-only"):
        Graph().add_node(touching(writes={"x": view}, name="mine")).build()
    assert Graph().add_node(touching(reads={"x": view})).build().backend == "cpu"


@pytest.mark.parametrize("kind", ["launch", "opaque", "body", "group"])
def test_planes_that_became_read_only(kind: str) -> None:
    x = zeros()
    g = built_over(kind, x)
    x.flags.writeable = False
    with refused(BufferRefused, "eagle.Graph.launch", "'x'", "read-only"):
        g.launch()
    assert not x.any()
    x.flags.writeable = True
    assert g.launch() is g


def test_what_is_read_may_be_read_only() -> None:
    x, y = np.arange(4.0), zeros()
    x.flags.writeable = False
    g = Graph().add_node(opaque(lambda: np.add(x, 1.0, out=y), reads={"x": x}, writes={"y": y})).build().launch()
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0] and g.backend == "cpu"


def test_read_only_outputs(fresh_kinds: None) -> None:
    x = zeros()
    x.flags.writeable = False
    with pytest.raises(BufferRefused, match="'x'"):
        opaque(nothing, writes={"x": x})
    with pytest.raises(BufferRefused, match="x"):
        bind(ks.halve, x=x)
    with pytest.raises(BufferRefused, match="into"):
        eagle.copy(zeros(), into=x)
    with pytest.raises(BufferRefused, match="out"):
        eagle.reduce(zeros(), x[:1])
    register_node_kind("writer", reads=lambda node: (), writes=lambda node: (("x", x, "out"),), lower_gpu=nothing,
                       lower_cpu=lambda node, ctx: nothing)
    with refused(BufferRefused, "eagle.Graph.build", "'x'", "mine", "read-only"):
        Graph().add_node(Node("writer", None), name="mine").build()


@pytest.mark.parametrize("within", [False, True])
def test_a_plan_that_is_rebound_after_build(within: bool) -> None:
    """A graph keeps the planes of build(); what can only run the plan itself says so, and nothing runs."""
    x, other, live = np.full(4, 8.0), np.full(4, 8.0), u32(1)
    plan = bind(ks.halve, x=x)
    g = Graph()
    if within:
        g.add_node(skippable(plan.launch, SkipGuard.nonzero(live)), name="mine")
    else:
        g.add(plan, name="mine")
    g.build()
    with eagle.exec.checking():
        g.launch()
    plan.rebind(x=other)
    g.launch()
    g.profile(1)
    assert (x[0], other[0]) == (1.0, 8.0)
    label = "'halve'" if within else "'mine'"
    with eagle.exec.checking(), refused(BufferRefused, "eagle.Graph.launch", "by rebind()", label):
        g.launch()
    assert (x[0], other[0]) == (1.0, 8.0)
