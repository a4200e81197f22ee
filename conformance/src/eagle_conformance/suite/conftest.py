# SPDX-License-Identifier: Apache-2.0
"""Fixtures of several groups: launches that show which samples ran, and a stream to capture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eagle_conformance.captures import Capture
from eagle_conformance.launches import Visits
from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import Library


@pytest.fixture
def make(device: Library, quirks: Quirks, image_folder: Path) -> Iterator[Callable[..., Visits]]:
    """Makes planes of n samples with launches over them."""
    made: list[Visits] = []

    def visits(n: int, step: int = 1) -> Visits:
        made.append(Visits(device, quirks, quirks.entry(device, image_folder), n, step))
        return made[-1]

    yield visits
    for planes in made:
        planes.free()


@pytest.fixture
def capture(device: Library) -> Iterator[Capture]:
    """A stream with its capturer."""
    made = Capture(device)
    yield made
    made.close()
