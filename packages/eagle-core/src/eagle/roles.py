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

ACTIVE_MAP = "active_map"
ACTIVE_COUNT = "active_count"
JUMP_SEED = "jump_seed"


#: How a role rides in the argument block; a mutable by its width.
_TAGS = {"out": "GREF_VEC", "vec_in": "GREF_VEC", "mat_in": "GREF_MAT", "per_sample": "HANDLE", "lookup": "HANDLE",
         "terminated": "HANDLE", "wide_in": "WIDE_IN", "wide_out": "WIDE_OUT", "accum_out": "ACCUM_OUT",
         "nsamples": "NSAMPLES", "uniform": "UNIFORM"}


def classify_arg(role: str, name: str, *, vec_mutables: frozenset[str] = frozenset(),
                 mat_mutables: frozenset[str] = frozenset()) -> str:
    """The ABI shape of a slot. ValueError for a role that is none."""
    if role == "mutable":
        return "GREF_MAT" if name in mat_mutables else "GREF_VEC" if name in vec_mutables else "HANDLE"
    return _TAGS[role]
