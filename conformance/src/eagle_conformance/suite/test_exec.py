# SPDX-License-Identifier: Apache-2.0
"""Group exec."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from ctypes import POINTER, byref, c_int32, c_uint64
from pathlib import Path
from typing import Any

import pytest

from eagle_conformance.launches import Visits
from eagle_conformance.quirks import HostQuirks
from eagle_conformance.seam import LaunchDesc, Library, Status
from eagle_conformance.structs import oversized

pytestmark = pytest.mark.eagle_group("exec")
Isolate = Callable[..., Any]
Make = Callable[..., Visits]

COUNTS = [0, 1, 7, 31, 32, 33, 1000, 100003]
BLOCKS = [1, 32, 100, 256]  # threads on a device (1024 is the most), grain in samples on the host


# ---- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("base", [0, 1, 32, 77])
def test_a_launch_runs_each_sample_of_its_range_once(make: Make, base: int, count: int, block: int) -> None:
    planes = make(base + count + 5)
    assert planes.launch(base=base, count=count, block=block) == int(count > 0)
    planes.expect(base, count)


def test_partitions_cover_a_batch(make: Make) -> None:
    planes = make(10007)
    cuts = [0, 1, 33, 4096, 10000, 10007]
    for base, end in zip(cuts, cuts[1:], strict=False):
        planes.launch(base=base, count=end - base)
    planes.expect(0, 10007)


def test_launches_of_one_stream_run_one_after_another(make: Make) -> None:
    planes = make(1000)
    for _ in range(50):
        planes.launch(block=32)
    planes.expect(0, 1000, visits=50)


@pytest.mark.parametrize("count", [0, -1, -(2**40)])
def test_no_samples_launch_nothing(make: Make, count: int) -> None:
    planes = make(100)
    assert planes.launch(count=count) == 0
    planes.expect(0, 0)


def test_arguments_are_values_and_n_samples_is_the_callers(make: Make) -> None:
    planes = make(100, step=2**31 + 5)
    planes.launch(n_samples=2**40 + 1)
    planes.expect(0, 100, visits=2**31 + 5, n_samples=2**40 + 1)


def test_param_sizes_may_be_null(make: Make) -> None:
    planes = make(100)
    assert planes.launch(param_sizes=POINTER(c_uint64)()) == 1
    planes.expect(0, 100)


@pytest.mark.eagle_host
def test_a_grain_above_the_batch_covers_it(make: Make) -> None:
    planes = make(1000)
    assert planes.launch(block=2**32 - 1) == 1
    planes.expect(0, 1000)


# ---- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"block": 0}, None),
        ({"function": 0}, None),
        ({"nparams": -1}, None),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        ({"flags": 1}, Status.UNSUPPORTED),
        ({"flags": 1 << 31}, Status.UNSUPPORTED),
        ({"struct_size": 0}, Status.INVALID_ARGUMENT),
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
        ({"struct_size": 12}, None),  # everything but device is 0: no function
        ({"device": 2**31 - 1}, None),
    ],
    ids=str,
)
def test_a_bad_launch_is_refused_and_runs_nothing(make: Make, fields: dict[str, int], status: int | None) -> None:
    make(100).refused(status, **fields)


def test_a_longer_desc_is_accepted(make: Make, device: Library) -> None:
    planes, launched = make(100), c_int32(-77)
    device.ok("run_device", oversized(planes.desc()), byref(launched))
    assert launched.value == 1
    planes.expect(0, 100)


def launch_without(library: Library, folder: str, missing: str) -> None:
    """run_device with one pointer NULL."""
    quirks = HostQuirks()
    planes = Visits(library, quirks, quirks.entry(library, Path(folder)), 100)
    desc = planes.desc(params=POINTER(c_uint64)()) if missing == "params" else planes.desc()
    library.refuses(
        None,
        "run_device",
        None if missing == "desc" else byref(desc),
        None if missing == "launched" else byref(c_int32()),
    )


@pytest.mark.eagle_host
@pytest.mark.parametrize("missing", ["desc", "launched", "params"])
def test_a_launch_refuses_null(make: Make, isolate: Isolate, image_folder: Path, missing: str) -> None:
    isolate(launch_without, str(image_folder), missing)


def launch_nothing_without_a_desc(library: Library) -> None:
    """run_device(NULL, NULL), and a desc of zeros."""
    library.refuses(None, "run_device", None, None)
    library.refuses(None, "run_device", byref(LaunchDesc(count=1)), byref(c_int32()))


def test_a_launch_refuses_null_on_every_kind(device: Library, isolate: Isolate) -> None:
    isolate(launch_nothing_without_a_desc)


# ---- threads, fork ---------------------------------------------------------------------------------------------------


def test_concurrent_launches_are_exact(make: Make) -> None:
    threads, rounds, n = 6, 40, 5003
    planes = [make(n) for _ in range(threads)]
    failures: list[BaseException] = []

    def work(mine: Visits) -> None:
        try:
            for _ in range(rounds):
                mine.launch(block=64)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in planes]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    for mine in planes:
        mine.expect(0, n, visits=rounds)


FORK_LIMIT_S = 20


def launch_fork_launch(library: Library, folder: str) -> str:
    """Launches, forks, launches in the child; how the child ends."""
    quirks = HostQuirks()
    planes = Visits(library, quirks, quirks.entry(library, Path(folder)), 100003)
    planes.launch(block=64)
    child = os.fork()
    if child == 0:
        try:
            planes.launch(block=64)
            planes.expect(0, 100003, visits=2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + FORK_LIMIT_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            planes.launch(block=64)
            planes.expect(0, 100003, visits=2)
            return "launched" if status == 0 else f"wait status {status}"
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"no end within {FORK_LIMIT_S} s"


@pytest.mark.eagle_host
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs-toolkit: this system has no fork")
def test_a_forked_child_launches(make: Make, isolate: Isolate, image_folder: Path) -> None:
    assert isolate(launch_fork_launch, str(image_folder)) == "launched"
