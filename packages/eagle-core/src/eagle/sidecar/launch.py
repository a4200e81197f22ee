# SPDX-License-Identifier: Apache-2.0
"""The launch block of a sidecar: the shape of a launch, exact block sizes, named axes of sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from eagle.errors import shown
from eagle.roles import OUTPUT_ROLES, in_our_words
from eagle.sidecar.document import MOST, WIDEST, Document

__all__ = ["UNDECLARED_LANE_SPACE", "LaneSpace", "LaunchDecl", "block", "box", "lane_space", "launch", "plane_axes",
           "read_block", "read_box", "read_lane_space", "read_launch", "read_plane_axes", "sorted_inputs"]

MOST_BLOCK = 2**20  # threads


@dataclass(frozen=True)
class LaneSpace:
    """The lanes of a launch: axes of (label, extent), the last one fastest, and the group lanes are compacted by.

    A label may be None; so may the first extent, which is then known at run time.
    """

    axes: tuple[tuple[str | None, int | None], ...]
    group: int = 1


UNDECLARED_LANE_SPACE = LaneSpace(((None, None),), 1)


@dataclass(frozen=True)
class LaunchDecl:
    """What a sidecar says of a launch: `block` are exact threads per block, `plane_axes` and `box` the declared blocks,
    `sorted_inputs` the planes promised in non-decreasing order.
    """

    lane_space: LaneSpace
    block: int | None
    plane_axes: dict[str, Any]
    sorted_inputs: tuple[str, ...]
    box: dict[str, int] | None


def read_launch(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_launch") -> LaunchDecl:
    """All a sidecar declares of a launch. Raises ValueError naming the artifact and the key."""
    doc = Document(door, name, meta)
    return LaunchDecl(lane_space(doc), block(doc), plane_axes(doc), sorted_inputs(doc), box(doc))


def read_lane_space(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_lane_space") -> LaneSpace:
    """The launch shape, :data:`UNDECLARED_LANE_SPACE` where none is declared. Raises ValueError."""
    return lane_space(Document(door, name, meta))


def read_block(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_block") -> int | None:
    """The exact threads per block, None where any will do. Raises ValueError."""
    return block(Document(door, name, meta))


def read_box(meta: Mapping[str, Any], *, name: str, door: str = "eagle.sidecar.read_box") -> dict[str, int] | None:
    """``{axis, T, stride}`` of a kernel whose threads compute T lanes each, else None. Raises ValueError."""
    return box(Document(door, name, meta))


def read_plane_axes(meta: Mapping[str, Any], *, name: str,
                    door: str = "eagle.sidecar.read_plane_axes") -> dict[str, Any]:
    """``{sink: {payload: [..], axes: [{label, extent}]}}`` of sinks with named axes. Raises ValueError."""
    return plane_axes(Document(door, name, meta))


# ---- one function a key ----------------------------------------------------------------------------------------------


def launch(doc: Document) -> Mapping[str, Any]:
    return doc.table("launch", doc.given("launch", {}))


def lane_space(doc: Document) -> LaneSpace:
    if "lane_space" not in launch(doc):
        return UNDECLARED_LANE_SPACE
    from raptor.schema import manifest as schema

    try:
        schema.check_lane_space(dict(doc.meta), name=doc.name)
    except ValueError as error:
        raise ValueError(in_our_words(doc.door, error)) from None
    space = launch(doc)["lane_space"]
    axes = tuple((axis["label"], axis["extent"]) for axis in space["axes"])
    for label, _ in axes:
        doc.refuse_unless(label is None or (label and label.isprintable()), "launch.lane_space", label,
                          "a printable label or null")
    if prod(extent or 1 for _, extent in axes) > MOST:
        raise doc.bad("launch.lane_space", f"the extents {shown([extent for _, extent in axes])}",
                      f"at most {MOST} lanes")
    return LaneSpace(axes, doc.integer("launch.lane_space.group", space["group"], least=1))


def box(doc: Document) -> dict[str, int] | None:
    value = launch(doc).get("box")
    if value is None:
        return None
    doc.table("launch.box", value, ("axis", "T", "stride"))
    return {key: doc.integer(f"launch.box.{key}", value[key], least, MOST_BLOCK)
            for key, least in (("axis", 0), ("T", 2), ("stride", 1))}


def block(doc: Document) -> int | None:
    value = launch(doc).get("block")
    return None if value is None else doc.integer("launch.block", value, 1, MOST_BLOCK)


def plane_axes(doc: Document) -> dict[str, Any]:
    found = {}
    for name, value in doc.table("plane_axes", doc.given("plane_axes", {})).items():
        key = f"plane_axes.{name}"
        doc.slot("plane_axes", name, *OUTPUT_ROLES)
        doc.table(key, value, ("payload", "axes"))
        payload = [doc.integer(f"{key}.payload", side, 1, WIDEST) for side in doc.items(f"{key}.payload",
                                                                                       value["payload"])]
        axes: list[dict[str, str | int | None]] = []
        cells = prod(payload)
        for i, axis in enumerate(doc.items(f"{key}.axes", value["axes"])):
            doc.table(f"{key}.axes[{i}]", axis, ("label", "extent"))
            label, extent = doc.axis(f"{key}.axes[{i}]", axis["label"], axis["extent"])
            axes.append({"label": label, "extent": extent})
            cells *= extent or 1
        labels = [axis["label"] for axis in axes]
        doc.refuse_unless(axes and len(set(labels)) == len(labels), f"{key}.axes", labels,
                          "at least one axis, each label once")
        doc.refuse_unless(cells <= MOST, key, value, f"at most {MOST} cells")
        found[name] = {"payload": payload, "axes": axes}
    return found


def sorted_inputs(doc: Document) -> tuple[str, ...]:
    names = doc.slot_list("sorted_inputs", doc.given("sorted_inputs", []), "per_sample")
    for name in names:
        dtype = doc.peer("arg_dtypes").get(name, "int64")
        if dtype not in ("int64", "int32", "uint32"):
            raise doc.bad("sorted_inputs", f"{name!r} of dtype {shown(dtype)}", "an integer plane")
    return names
