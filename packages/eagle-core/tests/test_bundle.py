# SPDX-License-Identifier: Apache-2.0
"""load_bundle: what it gives, and artifacts it refuses before binding anything."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernels
import numpy as np
import pytest
from hawk import artifact

import eagle
from eagle.exec import HostTeam
from eagle.plan import plan


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    artifact.build_bundle([kernels.scale, kernels.sum_difference], folder, targets=("host",))
    return folder


@pytest.fixture
def bundle(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "bundle"))


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_a_folder_or_its_manifest(bundle: Path) -> None:
    for path in (bundle, str(bundle), bundle / "manifest.json"):
        plugins = eagle.load_bundle(path)
        assert list(plugins) == ["scale", "sum_difference"]
        scale = plan(plugins["scale"], structure=HostTeam)
        assert scale.run(x=np.arange(3.0), a=2.0, b=1.0).tolist() == [1, 3, 5]


def test_plugins_of_hawk_run_too(bundle: Path) -> None:
    built = artifact.build_bundle([kernels.scale], bundle.parent / "other", targets=("host",))
    scale = plan(artifact.plugins(built)["scale"], structure=HostTeam)
    assert scale.run(x=np.arange(3.0), a=2.0, b=1.0).tolist() == [1, 3, 5]


def test_what_is_missing_is_named(bundle: Path) -> None:
    with pytest.raises(FileNotFoundError, match="manifest.json"):
        eagle.load_bundle(bundle.parent)
    (bundle / "scale.so").unlink()
    with pytest.raises(FileNotFoundError, match=r"scale\.so"):
        eagle.load_bundle(bundle)
    (bundle / "scale.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"scale\.json"):
        eagle.load_bundle(bundle)


@pytest.mark.parametrize(("change", "facts"), [
    (lambda m: m.update(schema_version=4), ["schema v4", "upgrade"]),
    (lambda m: m.update(schema_version=0), ["schema version 0"]),
    (lambda m: m.update(schema_version=-1), ["schema version -1"]),
    (lambda m: m.update(schema_version=True), ["schema"]),
    (lambda m: m.update(schema_version="3"), ["schema"]),
    (lambda m: m.pop("aether_abi"), ["aether_abi", "None"]),
    (lambda m: m.update(aether_abi="aether-abi/9"), ["aether-abi/9"]),
    (lambda m: m.update(pattern="other"), ["pattern", "'other'"]),
    (lambda m: m.pop("pattern"), ["manifest.json, key 'pattern'", "None", "a text"]),
    (lambda m: m.pop("exec_targets"), ["exec_targets"]),
    (lambda m: m.update(exec_access="all"), ["exec_access", "'all'"]),
    (lambda m: m.pop("plugins"), ["plugins"]),
    (lambda m: m.update(plugins={}), ["plugins"]),
    (lambda m: m.update(plugins=[3]), ["plugins[0]"]),
    (lambda m: m["plugins"][0].pop("artifact"), ["plugins[0].artifact", "nothing"]),
    (lambda m: m["plugins"][1].update(id="scale"), ["'scale' twice"]),
    (lambda m: m["plugins"][0].update(order=1), ["plugins[0].order"]),
    (lambda m: m["plugins"][0].update(enabled=1), ["plugins[0].enabled"]),
    (lambda m: m["plugins"][0].update(artifact="../scale.so"), ["plugins[0].artifact", "inside"]),
    (lambda m: m["plugins"][0].update(sidecar="/etc/passwd"), ["plugins[0].sidecar", "inside"]),
    (lambda m: m["plugins"][0].update(sidecar="a\0b"), ["plugins[0].sidecar", "inside"]),
])
def test_manifests_that_are_refused(bundle: Path, change: Callable[[Any], Any], facts: list[str]) -> None:
    edit(bundle / "manifest.json", change)
    with pytest.raises(ValueError) as caught:
        eagle.load_bundle(bundle)
    for fact in ("eagle.load_bundle", "manifest.json", *facts):
        assert fact in str(caught.value)


@pytest.mark.parametrize(("change", "facts"), [
    (lambda s: s.pop("arg_spec"), ["arg_spec", "nothing"]),
    (lambda s: s.update(arg_spec="x"), ["arg_spec"]),
    (lambda s: s.update(arg_spec=[["mutable"]]), ["arg_spec", "mutable"]),
    (lambda s: s.update(arg_spec=[{"name": "x"}]), ["arg_spec"]),
    (lambda s: s.update(launch={"lane_space": {"axes": 5}}), ["lane_space"]),
    (lambda s: s.pop("kernel"), ["kernel"]),
    (lambda s: s.pop("mutables"), ["key 'mutables'", "nothing", "what each mutable slot is"]),
    (lambda s: s.update(mutables=None), ["key 'mutables'", "no entry for slot 'out'"]),
    (lambda s: s.pop("params"), ["key 'params'", "nothing", "what each uniform is"]),
    (lambda s: s.pop("pattern"), ["scale.json, key 'pattern'", "None", "a text"]),
    (lambda s: s.update(pattern=""), ["scale.json, key 'pattern'", "''", "a text"]),
    (lambda s: s.update(host_entry="nowhere"), ["nowhere"]),
    (lambda s: s.update(host_entry=3), ["host_entry", "3"]),
    (lambda s: s.update(scalar_type="float16"), ["scalar_type", "'float16'"]),
    (lambda s: s.update(mutables=[{}]), ["mutables"]),
    (lambda s: s.update(arg_widths=[]), ["arg_widths"]),
    (lambda s: s.update(terminated_readonly=1), ["terminated_readonly", "1"]),
    (lambda s: s.update(schema_version=9), ["schema v9"]),
])
def test_sidecars_that_are_refused(bundle: Path, change: Callable[[Any], Any], facts: list[str]) -> None:
    edit(bundle / "scale.json", change)
    with pytest.raises(ValueError) as caught:
        eagle.load_bundle(bundle)
    for fact in ("eagle.load_bundle", *facts):
        assert fact in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b"nul\0l"])
def test_text_that_is_no_json(bundle: Path, text: bytes) -> None:
    (bundle / "manifest.json").write_bytes(text)
    with pytest.raises(ValueError, match=r"manifest\.json.*no JSON"):
        eagle.load_bundle(bundle)


def test_json_that_is_no_object(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"manifest\.json: found a JSON list, wanted a JSON object"):
        eagle.load_bundle(bundle)


def test_files_that_are_no_regular_files(bundle: Path) -> None:
    for name in ("scale.json", "manifest.json"):
        (bundle / name).unlink()
        os.mkfifo(bundle / name)
        with pytest.raises(ValueError, match=rf"{name}: found no regular file"):
            eagle.load_bundle(bundle)


def replace_object(bundle: Path, source: str) -> None:
    """A host object made of C text, in the place of scale.so."""
    code = bundle / "other.c"
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", str(code), "-o", str(bundle / "scale.so")], check=True)


ENTRY = "void scale_host(void) {}\n"
SIZES = "unsigned long eagle_layout_sizes[5] = {40, 32, 32, 4, 24};\n"
TAG = 'char eagle_abi_tag[] = "aether-abi/2";\n'


@pytest.mark.parametrize(("source", "facts"), [
    (TAG + SIZES.replace("40", "48") + ENTRY, ["48 bytes for GRefMirror", "40 bytes"]),
    (TAG + SIZES.replace("24", "32") + ENTRY, ["32 bytes for partition triple", "24 bytes"]),
    (TAG + "unsigned long eagle_layout_sizes[4] = {40, 32, 32, 4};\n" + ENTRY, ["eagle_layout_sizes", "32 bytes"]),
    (TAG.replace("/2", "/3") + SIZES + ENTRY, ["'aether-abi/3'", "'aether-abi/2'"]),
    (SIZES + ENTRY, ["eagle_abi_tag"]),
    (TAG + ENTRY, ["eagle_layout_sizes"]),
    (TAG + SIZES, ["scale_host"]),
])
def test_objects_that_do_not_agree(bundle: Path, source: str, facts: list[str]) -> None:
    replace_object(bundle, source)
    with pytest.raises(ValueError) as caught:
        eagle.load_bundle(bundle)
    for fact in ("eagle.load_bundle", *facts):
        assert fact in str(caught.value)


def test_an_object_that_is_no_library(bundle: Path) -> None:
    (bundle / "scale.so").write_bytes(b"not a library")
    with pytest.raises(ValueError, match=r"scale\.so.*rebuild the artifact"):
        eagle.load_bundle(bundle)


def test_disabled_entries_are_left_out(bundle: Path) -> None:
    edit(bundle / "manifest.json", lambda m: m["plugins"][0].update(enabled=False))
    assert list(eagle.load_bundle(bundle)) == ["sum_difference"]
