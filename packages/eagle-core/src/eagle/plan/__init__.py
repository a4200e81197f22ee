# SPDX-License-Identifier: Apache-2.0
"""Plans: where and how a kernel runs. :func:`plan` makes one, :func:`auto` (``eagle.deploy``) one of a hawk kernel."""

from eagle.plan.auto_plan import AutoPlan
from eagle.plan.bound import BoundPlan
from eagle.plan.deploy import auto
from eagle.plan.layout import samples_first, samples_last
from eagle.plan.plan import Plan, plan
from eagle.plan.residency import FUSED_STEPS_SLOT, device_resident, one_step_word, residency

__all__ = ["FUSED_STEPS_SLOT", "AutoPlan", "BoundPlan", "Plan", "auto", "device_resident", "one_step_word", "plan",
           "residency", "samples_first", "samples_last"]


def __dir__() -> list[str]:
    return sorted(__all__)
