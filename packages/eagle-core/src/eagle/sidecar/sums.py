# SPDX-License-Identifier: Apache-2.0
"""What a sidecar says of sums over samples (cells, companions, stages), and of planes that follow others."""

from __future__ import annotations

from typing import Any

from eagle.errors import shown
from eagle.sidecar.document import WIDEST, Document
from eagle.sidecar.launch import lane_space

__all__ = ["CELL_OPS", "adjoint_like", "cells", "companions", "gather_mats", "keyed", "param_planes", "stages"]

CELL_OPS = ("sum", "max", "min")
SUM = "accum_out"
MOST_STAGES = 4096


def cell_planes(name: str, op: str, columns: int) -> list[str]:
    """The planes of one reduction: a row plane a column, each with a companion where it sums."""
    rows = [name] if columns == 1 else [f"{name}_{i}" for i in range(columns)]
    return [plane for row in rows for plane in ((row, f"{row}_comp") if op == "sum" else (row,))]


def cells(doc: Document) -> dict[str, dict[str, Any]]:
    """``{name: {op, columns, internal}}`` of reductions over samples. A split kernel lists the cells of all stages."""
    found = {}
    split = bool(doc.meta.get("stages"))
    for name, value in doc.table("cells", doc.given("cells", {})).items():
        key = f"cells.{name}"
        doc.text("cells", name)
        doc.table(key, value, ("op", "columns"), ("internal",))
        op = doc.text(f"{key}.op", value["op"], CELL_OPS)
        columns = doc.integer(f"{key}.columns", value["columns"], 1, WIDEST if split else max(1, len(doc.slots)))
        doc.flag(f"{key}.internal", value.get("internal", False))
        if not split:
            for plane in cell_planes(name, op, columns):
                doc.slot(key, plane, SUM)
        found[name] = dict(value)
    return found


def companions(doc: Document) -> dict[str, str]:
    """``{companion: target}`` of compensated keyed sums, both planes of the kernel."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    pairs = doc.table("companions", doc.given("companions", {}))
    for name, target in pairs.items():
        doc.slot("companions", name, SUM)
        doc.slot(f"companions.{name}", target, SUM)
        doc.refuse_unless(target not in pairs and target not in taken, f"companions.{name}", target,
                          "a target of its own, that is no companion itself")
        found[name] = target
        taken.add(target)
    return found


def adjoint_like(doc: Document) -> dict[str, str]:
    """``{gradient: lookup plane whose size it has}``."""
    pairs = doc.table("adjoint_like", doc.given("adjoint_like", {}))
    return {doc.slot("adjoint_like", name, SUM): doc.slot(f"adjoint_like.{name}", like, "lookup", "wide_in")
            for name, like in pairs.items()}


def gather_mats(doc: Document) -> dict[str, list[bool] | None]:
    """``{matrix bound compact: the lane axes it varies along, or None}``."""
    found: dict[str, list[bool] | None] = {}
    for name, kept in doc.table("gather_mats", doc.given("gather_mats", {})).items():
        doc.slot("gather_mats", name, "mat_in")
        found[name] = None
        if kept is not None:
            key = f"gather_mats.{name}"
            axes = [doc.flag(key, flag) for flag in doc.items(key, kept)]
            doc.refuse_unless(len(axes) == len(lane_space(doc).axes), key, kept, "one flag a lane axis")
            found[name] = axes
    return found


def param_planes(doc: Document) -> tuple[str, ...]:
    """Lookup planes that stand for one value."""
    return doc.slot_list("param_planes", doc.given("param_planes", []), "lookup")


def keyed(doc: Document) -> dict[str, dict[str, Any]]:
    """``{plane between stages: {width, axes: [[label, extent]]}}``."""
    found = {}
    for name, value in doc.table("keyed", doc.given("keyed", {})).items():
        key = f"keyed.{name}"
        doc.text("keyed", name)
        doc.table(key, value, ("width", "axes"))
        axes = []
        for pair in doc.items(f"{key}.axes", value["axes"]):
            doc.refuse_unless(isinstance(pair, list | tuple) and len(pair) == 2, f"{key}.axes", pair,
                              "pairs, [label, extent]")
            axes.append(list(doc.axis(f"{key}.axes", *pair)))
        doc.refuse_unless(axes, f"{key}.axes", axes, "at least one axis")
        found[name] = {"width": doc.integer(f"{key}.width", value["width"], 1, WIDEST), "axes": axes}
    doc.refuse_unless(not found or doc.meta.get("stages"), "keyed", list(found), "none: the kernel has no stages")
    return found


def stages(doc: Document) -> tuple[dict[str, Any], ...]:
    """The kernels of a split kernel in order, itself first: ``{kernel, cells_in, cells_out, recomputed}``."""
    found = []
    for i, value in enumerate(doc.items("stages", doc.given("stages", []))):
        key = f"stages[{i}]"
        doc.table(key, value, ("kernel", "cells_in", "cells_out", "recomputed"))
        doc.text(f"{key}.kernel", value["kernel"])
        for part in ("cells_in", "cells_out", "recomputed"):
            names = [doc.text(f"{key}.{part}", name) for name in doc.items(f"{key}.{part}", value[part])]
            if part != "recomputed":
                known = doc.peer("cells")
                unknown = [name for name in names if name not in known]
                doc.refuse_unless(not unknown, f"{key}.{part}", unknown, f"some of the cells {shown(sorted(known))}")
        found.append(dict(value))
    kernels = [stage["kernel"] for stage in found]
    doc.refuse_unless(len(kernels) <= MOST_STAGES and len(set(kernels)) == len(kernels), "stages", kernels,
                      f"at most {MOST_STAGES} kernels, each once")
    doc.refuse_unless(not kernels or len(kernels) > 1 and kernels[0] == doc.meta.get("kernel", kernels[0]), "stages",
                      kernels, f"at least two kernels, {shown(doc.meta.get('kernel'))} first")
    return tuple(found)
