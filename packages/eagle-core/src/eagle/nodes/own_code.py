# SPDX-License-Identifier: Apache-2.0
"""``opaque``: the caller's own code as a node, which says what it touches; ``child``: a graph a framework captured."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from eagle.errors import BackendUnavailable, BufferRefused, refusal, shown
from eagle.interop.streams import stream_handle
from eagle.nodes.node import READ, WRITTEN, Node, NodeKind, Plane, check_grad, check_name, register_built_in
from eagle.nodes.recording import recorder

__all__ = ["Captured", "OwnCode", "child", "opaque"]

DOOR, CHILD = "eagle.opaque", "eagle.graph.child"

Declared = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, eq=False)
class OwnCode:
    """What a node of own code knows; calling it runs the code. `stream` is the handle of the stream its device work
    goes to, `owner` what keeps that stream alive."""

    fn: Callable[[], object]
    reads: tuple[Plane, ...]
    writes: tuple[Plane, ...]
    stream: int | None = None
    owner: object = None

    def __call__(self) -> None:
        self.fn()


def opaque(fn: Callable[[], object], *, reads: Declared = (), writes: Declared = (), eager: bool = False,
           stream: Any = None, name: str | None = None, grad: bool = True) -> Node:
    """A node that calls `fn()`: any code of yours, with the arrays it reads and writes.

    `reads` and `writes` are {name: array}, or a list or tuple of arrays, which are named in0, in1, ... and out0, out1,
    ... Declare every array the code touches, an array it updates in both: order is made from what is declared. `grad`
    says whether gradients flow through it.

    The kind says how a GPU graph runs it; on the host each of them is a call in its place. "opaque": recorded once and
    replayed. `stream=`, a handle or an object of some library, gives "opaque_stream": called each time, its device work
    on that stream. `eager=True` gives "opaque_host": called each time, with the device waited for before and after.

    Inside a builder it is a node of the graph at once.

    Raises TypeError for what is no function, no array, no stream or no name; ValueError for `stream=` beside
    `eager=True`; BufferRefused for a read-only array in `writes`.
    """
    if not callable(fn):
        raise TypeError(refusal(DOOR, "fn", _kind_of(fn), "a callable without arguments", "pass a function"))
    check_name(DOOR, name)
    check_grad(DOOR, grad)
    if not isinstance(eager, bool):
        raise TypeError(refusal(DOOR, "eager", shown(eager), "True or False", "pass one of them"))
    if eager and stream is not None:
        raise ValueError(refusal(DOOR, "stream", "a stream beside eager=True", "one of the two",
                                 "leave one of them out"))
    read, written = _declared(DOOR, reads, writes)
    if stream is not None:
        node = Node("opaque_stream", OwnCode(fn, read, written, stream_handle(DOOR, stream), stream), name, grad)
    else:
        node = Node("opaque_host" if eager else "opaque", OwnCode(fn, read, written), name, grad)
    if (recording := recorder()) is not None:
        recording.add(node)
    return node


@dataclass(frozen=True, eq=False)
class Captured:
    """What a node of kind child knows: who holds the graph, and its handle when the node was made."""

    owner: Any
    handle: int
    reads: tuple[Plane, ...]
    writes: tuple[Plane, ...]


def child(owner: Any, *, reads: Declared = (), writes: Declared = (), name: str | None = None) -> Node:
    """A node that runs a graph some framework captured on a GPU: a torch.cuda.CUDAGraph made with keep_graph=True, or a
    warp.Graph. The node keeps `owner` alive.

    `reads` and `writes` are as :func:`opaque` takes them. A launch after owner.reset() or a new capture raises
    RuntimeError; the host runs no such graph, and a call there is a ValueError.

    Raises TypeError for an owner that holds no graph, for what is no array and no name; BufferRefused for a read-only
    array in `writes`.
    """
    handle = _graph_of(owner)
    if not handle:
        raise TypeError(refusal(CHILD, "owner", f"{_kind_of(owner)}, that holds no graph",
                                "a torch.cuda.CUDAGraph captured with keep_graph=True, or a warp.Graph",
                                "pass the object that holds the captured graph"))
    check_name(CHILD, name)
    return Node("child", Captured(owner, handle, *_declared(CHILD, reads, writes)), name)


def _graph_of(owner: Any) -> int:
    """The handle of the graph an object holds now; 0 for none."""
    try:
        ask = getattr(owner, "raw_cuda_graph", None)
        handle: Any = ask() if callable(ask) else getattr(owner, "graph", None)
        handle = getattr(handle, "value", handle)  # ctypes.c_void_p
        return 0 if isinstance(handle, bool) else max(operator.index(handle), 0)
    except Exception:  # noqa: BLE001  a framework says in its own way that there is none
        return 0


def _declared(door: str, reads: Declared, writes: Declared) -> tuple[tuple[Plane, ...], tuple[Plane, ...]]:
    """The planes read and written. Raises BufferRefused for a read-only array that is written."""
    read, written = _planes(door, "reads", "in", reads, READ), _planes(door, "writes", "out", writes, WRITTEN)
    for plane in written:
        if isinstance(plane.array, np.ndarray) and not plane.array.flags.writeable:
            raise BufferRefused(refusal(door, f"writes, {plane.name!r}", "a read-only array", "one that may be written",
                                        "pass a writable array, or declare it in reads="))
    return read, written


def _planes(door: str, argument: str, prefix: str, given: Any, role: str) -> tuple[Plane, ...]:
    if isinstance(given, Mapping):
        named = list(given.items())
    elif isinstance(given, list | tuple):
        named = [(f"{prefix}{i}", array) for i, array in enumerate(given)]
    else:
        raise TypeError(refusal(door, argument, _kind_of(given), "{name: array}, or a list or tuple of arrays",
                                f"pass {argument}=[x] for one array"))
    for name, array in named:
        if not isinstance(name, str):
            raise TypeError(refusal(door, argument, f"the name {shown(name)}", "texts", "pass {str(name): array}"))
        if isinstance(array, type) or not hasattr(array, "shape"):
            raise TypeError(refusal(door, f"{argument}, {name!r}", _kind_of(array), "an array",
                                    "declare the arrays that the code touches; numbers need no declaration"))
    return tuple(Plane(name, array, role) for name, array in named)


def _kind_of(value: object) -> str:
    return f"{shown(value)}, a {type(value).__name__}"


def _function(node: Node, ctx: object) -> Callable[[], object]:  # the host asks for no stream: one call less
    code: OwnCode = node.payload
    return code.fn


def _code(node: Node, ctx: object) -> OwnCode:
    code: OwnCode = node.payload
    return code


for _kind, _tier in (("opaque", "capture"), ("opaque_stream", "stream"), ("opaque_host", "host")):
    register_built_in(NodeKind(_kind, reads=lambda node: node.payload.reads, writes=lambda node: node.payload.writes,
                               lower_gpu=_code, lower_cpu=_function, tier=_tier),
                      lambda payload: isinstance(payload, OwnCode))


def _check_child(node: Node) -> None:
    """Refuse a graph that is not the one the node was made of."""
    if _graph_of(node.payload.owner) != node.payload.handle:
        raise RuntimeError(refusal(CHILD, f"node {node.label!r}", "a graph that was reset or captured again",
                                   "the graph the node was made of", "make a new node and build anew"))


def _no_host(node: Node, ctx: object) -> NoReturn:
    raise ValueError(refusal(CHILD, f"node {node.label!r}", "a captured graph on the host", "a graph on a GPU",
                             "call the model in an eagle.opaque node"))


def _no_device(node: Node, ctx: object) -> NoReturn:
    raise BackendUnavailable(refusal(CHILD, f"node {node.label!r}", "a captured graph", "a version that launches on "
                                     "devices", "call the model in an eagle.opaque node"))


register_built_in(NodeKind("child", reads=lambda node: node.payload.reads, writes=lambda node: node.payload.writes,
                           lower_gpu=_no_device, lower_cpu=_no_host, check=_check_child),
                  lambda payload: isinstance(payload, Captured))
