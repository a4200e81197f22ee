# SPDX-License-Identifier: Apache-2.0
"""The capture groups in ctypes: their descs, and handles that tests capture and replay with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p, cast
from enum import IntEnum
from typing import Any

from eagle_conformance.seam import Library, StreamDesc, Struct

UNCAPPED = 0xFFFFFFFF


class Condition(IntEnum):
    """Kinds of conditionals; 0 lets the counter decide."""

    IF = 1
    IF_ELSE = 2
    WHILE = 3
    SWITCH = 4


class CapturerDesc(Struct):
    """eagle_capturer_desc."""

    _fields_ = [*StreamDesc._fields_, ("stream", c_uint64)]


class ForkDesc(Struct):
    """eagle_fork_desc."""

    _fields_ = [*StreamDesc._fields_, ("origin", c_uint64), ("branch_count", c_uint64), ("wait_count", c_uint64)]


class ConditionalDesc(Struct):
    """eagle_conditional_desc."""

    _fields_ = [
        ("struct_size", c_uint32),
        ("flags", c_uint32),
        ("device", c_int32),
        ("loop_cap", c_uint32),
        ("origin", c_uint64),
        ("count_ptr", c_uint64),
        ("baseline_ptr", c_uint64),
        ("counter_ptr", c_uint64),
        ("kind", c_uint32),
        ("arms", c_uint32),
        ("negate", c_uint32),
        ("reserved", c_uint32),
        ("brk_ptr", c_uint64),
        ("limit_ptr", c_uint64),
    ]


class GraphDesc(Struct):
    """eagle_graph_desc."""

    _fields_ = StreamDesc._fields_


STRUCTS: dict[str, type[Struct]] = {
    "eagle_capturer_desc": CapturerDesc,
    "eagle_fork_desc": ForkDesc,
    "eagle_conditional_desc": ConditionalDesc,
    "eagle_graph_desc": GraphDesc,
}


def created(library: Library, name: str, desc: Struct) -> c_void_p:
    """The handle a ``*_create`` makes."""
    handle = c_void_p()
    library.ok(name, byref(desc), byref(handle))
    assert handle.value
    return handle


def number(library: Library, name: str, *arguments: Any, kind: Any = c_uint64) -> int:
    """What a call writes to its last parameter."""
    found = kind(77)
    library.ok(name, *arguments, byref(found))
    return int(found.value)


def nodes_of(library: Library, name: str, *arguments: Any) -> list[int]:
    """The nodes a call gives, its array given back."""
    nodes, count = c_void_p(), c_int64(-1)
    library.ok(name, *arguments, byref(nodes), byref(count))
    assert count.value >= 0
    found = cast(nodes, POINTER(c_uint64))[: count.value] if count.value else []
    library.call("free", nodes)
    return found


class Capture:
    """A stream with its capturer, and all that was made on it; `close` gives it back."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._made: list[tuple[str, c_void_p]] = []
        self.stream = self._own("stream", StreamDesc(device=-1))
        self.raw = number(library, "stream_ptr", self.stream)
        self.capturer = self._own("capturer", CapturerDesc(device=-1, stream=self.raw))

    def _own(self, kind: str, desc: Struct) -> c_void_p:
        handle = created(self.library, f"{kind}_create", desc)
        self._made.append((f"{kind}_release", handle))
        return handle

    def fork(self, branches: int, waits: int = 0, origin: int | None = None) -> Fork:
        """A fork of this stream, or of another origin."""
        desc = ForkDesc(device=-1, origin=origin or self.raw, branch_count=branches, wait_count=waits)
        return Fork(self.library, self._own("fork", desc))

    def conditional(self, kind: int, origin: int | None = None, **fields: int) -> Conditional:
        """A conditional on this stream, or on another origin."""
        desc = ConditionalDesc(device=-1, origin=origin or self.raw, kind=kind, **fields)
        return Conditional(self.library, self._own("conditional", desc))

    def begin(self) -> None:
        """Begins the capture."""
        self.library.ok("capturer_begin", self.capturer)

    def end(self) -> c_void_p:
        """Ends it; the captured handle."""
        captured = c_void_p()
        self.library.ok("capturer_end", self.capturer, byref(captured))
        return captured

    @contextmanager
    def recording(self) -> Iterator[Launcher]:
        """Captures what is enqueued within; the launcher is ready afterwards."""
        launcher = Launcher(self.library)
        self.begin()
        yield launcher
        graph = c_void_p()
        self.library.ok("graph_from_captured", self.end(), byref(graph))
        self._made.append(("graph_release", graph))
        self.library.ok("graph_stream", graph, self.raw)
        self.library.ok("graph_launcher", graph, byref(launcher.handle))
        self._made.append(("launcher_release", launcher.handle))

    def nodes(self) -> list[int]:
        """The nodes captured so far."""
        return nodes_of(self.library, "capture_snapshot_nodes", self.raw)

    def close(self) -> None:
        """Gives everything back, last first."""
        while self._made:
            self.library.call(*self._made.pop())


class Launcher:
    """A launcher, replayed to its end."""

    def __init__(self, library: Library) -> None:
        self.library, self.handle = library, c_void_p()

    def replay(self, times: int = 1) -> None:
        """So many replays, waited for."""
        for _ in range(times):
            self.library.ok("launcher_launch", self.handle)
        self.library.ok("launcher_synchronize", self.handle)

    def seconds(self, nodes: list[int]) -> list[float]:
        """One timed replay."""
        taken = (c_double * len(nodes))(*[-1.0] * len(nodes))
        self.library.ok("launcher_launch_timed", self.handle, (c_uint64 * len(nodes))(*nodes), len(nodes), taken)
        return list(taken)


class Fork:
    """A fork and its branches' raw streams."""

    def __init__(self, library: Library, handle: c_void_p) -> None:
        self.library, self.handle = library, handle
        self.branches = [number(library, "fork_branch", handle, i) for i in range(number(library, "fork_size", handle))]

    @contextmanager
    def forked(self) -> Iterator[list[int]]:
        """The branches, between fork and join."""
        self.library.ok("fork_fork", self.handle)
        yield self.branches
        self.library.ok("fork_join", self.handle)


class Conditional:
    """A conditional and its arms' raw streams."""

    def __init__(self, library: Library, handle: c_void_p) -> None:
        self.library, self.handle = library, handle

    def arm(self, i: int) -> int:
        """The raw stream of an arm."""
        return number(self.library, "conditional_arm_stream", self.handle, i)

    @contextmanager
    def open(self) -> Iterator[int]:
        """Arm 0's stream, between begin and end."""
        yield number(self.library, "conditional_begin", self.handle)
        self.library.ok("conditional_end", self.handle)
