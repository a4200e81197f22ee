# SPDX-License-Identifier: Apache-2.0
"""What a switch costs, and what the same steps cost sorted by branch: a rule without a clock, so that a call always
decides alike.

The rule knows how many operations each branch has, how many samples take it and how many steps are left at most. Its
constants are nanoseconds, measured over kernels of 2 to 16 branches and 1e3 to 2e5 samples.
They say that a switch is about as fast as a branch alone, since a sample takes the same branch step after step, which
the processor foresees, except where a long branch slows the short ones down; and that branches alone are faster where
the compiler steps several samples at once: under hawk's profile "native-vector-math", without functions such as sin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["EARLY", "ENTER", "KEEP", "Cost", "branch_costs", "predicted_gain", "same_bits"]

ENTER, KEEP = 1.15, 1.05  # the predicted gain from which a run is split, and from which it stays so at a later look
EARLY = 16  # steps that come before a split: whoever finishes in them is never sorted
HORIZON = 64  # the steps a run is expected to take: those of a fused launch

_VECTORS = "native-vector-math"  # the profile whose bits depend on how a kernel is cut
_STEP, _OPERATION, _FUNCTION = 1.8, 0.035, 9.0  # of a switch, whose longest branch counts
_ALONE = 0.13  # of an operation of a branch alone
_LANES_STEP, _LANES_OPERATION = 0.6, 0.035  # of a branch alone whose samples are stepped several at once
_SORT, _SORT_BRANCH = 12.0, 6.0  # of a sample that is sorted: once, and for each branch
_BRANCH = 25_000.0  # of a branch, once


@dataclass(frozen=True)
class Cost:
    """What a step of a sample costs that takes a branch: in a switch, and by a kernel of that branch."""

    switch: float
    alone: float

    @property
    def profits(self) -> bool:
        """Whether the branch has a kernel of its own where a run decides; else its samples stay with the switch, so
        that no change of the mix makes a split a loss."""
        return self.switch >= KEEP * self.alone


def branch_costs(kernels: Sequence[Any]) -> tuple[Cost, ...]:
    """The costs of branches, by hawk's counts of their operations."""
    from hawk.compile.toolchain import host_profile
    from hawk.ir.cost import kernel_cost

    profile = host_profile()
    works = [kernel_cost((kernel.step or kernel).walk, profile) for kernel in kernels]
    longest = max(work.arith32 + work.arith64 for work in works)
    costs = []
    for work in works:
        operations, functions = work.arith32 + work.arith64, work.special32 + work.special64
        alone = _STEP + _ALONE * operations + _FUNCTION * functions
        if profile == _VECTORS and work.vectorised and not functions:
            alone = _LANES_STEP + _LANES_OPERATION * operations
        costs.append(Cost(_STEP + _OPERATION * longest + _FUNCTION * functions, alone))
    return tuple(costs)


def same_bits() -> bool:
    """Whether kernels built now give the same bits however they are cut, so that the mix of a batch may decide."""
    from hawk.compile.toolchain import host_profile

    return bool(host_profile() != _VECTORS)


def predicted_gain(costs: Sequence[Cost], mix: Sequence[int], steps: int) -> float:
    """How many times as long a switch is predicted to take for samples of a mix, with so many steps left at most."""
    taken = [(cost, samples) for cost, samples in zip(costs, mix, strict=True) if samples]
    if not taken:
        return 1.0
    steps = min(steps, HORIZON)
    switch = steps * sum(cost.switch * samples for cost, samples in taken)
    split = steps * sum((cost.alone if cost.profits else cost.switch) * samples for cost, samples in taken)
    return switch / (split + sum(mix) * (_SORT + _SORT_BRANCH * len(taken)) + _BRANCH * len(taken))
