# SPDX-License-Identifier: Apache-2.0
"""Group conditional, seen through replays."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from ctypes import addressof, byref, c_int32, c_uint64, c_void_p
from typing import Any

import pytest

from eagle_conformance.captures import UNCAPPED, Capture, Condition, ConditionalDesc, nodes_of, number
from eagle_conformance.launches import Visits
from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import SIGNATURES, Library, Status

pytestmark = [
    *(pytest.mark.eagle_group(name) for name in ("stream", "exec", "capturer", "captured", "graph", "launcher")),
    pytest.mark.eagle_group("conditional"),
]
minor_5 = pytest.mark.eagle_symbols("conditional_arm_stream")
Isolate = Callable[..., Any]
Make = Callable[..., Visits]
N = 300
IF_ELSE_BIT, SWITCH_BIT = 13, 14


class Cells:
    """uint32 cells where the library reads them, by name."""

    NAMES = ("count", "baseline", "limit", "brk", "left", "ran", "one")

    def __init__(self, library: Library, quirks: Quirks) -> None:
        self.library, self.quirks = library, quirks
        self.start = quirks.allocate(library, 4 * len(self.NAMES))
        for name in self.NAMES:
            self[name] = 1 if name == "one" else 0

    def at(self, name: str) -> int:
        return self.start + 4 * self.NAMES.index(name)

    def __setitem__(self, name: str, value: int) -> None:
        self.quirks.write(self.library, self.at(name), struct.pack("=I", value))

    def __getitem__(self, name: str) -> int:
        return int(struct.unpack("=I", self.quirks.read(self.library, self.at(name), 4))[0])


@pytest.fixture
def cells(device: Library, quirks: Quirks) -> Iterator[Cells]:
    """Cells for guards and loops."""
    made = Cells(device, quirks)
    yield made
    quirks.free(device, made.start)


def needs_bit(library: Library, kind: int) -> bool:
    """Whether the kind is accepted."""
    bit = {Condition.IF_ELSE: IF_ELSE_BIT, Condition.SWITCH: SWITCH_BIT}.get(Condition(kind))
    return bit is None or bool(library.capabilities >> bit & 1)


# ---- what runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, pytest.param(Condition.IF, marks=minor_5)])
def test_if_reads_its_guard_at_each_replay(capture: Capture, make: Make, cells: Cells, kind: int) -> None:
    planes, visits = make(N), 0
    guard = capture.conditional(kind, count_ptr=cells.at("count"), baseline_ptr=cells.at("baseline"))
    assert number(capture.library, "conditional_is_loop", guard.handle, kind=c_int32) == 0
    with capture.recording() as launcher, guard.open() as body:
        assert body == number(capture.library, "conditional_body_stream", guard.handle)
        planes.launch(stream=body)
    for count, baseline in [(0, 0), (1, 0), (0, 0), (7, 7), (7, 6), (0, 3)]:
        cells["count"], cells["baseline"] = count, baseline
        launcher.replay()
        visits += count != baseline
        planes.expect(0, N, visits=visits) if visits else planes.expect(0, 0)


@minor_5
def test_a_negated_guard_and_no_baseline(capture: Capture, make: Make, cells: Cells) -> None:
    planes = make(N)
    guard = capture.conditional(Condition.IF, count_ptr=cells.at("count"), negate=1)
    with capture.recording() as launcher, guard.open() as body:
        planes.launch(stream=body)
    cells["count"] = 5
    launcher.replay()
    planes.expect(0, 0)
    cells["count"] = 0
    launcher.replay(2)
    planes.expect(0, N, visits=2)


@minor_5
def test_if_else_runs_one_of_two(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    if not needs_bit(device, Condition.IF_ELSE):
        desc = ConditionalDesc(device=-1, origin=capture.raw, kind=Condition.IF_ELSE)
        return device.refuses(None, "conditional_create", byref(desc), byref(c_void_p()))
    then, other = make(N), make(N)
    guard = capture.conditional(Condition.IF_ELSE, count_ptr=cells.at("count"))
    with capture.recording() as launcher, guard.open():
        then.launch(stream=guard.arm(0))
        other.launch(stream=guard.arm(1))
    for count in (0, 0, 1, 0):
        cells["count"] = count
        launcher.replay()
    then.expect(0, N, visits=1)
    other.expect(0, N, visits=3)


@minor_5
def test_switch_runs_the_arm_of_its_cell_or_none(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    if not needs_bit(device, Condition.SWITCH):
        desc = ConditionalDesc(device=-1, origin=capture.raw, kind=Condition.SWITCH, arms=2, count_ptr=8)
        return device.refuses(None, "conditional_create", byref(desc), byref(c_void_p()))
    arms = [make(N) for _ in range(3)]
    choice = capture.conditional(Condition.SWITCH, arms=3, count_ptr=cells.at("count"))
    with capture.recording() as launcher, choice.open():
        for i, planes in enumerate(arms):
            planes.launch(stream=choice.arm(i))
    for value in (0, 1, 1, 2, 2, 2, 3, 2**32 - 1):
        cells["count"] = value
        launcher.replay()
    for visits, planes in enumerate(arms, 1):
        planes.expect(0, N, visits=visits)
    device.refuses(Status.INDEX, "conditional_arm_stream", choice.handle, 3, byref(c_uint64()))


@pytest.mark.parametrize("cap", [1, 2, 7])
def test_a_counted_loop(capture: Capture, make: Make, cells: Cells, cap: int) -> None:
    planes = make(N)
    loop = capture.conditional(0, counter_ptr=cells.at("left"), loop_cap=cap)
    assert number(capture.library, "conditional_is_loop", loop.handle, kind=c_int32) == 1
    with capture.recording() as launcher, loop.open() as body:
        planes.launch(stream=body)
    launcher.replay()
    assert (cells["left"], cells["ran"]) == (0, cap)
    planes.expect(0, N, visits=cap)
    launcher.replay()
    planes.expect(0, N, visits=2 * cap)


@minor_5
@pytest.mark.parametrize(("cap", "limit", "ran"), [(9, 4, 4), (3, 8, 3), (5, 0, 0), (4, 4, 4), (UNCAPPED, 2, 2)])
def test_a_loop_ends_at_its_limit(capture: Capture, make: Make, cells: Cells, cap: int, limit: int, ran: int) -> None:
    planes = make(N)
    loop = capture.conditional(Condition.WHILE, counter_ptr=cells.at("left"), loop_cap=cap, limit_ptr=cells.at("limit"))
    cells["limit"] = limit
    with capture.recording() as launcher, loop.open() as body:
        planes.launch(stream=body)
    launcher.replay()
    assert (cells["left"], cells["ran"]) == (cap - ran, ran)
    planes.expect(0, N, visits=ran) if ran else planes.expect(0, 0)


@minor_5
def test_a_loop_clears_its_brk_first(capture: Capture, make: Make, cells: Cells) -> None:
    planes = make(N)
    loop = capture.conditional(Condition.WHILE, counter_ptr=cells.at("left"), loop_cap=4, brk_ptr=cells.at("brk"))
    with capture.recording() as launcher, loop.open() as body:
        planes.launch(stream=body)
    cells["brk"] = 5
    launcher.replay()
    assert (cells["left"], cells["ran"], cells["brk"]) == (0, 4, 0)
    planes.expect(0, N, visits=4)


@minor_5
@pytest.mark.eagle_symbols("memcpy_device")
def test_a_loop_ends_when_its_brk_is_set(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    planes = make(N)
    loop = capture.conditional(Condition.WHILE, counter_ptr=cells.at("left"), loop_cap=9, brk_ptr=cells.at("brk"))
    with capture.recording() as launcher, loop.open() as body:
        planes.launch(stream=body)
        device.ok("memcpy_device", cells.at("brk"), cells.at("one"), 4, body)
    launcher.replay()
    assert (cells["left"], cells["ran"], cells["brk"]) == (8, 1, 1)
    planes.expect(0, N)
    cells["one"] = 0
    launcher.replay()
    assert (cells["left"], cells["ran"], cells["brk"]) == (0, 9, 0)
    planes.expect(0, N, visits=10)


@minor_5
@pytest.mark.eagle_symbols("memset_device")
def test_a_loop_ends_with_its_guard(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    planes = make(N)
    loop = capture.conditional(
        Condition.WHILE, counter_ptr=cells.at("left"), loop_cap=UNCAPPED, count_ptr=cells.at("count")
    )
    with capture.recording() as launcher, loop.open() as body:
        planes.launch(stream=body)
        device.ok("memset_device", cells.at("count"), 4, body)
    launcher.replay()
    assert (cells["left"], cells["ran"]) == (UNCAPPED, 0)
    cells["count"] = 1
    launcher.replay()
    assert (cells["left"], cells["ran"]) == (UNCAPPED - 1, 1)
    planes.expect(0, N)


@minor_5
def test_a_loop_in_an_arm(capture: Capture, make: Make, cells: Cells) -> None:
    planes = make(N)
    guard = capture.conditional(Condition.IF, count_ptr=cells.at("count"))
    origin = number(capture.library, "conditional_body_stream", guard.handle)
    loop = capture.conditional(Condition.WHILE, origin=origin, counter_ptr=cells.at("left"), loop_cap=3)
    with capture.recording() as launcher, guard.open() as body:
        planes.launch(stream=body)
        with loop.open() as inner:
            planes.launch(stream=inner)
    launcher.replay()
    planes.expect(0, 0)
    cells["count"] = 1
    launcher.replay()
    planes.expect(0, N, visits=4)


@pytest.mark.eagle_symbols("conditional_nodes")
def test_nodes_of_arms_and_setters_are_told(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    planes = make(N)
    loop = capture.conditional(0, counter_ptr=cells.at("left"), loop_cap=3)
    with capture.recording(), loop.open() as body:
        planes.launch(stream=body)
        planes.launch(stream=body)
    assert len(nodes_of(device, "conditional_nodes", loop.handle, 0)) >= 2
    assert len(nodes_of(device, "conditional_nodes", loop.handle, -1)) == 2
    for which in (1, -2):
        device.refuses(Status.INDEX, "conditional_nodes", loop.handle, which, byref(c_void_p()), byref(c_uint64()))


@pytest.mark.eagle_symbols("conditional_nodes", "launcher_set_kernel_params")
def test_a_guard_is_moved_through_its_setter(capture: Capture, make: Make, cells: Cells, device: Library) -> None:
    planes = make(N)
    guard = capture.conditional(0, count_ptr=cells.at("count"))
    with capture.recording() as launcher, guard.open() as body:
        planes.launch(stream=body)
    (setter,) = nodes_of(device, "conditional_nodes", guard.handle, -1)
    pair = (c_uint64 * 2)(cells.at("one"), 0)
    params = (c_uint64 * 2)(0, addressof(pair))
    device.ok("launcher_set_kernel_params", launcher.handle, setter, params, 2)
    launcher.replay()
    planes.expect(0, N)
    cells["one"] = 0
    launcher.replay()
    planes.expect(0, N)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
        ({"flags": 1}, Status.UNSUPPORTED),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        pytest.param({"kind": 9}, Status.UNSUPPORTED, marks=minor_5),
        pytest.param({"kind": Condition.IF, "arms": 2}, Status.INVALID_ARGUMENT, marks=minor_5),
        pytest.param({"kind": Condition.WHILE, "loop_cap": 1}, Status.INVALID_ARGUMENT, marks=minor_5),
        pytest.param({"kind": Condition.WHILE, "counter_ptr": 64}, Status.INVALID_ARGUMENT, marks=minor_5),
        pytest.param({"kind": Condition.SWITCH, "arms": 2}, None, marks=minor_5),
        pytest.param({"kind": Condition.SWITCH, "count_ptr": 64}, None, marks=minor_5),
    ],
    ids=str,
)
def test_a_bad_desc_is_refused(capture: Capture, device: Library, fields: dict[str, int], status: int | None) -> None:
    desc = ConditionalDesc(**({"device": -1, "origin": capture.raw} | fields))
    device.refuses(status, "conditional_create", byref(desc), byref(c_void_p()))


@pytest.mark.parametrize("loop", [False, True])
def test_an_arm_without_work_is_refused(capture: Capture, cells: Cells, device: Library, loop: bool) -> None:
    fields = {"counter_ptr": cells.at("left"), "loop_cap": 2} if loop else {"count_ptr": cells.at("count")}
    empty = capture.conditional(0, **fields)
    capture.begin()
    number(device, "conditional_begin", empty.handle)
    device.refuses(Status.INVALID_ARGUMENT, "conditional_end", empty.handle)


def test_a_conditional_begins_within_a_capture_only(capture: Capture, device: Library) -> None:
    guard = capture.conditional(0)
    device.refuses(None, "conditional_begin", guard.handle, byref(c_uint64()))


def call_null(library: Library, name: str) -> None:
    """A call over the NULL handle."""
    room = (c_uint64 * 8)()
    library.refuses(Status.BAD_HANDLE, name, None, *(byref(room) if p == "p" else 0 for p in SIGNATURES[name][2:]))


@pytest.mark.parametrize("name", ["begin", "body_stream", "is_loop", "end"])
def test_the_null_handle_is_a_bad_handle(device: Library, isolate: Isolate, name: str) -> None:
    isolate(call_null, f"conditional_{name}")


def release_null(library: Library) -> None:
    """conditional_release(NULL)."""
    library.call("conditional_release", None)


def test_release_takes_null(device: Library, isolate: Isolate) -> None:
    isolate(release_null)
