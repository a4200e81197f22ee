# SPDX-License-Identifier: Apache-2.0
"""The rule of skips: a test may be left out for one of four reasons, and the summary counts each.

A skip with any other reason makes the run fail, so that a hole in the tests is never silent.
"""

from __future__ import annotations

import collections
import functools
import json
import subprocess
import sys

import pytest

REASONS = ("no-device", "needs-toolkit", "too-little-memory", "framework-missing")
HOST_MEMORY = {1, 3}  # DLPack device types

_left_out = pytest.StashKey[collections.Counter[str]]()
_unlisted = pytest.StashKey[list[str]]()


def reason_of(text: str) -> str | None:
    """The listed reason a skip message starts with: ``no-device: found no GPU`` is ``no-device``."""
    word = text.removeprefix("Skipped: ").split(":")[0].strip()
    return word if word in REASONS else None


@functools.cache
def gpu_found() -> bool:
    """Whether ``eagle doctor`` shows a kind of other than host memory with a device."""
    shown = subprocess.run([sys.executable, "-m", "eagle", "doctor", "--json"], capture_output=True, text=True)
    rows = json.loads(shown.stdout)["backends"] if shown.returncode == 0 else []
    return any(row["state"] == "has-device" and not HOST_MEMORY & set(row["device_types"]) for row in rows)


class SkipRule:
    """Collects what was left out, and why."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        config.stash[_left_out] = collections.Counter()
        config.stash[_unlisted] = []

    def note(self, nodeid: str, longrepr: object) -> None:
        text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
        reason = reason_of(text)
        if reason is None:
            self.config.stash[_unlisted].append(f"{nodeid}: {text}")
        else:
            self.config.stash[_left_out][reason] += 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.note(report.nodeid, report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.note(report.nodeid, report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.config.stash[_unlisted] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipRule(config), "skip-rule")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not gpu_found():
        pytest.skip("no-device: no installed GPU kind has a device")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_left_out]
    listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items())) or "none"
    terminalreporter.section("left out")
    terminalreporter.line(f"{counts.total()} left out: {listed}" if counts else "0 left out")
    for line in config.stash[_unlisted]:
        terminalreporter.line(f"a skip needs one of {', '.join(REASONS)}: {line}", red=True)
