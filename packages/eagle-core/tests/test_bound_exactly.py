# SPDX-License-Identifier: Apache-2.0
"""The C door that packs exactly given planes: what it takes, and what it leaves to the careful path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from artifact_kernels import skips

import eagle
from eagle import _core

N = 5
NAMES = ("x", "y", "finished_count", "terminated", "a")
Change = Callable[[dict[str, Any]], Any]
