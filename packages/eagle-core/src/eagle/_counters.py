# SPDX-License-Identifier: Apache-2.0
"""Another name of :mod:`eagle.counters`."""

from eagle.counters import snapshot

__all__ = ["snapshot"]
