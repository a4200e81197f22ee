# SPDX-License-Identifier: Apache-2.0
"""``reduce``: samples into one cell, or each column into its own, in one fixed order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from eagle import _core, backends
from eagle.backends.spec import HOST_DEVICE_TYPES
from eagle.errors import BackendUnavailable, BufferRefused, LayoutError, refusal, shown
from eagle.integers import index_of
from eagle.interop.buffer import BufferView, Requirements, has_moved, view_for
from eagle.interop.frameworks import is_followed
from eagle.nodes.node import READ, WRITTEN, Node, NodeKind, Plane, register_built_in

__all__ = ["Reduction", "reduce"]

DOOR = "eagle.reduce"

# Their numbers at _core.reduction are their places here.
OPS = ("sum", "max", "all", "min")
ELEMENTS = ("float32", "float64", "int32", "int64", "bool")
FLOATS, NUMBERS, BOOLS = ELEMENTS[:2], ELEMENTS[:4], ELEMENTS[4:]
POLICIES = ("auto", "compensated", "ordered")

WRITABLE = Requirements(writable=True)
IN_ORDER = {dtype: Requirements(contiguous=True, alignment=np.dtype(dtype).itemsize) for dtype in ELEMENTS}

ARGUMENTS = 5  # of a host entry, as HostReduction.h lists them

Block = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True, eq=False)
class Reduction:
    """What a node of kind reduce knows: its arrays, as they were when it was made, and the host entry that runs over
    `samples` of them: those of x, or its columns."""

    arrays: dict[str, Any]
    views: dict[str, BufferView]
    op: str
    policy: str
    entry: int
    memory: int
    grain: int
    rows: int
    samples: int
    held: list[Block] = field(default_factory=list)

    def arguments(self) -> tuple[Block, int]:
        """The addresses of the entry's arguments, with memory of its own behind them, and where they are. One launch at
        a time uses such a block."""
        block = np.zeros(ARGUMENTS + 1 + -(-self.memory // 8), np.uint64)
        address: int = block.ctypes.data
        own = address + 8 * ARGUMENTS
        comp = self.views.get("comp")
        block[:ARGUMENTS + 1] = (self.views["x"].ptr, 0 if comp is None else comp.ptr, self.views["out"].ptr, own,
                                 own + 8, self.rows)
        return block, address


def reduce(x: Any, out: Any, *, op: str = "sum", comp: Any = None, policy: str = "compensated",
           device: SupportsIndex | None = None) -> Node:
    """A node that reduces `x` of (n,) to `out` of (1,), or each column of `x` of (rows, N) to `out` of (N,): contiguous
    arrays of one dtype, of any library. A call returns when `out` is there.

    `op` is "sum", "max" or "min" of float32, float64, int32 or int64, or "all" of bool. Floats are summed in one fixed
    order, the same for every `policy`, with what rounding loses carried along; `comp`, of the shape and dtype of x,
    adds to each sample what was lost before. Sums of integers wrap; max and min are NaN where a sample is. No bit
    depends on the number of threads.

    Raises TypeError for what is no array, for a dtype an op does not take, for arrays of different dtypes or sides and
    for comp= beside anything but a sum of floats; ValueError for an op or policy that does not exist, for shapes,
    memory order or overlap that do not fit, for an `out` that may not be written and for another `device` than that of
    the arrays; BackendUnavailable for arrays on a device, and at a call without a backend for the host.
    """
    for argument, value, known in (("op", op, OPS), ("policy", policy, POLICIES)):
        if not isinstance(value, str) or value not in known:
            raise ValueError(refusal(DOOR, argument, shown(value), f"one of {sorted(known)}", "pass one of them"))
    arrays = {"x": x, "out": out} if comp is None else {"x": x, "out": out, "comp": comp}
    views = {name: view_for(DOOR, name, array) for name, array in arrays.items()}
    _check_dtypes(op, views)
    rows, columns = _shape(views)
    for name, view in views.items():
        _require(name, view, IN_ORDER[view.dtype], "pass a contiguous array, as numpy.ascontiguousarray makes one")
    _require("out", views["out"], WRITABLE, "pass an array that may be written")
    _refuse_followed(out)
    for name, view in views.items():
        if name != "out" and _overlap(view, views["out"]):
            raise BufferRefused(refusal(DOOR, "out", f"an array that shares memory with {name}", "one of its own",
                                        "pass another array"))
    _check_device(device, views)
    entry, memory, grain = _core.reduction(OPS.index(op), ELEMENTS.index(views["x"].dtype), rows, columns)
    return Node("reduce", Reduction(arrays, views, op, policy, entry, memory, grain, rows,
                                    rows if columns == 1 else columns))


def _require(name: str, view: BufferView, wanted: Requirements, fix: str) -> None:
    if clauses := view.refusals(wanted):
        raise BufferRefused(f"{DOOR}: {name}: {view.producer}: {'; '.join(clauses)}; {fix}")


def _check_dtypes(op: str, views: dict[str, BufferView]) -> None:
    x, takes = views["x"], BOOLS if op == "all" else NUMBERS
    if x.dtype not in takes:
        raise TypeError(refusal(DOOR, "x", x.dtype, f"one of {list(takes)}, which op={op!r} takes",
                                "convert it first"))
    if "comp" in views and (op != "sum" or x.dtype not in FLOATS):
        raise TypeError(refusal(DOOR, "comp", f"companions of op={op!r} of {x.dtype}",
                                f"a sum of {' or '.join(FLOATS)}", "leave comp= out"))
    for name, view in views.items():
        if view.dtype != x.dtype:
            raise TypeError(refusal(DOOR, name, view.dtype, f"{x.dtype}, the dtype of x", "convert one of them"))
        if _on_host(view) != _on_host(x) or not _on_host(x) and view.device[0] != x.device[0]:
            raise TypeError(refusal(DOOR, name, _side(view), f"{_side(x)}, as x is", "move one of them"))


def _shape(views: dict[str, BufferView]) -> tuple[int, int]:
    """The rows and columns of x; (n,) samples are rows. Raises LayoutError for shapes that do not fit."""
    shape = views["x"].shape
    if len(shape) not in (1, 2):
        raise LayoutError(refusal(DOOR, "x", f"shape {shape}", "(n,) or (rows, N)", "reshape it"))
    if 0 in shape:
        raise LayoutError(refusal(DOOR, "x", f"shape {shape}, which holds no samples", "one sample or more",
                                  "leave the reduction out where there are none"))
    wanted = shape[1:] or (1,)
    if views["out"].shape != wanted:
        raise LayoutError(refusal(DOOR, "out", f"shape {views['out'].shape}", f"{wanted} for x of shape {shape}",
                                  f"pass one of shape {wanted}"))
    if "comp" in views and views["comp"].shape != shape:
        raise LayoutError(refusal(DOOR, "comp", f"shape {views['comp'].shape}", f"{shape}, the shape of x",
                                  "pass one companion a sample"))
    return shape[0], wanted[0]


def _check_device(device: Any, views: dict[str, BufferView]) -> None:
    """Refuse arrays of several devices, or of another than `device`, and those no host entry reaches."""
    x = views["x"]
    for name, view in views.items():
        if not _on_host(x) and view.device != x.device:
            raise BufferRefused(refusal(DOOR, name, _side(view), f"{_side(x)}, as x is", "move one of them"))
    if device is not None:
        if (ordinal := index_of(device)) is None:
            raise TypeError(refusal(DOOR, "device", shown(device), "the ordinal of a device", "pass an int"))
        if ordinal != x.device[1]:
            raise BufferRefused(refusal(DOOR, "device", shown(ordinal),
                                        f"{x.device[1]}, where the arrays are", "leave it out: it moves nothing"))
    if not _on_host(x):
        raise BackendUnavailable(refusal(DOOR, "x", _side(x), "host memory",
                                         "copy it to the host: this version reduces there"))


def _overlap(a: BufferView, b: BufferView) -> bool:
    return a.ptr < b.ptr + b.nbytes and b.ptr < a.ptr + a.nbytes


def _on_host(view: BufferView) -> bool:
    return view.device[0] in HOST_DEVICE_TYPES


def _side(view: BufferView) -> str:
    if _on_host(view):
        return "an array on the host"
    name = next((name for name, code in _core.DEVICE_TYPES.items() if code == view.device[0]), str(view.device[0]))
    return f"an array on device {view.device[1]} of {name}"


def _refuse_followed(out: object) -> None:
    if is_followed(out):
        raise BufferRefused(refusal(DOOR, "out", "a tensor that requires grad", "one that autograd does not follow",
                                    "pass out.detach()"))


# ---- the kind --------------------------------------------------------------------------------------------------------


def _check(node: Node) -> None:
    """Refuse arrays that moved or became read-only."""
    made: Reduction = node.payload
    for name, view in made.views.items():
        if has_moved(view):
            raise BufferRefused(refusal(DOOR, name, "an array that moved or changed since the node was made",
                                        f"{view!r}", "make a new node"))
    out = made.arrays["out"]
    if not view_for(DOOR, "out", out).writable:
        raise BufferRefused(refusal(DOOR, "out", "an array that became read-only", "one that may be written",
                                    "make it writable again"))
    _refuse_followed(out)


def _on_team(node: Node, ctx: object) -> Callable[[], object]:
    made: Reduction = node.payload
    block, address = made.arguments()
    launch = partial(backends.host().run_device, made.entry, address, ARGUMENTS, 0, made.samples, made.samples,
                     made.grain)

    def work(block: Block = block) -> None:  # which keeps it alive
        launch()

    return work


def _native(node: Node, ctx: object) -> tuple[int, tuple[int, ...], tuple[tuple[int, int, int], ...]]:
    made: Reduction = node.payload
    block, _ = made.arguments()
    made.held.append(block)  # a graph has addresses only, and each its own block
    return made.entry, tuple(block[:ARGUMENTS].tolist()), ((0, made.samples, made.samples),)


def _reads(node: Node) -> tuple[Plane, ...]:
    return tuple(Plane(name, array, READ) for name, array in node.payload.arrays.items() if name != "out")


register_built_in(NodeKind("reduce", reads=_reads,
                           writes=lambda node: (Plane("out", node.payload.arrays["out"], WRITTEN),),
                           lower_gpu=None, lower_cpu=_on_team, native_entry=_native, check=_check),
                  lambda payload: isinstance(payload, Reduction))
