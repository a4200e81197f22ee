# SPDX-License-Identifier: Apache-2.0
"""Mutated sidecars, manifests, bundles and objects: accepted, or refused with a documented exception.

The plain tests run a sample; ``nox -s fuzz`` runs ``$EAGLE_FUZZ_CASES`` cases in all and prints how they ended. The
cases follow from the seed alone. A sidecar that is accepted is planned, never run: it may be a lie that no check sees.
"""

from __future__ import annotations

import collections
import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import artifact_kernels as kernels
import pytest
from hawk import artifact
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from eagle import errors
from eagle.exec import HostTeam
from eagle.objects import BadObject, read_object
from eagle.plan import plan
from eagle.registry import load_bundle
from eagle.sidecar.declaration import declaration
from eagle.sidecar.validate import parse_sidecar

CASES = int(os.environ.get("EAGLE_FUZZ_CASES", "800"))
SEED = int(os.environ.get("EAGLE_FUZZ_SEED", "20240229"))
DOCUMENTED = (ValueError, TypeError, FileNotFoundError, errors.ArgumentError, errors.BufferRefused, errors.LayoutError,
              errors.BackendUnavailable)
LONGEST = 4000  # of a message

pytestmark = pytest.mark.timeout(900)
ended: collections.Counter[str] = collections.Counter()


def cases(share: float) -> Callable[[Any], Any]:
    """That share of all cases, seeded."""
    some = settings(max_examples=max(20, int(CASES * share)), deadline=None, database=None, derandomize=False,
                    suppress_health_check=list(HealthCheck))
    return lambda test: seed(SEED)(some(test))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("fuzz")
    for kernel in kernels.ALL:
        artifact.build_bundle([kernel], root / kernel.name, targets=("host",), cache_dir=root / "cache")
    return {kernel.name: root / kernel.name for kernel in kernels.ALL}


@pytest.fixture(scope="module", autouse=True)
def report() -> Iterator[None]:
    yield
    print(f"\nfuzz: {ended.total()} cases, seed {SEED}: "
          + ", ".join(f"{count} {how}" for how, count in sorted(ended.items())))


def outcome(what: str, door: str, call: Callable[[], Any]) -> Any:
    """What `call` gives, or None when it refused as documented."""
    try:
        result = call()
    except DOCUMENTED as refused:
        assert type(refused) in DOCUMENTED, type(refused)  # and no subclass of Python's own, such as UnicodeError
        text = str(refused)
        assert text.startswith(door) and len(text) < LONGEST, text[:LONGEST]
        ended[f"{what} refused"] += 1
        return None
    ended[f"{what} accepted"] += 1
    return result


# ---- mutations -------------------------------------------------------------------------------------------------------

EDGES = st.sampled_from([0, 1, -1, 2, 3, 2**20, 2**20 + 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**300,
                         0.0, 1.5, 1e300, True, False, None, "", "x", "y", "out", "float64", "int64", "bool", "\0",
                         "\ud800", "a" * 500, [], {}, [[]], ["x"], [["lookup", "x"]], {"x": 1}, "terminated",
                         "finished_count", "fused_steps", "active_map", "device", "layout"]).map(copy.deepcopy)
VALUES = st.recursive(st.one_of(EDGES, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(),
                                st.binary(max_size=4).map(lambda b: b.decode("latin-1"))),
                      lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner,
                                                                                             max_size=3)), max_leaves=5)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a document."""
    found: list[tuple[Any, Any]] = []
    stack = [document]
    while stack:
        inner = stack.pop()
        pairs = list(inner.items() if isinstance(inner, dict) else enumerate(inner))
        found += [(inner, key) for key, _ in pairs]
        stack += [value for _, value in pairs if isinstance(value, dict | list)]
    return found


@st.composite
def mutated(draw: st.DrawFn, documents: list[Any]) -> Any:
    """One of `documents` with one to three changes of its structure."""
    document = json.loads(json.dumps(draw(st.sampled_from(documents))))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        spots = places(document)
        if not spots:
            break
        container, key = spots[draw(st.integers(0, len(spots) - 1))]
        change = draw(st.sampled_from(["set", "set", "delete", "double", "swap", "add", "nudge", "rename",
                                       "everywhere", "everywhere", "everywhere"]))
        other, where = spots[draw(st.integers(0, len(spots) - 1))]
        if change == "delete":
            del container[key]
        elif change == "double" and isinstance(container, list):
            container.insert(key, json.loads(json.dumps(container[key])))
        elif change == "swap":
            container[key] = json.loads(json.dumps(other[where]))
        elif change == "add" and isinstance(container, dict):
            container[draw(st.one_of(st.text(), st.sampled_from(OPTIONAL)))] = draw(VALUES)
        elif change == "nudge" and isinstance(container[key], int):
            container[key] += draw(st.sampled_from([-1, 1, 2**31, -(2**40)]))
        elif change == "rename" and isinstance(container, dict):
            container[draw(st.text(max_size=4))] = container.pop(key)
        elif change == "everywhere" and isinstance(container[key], str | int):
            document = everywhere(document, container[key], draw(st.one_of(EDGES, st.integers(1, 9))))
        else:
            container[key] = draw(VALUES)
    return document


def everywhere(document: Any, old: Any, new: Any) -> Any:
    """`document` with every value, and every key, that is `old` replaced: a change that may be consistent."""
    if isinstance(document, dict):
        return {new if key == old and isinstance(new, str) else key: everywhere(value, old, new)
                for key, value in document.items()}
    if isinstance(document, list):
        return [everywhere(value, old, new) for value in document]
    return copy.deepcopy(new) if type(document) is type(old) and document == old else document


OPTIONAL = ["cells", "companions", "keyed", "stages", "adjoint_like", "gather_mats", "param_planes", "plane_axes",
            "sorted_inputs", "finish", "dispatch", "derivative", "lanes", "step_ops", "box", "block", "exec_op",
            "prior", "shape", "internal", "blocks", "buffers", "enabled", "format", "host_entry"]


@st.composite
def damaged(draw: st.DrawFn, texts: list[bytes]) -> bytes:
    """One of `texts` with one to four bytes flipped, cut out, doubled or put in."""
    data = bytearray(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(1, 4))):
        at, run = draw(st.integers(0, len(data))), draw(st.sampled_from([1, 1, 2, 8, 64, 1000]))
        change = draw(st.sampled_from(["flip", "cut", "double", "insert", "end"]))
        if change == "flip" and at < len(data):
            data[at] ^= draw(st.integers(1, 255))
        elif change == "cut":
            del data[at:at + run]
        elif change == "double":
            data[at:at] = data[at:at + run]
        elif change == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif change == "end":
            del data[at:]
    return bytes(data)


def as_text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=True).encode()


# ---- the doors -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sidecars(bundles: dict[str, Path]) -> list[Any]:
    return [json.loads(path.read_text()) for folder in bundles.values() for path in sorted(folder.glob("*.json"))
            if path.name != "manifest.json"]


@pytest.fixture(scope="module")
def planned(bundles: dict[str, Path]) -> Callable[[bytes], None]:
    """Parses a sidecar, and plans it when it is accepted."""
    loaded = {name: plugin for folder in bundles.values() for name, plugin in load_bundle(folder).items()}
    entry = next(iter(loaded.values())).host_entry

    def run(text: bytes) -> None:
        sidecar = outcome("sidecars", "here: ", lambda: parse_sidecar("here", Path("unit.json"), text))
        if sidecar is None:
            return
        plugin = declaration(sidecar)
        plugin.host_entry = entry
        plugin.fold_entries = dict.fromkeys(plugin.companions.values(), entry)
        if plugin.stages:
            known = [loaded.get(stage["kernel"], SimpleNamespace(**vars(plugin))) for stage in plugin.stages[1:]]
            plugin.stage_plugins = (plugin, *known)
        for npartitions in (1, 3):
            outcome("plans", "", lambda count=npartitions: plan(plugin, structure=HostTeam, npartitions=count))

    return run


@cases(0.4)
@given(data=st.data())
def test_sidecars_of_another_structure(sidecars: list[Any], planned: Callable[[bytes], None], data: Any) -> None:
    planned(as_text(data.draw(mutated(sidecars))))


@cases(0.1)
@given(data=st.data())
def test_sidecars_with_other_bytes(sidecars: list[Any], planned: Callable[[bytes], None], data: Any) -> None:
    planned(data.draw(damaged([as_text(sidecar) for sidecar in sidecars])))


@cases(0.1)
@given(value=VALUES)
def test_sidecars_out_of_nothing(planned: Callable[[bytes], None], value: Any) -> None:
    head = {"schema_version": 3, "pattern": "pure", "aether_abi": "aether-abi/2", "exec_targets": ["host"],
            "exec_access": "sample_local", "kernel": "unit", "arg_spec": [["per_sample", "x"], ["lookup", "y"]]}
    planned(as_text(value))
    planned(as_text({**head, **value}) if isinstance(value, dict) else as_text({**head, "cells": value}))


@cases(0.2)
@given(data=st.data())
def test_bundles(bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """A manifest or a sidecar is changed in its folder, and the bundle loaded."""
    name = data.draw(st.sampled_from(sorted(bundles)))
    folder = bundles[name]
    path = folder / data.draw(st.sampled_from(["manifest.json", "manifest.json", f"{name}.json"]))
    if not path.is_file():
        return
    before = path.read_bytes()
    if data.draw(st.booleans()):
        text = as_text(data.draw(mutated([json.loads(before)])))
    else:
        text = data.draw(damaged([before]))
    path.write_bytes(text)
    try:
        outcome("bundles", "eagle.load_bundle: ", lambda: load_bundle(folder))
    finally:
        path.write_bytes(before)


@cases(0.2)
@given(data=st.data())
def test_objects(bundles: dict[str, Path], data: Any) -> None:
    """Only read: an object that is damaged where no check looks must not be loaded."""
    code = [next(folder.glob("*.so")).read_bytes() for folder in bundles.values()]
    if data.draw(st.booleans()):
        image = data.draw(damaged(code))
    else:  # a word of a table
        words = bytearray(data.draw(st.sampled_from(code)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = 8 * data.draw(st.one_of(st.integers(0, 140), st.integers(0, len(words) // 8 - 1)))
            words[at:at + 8] = data.draw(st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(words), at])
                                         ).to_bytes(8, "little")
        image = bytes(words)
    try:
        read_object(image)
    except BadObject as refused:
        assert 0 < len(str(refused)) < 300
        ended["objects refused"] += 1
    else:
        ended["objects accepted"] += 1
