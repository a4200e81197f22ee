# SPDX-License-Identifier: Apache-2.0
"""A plugin's declaration as slots: what each plane and uniform must be, checked once per plan."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from functools import cached_property
from typing import Any

import numpy as np

from eagle import roles
from eagle.abi import ABI_TAG_V2
from eagle.dtypes import PLANE_DTYPES, np_dtype
from eagle.errors import refusal, shown
from eagle.registry import complete
from eagle.roles import WIDEST, cell_plane, companion_plane

__all__ = ["ONE_VALUE", "ROW", "Box", "Cell", "Lanes", "Signature", "Slot", "Stage", "Use", "read_signature"]

ONE_VALUE = (("value", 1),)  # the axes of a table that stands for one value
MAP, OFFSETS = 1, 2  # tables whose values say where the kernel writes, as native/kernel.h numbers them
ROW = 32  # samples that one row of a reduction covers, as kernels write them; kRow of native/kernel.h is the same


class Box(IntEnum):
    """How a slot rides in the argument block; the numbers are those of ``native/kernel.h``."""

    HANDLE = 0
    MIRROR = 1
    FLOAT64 = 2
    FLOAT32 = 3
    INT64 = 4
    SAMPLE_COUNT = 5
    CELL = 6
    TABLE = 7
    MATRIX = 8
    SINK = 9
    ROWS = 10
    COMPANION = 11


class Use(Enum):
    """What a slot is for."""

    SAMPLES = auto()  #: a column a sample
    TABLE = auto()  #: read anywhere, with a length of its own
    SINK = auto()  #: written anywhere, with a length of its own
    NUMBER = auto()  #: passed by value
    COUNT = auto()  #: how many samples there are
    WORD = auto()  #: one cell of eagle's that a caller may give
    MAP = auto()  #: which sample each lane computes
    LIVE = auto()  #: how many lanes of a map compute
    OFFSETS = auto()  #: where the samples of each branch begin
    MIX = auto()  #: how often each branch was taken
    CELL = auto()  #: what a reduction over samples gives; no slot of any kernel
    ROWS = auto()  #: a reduction's partials, one for ROW samples
    COMPANION = auto()  #: what the additions to a sink have lost
    BETWEEN = auto()  #: what one stage hands to a later one


#: What the author of a kernel wrote for a plane of each role, and of an integer one.
_DECLARED = {"per_sample": "Scalar", "vec_in": "Vector", "mat_in": "Matrix", "lookup": "Table", "wide_in": "Wide",
             "wide_out": "WideOut", roles.MASK: "Terminated", roles.UNIFORM: "Param", "cell": "reduction"}
_INTEGERS = {"int64": "Index", "int32": "Int32", "uint32": "UInt32"}
#: Slots that eagle makes where the caller gives none, whatever the door.
_MADE = (Use.COUNT, Use.WORD, Use.MIX, Use.ROWS, Use.COMPANION, Use.BETWEEN)
#: Slots that are eagle's alone.
_OWN = (Use.COUNT, Use.ROWS, Use.BETWEEN)


@dataclass(frozen=True)
class Slot:
    """One entry of ``arg_spec``, resolved; or the cell of a reduction."""

    role: str
    name: str
    use: Use
    box: Box
    dtype: np.dtype[Any]
    width: int = 1  #: components of a plane, cells of a fixed buffer
    matrix: tuple[int, int] | None = None  #: (R, C) where declared
    reads_prior: bool = False  #: the kernel reads the value the launch starts from
    writes: bool = False
    zero: bool = False  #: left out, it starts at zero; else the kernel writes every cell
    start: int = 0  #: a word's start value; what a uniform that may be left out is; least cells a sample of a sink;
    #: MAP or OFFSETS
    declared: bool = True  #: the plugin declares the dtype; else integer and bool arrays pass unchanged
    optional: bool = False  #: a uniform that may be left out
    payload: tuple[int, ...] = ()  #: a sink's own axes
    axes: tuple[tuple[str, int | None], ...] | None = None  #: named axes of a table, or of a sink behind the payload
    like: str | None = None  #: a sink that has the shape of another plane
    kept: tuple[bool, ...] | None = None  #: a compact matrix: the lane axes it varies along, () when not known

    @cached_property
    def kind(self) -> str:
        """What the author of the kernel wrote: "Scalar", "Table"; an "output" is only written, a "Mutable" goes on from
        what it holds."""
        if self.use in (Use.WORD, Use.MAP, Use.LIVE, Use.OFFSETS, Use.MIX):
            return "argument"
        if self.use is Use.COMPANION:
            return "companion"
        if self.role == "per_sample":
            return _INTEGERS.get(self.dtype.name, "Scalar")
        if self.role in _DECLARED and not (self.use is Use.SINK and self.axes is not None):
            return _DECLARED[self.role]
        return "Mutable" if self.reads_prior or self.use is Use.SINK else "output"

    @cached_property
    def what(self) -> str:
        """The slot as messages name it."""
        return f"{self.kind} {self.name!r}"

    @cached_property
    def is_plane(self) -> bool:
        return self.use is Use.SAMPLES

    @cached_property
    def is_array(self) -> bool:
        """What the caller gives as an array."""
        return self.use not in (Use.NUMBER, *_OWN)

    @cached_property
    def is_uniform(self) -> bool:
        return self.use is Use.NUMBER

    @cached_property
    def is_output(self) -> bool:
        """Whether run returns it."""
        return self.role in roles.OUTPUTS or self.use in (Use.SINK, Use.CELL)

    @cached_property
    def is_word(self) -> bool:
        return self.use is Use.WORD

    @cached_property
    def dims(self) -> tuple[int, ...]:
        """The shape of a buffer with named axes, -1 for each extent that a call says; of a matrix (R, C)."""
        if self.use is Use.SAMPLES:
            return self.matrix or ()
        return () if self.axes is None else (*self.payload, *(extent or -1 for _, extent in self.axes))

    @cached_property
    def head(self) -> tuple[int, ...]:
        """The axes before those of the samples."""
        return () if self.box is Box.HANDLE else (self.width,)

    def shape(self, n: int) -> tuple[int, ...]:
        """The component-major shape over `n` samples."""
        return (*self.head, n)

    def omissible(self, door: str) -> bool:
        """Whether `door` ("run", "call", "bind", "step" or "record") may leave the slot out; the last is a call."""
        if door == "record":
            door = "call"
        if self.use in _MADE or self.optional:
            return True
        if door == "step":
            return self.role == roles.MASK or self.use in (Use.MAP, Use.LIVE)
        if door == "bind":
            return False
        if self.use in (Use.MAP, Use.LIVE):
            return True
        if door == "call" and self.role == roles.MASK:
            return True
        return self.is_output and not (door == "call" and self.reads_prior)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The axes a launch runs over, the last one fastest; only the first may have no extent before a call."""

    axes: tuple[tuple[str | None, int | None], ...] = ((None, None),)

    @property
    def declared(self) -> bool:
        """Whether the kernel declares axes: its planes may be broadcast, and one sample is no shape of theirs."""
        return self.axes != ((None, None),)

    @property
    def several(self) -> bool:
        """Whether planes may be given in the lane shape, beside the flat one."""
        return len(self.axes) > 1

    @property
    def row(self) -> int:
        """The lanes in one step of the first axis."""
        return math.prod(extent or 1 for _, extent in self.axes[1:])

    @property
    def total(self) -> int | None:
        """All lanes, where every extent is declared."""
        first = self.axes[0][1]
        return None if first is None else first * self.row

    @property
    def label(self) -> str | None:
        """The label whose extent the caller may give."""
        return self.axes[0][0] if self.axes[0][1] is None else None

    def shape(self, n: int) -> tuple[int, ...]:
        """The lane shape of `n` samples."""
        return (n // self.row, *(extent or 1 for _, extent in self.axes[1:]))

    def __str__(self) -> str:
        return ", ".join(f"{label!r}" if extent is None else f"{label!r}: {extent}" for label, extent in self.axes)


@dataclass(frozen=True, slots=True)
class Cell:
    """A reduction over samples: `columns` numbers from the rows its kernel writes."""

    name: str
    op: str  #: "sum", "max" or "min"; a mean is a sum
    columns: int
    internal: bool = False  #: only a later stage reads it

    def planes(self) -> tuple[str, ...]:
        """The names its columns have as slots."""
        return tuple(cell_plane(self.name, k, self.columns) for k in range(self.columns))

    def lost(self) -> tuple[str, ...]:
        """The slots of what the rows of a sum have lost."""
        return tuple(map(companion_plane, self.planes())) if self.op == "sum" else ()


@dataclass(frozen=True, slots=True)
class Stage:
    """One kernel of a program."""

    plugin: Any
    slots: tuple[Slot, ...]
    companions: Mapping[str, str]  #: companion to the sink it belongs to
    folds: Mapping[str, int]  #: sink to the entry that puts its companion into it
    cells: tuple[Cell, ...]  #: what is finished behind it
    box: tuple[int, int] = (1, 1)  #: the samples a thread computes, and how far apart they are

    def threads(self, n: int) -> int:
        """The threads that cover `n` samples: what partitions cut."""
        lanes, stride = self.box
        return n if lanes == 1 else -(-n // (lanes * stride)) * stride


@dataclass(frozen=True)
class Signature:
    """What one call takes, gives and launches."""

    kernel: str
    access: str
    arguments: tuple[Slot, ...]  #: everything a caller may give, in block order
    stages: tuple[Stage, ...]
    lanes: Lanes
    unread: frozenset[str]  #: parameters the kernel declares and never reads
    real: np.dtype[Any]
    keyed: Mapping[str, tuple[int, tuple[tuple[str, int | None], ...]]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names a caller gives."""
        return [s.name for s in self.arguments if s.use not in _MADE]

    @property
    def labels(self) -> set[str]:
        """The extents a caller may give by name: the first lane axis's, and those only sinks have."""
        lanes = {label for label, _ in self.lanes.axes}
        free = {label for s in self.arguments if s.use is Use.SINK for label, extent in s.axes or ()
                if extent is None} - lanes
        return free | ({self.lanes.label} if self.lanes.label is not None else set())

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for stage in self.stages for cell in stage.cells)

    @cached_property
    def touches(self) -> tuple[tuple[str, str, bool, bool], ...]:
        """(name, role, read, written) of each array."""
        return tuple((slot.name, slot.role, not slot.writes or slot.role != "out", slot.writes)
                     for slot in self.arguments if slot.is_array)

    def required(self, door: str) -> list[str]:
        """The names `door` ("run", "call" or "bind") does not do without."""
        return [s.name for s in self.arguments if not s.omissible(door)]

    @property
    def plain(self) -> bool:
        """Whether one kernel over the planes as given is all there is to do, and says itself what shapes they have."""
        uses = (Use.SAMPLES, Use.NUMBER, Use.COUNT, Use.WORD, Use.ROWS, Use.COMPANION, Use.SINK, Use.TABLE)
        slots = self.stages[0].slots
        told = [label for slot in slots if slot.use is Use.SINK for label, extent in slot.axes or () if extent is None]
        return (len(self.stages) == 1 and len(self.lanes.axes) == 1 and self.stages[0].box == (1, 1)
                and all(slot.use in uses and slot.box is not Box.MATRIX for slot in slots)
                and not any(slot.like and slot.use is Use.SINK for slot in slots)
                and len(told) <= 1 and not {label for label, _ in self.lanes.axes} & set(told))

    @property
    def aliasable(self) -> bool:
        """Whether an input may be the very array of the output: one output of one component is written last, and no
        sample reads another's."""
        written = [s for s in self.arguments if s.writes]
        return (self.access == "sample_local" and len(self.stages) == 1 and len(written) == 1
                and written[0].is_plane and written[0].width == 1)


def read_signature(door: str, plugin: Any, access: str) -> Signature:
    """What `plugin` declares.

    Raises ValueError for a declaration that is malformed, naming the kernel, the slot and the fault.
    """
    kernel = str(getattr(plugin, "name", None) or getattr(plugin, "kernel", None) or "kernel")
    try:
        return _read(door, kernel, complete(door, plugin), access)
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError, ValueError) as error:
        if str(error).startswith(f"{door}:"):
            raise
        raise ValueError(refusal(door, f"kernel {kernel!r}", f"a declaration that cannot be read ({error})",
                                 "the attributes of a loaded kernel", "load it with eagle.load_bundle")) from error


def _read(door: str, kernel: str, plugin: Any, access: str) -> Signature:
    if (getattr(plugin, "abi_tag", None) or ABI_TAG_V2) != ABI_TAG_V2:
        raise ValueError(refusal(door, f"kernel {kernel!r}", f"a legacy entry of {plugin.abi_tag}", ABI_TAG_V2,
                                 "rebuild it with hawk"))
    lanes = _lanes(getattr(plugin, "lane_space", None))
    cells = {name: _cell(name, spec) for name, spec in (getattr(plugin, "cells", None) or {}).items()}
    keyed = {name: (spec["width"], tuple((label, extent) for label, extent in spec["axes"]))
             for name, spec in (getattr(plugin, "keyed", None) or {}).items()}
    records = getattr(plugin, "stages", None) or [{"cells_in": (), "cells_out": tuple(cells)}]
    plugins = getattr(plugin, "stage_plugins", None) or (plugin,)
    if len(plugins) != len(records):
        raise ValueError(refusal(door, f"kernel {kernel!r}", f"{len(plugins)} of its {len(records)} stages",
                                 "the whole kernel", "load its bundle with eagle.load_bundle"))
    stages = []
    for record, part in zip(records, plugins, strict=True):
        held = {plane for name in record["cells_in"] for plane in cells[name].planes()} | keyed.keys()
        made = [cells[name] for name in record["cells_out"]]
        slots = _slots(door, kernel, part, held, made)
        stages.append(Stage(part, slots, dict(getattr(part, "companions", None) or {}),
                            dict(getattr(part, "fold_entries", None) or {}), tuple(made), _box(part)))
        _check_companions(door, f"kernel {kernel!r}", stages[-1])
    real = np_dtype(getattr(plugin, "scalar_type", None) or "float64")
    return Signature(kernel, access, _arguments(stages, real, keyed.keys()), tuple(stages), lanes,
                     frozenset(getattr(plugin, "unread", None) or ()), real, keyed)


def _cell(name: str, spec: Mapping[str, Any]) -> Cell:
    op, columns = spec["op"], spec.get("columns", 1)
    if op not in ("sum", "max", "min") or not isinstance(columns, int) or not 1 <= columns <= WIDEST:
        raise TypeError(f"cell {name!r} is {shown(spec)}")
    return Cell(name, op, columns, bool(spec.get("internal")))


def _box(plugin: Any) -> tuple[int, int]:
    box = getattr(plugin, "box", None)
    if not box:
        return 1, 1
    lanes, stride = box["T"], box["stride"]
    if not all(isinstance(value, int) and 1 <= value <= WIDEST for value in (lanes, stride)):
        raise TypeError(f"the thread box {shown(box)}")
    return lanes, stride


def _rows(door: str, what: str, cells: Iterable[Cell], spec: Iterable[tuple[str, str]]) -> dict[str, Cell]:
    """The cell of each slot of rows. ValueError for a reduction whose rows the kernel does not write."""
    rows = {name: cell for cell in cells for name in (*cell.planes(), *cell.lost())}
    for name, cell in rows.items():
        if ("accum_out", name) not in spec:
            raise ValueError(refusal(door, f"{what}, cells", f"{cell.name!r} without a slot of its rows",
                                     f"an accum_out {name!r}", "rebuild it with hawk"))
    return rows


def _check_companions(door: str, what: str, stage: Stage) -> None:
    """Refuse companions that are not two sinks of the kernel."""
    written = {slot.name for slot in stage.slots if slot.role == "accum_out"}
    for companion, target in stage.companions.items():
        if companion not in written or target not in written:
            raise ValueError(refusal(door, f"{what}, companions", f"{companion!r} of {target!r}",
                                     "the names of two accum_out slots", "rebuild it with hawk"))
        if not isinstance(stage.folds.get(target), int):
            raise ValueError(refusal(door, f"{what}, fold_entries", f"no entry that folds {target!r}",
                                     "one for every sink with a companion",
                                     "load its bundle with eagle.load_bundle"))


def _arguments(stages: list[Stage], real: np.dtype[Any], between: Collection[str]) -> tuple[Slot, ...]:
    """Each slot a caller may give, once; a cell stands where the first of its rows does. What stages hand on, `between`
    them, has companions of its own."""
    found: dict[str, Slot] = {}
    for stage in stages:
        cells = {cell.planes()[0]: cell for cell in stage.cells if not cell.internal}
        for slot in stage.slots:
            if slot.name in cells:
                cell = cells[slot.name]
                found[cell.name] = Slot("cell", cell.name, Use.CELL, Box.ROWS, real, cell.columns, writes=True,
                                        zero=True)
            elif slot.use not in _OWN and slot.like not in between and (slot.name not in found or slot.writes):
                found[slot.name] = slot
    return tuple(found.values())


def _slots(door: str, kernel: str, plugin: Any, between: set[str], cells: Iterable[Cell]) -> tuple[Slot, ...]:
    """The slots of one kernel that reduces to `cells`; `between` are those that stages hand on."""
    spec = _pairs(door, kernel, plugin.arg_spec)
    rows = _rows(door, f"kernel {kernel!r}", cells, spec)
    real = np_dtype(getattr(plugin, "scalar_type", None) or "float64")
    declared: Mapping[str, str] = getattr(plugin, "arg_dtypes", None) or {}
    companions: Mapping[str, str] = getattr(plugin, "companions", None) or {}
    likes: Mapping[str, str] = getattr(plugin, "adjoint_like", None) or {}
    named: Mapping[str, Any] = getattr(plugin, "plane_axes", None) or {}
    tables: dict[str, Any] = dict(getattr(plugin, "table_axes", None) or {})  # only the kernel says, no sidecar
    tables |= dict.fromkeys(getattr(plugin, "param_planes", None) or (), ONE_VALUE)
    mixes, offsets = _dispatch_words(plugin)
    planes = _Planes(door, kernel, plugin, real, declared, spec)
    slots = []
    for role, name in spec:
        where = f"kernel {kernel!r}, slot ({role!r}, {name!r})"
        kind = roles.classify_arg(role, name, vec_mutables=planes.vectors, mat_mutables=planes.matrices)
        tag = declared.get(name, real.name)
        if tag not in PLANE_DTYPES:
            raise ValueError(refusal(door, where, f"the dtype {tag!r}", f"one of {tuple(PLANE_DTYPES)}",
                                     "rebuild it with hawk"))
        dtype = PLANE_DTYPES[tag]
        if kind == "UNIFORM":
            slots.append(planes.number(name))
        elif kind == "NSAMPLES":
            slots.append(Slot(role, name, Use.COUNT, Box.SAMPLE_COUNT, np.dtype(np.uint32)))
        elif name in between:
            box = Box.TABLE if role == "lookup" else Box.SINK
            slots.append(Slot(role, name, Use.BETWEEN, box, dtype, writes=box is Box.SINK))
        elif role == "lookup" and name in roles.WORDS:
            word, start = roles.WORDS[name]
            slots.append(Slot(role, name, Use.WORD, Box.CELL, PLANE_DTYPES[word], start=start,
                              writes=name == roles.FINISHED_COUNT))
        elif role == "lookup" and name == roles.ACTIVE_MAP:
            slots.append(Slot(role, name, Use.MAP, Box.TABLE, np.dtype(np.int32), start=MAP))
        elif role == "lookup" and name == roles.ACTIVE_COUNT:
            slots.append(Slot(role, name, Use.LIVE, Box.TABLE, np.dtype(np.uint32)))
        elif role == "lookup" and name in mixes:
            slots.append(Slot(role, name, Use.MIX, Box.TABLE, np.dtype(np.uint32), mixes[name], writes=True))
        elif role == "lookup" and name in offsets:
            slots.append(Slot(role, name, Use.OFFSETS, Box.TABLE, np.dtype(np.int64), offsets[name], start=OFFSETS))
        elif role in ("lookup", "wide_in"):
            slots.append(Slot(role, name, Use.TABLE, Box.TABLE, dtype, declared=name in declared,
                              axes=tables.get(name)))
        elif name in rows:
            # The first rows of a cell stand for the result.
            width = rows[name].columns if name == rows[name].planes()[0] else 0
            slots.append(Slot(role, name, Use.ROWS, Box.ROWS, dtype, width, writes=True))
        elif role in ("wide_out", "accum_out"):
            companion = name in companions
            payload, axes = _sink_axes(named.get(name))
            slots.append(Slot(role, name, Use.COMPANION if companion else Use.SINK,
                              Box.COMPANION if companion else Box.SINK, dtype, writes=True, zero=True,
                              start=int(role == "wide_out" and axes is None),
                              declared=name in declared, payload=payload, axes=axes,
                              like=companions.get(name) or likes.get(name)))
        else:
            slots.append(planes.samples(role, name, kind, dtype))
    return tuple(slots)


class _Planes:
    """Reads the slots that hold a column a sample, and the uniforms."""

    def __init__(self, door: str, kernel: str, plugin: Any, real: np.dtype[Any], declared: Mapping[str, str],
                 spec: list[tuple[str, str]]) -> None:
        self.door, self.kernel, self.real, self.declared = door, kernel, real, declared
        self.lanes = _lanes(getattr(plugin, "lane_space", None))
        self.widths: Mapping[str, int] = getattr(plugin, "arg_widths", None) or {}
        self.shapes: Mapping[str, Any] = getattr(plugin, "mat_shapes", None) or {}
        self.compact: Mapping[str, Any] = getattr(plugin, "gather_mats", None) or {}
        self.matrices = frozenset(getattr(plugin, "mat_mutables", None) or ())
        self.vectors = frozenset(getattr(plugin, "vec_mutables", None) or ()) - self.matrices
        self.priors = getattr(plugin, "prior_mutables", None)  # absent: any mutable may be read first
        self.integers = frozenset(p["name"] for p in getattr(plugin, "params", None) or ()
                                  if isinstance(p, Mapping) and p.get("dtype") == "int")
        self.param_dtypes: Mapping[str, str] = getattr(plugin, "param_dtypes", None) or {}  # as table_axes
        self.derived = bool(getattr(plugin, "derivative", None))
        # Samples a launch may skip keep what their outputs had.
        words = {name for role, name in spec if role == "lookup"}
        self.skips = (any(role == roles.MASK for role, _ in spec) or roles.ACTIVE_MAP in words
                      or bool(words & _dispatch_words(plugin)[1].keys()))
        self.readonly_mask = bool(getattr(plugin, "terminated_readonly", False))

    def number(self, name: str) -> Slot:
        optional = self.derived and name == roles.JUMP_SEED
        if name in self.integers:
            tag = self.param_dtypes.get(name, "int64")
            return Slot(roles.UNIFORM, name, Use.NUMBER, Box.INT64, PLANE_DTYPES[tag], optional=optional)
        box = Box.FLOAT32 if self.real == np.float32 else Box.FLOAT64
        return Slot(roles.UNIFORM, name, Use.NUMBER, box, self.real, optional=optional)

    def samples(self, role: str, name: str, kind: str, dtype: np.dtype[Any]) -> Slot:
        where = f"kernel {self.kernel!r}, slot ({role!r}, {name!r})"
        mask = role == roles.MASK
        if mask and name not in self.declared:
            dtype = PLANE_DTYPES["bool"]
        wide = kind in ("GREF_VEC", "GREF_MAT")
        width = self.widths.get(name, 0 if wide else 1)
        if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= WIDEST:
            raise ValueError(refusal(self.door, where, f"the width {shown(width)}", f"an integer of 1 to {WIDEST}",
                                     "declare it in arg_widths"))
        if not wide and width != 1:
            raise ValueError(refusal(self.door, where, f"the width {width}", "1 for a scalar plane",
                                     "declare it as a vector or matrix"))
        if name in self.compact:
            kept = tuple(bool(k) for k in self.compact[name] or ())
            if kept and len(kept) != len(self.lanes.axes):
                raise TypeError(f"the pattern {shown(self.compact[name])} of {name!r}")
            return Slot(role, name, Use.TABLE, Box.MATRIX, dtype, width, _matrix(self.shapes.get(name), width),
                        declared=name in self.declared, kept=kept)
        output = role in roles.OUTPUTS
        prior = output and (self.priors is None or name in self.priors)
        return Slot(role, name, Use.SAMPLES, Box.MIRROR if wide else Box.HANDLE, dtype, width,
                    _matrix(self.shapes.get(name), width), reads_prior=prior and role == "mutable",
                    writes=output or (mask and not self.readonly_mask), zero=self.skips or prior or mask,
                    declared=name in self.declared or mask)


def _pairs(door: str, kernel: str, spec: Any) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for item in spec if isinstance(spec, Iterable) and not isinstance(spec, str | bytes) else ():
        pair = tuple(item) if isinstance(item, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(word, str) for word in pair):
            raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", repr(item), "a (role, name) pair of text",
                                     "rebuild it with hawk"))
        pairs.append(pair)
    if not pairs:
        raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", repr(spec), "at least one (role, name) pair",
                                 "load it with eagle.load_bundle"))
    seen = set()
    for role, name in pairs:
        where = f"kernel {kernel!r}, arg_spec"
        if role not in roles.ROLES:
            raise ValueError(refusal(door, f"kernel {kernel!r}, slot ({role!r}, {name!r})", f"the role {role!r}",
                                     f"one of {sorted(roles.ROLES)}", "rebuild it with hawk"))
        if name in seen:
            raise ValueError(refusal(door, where, f"{name!r} twice", "each name once", "rebuild it with hawk"))
        if name in ("device", "layout"):
            raise ValueError(refusal(door, where, f"a plane named {name!r}", "another name",
                                     f"{name}= is a keyword of run and bind"))
        seen.add(name)
    return pairs


def _lanes(space: Any) -> Lanes:
    """The lane space, given as a sidecar's block or as ``((label, extent), ...)``."""
    if space is None:
        return Lanes()
    axes = space["axes"] if isinstance(space, Mapping) else getattr(space, "axes", space)
    pairs = tuple((axis["label"], axis["extent"]) if isinstance(axis, Mapping) else tuple(axis) for axis in axes)
    for i, (label, extent) in enumerate(pairs):
        if not (label is None or isinstance(label, str)) or not (
                extent is None and i == 0 or isinstance(extent, int) and extent > 0):
            raise TypeError(f"the lane axis {shown((label, extent))}")
    return Lanes(pairs) if pairs else Lanes()


def _sink_axes(spec: Any) -> tuple[tuple[int, ...], tuple[tuple[str, int | None], ...] | None]:
    if spec is None:
        return (), None
    payload, axes = tuple(spec["payload"]), tuple((axis["label"], axis["extent"]) for axis in spec["axes"])
    if not all(isinstance(extent, int) and extent > 0 for extent in payload) or not all(
            isinstance(label, str) and (extent is None or isinstance(extent, int) and extent > 0)
            for label, extent in axes):
        raise TypeError(f"the axes {shown(spec)} of a sink")
    return payload, axes


def _dispatch_words(plugin: Any) -> tuple[dict[str, int], dict[str, int]]:
    """The planes of dispatch groups and their cells: counters of ``auto`` groups, offsets of ``segmented`` ones."""
    groups = getattr(plugin, "dispatch", None) or ()
    if not all(isinstance(group["K"], int) and 1 <= group["K"] < WIDEST for group in groups):
        raise TypeError(f"the dispatch groups {shown(groups)}")
    return ({group["mix"]: group["K"] for group in groups if group.get("mix")},
            {f"{group['name']}_offsets": group["K"] + 1 for group in groups if group.get("policy") == "segmented"})


def _matrix(shape: Any, width: int) -> tuple[int, int] | None:
    if isinstance(shape, list | tuple) and len(shape) == 2 and all(isinstance(side, int) for side in shape):
        return (shape[0], shape[1]) if shape[0] * shape[1] == width else None
    return None
