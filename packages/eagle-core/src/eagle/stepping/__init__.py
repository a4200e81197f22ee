# SPDX-License-Identifier: Apache-2.0
"""Stepping every sample of a batch until it is done."""

from eagle.stepping.report import RunReport
from eagle.stepping.runner import Runner, run_until_done, until_done

__all__ = ["RunReport", "Runner", "run_until_done", "until_done"]
