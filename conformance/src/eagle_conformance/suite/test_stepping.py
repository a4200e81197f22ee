# SPDX-License-Identifier: Apache-2.0
"""The extension step_run of host kinds: a batch stepped until every sample is finished."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int32, c_int64, c_uint64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eagle_conformance.seam import (
    STEP_ABANDON,
    STEP_COUNTS,
    STEP_EXACT,
    STEP_GUARD,
    STEP_MIRROR,
    STEP_STOPPED,
    STEP_WRITES,
    Library,
    Status,
    StepPlane,
    StepPoll,
    StepReport,
)
from eagle_conformance.steps import COUNTER, GUARD, LIVE, MASK, NEVER, SLOTS, SMALL, STATE, TAKEN, TOTALS, WORD, Steps
from eagle_conformance.structs import check_output, oversized

pytestmark = [pytest.mark.eagle_symbols("step_run"), pytest.mark.eagle_host]
Isolate = Callable[..., Any]
Make = Callable[..., Steps]

FORMS: dict[str, dict[str, Any]] = {
    "word": {},
    "word, in place": {"movable": False},
    "word, mapped": {"mapped": True},
    "one": {"unit": 1},
    "one, in place": {"unit": 1, "movable": False},
    "seven": {"unit": 7},
    "one, mapped": {"unit": 1, "mapped": True},
    "four, mapped, in place": {"unit": 4, "mapped": True, "movable": False},
}
SIZES = [1, 2, 63, 65, 257, 3001]
LONGEST = 200


@pytest.fixture
def make(device: Library, image_folder: Path) -> Make:
    """Makes batches."""
    return lambda stop, **options: Steps(device, image_folder, stop, **options)


def stops(n: int, kind: str) -> Any:
    """After how many steps the samples of a batch finish."""
    random = np.random.default_rng(n)
    if kind == "any":
        return random.integers(1, LONGEST, n)
    if kind == "few":
        return np.where(random.random(n) < 0.03, LONGEST, random.integers(1, 4, n))
    assert kind == "never"
    return np.where(random.random(n) < 0.2, NEVER, np.exp(random.uniform(0, np.log(LONGEST), n)).astype(np.int64))


def stepped(batch: Steps, **fields: Any) -> StepReport:
    """A run that leaves nothing to step, with all that must hold then."""
    report = batch.run(**fields)
    batch.expect_rules_kept()
    batch.expect_all_stepped()
    batch.expect_report(report)
    return report


# ---- every sample its own steps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["any", "few", "never"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_every_sample_takes_its_own_steps(make: Make, form: str, n: int, kind: str) -> None:
    stepped(make(stops(n, kind), cap=3 * LONGEST + 1, **FORMS[form]))


@pytest.mark.parametrize("cap", range(1, 10))
@pytest.mark.parametrize("form", FORMS)
def test_no_sample_takes_more_than_max_steps(make: Make, form: str, cap: int) -> None:
    for n in (1, 9, 300):
        stepped(make(1 + np.arange(n) % 9, cap=cap, **FORMS[form]))


@pytest.mark.parametrize("cap", [LONGEST - 2, LONGEST - 1, LONGEST, LONGEST + 1, NEVER])
def test_a_cap_near_the_last_step_is_kept(make: Make, cap: int) -> None:
    for last in range(LONGEST - 3, LONGEST + 4):
        stepped(make(np.append(stops(300, "any"), last), cap=cap))


@pytest.mark.parametrize("form", FORMS)
def test_what_is_finished_is_left_alone(make: Make, form: str) -> None:
    done = np.random.default_rng(3).random(1000) < 0.4
    done[256:512] = True
    stepped(make(stops(1000, "any"), done=done * 3, **FORMS[form]))
    report = stepped(make(stops(1000, "any"), done=True, **FORMS[form]))
    assert (report.steps, report.finished, report.flags & STEP_EXACT) == (0, 1000, STEP_EXACT)


@pytest.mark.parametrize("form", FORMS)
def test_what_a_guard_holds_takes_no_steps(make: Make, form: str) -> None:
    random = np.random.default_rng(4)
    guard, done = random.integers(0, 4, 1000) // 2, random.random(1000) < 0.3
    report = stepped(make(stops(1000, "any"), guard=guard, done=done, **FORMS[form]))
    assert report.finished == np.count_nonzero(done | (guard == 0))
    stepped(make(stops(500, "any"), guard=np.ones(500), **FORMS[form]))


@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("word")])
@pytest.mark.parametrize("cap", [2, 3, 5, LONGEST - 1, NEVER])
def test_nothing_a_word_of_one_made_is_kept(make: Make, form: str, cap: int) -> None:
    stepped(make(stops(1500, "any"), cap=cap, marking=True, **FORMS[form]))


def test_a_run_goes_on_where_the_cap_ended_the_last_one(make: Make) -> None:
    batch = make(stops(700, "any"), cap=7)
    while batch.run().finished < 700:
        batch.watch.cap += 7
    batch.expect_rules_kept()
    batch.expect_all_stepped()


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
@pytest.mark.parametrize("form", FORMS)
def test_no_more_threads_than_asked_for(make: Make, team: None, form: str, threads: int) -> None:
    for _ in range(3):
        batch = make(stops(6000, "any"), **FORMS[form])
        stepped(batch, threads=threads)
        assert 1 <= batch.threads <= (threads or 64)


@pytest.fixture
def team(device: Library) -> Iterator[None]:
    """Three threads, where that can be asked for."""
    if not device.has("team_size"):
        yield
        return
    before = c_int32()
    device.ok("team_size", 3, byref(before))
    yield
    device.ok("team_size", before.value, byref(c_int32()))


def test_runs_from_several_threads_do_not_meet(make: Make, team: None) -> None:
    batches = [make(stops(2000, "any"), **FORMS[form]) for form in FORMS]
    threads = [threading.Thread(target=batch.run) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch in batches:
        batch.expect_rules_kept()
        batch.expect_all_stepped()


# ---- the report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("movable", [True, False])
def test_steps_of_single_launches_are_exact(make: Make, movable: bool) -> None:
    for kind in ("any", "few"):
        report = stepped(make(stops(1000, kind), unit=1, movable=movable))
        assert report.flags & STEP_EXACT


@pytest.mark.parametrize("form", FORMS)
def test_steps_are_exact_where_the_cap_ends_the_run(make: Make, form: str) -> None:
    report = stepped(make(np.full(300, NEVER), cap=28, **FORMS[form]))
    assert (report.steps, report.finished, report.flags & STEP_EXACT) == (28, 0, STEP_EXACT)


@pytest.mark.parametrize("form", FORMS)
def test_an_empty_batch_is_done(make: Make, form: str) -> None:
    report = stepped(make([], **FORMS[form]))
    assert (report.flags, report.steps, report.visits, report.finished) == (STEP_EXACT, 0, 0, 0)


@pytest.mark.parametrize("size", [12, 16, 20, 24, 31, 32, 40])
def test_the_report_keeps_to_the_smaller_size(make: Make, size: int) -> None:
    batch = make([1, 1, 1], done=True)  # every run finds it as it was
    check_output(batch.library, size, lambda out: batch.library.call("step_run", byref(batch.desc()), out))


# ---- poll ------------------------------------------------------------------------------------------------------------


class Poll:
    """Answers what ends a run from the `calls`-th call on. Where that does not help, the kernel gives up soon."""

    PATIENCE_S = 2.0

    def __init__(self, batch: Steps, calls: int, answer: int = -3) -> None:
        self.batch = batch
        self.planes: dict[int, Any] = {}  # as they were at that call
        self.seen: list[tuple[int, int, int]] = []
        self.calls, self.answer = calls, answer
        self.context = c_int64(0)
        self.function = StepPoll(self._told)
        self._timer = threading.Timer(self.PATIENCE_S, self._give_up)
        self._timer.start()

    def _told(self, context: int, finished: int, steps: int) -> int:
        c_int64.from_address(context).value += 1
        self.seen.append((threading.get_ident(), finished, steps))
        if len(self.seen) < self.calls:
            return 0
        self.planes = self.planes or {slot: plane.copy() for slot, plane in self.batch.planes.items()}
        return self.answer

    def _give_up(self) -> None:
        self.batch.watch.give_up = 1

    def fields(self) -> dict[str, Any]:
        """Those of the desc."""
        return {"poll": self.function, "poll_ctx": ctypes.addressof(self.context)}

    def end(self) -> None:
        """To be called after the run."""
        self._timer.cancel()
        assert self.context.value == len(self.seen), "poll_ctx is not what poll was called with"


@pytest.mark.parametrize(("form", "n"), [*((form, 3000) for form in FORMS), ("word", 3)])
def test_poll_ends_a_run_at_the_end_of_a_step(make: Make, team: None, form: str, n: int) -> None:
    batch = make(stops(n, "never") if n > 3 else np.full(3, NEVER), **FORMS[form])
    poll = Poll(batch, calls=2)
    report = batch.run(**poll.fields())
    poll.end()
    batch.expect_rules_kept()
    assert len(poll.seen) == 2
    assert {thread for thread, *_ in poll.seen} == {threading.get_ident()}
    (_, finished, steps), (_, finished_later, steps_later) = poll.seen
    assert 0 <= finished <= finished_later <= report.finished
    assert 0 <= steps <= steps_later
    batch.expect_report(report, stopped=True)
    assert int(batch.planes[TAKEN].max()) > 0
    batch.expect_states()


@pytest.mark.parametrize("form", FORMS)
def test_an_abandoned_run_leaves_the_planes_alone(make: Make, form: str) -> None:
    batch = make(stops(3000, "never"), **FORMS[form])
    poll = Poll(batch, calls=1, answer=STEP_ABANDON)
    report = batch.run(threads=1, **poll.fields())
    poll.end()
    assert len(poll.seen) == 1
    assert report.flags & STEP_STOPPED
    for slot, plane in poll.planes.items():
        np.testing.assert_array_equal(batch.planes[slot], plane)


def test_a_poll_that_agrees_changes_nothing(make: Make) -> None:
    batch = make(stops(3000, "any"))
    poll = Poll(batch, calls=2**31)
    stepped(batch, **poll.fields())
    poll.end()


# ---- refusals --------------------------------------------------------------------------------------------------------


def planes(*rows: tuple[int, int, int, int]) -> dict[str, Any]:
    """The fields of another table."""
    return {"planes": (StepPlane * len(rows))(*(StepPlane(*row) for row in rows)), "n_planes": len(rows)}


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"struct_size": 0}, Status.INVALID_ARGUMENT),
        ({"struct_size": 8}, Status.INVALID_ARGUMENT),
        ({"struct_size": 16}, Status.INVALID_ARGUMENT),  # no function
        ({"flags": 4}, Status.UNSUPPORTED),
        ({"flags": 1 << 31}, Status.UNSUPPORTED),
        ({"device": -2}, Status.INVALID_ARGUMENT),
        ({"function": 0}, Status.INVALID_ARGUMENT),
        ({"params": None}, Status.INVALID_ARGUMENT),
        ({"planes": None}, Status.INVALID_ARGUMENT),
        ({"nparams": 0}, Status.INVALID_ARGUMENT),
        ({"nparams": -1}, Status.INVALID_ARGUMENT),
        ({"n_samples": -1}, Status.INVALID_ARGUMENT),
        ({"max_steps": 0}, Status.INVALID_ARGUMENT),
        ({"max_steps": -(2**63)}, Status.INVALID_ARGUMENT),
        ({"steps_per_launch": -1}, Status.INVALID_ARGUMENT),
        ({"threads": -1}, Status.INVALID_ARGUMENT),
        ({"step_ops": -1}, Status.INVALID_ARGUMENT),
        ({"mask_slot": -1}, Status.INVALID_ARGUMENT),
        ({"mask_slot": SLOTS}, Status.INVALID_ARGUMENT),
        ({"counter_slot": -1}, Status.INVALID_ARGUMENT),
        ({"counter_slot": 2**31 - 1}, Status.INVALID_ARGUMENT),
        ({"word_slot": -1}, Status.INVALID_ARGUMENT),
        ({"word_slot": SLOTS}, Status.INVALID_ARGUMENT),
        ({"map_slot": -2}, Status.INVALID_ARGUMENT),
        ({"live_slot": LIVE}, Status.INVALID_ARGUMENT),  # no map
        ({"counter_slot": MASK}, Status.INVALID_ARGUMENT),
        ({"word_slot": COUNTER}, Status.INVALID_ARGUMENT),
        (planes((SLOTS, 8, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 8, 1, 0), (TAKEN, 8, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((MASK, 1, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 0, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 3, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 16, 1, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 8, 0, 0)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 8, 2, 0)), Status.INVALID_ARGUMENT),  # no mirror
        (planes((SMALL, 2, 1, STEP_GUARD)), Status.INVALID_ARGUMENT),
        (planes((STATE, 1, 1, STEP_GUARD | STEP_MIRROR)), Status.INVALID_ARGUMENT),
        (planes((TOTALS, 3, 1, STEP_COUNTS)), Status.INVALID_ARGUMENT),
        (planes((TOTALS, 8, 0, STEP_COUNTS)), Status.INVALID_ARGUMENT),
        (planes((TOTALS, 8, 2, STEP_COUNTS | STEP_WRITES)), Status.INVALID_ARGUMENT),
        (planes((MASK, 8, 2, STEP_COUNTS)), Status.INVALID_ARGUMENT),
        (planes((TAKEN, 8, 1, 16)), Status.UNSUPPORTED),
        (planes((TOTALS, 8, 2, STEP_COUNTS | 1 << 31)), Status.UNSUPPORTED),
    ],
    ids=lambda value: ", ".join(f"{k}={list(map(tuple_of, v)) if k == 'planes' and v else v}" for k, v in value.items())
    if isinstance(value, dict)
    else str(int(value)),
)
def test_a_bad_desc_is_refused(make: Make, fields: dict[str, Any], status: int) -> None:
    make([3, 2, 1]).refused(status, **fields)


def tuple_of(plane: StepPlane) -> tuple[int, ...]:
    """A row of the table, to be shown."""
    return plane.slot, plane.elem_bytes, plane.components, plane.flags


@pytest.mark.parametrize("n", [2**31, 2**62])
def test_a_map_has_31_bits(make: Make, n: int) -> None:
    make([1], mapped=True).refused(None, n_samples=n)


@pytest.mark.parametrize("slot", [MASK, COUNTER, WORD, TAKEN, STATE, TOTALS])
def test_a_slot_needs_a_box(make: Make, slot: int) -> None:
    batch = make([3, 2, 1])
    params = (c_uint64 * SLOTS)(*batch.params)
    params[slot] = 0
    batch.refused(Status.INVALID_ARGUMENT, params=params)


@pytest.mark.parametrize("slot", [MASK, GUARD, STATE])
def test_a_box_needs_memory(make: Make, slot: int) -> None:
    batch = make([3, 2, 1], guard=[0, 0, 0])
    ctypes.c_uint64.from_address(batch.params[slot]).value = 0
    batch.refused(Status.INVALID_ARGUMENT)


def null_arguments(library: Library, folder: str, missing: int) -> None:
    """A run with one argument NULL."""
    batch = Steps(library, Path(folder), [1])
    arguments: list[Any] = [byref(batch.desc()), byref(StepReport())]
    arguments[missing] = None
    library.refuses(None, "step_run", *arguments)
    batch.untouched()


@pytest.mark.parametrize("missing", [0, 1])
def test_null_is_refused(isolate: Isolate, image_folder: Path, missing: int) -> None:
    isolate(null_arguments, str(image_folder), missing)


def test_a_report_without_a_size_is_refused(make: Make) -> None:
    batch = make([1])
    batch.library.refuses(
        Status.INVALID_ARGUMENT, "step_run", byref(batch.desc()), byref(StepReport(struct_size=8))
    )
    batch.untouched()


def test_a_longer_desc_is_accepted(make: Make) -> None:
    batch = make(stops(100, "any"))
    batch.library.ok("step_run", oversized(batch.desc()), byref(StepReport()))
    batch.expect_all_stepped()


def test_an_older_desc_has_no_poll(make: Make) -> None:
    batch = make(stops(100, "any"))
    poll = Poll(batch, calls=1)
    stepped(batch, struct_size=104, **poll.fields())
    poll.end()
    assert poll.seen == []
