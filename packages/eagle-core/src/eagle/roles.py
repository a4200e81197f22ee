# SPDX-License-Identifier: Apache-2.0
"""How a kernel uses each slot of its argument block: the words of ``arg_spec``."""

from __future__ import annotations

__all__ = ["FINISHED_COUNT", "FUSED_STEPS", "INPUTS", "MASK", "OUTPUTS", "ROLES", "UNIFORM", "WORDS"]

#: Planes the kernel only reads, one cell or one component group a sample.
INPUTS = ("per_sample", "vec_in", "mat_in")
#: Planes the kernel writes, a row a component.
OUTPUTS = ("mutable", "out")
#: The mask of samples that are done.
MASK = "terminated"
#: A number passed by value.
UNIFORM = "uniform"

#: Every role of the vocabulary, in the order producers group them.
ROLES = ("mutable", "out", "wide_out", "accum_out", "vec_in", "mat_in", "wide_in", "per_sample", "lookup", "terminated",
         "uniform", "nsamples")

FINISHED_COUNT = "finished_count"
FUSED_STEPS = "fused_steps"
#: One-cell lookup planes that belong to eagle, with their dtype and the value a single launch starts from. A launch
#: outside the steppers takes one step.
WORDS = {FINISHED_COUNT: ("uint32", 0), FUSED_STEPS: ("int64", 1)}
