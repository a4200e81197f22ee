# SPDX-License-Identifier: Apache-2.0
"""``opaque``: the caller's own code as a node, which says what it touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eagle.errors import BufferRefused, refusal, shown
from eagle.interop.streams import stream_handle
from eagle.nodes.node import READ, WRITTEN, Node, NodeKind, Plane, check_grad, check_name, register_built_in

__all__ = ["OwnCode", "opaque"]

DOOR = "eagle.opaque"

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
    read, written = _planes("reads", "in", reads, READ), _planes("writes", "out", writes, WRITTEN)
    for plane in written:
        if isinstance(plane.array, np.ndarray) and not plane.array.flags.writeable:
            raise BufferRefused(refusal(DOOR, f"writes, {plane.name!r}", "a read-only array", "one that may be written",
                                        "pass a writable array, or declare it in reads="))
    if stream is not None:
        return Node("opaque_stream", OwnCode(fn, read, written, stream_handle(DOOR, stream), stream), name, grad)
    return Node("opaque_host" if eager else "opaque", OwnCode(fn, read, written), name, grad)


def _planes(argument: str, prefix: str, given: Any, role: str) -> tuple[Plane, ...]:
    if isinstance(given, Mapping):
        named = list(given.items())
    elif isinstance(given, list | tuple):
        named = [(f"{prefix}{i}", array) for i, array in enumerate(given)]
    else:
        raise TypeError(refusal(DOOR, argument, _kind_of(given), "{name: array}, or a list or tuple of arrays",
                                f"pass {argument}=[x] for one array"))
    for name, array in named:
        if not isinstance(name, str):
            raise TypeError(refusal(DOOR, argument, f"the name {shown(name)}", "texts", "pass {str(name): array}"))
        if isinstance(array, type) or not hasattr(array, "shape"):
            raise TypeError(refusal(DOOR, f"{argument}, {name!r}", _kind_of(array), "an array",
                                    "declare the arrays that the code touches; numbers need no declaration"))
    return tuple(Plane(name, array, role) for name, array in named)


def _kind_of(value: object) -> str:
    return f"{shown(value)}, a {type(value).__name__}"


def _code(node: Node, ctx: object) -> Callable[[], object]:
    code: OwnCode = node.payload
    return code


for _kind, _tier in (("opaque", "capture"), ("opaque_stream", "stream"), ("opaque_host", "host")):
    register_built_in(NodeKind(_kind, reads=lambda node: node.payload.reads, writes=lambda node: node.payload.writes,
                               lower_gpu=_code, lower_cpu=_code, tier=_tier))
