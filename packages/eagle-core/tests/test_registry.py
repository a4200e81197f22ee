# SPDX-License-Identifier: Apache-2.0
"""eagle.registry: bundles of every form, sharing of what is loaded, plugins of others, manifests and their loaders."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import artifact_kernels as kernels
import numpy as np
import pytest
from hawk import artifact

import eagle
from eagle import registry
from eagle.backends import choosing
from eagle.errors import BackendUnavailable
from eagle.registry import KernelRegistry, UnknownPatternError, complete, load_bundle, load_manifest
from eagle.registry.bundle import forget
from eagle.registry.memo import Memo
from eagle.sidecar import validate_sidecar


@pytest.fixture(scope="session")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A bundle of each form: kernels of different access classes cannot share one."""
    root = tmp_path_factory.mktemp("forms")
    for kernel in kernels.ALL:
        artifact.build_bundle([kernel], root / kernel.name, targets=("host",), cache_dir=root / "cache")
    return {kernel.name: root / kernel.name for kernel in kernels.ALL}


@pytest.fixture
def own(forms: dict[str, Path], tmp_path: Path) -> Any:
    """A copy of a bundle to write into."""
    return lambda name: Path(shutil.copytree(forms[name], tmp_path / name))


def edit(path: Path, **change: Any) -> None:
    document = json.loads(path.read_text())
    document.update(change)
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))


# ---- bundles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [kernel.name for kernel in kernels.ALL])
def test_every_form_loads(forms: dict[str, Path], name: str) -> None:
    plugins = load_bundle(forms[name])
    written = {path.stem: json.loads(path.read_text()) for path in forms[name].glob("*.json")
               if path.name != "manifest.json"}
    assert set(plugins) == set(written)
    for kernel, plugin in plugins.items():
        facts = validate_sidecar(written[kernel], name=kernel)
        assert plugin.host_entry > 0 and len(plugin._keepalive) == 1
        assert set(plugin.fold_entries) == set(facts.get("companions", {}).values())
        assert plugin.cells == facts.get("cells", {}) and plugin.keyed == facts.get("keyed", {})
        assert plugin.finish == facts.get("finish") and plugin.dispatch == tuple(facts["dispatch"])


def test_folds_are_the_exported_entries(forms: dict[str, Path]) -> None:
    import ctypes

    forget()  # another test may have loaded the same bytes from another folder
    plugin = load_bundle(forms["bins"])["bins"]
    library = ctypes.CDLL(str(forms["bins"] / "bins.so"))
    assert plugin.fold_entries == {"acc": ctypes.cast(library.bins__fold_acc_host, ctypes.c_void_p).value}
    assert plugin.host_entry == ctypes.cast(library.bins_host, ctypes.c_void_p).value


@pytest.mark.parametrize(("name", "stages"), [("normalise", ["normalise", "normalise_2"]),
                                              ("softmax", ["softmax", "softmax_2"])])
def test_the_first_stage_has_all(forms: dict[str, Path], name: str, stages: list[str]) -> None:
    plugins = load_bundle(forms[name])
    assert [stage.name for stage in plugins[name].stage_plugins] == stages
    assert plugins[name].stage_plugins[0] is plugins[name]
    assert plugins[name].stage_plugins[1] is plugins[stages[1]]
    assert plugins[stages[1]].stage_plugins == ()


def test_a_missing_stage_is_named(own: Any) -> None:
    folder = own("normalise")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["plugins"][1]["enabled"] = False
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"^eagle\.load_bundle: .*'normalise': found no stage 'normalise_2'"):
        load_bundle(folder)


def test_a_cell_no_stage_has_is_named(own: Any) -> None:
    folder = own("normalise")
    edit(folder / "normalise.json", cells={"cut0": {"op": "sum", "columns": 1}, "cut9": {"op": "sum", "columns": 1}})
    with pytest.raises(ValueError, match="'cut9'"):
        load_bundle(folder)


def test_a_repeat_shares_the_code_and_nothing_else(own: Any, tmp_path: Path) -> None:
    forget()
    folder = own("total")
    one, two = load_bundle(folder)["total"], load_bundle(folder)["total"]
    assert one is not two and one._keepalive == two._keepalive and one.host_entry == two.host_entry
    one.cells["s"]["op"] = "max"
    one.arg_widths.clear()
    assert two.cells["s"]["op"] == "sum" == load_bundle(folder)["total"].cells["s"]["op"] and two.arg_widths
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert load_bundle(moved)["total"].host_entry == two.host_entry
    edit(moved / "total.json", digest="other")
    assert load_bundle(moved)["total"].host_entry != two.host_entry


def test_the_same_bytes_under_other_names_are_shared(own: Any) -> None:
    forget()
    folder = own("plain")
    first = load_bundle(folder)["plain"]
    for file in ("plain.so", "plain.json"):
        (folder / file).rename(folder / f"other{Path(file).suffix}")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["plugins"][0].update(id="other", artifact="other.so", sidecar="other.json")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    plugins = load_bundle(folder)
    assert list(plugins) == ["plain"] and plugins["plain"].host_entry == first.host_entry
    assert plugins["plain"]._keepalive == first._keepalive
    code = (folder / "other.so").read_bytes()
    assert code.count(b".shstrtab") == 1  # the name of a section, which nothing loads
    (folder / "other.so").unlink()
    (folder / "other.so").write_bytes(code.replace(b".shstrtab", b".Shstrtab"))
    assert load_bundle(folder)["plain"]._keepalive != first._keepalive


def test_a_repeat_is_fast(forms: dict[str, Path]) -> None:
    load_bundle(forms["plain"])
    best = min(_seconds(lambda: load_bundle(forms["plain"])) for _ in range(20))
    assert best < 0.005  # about 0.3 ms; a load is ten times that and more


def _seconds(call: Any) -> float:
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def test_a_replaced_object_is_not_the_old_one(forms: dict[str, Path], tmp_path: Path) -> None:
    """The loader of the system answers a known path with what it has; eagle loads what the file holds."""
    folder = tmp_path / "unit"
    for factor in (2.0, 3.0):
        (tmp_path / "unit_kernel.py").write_text(
            "import hawk\nfrom hawk import Scalar\n\n@hawk.kernel\ndef unit(x: Scalar) -> Scalar:\n"
            f"    return x * {factor}\n")
        space: dict[str, Any] = {}
        source = (tmp_path / "unit_kernel.py").read_text()
        import linecache

        linecache.checkcache()
        exec(compile(source, str(tmp_path / "unit_kernel.py"), "exec"), space)
        artifact.build_bundle([space["unit"]], folder, targets=("host",), cache_dir=tmp_path / "cache")
        plugin = load_bundle(folder)["unit"]
        plan = eagle.plan.plan(plugin, structure=eagle.exec.HostTeam)
        assert plan.run(x=np.ones(3)).tolist() == [factor] * 3


def test_threads_load_one_bundle(forms: dict[str, Path]) -> None:
    forget()
    entries: list[int] = []
    threads = [threading.Thread(target=lambda: entries.append(load_bundle(forms["plain"])["plain"].host_entry))
               for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entries) == 8 and len(set(entries)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_loads(forms: dict[str, Path]) -> None:
    wanted = load_bundle(forms["plain"])["plain"].host_entry
    child = os.fork()
    if child == 0:
        os._exit(0 if load_bundle(forms["plain"])["plain"].host_entry == wanted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_memo_is_bounded() -> None:
    memo: Memo[int] = Memo(3)
    kept = []
    for number in (1, 2, 3, 1, 4, 1, 2):  # 2 is the oldest when 4 comes
        if memo.find(b"%d" % number) is None:
            assert memo.keep(b"%d" % number, number) == number
            kept.append(number)
    assert kept == [1, 2, 3, 4, 2] and len(memo) == 3
    assert memo.find(b"3") is None and memo.find(b"4") == 4
    assert memo.keep(b"4", 5) == 4  # the first one stays


def test_legacy_bundles_are_told_apart(own: Any) -> None:
    folder = own("plain")
    for name in ("manifest.json", "plain.json"):
        edit(folder / name, schema_version=1, aether_abi="aether-abi/1", exec_targets=..., exec_access=...)
    with pytest.raises(ValueError, match=r"plain\.json: found a legacy artifact, aether-abi/1"):
        load_bundle(folder)
    edit(folder / "plain.json", aether_abi="aether-abi/2")
    with pytest.raises(ValueError, match=r"plain\.json.*aether-abi/1"):
        load_bundle(folder)
    edit(folder / "manifest.json", aether_abi="aether-abi/2")
    with pytest.raises(ValueError, match=r"manifest\.json.*aether-abi/1"):
        load_bundle(folder)


@pytest.mark.parametrize("version", [2, 3])
def test_schemas_of_this_abi(own: Any, version: int) -> None:
    folder = own("plain")
    for name in ("manifest.json", "plain.json"):
        edit(folder / name, schema_version=version)
    assert list(load_bundle(folder)) == ["plain"]


def test_a_host_object_beside_the_device_one(own: Any) -> None:
    folder = own("plain")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["plugins"][0].update(artifact="plain.ptx", format="ptx")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert load_bundle(folder)["plain"].host_entry > 0
    (folder / "plain.so").unlink()
    with pytest.raises(ValueError, match="no host object beside"):
        load_bundle(folder)
    edit(folder / "plain.json", host_entry=None)
    choosing.forget()
    with pytest.raises(BackendUnavailable, match="'ptx'"):
        load_bundle(folder)


@pytest.mark.parametrize(("path", "error"), [(3, TypeError), (None, TypeError), (b"x", TypeError), ("", ValueError),
                                             ("a\0b", ValueError), ("\ud800", ValueError), (["x"], TypeError)])
def test_what_is_no_path(path: Any, error: type[Exception]) -> None:
    for door, name in ((load_bundle, "eagle.load_bundle"), (load_manifest, "eagle.registry.load_manifest")):
        with pytest.raises(error) as caught:
            door(path)
        assert str(caught.value).startswith(f"{name}: ") and ";" in str(caught.value)


# ---- plugins of others -----------------------------------------------------------------------------------------------


@pytest.fixture
def of_hawk(tmp_path: Path, forms: dict[str, Path]) -> Callable[[Any], SimpleNamespace]:
    """A plugin as hawk makes it, of a bundle in a folder of the kernel's name."""
    cache = forms["plain"].parent / "cache"

    def made(kernel: Any) -> SimpleNamespace:
        bundle = artifact.build_bundle([kernel], tmp_path / kernel.name, targets=("host",), cache_dir=cache)
        plugin: SimpleNamespace = artifact.plugins(bundle)[kernel.name]
        return plugin

    return made


@pytest.mark.parametrize("kernel", [kernels.total, kernels.bins, kernels.active, kernels.choice, kernels.plain,
                                    kernels.normalise, kernels.softmax], ids=lambda kernel: kernel.name)
def test_hawk_s_plugins_are_completed(kernel: Any, tmp_path: Path, of_hawk: Any) -> None:
    plugin = of_hawk(kernel)
    assert not hasattr(plugin, "cells")
    before = dict(vars(plugin))
    full, wanted = complete("here", plugin), load_bundle(tmp_path / kernel.name)[kernel.name]
    assert vars(plugin) == before
    left = {"_keepalive", "stage_plugins", "host_entry", "fold_entries", "device_function"}
    same = {name: value for name, value in vars(full).items() if name in vars(wanted) and name not in left}
    for name, value in same.items():
        assert _plain(value) == _plain(getattr(wanted, name)), name
    assert set(vars(wanted)) <= set(vars(full))
    assert full.host_entry == plugin.host_entry and set(full.fold_entries) == set(wanted.fold_entries)
    assert [stage.name for stage in full.stage_plugins] == [stage.name for stage in wanted.stage_plugins]
    assert complete("here", full) is full and complete("here", wanted) is wanted
    assert set(plugin._keepalive) <= set(full._keepalive)


def _plain(value: Any) -> Any:
    """Lists and tuples alike, null like nothing."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value or 0


def test_what_a_plugin_has_stands(of_hawk: Any) -> None:
    plugin = of_hawk(kernels.total)
    plugin.cells, plugin.note, plugin.companions = {"s": {"op": "min", "columns": 3}}, "mine", None
    full = complete("here", plugin)
    assert full.cells == {"s": {"op": "min", "columns": 3}} and full.note == "mine" and full.companions == {}


def test_a_plugin_without_a_sidecar(tmp_path: Path, of_hawk: Any) -> None:
    plugin = of_hawk(kernels.plain)
    (tmp_path / "plain" / "plain.json").unlink()
    assert complete("here", plugin) is plugin
    plugin = of_hawk(kernels.total)
    (tmp_path / "total" / "total.json").unlink()
    with pytest.raises(ValueError, match=r"^here: kernel 'total', slot \('accum_out', 's_0'\).*eagle\.load_bundle"):
        complete("here", plugin)
    plugin = of_hawk(kernels.choice)
    (tmp_path / "choice" / "choice.json").unlink()
    with pytest.raises(ValueError, match="dispatch0_mix"):
        complete("here", plugin)


@pytest.mark.parametrize("entry", [None, 0, -1, "x", 2**70, 1])
def test_an_entry_in_no_library(entry: Any) -> None:
    plain = SimpleNamespace(arg_spec=(("per_sample", "x"), ("lookup", "t"), ("lookup", "finished_count")), name="unit",
                            host_entry=entry)
    assert complete("here", plain) is plain
    reduced = SimpleNamespace(arg_spec=(("accum_out", "s"),), name="unit", host_entry=entry)
    with pytest.raises(ValueError, match="'unit'"):
        complete("here", reduced)
    told = SimpleNamespace(**vars(reduced), plane_axes={"s": {"payload": [], "axes": []}})
    assert complete("here", told) is told


def test_a_sidecar_of_another_kernel_is_left_alone(tmp_path: Path, of_hawk: Any) -> None:
    plugin = of_hawk(kernels.plain)
    plugin.kernel = plugin.name = "other"
    assert complete("here", plugin) is plugin


def test_a_broken_sidecar_is_refused(tmp_path: Path, of_hawk: Any) -> None:
    plugin = of_hawk(kernels.plain)
    (tmp_path / "plain" / "plain.json").write_text("{")
    with pytest.raises(ValueError, match=r"^here: .*plain\.json: found no JSON"):
        complete("here", plugin)


def test_an_object_that_was_replaced_is_refused(tmp_path: Path, of_hawk: Any, forms: dict[str, Path]) -> None:
    plugin = of_hawk(kernels.plain)
    target = tmp_path / "plain" / "plain.so"
    target.unlink()
    shutil.copy(forms["total"] / "total.so", target)
    with pytest.raises(ValueError, match=r"plain\.so: found another object than the one that is loaded"):
        complete("here", plugin)


def test_a_stage_that_is_missing_is_named(tmp_path: Path, of_hawk: Any) -> None:
    plugin = of_hawk(kernels.normalise)
    (tmp_path / "normalise" / "normalise_2.so").unlink()
    with pytest.raises(FileNotFoundError, match=r"^here: .*normalise_2\.so"):
        complete("here", plugin)


# ---- registries ------------------------------------------------------------------------------------------------------


def named(name: str) -> SimpleNamespace:
    return SimpleNamespace(__name__=name)


def test_a_registry_keeps_order_and_names() -> None:
    first, second = named("b"), named("a")
    found = KernelRegistry([first, second])
    assert found.register(named("x"), "c") == "c" and found.register(named("d")) == "d"
    assert list(found) == found.names() == ["b", "a", "c", "d"] and len(found) == 4
    assert found["b"] is first and found.get("a") is second and found.get("z") is None
    assert "a" in found and "z" not in found and [] not in found
    assert KernelRegistry({"k": first})["k"] is first and len(KernelRegistry()) == 0
    assert repr(found) == "KernelRegistry(['b', 'a', 'c', 'd'])"


def test_registry_refusals() -> None:
    found = KernelRegistry([named("a")])
    with pytest.raises(ValueError, match="'a' twice"):
        found.register(named("a"))
    with pytest.raises(ValueError, match="pass name="):
        found.register(SimpleNamespace())
    with pytest.raises(ValueError, match="''"):
        found.register(named("b"), "")
    with pytest.raises(KeyError, match=r"'z'.*\['a'\]"):
        found["z"]
    assert found.names() == ["a"]


# ---- manifests -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_loaders() -> Iterator[None]:
    from eagle.registry import kernels as room

    room.forget()
    yield
    room.forget()


def manifest(folder: Path, **change: Any) -> Path:
    document = {"schema_version": 3, "pattern": "pure", "aether_abi": "aether-abi/2", "exec_targets": ["device"],
                "exec_access": "sample_local", "plugins": [
                    {"id": "k", "order": 0, "artifact": "k.ptx", "sidecar": "k.json", "format": "ptx"}],
                **change}
    path = folder / "manifest.json"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))
    return path


def test_a_host_entry_is_for_load_bundle(forms: dict[str, Path]) -> None:
    for path in (forms["plain"], forms["plain"] / "manifest.json"):
        with pytest.raises(ValueError, match=r"^eagle\.registry\.load_manifest: .*'plain'.*eagle\.load_bundle"):
            load_manifest(path)


def test_device_kernels_need_a_backend(tmp_path: Path) -> None:
    manifest(tmp_path)
    with pytest.raises(BackendUnavailable, match="'ptx'"):
        load_manifest(tmp_path)
    manifest(tmp_path, plugins=[])
    assert load_manifest(tmp_path).names() == []


def test_a_registered_loader_loads(tmp_path: Path) -> None:
    seen: list[Any] = []

    def loader(document: dict[str, Any], path: Path, directory: Path) -> Any:
        seen.append((document["pattern"], path, directory))
        return "loaded"

    for pattern in ("pure", "round"):
        path = manifest(tmp_path, pattern=pattern)
        registry.register_pattern_loader(pattern, loader)
        assert load_manifest(tmp_path) == load_manifest(str(path)) == "loaded"
    assert seen == [(pattern, path, tmp_path) for pattern in ("pure", "round") for _ in range(2)]


def test_an_unknown_pattern(tmp_path: Path) -> None:
    manifest(tmp_path, pattern="round")
    with pytest.raises(UnknownPatternError, match=r"'round'.*'pure'") as caught:
        load_manifest(tmp_path)
    assert isinstance(caught.value, KeyError)
    assert str(caught.value).startswith("eagle.registry.load_manifest: ")


def test_loaders_of_entry_points_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eagle.registry import kernels as room

    scans: list[str] = []

    class Point:
        name = "round"

        def load(self) -> Any:
            return lambda document, path, directory: (document["pattern"], directory)

    def entry_points(*, group: str) -> list[Point]:
        scans.append(group)
        return [Point()]

    monkeypatch.setattr(room.metadata, "entry_points", entry_points)
    manifest(tmp_path, pattern="round")
    assert load_manifest(tmp_path) == load_manifest(tmp_path) == ("round", tmp_path)
    manifest(tmp_path, pattern="square")
    with pytest.raises(UnknownPatternError):
        load_manifest(tmp_path)
    assert scans == ["raptor.pattern_loaders"]


@pytest.mark.parametrize(("pattern", "loader"), [(3, print), ("", print), ("round", None)])
def test_what_is_no_loader(pattern: Any, loader: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.registry\.register_pattern_loader"):
        registry.register_pattern_loader(pattern, loader)


WRONG = [  # in the order they are found: each manifest has this fault and all that follow
    ({"schema_version": 9}, "schema v9"),
    ({"exec_access": "all"}, "exec_access"),
    ({"aether_abi": ...}, "aether_abi"),
    ({"pattern": "round"}, "'round'"),
    ({"blocks": [{}]}, "blocks"),
    ({"plugins": [{"id": "a", "artifact": "a", "sidecar": "a", "format": "ptx"},
                  {"id": "a", "artifact": "a", "sidecar": "a", "format": "elf"}]}, "'a' twice"),
]


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_the_order_of_checks(tmp_path: Path, first: int) -> None:
    change: dict[str, Any] = {}
    for fault, _ in WRONG[first:]:
        change.update(fault)
    if first > 2:
        change["aether_abi"] = "aether-abi/2"
    manifest(tmp_path, **change)
    with pytest.raises((ValueError, KeyError)) as caught:
        load_manifest(tmp_path)
    assert WRONG[first][1] in str(caught.value)


def test_formats_are_checked(tmp_path: Path) -> None:
    manifest(tmp_path, plugins=[{"id": "a", "artifact": "a", "sidecar": "a", "format": "elf"}])
    with pytest.raises(ValueError, match=r"plugins\[0\]\.format.*'elf'"):
        load_manifest(tmp_path)


def test_a_legacy_manifest(tmp_path: Path) -> None:
    registry.register_pattern_loader("pure", lambda document, path, directory: document["version"])
    manifest(tmp_path, schema_version=..., version=1, aether_abi="aether-abi/1", exec_targets=..., exec_access=...)
    assert load_manifest(tmp_path) == 1
    manifest(tmp_path, schema_version=..., version=9)
    with pytest.raises(ValueError, match="schema v9"):
        load_manifest(tmp_path)
