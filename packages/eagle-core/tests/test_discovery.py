# SPDX-License-Identifier: Apache-2.0
"""Where backends are looked for, what is said when they are not found, and which kind serves what."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import eagle
from eagle import BackendUnavailable, backends
from eagle.backends import BackendSpec, discovery, library_name

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site


def story(kind: str, *places: str, fix: str = "`eagle doctor` shows every backend") -> str:
    """The message of a failed load."""
    return "\n".join((f"eagle: backend {kind!r}: found no library that loads; tried",
                      *(f"  {place}" for place in places), fix))


def beside(kind: str) -> str:
    """What is said of the last place when nothing is there."""
    path = Path(eagle.__file__).parent / library_name(kind)
    return f"beside the package: {path}: no such file"


def load_error(kind: str) -> str:
    with pytest.raises(BackendUnavailable) as caught:
        backends.load(kind)
    return str(caught.value)


def claim(distribution: str, kind: str, version: str = "1.2") -> str:
    return f"{distribution} {version} (entry point {kind} = plug_in_{distribution.replace('-', '_')})"


def test_importing_reads_and_loads_nothing() -> None:
    script = ("import sys, eagle\n"
              "heavy = {'pluggy', 'importlib.metadata', 'eagle.backends', 'raptor', 'hawk'} & set(sys.modules)\n"
              "assert not heavy, heavy\n"
              "import importlib.metadata\n"
              "importlib.metadata.distributions = importlib.metadata.entry_points = None\n"
              "import eagle.backends\n")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_entry_point_brings_a_backend(site: Site, make_library: MakeLibrary) -> None:
    path = make_library()
    module = site.install_backend("acme-fake", "fake", path, formats=("tape",), array_module="acme")
    assert backends.kinds() == ("fake",)
    assert module not in sys.modules
    backend = backends.load("fake")
    assert backend.path == str(path) and backends.load("fake") is backend
    assert backends.spec("fake") == BackendSpec("fake", path, (77,), ("tape",), "acme")
    assert backends.for_device_type(77) == backends.for_format("tape") == backends.resolve("gpu") == "fake"
    assert backends.has("probe", "fake") and backends.has("eagle_backend_probe", "fake")
    assert not backends.has("memcpy", "fake")


def test_info_of_a_loaded_backend(site: Site, make_library: MakeLibrary) -> None:
    path = make_library(BITS=1, STREAMS=2)
    site.install_backend("acme-fake", "fake", path)
    facts = backends.info("fake")
    groups, experimental = facts.pop("groups"), facts.pop("experimental")
    assert facts == {"kind": "fake", "loaded": True, "path": str(path), "version": "1.6", "error": "",
                     "capabilities": 1, "device_types": [77], "build_info": backends.load("fake").build_info}
    assert isinstance(groups, dict) and groups["stream"] == "" and groups["fork"].endswith("does not provide fork")
    assert isinstance(experimental, dict) and experimental["x_diff_columns"] is False


def test_info_of_nothing_never_raises(site: Site) -> None:
    facts = backends.info("fake")
    nothing = "entry points: no installed distribution has an entry point fake in the group eagle.backends"
    assert facts["error"] == story("fake", nothing, beside("fake"), fix="install it: pip install eagle-backend-fake")
    assert not facts["loaded"] and facts["version"] == "" and not backends.has("probe", "fake")
    assert backends.info("No Kind")["error"] == (
        "eagle: found backend kind 'No Kind', wanted a lower-case identifier of at most 15 characters")


def test_the_variable_goes_first_and_is_final(site: Site, make_library: MakeLibrary, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    site.install_backend("acme-fake", "fake", make_library())
    wanted = make_library(DEVICES=78)
    monkeypatch.setenv("EAGLE_BACKEND_FAKE", str(wanted))
    assert backends.load("fake").path == str(wanted)
    assert backends.spec("fake") == BackendSpec("fake", wanted, (77,))

    backends.choosing.forget()
    missing = tmp_path / "nowhere.so"
    monkeypatch.setenv("EAGLE_BACKEND_FAKE", str(missing))
    assert load_error("fake") == story("fake", f"$EAGLE_BACKEND_FAKE: {missing}: no such file")


def test_a_kind_only_the_variable_names(site: Site, make_library: MakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EAGLE_BACKEND_FAKE", str(make_library(DEVICES="80,81")))
    monkeypatch.setenv("EAGLE_BACKEND_OTHER", "/nowhere/libeagle_other.so")
    assert backends.kinds() == ("fake", "other")
    assert backends.for_device_type(81) == "fake"


def test_beside_the_package_is_last(site: Site, make_library: MakeLibrary, tmp_path: Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    site.install_backend("acme-fake", "fake", tmp_path / "gone.so")
    monkeypatch.setattr(discovery, "beside", lambda kind: make_library(kind))
    assert backends.load("fake").path == str(make_library())


def test_a_failed_load_names_every_place(site: Site, make_library: MakeLibrary) -> None:
    path = make_library(VERSION="(2u << 16)", ONLY_VERSION=1)
    site.install_backend("acme-fake", "fake", path)
    why = (f"backend 'fake' ({path}): found seam version 2.0 (major 2), wanted major 1; "
           "install a build of the backend for eagle-backend/1")
    assert load_error("fake") == story("fake", f"{claim('acme-fake', 'fake')}: {why}", beside("fake"))


@pytest.mark.parametrize(("source", "why"), [
    ("raise KeyError('no licence')", "KeyError: 'no licence'"),
    ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    ("raise SystemExit(3)", "SystemExit: 3"),
    ("", "TypeError: it has no hook eagle_backend, or the hook returned None; wanted a BackendSpec"),
    ("from eagle.backends import hookimpl\n@hookimpl\ndef eagle_backend(): return {'kind': 'fake'}",
     "TypeError: its hook eagle_backend returned builtins.dict, wanted eagle.backends.BackendSpec"),
    ("from eagle.backends import BackendSpec, hookimpl\n@hookimpl\ndef eagle_backend(): "
     "return BackendSpec('acme', 'x.so', (77,))",
     "ValueError: its spec is of kind 'acme', wanted 'fake', the name of its entry point"),
    ("from eagle.backends import BackendSpec, hookimpl\n@hookimpl\ndef eagle_backend(): "
     "return BackendSpec('fake', 'x.so', ('two',))",
     "TypeError: BackendSpec: device_types: found ('two',), wanted a tuple of int"),
])
def test_a_broken_plug_in_hurts_only_itself(site: Site, make_library: MakeLibrary, source: str, why: str) -> None:
    site.install("acme-broken", "fake", source)
    site.install_backend("acme-good", "good", make_library("good"))
    assert load_error("fake") == story("fake", f"entry points: {claim('acme-broken', 'fake')}: {why}", beside("fake"))
    assert backends.for_device_type(77) == "good" and backends.load("good").kind == "good"


def test_the_cause_is_kept(site: Site) -> None:
    site.install("acme-broken", "fake", "raise KeyError('no licence')")
    for _ in range(2):
        with pytest.raises(BackendUnavailable) as caught:
            backends.load("fake")
        assert isinstance(caught.value.__cause__, KeyError)


def test_a_hook_with_a_stray_argument_is_told(site: Site) -> None:
    source = "from eagle.backends import hookimpl\n@hookimpl\ndef eagle_backend(stray): pass"
    site.install("acme-broken", "fake", source)
    assert "PluginValidationError" in load_error("fake") and "stray" in load_error("fake")


def test_two_claims_for_one_kind(site: Site, make_library: MakeLibrary) -> None:
    for distribution in ("acme-one", "acme-two"):
        site.install_backend(distribution, "fake", make_library())
    site.install_backend("acme-good", "good", make_library("good"))
    error = load_error("fake")
    both = sorted([claim("acme-one", "fake"), claim("acme-two", "fake")])
    assert "2 distributions claim kind 'fake'" in error and all(one in error for one in both)
    assert "uninstall all but one" in error
    assert backends.load("good").kind == "good"


def test_one_distribution_seen_twice_counts_once(site: Site, make_library: MakeLibrary, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    site.install_backend("acme-fake", "fake", make_library())
    copy = tmp_path / "copy"
    copy.mkdir()
    type(site)(copy).install_backend("Acme_Fake", "fake", make_library())
    monkeypatch.setattr(sys, "path", [*sys.path, str(copy)])
    assert [one.distribution for one in discovery.claims()["fake"]] == ["acme-fake"]
    assert backends.load("fake").kind == "fake"


def test_damaged_metadata_hurts_nobody(site: Site, make_library: MakeLibrary, tmp_path: Path) -> None:
    (tmp_path / "broken-1.dist-info").mkdir()
    (tmp_path / "broken-1.dist-info" / "METADATA").write_bytes(b"\xff\xfe")
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").write_bytes(b"[eagle.backends\n\xff = ")
    site.install_backend("acme-fake", "fake", make_library())
    assert backends.kinds() == ("fake",)


def test_none_serves_the_host(site: Site) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        backends.for_device_type(1)
    assert str(caught.value) == ("eagle: host memory (DLPack device type 1): found no backend that serves it, "
                                 "wanted one; installed: none; pip install eagle-backend-cpu")


def test_none_serves_a_device(site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-good", "good", make_library("good"))
    site.install("acme-broken", "fake", "raise KeyError('no licence')")
    with pytest.raises(BackendUnavailable) as caught:
        backends.for_device_type(10)
    assert str(caught.value) == (
        "eagle: DLPack device type 10: found no backend that serves it, wanted one; "
        "installed: good (device types 77); install the backend of that device\n" + load_error("fake"))


def test_two_kinds_that_serve_one_device(site: Site, make_library: MakeLibrary) -> None:
    for kind in ("one", "two"):
        site.install_backend(f"acme-{kind}", kind, make_library(kind))
    with pytest.raises(BackendUnavailable) as caught:
        backends.for_device_type(77)
    assert str(caught.value) == ("eagle: DLPack device type 77: found 2 backends that claim it, one, two, wanted one; "
                                 "uninstall all but one")


def test_gpu_is_the_one_kind_that_serves_no_host_memory(site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-host", "cpu", make_library("cpu"), device_types=(1, 3))
    with pytest.raises(BackendUnavailable, match=r"^eagle: backend='gpu': found no backend that serves it, wanted one; "
                                                 r"installed: cpu \(device types 1, 3\); "):
        backends.resolve("gpu")
    backends.choosing.forget()
    # Installed means found: neither its library nor a device is needed.
    site.install_backend("acme-hip", "hip", make_library("hip").parent / "gone.so", device_types=(10,))
    assert backends.resolve("gpu") == "hip"
    backends.choosing.forget()
    site.install_backend("acme-cuda", "cuda", make_library("cuda"), device_types=(2,))
    with pytest.raises(ValueError) as caught:
        backends.resolve("gpu")
    assert str(caught.value) == ("eagle: backend='gpu': found cuda, hip installed, wanted one GPU kind; "
                                 "name it: backend='cuda'")
    assert [backends.resolve(kind) for kind in ("cpu", "cuda", "hip")] == ["cpu", "cuda", "hip"]


def test_a_backend_that_is_not_installed(site: Site) -> None:
    with pytest.raises(BackendUnavailable) as caught:
        backends.resolve("hip")
    assert str(caught.value) == ("eagle: backend='hip': found no backend, wanted an installed backend; "
                                 "pip install eagle-backend-hip")
    with pytest.raises(ValueError, match="found backend kind 'Not A Kind'"):
        backends.resolve("Not A Kind")
    with pytest.raises(TypeError, match="found int"):
        backends.resolve(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["", "Cpu", "1st", "a-b", "sixteen_letters_", "../x"])
def test_names_no_kind_can_have(kind: str) -> None:
    for door in (backends.load, library_name):
        with pytest.raises(ValueError, match=f"found backend kind {kind!r}, wanted a lower-case identifier"):
            door(kind)


def test_threads_load_once(site: Site, make_library: MakeLibrary) -> None:
    site.install("acme-slow", "fake", f"""\
import time
from eagle.backends import BackendSpec, hookimpl
calls = []
@hookimpl
def eagle_backend():
    calls.append(1)
    time.sleep(0.05)
    return BackendSpec("fake", {str(make_library())!r}, (77,))
""")
    loaded: list[object] = []
    threads = [threading.Thread(target=lambda: loaded.append(backends.load("fake"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(loaded) == 8 and len(set(map(id, loaded))) == 1
    assert sys.modules["plug_in_acme_slow"].calls == [1]


def test_a_child_forked_during_a_load_can_load(site: Site, make_library: MakeLibrary) -> None:
    site.install("acme-slow", "slow", "import time; time.sleep(1)")
    site.install_backend("acme-fake", "fake", make_library())
    thread = threading.Thread(target=lambda: backends.info("slow"))
    thread.start()
    while "plug_in_acme_slow" not in sys.modules:
        time.sleep(0.001)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        child = os.fork()
    if child == 0:
        code = 1
        signal.alarm(20)  # a child that waits for its parent's lock would wait for ever
        try:
            code = 0 if backends.load("fake").kind == "fake" else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_a_name_no_kind_can_have_hurts_nobody_else(site: Site, make_library: MakeLibrary,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    site.install_backend("acme-good", "good", make_library("good"))
    site.install("acme-named", "Acme", "")
    monkeypatch.setenv("EAGLE_BACKEND_SOME_DRIVER_LIBRARY", "/nowhere/libsome.so")
    assert backends.for_device_type(77) == "good"
