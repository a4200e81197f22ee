# SPDX-License-Identifier: Apache-2.0
"""Reading what a producer wrote beside a kernel: the sidecar, and the manifest of a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eagle.abi import ABI_TAG_V1, ABI_TAG_V2
from eagle.dtypes import SCALAR_TYPES
from eagle.errors import refusal, shown

__all__ = ["declaration", "read_json", "read_manifest", "read_sidecar"]

MANIFEST_NAME = "manifest.json"
PATTERNS = ("pure", "vector")


def read_json(door: str, path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ValueError naming the file; FileNotFoundError when there is none."""
    if path.exists() and not path.is_file():
        raise ValueError(refusal(door, str(path), "no regular file", "a JSON file"))
    try:
        document = json.loads(path.read_bytes())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(refusal(door, str(path), f"no JSON ({error})", "a JSON object",
                                 "rebuild the bundle")) from None
    if not isinstance(document, dict):
        raise ValueError(refusal(door, str(path), f"a JSON {type(document).__name__}", "a JSON object"))
    return document


def read_manifest(door: str, path: Path) -> list[dict[str, Any]]:
    """The enabled entries of a manifest, `artifact` and `sidecar` as paths inside its folder.

    Raises ValueError naming the file and the key for anything malformed.
    """
    document = read_json(door, path)
    _check_document(door, path, document, legacy_version=True)
    entries = _want(door, path, document, "plugins", list)
    if document.get("blocks"):
        raise ValueError(refusal(door, f"{path}, key 'blocks'", "neural blocks", "none; they are not launched"))
    enabled, ids = [], set()
    for i, entry in enumerate(entries):
        where = f"plugins[{i}]"
        if not isinstance(entry, dict):
            raise ValueError(refusal(door, f"{path}, {where}", repr(entry), "a JSON object"))
        name = _want(door, path, entry, "id", str, where)
        if name in ids:
            raise ValueError(refusal(door, f"{path}, {where}.id", f"{name!r} twice", "each id once"))
        ids.add(name)
        if entry.get("order", i) != i or isinstance(entry.get("order", i), bool):
            raise ValueError(refusal(door, f"{path}, {where}.order", repr(entry["order"]), str(i)))
        switch = entry.get("enabled", True)
        if not isinstance(switch, bool):
            raise ValueError(refusal(door, f"{path}, {where}.enabled", repr(switch), "true or false"))
        files = {key: _inside(door, path, _want(door, path, entry, key, str, where), f"{where}.{key}")
                 for key in ("artifact", "sidecar")}
        if switch:
            enabled.append({"id": name, "format": _want(door, path, entry, "format", str, where), **files})
    return enabled


def read_sidecar(door: str, path: Path) -> dict[str, Any]:
    """A kernel's sidecar. Raises ValueError naming the file and the key for anything malformed."""
    document = read_json(door, path)
    _check_document(door, path, document, legacy_version=False)
    _want(door, path, document, "kernel", str)
    for pair in _want(door, path, document, "arg_spec", list):
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair)):
            raise ValueError(refusal(door, f"{path}, key 'arg_spec'", shown(pair), "pairs of texts, [role, name]"))
    if document.get("scalar_type", "float64") not in SCALAR_TYPES:
        raise ValueError(refusal(door, f"{path}, key 'scalar_type'", repr(document["scalar_type"]),
                                 f"one of {SCALAR_TYPES}"))
    for key in ("arg_widths", "arg_dtypes", "launch", "cells", "companions", "mat_shapes"):
        if not isinstance(document.get(key, {}), dict):
            raise ValueError(refusal(door, f"{path}, key {key!r}", repr(document[key]), "a JSON object"))
    from raptor.schema import manifest as schema

    try:
        schema.check_lane_space(document, name=str(path))
    except ValueError as error:
        raise ValueError(f"{door}: {error}") from None
    entry = document.get("host_entry")
    if entry is not None and not (isinstance(entry, str) and entry.isascii() and entry.isidentifier()):
        raise ValueError(refusal(door, f"{path}, key 'host_entry'", shown(entry), "the name of a function"))
    for key in ("mutables", "params"):
        items = document.get(key, [])
        if not isinstance(items, list) or not all(
                isinstance(m, dict) and isinstance(m.get("name"), str) or key == "params" and isinstance(m, str)
                for m in items):
            raise ValueError(refusal(door, f"{path}, key {key!r}", repr(items), "a list of objects with a name"))
    if not isinstance(document.get("terminated_readonly", False), bool):
        raise ValueError(refusal(door, f"{path}, key 'terminated_readonly'", repr(document["terminated_readonly"]),
                                 "true or false"))
    return document


def declaration(sidecar: Mapping[str, Any]) -> SimpleNamespace:
    """What a plan reads of a kernel: a plugin without entries."""
    mutables = sidecar.get("mutables", [])
    launch = sidecar.get("launch", {})
    return SimpleNamespace(
        name=sidecar["kernel"], kernel=sidecar["kernel"],
        abi_tag=sidecar["aether_abi"],
        arg_spec=tuple(tuple(pair) if isinstance(pair, list) else pair for pair in sidecar["arg_spec"]),
        exec_access=sidecar["exec_access"], exec_op=sidecar.get("exec_op"),
        exec_targets=tuple(sidecar["exec_targets"]),
        scalar_type=sidecar.get("scalar_type", "float64"),
        arg_widths=dict(sidecar.get("arg_widths", {})), arg_dtypes=dict(sidecar.get("arg_dtypes", {})),
        params=tuple(sidecar.get("params", [])),
        vec_mutables=frozenset(m["name"] for m in mutables if m.get("dtype") == "vector"),
        mat_mutables=frozenset(m["name"] for m in mutables if m.get("dtype") == "matrix"),
        prior_mutables=frozenset(m["name"] for m in mutables if m.get("prior")),
        mat_shapes={**sidecar.get("mat_shapes", {}),
                    **{m["name"]: tuple(m["shape"]) for m in mutables if isinstance(m.get("shape"), list)}},
        terminated_readonly=sidecar.get("terminated_readonly", False),
        finish=sidecar.get("finish"), step_ops=sidecar.get("step_ops"),
        lane_space=launch.get("lane_space"), box=launch.get("box"), block=launch.get("block"),
        cells=sidecar.get("cells"), companions=sidecar.get("companions"), stages=sidecar.get("stages"),
        keyed=sidecar.get("keyed"), dispatch=sidecar.get("dispatch"), adjoint_like=sidecar.get("adjoint_like"),
        gather_mats=sidecar.get("gather_mats"), plane_axes=sidecar.get("plane_axes"),
        derivative=sidecar.get("derivative"), unread=frozenset())


def _check_document(door: str, path: Path, document: dict[str, Any], *, legacy_version: bool) -> None:
    """The keys a manifest and a sidecar share: schema, ABI, execution axis, pattern."""
    from raptor.schema import manifest as schema

    name = str(path)
    try:
        version = schema.check_schema_version(document, name=name, allow_legacy_version_key=legacy_version)
        if version < 1:
            raise ValueError(f"{name!r}: found schema version {version}, wanted 1 to {schema.MAX_SCHEMA_VERSION}")
        tag = document.get("aether_abi")
        if tag not in (ABI_TAG_V1, ABI_TAG_V2):
            raise ValueError(f"{name!r}: found aether_abi {tag!r}, wanted {ABI_TAG_V1!r} or {ABI_TAG_V2!r}")
        schema.check_execution_axis(document, version, name=name)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{door}: {error}") from None
    if version == 1:
        raise ValueError(refusal(door, name, "a legacy schema-1 artifact", "schema 2 or 3", "rebuild it with hawk"))
    if document.get("pattern") not in PATTERNS:
        raise ValueError(refusal(door, f"{name}, key 'pattern'", repr(document.get("pattern")), f"one of {PATTERNS}"))


def _want(door: str, path: Path, document: Mapping[str, Any], key: str, kind: type, where: str = "") -> Any:
    value = document.get(key)
    if not isinstance(value, kind) or (kind is str and not value):
        dotted = f"{where}.{key}" if where else f"key {key!r}"
        raise ValueError(refusal(door, f"{path}, {dotted}", "nothing" if value is None else repr(value),
                                 f"a {kind.__name__}"))
    return value


def _inside(door: str, manifest: Path, name: str, where: str) -> Path:
    """A file of the bundle, by its name in the manifest."""
    folder = manifest.parent.resolve()
    if "\0" not in name:
        path = (folder / name).resolve()
        if path.is_relative_to(folder):
            return path
    raise ValueError(refusal(door, f"{manifest}, {where}", repr(name), "a path inside the bundle's folder"))
