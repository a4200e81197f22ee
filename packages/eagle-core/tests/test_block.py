# SPDX-License-Identifier: Apache-2.0
"""What an entry is given: the boxes of its argument block, the pieces of a launch. By an entry that writes it down."""

from __future__ import annotations

import ctypes
import gc
import os
import shlex
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eagle
import eagle.exec
from eagle.exec import HostTeam
from eagle.plan import plan

pytestmark = pytest.mark.smoke
MIRROR, HANDLE = "<QQQQii", "<QQQii"  # plugin.h: data, samples, strides, device type and id


class Recorder:
    """The compiled entries and what they wrote down."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def plugin(self, entry: str, arg_spec: list[tuple[str, str]], **declared: Any) -> SimpleNamespace:
        address = ctypes.cast(getattr(self.library, entry), ctypes.c_void_p).value
        self.word("slots").value = len(arg_spec)
        defaults = {"name": entry, "exec_access": "sample_local", "prior_mutables": frozenset()}
        return SimpleNamespace(**{**defaults, **declared, "arg_spec": arg_spec, "host_entry": address,
                                  "_keepalive": self.library})

    def word(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.in_dll(self.library, name)

    def reset(self) -> None:
        self.word("piece_count").value, self.word("gate").value = 0, 1

    def pieces(self) -> list[tuple[int, int, int]]:
        count = self.word("piece_count").value
        flat = (ctypes.c_int64 * (3 * 4096)).in_dll(self.library, "pieces")
        return [tuple(flat[3 * i:3 * i + 3]) for i in range(count)]

    def addresses(self) -> list[int]:
        return list((ctypes.c_uint64 * 64).in_dll(self.library, "addresses")[:self.word("slots").value])

    def box(self, i: int, form: str) -> tuple[Any, ...]:
        raw = bytes((ctypes.c_ubyte * (64 * 40)).in_dll(self.library, "boxes")[40 * i:40 * i + 40])
        return struct.unpack_from(form, raw)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    path = tmp_path_factory.mktemp("recorder") / "recorder.so"
    subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", "-shared", "-fPIC", "-O1", "-pthread",
                    str(Path(__file__).with_name("recorder.cpp")), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


@pytest.fixture
def recorder(compiled: ctypes.CDLL) -> Iterator[Recorder]:
    recorder, threads = Recorder(compiled), eagle.num_threads()
    recorder.reset()
    yield recorder
    recorder.reset()
    eagle.set_num_threads(threads)


def aligned(n: int, offset: int = 0) -> np.ndarray[Any, Any]:
    memory = np.zeros(8 * n + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start:start + 8 * n].view(np.float64)


# ---- boxes -------------------------------------------------------------------------------------------------------


def test_boxes(recorder: Recorder) -> None:
    """Every kind of slot, at run and at bind, as the tables of the ABI say."""
    spec = [("mutable", "state"), ("vec_in", "v"), ("mat_in", "m"), ("per_sample", "x"), ("per_sample", "i"),
            ("terminated", "terminated"), ("uniform", "a"), ("uniform", "k"), ("nsamples", "n")]
    plugin = recorder.plugin("record", spec, arg_widths={"state": 3, "v": 3, "m": 4}, vec_mutables={"state"},
                             arg_dtypes={"i": "int64"}, params=({"name": "k", "dtype": "int"}, {"name": "a"}))
    n = 5
    planes: dict[str, Any] = {"state": np.ones((3, n)), "v": np.ones((3, n)), "m": np.ones((4, n)), "x": np.ones(n),
                              "i": np.arange(n), "terminated": np.zeros(n, bool)}
    made = plan(plugin, structure=HostTeam)
    for launch in (lambda: made.run(**planes, a=1.5, k=-7), made.bind(**planes, a=1.5, k=-7).launch):
        recorder.reset()
        launch()
        for i, name in enumerate(["state", "v", "m"]):
            assert recorder.box(i, MIRROR) == (planes[name].ctypes.data, n, n, 1, 1, 0)
        for i, name in enumerate(["x", "i", "terminated"], start=3):
            assert recorder.box(i, HANDLE) == (planes[name].ctypes.data, n, 1, 1, 0)
        assert recorder.box(6, "<d") == (1.5,) and recorder.box(7, "<q") == (-7,) and recorder.box(8, "<I") == (n,)
        assert recorder.pieces() == [(0, n, n)]


def test_boxes_of_a_graph(recorder: Recorder) -> None:
    """They are copies. The entry reads 40 bytes of each, so the largest come last."""
    spec = [("nsamples", "n"), ("uniform", "k"), ("uniform", "a"), ("lookup", "finished_count"), ("terminated", "done"),
            ("per_sample", "x"), ("mat_in", "t"), ("vec_in", "v"), ("mutable", "state")]
    for real in (np.float64, np.float32):
        plugin = recorder.plugin("record", spec, arg_widths={"state": 3, "v": 3, "t": 4}, vec_mutables={"state"},
                                 params=({"name": "k", "dtype": "int"}, {"name": "a"}), gather_mats={"t": ()},
                                 scalar_type=np.dtype(real).name)
        n = 5
        planes: dict[str, Any] = {"state": np.ones((3, n), real), "v": np.ones((3, n), real), "x": np.ones(n, real),
                                  "t": np.ones((4, 7), real), "done": np.zeros(n, bool),
                                  "finished_count": np.zeros(1, np.uint32)}
        bound = plan(plugin, structure=HostTeam).bind(**planes, a=0.1, k=-7)
        recorder.reset()
        bound.launch()
        direct = recorder.addresses()
        for times in (1, 2):
            g = eagle.Graph()
            for _ in range(times):
                g.add(bound)
            g.build()
            recorder.reset()
            g.launch()
            assert recorder.pieces() == [(0, n, n)] * times
            assert not set(direct) & set(recorder.addresses())
            assert recorder.box(0, "<I") == (n,) and recorder.box(1, "<q") == (-7,)
            assert recorder.box(2, f"<{np.dtype(real).char}") == (float(real(0.1)),)
            for i, cells in ((3, 1), (4, n), (5, n)):
                assert recorder.box(i, HANDLE) == (planes[spec[i][1]].ctypes.data, cells, 1, 1, 0)
            for i, columns in ((6, 7), (7, n), (8, n)):
                assert recorder.box(i, MIRROR) == (planes[spec[i][1]].ctypes.data, columns, columns, 1, 1, 0)


def test_float32_uniforms_are_four_bytes(recorder: Recorder) -> None:
    plugin = recorder.plugin("record", [("mutable", "y"), ("uniform", "a")], scalar_type="float32")
    plan(plugin, structure=HostTeam).run(y=np.zeros(2, np.float32), a=0.1)
    assert recorder.box(1, "<f") == (float(np.float32(0.1)),)


def test_words_that_belong_to_eagle(recorder: Recorder) -> None:
    """A launch outside the steppers takes one step, from a count of none."""
    for name, start, dtype in (("fused_steps", 1, np.int64), ("finished_count", 0, np.uint32)):
        plugin = recorder.plugin("record_cell", [("lookup", name), ("mutable", "y")])
        made = plan(plugin, structure=HostTeam)
        for launch in (lambda made=made: made.run(y=np.zeros(3)), made.bind(y=np.zeros(3)).launch):
            recorder.word("cell").value = -1
            recorder.reset()
            launch()
            assert recorder.word("cell").value == start and recorder.box(0, HANDLE)[1:] == (1, 1, 1, 0)
        own = np.array([3, 0], dtype)[:1]
        recorder.reset()
        made.run(y=np.zeros(3), **{name: own})
        assert recorder.box(0, HANDLE) == (own.ctypes.data, 1, 1, 1, 0)
        for wrong in (np.zeros(2, dtype), np.zeros((1, 1), dtype), np.zeros((), dtype)):
            with pytest.raises(eagle.LayoutError, match=f"'{name}': found shape"):
                made.run(y=np.zeros(3), **{name: wrong})
        with pytest.raises(eagle.BufferRefused, match=f"'{name}': found float64"):
            made.run(y=np.zeros(3), **{name: np.zeros(1)})


def test_integer_planes_and_uniforms(recorder: Recorder) -> None:
    plugin = recorder.plugin("record", [("per_sample", "i"), ("uniform", "k"), ("mutable", "y")],
                             arg_dtypes={"i": "int64"}, params=({"name": "k", "dtype": "int"},))
    made = plan(plugin, structure=HostTeam)
    for k in (3, 3.0, np.int16(3), np.float32(3)):
        recorder.reset()
        made.run(i=np.array([1, 2], np.int32), k=k, y=np.zeros(2))
        assert recorder.box(1, "<q") == (3,)
    for k, error in ((2.5, TypeError), (True, TypeError), ("3", TypeError), (float("nan"), TypeError),
                     (2**63, ValueError), (-2**63 - 1, ValueError)):
        with pytest.raises(error, match="Param 'k': found"):
            made.run(i=np.arange(2), k=k, y=np.zeros(2))
    for i in (np.array([2**63], np.uint64), np.array([1.0]), np.array([True])):
        with pytest.raises(eagle.BufferRefused, match="'i': found"):
            made.run(i=i, k=1, y=np.zeros(1))
    made.run(i=np.array([2**63 - 1], np.uint64), k=1, y=np.zeros(1))


def test_a_mask_the_kernel_only_reads_may_be_read_only(recorder: Recorder) -> None:
    spec = [("mutable", "y"), ("terminated", "terminated")]
    mask = np.zeros(3, bool)
    mask.flags.writeable = False
    made = plan(recorder.plugin("record", spec, terminated_readonly=True), structure=HostTeam)
    made.run(y=np.zeros(3), terminated=mask)
    made.bind(y=np.zeros(3), terminated=mask).launch()
    with pytest.raises(eagle.BufferRefused, match="'terminated': found a read-only array"):
        plan(recorder.plugin("record", spec), structure=HostTeam).run(y=np.zeros(3), terminated=mask)


def test_what_is_left_out_is_zero_where_it_must_be(recorder: Recorder) -> None:
    """The entry writes nothing, so what comes back is what the outputs started as."""
    for declared in ({"prior_mutables": frozenset({"y"})}, {"prior_mutables": None}):
        made = plan(recorder.plugin("record", [("mutable", "y"), ("per_sample", "x")], **declared), structure=HostTeam)
        for n in (4, 1000):
            for _ in range(5):
                np.full(n, np.nan)  # freed at once: memory that an allocation finds again
                assert not made.run(x=np.ones(n)).any()
    masked = plan(recorder.plugin("record", [("mutable", "y"), ("terminated", "terminated")]), structure=HostTeam)
    np.full(1000, np.nan)
    assert not masked.run(terminated=np.ones(1000, bool)).any()


def test_a_mask_left_out_of_the_call_is_all_false(recorder: Recorder) -> None:
    auto = eagle.deploy(recorder.plugin("record_cell", [("terminated", "terminated"), ("mutable", "y")]))
    for n in (8, 64, 1000):
        for keywords in ({}, {"layout": "samples_last"}):  # in C, and on the careful path
            y = np.zeros(n)
            recorder.reset()
            np.full(n, 255, np.uint8)  # freed at once: memory that an allocation finds again
            auto(y=y, **keywords)
            assert recorder.word("cell").value == 0


def test_planes_without_a_dtype_keep_their_cell_size(recorder: Recorder) -> None:
    """The entry writes cells of eight bytes, whatever array it is given."""
    made = plan(recorder.plugin("record", [("mutable", "y"), ("per_sample", "x")]), structure=HostTeam)
    for wrong in (np.zeros(4, np.int8), np.zeros(4, bool), np.zeros(4, np.int32)):
        for door in (made.run, made.bind):
            with pytest.raises(eagle.BufferRefused, match="'y': found"):
                door(x=np.zeros(4), y=wrong)
    made.run(x=np.zeros(4, np.int64), y=np.zeros(4, np.int64))
    with pytest.raises(eagle.BufferRefused, match="'x': found"):
        made.bind(x=np.zeros(4, np.int32), y=np.zeros(4))


def test_the_same_bytes_in_another_layout_are_no_alias(recorder: Recorder) -> None:
    """Sample i of an int64 output is not sample i of a float32 vector in the same memory."""
    plugin = recorder.plugin("record", [("mutable", "k"), ("vec_in", "v")], scalar_type="float32",
                             arg_widths={"k": 1, "v": 2}, arg_dtypes={"k": "int64"})
    made, k = plan(plugin, structure=HostTeam), np.zeros(8, np.int64)
    planes = {"k": k, "v": k.view(np.float32).reshape(2, 8)}
    for door in (made.run, made.bind):
        with pytest.raises(eagle.BufferRefused, match="'k' and Vector 'v': found arrays that share memory"):
            door(**planes)


def test_words_do_not_share_memory_with_planes(recorder: Recorder) -> None:
    made = plan(recorder.plugin("record", [("lookup", "fused_steps"), ("mutable", "y"), ("per_sample", "x")],
                                arg_dtypes={"x": "int64"}), structure=HostTeam)
    y = np.zeros(4)
    for door in (made.run, made.bind):
        with pytest.raises(eagle.BufferRefused, match="'y' and argument 'fused_steps': found arrays that share memory"):
            door(fused_steps=y[:1].view(np.int64), y=y, x=np.zeros(4, np.int64))


def test_planes_may_have_any_name_but_the_keywords(recorder: Recorder) -> None:
    spec = [("mutable", "self"), ("per_sample", "door"), ("per_sample", "args")]
    auto = eagle.deploy(recorder.plugin("record", spec))
    planes = {"self": np.zeros(2), "door": np.zeros(2), "args": [0.0, 0.0]}
    auto.run(**planes)
    auto(**planes)
    bound = auto.bind(**{**planes, "args": np.zeros(2)})
    bound.rebind(**{"self": np.ones(2)}).launch()
    assert len(recorder.pieces()) == 3


# ---- pieces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 8, 16, 56])
def test_pieces_begin_on_cache_lines_of_the_output(recorder: Recorder, offset: int) -> None:
    made = plan(recorder.plugin("record", [("mutable", "y"), ("per_sample", "x")]), structure=HostTeam)
    n, y = 100_003, aligned(100_003, offset)
    for threads in (1, 4):
        eagle.set_num_threads(threads)
        recorder.reset()
        made.run(x=np.zeros(n), y=y)
        pieces = sorted(recorder.pieces())
        assert pieces[0][0] == 0 and sum(count for _, count, _ in pieces) == n
        assert all(a + b == c for (a, b, _), (c, _, _) in zip(pieces, pieces[1:], strict=False))
        assert all((y.ctypes.data + 8 * base) % 64 == 0 for base, _, _ in pieces[1:])
        assert {samples for _, _, samples in pieces} == {n}


@pytest.mark.parametrize("offset", [0, 8, 16, 56])
@pytest.mark.parametrize("n", [5, 511, 512, 513, 3000])
def test_a_graph_cuts_a_launch_as_the_launch_does(recorder: Recorder, n: int, offset: int) -> None:
    y, first, few = aligned(n, offset), -offset % 64 // 8, min(n, 7)
    eagle.set_num_threads(1)
    for parts in ([(0, n)], [(0, n // 2), (n // 2, n - n // 2)], [(few, n - few), (0, few)]):
        bound = plan(recorder.plugin("record", [("mutable", "y")]), structure=HostTeam,
                     partitions=[(base, count, n) for base, count in parts]).bind(y=y)
        wanted = []
        for base, count in parts:
            peel = (first - base) % 8 if count >= 512 else 0
            wanted += [(base, peel, n), (base + peel, count - peel, n)]
        for launch in (bound.launch, eagle.Graph().add(bound).build().launch):
            recorder.reset()
            launch()
            assert recorder.pieces() == [piece for piece in wanted if piece[1] > 0]


@pytest.mark.parametrize("offsets", [(0, 0, 0), (24, 8, 0), (0, 8, 16)])
def test_launches_that_may_run_together_are_cut_where_the_first_is(
        recorder: Recorder, offsets: tuple[int, ...]) -> None:
    """Fused or not, the ends of what a vector loop gets are the same."""
    n, tile = 3000, 1024
    made = plan(recorder.plugin("record", [("mutable", "y")]), structure=HostTeam)
    eagle.set_num_threads(1)
    peel = -offsets[0] % 64 // 8
    cuts = [0, *range(peel, n, tile), n] if peel else [*range(0, n, tile), n]
    for fuse in (True, False):
        g = eagle.Graph()
        g.fuse = fuse
        for offset in offsets:
            g.add(made.bind(y=aligned(n, offset)))
        g.build()
        assert [stage.tile for stage in g.stages] == ([0, 0, 0] if fuse else [-1, -1, -1])
        recorder.reset()
        g.launch()
        if fuse:
            wanted = [(a, b - a, n) for a, b in zip(cuts, cuts[1:], strict=False) for _ in offsets]
        else:
            wanted = [piece for piece in ((0, peel, n), (peel, n - peel, n)) if piece[1] > 0] * 3
        assert recorder.pieces() == wanted


def test_partitions_reach_the_entry_in_every_door(recorder: Recorder) -> None:
    plugin = recorder.plugin("record", [("mutable", "y"), ("per_sample", "x")])
    x, y = np.zeros(10), aligned(10)
    for keywords, wanted in (({"npartitions": 3}, [(0, 4, 10), (4, 3, 10), (7, 3, 10)]),
                             ({"partitions": [(6, 4, 10), (0, 6, 10)]}, [(6, 4, 10), (0, 6, 10)])):
        auto = eagle.deploy(plugin, **keywords)
        for call in (lambda auto=auto: auto.run(x=x, y=y), lambda auto=auto: auto(x=x, y=y),
                     auto.bind(x=x, y=y).launch, lambda auto=auto: auto.run(x=[0.0] * 10, y=y)):
            recorder.reset()
            call()
            assert recorder.pieces() == wanted


def test_kernels_that_write_across_samples_run_as_one_range(recorder: Recorder) -> None:
    made = plan(recorder.plugin("record", [("mutable", "y")], exec_access="cross_sample_write"), structure=HostTeam)
    eagle.set_num_threads(4)
    made.run(y=aligned(3_000_000, 16))
    assert recorder.pieces() == [(0, 3_000_000, 3_000_000)]


# ---- launches ----------------------------------------------------------------------------------------------------


def gated(recorder: Recorder, launch: Any) -> threading.Thread:
    """A thread whose launch waits at the gate."""
    recorder.reset()
    recorder.word("gate").value = 0
    thread = threading.Thread(target=launch)
    thread.start()
    end = time.monotonic() + 5
    while recorder.word("waiting").value == 0 and time.monotonic() < end:
        time.sleep(0.001)
    assert recorder.word("waiting").value >= 1  # with the GIL kept, this line comes after the entry gave up
    return thread


def test_other_threads_run_while_an_entry_waits_for_them(recorder: Recorder) -> None:
    """With the GIL kept nobody could open the gate, and the entry would wait for its ten seconds."""
    made = plan(recorder.plugin("record", [("mutable", "y")]), structure=HostTeam)
    for launch in (lambda: made.run(y=np.zeros(4)), made.bind(y=np.zeros(4)).launch):
        thread = gated(recorder, launch)
        start = time.monotonic()
        recorder.word("gate").value = 1
        thread.join()
        assert time.monotonic() - start < 5


def test_a_long_launch_after_short_ones_lets_others_run(recorder: Recorder) -> None:
    made = plan(recorder.plugin("record", [("mutable", "y")]), structure=HostTeam)
    for _ in range(50):
        made.run(y=np.zeros(1))
    thread = gated(recorder, lambda: made.run(y=np.zeros(5000)))
    recorder.word("gate").value = 1
    start = time.monotonic()
    thread.join()
    assert time.monotonic() - start < 5


def test_a_launch_keeps_the_planes_it_started_with(recorder: Recorder) -> None:
    old = np.zeros(1000)
    bound = plan(recorder.plugin("record", [("mutable", "y")]), structure=HostTeam).bind(y=old)
    seen = weakref.ref(old)
    del old
    thread = gated(recorder, bound.launch)
    bound.rebind(y=np.zeros(1000))
    gc.collect()
    assert seen() is not None
    recorder.word("gate").value = 1
    thread.join()
    gc.collect()
    assert seen() is None


def test_what_an_entry_throws_is_raised(recorder: Recorder) -> None:
    made = plan(recorder.plugin("fail", [("mutable", "y")]), structure=HostTeam)
    for n in (1, 1_000_000):
        for launch in (lambda n=n: made.run(y=np.zeros(n)), made.bind(y=np.zeros(n)).launch):
            with pytest.raises(RuntimeError, match="the kernel gave up"):
                launch()


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_an_entry_that_throws_leaves_a_sample_major_output_alone(recorder: Recorder) -> None:
    """Its copy, which was not written, is not copied back."""
    made = plan(recorder.plugin("fail", [("mutable", "u")], vec_mutables=["u"], arg_widths={"u": 3}),
                structure=HostTeam)
    u = np.full((500, 3), 7.0)
    for launch in (lambda: made.run(u=u), made.bind(u=u).launch):
        with pytest.raises(RuntimeError, match="the kernel gave up"):
            launch()
        with eagle.exec.checking(), pytest.raises(RuntimeError, match="the kernel gave up"):
            launch()
    assert (u == 7.0).all()
