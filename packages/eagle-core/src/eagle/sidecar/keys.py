# SPDX-License-Identifier: Apache-2.0
"""What each key of a sidecar says, one function a key: it checks the key, alone and against the slots, and returns its
value. Readers, validation and loading all call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from eagle import roles
from eagle.dtypes import INT64_MAX, PLANE_DTYPES
from eagle.errors import shown
from eagle.roles import (
    FINISHED_COUNT,
    FUSED_STEPS,
    MASK,
    OUTPUT_ROLES,
    OUTPUTS,
    PARAM_DTYPES,
    PARAMS_SCHEMA,
    PER_SAMPLE_ROLES,
    RESERVED_DTYPES,
    ROLES,
    UNIFORM,
    WIDEST,
    cell_plane,
    companion_plane,
    in_our_words,
)
from eagle.sidecar.document import Document

__all__ = ["CELL_OPS", "FINISH_AUTO", "FINISH_COUNTER", "FINISH_KEY", "LaneSpace", "LaunchDecl", "PARAMS_SCHEMA_KEY",
           "ParamSpec", "TERMINATED_READONLY_KEY", "UNDECLARED_LANE_SPACE", "adjoint_like", "arg_dtypes", "arg_shapes",
           "arg_widths", "block", "box", "buffers", "cells", "check_uniforms", "companions", "dispatch", "finish",
           "gather_mats", "keyed", "lane_space", "lanes", "mat_shapes", "mutables", "param_planes", "params",
           "plane_axes", "read_block", "read_box", "read_finish", "read_lane_space", "read_launch", "read_params",
           "read_plane_axes", "read_terminated_readonly", "role_list", "sorted_inputs", "stages", "steps_facts",
           "terminated_readonly"]

PARAMS_SCHEMA_KEY = "params_schema"
TERMINATED_READONLY_KEY = "terminated_readonly"
FINISH_KEY = "finish"
FINISH_COUNTER = FINISHED_COUNT
FINISH_AUTO = "auto"

PLANE_ROLES = ROLES - {UNIFORM, "nsamples"}
SCALAR_ROLES = ("per_sample", MASK)
#: What a mutable can be declared as, and the dtype of its plane; None is the artifact's Real type. "float" is legacy.
MUTABLE_DTYPES = {"scalar": None, "vector": None, "matrix": None, "float": None, "int": "int64", "int32": "int32",
                  "uint32": "uint32"}
MOST_BLOCK = 2**20  # threads
CELL_OPS = ("sum", "max", "min")
SUM = "accum_out"
MOST_STAGES = 4096


# ---- what is returned ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParamSpec:
    """A uniform: its name, and ``"float"`` (a Real) or ``"int"`` (64 bits, signed)."""

    name: str
    dtype: str = "float"


@dataclass(frozen=True)
class LaneSpace:
    """The lanes of a launch: axes of (label, extent), the last one fastest, and the group lanes are compacted by.

    A label may be None; so may the first extent, which is then known at run time.
    """

    axes: tuple[tuple[str | None, int | None], ...]
    group: int = 1


UNDECLARED_LANE_SPACE = LaneSpace(((None, None),), 1)


@dataclass(frozen=True)
class LaunchDecl:
    """What a sidecar says of a launch: `block` are exact threads per block, `plane_axes` and `box` the declared blocks,
    `sorted_inputs` the planes promised in non-decreasing order.
    """

    lane_space: LaneSpace
    block: int | None
    plane_axes: dict[str, Any]
    sorted_inputs: tuple[str, ...]
    box: dict[str, int] | None


# ---- readers, for users ----------------------------------------------------------------------------------------------


def read_params(meta: Mapping[str, Any], *, name: str, required: bool = True,
                door: str = "eagle.sidecar.read_params") -> tuple[ParamSpec, ...]:
    """The uniforms a sidecar declares. `name` is the artifact's; `required` is whether ``params`` must be there.

    Raises ValueError for a ``params_schema`` newer than this build reads, and for a list that is not of its form.
    """
    return params(Document(door, name, meta), required)


def read_launch(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_launch") -> LaunchDecl:
    """All a sidecar declares of a launch. Raises ValueError naming the artifact and the key."""
    doc = Document(door, name, meta)
    return LaunchDecl(lane_space(doc), block(doc), plane_axes(doc), sorted_inputs(doc), box(doc))


def read_lane_space(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_lane_space") -> LaneSpace:
    """The launch shape, :data:`UNDECLARED_LANE_SPACE` where none is declared. Raises ValueError."""
    return lane_space(Document(door, name, meta))


def read_block(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_block") -> int | None:
    """The exact threads per block, None where any will do. Raises ValueError."""
    return block(Document(door, name, meta))


def read_box(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_box") -> dict[str, int] | None:
    """``{axis, T, stride}`` of a kernel whose threads compute T lanes each, else None. Raises ValueError."""
    return box(Document(door, name, meta))


def read_plane_axes(meta: Mapping[str, Any], *, name: str,
                    door: str = "eagle.sidecar.read_plane_axes") -> dict[str, Any]:
    """``{sink: {payload: [..], axes: [{label, extent}]}}`` of sinks with named axes. Raises ValueError."""
    return plane_axes(Document(door, name, meta))


def read_terminated_readonly(meta: Mapping[str, Any], *, name: str,
                             door: str = "eagle.sidecar.read_terminated_readonly") -> bool:
    """Whether the kernel declares that it never writes its mask. Raises ValueError for anything but a JSON bool."""
    return terminated_readonly(Document(door, name, meta))


def read_finish(meta: Mapping[str, Any], *, name: str,
                door: str = "eagle.sidecar.read_finish") -> dict[str, Any] | None:
    """``{mask, counter, steps, steps_max}`` of a kernel that finishes its own samples, else None. `steps` is an
    integer, or ``"auto"`` with `steps_max`. Raises ValueError naming the artifact.
    """
    return finish(Document(door, name, meta))


# ---- planes: widths, dtypes, shapes, mutables ------------------------------------------------------------------------


def role_list(doc: Document, key: str, role: str) -> None:
    """A list that repeats the slots of one role."""
    names = doc.slot_list(key, doc.given(key, []), role)
    if key in doc.meta and doc.has_slots and not doc.is_legacy and list(names) != doc.of_role(role):
        raise doc.bad(key, shown(list(names)), f"the slots of role {role!r}: {shown(doc.of_role(role))}")


def arg_widths(doc: Document) -> dict[str, int]:
    """``{plane: components}`` of per-sample planes."""
    widths = {}
    for name, width in doc.table("arg_widths", doc.given("arg_widths", {})).items():
        doc.slot("arg_widths", name, *PER_SAMPLE_ROLES)
        widths[name] = doc.integer(f"arg_widths.{name}", width, 1, WIDEST)
        if doc.slots.get(name) in SCALAR_ROLES and width != 1:
            raise doc.bad(f"arg_widths.{name}", str(width), f"1 for a plane of role {doc.slots[name]!r}")
    for name, width in doc.table("vec_widths", doc.given("vec_widths", {})).items():
        doc.slot("vec_widths", name, "vec_in", "out")
        doc.integer(f"vec_widths.{name}", width, 1, WIDEST)
        doc.refuse_unless(widths.get(name, width) == width, f"vec_widths.{name}", width,
                          f"{widths.get(name)}, its arg_widths")
    return widths


def arg_shapes(doc: Document) -> None:
    """``arg_widths`` again, with null for planes whose length is known at run time only."""
    widths = doc.peer("arg_widths")
    for name, width in doc.table("arg_shapes", doc.given("arg_shapes", {})).items():
        doc.slot("arg_shapes", name, *PLANE_ROLES)
        if doc.slots.get(name, "per_sample") in PER_SAMPLE_ROLES:
            doc.integer(f"arg_shapes.{name}", width, 1, WIDEST)
            doc.refuse_unless(widths.get(name, width) == width, f"arg_shapes.{name}", width,
                              f"{shown(widths.get(name))}, its arg_widths")
        else:
            doc.refuse_unless(width is None, f"arg_shapes.{name}", width, "null: its length is known at run time only")


def arg_dtypes(doc: Document) -> dict[str, str]:
    """``{plane: dtype}``; a Real plane has the artifact's scalar type."""
    real = doc.scalar_type
    dtypes = {}
    for name, tag in doc.table("arg_dtypes", doc.given("arg_dtypes", {})).items():
        key = f"arg_dtypes.{name}"
        doc.slot("arg_dtypes", name, *PLANE_ROLES)
        dtypes[name] = doc.text(key, tag, {*PLANE_DTYPES, real})
        if tag.startswith(("float", "soft")):
            doc.refuse_unless(tag == real, key, tag, f"{real!r}, the artifact's scalar_type")
        if doc.slots.get(name) == MASK:
            doc.refuse_unless(tag == "bool", key, tag, "'bool' for the mask")
        reserved = RESERVED_DTYPES.get(name, tag) if doc.slots.get(name) == "lookup" else tag
        doc.refuse_unless(tag == reserved, key, tag, f"{reserved!r} for this reserved plane")
    return dtypes


def mat_shapes(doc: Document) -> dict[str, tuple[int, int]]:
    """``{input matrix: (R, C)}``."""
    widths = doc.peer("arg_widths")
    shapes = {}
    for name, shape in doc.table("mat_shapes", doc.given("mat_shapes", {})).items():
        doc.slot("mat_shapes", name, "mat_in")
        shapes[name] = _matrix(doc, f"mat_shapes.{name}", shape, widths.get(name))
    return shapes


def _matrix(doc: Document, key: str, shape: Any, width: int | None) -> tuple[int, int]:
    sides = doc.items(key, shape)
    doc.refuse_unless(len(sides) == 2, key, shape, "two sides, [R, C]")
    rows, columns = (doc.integer(key, side, 1, WIDEST) for side in sides)
    if width is not None and rows * columns != width:
        raise doc.bad(key, shown(shape), f"R * C = {shown(width)}, its width")
    return rows, columns


def mutables(doc: Document) -> tuple[dict[str, Any], ...]:
    """``{name, dtype, width, default, shape, prior}`` of each plane the kernel updates or makes."""
    widths, dtypes = doc.peer("arg_widths"), doc.peer("arg_dtypes")
    found: dict[str, dict[str, Any]] = {}
    for i, entry in enumerate(doc.items("mutables", doc.given("mutables", []))):
        where = f"mutables[{i}]"
        doc.table(where, entry)
        name = doc.slot(f"{where}.name", entry.get("name"), *OUTPUTS)
        doc.refuse_unless(name not in found, f"{where}.name", name, "each name once")
        dtype = doc.text(f"{where}.dtype", entry.get("dtype"), MUTABLE_DTYPES)
        width = entry.get("width", widths.get(name))
        if width is not None:
            doc.integer(f"{where}.width", width, 1, WIDEST)
            doc.refuse_unless(width == widths.get(name, width), f"{where}.width", width,
                              f"{shown(widths.get(name))}, its arg_widths")
            doc.refuse_unless(dtype in ("vector", "matrix") or width == 1, f"{where}.width", width,
                              f"1 for a mutable of dtype {dtype!r}")
        if dtype == "matrix" and not doc.is_legacy or entry.get("shape") is not None:
            doc.refuse_unless(dtype == "matrix", f"{where}.shape", entry.get("shape"), "none: only a matrix has one")
            _matrix(doc, f"{where}.shape", entry.get("shape"), width)
        doc.flag(f"{where}.prior", entry.get("prior", False))
        default = entry.get("default")
        if isinstance(default, bool) or not isinstance(default, int | float | None):
            raise doc.bad(f"{where}.default", shown(default), "a number or null")
        wire = MUTABLE_DTYPES[dtype] or doc.scalar_type
        doc.refuse_unless(dtypes.get(name, wire) == wire, f"{where}.dtype", dtype,
                          f"what its arg_dtypes says, {shown(dtypes.get(name))}")
        found[name] = dict(entry)
    if "mutables" in doc.meta and doc.has_slots and not doc.is_legacy:
        for name in doc.of_role(*OUTPUTS):
            if name not in found:
                raise doc.bad("mutables", f"no entry for slot {name!r}", "one entry a mutable slot")
    return tuple(found.values())


def buffers(doc: Document) -> None:
    """The declared buffers of a legacy sidecar."""
    for i, entry in enumerate(doc.items("buffers", doc.given("buffers", []))):
        doc.table(f"buffers[{i}]", entry)
        doc.text(f"buffers[{i}].kind", entry.get("kind"), roles.BUFFER_KINDS)
        doc.slot(f"buffers[{i}].name", entry.get("name"), "lookup")
        if entry.get("count") is not None:
            doc.integer(f"buffers[{i}].count", entry["count"])


# ---- uniforms --------------------------------------------------------------------------------------------------------


def params(doc: Document, required: bool = False) -> tuple[ParamSpec, ...]:
    schema = doc.meta.get(PARAMS_SCHEMA_KEY, 1)
    if not isinstance(schema, int) or isinstance(schema, bool) or not 1 <= schema <= PARAMS_SCHEMA:
        raise doc.bad(PARAMS_SCHEMA_KEY, shown(schema), f"1 to {PARAMS_SCHEMA}",
                      "upgrade eagle-core, or rebuild the artifact")
    if "params" not in doc.meta:
        if required:
            raise doc.bad("params", "nothing", "the list of uniforms")
        return ()
    specs = []
    for i, entry in enumerate(doc.items("params", doc.meta["params"])):
        where = f"params[{i}]"
        if schema == 1:
            specs.append(ParamSpec(doc.text(where, entry)))
        else:
            doc.table(where, entry)
            specs.append(ParamSpec(doc.text(f"{where}.name", entry.get("name")),
                                   doc.text(f"{where}.dtype", entry.get("dtype"), PARAM_DTYPES)))
    names = [spec.name for spec in specs]
    doc.refuse_unless(len(set(names)) == len(names), "params", names, "each name once")
    return tuple(specs)


def check_uniforms(doc: Document) -> None:
    """Every uniform slot has its type, and every param its slot."""
    specs = params(doc)
    if "params" in doc.meta and doc.has_slots and not doc.is_legacy:
        names, slots = sorted(spec.name for spec in specs), sorted(doc.of_role(UNIFORM))
        doc.refuse_unless(names == slots, "params", names, f"the uniform slots, {shown(slots)}")


# ---- the launch: its shape, exact block sizes, named axes of sinks ---------------------------------------------------


def launch(doc: Document) -> Mapping[str, Any]:
    return doc.table("launch", doc.given("launch", {}))


def lane_space(doc: Document) -> LaneSpace:
    if "lane_space" not in launch(doc):
        return UNDECLARED_LANE_SPACE
    from raptor.schema import manifest as schema

    try:
        schema.check_lane_space(dict(doc.meta), name=doc.name)
    except ValueError as error:
        raise ValueError(in_our_words(doc.door, error)) from None
    space = launch(doc)["lane_space"]
    axes = tuple((axis["label"], axis["extent"]) for axis in space["axes"])
    for label, _ in axes:
        doc.refuse_unless(label is None or (label and label.isprintable()), "launch.lane_space", label,
                          "a printable label or null")
    if prod(extent or 1 for _, extent in axes) > INT64_MAX:
        raise doc.bad("launch.lane_space", f"the extents {shown([extent for _, extent in axes])}",
                      f"at most {INT64_MAX} lanes")
    return LaneSpace(axes, doc.integer("launch.lane_space.group", space["group"], least=1))


def box(doc: Document) -> dict[str, int] | None:
    value = launch(doc).get("box")
    if value is None:
        return None
    doc.table("launch.box", value, ("axis", "T", "stride"))
    return {key: doc.integer(f"launch.box.{key}", value[key], least, MOST_BLOCK)
            for key, least in (("axis", 0), ("T", 2), ("stride", 1))}


def block(doc: Document) -> int | None:
    value = launch(doc).get("block")
    return None if value is None else doc.integer("launch.block", value, 1, MOST_BLOCK)


def plane_axes(doc: Document) -> dict[str, Any]:
    found = {}
    for name, value in doc.table("plane_axes", doc.given("plane_axes", {})).items():
        key = f"plane_axes.{name}"
        doc.slot("plane_axes", name, *OUTPUT_ROLES)
        doc.table(key, value, ("payload", "axes"))
        payload = [doc.integer(f"{key}.payload", side, 1, WIDEST) for side in doc.items(f"{key}.payload",
                                                                                       value["payload"])]
        axes: list[dict[str, str | int | None]] = []
        size = prod(payload)
        for i, axis in enumerate(doc.items(f"{key}.axes", value["axes"])):
            doc.table(f"{key}.axes[{i}]", axis, ("label", "extent"))
            label, extent = doc.axis(f"{key}.axes[{i}]", axis["label"], axis["extent"])
            axes.append({"label": label, "extent": extent})
            size *= extent or 1
        labels = [axis["label"] for axis in axes]
        doc.refuse_unless(axes and len(set(labels)) == len(labels), f"{key}.axes", labels,
                          "at least one axis, each label once")
        doc.refuse_unless(size <= INT64_MAX, key, value, f"at most {INT64_MAX} cells")
        found[name] = {"payload": payload, "axes": axes}
    return found


def sorted_inputs(doc: Document) -> tuple[str, ...]:
    names = doc.slot_list("sorted_inputs", doc.given("sorted_inputs", []), "per_sample")
    for name in names:
        dtype = doc.peer("arg_dtypes").get(name, "int64")
        if dtype not in ("int64", "int32", "uint32"):
            raise doc.bad("sorted_inputs", f"{name!r} of dtype {shown(dtype)}", "an integer plane")
    return names


# ---- stepping: how a kernel finishes, its dispatches, its cost, what it was fused from -------------------------------


def terminated_readonly(doc: Document) -> bool:
    return doc.flag(TERMINATED_READONLY_KEY, doc.meta.get(TERMINATED_READONLY_KEY, False))


def finish(doc: Document) -> dict[str, Any] | None:
    value = doc.meta.get(FINISH_KEY)
    if value is None:
        return None
    doc.table(FINISH_KEY, value, ("mask", "counter", "steps"), ("steps_max",))
    doc.slot("finish.mask", value["mask"], MASK)
    doc.text("finish.counter", value["counter"], (FINISH_COUNTER,))
    doc.slot("finish.counter", value["counter"], "lookup")
    if value["steps"] == FINISH_AUTO:
        doc.integer("finish.steps_max", value.get("steps_max"), least=1)
        doc.slot("finish.steps", FUSED_STEPS, "lookup")
    else:
        doc.refuse_unless("steps_max" not in value, "finish.steps_max", value.get("steps_max"),
                          f"none: steps is not {FINISH_AUTO!r}")
        doc.integer("finish.steps", value["steps"], least=1)
    if terminated_readonly(doc):
        raise doc.bad(FINISH_KEY, "a kernel that finishes and never writes its mask",
                      f"one of {FINISH_KEY} and {TERMINATED_READONLY_KEY}: true")
    return dict(value)


def dispatch(doc: Document) -> tuple[dict[str, Any], ...]:
    """``{name, K, policy, static_selector, selector_reads}`` of each group, with ``mix``, ``class`` and ``stale``, or
    ``units`` where its policy has them."""
    found: dict[str, dict[str, Any]] = {}
    for i, value in enumerate(doc.items("dispatch", doc.given("dispatch", []))):
        key = f"dispatch[{i}]"
        doc.table(key, value, ("name", "K", "policy", "static_selector", "selector_reads"),
                  ("mix", "class", "stale", "units"))
        name = doc.text(f"{key}.name", value["name"])
        doc.refuse_unless(name not in found, f"{key}.name", name, "each name once")
        doc.integer(f"{key}.K", value["K"], 1, WIDEST)
        doc.text(f"{key}.policy", value["policy"])
        doc.flag(f"{key}.static_selector", value["static_selector"])
        for pair in doc.items(f"{key}.selector_reads", value["selector_reads"]):
            _role_and_name(doc, f"{key}.selector_reads", pair)
        if value["policy"] == "auto" or "mix" in value:
            doc.slot(f"{key}.mix", value.get("mix"), "lookup")
        for part in ("class", "stale"):
            if part in value:
                doc.text(f"{key}.{part}", value[part])
        units = [doc.text(f"{key}.units", unit) for unit in doc.items(f"{key}.units", value.get("units", []))]
        doc.refuse_unless(not units or len(set(units)) == value["K"] == len(units), f"{key}.units", units,
                          f"{value['K']} different names")
        found[name] = dict(value)
    return tuple(found.values())


def _role_and_name(doc: Document, key: str, pair: Any) -> None:
    """A slot, of this kernel or of one it was made from."""
    doc.refuse_unless(isinstance(pair, list | tuple) and len(pair) == 2
                      and all(isinstance(word, str) for word in pair) and pair[0] in ROLES, key, pair,
                      "pairs, [role, name]")


def steps_facts(doc: Document) -> None:
    """Operations of one step, and whether fast entries count samples that had finished before."""
    for key in ("step_ops", "fp64_ops_ir", "ops_per_step"):
        if doc.meta.get(key) is not None:
            doc.integer(key, doc.meta[key])
    doc.flag("entry_counts_finished", doc.given("entry_counts_finished", False))


def lanes(doc: Document) -> tuple[dict[str, Any], ...]:
    """``{name, slots, digest}`` of each kernel fused into this one."""
    found = []
    for i, value in enumerate(doc.items("lanes", doc.given("lanes", []))):
        key = f"lanes[{i}]"
        doc.table(key, value, ("name", "slots", "digest"))
        doc.text(f"{key}.name", value["name"])
        doc.text(f"{key}.digest", value["digest"])
        for pair in doc.items(f"{key}.slots", value["slots"]):
            _role_and_name(doc, f"{key}.slots", pair)
        found.append(dict(value))
    return tuple(found)


# ---- sums over samples, and planes that follow others ----------------------------------------------------------------


def cell_planes(name: str, op: str, columns: int) -> list[str]:
    """The planes of one reduction: a row plane a column, each with a companion where it sums."""
    rows = [cell_plane(name, column, columns) for column in range(columns)]
    return [plane for row in rows for plane in ((row, companion_plane(row)) if op == "sum" else (row,))]


def cells(doc: Document) -> dict[str, dict[str, Any]]:
    """``{name: {op, columns, internal}}`` of reductions over samples. A split kernel lists the cells of all stages."""
    found = {}
    split = bool(doc.meta.get("stages"))
    for name, value in doc.table("cells", doc.given("cells", {})).items():
        key = f"cells.{name}"
        doc.text("cells", name)
        doc.table(key, value, ("op", "columns"), ("internal",))
        op = doc.text(f"{key}.op", value["op"], CELL_OPS)
        columns = doc.integer(f"{key}.columns", value["columns"], 1, WIDEST if split else max(1, len(doc.slots)))
        doc.flag(f"{key}.internal", value.get("internal", False))
        if not split:
            for plane in cell_planes(name, op, columns):
                doc.slot(key, plane, SUM)
        found[name] = dict(value)
    return found


def companions(doc: Document) -> dict[str, str]:
    """``{companion: target}`` of compensated keyed sums, both planes of the kernel."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    pairs = doc.table("companions", doc.given("companions", {}))
    for name, target in pairs.items():
        doc.slot("companions", name, SUM)
        doc.slot(f"companions.{name}", target, SUM)
        doc.refuse_unless(target not in pairs and target not in taken, f"companions.{name}", target,
                          "a target of its own, that is no companion itself")
        found[name] = target
        taken.add(target)
    return found


def adjoint_like(doc: Document) -> dict[str, str]:
    """``{gradient: lookup plane whose size it has}``."""
    pairs = doc.table("adjoint_like", doc.given("adjoint_like", {}))
    return {doc.slot("adjoint_like", name, SUM): doc.slot(f"adjoint_like.{name}", like, "lookup", "wide_in")
            for name, like in pairs.items()}


def gather_mats(doc: Document) -> dict[str, list[bool] | None]:
    """``{matrix bound compact: the lane axes it varies along, or None}``."""
    found: dict[str, list[bool] | None] = {}
    for name, kept in doc.table("gather_mats", doc.given("gather_mats", {})).items():
        doc.slot("gather_mats", name, "mat_in")
        found[name] = None
        if kept is not None:
            key = f"gather_mats.{name}"
            axes = [doc.flag(key, flag) for flag in doc.items(key, kept)]
            doc.refuse_unless(len(axes) == len(lane_space(doc).axes), key, kept, "one flag a lane axis")
            found[name] = axes
    return found


def param_planes(doc: Document) -> tuple[str, ...]:
    """Lookup planes that stand for one value."""
    return doc.slot_list("param_planes", doc.given("param_planes", []), "lookup")


def keyed(doc: Document) -> dict[str, dict[str, Any]]:
    """``{plane between stages: {width, axes: [[label, extent]]}}``."""
    found = {}
    for name, value in doc.table("keyed", doc.given("keyed", {})).items():
        key = f"keyed.{name}"
        doc.text("keyed", name)
        doc.table(key, value, ("width", "axes"))
        axes = []
        for pair in doc.items(f"{key}.axes", value["axes"]):
            doc.refuse_unless(isinstance(pair, list | tuple) and len(pair) == 2, f"{key}.axes", pair,
                              "pairs, [label, extent]")
            axes.append(list(doc.axis(f"{key}.axes", *pair)))
        doc.refuse_unless(axes, f"{key}.axes", axes, "at least one axis")
        found[name] = {"width": doc.integer(f"{key}.width", value["width"], 1, WIDEST), "axes": axes}
    doc.refuse_unless(not found or doc.meta.get("stages"), "keyed", list(found), "none: the kernel has no stages")
    return found


def stages(doc: Document) -> tuple[dict[str, Any], ...]:
    """The kernels of a split kernel in order, itself first: ``{kernel, cells_in, cells_out, recomputed}``."""
    found = []
    for i, value in enumerate(doc.items("stages", doc.given("stages", []))):
        key = f"stages[{i}]"
        doc.table(key, value, ("kernel", "cells_in", "cells_out", "recomputed"))
        doc.text(f"{key}.kernel", value["kernel"])
        for part in ("cells_in", "cells_out", "recomputed"):
            names = [doc.text(f"{key}.{part}", name) for name in doc.items(f"{key}.{part}", value[part])]
            if part != "recomputed":
                known = doc.peer("cells")
                unknown = [name for name in names if name not in known]
                doc.refuse_unless(not unknown, f"{key}.{part}", unknown, f"some of the cells {shown(sorted(known))}")
        found.append(dict(value))
    kernels = [stage["kernel"] for stage in found]
    doc.refuse_unless(len(kernels) <= MOST_STAGES and len(set(kernels)) == len(kernels), "stages", kernels,
                      f"at most {MOST_STAGES} kernels, each once")
    doc.refuse_unless(not kernels or len(kernels) > 1 and kernels[0] == doc.meta.get("kernel", kernels[0]), "stages",
                      kernels, f"at least two kernels, {shown(doc.meta.get('kernel'))} first")
    return tuple(found)
