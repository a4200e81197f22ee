# SPDX-License-Identifier: Apache-2.0
"""Moving arrays: ``copy`` between host and devices, ``pinned`` host memory that devices reach directly."""

from __future__ import annotations

import ctypes
import math
import operator
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from eagle import _core, backends
from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BackendUnavailable, BufferRefused, LayoutError, refusal, shown
from eagle.interop.buffer import BufferView, Requirements, has_moved, view_for
from eagle.interop.frameworks import is_followed
from eagle.nodes import READ, WRITTEN, Node, NodeKind, Plane, check_name, recorder, register_built_in

__all__ = ["copy", "copy_node", "pinned"]

COPY = "eagle.copy"
PINNED = "eagle.pinned"
TO_DEVICE, TO_HOST, ON_DEVICE = 0, 1, 2  # directions of the seam's memcpy
CONTIGUOUS, WRITABLE = Requirements(contiguous=True), Requirements(writable=True)
MOST_BYTES = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Copy:
    """What a node of kind copy knows: its two arrays, as they were when it was made, and what moves the bytes."""

    src: Any
    into: Any
    source: BufferView
    target: BufferView
    move: Callable[[], object]

    def is_apart(self) -> bool:
        """Whether it moves bytes within host memory, between ranges that share none."""
        size, a, b = self.source.nbytes, self.source.ptr, self.target.ptr
        return size > 0 and abs(a - b) >= size and _on_host(self.source) and _on_host(self.target)


def copy(src: Any, *, into: Any, name: str | None = None) -> Any:
    """A node that copies `src` to `into` each time it is called: arrays of any library, on the host or on devices.

    Both are contiguous, of one shape and dtype. Ranges that overlap behave as in an assignment of NumPy; an array into
    itself does nothing. A call returns when the elements are there. Raises TypeError for what is no array, ValueError
    for arrays that do not fit and for an `into` that may not be written, BackendUnavailable where no backend can.

    Inside a builder the copy is a node of its graph, and `into` is returned.
    """
    node = copy_node(src, into, name)
    if (recording := recorder()) is None:
        return node
    recording.add(node)
    return into


def copy_node(src: Any, into: Any, name: str | None = None) -> Node:
    """The node that :func:`copy` makes."""
    check_name(COPY, name)
    source, target = view_for(COPY, "src", src), view_for(COPY, "into", into)
    for side, view in (("src", source), ("into", target)):
        _require(side, view, CONTIGUOUS, "pass a contiguous array")
    _require("into", target, WRITABLE, "pass an array that may be written")
    _refuse_followed(into)
    if source.shape != target.shape:
        raise LayoutError(refusal(COPY, "into", f"shape {target.shape}", f"{source.shape}, the shape of src",
                                  "reshape one of them"))
    if source.dtype != target.dtype:
        raise BufferRefused(refusal(COPY, "into", target.dtype, f"{source.dtype}, the dtype of src",
                                    "convert one of them first"))
    return Node("copy", Copy(src, into, source, target, _mover(source, target)), name)


def _require(side: str, view: BufferView, wanted: Requirements, fix: str) -> None:
    if clauses := view.refusals(wanted):
        raise BufferRefused(f"{COPY}: {side}: {view.producer}: {'; '.join(clauses)}; {fix}")


def _refuse_followed(into: object) -> None:
    if is_followed(into):
        raise BufferRefused(refusal(COPY, "into", "a tensor that requires grad", "one that autograd does not follow",
                                    "pass into.detach()"))


def _on_host(view: BufferView) -> bool:
    return view.device[0] in HOST_DEVICE_TYPES


def _mover(source: BufferView, target: BufferView) -> Callable[[], object]:
    """What moves the bytes from one array to the other. Raises BackendUnavailable where nothing does."""
    dst, src, size = target.ptr, source.ptr, source.nbytes
    if size == 0 or dst == src:
        return lambda: None
    if _on_host(source) and _on_host(target):
        return partial(_core.memcpy, dst, src, size)
    if _on_host(source):
        return partial(_leg("into", target, TO_DEVICE), dst, src, size)
    if _on_host(target):
        return partial(_leg("src", source, TO_HOST), dst, src, size)
    if source.device == target.device and abs(dst - src) >= size:
        return partial(_leg("into", target, ON_DEVICE), dst, src, size)
    # The seam copies disjoint ranges of one device; what else there is goes by way of the host.
    return partial(_by_host, _leg("src", source, TO_HOST), _leg("into", target, TO_DEVICE), dst, src, size)


Leg = Callable[[int, int, int], None]


def _by_host(down: Leg, up: Leg, dst: int, src: int, size: int) -> None:
    between = np.empty(size, np.uint8)
    down(between.ctypes.data, src, size)
    up(dst, between.ctypes.data, size)


def _leg(side: str, view: BufferView, direction: int) -> Leg:
    """A copy in one direction by the backend of a view's device. Raises BackendUnavailable where it has none."""
    backend = backends.load(backends.for_device_type(view.device[0]))
    whole = backend.has("memcpy")
    if not whole and not (direction == ON_DEVICE and backend.has("memcpy_device")):
        raise BackendUnavailable(refusal(
            COPY, side, f"{view!r}", "a backend of eagle-backend/1.6 for its device, such as a newer release",
            f"backend {backend.kind!r} ({backend.path}) does not provide eagle_backend_memcpy"))

    def leg(dst: int, src: int, size: int) -> None:
        stream = backend.stream_create(view.device[1])
        if whole:
            backend.memcpy(dst, src, size, direction, stream.ptr)
        else:
            backend.memcpy_device(dst, src, size, stream.ptr)
        stream.synchronize()

    return leg


def _check(node: Node) -> None:
    """Refuse arrays that moved or became read-only; order what their producers do before what comes."""
    made: Copy = node.payload
    for side, array, view in (("src", made.src, made.source), ("into", made.into, made.target)):
        if has_moved(view):
            raise BufferRefused(refusal(COPY, side, "an array that moved or changed since the node was made",
                                        f"{view!r}", "make a new node"))
        now = view_for(COPY, side, array)
        if side == "into":
            _require(side, now, WRITABLE, "make it writable again")
            _refuse_followed(array)


register_built_in(NodeKind("copy", reads=lambda node: (Plane("src", node.payload.src, READ),),
                           writes=lambda node: (Plane("dst", node.payload.into, WRITTEN),),
                           lower_gpu=None,  # its copies wait, which a recording must not
                           lower_cpu=lambda node, ctx: node.payload.move, check=_check),
                  lambda payload: isinstance(payload, Copy))


def pinned(shape: SupportsIndex | tuple[SupportsIndex, ...], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """An uninitialised NumPy array in page-locked memory, which devices copy from and to directly; it is freed with its
    last view.

    Where no GPU kind, or more than one, has a device this is ``numpy.empty``. Raises TypeError and ValueError for a
    shape or dtype that cannot be, BackendUnavailable for a GPU backend that cannot do it.
    """
    extents = _extents(shape)
    try:
        wanted = np.dtype(dtype)
    except (TypeError, ValueError):
        raise TypeError(refusal(PINNED, "dtype", shown(dtype), "a dtype of NumPy", "pass a name such as 'float64'")
                        ) from None
    if wanted.hasobject:
        raise TypeError(refusal(PINNED, "dtype", str(wanted), "elements that are no Python objects",
                                "pass a dtype of numbers"))
    size = math.prod(extents) * wanted.itemsize
    if size > MOST_BYTES:
        raise ValueError(refusal(PINNED, "shape", shown(extents), f"at most {MOST_BYTES} bytes", "pass a smaller one"))
    kinds = backends.gpus()
    if len(kinds) != 1 or size == 0:
        return np.empty(extents, wanted)
    return np.ndarray(extents, wanted, buffer=_page_locked(backends.load(kinds[0]), size))


def _page_locked(backend: _core.Backend, size: int) -> Any:
    """Memory of a backend, as a buffer; it goes back with the object."""
    address = backend.host_alloc(size)
    memory = (ctypes.c_byte * size).from_address(address)
    weakref.finalize(memory, backend.host_free, address).atexit = False  # views may outlive the interpreter
    return memory


def _extents(shape: Any) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    for size in sizes:
        if isinstance(size, bool) or not hasattr(type(size), "__index__"):
            raise TypeError(refusal(PINNED, "shape", shown(shape), "an integer or a tuple of integers",
                                    "convert the sizes first"))
        if operator.index(size) < 0:
            raise ValueError(refusal(PINNED, "shape", shown(shape), "sizes of 0 or more", "pass one of that kind"))
    return tuple(map(operator.index, sizes))
