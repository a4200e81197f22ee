# SPDX-License-Identifier: Apache-2.0
"""What keeps a runner's planes whole: turns, stops that come early, planes that moved, Ctrl-C while it copies."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref

import numpy as np
import pytest
import stepping_kernels as ks
from stepping_forms import MODELS, copied

import eagle
from eagle.stepping.binding import Binding

FORM = "RK4 oscillator"


def runner(form: str = FORM, cap: int = 10**9, dist: str = "never", n: int = 1000, **options: object) -> eagle.Runner:
    model = MODELS[form]
    return eagle.until_done(model.plan, max_steps=cap, **options, **model.planes(n, 3, dist))


def test_the_loop_takes_the_runners_turn() -> None:
    run = runner(n=3000)
    thread = threading.Thread(target=run.run)
    thread.start()
    busy = 0
    while not busy and thread.is_alive():
        try:
            run.reset()
        except eagle.Busy:
            busy = 1
    with pytest.raises(eagle.Busy):
        run.loop()
    run.stop()
    thread.join()


def test_the_loop_steps_as_run_does() -> None:
    model = MODELS[FORM]
    one, other = (model.planes(100, 3, "spread") for _ in range(2))
    eagle.until_done(model.plan, max_steps=50, **one).run()
    run = eagle.until_done(model.plan, max_steps=50, **other)
    run.loop()
    assert all(np.array_equal(one[name], other[name]) for name in one)
    other["x"].resize(3, refcheck=False)
    run.terminated[:] = run.finished[:] = 0
    with pytest.raises(eagle.BufferRefused):
        run.loop()


def test_a_progress_function_cannot_step_the_runner_it_is_told_of() -> None:
    met: list[BaseException] = []

    def progress(*_: int) -> None:
        try:
            run.loop()
        except eagle.Busy as error:
            met.append(error)
            run.stop()

    run = runner(progress=progress)
    run.run()
    assert met


@pytest.mark.parametrize("form", [FORM, "integers and a counter"])
@pytest.mark.parametrize("policy", ["auto", "band"])
def test_a_stop_before_the_first_step_counts(form: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It came while the run was getting ready."""
    run = runner(form)
    run.host_policy = policy
    nothing = type(run._engine).nothing

    def late(engine: object) -> object:
        run.stop()
        return nothing(engine)

    monkeypatch.setattr(type(run._engine), "nothing", late)
    began = time.perf_counter()
    assert not run.run().done and time.perf_counter() - began < 10


@pytest.mark.parametrize("form", [FORM, "compacting"])
def test_reset_refuses_a_mask_that_moved_or_is_read_only(form: str) -> None:
    model, mask = MODELS[form], np.ones(50, bool)
    run = eagle.until_done(model.plan, max_steps=5, **model.planes(50, 3, "never"), terminated=mask)
    mask.flags.writeable = False
    with pytest.raises(eagle.BufferRefused, match="terminated"):
        run.reset()
    assert mask.all()
    mask.flags.writeable = True
    mask.resize(3, refcheck=False)
    with pytest.raises(eagle.BufferRefused, match="terminated"):
        run.reset()


@pytest.mark.parametrize("reorder", [None, True])
def test_a_runner_goes_with_its_last_reference(reorder: bool | None) -> None:
    gc.disable()
    try:
        run = runner("compacting", 5, n=5000, reorder=reorder)
        run.run()
        gone = weakref.ref(run)
        del run
        assert gone() is None
    finally:
        gc.enable()


def test_threads_are_put_back_when_runs_overlap() -> None:
    before, runs = eagle.num_threads(), [runner("integers and a counter") for _ in range(2)]
    for run, threads in zip(runs, (before + 1, before + 2), strict=True):
        run.host_threads = threads
    threads = [threading.Thread(target=run.run) for run in runs]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for run, thread in zip(runs, threads, strict=True):
        run.stop()
        thread.join()
    assert eagle.num_threads() == before


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
def test_ctrl_c_while_results_are_copied_back_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sample-major planes: all of them have the run's steps, or none."""
    model = MODELS["vectors and matrices"]
    planes = {name: np.ascontiguousarray(plane.T) if isinstance(plane, np.ndarray) and plane.ndim == 2 else plane
              for name, plane in model.planes(40, 3, "never").items()}
    whole = copied(planes)
    eagle.run_until_done(model.plan, max_steps=3, layout="samples_first", **whole)
    run = eagle.until_done(model.plan, max_steps=3, layout="samples_first", **planes)
    end = Binding.end

    def interrupted(binding: Binding) -> None:
        signal.raise_signal(signal.SIGINT)
        end(binding)

    monkeypatch.setattr(Binding, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert all(np.array_equal(planes[name], whole[name]) for name in planes)


def test_blocks_are_for_kernels_with_the_mask() -> None:
    """A kernel without one runs for all samples until the last of the batch is done: blocks would change that."""
    n, seen = 100, np.zeros(100)
    with pytest.raises(ValueError, match=r"max_memory, kernel 'counter'"):
        eagle.simulate([ks.decay, ks.counter], rate=np.full(n, 0.5), floor=0.1, y=np.ones(n), hits=np.zeros(n),
                       steps_seen=seen, max_steps=10, max_memory=2**20)
    assert not seen.any()


def test_ctrl_c_is_not_lost_where_a_node_fails() -> None:
    def node() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError("the node's own")

    model = MODELS["steps=1"]
    run = eagle.until_done([model.plan, eagle.opaque(node)], max_steps=10, **model.planes(9, 3, "never"))
    with pytest.raises(KeyboardInterrupt) as met:
        run.run()
    assert "the node's own" in str(met.value.__context__)
