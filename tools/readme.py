# SPDX-License-Identifier: Apache-2.0
"""Run the README's example and compare what it prints with the README: ``python tools/readme.py [--write]``."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.compile(r"<!-- example:.*?-->\n\n```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)


def printed_by(code: str) -> str:
    """What the code prints; from a file, since hawk reads the source text of its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "example.py"
        program.write_text(code)
        done = subprocess.run([sys.executable, "-W", "error", str(program)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the README's example failed:\n{done.stderr}")
    return done.stdout


def main() -> None:
    text = README.read_text()
    found = BLOCKS.search(text)
    if found is None:
        sys.exit("README.md: the example and its output were not found")
    printed, shown = printed_by(found["code"]), found["output"]
    if printed == shown:
        return
    if "--write" in sys.argv:
        README.write_text(text[:found.start("output")] + printed + text[found.end("output"):])
        return
    sys.exit("\n".join(difflib.unified_diff(shown.splitlines(), printed.splitlines(), "README.md", "printed")))


if __name__ == "__main__":
    main()
