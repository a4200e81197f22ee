# SPDX-License-Identifier: Apache-2.0
"""Loading built kernels: a bundle on disk becomes plugins that plans take."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from eagle import backends
from eagle.abi import LAYOUT_SIZES, LAYOUT_SYMBOL, TAG_SYMBOL, check_exports
from eagle.errors import BackendUnavailable, refusal
from eagle.sidecar import MANIFEST_NAME, declaration, read_manifest, read_sidecar

__all__ = ["load_bundle"]


def load_bundle(path: str | os.PathLike[str]) -> dict[str, SimpleNamespace]:
    """The kernels of a bundle, as ``{kernel name: plugin}``. `path` is its folder or its ``manifest.json``.

    Each plugin carries the entries of every target that was built and is what :func:`eagle.plan.plan` and
    :func:`eagle.deploy` take. Loading runs native code of the bundle: load only what you trust. Nothing is bound
    before the artifact's ABI tag and box sizes agree with this build.

    Raises FileNotFoundError for a missing file, ValueError naming the file for anything malformed or built for
    another ABI, BackendUnavailable when nothing installed loads its format.
    """
    door = "eagle.load_bundle"
    manifest = Path(path)
    if manifest.is_dir():
        manifest = manifest / MANIFEST_NAME
    plugins = {}
    for entry in read_manifest(door, manifest):
        sidecar = read_sidecar(door, entry["sidecar"])
        plugin = declaration(sidecar)
        if plugin.name in plugins:
            raise ValueError(refusal(door, str(manifest), f"two kernels named {plugin.name!r}", "each name once"))
        plugin._keepalive = ()
        symbol = sidecar.get("host_entry")
        if symbol is None:
            _refuse_device_only(door, entry, plugin)
        else:
            # A manifest entry names the device object where there is one; the host object stands beside it.
            artifact = entry["artifact"] if entry["format"] == "host" else entry["artifact"].with_suffix(".so")
            _bind_host(door, artifact, symbol, plugin)
        plugins[plugin.name] = plugin
    for plugin in plugins.values():
        if plugin.stages:
            plugin.stage_plugins = tuple(plugins[record["kernel"]] for record in plugin.stages)
    return plugins


def _refuse_device_only(door: str, entry: dict[str, Any], plugin: SimpleNamespace) -> NoReturn:
    """A kernel without a host entry needs a backend that loads its format."""
    kind = backends.for_format(entry["format"])
    raise BackendUnavailable(refusal(door, f"kernel {plugin.name!r}", f"a {entry['format']} object and no host object",
                                     "a host object; this version loads no other",
                                     f"build it with targets=(\"host\",) as well as for {kind}"))


def _bind_host(door: str, artifact: Path, symbol: str, plugin: SimpleNamespace) -> None:
    """Load a host object, compare its exports, and put its entry on the plugin."""
    if not artifact.is_file():
        raise FileNotFoundError(refusal(door, str(artifact), "no such file", "the host object", "rebuild the bundle"))
    backend = backends.host()
    try:
        module = backend.module_load(os.fsencode(artifact))
        tag, sizes = module.global_(TAG_SYMBOL), module.global_(LAYOUT_SYMBOL)
        check_exports(door, str(artifact), _text(*tag), _sizes(*sizes))
        plugin.host_entry = module.function(symbol)
        plugin.fold_entries = {target: module.function(f"{plugin.name}__fold_{target}_host")
                               for target in (plugin.companions or {}).values()}
    except BackendUnavailable:
        raise
    except (RuntimeError, IndexError) as error:
        raise ValueError(refusal(door, str(artifact), str(error), "a host object of this kernel",
                                 "rebuild the bundle")) from None
    plugin._keepalive = (module,)


def _text(address: int, size: int) -> str:
    """An exported char array."""
    return ctypes.string_at(address, size or -1).split(b"\0")[0].decode("utf-8", "backslashreplace")


def _sizes(address: int, size: int) -> list[int]:
    """The exported sizes; the object must hold as many as this build compares."""
    wanted = len(LAYOUT_SIZES) * ctypes.sizeof(ctypes.c_uint64)
    if size not in (0, wanted):
        raise ValueError(f"eagle.load_bundle: {LAYOUT_SYMBOL}: found {size} bytes, wanted {wanted}; rebuild the bundle")
    return list((ctypes.c_uint64 * len(LAYOUT_SIZES)).from_address(address))
