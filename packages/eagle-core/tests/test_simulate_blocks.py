# SPDX-License-Identifier: Apache-2.0
"""max_memory=: batches are stepped block by block, with the same bits, and files in place."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simulate_kernels as ks

import eagle

N = 5000


def planes(n: int = N) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    return {"rate": rng.uniform(0.2, 0.97, n), "y": rng.uniform(0.05, 2.0, n), "hits": np.zeros(n)}


def expected(n: int = N, cap: int = 10**6) -> tuple[dict[str, np.ndarray[Any, Any]], eagle.SimResult]:
    whole = planes(n)
    return whole, eagle.simulate(ks.decay, floor=0.1, max_steps=cap, **whole)


def on_disk(folder: Path, arrays: dict[str, Any], mode: str = "r+") -> dict[str, np.ndarray[Any, Any]]:
    """The arrays as memory maps of files."""
    maps = {}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        maps[name] = np.lib.format.open_memmap(folder / f"{name}.npy", mode=mode)
    return maps


@pytest.mark.parametrize("most", [7000, 20_000, 60_001, 10**9])
@pytest.mark.parametrize("cap", [5, 1000])
def test_blocks_change_no_bit_of_a_batch(tmp_path: Path, most: int, cap: int) -> None:
    whole, all_at_once = expected(cap=cap)
    for given in (planes(), on_disk(tmp_path, planes())):
        r = eagle.simulate(ks.decay, floor=0.1, max_steps=cap, max_memory=most, **given)
        assert r.y is given["y"] and (given["y"] == whole["y"]).all() and (given["hits"] == whole["hits"]).all()
        assert (r.finished == all_at_once.finished).all()
        assert (r.n, r.steps, r.done, r.status) == (N, all_at_once.steps, all_at_once.done, all_at_once.status)
        assert (r.report.finished, r.report.exact_steps) == (all_at_once.report.finished, True)
        assert r.report.launches_by_k == all_at_once.report.launches_by_k
    del r, given
    assert (np.load(tmp_path / "y.npy") == whole["y"]).all()  # it is in the file


def test_maps_and_arrays_may_be_mixed(tmp_path: Path) -> None:
    whole, _ = expected()
    given = planes() | on_disk(tmp_path, {"y": planes()["y"]}) | on_disk(tmp_path, {"rate": planes()["rate"]}, "r")
    eagle.simulate(ks.decay, floor=0.1, max_steps=10**6, max_memory=9000, **given)
    assert (given["y"] == whole["y"]).all() and (given["hits"] == whole["hits"]).all()


def test_private_maps_keep_what_is_written(tmp_path: Path) -> None:
    whole, _ = expected()
    given = on_disk(tmp_path, planes(), "c")
    eagle.simulate(ks.decay, floor=0.1, max_steps=10**6, max_memory=9000, **given)
    assert (given["y"] == whole["y"]).all()
    assert (np.load(tmp_path / "y.npy") == planes()["y"]).all()


def test_a_private_map_dressed_as_memmap_keeps_what_is_written(tmp_path: Path) -> None:
    whole, _ = expected()
    with open(tmp_path / "y", "w+b") as file:
        file.write(planes()["y"].tobytes())
        file.flush()
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    for y in (np.frombuffer(held, float).view(np.memmap), np.ndarray.__new__(np.memmap, (N,), float, buffer=held)):
        y[:] = planes()["y"]
        eagle.simulate(ks.decay, floor=0.1, max_steps=10**6, max_memory=9000, **planes() | {"y": y})
        assert (y == whole["y"]).all()


@pytest.mark.parametrize("how", ["component-major", "samples first", "slice"])
def test_vectors_in_blocks(tmp_path: Path, how: str) -> None:
    n = 1000
    rng = np.random.default_rng(5)
    w, p, stop = rng.uniform(-1, 1, (2, n)), rng.uniform(-1, 1, (2, n)), np.floor(rng.uniform(1, 30, n))
    p_ = p.copy()
    eagle.simulate(ks.turning, w, stop, p_, np.zeros(n), max_steps=99)
    if how == "samples first":
        maps = on_disk(tmp_path, {"w": np.ascontiguousarray(w.T), "p": np.ascontiguousarray(p.T)})
        with pytest.warns(eagle.LayoutWarning):
            eagle.simulate(ks.turning, maps["w"], stop, maps["p"], np.zeros(n), max_steps=99, max_memory=5000)
        assert (p_ == maps["p"].T).all()
        return
    maps = on_disk(tmp_path, {"w": w, "p": np.concatenate([p, p, p])})
    part = maps["p"][2:4] if how == "slice" else on_disk(tmp_path, {"p": p})["p"]
    eagle.simulate(ks.turning, maps["w"], stop, part, np.zeros(n), max_steps=99, max_memory=5000)
    assert (part == p_).all()
    if how == "slice":
        assert (np.load(tmp_path / "p.npy") == np.concatenate([p, p_, p])).all()


def test_what_is_left_out_one_sample_and_none() -> None:
    n = 100
    rate = np.linspace(0.1, 0.9, n)
    r = eagle.simulate(ks.squares, rate=rate, floor=0.1, y=np.ones(n), max_steps=99, max_memory=2000)
    assert r.allocated == ("e",) and (r.e == r.y * r.y).all()
    r = eagle.simulate(ks.squares, rate=0.5, floor=0.1, y=1.0, max_steps=99, max_memory=2000)
    assert r.y.shape == r.e.shape == r.finished.shape == () and r.y == 0.0625 and r.e == 0.0625**2 and r.finished
    r = eagle.simulate(ks.decay, np.ones(0), 0.1, np.ones(0), np.ones(0), max_steps=99, max_memory=2000)
    assert (r.n, r.done, r.steps, r.report.launches) == (0, True, 0, 0)


def test_a_step_of_several_kernels() -> None:
    n = 500
    rate = np.linspace(0.2, 0.9, n)
    y, y_ = np.ones(n), np.ones(n)
    model = [ks.shrinks, ks.gauges]
    a = eagle.simulate(model, y=y, rate=rate, floor=0.1, until=ks.below, max_steps=99)
    b = eagle.simulate(model, y=y_, rate=rate, floor=0.1, until=ks.below, max_steps=99, max_memory=8000)
    assert (a.steps, a.done) == (b.steps, b.done) == (22, True) and (a.y == b.y).all() and (a.e == b.e).all()
    steps = np.round(np.log(b.y) / np.log(rate))
    assert steps.min() == 2 and steps.max() == 22 and (b.e == b.y * b.y).all()


@pytest.mark.parametrize("held", [7, 90])
def test_steps_that_one_block_does_not_know_are_not_known(held: int) -> None:
    """All that are left may be held by another mask, whichever block they are in."""
    for rejected, known in ((np.arange(100) == held, False), (np.zeros(100, bool), True)):
        y, e = np.ones((2, 100))
        r = eagle.simulate([ks.two_masks, ks.gauges], y=y, e=e, rejected=rejected, max_steps=10, max_memory=1000)
        assert (r.report.finished, r.report.exact_steps) == (100 - rejected.sum(), known)
        assert (y == np.where(rejected, 1.0, 0.0625)).all() and (r.steps == 4 or not known)


def test_a_kernel_that_goes_on_until_the_whole_batch_is_done_is_refused() -> None:
    y, rate = np.ones(10), np.full(10, 0.5)
    for model, name in (([ks.shrink, ks.gauges], "shrink"), ([ks.shrinks, ks.gauge], "gauge")):
        with pytest.raises(ValueError, match=rf"^eagle.simulate: max_memory, kernel '{name}': found one without the "
                           "finish mask 'terminated', .*; declare terminated: Terminated in it, or leave"):
            eagle.simulate(model, y=y, rate=rate, floor=0.1, until=ks.below, max_steps=9, max_memory=10**6)
    assert (y == 1.0).all()


def test_progress_counts_all_blocks() -> None:
    told: list[tuple[int, int, int]] = []
    _, whole = expected()
    eagle.simulate(ks.decay, floor=0.1, max_steps=10**6, max_memory=20_000, **planes(),
                   progress=lambda *now: told.append(now))
    assert told == sorted(told) and len(told) > 2 and told[-1][:2] == (N, N)
    assert told[-1][2] >= whole.hits.sum()


def test_an_exception_leaves_blocks_as_they_are() -> None:
    given, before = planes(), planes()
    whole, _ = expected()

    def stop(done: int, n: int, steps: int) -> None:
        if done > 1000:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        eagle.simulate(ks.decay, floor=0.1, max_steps=10**6, max_memory=20_000, **given, progress=stop)
    touched = np.flatnonzero(given["hits"])
    assert 0 < touched.max() < N - 1
    assert (given["y"][touched.max() + 1:] == before["y"][touched.max() + 1:]).all()
    y = before["y"]
    for i in touched:  # each sample is at a step boundary
        for _ in range(int(given["hits"][i])):
            y[i] *= before["rate"][i]
    assert (y == given["y"]).all()


def test_refusals() -> None:
    given = planes(10)
    for most, error, text in ((True, TypeError, "found True"), ("1e9", TypeError, "found '1e9'"),
                              (0, ValueError, "found 0"), (-1, ValueError, "found -1"),
                              (30, ValueError, "found 20 bytes beside .* 10 samples, wanted .* for one sample")):
        with pytest.raises(error, match=rf"^eagle.simulate: max_memory: {text}"):
            eagle.simulate(ks.decay, floor=0.1, max_steps=9, max_memory=most, **given)
    node = eagle.opaque(lambda: None, reads=[given["y"]])
    with pytest.raises(ValueError, match=r"^eagle.simulate: max_memory: found a step with nodes"):
        eagle.simulate([ks.halving, node], y=given["y"], floor=0.1, max_steps=9, max_memory=10**6)
    for model, name in (([ks.collect, ks.halving], "collect"), ([ks.total, ks.halving], "total"),
                        (ks.on_grid, "on_grid"), (ks.counts_samples, "counts_samples"), (ks.own_index, "own_index")):
        with pytest.raises(ValueError, match=rf"^eagle.simulate: max_memory, kernel '{name}': found one"):
            eagle.simulate(model, y=given["y"], floor=0.1, max_steps=9, max_memory=10**6)
    with pytest.raises(TypeError, match="max_memory"):
        eagle.simulation(ks.decay, floor=0.1, max_steps=9, max_memory=10**6, **given)


PEAK = """
import sys
import numpy as np
import simulate_kernels as ks
import eagle

folder, n, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = ("rate", "y", "hits")
eagle.simulate(ks.decay, floor=0.1, max_steps=99, **{name: np.full(2**14, 0.5) for name in names}, max_memory=10**6)
open("/proc/self/clear_refs", "w").write("5")  # the peak starts anew

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

before = status("VmRSS")
maps = {name: np.lib.format.open_memmap(f"{folder}/{name}.npy", mode="r" if name == "rate" else "r+") for name in names}
r = eagle.simulate(ks.decay, floor=0.1, max_steps=99, max_memory=most, **maps)
print(status("VmHWM") - before, r.steps, r.report.finished)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs-toolkit: the peak of memory is in /proc")
def test_a_batch_of_several_times_the_memory(tmp_path: Path) -> None:
    n, most = 3_000_000, 16 * 2**20
    rng = np.random.default_rng(9)
    arrays = {"rate": rng.uniform(0.2, 0.9, n), "y": rng.uniform(0.5, 2.0, n), "hits": np.zeros(n)}
    on_disk(tmp_path, arrays)
    assert sum(array.nbytes for array in arrays.values()) > 4 * most
    peak, steps, finished = map(int, subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path), str(n), str(most)], text=True, capture_output=True, check=True,
        cwd=Path(__file__).parent).stdout.split())
    assert most // 4 < peak < most + 2**20
    r = eagle.simulate(ks.decay, floor=0.1, max_steps=99, **arrays)
    assert (steps, finished) == (r.steps, n)
    for name in arrays:
        assert (np.load(tmp_path / f"{name}.npy", mmap_mode="r") == arrays[name]).all()
