# SPDX-License-Identifier: Apache-2.0
"""Checking a whole sidecar, and reading one from its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eagle import roles
from eagle.abi import check_aether_abi
from eagle.dtypes import SCALAR_TYPES
from eagle.errors import shown
from eagle.roles import (
    check_execution_axis,
    check_launch_certified_pattern,
    check_schema_version,
    parse_derivative,
    validate_roles,
)
from eagle.sidecar import launch, planes, stepping, sums
from eagle.sidecar.document import Document
from eagle.sidecar.files import parse_json, read_json

__all__ = ["check_head", "parse_sidecar", "read_sidecar", "validate_sidecar"]

NEURAL_BLOCK = "neural_block"


def _pattern(doc: Document) -> None:
    pattern = doc.meta.get("pattern")
    if pattern not in (None, ""):
        doc.text("pattern", pattern, roles.RECOGNIZED_PATTERNS)
    if pattern == NEURAL_BLOCK:
        from raptor.schema.blocks import validate_neural_block_descriptor

        try:
            validate_neural_block_descriptor(dict(doc.meta), name=doc.name)
        except (TypeError, ValueError) as error:
            raise ValueError(roles.in_our_words(doc.door, error)) from None


def _names(doc: Document) -> None:
    """The kernel's name, and its entry and format where given."""
    if "kernel" in doc.meta:
        kernel = doc.text("kernel", doc.meta["kernel"])
        doc.refuse_unless(kernel.isprintable(), "kernel", kernel, "a printable name")
    if doc.meta.get("format") is not None:
        doc.text("format", doc.meta["format"], roles.MANIFEST_FORMATS)
    entry = doc.meta.get("host_entry")
    if entry is not None:
        doc.refuse_unless(isinstance(entry, str) and entry.isascii() and entry.isidentifier(), "host_entry", entry,
                          "the name of a function")


def _scalar_type(doc: Document) -> None:
    if doc.meta.get("scalar_type") not in (None, ""):
        doc.text("scalar_type", doc.meta["scalar_type"], SCALAR_TYPES)


# In the order refusals are found. Each reads its keys, and other keys only where an earlier one checked them.
CHECKS: tuple[Callable[[Document], object], ...] = (
    lambda doc: check_schema_version(doc.meta, name=doc.name, door=doc.door),
    lambda doc: validate_roles(doc.meta["arg_spec"], name=doc.name, door=doc.door) if doc.has_slots else None,
    _scalar_type,
    _pattern,
    lambda doc: parse_derivative(doc.meta, name=doc.name, door=doc.door),
    planes.buffers,
    _names,
    lambda doc: planes.role_list(doc, "per_sample", "per_sample"),
    lambda doc: planes.role_list(doc, "vector_inputs", "vec_in"),
    lambda doc: planes.role_list(doc, "matrix_inputs", "mat_in"),
    lambda doc: planes.role_list(doc, "wide_inputs", "wide_in"),
    lambda doc: planes.role_list(doc, "wide_outputs", "wide_out"),
    lambda doc: planes.role_list(doc, "accum_outputs", "accum_out"),
    planes.arg_widths,
    planes.arg_shapes,
    planes.arg_dtypes,
    planes.mat_shapes,
    planes.mutables,
    planes.check_uniforms,
    launch.lane_space,
    launch.box,
    launch.block,
    launch.plane_axes,
    launch.sorted_inputs,
    stepping.terminated_readonly,
    stepping.finish,
    stepping.steps_facts,
    stepping.dispatch,
    stepping.lanes,
    sums.cells,
    sums.companions,
    sums.keyed,
    sums.stages,
    sums.adjoint_like,
    sums.gather_mats,
    sums.param_planes,
)


def validate_sidecar(meta: Mapping[str, Any], *, name: str,
                     door: str = "eagle.sidecar.validate_sidecar") -> Mapping[str, Any]:
    """`meta`, after every key in it was checked, alone and against ``arg_spec``. `name` is the artifact's.

    A key that is absent passes, ``kernel``, ``arg_spec``, ``pattern`` and ``scalar_type`` included: loaders ask for
    what they need. Raises ValueError naming the artifact and the key.
    """
    doc = Document(door, name, meta)
    doc.table("", meta)
    for check in CHECKS:
        check(doc)
    return meta


def read_sidecar(door: str, path: Path) -> dict[str, Any]:
    """A kernel's sidecar, with every key checked. Raises ValueError naming the file and the key, FileNotFoundError."""
    return _checked(door, path, read_json(door, path))


def parse_sidecar(door: str, path: Path, data: bytes) -> dict[str, Any]:
    """:func:`read_sidecar` of bytes that were read before."""
    return _checked(door, path, parse_json(door, path, data))


def _checked(door: str, path: Path, document: dict[str, Any]) -> dict[str, Any]:
    doc = Document(door, str(path), document)
    check_head(door, str(path), document, kind="sidecar")
    check_launch_certified_pattern(document.get("pattern"), subject=str(path), door=door)
    validate_sidecar(document, name=str(path), door=door)
    needed = {"kernel": "a text", "arg_spec": "a list of [role, name] pairs"}
    if not doc.is_legacy:
        needed |= {"mutables": "what each mutable slot is"} if doc.of_role(*roles.OUTPUTS) else {}
        needed |= {"params": "what each uniform is"} if doc.of_role(roles.UNIFORM) else {}
    for key, wanted in needed.items():
        if document.get(key) is None:
            raise doc.bad(key, "nothing", wanted)
    return document


def check_head(door: str, name: str, document: Mapping[str, Any], *, kind: str) -> int:
    """The schema version of a sidecar or manifest, after its version, execution axis and ABI were checked."""
    version = check_schema_version(document, name=name, allow_legacy_version_key=kind == "manifest", door=door)
    check_execution_axis(document, version, name=name, door=door)
    check_aether_abi(document, kind=kind, name=name, door=door)
    if version > 1 and not document.get("pattern"):
        raise Document(door, name, document).bad("pattern", shown(document.get("pattern")), "a text")
    return version
