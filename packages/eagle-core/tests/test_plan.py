# SPDX-License-Identifier: Apache-2.0
"""plan(), its checks and cuts, and deploy()."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import os
import pickle
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kernels
import numpy as np
import pytest
from hawk import artifact
from hypothesis import given
from hypothesis import strategies as st

import eagle
from eagle import ArgumentError
from eagle.exec import DeviceGroup, DeviceKernel, HostTeam, Partition, RankPartition, Structure, check_placement
from eagle.plan import AutoPlan, Plan, plan


@pytest.fixture(scope="module")
def plugin() -> Any:
    return eagle.deploy(kernels.scale).plugin


def with_(plugin: Any, **changed: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(plugin), **changed})


# ---- plan --------------------------------------------------------------------------------------------------------


def test_a_plan_is_a_frozen_value(plugin: Any) -> None:
    a, b = (plan(plugin, structure=HostTeam, npartitions=2) for _ in range(2))
    assert a == b and hash(a) == hash(b) and a != plan(plugin, structure=HostTeam)
    assert (a.plugin, a.structure, a.access, a.op, a.partitions, a.npartitions, a.n_samples, a.inner, a.gather,
            a.policy) == (plugin, HostTeam, "sample_local", None, None, 2, None, None, True, "compensated")
    with pytest.raises(AttributeError, match="npartitions"):
        a.npartitions = 3
    with pytest.raises(AttributeError):
        del a.plugin


def test_cuts(plugin: Any) -> None:
    def counts(parts: int, n: int) -> list[int]:
        return [p.count for p in plan(plugin, structure=HostTeam, npartitions=parts).partitions_for(n)]

    assert counts(3, 5) == [2, 2, 1]
    assert counts(7, 5) == [1] * 5 + [0, 0]
    assert plan(plugin, structure=HostTeam, n_samples=5, npartitions=2).partitions == ((0, 3, 5), (3, 2, 5))


@given(n=st.integers(0, 2**32 - 1), parts=st.integers(1, 100))
def test_an_even_cut_tiles_the_samples(n: int, parts: int) -> None:
    cut = plan(eagle.deploy(kernels.scale).plugin, structure=HostTeam, npartitions=parts).partitions_for(n)
    assert len(cut) == parts and cut[0].base == 0 and sum(p.count for p in cut) == n
    assert all(p.base + p.count == q.base for p, q in zip(cut, cut[1:], strict=False))
    assert [p.count for p in cut] == sorted((p.count for p in cut), reverse=True) and cut[0].count - cut[-1].count <= 1


def test_explicit_partitions_run_in_any_order(plugin: Any) -> None:
    p = plan(plugin, structure=HostTeam, partitions=[(3, 2, 5), Partition(0, 3, 5)])
    assert p.partitions == p.partitions_for(5) == ((3, 2, 5), (0, 3, 5)) and p.npartitions == 2 and p.n_samples == 5
    x = np.arange(5.0)
    assert p.run(x=x, a=2.0, b=1.0).tolist() == (2 * x + 1).tolist()
    with pytest.raises(ValueError, match="found 4 samples, wanted 5"):
        p.run(x=x[:4], a=2.0, b=1.0)
    with pytest.raises(ValueError, match="found 4 samples, wanted 5"):
        p.bind(x=x[:4], a=2.0, b=1.0, out=np.zeros(4))


@pytest.mark.parametrize(("keywords", "error", "facts"), [
    ({"structure": "host_team"}, TypeError, ["structure", "'host_team'", "HostTeam"]),
    ({"structure": None}, TypeError, ["structure", "None"]),
    ({"structure": Structure("device_kernel")}, ValueError, ["device_kernel"]),
    ({"npartitions": 0}, ValueError, ["npartitions", "0", "at least 1"]),
    ({"npartitions": 2**62}, ValueError, ["npartitions", "at most 1048576"]),
    ({"partitions": [(0, 2**80, 2**80)]}, ValueError, ["partitions", str(2**80)]),
    ({"n_samples": 2**63}, ValueError, ["n_samples", str(2**63)]),
    ({"npartitions": 1.5}, TypeError, ["npartitions", "1.5"]),
    ({"npartitions": True}, TypeError, ["npartitions", "True"]),
    ({"partitions": []}, ValueError, ["partitions", "[]"]),
    ({"partitions": 3}, ValueError, ["partitions", "3"]),
    ({"partitions": [(0, 2, 5), (3, 2, 5)]}, ValueError, ["starts at 3", "starts at 2"]),
    ({"partitions": [(0, 3, 5), (2, 3, 5)]}, ValueError, ["starts at 2", "starts at 3"]),
    ({"partitions": [(0, 3, 5)]}, ValueError, ["[0, 3)", "[0, 5)"]),
    ({"partitions": [(0, 3, 5), (3, 2, 6)]}, ValueError, ["n 5 and n 6"]),
    ({"partitions": [(0, -3, 5)]}, ValueError, ["partitions"]),
    ({"partitions": [(0, 5, 5)], "n_samples": 6}, ValueError, ["n_samples", "6", "5"]),
    ({"partitions": [(0, 5)]}, ValueError, ["partitions", "triples"]),
    ({"n_samples": 2**32}, ValueError, ["n_samples", "at most 4294967295"]),
    ({"n_samples": -1}, ValueError, ["n_samples", "-1"]),
    ({"policy": "fast"}, ValueError, ["policy", "'fast'", "compensated"]),
    ({"inner": HostTeam}, ValueError, ["inner"]),
])
def test_plan_refusals(plugin: Any, keywords: dict[str, Any], error: type[Exception], facts: list[str]) -> None:
    with pytest.raises(error) as caught:
        plan(plugin, **{"structure": HostTeam, **keywords})
    for fact in facts:
        assert fact in str(caught.value)


def test_objects_that_are_no_plugin() -> None:
    with pytest.raises(TypeError, match=r"hawk kernel 'scale'.*eagle.deploy\(kernel\)"):
        plan(kernels.scale, structure=HostTeam)
    with pytest.raises(TypeError, match="without exec_access"):
        plan(SimpleNamespace(arg_spec=()), structure=HostTeam)
    with pytest.raises(TypeError, match="int"):
        plan(3, structure=HostTeam)


@pytest.mark.parametrize(("changed", "facts"), [
    ({"host_entry": None}, ["host_entry", 'targets=("host",)']),
    ({"exec_access": "cross_sample"}, ["'cross_sample'", "sample_local"]),
    ({"arg_spec": ()}, ["arg_spec"]),
    ({"arg_spec": (("mutable", "out", 1),)}, ["arg_spec", "pair"]),
    ({"arg_spec": (("mutable", "out"), ("per_sample", "out"))}, ["'out' twice"]),
    ({"arg_spec": (("mutable", "device"),)}, ["'device'"]),
    ({"arg_spec": (("mutable", "layout"),)}, ["'layout'"]),
    ({"arg_spec": (("sideways", "out"),)}, ["'sideways'", "'out'"]),
    ({"arg_dtypes": {"x": "float16"}}, ["'x'", "'float16'"]),
    ({"arg_widths": {"x": 0, "out": 1}}, ["'x'", "0"]),
    ({"arg_widths": {"x": 3, "out": 1}}, ["'x'", "3"]),
    ({"scalar_type": "float16"}, ["'float16'"]),
    ({"arg_widths": 5}, ["'scale'", "declaration"]),
    ({"arg_dtypes": {"x": []}}, ["'scale'", "declaration"]),
    ({"mat_shapes": 3}, ["'scale'", "declaration"]),
    ({"params": 3}, ["'scale'", "declaration"]),
    ({"vec_mutables": 3}, ["'scale'", "declaration"]),
    ({"lane_space": {"axes": 5}}, ["'scale'", "declaration"]),
    ({"lane_space": {"axes": [{"label": "i", "extent": 0}], "group": 1}}, ["'scale'", "declaration"]),
    ({"box": {"axis": 0, "T": 0, "stride": 1}}, ["thread box"]),
    ({"cells": {"total": {"op": "sum", "columns": 1}}}, ["'total'", "accum_out"]),
    ({"cells": {"total": {"op": "land", "columns": 1}}}, ["'total'", "land"]),
    ({"companions": {"out": "x"}}, ["companions", "'out'", "accum_out"]),
    ({"companions": "out"}, ["'scale'"]),
    ({"cells": np.ones(2)}, ["'scale'"]),
    ({"unread": 5}, ["'scale'", "declaration"]),
    ({"fold_entries": 5}, ["'scale'", "declaration"]),
    ({"stages": [{}], "cells": None}, ["'scale'", "declaration"]),
    ({"arg_spec": (("mutable", "out"), ("lookup", "g_mix")), "dispatch": [{"name": "g", "K": -1, "mix": "g_mix"}]},
     ["'scale'", "dispatch groups"]),
    ({"arg_spec": (("mutable", "out"), ("mat_in", "x")), "arg_widths": {"out": 1, "x": 4}, "gather_mats": {"x": "qq"}},
     ["'scale'", "'qq'"]),
    ({"stages": [{"kernel": "k", "cells_in": [], "cells_out": []}] * 2}, ["1 of its 2 stages", "load_bundle"]),
    ({"arg_widths": {"x": 2**60, "out": 1}, "arg_spec": (("vec_in", "x"), ("mutable", "out"))}, ["'x'", "1048576"]),
    ({"abi_tag": "aether-abi/1"}, ["legacy", "aether-abi/2"]),
])
def test_declarations_that_cannot_run(plugin: Any, changed: dict[str, Any], facts: list[str]) -> None:
    with pytest.raises(ValueError, match="found") as caught:
        plan(with_(plugin, **changed), structure=HostTeam)
    for fact in facts:
        assert fact in str(caught.value)


def test_several_partitions_of_a_legacy_plugin(plugin: Any) -> None:
    with pytest.raises(ValueError, match="npartitions: found 2, wanted 1 for a legacy"):
        plan(with_(plugin, abi_tag="aether-abi/1"), structure=HostTeam, npartitions=2)


def test_placement() -> None:
    for access in ("sample_local", "cross_sample_read", "mapreduce"):
        check_placement(access, "host_team", 7)
    check_placement("cross_sample_write", HostTeam)
    with pytest.raises(ValueError, match="2 for a cross_sample_write kernel on host_team"):
        check_placement("cross_sample_write", HostTeam, 2)


def test_partitions_and_structures_are_values() -> None:
    part = Partition(1, 2, 3)
    assert part == (1, 2, 3) and Partition() == (0, 0, 0) and {part: 1}[Partition(1, 2, 3)] == 1
    assert Partition.whole(4) == (0, 4, 4) and Partition.whole(4).is_whole() and not part.is_whole()
    assert pickle.loads(pickle.dumps(part)) == part
    assert pickle.loads(pickle.dumps(HostTeam)) == copy.deepcopy(HostTeam) == HostTeam
    with pytest.raises(AttributeError):
        HostTeam.name = "x"  # type: ignore[misc]


def test_a_plugin_made_by_hand_passes_integer_planes_unchanged(plugin: Any) -> None:
    bare = SimpleNamespace(arg_spec=plugin.arg_spec, exec_access="sample_local", host_entry=plugin.host_entry,
                           _keepalive=plugin)
    x = np.arange(3.0)
    raw = plan(bare, structure=HostTeam).run(x=x.view(np.int64), a=2.0, b=1.0)  # the entry reads the same bytes
    assert raw.tolist() == [1, 3, 5]


# ---- deploy ------------------------------------------------------------------------------------------------------


def test_deploy_is_auto_and_lists_give_tuples() -> None:
    assert eagle.deploy is eagle.plan.auto
    a, b = eagle.deploy([kernels.scale, kernels.sum_difference])
    x = np.arange(3.0)
    assert a(x, 2.0, 1.0).tolist() == [1, 3, 5] and b(x, x)[0].tolist() == [0, 2, 4]
    assert isinstance(a, AutoPlan) and isinstance(a.host, Plan) and a.host is a.host and a.kernel is kernels.scale
    assert a.plugin._hawk_source[0] is kernels.scale and len(a.plugin._hawk_source[1]) == 64
    assert repr(a) == "AutoPlan('scale', targets=['host'], arguments=['out', 'x', 'a', 'b'])"


@pytest.mark.parametrize(("arguments", "keywords", "error", "facts"), [
    ((3,), {}, TypeError, ["int", "hawk kernel"]),
    ((None,), {}, TypeError, ["NoneType"]),
    (([],), {}, ValueError, ["empty list"]),
    (([kernels.scale, 3],), {}, TypeError, ["plugin[1]", "int"]),
    ((kernels.scale,), {"structure": HostTeam}, ArgumentError, ["'structure'"]),
    ((kernels.scale,), {"gather": True}, ArgumentError, ["'gather'"]),
    ((kernels.scale,), {"partition": 3}, ArgumentError, ["'partition'", "npartitions"]),
    ((kernels.scale,), {"npartitions": 0}, ValueError, ["eagle.deploy", "npartitions", "0"]),
    ((kernels.scale,), {"policy": "x"}, ValueError, ["policy", "'x'"]),
    ((kernels.scale,), {"scalar_type": "f4"}, ValueError, ["'f4'", "float32"]),
    ((kernels.scale,), {"targets": "host"}, TypeError, ["targets", "'host'"]),
    ((kernels.scale,), {"targets": 5}, TypeError, ["targets", "5"]),
    ((kernels.scale,), {"cache_dir": 5}, TypeError, ["cache_dir", "5"]),
    ((kernels.scale,), {"scalar_type": np.dtype("float32")}, ValueError, ["scalar_type", "dtype"]),
    ((kernels.scale,), {"targets": ("c",)}, ValueError, ["('c',)", '"host"']),
])
def test_deploy_refusals(arguments: Any, keywords: Any, error: type[Exception], facts: list[str]) -> None:
    with pytest.raises(error) as caught:
        eagle.deploy(*arguments, **keywords)
    for fact in facts:
        assert fact in str(caught.value)


def test_two_kernels_of_one_name_are_refused() -> None:
    other = copy.copy(kernels.scale)
    with pytest.raises(ValueError, match=r"plugin\[1\]: found another kernel named 'scale'"):
        eagle.deploy([kernels.scale, other])


def test_keywords_of_a_build_do_not_go_with_a_built_plugin(plugin: Any) -> None:
    for keywords in ({"targets": ("host",)}, {"cache_dir": "x"}, {"scalar_type": "float64"}):
        with pytest.raises(ArgumentError, match=next(iter(keywords))):
            eagle.deploy(plugin, **keywords)
    assert eagle.deploy(plugin).run(x=np.ones(1), a=2.0, b=1.0).tolist() == [3]


def test_partitions_are_read_once() -> None:
    parts = [(0, 2, 5), (2, 3, 5)]
    plan = eagle.deploy(kernels.scale, partitions=iter(parts))
    x = np.arange(5.0)
    assert plan.run(x=x, a=1.0, b=0.0).tolist() == x.tolist() and plan.host.partitions == tuple(parts)


def test_planes_on_a_device_name_the_missing_side(plugin: Any) -> None:
    class OnDevice:
        __cuda_array_interface__ = {"version": 3}

    with pytest.raises(ValueError, match=r"planes on a device.*copy them to the host first: t\.cpu\(\)\.numpy"):
        eagle.deploy(plugin).run(x=OnDevice(), a=1.0, b=1.0)
    with pytest.raises(ValueError, match="planes 'x' and 'out'"):
        eagle.deploy(plugin).run(x=OnDevice(), a=1.0, b=1.0, out=np.zeros(1))


def test_the_cache_tells_builds_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another precision, profile or body is another folder, under one kernel name too."""
    def folders() -> int:
        return len(list((tmp_path / "bundles").iterdir()))

    eagle.deploy(kernels.scale, cache_dir=tmp_path)
    eagle.deploy(kernels.scale, cache_dir=tmp_path, scalar_type="float32")
    assert folders() == 2
    monkeypatch.setenv("HAWK_HOST_PROFILE", "portable")
    eagle.deploy(kernels.scale, cache_dir=tmp_path)
    assert folders() == 3
    module = tmp_path / "other_kernels.py"
    module.write_text("import hawk\nfrom hawk import Param, Scalar\n\n\n@hawk.kernel\n"
                      "def scale(x: Scalar, a: Param, b: Param) -> Scalar:\n    return a * x - b\n")
    spec = importlib.util.spec_from_file_location("other_kernels", module)
    assert spec is not None and spec.loader is not None
    other = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(other)
    assert eagle.deploy(other.scale, cache_dir=tmp_path)(np.ones(1), 2.0, 0.5).tolist() == [1.5]
    assert eagle.deploy(kernels.scale, cache_dir=tmp_path)(np.ones(1), 2.0, 0.5).tolist() == [2.5]
    assert folders() == 4


@pytest.mark.parametrize("body", ["y = f(x)", "for _ in range(3):\n        x = f(x)\n    y = x"])
def test_the_cache_tells_the_text_of_an_author_apart(body: str, tmp_path: Path) -> None:
    """Text that is spliced in is in no digest of hawk; nor does its memo know it."""
    power = 3 if "for" in body else 1
    for i, factor in enumerate((2.0, 3.0, 2.0)):
        module = tmp_path / f"raw_{i}.py"
        module.write_text("import hawk\nfrom hawk import Mutable, Scalar\nfrom hawk.trace import raw_device\n\n"
                          f"f = raw_device('({factor} * hawk_raw_arg0)', access='sample_local')\n\n\n"
                          f"@hawk.kernel\ndef k(x: Scalar, y: Mutable[Scalar]):\n    {body}\n")
        y = np.zeros(2)
        eagle.deploy(runpy.run_path(str(module))["k"], cache_dir=tmp_path / "cache").run(x=np.ones(2), y=y)
        assert y.tolist() == [factor**power] * 2
    assert len(list((tmp_path / "cache" / "bundles").iterdir())) == 2


def test_a_repeat_rewrites_no_file(tmp_path: Path) -> None:
    first = eagle.deploy(kernels.scale, cache_dir=tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert files
    again = eagle.deploy(kernels.scale, cache_dir=tmp_path)
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import eagle, kernels, numpy
assert eagle.deploy(kernels.scale, cache_dir={str(tmp_path)!r})(numpy.ones(2), 2.0, 1.0).tolist() == [3, 3]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == files
    assert again.plugin is not first.plugin and again.plugin.host_entry == first.plugin.host_entry


def test_targets_without_an_entry_for_anything_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bundle"
    artifact.build_bundle([kernels.scale], folder, targets=("host",))
    for name in ("manifest.json", "scale.json"):
        document = json.loads((folder / name).read_text())
        document.pop("host_entry", None)
        for entry in document.get("plugins", ()):
            entry["format"] = "ptx"
        (folder / name).write_text(json.dumps(document))
    with pytest.raises(eagle.BackendUnavailable, match="artifact format 'ptx': found no backend"):
        eagle.load_bundle(folder)


def test_hawk_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "hawk.py").write_text("raise ImportError('not here')\n")
    code = """
import eagle
class Kernel: pass
Kernel.__module__ = "hawk.trace"
kernel = Kernel(); kernel.walk = kernel.sinks = None; kernel.name = "k"
try:
    eagle.deploy(kernel)
except ImportError as error:
    assert "pip install raptor-hawk" in str(error), error
else:
    raise SystemExit("no ImportError")
"""
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


def test_the_file_a_variable_names_is_final(tmp_path: Path) -> None:
    """$EAGLE_BACKEND_<KIND> names the one file that is tried; the installed backend is no way out."""
    gone = tmp_path / "libeagle_cpu.so"
    code = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import eagle, kernels
for _ in range(2):
    try:
        eagle.deploy(kernels.scale)
    except eagle.BackendUnavailable as error:
        print(ascii(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "EAGLE_BACKEND_CPU": str(gone)}, text=True,
                          capture_output=True, check=True)
    first, second = (ast.literal_eval(line) for line in done.stdout.splitlines())
    assert first == second
    assert [line for line in first.splitlines() if ".so" in line] == [f"  $EAGLE_BACKEND_CPU: {gone}: no such file"]


def test_deploying_from_several_threads_builds_once(tmp_path: Path) -> None:
    plans: list[Any] = []
    threads = [threading.Thread(target=lambda: plans.append(eagle.deploy(kernels.into, cache_dir=tmp_path)))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [plan(np.ones(2), 3.0).tolist() for plan in plans] == [[3, 3]] * 4


@pytest.mark.parametrize("rows", [0, 1, 7, 15, 16, 17, 50])
@pytest.mark.parametrize("npartitions", [1, 2, 5])
def test_a_thread_that_computes_several_samples(rows: int, npartitions: int) -> None:
    """hawk gives a thread 16 rows where they share what it loads; partitions cut threads then."""
    run = eagle.deploy(kernels.product, npartitions=npartitions)
    assert run.plugin.box["T"] > 1, "hawk no longer boxes this kernel: find another"
    rng = np.random.default_rng(rows)
    a, b = rng.integers(-8, 8, (rows, 16)).astype(float), rng.integers(-8, 8, (16, 64)).astype(float)
    if rows == 0:
        with pytest.raises(ValueError, match="extent 'row'"):
            run.run(a=a, b=b, row=rows)
        return
    assert (run.run(a=a, b=b, row=rows) == a @ b).all()
    out = np.full((rows, 64), np.nan)
    run.bind(a=a, b=b, row=rows, y=out).launch()
    assert (out == a @ b).all()
    threads = run.host.partitions_for(64 * rows)
    assert sum(part.count for part in threads) == -(-rows // run.plugin.box["T"]) * 64
    with pytest.raises(ValueError, match="HAWK_BOX=0"):
        eagle.deploy(kernels.product, partitions=[(0, 64, 64)])


@pytest.mark.parametrize("npartitions", [1, 2, 3])
def test_n_samples_of_a_thread_box(npartitions: int) -> None:
    """It fixes the samples; what is cut are threads."""
    rows = 20
    a, b = np.arange(16.0 * rows).reshape(rows, 16), np.arange(16.0 * 64).reshape(16, 64)
    boxed = plan(eagle.deploy(kernels.product).plugin, structure=HostTeam, npartitions=npartitions,
                 n_samples=64 * rows)
    assert boxed.partitions is None and boxed.n_samples == 64 * rows
    assert sum(part.count for part in boxed.partitions_for(64 * rows)) == -(-rows // boxed.plugin.box["T"]) * 64
    assert (boxed.run(a=a, b=b, row=rows) == a @ b).all()
    with pytest.raises(ValueError, match="found 640 samples, wanted 1280, the plan's n_samples"):
        boxed.run(a=a[:10], b=b, row=10)


def test_a_plugin_of_hawk_is_completed_from_its_sidecar(tmp_path: Path) -> None:
    """hawk's namespaces lack cells and the later stages: the sidecar beside the library has them."""
    x = np.array([1.0, 2.0, 5.0])
    for kernel, expected in ((kernels.total, [8.0]), (kernels.share, x / 8.0)):
        plugin = artifact.plugins(artifact.build_bundle([kernel], tmp_path / kernel.name, targets=("host",)))
        assert not hasattr(plugin[kernel.name], "cells")
        assert (plan(plugin[kernel.name], structure=HostTeam).run(x=x) == expected).all()
        assert (eagle.deploy(plugin[kernel.name]).run(x=x) == expected).all()
        (tmp_path / kernel.name / f"{kernel.name}.json").unlink()
        with pytest.raises(ValueError, match=r"load_bundle"):
            plan(plugin[kernel.name], structure=HostTeam)


def test_plans_of_ranks_are_made_and_refuse_to_run() -> None:
    plugin = eagle.deploy(kernels.scale).plugin
    ranks = plan(plugin, structure=RankPartition, npartitions=2)
    assert ranks.structure is RankPartition and ranks.inner is HostTeam and ranks.gather
    assert [part.count for part in ranks.partitions_for(5)] == [3, 2]
    with pytest.raises(RuntimeError, match=r"eagle\[mpi\]"):
        ranks.run(x=np.ones(3), a=1.0, b=1.0)
    with pytest.raises(ValueError, match=r"^scale\.bind: structure: found rank_partition.* use run"):
        ranks.bind(x=np.ones(3), a=1.0, b=1.0, out=np.ones(3))
    with pytest.raises(ValueError, match=r"inner: found host_team, wanted None"):
        plan(plugin, structure=HostTeam, inner=HostTeam)
    with pytest.raises(TypeError, match=r"inner: found 'host_team', wanted a Structure"):
        plan(plugin, structure=RankPartition, inner="host_team")  # type: ignore[arg-type]
    for structure in (DeviceKernel, DeviceGroup):
        with pytest.raises(ValueError, match=structure.name):
            plan(plugin, structure=structure)
    sums = eagle.deploy(kernels.total).plugin
    plan(sums, structure=RankPartition, partitions=[(0, 64, 100), (64, 36, 100)])
    with pytest.raises(ValueError, match=r"a base of 50, wanted multiples of 32"):
        plan(sums, structure=RankPartition, partitions=[(0, 50, 100), (50, 50, 100)])


def test_a_split_kernel_is_built_though_hawk_drops_its_memo_between_the_stages(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hawk.compile import cache

    cleared = [0]

    class Memo(dict[str, Any]):
        def clear(self) -> None:
            cleared[0] += 1
            super().clear()

    monkeypatch.setattr(cache, "_ARTIFACT_MEMO", Memo(a=None, b=None))
    monkeypatch.setattr(cache, "_ARTIFACT_MEMO_LIMIT", 3)
    assert (eagle.deploy(kernels.share, cache_dir=tmp_path)(np.array([1.0, 3.0])) == [0.25, 0.75]).all()
    assert cleared[0], "hawk keeps its memo another way: this test says nothing then"
