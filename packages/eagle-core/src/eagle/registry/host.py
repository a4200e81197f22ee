# SPDX-License-Identifier: Apache-2.0
"""Host objects: checked as bytes, loaded, and checked to be the code that was read."""

from __future__ import annotations

import ctypes
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from eagle import _core, backends
from eagle.abi import LAYOUT_SIZES, LAYOUT_SYMBOL, TAG_SYMBOL, check_exports
from eagle.errors import REBUILD, BackendUnavailable, refusal
from eagle.objects import BadObject, Object, read_object
from eagle.sidecar.files import read_bytes

__all__ = ["HOST_SUFFIXES", "MOST_OBJECT_BYTES", "Entries", "HostObject", "Library", "check_host", "fold_symbol",
           "holds", "library_of", "open_host"]

HOST_SUFFIXES = (".so", ".dylib", ".dll")
MOST_OBJECT_BYTES = 256 * 2**20
SMALLEST_PAGE = 4096


def fold_symbol(kernel: str, target: str) -> str:
    """The entry that folds a companion's residual into `target`."""
    return f"{kernel}__fold_{target}_host"


@dataclass(frozen=True)
class HostObject:
    """The host object of a kernel, whose bytes were checked; nothing of it ran."""

    path: Path
    found: Object | None  #: None for a format of another system, which is checked when it is open
    entry: str
    folds: dict[str, str]  #: target of a companion to the entry that folds it


@dataclass(frozen=True)
class Entries:
    """The addresses of an open object's entries, and what keeps it open."""

    entry: int
    folds: dict[str, int]
    module: _core.Module
    tile: int  #: samples of a tile of the fused loop, 0 where it has none


def check_host(door: str, path: Path, data: bytes, plugin: SimpleNamespace, entry: str) -> HostObject:
    """The host object at `path`, whose content is `data`: whole, for this machine, of this build's ABI, exporting
    `entry` and a fold entry for each companion's target. Raises ValueError naming the file and what disagrees.
    """
    folds = {target: fold_symbol(plugin.kernel, target) for target in sorted(set(plugin.companions.values()))}
    found = _read(door, path, data)
    if found is not None:
        _check(door, path, found, [entry, *folds.values()])
    return HostObject(path, found, entry, folds)


def open_host(door: str, host: HostObject) -> Entries:
    """Load a checked object. Raises ValueError naming the file where the system does not, BackendUnavailable."""
    backend = backends.host()
    try:
        module, (entry, *folds) = _load(backend, host.path, host.found, [host.entry, *host.folds.values()])
        if host.found is None:
            check_exports(door, str(host.path), *_exports(module))
    except BackendUnavailable:
        raise
    except (RuntimeError, IndexError) as error:
        raise ValueError(refusal(door, str(host.path), str(error), "a host object of this kernel", REBUILD)) from None
    return Entries(entry, dict(zip(host.folds, folds, strict=True)), module, _tile(module, host))


def _tile(module: _core.Module, host: HostObject) -> int:
    """What the object says in ``<kernel>_host_tile``, 0 where it has none."""
    try:
        address, size = module.global_(f"{host.entry}_tile")
    except (RuntimeError, IndexError):
        return 0
    return max(ctypes.c_int64.from_address(address).value, 0) if size in (0, 8) else 0


def holds(door: str, library: Library, symbol: str | None, address: int) -> bool:
    """Whether the file of a loaded library is still what was loaded, with `symbol` at `address`. Raises ValueError for
    a file that is no object.
    """
    found = _read(door, library.path, read_bytes(door, library.path, "the host object", MOST_OBJECT_BYTES))
    if found is None:
        return True  # not told on this system
    there = found.symbols.get(symbol or "")
    return there is not None and _is_loaded(found, address, there.address)


def _read(door: str, path: Path, data: bytes) -> Object | None:
    try:
        return read_object(data)
    except BadObject as why:
        raise ValueError(refusal(door, str(path), str(why), "a shared object for this machine", REBUILD)) from None


def _check(door: str, path: Path, found: Object, symbols: Sequence[str]) -> None:
    """Refuse an object that does not export what is asked of it, or exports another layout."""
    try:
        tag, sizes = (found.symbols.get(name) for name in (TAG_SYMBOL, LAYOUT_SYMBOL))
        if tag is None or sizes is None or not tag.is_data or not sizes.is_data:
            missing = TAG_SYMBOL if tag is None or not tag.is_data else LAYOUT_SYMBOL
            raise BadObject(f"no data symbol '{missing}'")
        wanted = 8 * len(LAYOUT_SIZES)
        if sizes.size != wanted:
            raise BadObject(f"{sizes.size} bytes of {LAYOUT_SYMBOL}, not {wanted}")
        text = found.read(tag.address, min(tag.size, 64), TAG_SYMBOL).split(b"\0")[0]
        check_exports(door, str(path), text.decode("utf-8", "backslashreplace"),
                      struct.unpack(f"{len(LAYOUT_SIZES)}Q", found.read(sizes.address, wanted, LAYOUT_SYMBOL)))
        for name in symbols:
            if name not in found.symbols or not found.symbols[name].is_function:
                raise BadObject(f"no function '{name}'")
            found.read(found.symbols[name].address, 1, name)
    except BadObject as why:
        raise ValueError(refusal(door, str(path), str(why), "the object its sidecar describes", REBUILD)) from None


def _load(backend: _core.Backend, path: Path, found: Object | None,
          symbols: Sequence[str]) -> tuple[_core.Module, list[int]]:
    """The object opened, and the addresses of `symbols`.

    The system's loader knows objects by path: for a file that was replaced it answers with the old one, where that is
    still open. Then a copy under a name of its own is opened instead.
    """
    module = backend.module_load(os.fsencode(path))
    addresses = [module.function(name) for name in symbols]
    if found is None or _is_loaded(found, addresses[0], found.symbols[symbols[0]].address):
        return module, addresses
    with tempfile.TemporaryDirectory(prefix="eagle-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(found.data)
        module = backend.module_load(os.fsencode(copy))
        return module, [module.function(name) for name in symbols]


def _is_loaded(found: Object, address: int, offset: int) -> bool:
    """Whether `found`, with its symbol at `offset`, is what is loaded around `address`.

    Its read-only segments, code and constants, say it. They are read only behind headers that are the same, since
    those say how far memory goes.
    """
    loaded = library_of(address)
    if loaded is None or address - offset != loaded.base or not 0 < found.headers_end <= SMALLEST_PAGE:
        return False
    return all(ctypes.string_at(loaded.base + start, size) == found.data[at:at + size] for start, size, at in (
        (0, found.headers_end, 0),
        *((part.address, part.file_bytes, part.offset) for part in found.segments if part.readable
          and not part.writable)))


@dataclass(frozen=True)
class Library:
    """A loaded library: its file, and where it begins in memory."""

    path: Path
    base: int


class _DlInfo(ctypes.Structure):
    _fields_ = (("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p))


def library_of(address: int) -> Library | None:
    """The loaded library that has `address`; None for an address in none, and where the system cannot tell."""
    try:
        dladdr = ctypes.CDLL(None).dladdr
    except (AttributeError, OSError, TypeError):
        return None
    dladdr.argtypes, dladdr.restype = (ctypes.c_void_p, ctypes.POINTER(_DlInfo)), ctypes.c_int
    info = _DlInfo()
    if not dladdr(address, ctypes.byref(info)) or not info.file:
        return None
    return Library(Path(os.fsdecode(info.file)), info.base or 0)


def _exports(module: _core.Module) -> tuple[str, list[int]]:
    """The tag and the sizes as they stand in memory."""
    (tag, tag_bytes), (sizes, sizes_bytes) = module.global_(TAG_SYMBOL), module.global_(LAYOUT_SYMBOL)
    wanted = 8 * len(LAYOUT_SIZES)
    if sizes_bytes not in (0, wanted):
        raise RuntimeError(f"{sizes_bytes} bytes of {LAYOUT_SYMBOL}, not {wanted}")
    text = ctypes.string_at(tag, tag_bytes or -1).split(b"\0")[0]
    return text.decode("utf-8", "backslashreplace"), list((ctypes.c_uint64 * len(LAYOUT_SIZES)).from_address(sizes))
