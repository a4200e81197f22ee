# SPDX-License-Identifier: Apache-2.0
"""Groups capturer, captured, fork, attribution and graph, seen through replays."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

import pytest

from eagle_conformance.blocks import Block
from eagle_conformance.captures import Capture, CapturerDesc, ForkDesc, GraphDesc, created, number
from eagle_conformance.launches import Visits
from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import SIGNATURES, HostFunction, Library, Status, Struct

pytestmark = [pytest.mark.eagle_group(name) for name in ("stream", "exec", "capturer", "captured", "graph", "launcher")]
forks = pytest.mark.eagle_group("fork")
attribution = pytest.mark.eagle_group("attribution")
Isolate = Callable[..., Any]
Make = Callable[..., Visits]
N = 1000


# ---- capture and replay ----------------------------------------------------------------------------------------------


def test_a_captured_launch_runs_at_each_replay_and_not_before(capture: Capture, make: Make) -> None:
    planes = make(N)
    with capture.recording() as launcher:
        assert planes.launch(stream=capture.raw) == 1
        assert planes.launch(stream=capture.raw, count=0) == 0
    planes.expect(0, 0)
    launcher.replay()
    planes.expect(0, N)
    launcher.replay(4)
    planes.expect(0, N, visits=5)


def test_a_stream_runs_again_after_the_capture(capture: Capture, make: Make, device: Library) -> None:
    planes = make(N)
    with capture.recording():
        planes.launch(stream=capture.raw)
    planes.launch(stream=capture.raw)
    device.ok("stream_synchronize", capture.stream)
    planes.expect(0, N)


def test_the_work_of_a_replay_is_in_order(capture: Capture, make: Make) -> None:
    planes = make(20011)
    with capture.recording() as launcher:
        for _ in range(20):
            planes.launch(stream=capture.raw, block=64)
    launcher.replay(2)
    planes.expect(0, 20011, visits=40)


def test_partitions_and_n_samples_are_captured(capture: Capture, make: Make) -> None:
    planes = make(N)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw, base=100, count=300, n_samples=2**40)
    launcher.replay()
    planes.expect(100, 300, n_samples=2**40)


def test_arguments_with_a_size_are_copied_at_the_capture(capture: Capture, make: Make) -> None:
    planes = make(N, step=3)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw)
        planes.set_step(50)
    planes.set_step(70)
    launcher.replay()
    planes.expect(0, N, visits=3)


@pytest.mark.eagle_symbols("memset_device", "memcpy_device")
def test_copies_and_memsets_are_captured(capture: Capture, device: Library, quirks: Quirks) -> None:
    source, target = Block(device, quirks, bytes(range(200))), Block(device, quirks, b"\x11" * 200)
    with capture.recording() as launcher:
        device.ok("memset_device", target.address, 150, capture.raw)
        device.ok("memcpy_device", target.address, source.address, 100, capture.raw)
        device.ok("memset_device", source.address, 0, capture.raw)
    assert target.read() == b"\x11" * 200
    launcher.replay()
    assert target.read() == bytes(range(100)) + bytes(50) + b"\x11" * 50
    for block in (source, target):
        block.free()


@pytest.mark.eagle_symbols("host_func")
def test_host_functions_run_in_order_at_each_replay(capture: Capture, device: Library) -> None:
    seen: list[int] = []
    functions = [HostFunction(lambda _, i=i: seen.append(i)) for i in range(3)]
    with capture.recording() as launcher:
        for function in functions:
            device.ok("host_func", capture.raw, function, None)
    assert seen == []
    launcher.replay(2)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_an_empty_capture_is_not_valid_and_makes_no_graph(capture: Capture, device: Library) -> None:
    capture.begin()
    captured = capture.end()
    assert number(device, "captured_is_valid", captured, kind=c_int32) == 0
    device.refuses(Status.INVALID_ARGUMENT, "graph_from_captured", captured, byref(c_void_p()))
    device.call("captured_release", captured)


def test_a_capture_can_be_kept_and_dropped(capture: Capture, make: Make, device: Library) -> None:
    capture.begin()
    make(N).launch(stream=capture.raw)
    captured = capture.end()
    assert number(device, "captured_is_valid", captured, kind=c_int32) == 1
    device.call("captured_release", captured)


@pytest.mark.eagle_symbols("capturer_graph")
def test_the_native_graph_is_told_within_a_capture(capture: Capture, make: Make, device: Library) -> None:
    assert number(device, "capturer_graph", capture.capturer) == 0
    with capture.recording():
        make(N).launch(stream=capture.raw)
        assert number(device, "capturer_graph", capture.capturer) != 0
    assert number(device, "capturer_graph", capture.capturer) == 0


def test_begin_and_end_belong_together(capture: Capture, make: Make, device: Library) -> None:
    device.refuses(None, "capturer_end", capture.capturer, byref(c_void_p()))
    with capture.recording() as launcher:
        device.refuses(None, "capturer_begin", capture.capturer)
        planes = make(N)
        planes.launch(stream=capture.raw)
    launcher.replay()
    planes.expect(0, N)


# ---- forks -----------------------------------------------------------------------------------------------------------


@forks
@pytest.mark.parametrize("n", [100, 50021])
@pytest.mark.parametrize("branches", [1, 2, 5])
def test_every_branch_of_a_fork_runs(capture: Capture, make: Make, branches: int, n: int) -> None:
    planes = [make(n) for _ in range(branches)]
    fork = capture.fork(branches)
    with capture.recording() as launcher:
        for each in planes:
            each.launch(stream=capture.raw)
        with fork.forked() as streams:
            for each, stream in zip(planes, streams, strict=True):
                for _ in range(3):
                    each.launch(stream=stream)
        for each in planes:
            each.launch(stream=capture.raw)
    for each in planes:
        each.expect(0, 0)
    launcher.replay(2)
    for each in planes:
        each.expect(0, n, visits=10)


@forks
def test_a_fork_tells_of_itself(capture: Capture, device: Library) -> None:
    fork = capture.fork(3)
    assert number(device, "fork_size", fork.handle) == 3
    assert number(device, "fork_origin", fork.handle) == capture.raw
    assert len({*fork.branches, capture.raw}) == 4
    assert number(device, "fork_forked", fork.handle, kind=c_int32) == 0
    device.refuses(Status.INDEX, "fork_branch", fork.handle, 3, byref(c_uint64()))


@forks
def test_fork_and_join_twice_are_one(capture: Capture, make: Make, device: Library) -> None:
    planes, fork = make(N), capture.fork(2)
    with capture.recording() as launcher:
        device.ok("fork_fork", fork.handle)
        planes.launch(stream=fork.branches[1])
        device.ok("fork_fork", fork.handle)
        assert number(device, "fork_forked", fork.handle, kind=c_int32) == 1
        device.ok("fork_join", fork.handle)
        device.ok("fork_join", fork.handle)
        assert number(device, "fork_forked", fork.handle, kind=c_int32) == 0
        planes.launch(stream=capture.raw)
    launcher.replay()
    planes.expect(0, N, visits=2)


@forks
def test_a_fork_within_a_branch(capture: Capture, make: Make) -> None:
    planes = [make(N) for _ in range(3)]
    outer = capture.fork(2)
    inner = capture.fork(2, origin=outer.branches[0])
    with capture.recording() as launcher, outer.forked() as streams:
        planes[2].launch(stream=streams[1])
        with inner.forked() as within:
            planes[0].launch(stream=within[0])
            planes[1].launch(stream=within[1])
        planes[0].launch(stream=streams[0])
    launcher.replay()
    for each, visits in zip(planes, (2, 1, 1), strict=True):
        each.expect(0, N, visits=visits)


@forks
def test_an_unjoined_fork_spoils_the_capture(capture: Capture, make: Make, device: Library) -> None:
    planes, fork = make(N), capture.fork(2)
    capture.begin()
    device.ok("fork_fork", fork.handle)
    planes.launch(stream=fork.branches[0])
    device.refuses(None, "capturer_end", capture.capturer, byref(c_void_p()))
    planes.expect(0, 0)


@forks
@pytest.mark.eagle_symbols("fork_mark", "fork_wait", "memcpy_device")
def test_a_branch_waits_for_a_mark_of_another(capture: Capture, device: Library, quirks: Quirks) -> None:
    first, second, third = (Block(device, quirks, bytes([i]) * 64) for i in (1, 2, 3))
    fork = capture.fork(2, waits=1)
    with capture.recording() as launcher, fork.forked() as (producer, waiter):
        device.ok("memcpy_device", second.address, first.address, 64, producer)
        mark = number(device, "fork_mark", fork.handle, 0)
        device.refuses(Status.INDEX, "fork_mark", fork.handle, 0, byref(c_uint64()))
        device.ok("fork_wait", fork.handle, 1, mark)
        device.ok("memcpy_device", third.address, second.address, 64, waiter)
    launcher.replay()
    assert third.read() == first.read()
    for block in (first, second, third):
        block.free()


# ---- attribution -----------------------------------------------------------------------------------------------------


@attribution
@pytest.mark.eagle_symbols("memset_device", "host_func")
def test_every_node_is_told_with_what_it_is(capture: Capture, make: Make, device: Library, quirks: Quirks) -> None:
    planes, block, nothing = make(N), Block(device, quirks, bytes(64)), HostFunction(lambda _: None)
    with capture.recording():
        assert capture.nodes() == []
        planes.launch(stream=capture.raw)
        device.ok("memset_device", block.address, 64, capture.raw)
        device.ok("host_func", capture.raw, nothing, None)
        nodes = capture.nodes()
        assert len(set(nodes)) == 3
        toggleable = [number(device, "is_node_toggleable", node, kind=c_int32) for node in nodes]
        assert sorted(toggleable) == [0, 1, 1]
    block.free()


@attribution
def test_no_nodes_are_told_outside_a_capture(capture: Capture, device: Library) -> None:
    device.refuses(None, "capture_snapshot_nodes", capture.raw, byref(c_void_p()), byref(c_int64()))


@attribution
@pytest.mark.eagle_symbols("capture_add_child", "capturer_graph")
def test_a_graph_is_a_node_of_another(capture: Capture, make: Make, device: Library) -> None:
    planes, other = make(N), make(N)
    capture.begin()
    planes.launch(stream=capture.raw)
    graph = number(device, "capturer_graph", capture.capturer)
    captured = capture.end()
    with capture.recording() as launcher:
        device.refuses(Status.INVALID_ARGUMENT, "capture_add_child", capture.raw, 0, 0)
        other.launch(stream=capture.raw)
        before = len(capture.nodes())
        device.ok("capture_add_child", capture.raw, graph, 0)
        device.ok("capture_add_child", capture.raw, graph, 0)
        assert len(capture.nodes()) == before + 2
    launcher.replay()
    planes.expect(0, N, visits=2)
    other.expect(0, N)
    device.call("captured_release", captured)


# ---- graphs ----------------------------------------------------------------------------------------------------------


def test_a_graph_runs_its_captures_in_order(capture: Capture, make: Make, device: Library) -> None:
    planes, graph, launcher = make(N), created(device, "graph_create", GraphDesc(device=-1)), c_void_p()
    last = [number(device, "graph_last_node", graph, kind=c_int64)]
    for visits in (2, 5):
        capture.begin()
        for _ in range(visits):
            planes.launch(stream=capture.raw)
        captured = capture.end()
        device.ok("graph_add_node", graph, captured)
        device.refuses(Status.BAD_HANDLE, "graph_add_node", graph, captured)  # it was consumed
        last.append(number(device, "graph_last_node", graph, kind=c_int64))
    assert last[0] < last[1] < last[2]
    device.ok("graph_launcher", graph, byref(launcher))
    device.call("graph_release", graph)
    device.ok("launcher_launch", launcher)
    device.ok("launcher_synchronize", launcher)
    planes.expect(0, N, visits=7)
    device.call("launcher_release", launcher)


# ---- refusals --------------------------------------------------------------------------------------------------------

CREATORS: dict[str, type[Struct]] = {
    "capturer_create": CapturerDesc,
    "fork_create": ForkDesc,
    "graph_create": GraphDesc,
}
creators = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=forks if n == "fork_create" else []) for n in CREATORS]
)


def desc_of(name: str, capture: Capture, **fields: int) -> Struct:
    """A desc that is taken, but for the fields given."""
    whole = {
        "capturer_create": {"stream": capture.raw},
        "fork_create": {"origin": capture.raw, "branch_count": 2},
        "graph_create": {},
    }
    return CREATORS[name](**({"device": -1} | whole[name] | fields))


@creators
@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
        ({"flags": 2}, Status.UNSUPPORTED),
        ({"flags": 1 << 31}, Status.UNSUPPORTED),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        ({"device": 2**31 - 1}, None),
    ],
    ids=str,
)
def test_a_bad_desc_is_refused(
    capture: Capture, device: Library, name: str, fields: dict[str, int], status: int | None
) -> None:
    device.refuses(status, name, byref(desc_of(name, capture, **fields)), byref(c_void_p()))


def call_with(library: Library, name: str, handle: int | None) -> None:
    """A call over a handle that is none, its other arguments fit to be written to."""
    room = (c_uint64 * 8)()
    others = [byref(room) if p in "ps" else 0 for p in SIGNATURES[name][2:]]
    library.refuses(Status.BAD_HANDLE, name, handle, *others)


HANDLES = [
    *("capturer_begin", "capturer_end", "captured_is_valid", "graph_from_captured", "graph_stream", "graph_launcher"),
    *("graph_last_node", "launcher_launch", "launcher_synchronize", "launcher_stream", "launcher_set_logical_size"),
    *("launcher_kernel_node_count",),
    *(pytest.param(f"fork_{n}", marks=forks) for n in ("fork", "join", "branch", "origin", "forked", "size")),
]


@pytest.mark.parametrize("name", HANDLES)
def test_the_null_handle_is_a_bad_handle(device: Library, isolate: Isolate, name: str) -> None:
    isolate(call_with, name, None)


def released_handles(library: Library, kind: str) -> None:
    """Calls over handles that were given back."""
    capture = Capture(library)
    handle = created(library, f"{kind}_create", desc_of(f"{kind}_create", capture))
    library.call(f"{kind}_release", handle)
    call_with(
        library, {"capturer": "capturer_begin", "fork": "fork_fork", "graph": "graph_last_node"}[kind], handle.value
    )
    library.call(f"{kind}_release", None)


@pytest.mark.parametrize("kind", ["capturer", "graph", pytest.param("fork", marks=forks)])
def test_a_released_handle_is_a_bad_handle(device: Library, isolate: Isolate, kind: str) -> None:
    isolate(released_handles, kind)


def release_null(library: Library, name: str) -> None:
    """A release of NULL."""
    library.call(name, None)


@pytest.mark.parametrize(
    "name",
    [
        *("capturer_release", "captured_release", "graph_release", "launcher_release"),
        pytest.param("fork_release", marks=forks),
    ],
)
def test_release_takes_null(device: Library, isolate: Isolate, name: str) -> None:
    isolate(release_null, name)


def test_a_capture_given_up_leaves_the_stream_free(device: Library, make: Make) -> None:
    planes, capture = make(N), Capture(device)
    capture.begin()
    planes.launch(stream=capture.raw)
    device.call("capturer_release", capture.capturer)
    planes.launch(stream=capture.raw)
    device.ok("stream_synchronize", capture.stream)
    planes.expect(0, N)
    device.call("stream_release", capture.stream)
