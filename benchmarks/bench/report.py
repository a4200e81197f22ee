"""Results as JSON and as a Markdown table that is also readable as plain text."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.machine import QUIET
from bench.measure import Measured

MARKS = {True: "yes", False: "**NO**", None: "?"}


def quantity(value: float, unit: str) -> str:
    """A value with three significant digits and a fitting unit; seconds a step are shown as steps a second."""
    if unit == "s/step":
        return rate(1 / value)
    if unit != "s":
        return three(value)
    for scale, name in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if abs(value) < scale:
            return f"{three(value / scale * 1000)} {name}"
    return f"{three(value)} s"


def rate(value: float) -> str:
    """So many a second, as 1.23 G, 45.6 M or 789 k."""
    for scale, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * scale:
            return three(value / scale) + name
    return three(value)


def three(value: float) -> str:
    """Three significant digits, never an exponent."""
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f}"


def table(results: Sequence[Measured]) -> str:
    """One row a cell, one column for each contender that occurs."""
    names = list(dict.fromkeys(who for result in results for who in result.cell.contenders))
    moved = any(result.cell.moved for result in results)
    header = ["what", "n", *names, *(["GB/s"] if moved else []), "peer/ours", "of minima", "goal", "found", "met"]
    rows = [_row(result, names, moved) for result in results]
    return markdown(header, rows)


def _row(result: Measured, names: Sequence[str], moved: bool) -> list[str]:
    cell, medians = result.cell, result.medians
    n = "" if cell.n is None else f"{cell.n:,}"
    figures = [figure(result, who) for who in names]
    rates = " / ".join(f"{cell.moved / medians[who] / 1e9:.1f}" for who in medians) if cell.moved else ""
    goals = "; ".join(goal.text for goal in cell.goals)
    found = "; ".join(
        "?" if (value := goal.check(medians)[0]) is None else quantity(value, goal.unit) for goal in cell.goals
    )
    ratios = ["" if ratio is None else three(ratio) for ratio in (result.ratio, result.ratio_of_minima)]
    mark = "skipped" if result.skipped else MARKS[result.met] if cell.goals else ""
    return [cell.name, n, *figures, *([rates] if moved else []), *ratios, goals, found, mark]


def figure(result: Measured, who: str) -> str:
    """One contender's figure in a cell: `~` marks an unsteady one, brackets one that is that of a smaller batch."""
    if who not in result.figures:
        return ""
    figures = result.figures[who]
    if figures.error:
        return "error"
    text = quantity(figures.median, result.cell.unit)
    return f"({text})" if figures.estimated else ("~" if figures.unsteady else "") + text


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = ["| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
             for row in (header, *rows)]  # fmt: skip
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def notes(results: Sequence[Measured]) -> list[str]:
    """What the table does not hold: errors, skipped cells, results that differ."""
    found = []
    for result in results:
        label = result.cell.name if result.cell.n is None else f"{result.cell.name}, n = {result.cell.n:,}"
        if result.skipped:
            found.append(f"{label}: skipped, {result.skipped}")
        if result.same_bits is False:
            found.append(f"{label}: the contenders' results differ")
        if result.same_results is False:
            found.append(f"{label}: results differ by more than rounding")
    compared = [result.same_bits for result in results if result.same_bits is not None]
    errors = [
        f"{who}: {figures.error}" for result in results for who, figures in result.figures.items() if figures.error
    ]
    found += [f"{error} (in {count} of {len(results)} cells)" for error, count in Counter(errors).items()]
    if any(figures.unsteady for result in results for figures in result.figures.values()):
        found.append("~ marks a median whose quartiles lie more than a factor of 1.5 apart: trust no ratio made of it.")
    found.append(f"Results are the same to the bit in {sum(compared)} of {len(compared)} cells compared.")
    near = [result.same_results for result in results if result.same_results is not None]
    if near:
        found.append(f"All tools' results are the same but for rounding in {sum(near)} of {len(near)} cells.")
    bounds = {result.cell.bound for result in results for figures in result.figures.values() if figures.estimated}
    found += [f"(in brackets): not run, or ended, as it takes more than {bound:g} s; the speed is that of a smaller n."
              for bound in bounds]
    return found


def write(
    folder: Path | None,
    suite: str,
    facts: dict[str, Any],
    results: Sequence[Measured],
    body: Callable[[Sequence[Measured]], str] = table,
) -> str:
    """Writes `<suite>.json` and `<suite>.md`, where a folder is given; returns the text of the latter."""
    machine = facts["machine"]
    about = f"- {machine['cpu']}, {machine['cpus']} CPUs, {machine['system']}."
    lines = [f"# {suite}", "", about, *(_tool(name, found) for name, found in facts["versions"].items())]
    if facts["quick"]:
        lines.append("- Quick run: few rounds, no large sizes; no basis for a claim.")
    shares = [share for share in (machine["busy_before"], machine["busy_after"]) if share is not None]
    if any(share > QUIET for share in shares):
        lines.append(f"- Busy machine ({max(shares):.0%} of the CPUs used by others): no basis for a claim.")
    lines += ["", body(results), "", *(f"- {note}" for note in notes(results)), ""]
    text = "\n".join(lines)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        content = {"suite": suite, **facts, "cells": [result.as_json() for result in results]}
        (folder / f"{suite}.json").write_text(json.dumps(content, indent=1) + "\n")
        (folder / f"{suite}.md").write_text(text)
    return text


def _tool(name: str, found: dict[str, str]) -> str:
    return f"- {name}: " + ", ".join(f"{package} {version}" for package, version in found.items()) + "."
