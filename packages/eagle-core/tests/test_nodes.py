# SPDX-License-Identifier: Apache-2.0
"""Nodes and their kinds."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from producers import Producer

import eagle
from eagle import BackendUnavailable, BufferRefused, opaque
from eagle.nodes import Node, NodeKind, Plane, child, get_node_kind, register_built_in, register_node_kind
from eagle.nodes import node as kinds

X = np.zeros(2)


def nothing() -> None:
    pass


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeKind]:
    """A kind whose nodes fill an array with ones, unless their payload forbids it; gone after the test."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    def check(node: Node) -> None:
        if node.payload is None:
            raise RuntimeError("no array")

    yield register_node_kind("fill", reads=lambda node: (), writes=lambda node: (Plane("out", node.payload, "out"),),
                             lower_gpu=None, lower_cpu=lambda node, ctx: lambda: node.payload.fill(1.0),
                             check=check)


def test_a_call_does_the_work_once(fill: NodeKind) -> None:
    a = np.zeros(3)
    node = Node("fill", a)
    assert a.tolist() == [0.0, 0.0, 0.0]
    assert node() is None  # type: ignore[func-returns-value]
    assert a.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="no array"):
        Node("fill", None)()


def test_facts_of_a_node(fill: NodeKind) -> None:
    a = np.zeros((2, 3))
    node = Node("fill", a, "ones")
    assert (node.kind, node.name, node.label, Node("fill", a).label) == ("fill", "ones", "ones", "fill")
    assert node.reads == () and node.writes == (("out", a, "out"),)
    assert repr(node) == "<Node fill 'ones': reads nothing, writes out (2, 3)>"
    assert repr(Node("fill", None)) == "<Node fill: reads nothing, writes out ()>"
    assert node != Node("fill", a, "ones") and len({node, node}) == 1
    with pytest.raises(AttributeError):
        node.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", [1, b"x", ["x"]])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.graph\.Node: name: found .*, wanted a text or None; pass str"):
        Node("nothing", None, name)


def test_kinds(fill: NodeKind) -> None:
    facts = {field.name: getattr(fill, field.name) for field in fields(fill) if field.name != "kind"}
    assert get_node_kind("fill") is fill and register_node_kind("fill", **facts) is fill
    with pytest.raises(ValueError, match="found 'fill', which is taken"):
        register_node_kind("fill", **{**facts, "check": None})
    assert get_node_kind("fill") is fill
    for wrong in ("", None, 3):
        with pytest.raises(TypeError, match="kind: found .*, wanted a text that is not empty"):
            register_node_kind(wrong, **facts)  # type: ignore[arg-type]
    for tier in ("device", "", None, "Capture"):
        with pytest.raises(ValueError, match=r"tier: found .*, wanted one of \('capture', 'stream', 'host'\)"):
            register_node_kind("other", **{**facts, "tier": tier})
    for hook in facts.keys() - {"tier"}:
        with pytest.raises(TypeError, match=f"{hook}: found 3, wanted a function; pass one for kind 'other'"):
            register_node_kind("other", **{**facts, hook: 3})
    for hook in ("reads", "writes", "lower_cpu"):
        with pytest.raises(TypeError, match=f"{hook}: found None"):
            register_node_kind("other", **{**facts, hook: None})
    assert "other" not in kinds._kinds


def test_every_hook_is_kept(fill: NodeKind) -> None:
    hooks = {field.name: eval("lambda *_: None") for field in fields(NodeKind) if field.name not in ("kind", "tier")}
    made = register_node_kind("whole", **hooks, tier="host")
    assert {name: getattr(made, name) for name in hooks} == hooks and (made.kind, made.tier) == ("whole", "host")
    assert [field.name for field in fields(NodeKind)] == [
        "kind", "reads", "writes", "lower_gpu", "lower_cpu", "transpose", "record_planes", "native_entry", "tier",
        "check"]
    with pytest.raises(AttributeError):
        made.tier = "stream"  # type: ignore[misc]


@pytest.mark.parametrize("kind", sorted(kinds.BUILT_IN))
def test_kinds_of_eagles_own_are_taken(fill: NodeKind, kind: str) -> None:
    facts = {field.name: getattr(fill, field.name) for field in fields(fill) if field.name != "kind"}
    with pytest.raises(ValueError, match=rf"^eagle\.graph\.register_node_kind: kind: found '{kind}', which is taken"):
        register_node_kind(kind, **facts)
    if kind in kinds._kinds:
        known = get_node_kind(kind)
        own = {field.name: getattr(known, field.name) for field in fields(known) if field.name != "kind"}
        assert register_node_kind(kind, **own) is known
        with pytest.raises(ValueError, match="which is taken"):
            register_built_in(replace(known, check=lambda node: None), lambda payload: True)


def test_an_unknown_kind(fill: NodeKind) -> None:
    node = Node("nothing", None)
    for ask in (lambda: get_node_kind("nothing"), node, lambda: node.reads, lambda: node.writes):
        with pytest.raises(ValueError, match="wanted one of .*'fill'"):
            ask()
    assert repr(node) == "<Node nothing>"


@pytest.mark.parametrize("kind", [None, 3, [1], b"fill"])
def test_a_kind_is_a_text(fill: NodeKind, kind: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.graph\.Node: kind: found .*, wanted a text"):
        Node(kind, None)
    with pytest.raises(ValueError, match=r"^eagle\.graph\.get_node_kind: kind: found .*'fill'"):
        get_node_kind(kind)


@pytest.mark.parametrize("payload", [None, 3, (3,), ((), 3), ((3,), ()), nothing, X])
def test_nodes_of_eagles_own_kinds_are_made_by_eagle(payload: Any) -> None:
    for kind in kinds._kinds.keys() & kinds.BUILT_IN:
        with pytest.raises(TypeError, match=rf"^eagle\.graph\.Node: payload: found .* a node of '{kind}'"):
            Node(kind, payload)


@pytest.mark.parametrize("hook", ["reads", "writes"])
@pytest.mark.parametrize("planes", [None, 3, (1, 2), (("a", X),), ((3, X, "out"),), [("a", X, "out", 1)]])
def test_hooks_give_planes(fill: NodeKind, hook: str, planes: Any) -> None:
    hooks: dict[str, Any] = {"reads": lambda node: (), "writes": lambda node: ()} | {hook: lambda node: planes}
    register_node_kind("odd", lower_gpu=None, lower_cpu=lambda node, ctx: nothing, **hooks)
    with pytest.raises(TypeError, match=rf"^eagle\.graph\.Node: {hook} of kind 'odd': found .*\(name, array, role\)"):
        getattr(Node("odd", None), hook)


def test_hooks_give_work(fill: NodeKind) -> None:
    register_node_kind("idle", reads=lambda node: (), writes=lambda node: (), lower_gpu=None,
                       lower_cpu=lambda node, ctx: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(TypeError, match="'mine', lower_cpu of kind 'idle': found None, wanted a callable"):
        Node("idle", None, "mine")()


# ---- own code --------------------------------------------------------------------------------------------------------


def test_own_code() -> None:
    x, y, calls = np.arange(3.0), np.zeros(3), []
    node = opaque(lambda: (calls.append(1), np.multiply(x, 2.0, out=y)), reads={"x": x}, writes={"y": y}, name="double")
    assert isinstance(node, Node) and calls == []
    assert node() is None  # type: ignore[func-returns-value]
    assert y.tolist() == [0.0, 2.0, 4.0] and calls == [1]
    assert (node.kind, node.label, node.grad) == ("opaque", "double", True)
    assert [plane[::2] for plane in (*node.reads, *node.writes)] == [("x", "per_sample"), ("y", "out")]
    assert node.reads[0].array is x and node.writes[0].array is y
    assert repr(node) == "<Node opaque 'double': reads x (3,), writes y (3,)>"
    assert opaque(nothing).label == "opaque" and opaque(nothing, grad=False).grad is False
    assert eagle.nodes.opaque is opaque


def test_planes_by_position() -> None:
    a, b = np.zeros(2), Producer(np.zeros(2), shape=(2,))
    b.shape = (2,)  # type: ignore[attr-defined]
    node = opaque(nothing, reads=[a, b], writes=(b,))
    assert [(plane.name, plane.array) for plane in node.reads] == [("in0", a), ("in1", b)]
    assert [(plane.name, plane.array) for plane in node.writes] == [("out0", b)]
    assert opaque(nothing).reads == opaque(nothing, reads={}, writes=[]).writes == ()


class TorchStream:
    cuda_stream = 77


class CupyStream:
    ptr = 78


class ProtocolStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 79


@pytest.mark.parametrize(("stream", "handle"), [
    (0, 0), (76, 76), (np.int64(5), 5), (TorchStream(), 77), (CupyStream(), 78), (ProtocolStream(), 79),
    (2**64 - 1, 2**64 - 1)])
def test_tiers(stream: Any, handle: int) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)

    nodes = [opaque(work), opaque(work, stream=stream), opaque(work, eager=True)]
    assert [node.kind for node in nodes] == ["opaque", "opaque_stream", "opaque_host"]
    assert [get_node_kind(node.kind).tier for node in nodes] == ["capture", "stream", "host"]
    for node in nodes:
        node()
        behaviour = get_node_kind(node.kind)
        assert behaviour.lower_gpu is not None
        behaviour.lower_gpu(node, None)()
    assert len(calls) == 6
    on_stream = get_node_kind("opaque_stream").lower_gpu
    assert on_stream is not None and on_stream(nodes[1], None).stream == handle  # type: ignore[attr-defined]
    assert nodes[1].payload.owner is stream
    assert opaque(work, stream=None, eager=False).kind == "opaque"


def test_what_own_code_raises_is_raised() -> None:
    node = opaque(lambda: {}["no"])
    for _ in range(2):
        with pytest.raises(KeyError, match="no"):
            node()


READ_ONLY = np.zeros(2)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(("given", "raised", "text"), [
    ({"fn": None}, TypeError, "fn: found None, a NoneType, wanted a callable without arguments"),
    ({"fn": X}, TypeError, "fn: found array"),
    ({"reads": X}, TypeError, r"reads: found array.*, a ndarray, wanted \{name: array\}, or .*; pass reads=\[x\]"),
    ({"writes": "x"}, TypeError, "writes: found 'x', a str"), ({"writes": {X.shape}}, TypeError, "writes: found {"),
    ({"reads": None}, TypeError, "reads: found None"), ({"reads": {3: X}}, TypeError, "reads: found the name 3"),
    ({"reads": [X, 2.0]}, TypeError, "reads, 'in1': found 2.0, a float, wanted an array"),
    ({"writes": {"y": [1.0]}}, TypeError, r"writes, 'y': found \[1.0\], a list"),
    ({"writes": {"y": np.ndarray}}, TypeError, "writes, 'y': found <class"),
    ({"writes": {"y": READ_ONLY}}, BufferRefused, "writes, 'y': found a read-only array, wanted one that may be"),
    ({"stream": "s"}, TypeError, "stream: found 's', a str, wanted an int, or an object with __cuda_stream__"),
    ({"stream": True}, TypeError, "stream: found True, a bool"), ({"stream": 1.5}, TypeError, "stream: found 1.5"),
    ({"stream": -1}, BufferRefused, "stream: found -1, wanted a handle"),
    ({"stream": 2**64}, BufferRefused, "stream: found 18446744073709551616"),
    ({"stream": 1, "eager": True}, ValueError, "stream: found a stream beside eager=True, wanted one of the two"),
    ({"eager": 1}, TypeError, "eager: found 1, wanted True or False"),
    ({"grad": None}, TypeError, "grad: found None, wanted True or False"),
    ({"name": 3}, TypeError, "name: found 3, wanted a text or None"),
])
def test_what_is_no_own_code(given: dict[str, Any], raised: type[Exception], text: str) -> None:
    call: Callable[..., Node] = opaque
    with pytest.raises(raised, match=rf"^eagle\.opaque: {text}"):
        call(given.pop("fn", nothing), **given)


def test_a_read_only_array_may_be_read() -> None:
    assert opaque(nothing, reads=[READ_ONLY]).reads[0].array is READ_ONLY


def test_grad_is_a_bool() -> None:
    with pytest.raises(TypeError, match=r"^eagle\.graph\.Node: grad: found 1, wanted True or False"):
        Node("nothing", None, None, 1)  # type: ignore[arg-type]
    assert eagle.copy(X, into=np.ones(2)).grad is True


# ---- graphs that frameworks captured ---------------------------------------------------------------------------------


class TorchGraph:
    """As torch.cuda.CUDAGraph: no graph before a capture and after a reset."""

    handle = 0

    def raw_cuda_graph(self) -> int:
        if not self.handle:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance unless CUDAGraph was captured")
        return self.handle


class WarpGraph:
    """As warp.Graph."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph


def torch_graph(handle: int) -> TorchGraph:
    made = TorchGraph()
    made.handle = handle
    return made


@pytest.mark.parametrize("owner", [torch_graph(71), WarpGraph(71), WarpGraph(ctypes.c_void_p(71))])
def test_a_child(owner: Any) -> None:
    x, y = np.zeros(2), np.zeros(3)
    node = child(owner, reads={"x": x}, writes=[y], name="model")
    assert isinstance(node, Node) and (node.kind, node.label, node.grad) == ("child", "model", True)
    assert node.reads == (("x", x, "per_sample"),) and node.writes == (("out0", y, "out"),)
    assert node.payload.owner is owner and node.payload.handle == 71
    assert (child(owner).label, child(owner).reads, child(owner).writes) == ("child", (), ())
    assert get_node_kind("child").tier == "capture" and eagle.graph.child is child
    with pytest.raises(ValueError, match=r"^eagle\.graph\.child: node 'model': found a captured graph on the host, "
                                         r"wanted a graph on a GPU; call the model in an eagle\.opaque node"):
        node()
    on_gpu = get_node_kind("child").lower_gpu
    assert on_gpu is not None
    with pytest.raises(BackendUnavailable, match="node 'model': found a captured graph, wanted a version that"):
        on_gpu(node, None)


def test_a_child_that_was_captured_again() -> None:
    for owner, attribute, changes in ((torch_graph(71), "handle", (72, 0)), (WarpGraph(71), "graph", (72, None))):
        node, check = child(owner, name="model"), get_node_kind("child").check
        assert check is not None
        check(node)
        for handle in changes:
            setattr(owner, attribute, handle)
            with pytest.raises(RuntimeError, match=r"^eagle\.graph\.child: node 'model': found a graph that was reset "
                                                   "or captured again, .*; make a new node and build anew"):
                check(node)
            with pytest.raises(RuntimeError, match="captured again"):
                node()
        setattr(owner, attribute, 71)
        check(node)


@pytest.mark.parametrize(("given", "raised", "text"), [
    ({"owner": 71}, TypeError, "owner: found 71, a int, that holds no graph, wanted a torch.cuda.CUDAGraph captured "
                               "with keep_graph=True, or a warp.Graph"),
    ({"owner": None}, TypeError, "owner: found None"), ({"owner": TorchGraph()}, TypeError, "owner: found <"),
    ({"owner": WarpGraph(None)}, TypeError, "owner: found <"), ({"owner": WarpGraph(0)}, TypeError, "owner: found <"),
    ({"owner": WarpGraph(ctypes.c_void_p())}, TypeError, "owner: "), ({"owner": WarpGraph("g")}, TypeError, "owner: "),
    ({"owner": WarpGraph(True)}, TypeError, "owner: "), ({"owner": WarpGraph(-1)}, TypeError, "owner: "),
    ({"reads": X}, TypeError, "reads: found array"), ({"writes": {"y": 2.0}}, TypeError, "writes, 'y': found 2.0"),
    ({"writes": [READ_ONLY]}, BufferRefused, "writes, 'out0': found a read-only array"),
    ({"name": 3}, TypeError, "name: found 3, wanted a text or None"),
])
def test_what_is_no_child(given: dict[str, Any], raised: type[Exception], text: str) -> None:
    call: Callable[..., Node] = child
    with pytest.raises(raised, match=rf"^eagle\.graph\.child: {text}"):
        call(given.pop("owner", WarpGraph(71)), **given)
