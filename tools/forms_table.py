# SPDX-License-Identifier: Apache-2.0
"""Compare docs/forms.md with a record of the tests of the forms: ``python tools/forms_table.py RECORD [--write]``.

``nox -s tests`` makes the record, build/forms, a file from each process that ran tests, and runs this check.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "forms.md"
HEAD = """\
# Table of kernel forms

What the tests run on this version, and what each form gives to the bit. [Kernel forms](kernels.md) explains them.

<!-- made by tools/forms_table.py from tests that passed; do not edit -->

- **Doors**: `run`, `bind` (and `launch`), and the call form.
- **Partitions**: every count in the range gives the same bits, for up to 100 003 samples. Over the sizes each count
  meets 1 to 4 threads; one form of each kind runs 1, 2, 3 and 7 partitions with 1, 2 and 4 threads each at the largest.
  Kernels that write across samples, and live sets, run as one range.
- **Equal to**: every bit is that of NumPy, or of a plain loop over the samples in order; sums over samples are rows of
  32 and the canonical tree, as loops. Kernels are built without contraction (`HAWK_HOST_PROFILE=native`).

| form | kernel | doors | precisions | partitions | equal to |
|---|---|---|---|---|---|
"""


def page(rows: list[dict[str, object]]) -> str:
    return HEAD + "".join(f"| {' | '.join(cells(row))} |\n" for row in rows)


def cells(row: dict[str, object]) -> tuple[str, ...]:
    passed = [tuple(pair) for pair in row["doors"]]  # type: ignore[attr-defined]
    precisions = [precision for precision in ("float64", "float32") if any(of == precision for _, of in passed)]
    doors = [door for door in ("run", "bind", "call") if precisions and {(door, p) for p in precisions} <= set(passed)]
    kernel = str(row["kernel"]).replace("|", "\\|")
    return (str(row["form"]), f"`{kernel}`", ", ".join(doors) or "none", ", ".join(precisions) or "none",
            "1" if row["partitions"] == 1 else f"1 to {row['partitions']}", str(row["against"]))


def main(record: str, *options: str) -> int:
    files = [json.loads(path.read_text()) for path in Path(record).glob("*.json")]
    rows = [{**same[0], "doors": [door for row in same for door in row["doors"]]} for same in zip(*files, strict=True)]
    wanted = page(rows)
    if "--write" in options:
        PAGE.write_text(wanted)
    elif not PAGE.is_file() or PAGE.read_text() != wanted:
        print(f"docs/forms.md is not what the tests show; python tools/forms_table.py {record} --write renews it",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
