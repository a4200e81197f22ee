"""A report of rates: how the goals are met over all cells, then a table for each first word of the cells' names."""

from collections.abc import Sequence

from bench.measure import Measured
from bench.report import figure, markdown, quantity, three

SHOWN = 6  # cells that miss a goal, by name; further ones are counted


def body(results: Sequence[Measured]) -> str:
    """Goals, then figures; steps of samples a second where a cell's unit is a step."""
    groups: dict[str, list[Measured]] = {}
    for result in results:
        groups.setdefault(result.cell.name.partition(", ")[0], []).append(result)
    parts = ["## Goals", goals(results)]
    for name, group in groups.items():
        unit = "steps of samples a second" if group[0].cell.unit == "s/step" else "seconds"
        parts += [f"## {name}", f"In {unit}.", _table(group)]
    return "\n\n".join(parts)


def goals(results: Sequence[Measured]) -> str:
    """One row for a goal of a group of cells: in how many it is met, the worst value found, and where it is missed."""
    found: dict[tuple[str, str], list[tuple[float | None, bool | None, str]]] = {}
    worst, units = {}, {}
    for result in results:
        if result.skipped:
            continue
        name, _, rest = result.cell.name.partition(", ")
        where = rest if result.cell.n is None else f"{rest}, n = {result.cell.n:,}"
        for goal in result.cell.goals:
            value, met = goal.check(result.medians)
            found.setdefault((name, goal.text), []).append((value, met, where))
            worst[name, goal.text] = min if goal.at_least else max
            units[name, goal.text] = goal.unit
    rows = []
    for key, checks in found.items():
        values = [value for value, _, _ in checks if value is not None]
        missed = [f"{where} ({'?' if value is None else quantity(value, units[key])})"
                  for value, met, where in checks if not met]
        more = [f"and {len(missed) - SHOWN} more"] if len(missed) > SHOWN else []
        worst_value = quantity(worst[key](values), units[key]) if values else "?"
        met_in = f"{len(checks) - len(missed)} of {len(checks)}"
        rows.append([*key, met_in, worst_value, "; ".join(missed[:SHOWN] + more)])
    return markdown(["of", "goal", "met in", "worst", "missed in"], rows)


def _table(results: Sequence[Measured]) -> str:
    names = list(dict.fromkeys(who for result in results for who in result.cell.contenders))
    rows = []
    for result in results:
        ratio = [three(ratio) if (ratio := _ratio(result, suffix)) else "" for suffix in ("", " run")]
        n = "" if result.cell.n is None else f"{result.cell.n:,}"
        rows.append([result.cell.name.partition(", ")[2], n, *(figure(result, who) for who in names), *ratio])
    return markdown(["mix", "n", *names, "peer/ours", "run/run"], rows)


def _ratio(result: Measured, suffix: str) -> float | None:
    found = result.medians
    ours, peer = found.get("ours" + suffix), found.get("peer" + suffix)
    return peer / ours if ours and peer else None
