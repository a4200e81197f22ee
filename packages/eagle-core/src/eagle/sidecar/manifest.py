# SPDX-License-Identifier: Apache-2.0
"""The manifest of a bundle: which artifacts there are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle import roles
from eagle.errors import shown
from eagle.sidecar.document import Document
from eagle.sidecar.files import inside, read_json
from eagle.sidecar.validate import check_head

__all__ = ["MANIFEST_NAME", "Entry", "check_blocks", "manifest_entries", "manifest_of", "read_manifest"]

MANIFEST_NAME = "manifest.json"
NEURAL_BLOCK = "neural_block"


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
