# SPDX-License-Identifier: Apache-2.0
"""eagle.exec: partitions, structures, placement, folds, layout sizes, and runs by hand."""

from __future__ import annotations

import copy
import ctypes
import math
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import eagle
from eagle import exec as execution
from eagle.errors import BackendUnavailable
from eagle.exec import DeviceGroup, DeviceKernel, HostTeam, Partition, RankPartition, Structure

NAN = float("nan")


def test_a_partition_is_a_value() -> None:
    part = Partition(np.int64(2), np.uint8(3), 9)  # type: ignore[arg-type]
    assert part == Partition(2, 3, 9) == (2, 3, 9)
    assert Partition() == (0, 0, 0) and Partition().is_whole()
    assert Partition.whole(7) == (0, 7, 7) and Partition.whole(7).is_whole() and not part.is_whole()
    assert pickle.loads(pickle.dumps(part)) == part and hash(part) == hash(Partition(2, 3, 9))
    base, count, n = part
    assert (part.base, part.count, part.n_samples) == (base, count, n)
    with pytest.raises(AttributeError):
        part.base = 4  # type: ignore[misc]


def test_structures() -> None:
    named = {"device_kernel": DeviceKernel, "host_team": HostTeam, "rank_partition": RankPartition,
             "device_group": DeviceGroup}
    for name, structure in named.items():
        assert structure.name == name == repr(structure)
        assert structure == Structure(name) and hash(structure) == hash(Structure(name))
        assert copy.copy(structure) is copy.deepcopy(structure) is structure
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(structure, protocol)) is structure
    own = Structure("own")
    for again in (copy.copy(own), copy.deepcopy(own), pickle.loads(pickle.dumps(own))):
        assert again == own and type(again) is Structure
    assert len(set(named.values())) == 4
    with pytest.raises(AttributeError, match="no change"):
        HostTeam.name = "x"


ANY = ("sample_local", "cross_sample_read", "mapreduce")


@pytest.mark.parametrize("access", [*ANY, "cross_sample_write"])
@pytest.mark.parametrize("structure", [DeviceKernel, HostTeam, RankPartition, DeviceGroup])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_placement(access: str, structure: Structure, count: int) -> None:
    legal = structure != DeviceGroup and (access in ANY or structure in (DeviceKernel, HostTeam) and count == 1)
    for spelled in (structure, structure.name):
        if legal:
            execution.check_placement(access, spelled, count)
        else:
            with pytest.raises(ValueError) as caught:
                execution.check_placement(access, spelled, np.int32(count))  # type: ignore[arg-type]
            reason = "NCCL not implemented" if structure == DeviceGroup else "no combine" \
                if structure == RankPartition else "it writes cells of other samples and runs as one range"
            for fact in (access, structure.name, str(count), reason):
                assert fact in str(caught.value)


@pytest.mark.parametrize(("arguments", "error", "fact"), [
    (("everywhere", "host_team"), ValueError, "sample_local"), ((["x"], "host_team"), ValueError, "access"),
    (("sample_local", "moon"), ValueError, "device_group"), (("sample_local", None), ValueError, "None"),
    (("sample_local", ["host_team"]), ValueError, "structure"), (("sample_local", "host_team", 0), ValueError, "0"),
    (("sample_local", "host_team", True), TypeError, "True"), (("sample_local", "host_team", 1.5), TypeError, "1.5"),
])
def test_placement_refusals(arguments: Any, error: type[Exception], fact: str) -> None:
    with pytest.raises(error, match=r"^eagle\.exec\.check_placement") as caught:
        execution.check_placement(*arguments)
    assert fact in str(caught.value) and ";" in str(caught.value)


@pytest.mark.parametrize(("op", "values", "wanted"), [
    ("sum", [], 0.0), ("times", [], 1.0), ("max", [], -math.inf), ("land", [], 1.0),
    ("sum", [1, 2.5, np.float32(3)], 6.5), ("sum", [1e16, 1.0, -1e16], 0.0), ("times", [2, 3, -4], -24.0),
    ("max", [1, 7, 3], 7.0), ("max", (v for v in (-2, -1)), -1.0), ("land", [1, 2, 0.5], 1.0), ("land", [1, 0, 1], 0.0),
    ("sum", [1, NAN, 2], NAN), ("times", [1, NAN, 0], NAN), ("max", [1, NAN, 2], NAN), ("max", [NAN, 2], NAN),
    ("max", [2, NAN], NAN), ("land", [NAN], 1.0), ("land", [NAN, 0], 0.0), ("sum", [True, False], 1.0),
    ("max", np.array([3.0, 4.0]), 4.0),
])
def test_fold(op: str, values: Any, wanted: float) -> None:
    found = execution.fold(op, values)
    assert found == wanted or (math.isnan(found) and math.isnan(wanted))
    assert type(found) is float


def test_fold_keeps_the_left_of_equals() -> None:
    assert math.copysign(1.0, execution.fold("max", [-0.0, 0.0])) == -1.0


@pytest.mark.parametrize(("op", "values", "error"), [
    ("mean", [1], ValueError), (None, [1], ValueError), (["sum"], [1], ValueError), ("sum", 3, TypeError),
    ("sum", "12", TypeError), ("sum", ["1"], TypeError), ("sum", [None], TypeError), ("sum", [10**400], ValueError),
])
def test_fold_refusals(op: Any, values: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^eagle\.exec\.fold: "):
        execution.fold(op, values)


def test_layout_sizes() -> None:
    assert execution.layout_sizes() == [40, 32, 32, 4, 24]
    assert execution.LAYOUT_SYMBOL == "eagle_layout_sizes"
    assert (execution.ABI_TAG_V1, execution.ABI_TAG_V2) == ("aether-abi/1", "aether-abi/2")
    execution.check_layout_sizes(execution.layout_sizes())
    execution.check_layout_sizes(np.array([40, 32, 32, 4, 24], np.uint64))  # type: ignore[arg-type]
    execution.check_layout_sizes({"ScalarHandle": 32})
    execution.check_layout_sizes({})


@pytest.mark.parametrize(("sizes", "error", "facts"), [
    ({"GRefMirror": 48}, ValueError, ["GRefMirror", "48", "40"]), ({"x": 1}, ValueError, ["'x'", "GRefMirror"]),
    ([40, 32, 32, 4], ValueError, ["4 sizes", "5"]), ([40, 32, 32, 8, 24], ValueError, ["aether::idx_t", "8", "4"]),
    (3, TypeError, ["3"]), ("abcde", TypeError, ["abcde"]), ({("a",): 1}, ValueError, ["('a',)"]),
])
def test_layout_sizes_that_differ(sizes: Any, error: type[Exception], facts: list[str]) -> None:
    with pytest.raises(error, match=r"^eagle\.exec\.check_layout_sizes: ") as caught:
        execution.check_layout_sizes(sizes)
    for fact in facts:
        assert fact in str(caught.value)


# ---- runs by hand ----------------------------------------------------------------------------------------------------

ENTRY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Recorder:
    """A host entry that notes the triples it is called with and the first argument's address."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int, int]] = []
        self.params: set[int | None] = set()
        self.threads: set[int] = set()

        def entry(params: Any, base: int, count: int, n: int) -> None:
            self.calls.append((base, count, n))
            self.params.add(params[0])
            self.threads.add(threading.get_ident())

        self._entry = ENTRY(entry)
        self.address = ctypes.cast(self._entry, ctypes.c_void_p).value or 0


@pytest.mark.parametrize("part", [Partition.whole(1), Partition.whole(10_000), Partition(128, 3000, 5000)])
def test_a_team_run_covers_its_range_once(part: Partition) -> None:
    recorder, cell = Recorder(), np.zeros(1)
    tiles = HostTeam.run(recorder.address, [cell.ctypes.data], part)
    assert tiles == -(-part.count // 256)
    seen = sorted(recorder.calls)
    assert seen[0][0] == part.base and {n for *_, n in seen} == {part.n_samples}
    for (base, count, _), (following, *_) in zip(seen, seen[1:], strict=False):
        assert base + count == following
    assert sum(count for _, count, _ in seen) == part.count
    assert recorder.params == {cell.ctypes.data}


def test_a_serial_run_is_one_call_on_this_thread() -> None:
    recorder, cell = Recorder(), np.zeros(1)
    table = np.array([cell.ctypes.data], np.uint64)
    HostTeam.run_serial(recorder.address, int(table.ctypes.data), Partition(64, 5000, 9000))
    assert recorder.calls == [(64, 5000, 9000)]
    assert recorder.threads == {threading.get_ident()} and recorder.params == {cell.ctypes.data}


def test_an_empty_range_runs_nothing() -> None:
    recorder = Recorder()
    for part in (Partition(), Partition(3, 0, 5), Partition(3, -2, 5)):
        assert HostTeam.run(recorder.address, [1], part) == 0
        HostTeam.run_serial(recorder.address, [1], part)
    assert recorder.calls == []


@pytest.mark.parametrize(("arguments", "error", "fact"), [
    ((0, [1], Partition.whole(1)), ValueError, "entry"), ((-1, [1], Partition.whole(1)), ValueError, "entry"),
    ((None, [1], Partition.whole(1)), TypeError, "entry"), ((True, [1], Partition.whole(1)), TypeError, "entry"),
    ((1, 0, Partition.whole(1)), ValueError, "params"), ((1, None, Partition.whole(1)), TypeError, "params"),
    ((1, [1, 0], Partition.whole(1)), ValueError, "params[1]"), ((1, "ab", Partition.whole(1)), TypeError, "params"),
    ((2**64, [1], Partition.whole(1)), ValueError, "entry"), ((1, [1], Partition(-1, 2, 5)), ValueError, "partition"),
    ((1, [1], Partition(4, 2, 5)), ValueError, "partition"), ((1, [1], (0, 1)), TypeError, "partition"),
    ((1, [1], None), TypeError, "partition"), ((1, [1], (0, 1.5, 2)), TypeError, "partition"),
    ((1, [1], (2**63, 1, 1)), ValueError, "partition"), ((1, [1], (2**63 - 1, 2**63 - 1, 1)), ValueError, "partition"),
])
@pytest.mark.parametrize("method", ["run", "run_serial"])
def test_run_refusals(method: str, arguments: Any, error: type[Exception], fact: str) -> None:
    with pytest.raises(error, match=rf"^HostTeam\.{method}: ") as caught:
        getattr(HostTeam, method)(*arguments)
    assert fact in str(caught.value)


def test_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.os, "sysconf", lambda name: 2**21)
    sizes = {0: 256, 1: 4096, 256: 4096, 333: 3144, 512: 2048, 1000: 1048, 4096: 256, 16384: 64, 100_000: 64}
    assert {b: HostTeam.tile_size(b) for b in sizes} == sizes
    assert [HostTeam.tile_count(Partition.whole(n), 512) for n in (0, 1, 2048, 2049)] == [0, 1, 1, 2]
    with pytest.raises(ValueError, match="bytes_per_sample"):
        HostTeam.tile_size(-1)


def test_tiles_without_a_known_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution.os, "sysconf", lambda name: -1)
    assert 64 <= HostTeam.tile_size(4096) <= 4096 and HostTeam.tile_size(4096) % 8 == 0


def test_the_grid_of_a_device() -> None:
    assert [DeviceKernel.grid(n) for n in (-5, 0, 1, 256, 257)] == [0, 0, 1, 1, 2]
    assert DeviceKernel.grid(10, 3) == 4
    with pytest.raises(ValueError, match="block"):
        DeviceKernel.grid(10, 0)
    with pytest.raises(ValueError, match="block"):
        DeviceKernel.run(1, [1], Partition.whole(1), block=0)


def test_nothing_launches_on_a_device_here() -> None:
    with pytest.raises(BackendUnavailable, match=r"backend='gpu'|DeviceKernel\.run"):
        DeviceKernel.run(1, [1], Partition.whole(1))


def test_ranks_name_their_extra() -> None:
    assert RankPartition.available is False
    for method, arguments in (("world", ()), ("local", (Partition.whole(3),)), ("run", (1, [1], Partition.whole(3))),
                              ("allgather_plane", (1, Partition.whole(3))), ("allgather_fold", ("sum", 1.0))):
        with pytest.raises(RuntimeError, match=rf"^RankPartition\.{method}: .*'mpi'"):
            getattr(RankPartition, method)(*arguments)


def test_a_group_of_devices_runs_nothing() -> None:
    with pytest.raises(RuntimeError, match="NCCL not implemented"):
        DeviceGroup.run(1, [1], Partition.whole(3))


def test_numpy_integers_set_threads() -> None:
    before = eagle.num_threads()
    try:
        assert eagle.set_num_threads(np.int64(2)) == before  # type: ignore[arg-type]
        assert eagle.num_threads() == 2
    finally:
        eagle.set_num_threads(before)
    for bad in (True, 2.0, "2", None):
        with pytest.raises(TypeError, match=r"^eagle\.set_num_threads: n"):
            eagle.set_num_threads(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [["x"], 3, None, b"cpu"])
def test_what_is_no_kind_is_a_type_error(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.backends\.info: kind"):
        eagle.backends.info(kind)
    assert not eagle.backends.has("probe", kind)
