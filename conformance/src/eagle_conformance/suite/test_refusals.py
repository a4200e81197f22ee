# SPDX-License-Identifier: Apache-2.0
"""A clear bit is a refusal: whatever the library still exports of that group refuses, and nothing crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eagle_conformance.seam import GROUPS, SIGNATURES, Library

pytestmark = pytest.mark.eagle_loaded


def refused(name: str) -> Any:
    """A parameter that applies where the bit of the group is clear."""
    return pytest.param(name, marks=pytest.mark.eagle_refused(name))


def call_all(library: Library, group: str) -> list[str]:
    """Calls with null pointers and zeros each promised symbol of a group that is exported; those that answer OK."""
    accepted = []
    for name in GROUPS[group].promised:
        if library.has(name):
            result, parameters = SIGNATURES[name][0], SIGNATURES[name][1:]
            answer = library.call(name, *(None if p in "ps" else 0 for p in parameters))
            if result == "i" and answer == 0:
                accepted.append(name)
    return accepted


@pytest.mark.parametrize("group", [refused(name) for name in GROUPS])
def test_a_group_left_out_does_nothing(library: Library, isolate: Callable[..., Any], group: str) -> None:
    assert isolate(call_all, group) == []
