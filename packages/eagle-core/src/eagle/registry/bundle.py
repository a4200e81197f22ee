# SPDX-License-Identifier: Apache-2.0
"""Loading built kernels: a bundle on disk becomes plugins that plans take."""

from __future__ import annotations

import copy
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from eagle import backends
from eagle.abi import ABI_TAG_V2
from eagle.dtypes import INT64_MAX
from eagle.errors import REBUILD, BackendUnavailable, refusal, shown
from eagle.registry.host import (
    HOST_SUFFIXES,
    MOST_OBJECT_BYTES,
    Entries,
    HostObject,
    check_host,
    holds,
    library_of,
    open_host,
)
from eagle.registry.memo import Memo
from eagle.registry.origin import Origin
from eagle.roles import RESERVED_DTYPES, cell_plane
from eagle.sidecar.declaration import declaration
from eagle.sidecar.files import MOST_JSON_BYTES, as_path, inside, read_bytes
from eagle.sidecar.validate import MANIFEST_NAME, Entry, manifest_of, parse_sidecar, read_manifest

__all__ = ["complete", "load_bundle"]

DOOR = "eagle.load_bundle"
MOST_LOADED = 128

_loaded: Memo[tuple[SimpleNamespace, Entries]] = Memo(MOST_LOADED)


@dataclass(frozen=True)
class _Files:
    """The files of one kernel; `host_object` is None where only a device was built for."""

    id: str
    format: str
    sidecar: Path
    host_object: Path | None


@dataclass(frozen=True)
class _Kernel:
    """A kernel whose files were checked: a fresh plugin without its entries, and its object, or the entries of one that
    was loaded before from the same bytes.
    """

    origin: Origin
    plugin: SimpleNamespace
    code: HostObject | Entries


def load_bundle(path: str | os.PathLike[str]) -> dict[str, SimpleNamespace]:
    """The kernels of a bundle, as ``{kernel name: plugin}``. `path` is its folder or its ``manifest.json``.

    Each plugin carries the entries of every target that was built and is what :func:`eagle.plan.plan` and
    :func:`eagle.deploy` take. The first stage of a split kernel has all of them in ``stage_plugins``. Loading runs
    native code of the bundle: load only what you trust. Nothing runs before every file was checked. What was loaded
    before from the same bytes is not loaded again; the plugins are fresh objects.

    Raises FileNotFoundError for a missing file, ValueError naming the file for anything malformed or built for
    another ABI, TypeError for what is no path, BackendUnavailable when nothing installed loads its format.
    """
    folder = as_path(DOOR, "path", path)
    manifest = manifest_of(folder)
    try:
        entries = read_manifest(DOOR, manifest)
    except FileNotFoundError:
        if os.path.lexists(folder):
            raise
        raise FileNotFoundError(refusal(DOOR, shown(os.fspath(folder), 500), "no such folder or file", "a bundle",
                                        "pass its folder")) from None
    kernels: dict[str, _Kernel] = {}
    for entry in entries:
        kernel = _read(DOOR, _files_of(manifest, entry))
        name = kernel.plugin.name
        if name in kernels:
            raise ValueError(refusal(DOOR, str(manifest), f"two kernels named {shown(name)}", "each name once",
                                     REBUILD))
        kernels[name] = kernel
    return _open(DOOR, str(manifest), kernels)


def complete(door: str, plugin: Any) -> Any:
    """`plugin` with everything its sidecar declares: for one that :func:`load_bundle` did not make.

    The sidecar is the ``.json`` beside the library of its ``host_entry``, where that is of this kernel. What `plugin`
    has, and is not None or empty, stands, each key of a dict by itself. A complete plugin is returned as it is; so is
    one without a sidecar, as long as no slot's meaning has to be guessed.

    Raises ValueError where one has to be, and for a sidecar or a stage that is malformed or missing.
    """
    if all(hasattr(plugin, name) for name in ("cells", "stages", "keyed", "stage_plugins", "fold_entries")):
        return plugin
    kernel = getattr(plugin, "kernel", None) or getattr(plugin, "name", None)
    entry = getattr(plugin, "host_entry", None)
    if not isinstance(entry, int) or not 0 < entry <= INT64_MAX:
        return _refuse_guesses(door, plugin, kernel)
    library = library_of(entry)
    files = _Files("", "host", library.path.with_suffix(".json"), library.path) if library is not None else None
    if library is None or files is None or not files.sidecar.is_file():
        return _refuse_guesses(door, plugin, kernel)
    document = parse_sidecar(door, files.sidecar, read_bytes(door, files.sidecar, "a sidecar", MOST_JSON_BYTES))
    if document["kernel"] != kernel:
        return _refuse_guesses(door, plugin, kernel)
    if not holds(door, library, document.get("host_entry"), entry):
        raise ValueError(refusal(door, str(library.path), "another object than the one that is loaded",
                                 f"the code of kernel {shown(kernel)}", "load it again, with eagle.load_bundle"))
    first = _read(door, files)
    later = {stage["kernel"]: _read(door, _beside(door, files.sidecar, library.path, stage["kernel"]))
             for stage in first.plugin.stages[1:]}
    full = _open(door, str(files.sidecar), {first.plugin.name: first, **later})[first.plugin.name]
    own = {name: getattr(plugin, name, None) for name in vars(full)} | getattr(plugin, "__dict__", {})
    stages, keep = full.stage_plugins, (*full._keepalive, *(own["_keepalive"] or ()))
    for name, value in own.items():
        declared = getattr(full, name, None)
        if isinstance(value, dict) and isinstance(declared, dict):
            setattr(full, name, declared | value)
        elif _is_given(value):
            setattr(full, name, value)
    full.stage_plugins, full._keepalive = stages or full.stage_plugins, keep
    return full


def forget() -> None:
    """Drops the memo of loaded kernels; for tests, and no part of the room's public names."""
    _loaded.forget()


# ---- one kernel ------------------------------------------------------------------------------------------------------


def _files_of(manifest: Path, entry: Entry) -> _Files:
    """A manifest entry names the device object where there is one; the host object stands beside it."""
    if entry.format == "host":
        return _Files(entry.id, entry.format, entry.sidecar, entry.artifact)
    beside = [entry.artifact.with_suffix(suffix) for suffix in HOST_SUFFIXES]
    found = next((path for path in beside if path.is_file()), None)
    if found is not None:
        name = str(found.relative_to(manifest.parent.resolve()))
        found = inside(DOOR, manifest, name, f"host object of {entry.id!r}")
    return _Files(entry.id, entry.format, entry.sidecar, found)


def _beside(door: str, sidecar: Path, library: Path, kernel: str) -> _Files:
    """The files of a later stage, in the folder of the first."""
    there = sidecar.parent / MANIFEST_NAME
    return _Files(kernel, "host", inside(door, there, f"{kernel}.json", f"stage {kernel!r}"),
                  inside(door, there, f"{kernel}{library.suffix}", f"stage {kernel!r}"))


def _read(door: str, files: _Files) -> _Kernel:
    """A kernel, after its sidecar and its object were checked. Nothing of it runs."""
    text = read_bytes(door, files.sidecar, "a sidecar", MOST_JSON_BYTES)
    path = files.host_object
    code = read_bytes(door, path, "the host object", MOST_OBJECT_BYTES) if path is not None else b""
    origin = Origin.of(files.sidecar, text, path, code)
    kept = _loaded.find(origin.key)
    if kept is not None:
        plugin, entries = kept
        return _Kernel(origin, copy.deepcopy(plugin), entries)
    sidecar = parse_sidecar(door, files.sidecar, text)
    plugin = declaration(sidecar)
    if plugin.abi_tag != ABI_TAG_V2:
        raise ValueError(refusal(door, str(files.sidecar), f"a legacy artifact, {plugin.abi_tag}", ABI_TAG_V2,
                                 "rebuild it with hawk"))
    entry = sidecar.get("host_entry")
    if entry is None or path is None:
        raise _device_only(door, files, plugin, entry)
    return _Kernel(origin, plugin, check_host(door, path, code, plugin, entry))


def _device_only(door: str, files: _Files, plugin: SimpleNamespace, entry: str | None) -> Exception:
    """The refusal of a kernel without a host entry, which needs a backend that loads its format."""
    if files.format == "host" or (entry is not None and files.host_object is None):
        found = "no host_entry" if entry is None else f"host_entry {entry!r} and no host object beside the device's"
        return ValueError(refusal(door, str(files.sidecar), found, "a host object and its entry", REBUILD))
    kind = backends.for_format(files.format)
    return BackendUnavailable(refusal(door, f"kernel {plugin.name!r}", f"a {files.format} object and no host object",
                                     "a host object; this version loads no other",
                                     f"build it with targets=(\"host\",) as well as for {kind}"))


# ---- all kernels of a bundle -----------------------------------------------------------------------------------------


def _open(door: str, where: str, kernels: Mapping[str, _Kernel]) -> dict[str, SimpleNamespace]:
    """The plugins of kernels that were all read, with their entries and stages. The only place where code of theirs
    begins to run.
    """
    plugins = {name: kernel.plugin for name, kernel in kernels.items()}
    for plugin in plugins.values():
        _check_stages(door, where, plugin, plugins)
    for kernel in kernels.values():
        plugin, entries = kernel.plugin, kernel.code
        if isinstance(entries, HostObject):
            _, entries = _loaded.keep(kernel.origin.key, (copy.deepcopy(plugin), open_host(door, entries)))
        plugin.host_entry, plugin.fold_entries = entries.entry, dict(entries.folds)
        plugin.host_tile = entries.tile
        plugin.origin = kernel.origin
        plugin._keepalive = (entries.module,)
    for plugin in plugins.values():
        plugin.stage_plugins = tuple(plugins[stage["kernel"]] for stage in plugin.stages)
    return plugins


def _check_stages(door: str, where: str, plugin: SimpleNamespace, plugins: Mapping[str, SimpleNamespace]) -> None:
    """Refuse a split kernel whose stages are not all there, or do not hold its cells."""
    names = [stage["kernel"] for stage in plugin.stages]
    for name in names:
        if name not in plugins:
            raise ValueError(refusal(door, f"{where}, kernel {plugin.name!r}", f"no stage {shown(name)}",
                                     f"all of {names}", REBUILD))
    slots = {slot for name in names for _, slot in plugins[name].arg_spec}
    held = [(cell, cell_plane(cell, 0, spec["columns"])) for cell, spec in plugin.cells.items()]
    for cell, plane in (*held, *((name, name) for name in plugin.keyed)) if names else ():
        if plane not in slots:
            raise ValueError(refusal(door, f"{where}, kernel {plugin.name!r}", f"the cell {shown(cell)}",
                                     "a slot of a stage", REBUILD))


# ---- plugins of others -----------------------------------------------------------------------------------------------


def _refuse_guesses(door: str, plugin: Any, kernel: Any) -> Any:
    """`plugin` itself, unless what one of its planes means is said only in a sidecar it does not have."""
    declared: set[str] = set()
    for name in ("cells", "companions", "keyed", "plane_axes", "adjoint_like"):
        declared.update(_names(getattr(plugin, name, None)))
    told = hasattr(plugin, "cells")
    for role, name in getattr(plugin, "arg_spec", ()) or ():
        reduced = role == "accum_out" and not told and name not in declared
        mix = role == "lookup" and name not in RESERVED_DTYPES and str(name).endswith("_mix") \
            and not hasattr(plugin, "dispatch")
        if reduced or mix:
            raise ValueError(refusal(door, f"kernel {shown(kernel)}, slot ({role!r}, {name!r})",
                                     "no sidecar beside its library that says what the plane means", "one",
                                     "load the kernel with eagle.load_bundle"))
    return plugin


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, Collection) and not isinstance(value, str) and not value)


def _names(value: Any) -> Iterable[str]:
    return [str(word) for pair in value.items() for word in pair] if isinstance(value, Mapping) else ()
