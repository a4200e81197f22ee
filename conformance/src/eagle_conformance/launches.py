# SPDX-License-Identifier: Apache-2.0
"""Launches of the suite's kernel over planes that show exactly which samples ran."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32, c_uint32, c_uint64
from typing import Any

import numpy as np

from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import LaunchDesc, Library

MARGIN = 64  # cells before and behind the batch, which no launch may touch


class Visits:
    """Two planes of ``n`` samples with margins, and launches that count visits in them."""

    def __init__(self, library: Library, quirks: Quirks, entry: int, n: int, step: int = 1) -> None:
        self.library, self.quirks, self.entry, self.n = library, quirks, entry, n
        cells = n + 2 * MARGIN
        self._visits = quirks.allocate(library, 4 * cells)
        self._seen = quirks.allocate(library, 8 * cells)
        quirks.write(library, self._visits, bytes(4 * cells))
        quirks.write(library, self._seen, bytes(8 * cells))
        self._values = (
            c_uint64(self._visits + 4 * MARGIN),
            c_uint64(self._seen + 8 * MARGIN),
            c_uint32(step),
        )
        self._params = (c_uint64 * 3)(*map(ctypes.addressof, self._values))
        self._sizes = (c_uint64 * 3)(8, 8, 4)

    def desc(self, **fields: Any) -> LaunchDesc:
        """A launch over the whole batch, but for the fields given."""
        whole = {
            "device": -1,
            "block": 128,
            "function": self.entry,
            "params": self._params,
            "param_sizes": self._sizes,
            "nparams": 3,
            "count": self.n,
            "n_samples": self.n,
        }
        return LaunchDesc(**(whole | fields))

    def set_step(self, step: int) -> None:
        """Another value in the box of the step."""
        self._values[2].value = step

    def launch(self, **fields: Any) -> int:
        """One launch; what it stores in *launched."""
        launched = c_int32(-77)
        self.library.ok("run_device", byref(self.desc(**fields)), byref(launched))
        return launched.value

    def refused(self, status: int | None, **fields: Any) -> None:
        """One launch that must fail and run nothing."""
        self.library.refuses(status, "run_device", byref(self.desc(**fields)), byref(c_int32()))
        self.expect(0, 0)

    def expect(self, base: int, count: int, visits: int = 1, n_samples: int | None = None) -> None:
        """Every sample of the range was visited that often and saw n_samples; no other cell has changed."""
        self.expect_each([(base, count, visits)], n_samples)

    def expect_each(self, ranges: list[tuple[int, int, int]], n_samples: int | None = None) -> None:
        """The same of several ranges, each (base, count, visits)."""
        found = np.frombuffer(self.quirks.read(self.library, self._visits, 4 * (self.n + 2 * MARGIN)), np.uint32)
        seen = np.frombuffer(self.quirks.read(self.library, self._seen, 8 * (self.n + 2 * MARGIN)), np.int64)
        wanted = np.zeros(self.n + 2 * MARGIN, np.uint32)
        for base, count, visits in ranges:
            wanted[MARGIN + base : MARGIN + base + count] = visits
        wrong = np.flatnonzero(found != wanted) - MARGIN
        shown = [(int(i), int(found[i + MARGIN])) for i in wrong[:5]]
        assert not shown, f"{ranges}: {wrong.size} samples with wrong visits, (sample, visits): {shown}"
        expected = np.where(wanted > 0, self.n if n_samples is None else n_samples, 0)
        np.testing.assert_array_equal(seen, expected, "n_samples as the kernel saw it")

    def free(self) -> None:
        """Gives the memory back."""
        self.quirks.free(self.library, self._visits)
        self.quirks.free(self.library, self._seen)
