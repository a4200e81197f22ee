# SPDX-License-Identifier: Apache-2.0
"""Reading the files of a bundle: only regular files, only so large, only inside their folder."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from eagle.errors import REBUILD, refusal, shown

__all__ = ["MOST_JSON_BYTES", "as_path", "inside", "parse_json", "read_bytes", "read_json"]

MOST_JSON_BYTES = 16 * 2**20
LONGEST_SHOWN = 500
DEEPEST = 64
# Opening a FIFO or a device must not wait, and no child process inherits the file.
FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def as_path(door: str, argument: str, value: Any) -> Path:
    """`value` as a path. TypeError for what is none, ValueError for a text that names no file."""
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise TypeError(refusal(door, argument, shown(value), "a path", "pass the folder of a bundle, as str or Path"))
    if not text or "\0" in text:
        raise ValueError(refusal(door, argument, shown(text), "a path", "pass the folder of a bundle"))
    return Path(text)


def read_bytes(door: str, path: Path, what: str, most: int) -> bytes:
    """All bytes of a regular file of at most `most` bytes; `what` says what the file should be.

    Raises FileNotFoundError where there is none, ValueError for anything else that is wrong with it.
    """
    try:
        descriptor = os.open(path, FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(refusal(door, _shown(path), "no such file", what, REBUILD)) from None
    except (OSError, ValueError) as error:
        raise ValueError(refusal(door, _shown(path), f"a file that does not open ({_reason(error)})", what,
                                 "check its name and permissions")) from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError(refusal(door, _shown(path), "no regular file", what, REBUILD))
        if facts.st_size > most:
            raise ValueError(refusal(door, _shown(path), f"{facts.st_size} bytes", f"{what} of at most {most} bytes",
                                     REBUILD))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError as error:
        raise ValueError(refusal(door, _shown(path), f"a file that does not read ({_reason(error)})", what,
                                 "check the disk")) from None
    finally:
        os.close(descriptor)


def read_json(door: str, path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ValueError naming the file; FileNotFoundError when there is none."""
    return parse_json(door, path, read_bytes(door, path, "a JSON file", MOST_JSON_BYTES))


def parse_json(door: str, path: Path, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`, the content of `path`: UTF-8, finite numbers, no key twice. Raises ValueError."""
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(refusal(door, _shown(path), f"no JSON ({_reason(error)})", "a JSON object",
                                 REBUILD)) from None
    if not isinstance(document, dict):
        raise ValueError(refusal(door, _shown(path), f"a JSON {type(document).__name__}", "a JSON object", REBUILD))
    if _is_deep(document):
        raise ValueError(refusal(door, _shown(path), "JSON that is too deeply nested", f"at most {DEEPEST} levels",
                                 REBUILD))
    return document


def inside(door: str, manifest: Path, name: str, where: str) -> Path:
    """A file in the folder of `manifest`, by its relative name there. Links that lead out are refused: ValueError."""
    try:
        folder = manifest.parent.resolve()
        path = (folder / name).resolve()
        if path != folder and path.is_relative_to(folder) and not Path(name).is_absolute():
            return path
    except (OSError, ValueError, RuntimeError):  # a zero byte, a lone surrogate, a circle of links
        pass
    raise ValueError(refusal(door, f"{_shown(manifest)}, {where}", shown(name), "a path inside the bundle's folder",
                             REBUILD))


def _is_deep(document: Any) -> bool:
    """Whether a document has more than DEEPEST levels: later copies and messages recurse."""
    level = [document]
    for _ in range(DEEPEST):
        level = [value for one in level for value in (one.values() if isinstance(one, dict) else one)
                 if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {shown(twice)} twice in one object")
    return document


def _constant(text: str) -> NoReturn:
    raise ValueError(f"the number {text}")


def _shown(path: Path) -> str:
    """A path that prints, cut where long: lone surrogates of undecodable names as escapes."""
    text = str(path).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _reason(error: BaseException) -> str:
    """Why, without the path, and cut where long."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return text if len(text) <= 120 else f"{text[:120]}..."
