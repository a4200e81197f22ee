# SPDX-License-Identifier: Apache-2.0
"""Integers as doors take them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

__all__ = ["index_of"]


def index_of(value: Any) -> int | None:
    """The integer that a value is. None for a bool, and for what is none: an array has ``__index__`` and may refuse."""
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None
