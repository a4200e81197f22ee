# SPDX-License-Identifier: Apache-2.0
"""What a sidecar says of each slot: widths, dtypes, shapes, mutables, uniforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eagle import roles
from eagle.dtypes import PLANE_DTYPES
from eagle.errors import shown
from eagle.roles import (
    MASK,
    OUTPUTS,
    PARAM_DTYPES,
    PARAMS_SCHEMA,
    PER_SAMPLE_ROLES,
    RESERVED_DTYPES,
    ROLES,
    UNIFORM,
)
from eagle.sidecar.document import WIDEST, Document

__all__ = ["PARAMS_SCHEMA_KEY", "ParamSpec", "arg_dtypes", "arg_shapes", "arg_widths", "buffers", "check_uniforms",
           "mat_shapes", "mutables", "params", "read_params", "role_list"]

PARAMS_SCHEMA_KEY = "params_schema"
PLANE_ROLES = ROLES - {UNIFORM, "nsamples"}
SCALAR_ROLES = ("per_sample", MASK)
#: What a mutable can be declared as, and the dtype of its plane; None is the artifact's Real type. "float" is legacy.
MUTABLE_DTYPES = {"scalar": None, "vector": None, "matrix": None, "float": None, "int": "int64", "int32": "int32",
                  "uint32": "uint32"}


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


@dataclass(frozen=True)
class ParamSpec:
    """A uniform: its name, and ``"float"`` (a Real) or ``"int"`` (64 bits, signed)."""

    name: str
    dtype: str = "float"


def read_params(meta: Mapping[str, Any], *, name: str, required: bool = True,
                door: str = "eagle.sidecar.read_params") -> tuple[ParamSpec, ...]:
    """The uniforms a sidecar declares. `name` is the artifact's; `required` is whether ``params`` must be there.

    Raises ValueError for a ``params_schema`` newer than this build reads, and for a list that is not of its form.
    """
    return params(Document(door, name, meta), required)


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
