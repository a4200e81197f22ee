# SPDX-License-Identifier: Apache-2.0
"""Stepping every sample of a batch until it is done."""

from eagle.stepping.report import RunReport
from eagle.stepping.result import SimResult
from eagle.stepping.runner import Runner, run_until_done, until_done
from eagle.stepping.simulating import Simulation, simulate, simulation

__all__ = ["RunReport", "Runner", "SimResult", "Simulation", "run_until_done", "simulate", "simulation", "until_done"]
