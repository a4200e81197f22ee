# SPDX-License-Identifier: Apache-2.0
"""The examples of the README and the guide print what is shown; commands, links and anchors lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_examples_print_what_is_shown() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "readme.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_pictures_are_what_is_drawn() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "draw_graphs.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_commands_name_sessions() -> None:
    sessions = re.findall(r"^def (\w+)\(session: nox\.Session", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    named = re.findall(r"nox -s (\w+)", (ROOT / "README.md").read_text())
    assert named and set(named) <= set(sessions)


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
            if "://" not in target:
                there = page.parent / target if target else page
                assert there.exists(), f"{page.name}: {target}"
                assert not anchor or anchor in anchors(there), f"{page.name}: {target}#{anchor}"


def test_every_distribution_has_the_license() -> None:
    text = (ROOT / "LICENSE").read_text()
    for project in [*(ROOT / "packages").glob("*/pyproject.toml"), *ROOT.glob("conformance/pyproject.toml")]:
        assert (project.parent / "LICENSE").read_text() == text, project.parent.name
