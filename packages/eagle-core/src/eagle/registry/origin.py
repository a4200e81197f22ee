# SPDX-License-Identifier: Apache-2.0
"""The source of a loaded kernel, where it is sure that its object was built from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from eagle.sidecar.files import read_bytes, read_json

__all__ = ["Origin", "emitted_source"]

DOOR = "eagle.load_bundle"
STAMP = ".hawk_unit"  #: what hawk writes beside a bundle: the SHA-256 of every file it wrote together
MOST_SOURCE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Origin:
    """The files a kernel was loaded from, and what they held then."""

    sidecar: Path
    digests: tuple[tuple[str, str], ...]  #: of the sidecar and of the object: (name, SHA-256)

    @classmethod
    def of(cls, sidecar: Path, text: bytes, library: Path | None, code: bytes) -> Origin:
        held = ((sidecar, text),) if library is None else ((sidecar, text), (library, code))
        return cls(sidecar, tuple((path.name, hashlib.sha256(data).hexdigest()) for path, data in held))

    @property
    def key(self) -> tuple[str, ...]:
        """What was read, wherever it lay."""
        return tuple(digest for _, digest in self.digests)


def emitted_source(origin: Origin) -> str | None:
    """The source beside a sidecar that was written together with the very object that was loaded; else None.

    Only the stamp ties them: without one, or where the sidecar, the object or the source is not what it names, a
    source may be an old one or edited, and says nothing.
    """
    source = origin.sidecar.with_suffix(".cpp")
    try:
        files = read_json(DOOR, origin.sidecar.with_name(STAMP)).get("files")
        text = read_bytes(DOOR, source, "a source", MOST_SOURCE_BYTES)
        told = (*origin.digests, (source.name, hashlib.sha256(text).hexdigest()))
        if not isinstance(files, dict) or any(files.get(name) != digest for name, digest in told):
            return None
        return text.decode()
    except (OSError, ValueError):
        return None
