# SPDX-License-Identifier: Apache-2.0
"""Run the examples of the pages and compare what they print with what is shown: ``python tools/readme.py [--write]``.

An example is a ``python`` block with a ``text`` block right behind it. The examples of a page are one program, in
order, so imports and names last to its end.
"""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/guide.md", "docs/kernels.md", "docs/interop.md", "docs/loops.md",
         "docs/active-sets.md", "docs/stepping.md", "docs/dispatch.md", "docs/graphs.md")
EXAMPLE = re.compile(r"```python\n(?P<code>(?:(?!```).)*)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
MARK = "==== the next example ===="


def printed_by(page: str, codes: list[str]) -> list[str]:
    """What each example prints; from a file, since hawk reads the source text of its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "examples.py"
        program.write_text(f"print({MARK!r})\n".join(codes))
        done = subprocess.run([sys.executable, "-W", "error", str(program)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{page}: an example failed:\n{done.stderr}")
    return done.stdout.split(MARK + "\n")


def renewed(page: str, text: str) -> str:
    """The page with what its examples print now."""
    examples = list(EXAMPLE.finditer(text))
    if len(examples) != text.count("```python\n") or not examples:
        sys.exit(f"{page}: an example without its output, or none at all")
    printed = printed_by(page, [example["code"] for example in examples])
    for example, output in reversed(list(zip(examples, printed, strict=True))):
        text = text[:example.start("output")] + output + text[example.end("output"):]
    return text


def main() -> None:
    stale = []
    for page in PAGES:
        shown = (ROOT / page).read_text()
        now = renewed(page, shown)
        if "--write" in sys.argv:
            (ROOT / page).write_text(now)
        elif now != shown:
            stale += difflib.unified_diff(shown.splitlines(), now.splitlines(), page, "printed", lineterm="")
    if stale:
        sys.exit("\n".join(stale))


if __name__ == "__main__":
    main()
