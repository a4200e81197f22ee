# SPDX-License-Identifier: Apache-2.0
"""Stepping every sample of a batch until it is done."""

from eagle.stepping.active_set import ActiveSet
from eagle.stepping.compaction import compaction_body

__all__ = ["ActiveSet", "compaction_body"]
