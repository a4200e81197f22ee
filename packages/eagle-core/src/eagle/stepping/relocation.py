# SPDX-License-Identifier: Apache-2.0
"""Whether the samples of a kernel may be moved to other positions for a launch."""

from __future__ import annotations

from typing import Any

__all__ = ["may_move"]


def may_move(plugin: Any) -> bool:
    """Whether it is proven that a sample's results do not depend on its position."""
    return False
