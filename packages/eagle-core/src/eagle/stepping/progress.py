# SPDX-License-Identifier: Apache-2.0
"""``progress=``: a bar of tqdm, or a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from eagle.errors import refusal, shown

__all__ = ["Progress", "read_progress"]

#: Called at rounds of a run with (samples done, samples, steps offered to all samples together).
Progress = Callable[[int, int, int], object]


class Bar:
    """A bar of samples done, with steps a second; one a run."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bar: Any = None
        self._began = 0.0

    def __call__(self, done: int, n: int, steps: int) -> None:
        if self._bar is None:
            self._bar, self._began = self._tqdm(total=n, unit="sample", desc="stepping"), perf_counter()
        rate = steps / max(perf_counter() - self._began, 1e-9)
        self._bar.set_postfix_str(f"{steps} steps, {rate:.3g} steps/s", refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """The run is over."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def read_progress(door: str, value: Any) -> Progress | None:
    """What ``progress=`` means. TypeError for what is none, ImportError for a bar without tqdm."""
    if value is None or value is False:
        return None
    if value is True:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError(refusal(door, "progress", "True without tqdm", "the package tqdm", "pip install tqdm, or "
                                      "pass a function of (samples done, samples, steps)")) from error
        return Bar(tqdm)
    if not callable(value):
        raise TypeError(refusal(door, "progress", shown(value), "True, False or a function of (samples done, samples, "
                                "steps)", "leave progress= out"))
    return value  # type: ignore[no-any-return]
