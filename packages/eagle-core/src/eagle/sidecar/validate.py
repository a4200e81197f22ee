# SPDX-License-Identifier: Apache-2.0
"""Whole documents, read and checked: the sidecar of a kernel, the manifest of a bundle."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from eagle.sidecar import keys
from eagle.sidecar.document import Document
from eagle.sidecar.files import inside, parse_json, read_json

__all__ = ["MANIFEST_NAME", "Entry", "check_blocks", "check_head", "manifest_entries", "manifest_of", "parse_sidecar",
           "read_manifest", "validate_sidecar"]

MANIFEST_NAME = "manifest.json"
NEURAL_BLOCK = "neural_block"


def check_head(door: str, name: str, document: Mapping[str, Any], *, kind: str) -> int:
    """The schema version of a sidecar or manifest, after its version, execution axis and ABI were checked."""
    version = check_schema_version(document, name=name, allow_legacy_version_key=kind == "manifest", door=door)
    check_execution_axis(document, version, name=name, door=door)
    check_aether_abi(document, kind=kind, name=name, door=door)
    if version > 1 and not document.get("pattern"):
        raise Document(door, name, document).bad("pattern", shown(document.get("pattern")), "a text")
    return version


# ---- sidecars --------------------------------------------------------------------------------------------------------


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
    keys.buffers,
    _names,
    lambda doc: keys.role_list(doc, "per_sample", "per_sample"),
    lambda doc: keys.role_list(doc, "vector_inputs", "vec_in"),
    lambda doc: keys.role_list(doc, "matrix_inputs", "mat_in"),
    lambda doc: keys.role_list(doc, "wide_inputs", "wide_in"),
    lambda doc: keys.role_list(doc, "wide_outputs", "wide_out"),
    lambda doc: keys.role_list(doc, "accum_outputs", "accum_out"),
    keys.arg_widths,
    keys.arg_shapes,
    keys.arg_dtypes,
    keys.mat_shapes,
    keys.mutables,
    keys.check_uniforms,
    keys.lane_space,
    keys.box,
    keys.block,
    keys.plane_axes,
    keys.sorted_inputs,
    keys.terminated_readonly,
    keys.finish,
    keys.steps_facts,
    keys.dispatch,
    keys.lanes,
    keys.cells,
    keys.companions,
    keys.keyed,
    keys.stages,
    keys.adjoint_like,
    keys.gather_mats,
    keys.param_planes,
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


def parse_sidecar(door: str, path: Path, data: bytes) -> dict[str, Any]:
    """A kernel's sidecar in `data`, the content of `path`, with every key checked. Raises ValueError naming the file
    and the key.
    """
    document = parse_json(door, path, data)
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


# ---- manifests -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """An enabled entry of a manifest; the paths are inside its folder, the files need not exist."""

    id: str
    format: str
    artifact: Path
    sidecar: Path


def manifest_of(path: Path) -> Path:
    """The manifest that `path` means: itself, or the one in that folder."""
    return path / MANIFEST_NAME if os.path.isdir(path) else path


def read_manifest(door: str, path: Path) -> list[Entry]:
    """The enabled entries of a manifest of kernels. Raises ValueError naming the file and the key for anything
    malformed, FileNotFoundError.
    """
    document = read_json(door, path)
    check_head(door, str(path), document, kind="manifest")
    roles.check_launch_certified_pattern(document.get("pattern"), subject=str(path), door=door)
    check_blocks(door, path, document)
    return manifest_entries(door, path, document)


def check_blocks(door: str, path: Path, document: Mapping[str, Any]) -> None:
    """Neural blocks stand in a manifest of their pattern only. Raises ValueError."""
    if "blocks" in document and document.get("pattern") != NEURAL_BLOCK:
        raise Document(door, str(path), document).bad(
            "blocks", "neural blocks", f"none under pattern {shown(document.get('pattern'))}")


def manifest_entries(door: str, path: Path, document: Mapping[str, Any]) -> list[Entry]:
    """The enabled entries. Raises ValueError naming the file and the key for anything malformed, disabled or not."""
    doc = Document(door, str(path), document)
    if "plugins" not in document:
        raise doc.bad("plugins", "nothing", "a list")
    entries, ids = [], set()
    for i, entry in enumerate(doc.items("plugins", document["plugins"])):
        where = f"plugins[{i}]"
        doc.table(where, entry)
        for key in ("id", "artifact", "sidecar", "format"):
            if entry.get(key) is None:
                raise doc.bad(f"{where}.{key}", "nothing", "a text")
        name = doc.text(f"{where}.id", entry["id"])
        if name in ids:
            raise doc.bad(f"{where}.id", f"{shown(name)} twice", "each id once")
        ids.add(name)
        order = entry.get("order", i)
        doc.refuse_unless(order == i and not isinstance(order, bool), f"{where}.order", order, str(i))
        fmt = doc.text(f"{where}.format", entry["format"], roles.MANIFEST_FORMATS)
        files = [inside(door, path, doc.text(f"{where}.{key}", entry[key]), f"key '{where}.{key}'")
                 for key in ("artifact", "sidecar")]
        if doc.flag(f"{where}.enabled", entry.get("enabled", True)):
            entries.append(Entry(name, fmt, *files))
    return entries
