# SPDX-License-Identifier: Apache-2.0
"""The pytest plug-in: options, fixtures, which tests apply to a library, and the report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # the plug-in is read in every pytest run of an environment: the rest is imported when it is used
    from eagle_conformance.quirks import Quirks
    from eagle_conformance.seam import Library

SUITE = Path(__file__).resolve().parent / "suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the suite."""
    group = parser.getgroup("eagle", "conformance of an eagle backend")
    group.addoption("--eagle-backend", metavar="KIND", help="test the backend of this kind, as eagle finds it")
    group.addoption("--eagle-library", metavar="PATH", help="test this library file")
    group.addoption("--eagle-quirks", metavar="MODULE:OBJECT", help="kernels and memory of this backend")
    group.addoption("--eagle-report", metavar="FILE", help="write a JSON report")
    group.addoption(
        "--require", action="append", default=[], choices=["device"], help="fail, instead of skip, where it is missing"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marks; opens the library where one is named."""
    for mark in (
        "eagle_group(name): applies where the bit of the group is set",
        "eagle_refused(name): applies where the bit of the group is clear",
        "eagle_symbols(*names): applies where all these symbols are exported",
        "eagle_host: applies to backends of host memory",
        "eagle_answers(name): applies where this first call returns",
        "eagle_loaded: applies where the handshake succeeds",
    ):
        config.addinivalue_line("markers", mark)
    kind, path = config.getoption("--eagle-backend"), config.getoption("--eagle-library")
    if kind or path:
        config.pluginmanager.register(Run(config, kind, Path(path) if path else find_library(kind)), "eagle-run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The suite says once what it needs."""
    if not config.pluginmanager.has_plugin("eagle-run") and any(SUITE in item.path.parents for item in items):
        raise pytest.UsageError("the conformance suite needs --eagle-backend KIND or --eagle-library PATH")


def find_library(kind: str) -> Path:
    """The file eagle would open for a kind."""
    try:
        from eagle import backends  # the only use of eagle
    except ImportError:
        raise pytest.UsageError(
            f"--eagle-backend {kind}: eagle-core is not installed; install it or give --eagle-library PATH"
        ) from None
    facts = backends.info(kind)
    path = Path(str(facts["path"]))
    if not path.is_file():
        raise pytest.UsageError(f"--eagle-backend {kind}: {facts['error']}")
    return path


def row_of(item: pytest.Item) -> str:
    """The report's row of a test: its module's subject."""
    return item.path.stem.removeprefix("test_")


def name_of(item: pytest.Item) -> str:
    """The name of a test in the report: the same from whatever folder the suite is run."""
    return f"{item.path.name}::{item.name}"


class Run:
    """One run of the suite over one library."""

    def __init__(self, config: pytest.Config, kind: str | None, path: Path) -> None:
        from eagle_conformance.isolation import survey
        from eagle_conformance.quirks import load_quirks
        from eagle_conformance.seam import Library

        self.asked_kind: str | None = kind
        self.required: list[str] = config.getoption("--require")
        self.report: str | None = config.getoption("--eagle-report")
        self.rows: dict[str, str] = {}
        self.outcomes: dict[str, str] = {}
        self.skips: list[dict[str, str]] = []
        self.library: Library | None = None
        self.path = path.resolve()
        try:
            self.library = Library(path, known=survey(path))
        except OSError as error:
            text = f"cannot open {path}: {error}"
            self.write_report(aborted=text)
            raise pytest.UsageError(text) from None
        self.quirks = load_quirks(config.getoption("--eagle-quirks"), self.library)

    def applies(self, item: pytest.Item) -> bool:
        """Whether the library's own facts select this test."""
        library = self.library
        assert library is not None
        if item.get_closest_marker("eagle_loaded") and not library.loads:
            return False
        if item.get_closest_marker("eagle_host") and not library.on_host:
            return False
        return (
            all(library.provides(mark.args[0]) for mark in item.iter_markers("eagle_group"))
            and not any(library.promises(mark.args[0]) for mark in item.iter_markers("eagle_refused"))
            and not any(library.crashed.get(mark.args[0]) for mark in item.iter_markers("eagle_answers"))
            and all(library.has(name) for mark in item.iter_markers("eagle_symbols") for name in mark.args)
        )

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out what does not apply; a group left out has its refusal tests instead."""
        left_out = []
        for item in (item for item in items if SUITE in item.path.parents):
            self.rows[name_of(item)] = row_of(item)
            if not self.applies(item):
                self.outcomes[name_of(item)] = "not_applicable"
                left_out.append(item)
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Counts the outcome; a skip outside the closed list, or of what is required, is a failure."""
        report = yield
        if SUITE not in item.path.parents:
            return report
        if report.skipped and isinstance(report.longrepr, tuple):
            self.judge_skip(item, report, report.longrepr[2])
        if report.failed or report.when == "call" or report.skipped:
            self.outcomes[name_of(item)] = report.outcome
        return report

    def judge_skip(self, item: pytest.Item, report: pytest.TestReport, text: str) -> None:
        """Records a skip of the closed list, or makes it a failure."""
        from eagle_conformance.skips import Skip, parse

        found = parse(text)
        if found is None:
            report.outcome, report.longrepr = "failed", f"a skip outside the closed list: {text}"
        elif found[0] == Skip.NO_DEVICE and "device" in self.required:
            report.outcome, report.longrepr = "failed", f"--require=device, and {text}"
        else:
            self.skips.append({"test": name_of(item), "kind": str(found[0]), "reason": found[1]})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """What the report says if this test ends the run."""
        self.write_report(aborted=f"the run ended in {nodeid}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Writes the report for good."""
        ended_early = exitstatus in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
        self.write_report(aborted=f"pytest's exit status is {int(exitstatus)}" if ended_early else None)

    def write_report(self, aborted: str | None) -> None:
        """Writes the report as it stands."""
        if self.report:
            Path(self.report).write_text(json.dumps(self.summary(aborted), indent=2) + "\n")

    def backend_facts(self) -> dict[str, Any]:
        """The library as the report shows it."""
        from eagle_conformance.seam import GROUPS

        facts: dict[str, Any] = {"kind": self.asked_kind, "file": str(self.path)}
        if self.library is not None:
            version = self.library.version
            facts |= {
                "kind": self.asked_kind or self.library.kind,
                "version": f"{version >> 16}.{version & 0xFFFF}",
                "device_types": self.library.device_types,
                "groups": [name for name in GROUPS if self.library.promises(name)],
            }
        return facts

    def summary(self, aborted: str | None) -> dict[str, Any]:
        """The report as data; `aborted` says why not every test ran."""
        from eagle_conformance import __version__
        from eagle_conformance.seam import MAJOR, MINOR

        rows: dict[str, Counter[str]] = {}
        for test, outcome in self.outcomes.items():
            rows.setdefault(self.rows[test], Counter())[outcome] += 1
        return {
            "suite": __version__,
            "seam": f"{MAJOR}.{MINOR}",
            "backend": self.backend_facts(),
            "aborted": aborted,
            "counts": dict(sum(rows.values(), Counter())),
            "by_group": {row: dict(counts) for row, counts in sorted(rows.items())},
            "failed": sorted(test for test, outcome in self.outcomes.items() if outcome == "failed"),
            "skips": self.skips,
        }


# ---- fixtures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def eagle_run(pytestconfig: pytest.Config) -> Run:
    """The run over one library."""
    run = pytestconfig.pluginmanager.get_plugin("eagle-run")
    assert isinstance(run, Run)
    return run


@pytest.fixture(scope="session")
def library(eagle_run: Run) -> Library:
    """The library under test."""
    assert eagle_run.library is not None
    return eagle_run.library


@pytest.fixture
def device(library: Library) -> Library:
    """The library under test, on a machine with a device for it."""
    from eagle_conformance.skips import Skip, skip

    if library.call("probe") != 0:
        skip(Skip.NO_DEVICE, library.error() or "probe refuses and gives no reason")
    return library


@pytest.fixture
def isolate(library: Library) -> Callable[..., Any]:
    """Calls a function of (library, *arguments) in a process of its own."""
    from eagle_conformance.isolation import isolated

    return lambda function, *arguments: isolated(library, function, *arguments)


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the kernel image is built, once."""
    return tmp_path_factory.mktemp("image")


@pytest.fixture
def quirks(eagle_run: Run, library: Library) -> Quirks:
    """Kernels and memory for the library under test."""
    from eagle_conformance.skips import Skip, skip

    if eagle_run.quirks is None:
        types = library.device_types
        skip(Skip.NEEDS_TOOLKIT, f"device types {types}: a kernel and memory for them come from --eagle-quirks")
    return eagle_run.quirks
