# SPDX-License-Identifier: Apache-2.0
"""``eagle doctor``: one readable row a kind, whatever a backend does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import eagle
from eagle.backends import library_name

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site

DEVICE_BIT = "(1 << EAGLE_CAP_DEVICE)"


def doctor(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-m", "eagle", "doctor", *options], capture_output=True, text=True,
                          check=False)


def rows(*options: str) -> dict[str, dict[str, Any]]:
    done = doctor("--json", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["backends"]
    keys = ["kind", "state", "distribution", "file", "seam", "groups", "device_types", "devices", "error"]
    assert all(list(row) == keys for row in found["backends"])
    return {row["kind"]: row for row in found["backends"]}


def test_a_good_backend(site: Site, make_library: MakeLibrary) -> None:
    path = make_library(BITS=DEVICE_BIT)
    site.install_backend("acme-fake", "fake", path)
    assert rows()["fake"] == {
        "kind": "fake", "state": "has-device", "distribution": "acme-fake", "file": str(path), "seam": "1.6",
        "groups": ["device"], "device_types": [77], "devices": ["fake device 0", "fake device 1"], "error": ""}


def test_the_table_for_a_reader(site: Site, make_library: MakeLibrary) -> None:
    path = make_library(BITS=DEVICE_BIT)
    site.install_backend("acme-fake", "fake", path)
    site.install("acme-broken", "broken", "raise KeyError('no licence')")
    beside = Path(eagle.__file__).parent / library_name("broken")
    done = doctor()
    assert done.returncode == 0
    assert done.stdout == f"""\
broken: found
  distribution  acme-broken 1.2
  file          {beside}
  why not       eagle: backend 'broken': found no library that loads; tried
                  entry points: acme-broken 1.2 (entry point broken = plug_in_acme_broken): KeyError: 'no licence'
                  beside the package: {beside}: no such file
                `eagle doctor` shows every backend

fake: has-device
  distribution  acme-fake 1.2
  file          {path}
  seam          1.6
  groups        device
  device types  77
  devices       fake device 0, fake device 1
"""


def test_no_backend_at_all(site: Site) -> None:
    done = doctor()
    assert done.stdout == "no backend found; for host memory: pip install eagle-backend-cpu\n" and done.returncode == 1
    done = doctor("--json")
    assert json.loads(done.stdout) == {"backends": []} and done.returncode == 1


def test_each_wrong_backend_is_one_row_and_the_good_one_still_works(
        site: Site, make_library: MakeLibrary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    wrong = {
        "major": (make_library("major", VERSION="(2u << 16)", ONLY_VERSION=1), "importable", "wanted major 1"),
        "symbol": (make_library("symbol", OMIT_PROBE=1), "importable", "found no symbol eagle_backend_probe"),
        "lying": (make_library("lying", BITS=1), "importable", "sets the capability bit of group stream"),
        "failing": (make_library("failing", FAIL=1), "importable", "no capabilities today"),
        "misnamed": (make_library("other"), "importable", "found a backend of kind 'other', wanted kind 'misnamed'"),
        "text": (text, "importable", f"({text}): cannot be opened: "),
        "missing": (tmp_path / "gone.so", "importable", f"{tmp_path / 'gone.so'}: no such file"),
        "deviceless": (make_library("deviceless", FAIL=4), "compatible", r"caf\xe9: no device"),
        "crashing": (make_library("crashing", PROBE="abort()"), "compatible",
                     "while probing for a device, the probe's process was ended by SIGABRT"),
        "hanging": (make_library("hanging", PROBE="pause()"), "compatible",
                    "while probing for a device, the probe's process did not end within 3 s and was killed"),
    }
    for kind, (path, _, _) in wrong.items():
        site.install_backend(f"acme-{kind}", kind, path)
    site.install("acme-typed", "typed", "from eagle.backends import hookimpl\n@hookimpl\ndef eagle_backend(): return 3")
    site.install("acme-leaving", "leaving", "import os, sys; print('bye', file=sys.stderr, flush=True); os._exit(0)")
    for distribution in ("acme-one", "acme-two"):
        site.install_backend(distribution, "doubled", make_library("doubled"))
    site.install_backend("acme-old", "old", make_library("old", BUILD_BYTES=176, VERSION="(1u << 16)"))
    site.install_backend("acme-new", "new", make_library("new", VERSION="(1u << 16 | 9)"))
    monkeypatch.setenv("EAGLE_BACKEND_NAMED", str(make_library("named", DEVICES="90,91")))
    monkeypatch.setenv("EAGLE_BACKEND_ASTRAY", str(tmp_path / "astray.so"))

    found = rows("--timeout", "3")
    for kind, (path, state, why) in wrong.items():
        row = found[kind]
        assert (row["state"], row["file"], row["distribution"]) == (state, str(path), f"acme-{kind}")
        assert why in row["error"]
    assert found["typed"]["state"] == "found" and "returned builtins.int, wanted" in found["typed"]["error"]
    assert found["leaving"]["state"] == "found" and found["leaving"]["error"] == (
        "while importing its plug-in, the probe's process ended by itself with exit status 0; it wrote\n  bye")
    assert found["doubled"]["state"] == "found"
    assert sorted(found["doubled"]["distribution"].split(", ")) == ["acme-one", "acme-two"]
    assert "acme-one 1.2" in found["doubled"]["error"] and "acme-two 1.2" in found["doubled"]["error"]
    assert found["old"]["state"] == found["new"]["state"] == found["named"]["state"] == "has-device"
    assert (found["old"]["seam"], found["new"]["seam"]) == ("1.0", "1.9")
    assert (found["named"]["distribution"], found["named"]["device_types"]) == ("", [90, 91])
    assert "$EAGLE_BACKEND_ASTRAY: " in found["astray"]["error"]


def test_a_plug_in_that_prints_spoils_nothing(site: Site, make_library: MakeLibrary) -> None:
    site.install("acme-loud", "fake", f"""\
import os
from eagle.backends import BackendSpec, hookimpl
print('{{"finished": true}}}}', flush=True)
os.write(1, b"raw noise")

@hookimpl
def eagle_backend():
    return BackendSpec("fake", {str(make_library())!r}, (77,))
""")
    assert rows()["fake"]["state"] == "has-device"


def test_raptor_eagle_beside_us_is_told(site: Site) -> None:
    info = site.folder / "raptor_eagle-0.7.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: raptor-eagle\nVersion: 0.7.1\n")
    told = "raptor-eagle 0.7.1 is installed beside eagle-core: both own the package eagle"
    assert told in doctor().stdout
    done = doctor("--json")
    assert told in done.stderr and json.loads(done.stdout) == {"backends": []}


@pytest.mark.parametrize("arguments", [[], ["surgeon"], ["doctor", "--nonsense"]])
def test_wrong_arguments_show_the_usage(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "eagle", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: eagle")


def test_the_command_is_installed() -> None:
    command = Path(sys.executable).with_name("eagle" + (".exe" if os.name == "nt" else ""))
    done = subprocess.run([command, "doctor", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: eagle doctor")
