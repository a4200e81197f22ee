# SPDX-License-Identifier: Apache-2.0
"""Batches of a stepping kernel that notices what a run does wrong, and what a serial model says of them."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from eagle_conformance.quirks import build_host_library
from eagle_conformance.seam import (
    STEP_COUNTS,
    STEP_EXACT,
    STEP_GUARD,
    STEP_MIRROR,
    STEP_MOVABLE,
    STEP_STOPPED,
    STEP_UNALIGNED,
    STEP_WRITES,
    Library,
    StepDesc,
    StepPlane,
    StepReport,
)

NEVER = 2**63 - 1
THREADS = 64  # the most the kernel tells apart
SELF, ID, STOP, TAKEN, MARKS, MASK, COUNTER, WORD, MAP, LIVE, GUARD, STATE, INPUT, SMALL, TOTALS, SLOTS = range(16)
COMPONENTS = 3
CELLS = {COUNTER: 77, WORD: 78, LIVE: 79}  # what the caller's cells hold, before and after

SOURCE = r"""
#include <stdint.h>
enum { SELF, ID, STOP, TAKEN, MARKS, MASK, COUNTER, WORD, MAP, LIVE, GUARD, STATE, INPUT, SMALL, TOTALS };
typedef struct { void *data; uint64_t samples, pitch, stride; int32_t type, id; } box; /* a handle is shorter */
typedef struct {
    int64_t n, cap, unit, visits, alive;
    int32_t mapped, guarded, movable, marking, give_up;
    int32_t outside, overrun, shared, misplaced, idle, gave_up;
    uint8_t *busy;
    void *threads[64];
} watch;

static __thread char here;

static void *data(void *const *params, int slot) { return ((box *)params[slot])->data; }
static void set(int32_t *flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }

static void register_thread(watch *w) {
    for (int i = 0; i < 64; ++i) {
        void *found = 0;
        if (__atomic_compare_exchange_n(&w->threads[i], &found, &here, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
        if (found == &here) return;
    }
}

static uint32_t step(watch *w, void *const *params, int64_t i, int64_t word) {
    uint8_t *mask = data(params, MASK);
    if (mask[i] || (w->guarded && ((uint8_t *)data(params, GUARD))[i])) return 0;
    int64_t self = ((int64_t *)data(params, ID))[i], stop = ((int64_t *)data(params, STOP))[i];
    int64_t *taken = (int64_t *)data(params, TAKEN) + i;
    if (self < 0 || self >= w->n || (!w->movable && self != i)) {
        set(&w->misplaced);
        return 0;
    }
    if (word < 1 || word > w->cap - *taken) set(&w->overrun);
    if (*taken >= stop) set(&w->idle);
    __atomic_fetch_add(&w->alive, 1, __ATOMIC_RELAXED);
    if (w->marking && word == 1) ++((int64_t *)data(params, MARKS))[i];
    if (__atomic_exchange_n(&w->busy[self], 1, __ATOMIC_RELAXED)) set(&w->shared);
    box *state = params[STATE], *input = params[INPUT];
    uint16_t *small = data(params, SMALL);
    uint32_t finished = 0;
    for (int64_t s = 0; s < word && !finished; ++s) {
        for (int c = 0; c < 3; ++c) {
            uint64_t *cell = (uint64_t *)state->data + c * state->pitch + i;
            *cell = *cell * 5 + ((uint32_t *)input->data)[c * input->pitch + i];
        }
        small[i] = (uint16_t)(small[i] * 3 + 1);
        __atomic_fetch_add((int64_t *)data(params, TOTALS) + self % 2, 1, __ATOMIC_RELAXED);
        if (++*taken == stop) finished = mask[i] = 1;
    }
    if (__atomic_load_n(&w->give_up, __ATOMIC_RELAXED) && !finished) {
        set(&w->gave_up);
        finished = mask[i] = 1;
    }
    __atomic_store_n(&w->busy[self], 0, __ATOMIC_RELAXED);
    return finished;
}

void eagle_conformance_step(void *const *params, int64_t base, int64_t count, int64_t n_samples) {
    watch *w = *(watch **)params[SELF];
    int64_t end = base + count, word = w->unit ? w->unit : *(int64_t *)data(params, WORD);
    if (base < 0 || count < 0) set(&w->outside);
    register_thread(w);
    if (w->mapped && end > *(uint32_t *)data(params, LIVE)) end = *(uint32_t *)data(params, LIVE);
    uint32_t finished = 0;
    for (int64_t at = base; at < end; ++at) {
        int64_t i = w->mapped ? ((int32_t *)data(params, MAP))[at] : at;
        if (at >= n_samples && !((uint8_t *)data(params, MASK))[i]) set(&w->outside);
        finished += step(w, params, i, word);
    }
    __atomic_fetch_add(&w->visits, count, __ATOMIC_RELAXED);
    __atomic_fetch_add((uint32_t *)data(params, COUNTER), finished, __ATOMIC_RELAXED);
}
"""

RULES = {
    "outside": "a position beyond the n_samples of a call has no mask set",
    "overrun": "a word is below 1, or above what is left of max_steps",
    "shared": "two threads step one sample at once",
    "misplaced": "a sample is not where its planes say",
    "idle": "a finished sample is stepped",
    "gave_up": "the run did not end when poll said so",
}


class Watch(ctypes.Structure):
    """What the kernel is told and what it tells."""

    _fields_ = [
        *((name, c_int64) for name in ("n", "cap", "unit", "visits", "alive")),
        *((name, c_int32) for name in ("mapped", "guarded", "movable", "marking", "give_up")),
        *((name, c_int32) for name in RULES),
        ("busy", c_void_p),
        ("threads", c_void_p * THREADS),
    ]


class Box(ctypes.Structure):
    """A mirror of components; a handle is its beginning with stride 1 where the pitch is."""

    _fields_ = [
        ("data", c_void_p),
        ("samples", c_uint64),
        ("pitch", c_uint64),
        ("stride", c_uint64),
        ("device_type", c_int32),
        ("device_id", c_int32),
    ]


class Handle(ctypes.Structure):
    """A plane with one cell per sample, or a cell."""

    _fields_ = [("data", c_void_p), ("samples", c_uint64), ("stride", c_uint64), ("type", c_int32), ("id", c_int32)]


def repeated(values: Any, factor: int, added: Any, times: Any) -> Any:
    """values * factor + added, so many times over, modulo 2**64."""
    share = 1
    for bit in range(int(times.max(initial=0)).bit_length()):
        values = np.where(times >> bit & 1, values * np.uint64(factor) + added * np.uint64(share), values)
        factor, share = factor * factor % 2**64, (factor * share + share) % 2**64
    return values


class Steps:
    """A batch whose sample i finishes after stop[i] steps, and runs over it.

    ``unit`` is the number of steps of a launch, 0 where the word says; ``done`` and ``guard`` tell what takes no steps.
    """

    def __init__(
        self,
        library: Library,
        folder: Path,
        stop: Any,
        *,
        cap: int = NEVER,
        unit: int = 0,
        mapped: bool = False,
        movable: bool = True,
        done: Any = False,
        guard: Any = None,
        marking: bool = False,
    ) -> None:
        self.library = library
        kernel = ctypes.CDLL(str(build_host_library(folder, "steps", SOURCE))).eagle_conformance_step
        self.n = n = len(stop)
        self.cap, self.unit, self.movable, self.mapped, self.guarded = cap, unit, movable, mapped, guard is not None
        numbers = np.arange(n)
        self.planes: dict[int, Any] = {
            ID: numbers.astype(np.int64),
            STOP: np.asarray(stop, np.int64),
            TAKEN: np.zeros(n, np.int64),
            MARKS: np.zeros(n, np.int64),
            MASK: np.zeros(n, np.uint8) | np.asarray(done, np.uint8),
            MAP: np.full(n, -5, np.int32),
            GUARD: np.zeros(n, np.uint8) if guard is None else np.asarray(guard, np.uint8),
            STATE: (np.arange(COMPONENTS * (n + 7), dtype=np.uint64) * 977).reshape(COMPONENTS, n + 7),
            INPUT: (np.arange(COMPONENTS * (n + 2), dtype=np.uint32) * 31).reshape(COMPONENTS, n + 2),
            SMALL: (numbers % 251).astype(np.uint16),
            TOTALS: np.zeros(2, np.int64),
        }
        self.cells = {COUNTER: c_uint32(CELLS[COUNTER]), WORD: c_int64(CELLS[WORD]), LIVE: c_uint32(CELLS[LIVE])}
        self._busy = np.zeros(n + 1, np.uint8)
        kernel_cap = min(-(-cap // unit), NEVER // unit) * unit if unit else cap
        self.watch = Watch(
            n=n, cap=kernel_cap, unit=unit, mapped=mapped, guarded=self.guarded, movable=movable, marking=marking
        )
        self.watch.busy = self._busy.ctypes.data
        self._self = c_void_p(ctypes.addressof(self.watch))
        boxes: list[Any] = [self._self]
        for slot in range(ID, SLOTS):
            if slot in self.cells:
                boxes.append(Handle(ctypes.addressof(self.cells[slot]), 1, 1, 1, 0))
            elif slot in (STATE, INPUT):
                plane = self.planes[slot]
                boxes.append(Box(plane.ctypes.data, n, plane.shape[1], 1, 1, 0))
            else:
                boxes.append(Handle(self.planes[slot].ctypes.data, n, 1, 1, 0))
        self._boxes = boxes
        self.params = (c_uint64 * SLOTS)(*map(ctypes.addressof, boxes))
        self._planes = self._table()
        self._function = ctypes.cast(kernel, c_void_p).value
        self._before = {slot: plane.copy() for slot, plane in self.planes.items()}

    def _table(self) -> ctypes.Array[StepPlane]:
        rows = [(ID, 8, 1, 0), (STOP, 8, 1, 0), (TAKEN, 8, 1, STEP_WRITES), (MARKS, 8, 1, STEP_WRITES)]
        rows += [(STATE, 8, COMPONENTS, STEP_MIRROR | STEP_WRITES), (INPUT, 4, COMPONENTS, STEP_MIRROR)]
        rows += [(SMALL, 2, 1, STEP_WRITES), (TOTALS, 8, 2, STEP_COUNTS)]
        if self.guarded:
            rows += [(GUARD, 1, 1, STEP_GUARD)]
        return (StepPlane * len(rows))(*(StepPlane(*row) for row in rows))

    def desc(self, **fields: Any) -> StepDesc:
        """The run of the whole batch, but for the fields given."""
        whole = {
            "flags": STEP_UNALIGNED | (STEP_MOVABLE if self.movable else 0),
            "device": -1,
            "n_planes": len(self._planes),
            "function": self._function,
            "params": self.params,
            "nparams": SLOTS,
            "planes": self._planes,
            "n_samples": self.n,
            "max_steps": self.cap,
            "steps_per_launch": self.unit,
            "mask_slot": MASK,
            "counter_slot": COUNTER,
            "word_slot": WORD if self.unit == 0 else -1,
            "map_slot": MAP if self.mapped else -1,
            "live_slot": LIVE if self.mapped else -1,
        }
        return StepDesc(**(whole | fields))

    def run(self, **fields: Any) -> StepReport:
        """One run."""
        report = StepReport()
        self.library.ok("step_run", byref(self.desc(**fields)), byref(report))
        return report

    def refused(self, status: int | None, **fields: Any) -> None:
        """A run that must fail and step nothing."""
        self.library.refuses(status, "step_run", byref(self.desc(**fields)), byref(StepReport()))
        assert self.watch.visits == 0
        self.untouched()

    def untouched(self) -> None:
        """No plane has changed."""
        for slot, before in self._before.items():
            np.testing.assert_array_equal(self.planes[slot], before)

    @property
    def idle(self) -> Any:
        """Samples that took no steps from the start."""
        return (self._before[MASK] != 0) | ((self.planes[GUARD] != 0) & self.guarded)

    @property
    def threads(self) -> int:
        """How many threads called the kernel."""
        return sum(thread is not None for thread in self.watch.threads)

    def expect_rules_kept(self) -> None:
        """The kernel saw nothing wrong, and what is the caller's is as it was."""
        broken = [text for name, text in RULES.items() if getattr(self.watch, name)]
        assert not broken, "; ".join(broken)
        assert not self.planes[MARKS].any(), "what a word of 1 made was kept"
        assert {slot: cell.value for slot, cell in self.cells.items()} == CELLS
        for slot in (ID, STOP, MAP, GUARD, INPUT):
            np.testing.assert_array_equal(self.planes[slot], self._before[slot])

    def expect_states(self) -> None:
        """Every sample is at the end of the step it says it took, and marked where that was its last."""
        taken, stop = self.planes[TAKEN], self.planes[STOP]
        np.testing.assert_array_equal(taken[self.idle], 0)
        np.testing.assert_array_equal(self.planes[MASK], np.where(self.idle, self._before[MASK], taken == stop))
        state, added = self._before[STATE].copy(), self._before[INPUT].astype(np.uint64)
        state[:, : self.n] = repeated(state[:, : self.n], 5, added[:, : self.n], taken)
        np.testing.assert_array_equal(self.planes[STATE], state)
        small = repeated(self._before[SMALL].astype(np.uint64), 3, np.ones(self.n, np.uint64), taken)
        np.testing.assert_array_equal(self.planes[SMALL], small.astype(np.uint16))
        np.testing.assert_array_equal(self.planes[TOTALS], [taken[::2].sum(), taken[1::2].sum()])

    def expect_all_stepped(self) -> None:
        """Every sample took exactly its own steps, or as many as a run allows."""
        limit = np.minimum(self.planes[STOP], self.watch.cap)
        np.testing.assert_array_equal(self.planes[TAKEN], np.where(self.idle, 0, limit))
        self.expect_states()

    def expect_report(self, report: StepReport, stopped: bool = False) -> None:
        """The report says what the kernel saw."""
        assert report.struct_size == ctypes.sizeof(report)
        assert report.flags & ~(STEP_EXACT | STEP_STOPPED) == 0
        assert bool(report.flags & STEP_STOPPED) == stopped
        assert report.finished == np.count_nonzero(self.planes[MASK])
        assert self.watch.alive <= report.visits <= self.watch.visits
        assert int(self.planes[TAKEN].sum()) <= report.offered <= self.watch.alive * self.watch.cap
        most = int(self.planes[TAKEN].max(initial=0))
        if report.flags & STEP_EXACT:
            assert report.steps == most
        else:
            assert most <= report.steps <= self.watch.cap
