# SPDX-License-Identifier: Apache-2.0
"""Group launcher: what may be changed between replays; and the extensions of captures."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from ctypes import addressof, byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance.blocks import Block
from eagle_conformance.captures import Capture, number
from eagle_conformance.launches import Visits
from eagle_conformance.quirks import HostQuirks, Quirks
from eagle_conformance.seam import HostFunction, Library, Status

pytestmark = [pytest.mark.eagle_group(name) for name in ("stream", "exec", "capturer", "captured", "graph", "launcher")]
attribution = pytest.mark.eagle_group("attribution")
Isolate = Callable[..., Any]
Make = Callable[..., Visits]
N = 1000
HostCallback: Callable[..., Any] = ctypes.CFUNCTYPE(c_int32, c_void_p)


def test_the_kernels_of_a_launcher_are_counted(capture: Capture, make: Make, device: Library) -> None:
    planes = make(N)
    with capture.recording() as launcher:
        for _ in range(3):
            planes.launch(stream=capture.raw)
    assert number(device, "launcher_kernel_node_count", launcher.handle, kind=c_int64) == 3


def test_replays_go_to_the_stream_they_are_told(capture: Capture, make: Make, device: Library) -> None:
    planes, other = make(N), Capture(device)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw)
    for raw in (other.raw, 0, capture.raw):
        device.ok("launcher_stream", launcher.handle, raw)
        launcher.replay()
    planes.expect(0, N, visits=3)
    other.close()


def test_a_logical_size_bounds_the_launches(capture: Capture, make: Make, device: Library) -> None:
    planes = make(N)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw, block=128)
    device.ok("launcher_set_logical_size", launcher.handle, 256)
    launcher.replay()
    planes.expect(0, 256)
    device.ok("launcher_set_logical_size", launcher.handle, 0)  # changes nothing
    launcher.replay()
    planes.expect(0, 256, visits=2)


@attribution
def test_a_node_is_switched_off_and_on(capture: Capture, make: Make, device: Library) -> None:
    first, second = make(N), make(N)
    with capture.recording() as launcher:
        first.launch(stream=capture.raw)
        (node,) = capture.nodes()
        second.launch(stream=capture.raw)
    for on in (0, 1, 0, 0):
        device.ok("launcher_set_node_enabled", launcher.handle, node, on)
        launcher.replay()
    first.expect(0, N)
    second.expect(0, N, visits=4)


@attribution
@pytest.mark.eagle_symbols("launcher_set_kernel_params")
def test_arguments_are_replaced(capture: Capture, make: Make, device: Library) -> None:
    planes, step = make(N), c_uint32(40)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw)
        (node,) = capture.nodes()
    params = (c_uint64 * 3)(0, 0, addressof(step))
    device.ok("launcher_set_kernel_params", launcher.handle, node, params, 3)
    step.value = 77  # it was read
    launcher.replay()
    planes.expect(0, N, visits=40)
    device.ok("launcher_set_kernel_params", launcher.handle, node, params, 2)  # nothing of these
    launcher.replay()
    planes.expect(0, N, visits=80)
    too_many = (c_uint64 * 16)()
    device.refuses(Status.INVALID_ARGUMENT, "launcher_set_kernel_params", launcher.handle, node, too_many, 16)


@attribution
@pytest.mark.eagle_symbols("launcher_set_memcpy_source", "memcpy_device")
def test_the_source_of_a_copy_is_replaced(capture: Capture, device: Library, quirks: Quirks) -> None:
    one, two, target = (Block(device, quirks, bytes([i]) * 77) for i in (1, 2, 3))
    with capture.recording() as launcher:
        device.ok("memcpy_device", target.address, one.address, 77, capture.raw)
        (node,) = capture.nodes()
    device.ok("launcher_set_memcpy_source", launcher.handle, node, two.address)
    launcher.replay()
    assert target.read() == two.read()
    for block in (one, two, target):
        block.free()


@pytest.mark.eagle_symbols("launcher_exec_update")
def test_a_capture_of_the_same_shape_takes_its_place(capture: Capture, make: Make, device: Library) -> None:
    old, new = make(N), make(2 * N)
    with capture.recording() as launcher:
        old.launch(stream=capture.raw)
    capture.begin()
    new.launch(stream=capture.raw)
    same = capture.end()
    assert number(device, "launcher_exec_update", launcher.handle, same, kind=c_int32) == 1
    launcher.replay()
    old.expect(0, 0)
    new.expect(0, 2 * N)
    capture.begin()
    for _ in range(2):
        old.launch(stream=capture.raw)
    other = capture.end()
    assert number(device, "launcher_exec_update", launcher.handle, other, kind=c_int32) == 0
    launcher.replay()
    old.expect(0, 0)
    new.expect(0, 2 * N, visits=2)
    for captured in (same, other):  # not consumed
        assert number(device, "captured_is_valid", captured, kind=c_int32) == 1
        device.call("captured_release", captured)


def test_two_launchers_of_one_graph_are_apart(capture: Capture, make: Make, device: Library) -> None:
    planes, graph, launchers = make(N), c_void_p(), (c_void_p(), c_void_p())
    capture.begin()
    planes.launch(stream=capture.raw, block=128)
    device.ok("graph_from_captured", capture.end(), byref(graph))
    for launcher in launchers:
        device.ok("graph_launcher", graph, byref(launcher))
    device.call("graph_release", graph)
    device.ok("launcher_set_logical_size", launchers[0], 128)
    for launcher in launchers:
        device.ok("launcher_launch", launcher)
        device.ok("launcher_synchronize", launcher)
        device.call("launcher_release", launcher)
    planes.expect_each([(0, 128, 2), (128, N - 128, 1)])


def launch_released(library: Library, folder: str) -> None:
    """A replay by a launcher that was given back."""
    quirks, capture = HostQuirks(), Capture(library)
    planes = Visits(library, quirks, quirks.entry(library, Path(folder)), 64)
    with capture.recording() as launcher:
        planes.launch(stream=capture.raw)
    library.call("launcher_release", launcher.handle)
    library.refuses(Status.BAD_HANDLE, "launcher_launch", launcher.handle)


@pytest.mark.eagle_host
def test_a_released_launcher_is_a_bad_handle(device: Library, isolate: Isolate, image_folder: Path) -> None:
    isolate(launch_released, str(image_folder))


def replay_in_a_child(library: Library, folder: str) -> int:
    """Replays, forks, replays in the child; how the child ends."""
    quirks, capture = HostQuirks(), Capture(library)
    planes = Visits(library, quirks, quirks.entry(library, Path(folder)), 100003)
    with capture.recording() as launcher:
        for _ in range(2):
            planes.launch(stream=capture.raw, block=64)
    launcher.replay()
    child = os.fork()
    if child == 0:
        try:
            launcher.replay()
            planes.expect(0, 100003, visits=4)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.eagle_host
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: this system has no fork")
def test_a_forked_child_replays(device: Library, isolate: Isolate, image_folder: Path) -> None:
    assert isolate(replay_in_a_child, str(image_folder)) == 0


# ---- extensions ------------------------------------------------------------------------------------------------------


@pytest.mark.eagle_symbols("host_call", "host_func")
def test_a_host_call_ends_a_replay(capture: Capture, device: Library) -> None:
    seen: list[str] = []
    answers = [0, 5, 0]
    before, after = HostFunction(lambda _: seen.append("before")), HostFunction(lambda _: seen.append("after"))
    call = HostCallback(lambda _: answers.pop(0))
    with capture.recording() as launcher:
        device.ok("host_func", capture.raw, before, None)
        device.ok("host_call", capture.raw, call, None)
        device.ok("host_func", capture.raw, after, None)
    assert answers == [0, 5, 0]
    launcher.replay()
    device.refuses(Status.CALLBACK_FAILED, "launcher_launch", launcher.handle)
    launcher.replay()
    assert seen == ["before", "after", "before", "before", "after"]


@pytest.mark.eagle_symbols("capture_fuse")
def test_fused_launches_run_each_once_in_order(capture: Capture, make: Make, device: Library) -> None:
    n = 50021
    planes = make(n)
    with capture.recording() as launcher:
        device.ok("capture_fuse", capture.raw, 1)
        for _ in range(3):
            planes.launch(stream=capture.raw, block=1000)
        planes.launch(stream=capture.raw, block=1000, n_samples=n + 7)
        device.ok("capture_fuse", capture.raw, 0)
    launcher.replay(2)
    planes.expect(0, n, visits=8, n_samples=n + 7)


@pytest.mark.eagle_symbols("capture_fuse")
def test_fusing_belongs_to_a_capture(capture: Capture, device: Library) -> None:
    device.refuses(None, "capture_fuse", capture.raw, 1)


@attribution
@pytest.mark.eagle_symbols("launcher_launch_timed")
def test_a_timed_replay_tells_the_time_of_nodes(capture: Capture, make: Make) -> None:
    big, small = make(2_000_000), make(1)
    with capture.recording() as launcher:
        small.launch(stream=capture.raw)
        big.launch(stream=capture.raw)
        nodes = capture.nodes()
    times = [launcher.seconds(nodes) for _ in range(3)]
    assert all(0 <= taken < 60 for seconds in times for taken in seconds)
    assert min(seconds[1] for seconds in times) > min(seconds[0] for seconds in times)
    big.expect(0, 2_000_000, visits=3)
    small.expect(0, 1, visits=3)
