# SPDX-License-Identifier: Apache-2.0
"""Compare docs/frameworks.md with a record of the tests of the doors: ``python tools/frameworks_table.py RECORD
[--write]``.

``nox -s interop`` makes the record, build/frameworks.json, and runs this check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "frameworks.md"
COLUMNS = {"in": "read", "out": "written", "result": "results that are left out", "read only": "read-only, read",
           "write refused": "read-only, written", "stream": "a stream", "sample major": "sample-major, (N, w)",
           "one sample": "one sample"}
HEAD = """\
# Table of libraries

What `run`, the call form, `bind` (and `launch`) and `rebind` do with arrays in host memory, on this version. Where one
text stands in a cell, it holds for all four doors. [Arrays of other libraries](interop.md) explains it.

<!-- made by tools/frameworks_table.py from tests that passed; do not edit -->

- **zero-copy**, **in place**: the kernel works on the caller's own memory, and the caller's own object is returned.
- **read-only** arrays are those nobody may write: flagged so by a library, or with elements that share memory.
- **a stream**: given to `launch` of a bound plan, and to `import_buffer`.
- What requires grad, of PyTorch and of Warp, is read by `bind` alone, and never written.
- **vectors only**: Warp has no arrays without axes; `(3,)` of float64 is one sample, one `vec3d` is a batch of one.
- **copied**: into an array with the samples last, and back where it is written. A transpose of one is used in place.
- Every array argument of every [kernel form](forms.md) given by PyTorch, Warp or JAX gives the
  bits that NumPy's give, at `run` and at `bind`.

"""


def page(rows: list[dict[str, Any]]) -> str:
    lines = [("library", *COLUMNS.values()), ("---",) * (1 + len(COLUMNS)), *map(cells, rows)]
    return HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    version = (row["version"] or "").partition("+")[0]
    return (f"{row['library']} {version}".strip(), *(cell(row["cells"].get(column, {})) for column in COLUMNS))


def cell(by_door: dict[str, str]) -> str:
    """What happens, where doors differ with their names; "untested" where no test passed."""
    doors: dict[str, list[str]] = {}
    for door, text in by_door.items():
        doors.setdefault(text, []).append(door)
    if len(doors) == 1:
        return next(iter(doors))
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in doors.items()) or "untested"


def main(record: str, *options: str) -> int:
    wanted = page(json.loads(Path(record).read_text()))
    if "--write" in options:
        PAGE.write_text(wanted)
    elif not PAGE.is_file() or PAGE.read_text() != wanted:
        print("docs/frameworks.md is not what the tests show; "
              f"python tools/frameworks_table.py {record} --write renews it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
