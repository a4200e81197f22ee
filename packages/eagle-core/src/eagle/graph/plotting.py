# SPDX-License-Identifier: Apache-2.0
"""A sketch as a matplotlib figure, without pyplot and its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from eagle.errors import refusal
from eagle.graph.drawing import CELL, FONT, KINDS, LINE, TILE, Arrow, Label, Point, Rect, Sketch, heat
from eagle.graph.svg import BAND, BOXES, TEXTS, TIP, TITLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.path import Path

__all__ = ["figure_of"]

LARGEST = 200.0  # inches of a side; images of more have too many pixels
MANY_LABELS = 500  # matplotlib takes about 0.2 ms for each: the letters of more are drawn as outlines


def figure_of(sketch: Sketch, ax: Any = None) -> Figure:
    """The figure of `ax`, else a new one of the sketch's size."""
    try:
        from matplotlib.collections import PathCollection
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(refusal("eagle.Graph.plot", "matplotlib", "that it is not installed", "matplotlib",
                                  "pip install eagle[plot]")) from error
    width = max(sketch.width, len(sketch.title) * 1.1 * CELL + 3 * FONT)
    if ax is None:
        height = sketch.height + TITLE
        scale = min(1.0, 72 * LARGEST / max(width, height))
        figure = Figure(figsize=(scale * width / 72, scale * height / 72))
        ax = figure.add_axes((0.0, 0.0, 1.0, sketch.height / height))
    else:
        figure = ax.get_figure()
        extent = ax.get_window_extent()
        scale = min(extent.width / width, extent.height / sketch.height) * 72 / figure.dpi
    ax.set_xlim(0, width)
    ax.set_ylim(sketch.height, 0)
    ax.set_aspect("equal", anchor="N")
    ax.set_axis_off()
    ax.set_title(sketch.title, fontsize=1.1 * FONT * scale, fontweight="bold", family="monospace")

    def add(paths: Iterable[Path], order: float, *, fill: Any = "none", line: Any = "none", thick: float = 0.0,
            dashes: Sequence[float] = (), **more: Any) -> None:
        pattern = (0, tuple(dash / thick for dash in dashes)) if dashes else "solid"
        ax.add_collection(PathCollection(list(paths), facecolors=fill, edgecolors=line, linewidths=thick * scale,
                                         linestyles=[pattern], zorder=order, **more), autolim=False)

    if sketch.bands:
        add([_band(band) for band in sketch.bands], 1.5, line=BAND, thick=TILE, capstyle="round", joinstyle="round")
        add([_band([(x + FONT / 2, y), (x + LINE - FONT / 2, y)]) for kind, x, y in sketch.legend if kind == "tile"],
            1.5, line=BAND, thick=FONT, capstyle="round")
    for kind, (colour, dashes) in KINDS.items():
        arrows = [arrow for arrow in sketch.arrows if arrow.kind == kind]
        marks = [_line(x, y) for name, x, y in sketch.legend if name == kind]
        if arrows or marks:
            add([*(_way(arrow) for arrow in arrows), *marks], 2, line=colour, thick=1.2, dashes=dashes)
            add([_tip(arrow) for arrow in arrows], 2.5, fill=colour)
    for role, (fill, line, thick, dashes) in BOXES.items():
        rects = [rect for rect in sketch.rects if rect.role == role]
        if rects:
            add([_rounded(rect) for rect in rects], 1 if role == "frame" else 3, line=line, thick=thick, dashes=dashes,
                fill=[fill if rect.heat is None else heat(rect.heat) for rect in rects])
    if len(sketch.labels) > MANY_LABELS:
        for role, colour in TEXTS.items():
            labels = [label for label in sketch.labels if label.role == role]
            if labels:
                add([_outlines(labels)], 4, fill=colour)
    else:
        for label in sketch.labels:
            _write(ax, label, scale)
    return figure


def _path(points: Any, codes: Any = None) -> Path:
    from matplotlib.path import Path

    return Path(points, codes)


def _way(arrow: Arrow) -> Path:
    codes = {"M": [1], "L": [2], "C": [4, 4, 4]}
    points = [point for _, some in arrow.path for point in some]
    points[-1] = points[-1][0], points[-1][1] - TIP[0] / 2  # it ends inside the tip
    return _path(points, [code for verb, _ in arrow.path for code in codes[verb]])


def _tip(arrow: Arrow) -> Path:
    x, y = arrow.path[-1][1][-1]
    length, half = TIP
    return _path([(x, y), (x - half, y - length), (x + half, y - length), (x, y)], [1, 2, 2, 79])


def _band(points: Sequence[Point]) -> Path:
    return _path(points if len(points) > 1 else [*points, *points])


def _line(x: float, y: float) -> Path:
    return _path([(x, y), (x + LINE, y)])


def _rounded(rect: Rect, r: float = 4.0) -> Path:
    x, y, w, h = rect[:4]
    right, below = x + w, y + h
    return _path([(x + r, y), (right - r, y), (right, y), (right, y + r), (right, below - r), (right, below),
                  (right - r, below), (x + r, below), (x, below), (x, below - r), (x, y + r), (x, y), (x + r, y),
                  (x + r, y)], [1, 2, 3, 3, 2, 3, 3, 2, 3, 3, 2, 3, 3, 79])


def _write(ax: Any, label: Label, scale: float) -> None:
    frame = label.role == "frame"
    ax.text(label.x, label.y + (len(label.lines) - 1) * 0.625 * FONT, "\n".join(label.lines), family="monospace",
            fontsize=FONT * scale, style="italic" if label.role == "plane" else "normal", color=TEXTS[label.role],
            linespacing=1.07, zorder=4, ha="center" if label.middle else "left",
            va="center_baseline" if len(label.lines) == 1 else "center", parse_math=False,
            bbox={"facecolor": BOXES["frame"][0], "edgecolor": "none", "pad": scale} if frame else None)


def _outlines(labels: Iterable[Label]) -> Path:
    """The letters of many labels as one path."""
    points, codes = [], []
    for label in labels:
        for i, line in enumerate(label.lines):
            x = label.x - (len(line) * CELL / 2 if label.middle else 0.0)
            y = label.y + i * 1.25 * FONT + 0.35 * FONT
            for k, letter in enumerate(line):
                if not letter.isspace():
                    shape, how = _letter(letter)
                    points.append(shape + (x + k * CELL, y))
                    codes.append(how)
    return _path(np.concatenate(points), np.concatenate(codes)) if points else _path(np.zeros((0, 2)))


@cache
def _letter(letter: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), letter.replace("$", r"\$"), size=FONT, prop=FontProperties(family="monospace"))
    return np.asarray(path.vertices) * (1.0, -1.0), np.asarray(path.codes)
