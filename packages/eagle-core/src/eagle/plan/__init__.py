# SPDX-License-Identifier: Apache-2.0
"""Plans: where and how a kernel runs. :func:`plan` makes one, :func:`auto` (``eagle.deploy``) one of a hawk kernel."""

from eagle.plan.auto_plan import AutoPlan, device_resident, residency
from eagle.plan.bound import BoundPlan
from eagle.plan.deploy import auto
from eagle.plan.plan import Plan, plan

__all__ = ["AutoPlan", "BoundPlan", "Plan", "auto", "device_resident", "plan", "residency"]
