# SPDX-License-Identifier: Apache-2.0
"""Where everything of a picture goes on a page, in points from its top left corner."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from eagle import _core

if TYPE_CHECKING:
    from eagle.graph.pictures import Box

__all__ = ["Arrow", "CELL", "FONT", "KINDS", "LINE", "Label", "Point", "Rect", "Sketch", "TILE", "heat", "sketch"]

FONT = 10.0  # size of letters
CELL = 0.61 * FONT  # width of one, in a font where all have the same
ROW = 1.25 * FONT
BUS = 3  # rows in which arrows turn
WRAP = 26  # letters of a line of a label
EDGE = 12.0  # around everything
BESIDE = 0.85  # cells between arrows of different kinds that leave a node
LINE = 26.0  # of a kind in the legend
TILE = 1.9 * FONT  # width of the band behind nodes that run together
MANY_LAYERS = 12  # up to this a picture is one column
PROPORTION = 1.4  # wanted of width to height

#: What tells the kinds of edges apart: colour, dashes.
KINDS: dict[str, tuple[str, tuple[float, ...]]] = {
    "RAW": ("#3b4a63", ()), "WAR": ("#c2570c", (4.0, 2.5)), "WAW": ("#8b3fc7", (1.2, 2.2))}

Point = tuple[float, float]


class Rect(NamedTuple):
    """A box of role "node", "own" or "frame"; `heat`, 0 to 1, is how much of the time the node takes."""

    x: float
    y: float
    w: float
    h: float
    role: str
    heat: float | None = None


class Label(NamedTuple):
    """Lines of text, the middle of the first one at y; they start, or have their middle, at x."""

    x: float
    y: float
    lines: tuple[str, ...]
    role: str
    middle: bool = False


class Arrow(NamedTuple):
    """A way through points: "M" moves, "L" draws a line, "C" a curve past two points; its tip is the end."""

    path: tuple[tuple[str, tuple[Point, ...]], ...]
    kind: str


@dataclass
class Sketch:
    """Everything to be drawn, and the page's size without its title."""

    title: str
    width: float = 0.0
    height: float = 0.0
    rects: list[Rect] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    bands: list[tuple[Point, ...]] = field(default_factory=list)  # behind nodes that run together
    legend: list[tuple[str, float, float]] = field(default_factory=list)  # kind or "tile", where its line begins


def heat(share: float | None) -> str:
    """The colour of a box that takes this much of the longest time, from light to dark."""
    if share is None:
        return "#ffffff"
    part = min(max(share, 0.0), 1.0)
    cold, hot = (255, 250, 235), (240, 120, 50)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(cold, hot, strict=True))


class _Column(NamedTuple):
    """Layers that stand below each other, and where."""

    first: int
    last: int
    left: float
    top: float


class _Page:
    """Cells to points: the layers are cut into columns, each of which begins at the top."""

    def __init__(self, placed: Mapping[str, Any]) -> None:
        self.rows: list[tuple[int, ...]] = placed["rows"]
        self.runs: list[tuple[int, int, list[str], int, list[int]]] = placed["runs"]
        self._ends = [row[5] for row in self.rows]
        self.width = (placed["size"][0] + 1) * CELL
        starts = [0, *self._cuts(placed), len(self.rows)] if self.rows else []
        self.crossing = [sorted({(x[cut - 1 - first], x[cut - first]) for _, _, _, first, x in self.runs
                                 if first < cut <= first + len(x) - 1}) for cut in starts[1:-1]]
        self.lanes = [{way: i for i, way in enumerate(ways)} for ways in self.crossing]
        self.lane = (1 + BESIDE * len({kind for run in self.runs for kind in run[2]})) * CELL
        most = max((len(ways) for ways in self.crossing), default=0)
        self.gap = 4 * CELL + most * self.lane  # between columns
        self.margin = EDGE + most * self.lane + (ROW if most else 0.0)  # above them
        self.columns = [_Column(first, last, EDGE + i * (self.width + self.gap), self.margin)
                        for i, (first, last) in enumerate(zip(starts, starts[1:], strict=False))]
        self.of_layer = [i for i, column in enumerate(self.columns) for _ in range(column.first, column.last)]
        tallest = max((self.rows[c.last - 1][5] - self.rows[c.first][0] for c in self.columns), default=0)
        self.height = self.margin + tallest * ROW + EDGE + most * self.lane
        self.right = EDGE + len(self.columns) * (self.width + self.gap) - self.gap + EDGE

    def _cuts(self, placed: Mapping[str, Any]) -> list[int]:
        """The layers that begin a column: where few arrows cross, and no frame."""
        count = len(self.rows)
        if count <= MANY_LAYERS:
            return []
        height = self.rows[-1][5] * ROW
        columns = min(max(1, round(sqrt(PROPORTION * height / self.width))), count // 4)
        crossed = [0] * (count + 1)
        for _, _, _, first, x in self.runs:
            for layer in range(first + 1, first + len(x)):
                crossed[layer] += 1
        for _, _, y, _, h, _ in placed["borders"]:
            for layer in range(1, count):
                if y < self.rows[layer][0] < y + h:
                    crossed[layer] += len(self.runs) + 1
        cuts: list[int] = []
        for i in range(1, columns):
            ideal, reach = i * count / columns, max(1, count // columns // 5)
            lowest = max(round(ideal) - reach, cuts[-1] + 1 if cuts else 1)
            near = range(lowest, min(round(ideal) + reach, count - 1) + 1)
            best = min(near, key=lambda layer: (crossed[layer], abs(layer - ideal)), default=0)
            if best and crossed[best] <= len(self.runs):
                cuts.append(best)
        return cuts

    def layer_at(self, y: float) -> int:
        return bisect_right(self._ends, y)

    def x(self, layer: int, cells: float) -> float:
        return self.columns[self.of_layer[layer]].left + cells * CELL

    def y(self, layer: int, rows: float) -> float:
        column = self.columns[self.of_layer[layer]]
        return column.top + (rows - self.rows[column.first][0]) * ROW


def sketch(drawing: _core.Drawing, nodes: Sequence[Box], title: str, *, edge_labels: bool = True,
           show_schedule: bool = True, shares: Mapping[int, float] | None = None) -> Sketch:
    """Lay a drawing out on a page."""
    placed = drawing.placed(WRAP, BUS)
    page = _Page(placed)
    out = Sketch(" ".join(title.split()))
    out.width, out.height = page.right, page.height
    layer_of = [page.layer_at(y) for _, y, _, _, _ in placed["boxes"]]
    for _, x, y, w, h, label in sorted(placed["borders"], key=lambda border: -border[3]):
        layer = page.layer_at(y)
        left, top = page.x(layer, x + 0.5), page.y(layer, y)
        out.rects.append(Rect(left, top, (w - 1) * CELL, h * ROW, "frame"))
        out.labels.append(Label(left + CELL, top + 0.6 * ROW, (label,), "frame"))
    longest = max(shares.values(), default=0.0) if shares else 0.0
    for i, (x, y, w, h, lines) in enumerate(placed["boxes"]):
        layer = layer_of[i]
        share = shares.get(i) if shares else None
        part = None if share is None else share / longest if longest > 0 else 0.0
        out.rects.append(Rect(page.x(layer, x), page.y(layer, y + 0.35), w * CELL, (h - 0.7) * ROW,
                              "own" if nodes[i].own else "node", part))
        first = page.y(layer, y + h / 2 - (len(lines) - 1) / 2)
        out.labels.append(Label(page.x(layer, x + w / 2), first, tuple(lines), "node", middle=True))
    if edge_labels:
        for node, x, y, lines in placed["names"]:
            layer = layer_of[node]
            out.labels.append(Label(page.x(layer, x + 0.5), page.y(layer, y + 0.5), tuple(lines), "plane"))
    for x, y, words in placed["gutter"]:
        layer = page.layer_at(y)
        shown = words if show_schedule else " ".join(words.split()[:2])
        out.labels.append(Label(page.x(layer, x - 2), page.y(layer, y + 1.5), (shown,), "gutter"))
    _draw_arrows(out, page, placed, layer_of)
    if show_schedule:
        _draw_bands(out, page, placed, nodes, layer_of)
    _draw_legend(out, page, drawing.hidden)
    return out


def _draw_bands(out: Sketch, page: _Page, placed: Mapping[str, Any], nodes: Sequence[Box],
                layer_of: Sequence[int]) -> None:
    """From each node to the next one that it runs together with; from one column to another it ends and goes on."""
    def point(i: int, layer: int, rows: float) -> Point:
        x, _, w, _, _ = placed["boxes"][i]
        return page.x(layer, x + w / 2), page.y(layer, rows)

    ways: dict[int, list[tuple[int, list[Point]]]] = {}
    for i, node in enumerate(nodes):
        if node.tile < 0:
            continue
        layer, (_, y, _, h, _) = layer_of[i], placed["boxes"][i]
        parts = ways.setdefault(node.tile, [])
        if not parts or (before := page.of_layer[layer_of[parts[-1][0]]]) != page.of_layer[layer]:
            if parts:
                last, points = parts[-1]
                end = page.columns[before].last - 1
                points.append((points[-1][0], page.y(end, page.rows[end][4])))
                parts.append((i, [point(i, layer, page.rows[page.columns[page.of_layer[layer]].first][0])]))
            else:
                parts.append((i, []))
        parts[-1] = i, [*parts[-1][1], point(i, layer, y + h / 2)]
    out.bands += [tuple(points) for parts in ways.values() for _, points in parts]


def _draw_arrows(out: Sketch, page: _Page, placed: Mapping[str, Any], layer_of: Sequence[int]) -> None:
    """One arrow a pair and kind. Those that reach a box share its upper side, in the order they come from; where it is
    too short for that, those of a kind meet."""
    boxes = placed["boxes"]
    free = _beside_labels(placed, layer_of, page)
    arriving: dict[int, list[tuple[int, int, str]]] = {}  # by target: where from, run, kind
    for r, (_, dst, kinds, _, x) in enumerate(page.runs):
        arriving.setdefault(dst, []).extend((x[-2], r, kind) for kind in kinds)
    ends: dict[tuple[int, str], float] = {}
    for dst, ways in arriving.items():
        bx, _, bw, _, _ = boxes[dst]
        order = {kind: i for i, kind in enumerate(KINDS)}
        ways.sort(key=lambda way: (way[0], way[1], order[way[2]]))
        left = max(bx + 1, free.get(dst, 0))
        meeting = len(ways) > bx + bw - 1 - left
        places = [kind for kind in KINDS if any(way[2] == kind for way in ways)] if meeting else ways
        step = min(1.6, (bx + bw - 1 - left) / len(places))
        middle = max(bx + bw / 2, left + len(places) * step / 2)
        for way in ways:
            i = places.index(way[2] if meeting else way)  # type: ignore[arg-type]
            ends[way[1], way[2]] = middle + (i - (len(places) - 1) / 2) * step
    leaving: dict[int, set[str]] = {}
    for src, _, kinds, _, _ in page.runs:
        leaving.setdefault(src, set()).update(kinds)
    for r, (src, dst, kinds, first, x) in enumerate(page.runs):
        side_by_side = [kind for kind in KINDS if kind in leaving[src]]
        for kind in kinds:
            aside = 0.5 + BESIDE * (side_by_side.index(kind) - (len(side_by_side) - 1) / 2)
            at = (page.x(first, x[0] + aside), page.y(first, boxes[src][1] + boxes[src][3] - 0.35))
            path: list[tuple[str, tuple[Point, ...]]] = [("M", (at,))]
            for layer, cell in enumerate(x[1:], first):
                last = layer + 1 == layer_of[dst]
                down = (at[0], page.y(layer, page.rows[layer][4]))
                above = (page.x(layer + 1, ends[r, kind] if last else cell + aside),
                         page.y(layer + 1, page.rows[layer + 1][0]))
                path.append(("L", (down,)))
                column = page.of_layer[layer]
                if column == page.of_layer[layer + 1]:
                    half = (above[1] - down[1]) / 2
                    path.append(("C", ((down[0], down[1] + half), (above[0], above[1] - half), above)))
                else:
                    lane = page.lanes[column][x[layer - first], cell] * page.lane + (aside - 0.5) * CELL
                    path.extend(_to_next_column(page, column, lane, down, above))
                at = (above[0], page.y(layer + 1, boxes[dst][1] + 0.35 if last else page.rows[layer + 1][4]))
                if at != above:
                    path.append(("L", (at,)))
            out.arrows.append(Arrow(tuple(path), kind))


def _beside_labels(placed: Mapping[str, Any], layer_of: Sequence[int], page: _Page) -> dict[int, float]:
    """Of each node in frames that begin above it, the first cell right of their labels."""
    free: dict[int, float] = {}
    tops: dict[int, list[tuple[int, int, int]]] = {}
    for _, x, y, w, _, label in placed["borders"]:
        tops.setdefault(page.layer_at(y), []).append((x, x + w, len(label)))
    for i, (x, _, w, _, _) in enumerate(placed["boxes"]):
        ends = [left + length + 2.5 for left, right, length in tops.get(layer_of[i], ()) if left < x and x + w < right]
        if ends and max(ends) < x + w - 2:
            free[i] = max(ends)
    return free


def _to_next_column(page: _Page, column: int, lane: float, down: Point, above: Point
                    ) -> list[tuple[str, tuple[Point, ...]]]:
    """From the foot of a column to the head of the next, between the two."""
    foot = down[1] + BUS * ROW / 2 + lane
    head = page.margin - ROW / 2 - lane
    turn = page.columns[column + 1].left - page.gap + 2 * CELL + lane
    corners: list[Point] = [(down[0], foot), (turn, foot), (turn, head), (above[0], head)]
    path: list[tuple[str, tuple[Point, ...]]] = []
    before = down
    for corner, after in zip(corners, [*corners[1:], above], strict=True):
        path.append(("L", (_towards(corner, before),)))
        path.append(("C", (corner, corner, _towards(corner, after))))
        before = corner
    path.append(("L", (above,)))
    return path


def _towards(point: Point, other: Point, most: float = 5.0) -> Point:
    """A point a little from the first one, on the way to the other."""
    dx, dy = other[0] - point[0], other[1] - point[1]
    length = sqrt(dx * dx + dy * dy)
    part = min(0.5, most / length) if length else 0.0
    return point[0] + part * dx, point[1] + part * dy


def _draw_legend(out: Sketch, page: _Page, hidden: int) -> None:
    """What the kinds mean, where not all are data that flows, and that not all edges are drawn."""
    kinds = [kind for kind in KINDS if any(arrow.kind == kind for arrow in out.arrows)]
    lines = [(kind, f"{kind} {_core.EDGE_MEANINGS[kind]}") for kind in kinds] if kinds != ["RAW"] else []
    if out.bands:
        lines.append(("tile", "run together, tile by tile"))
    for kind, words in lines:
        y = out.height + ROW / 2
        out.legend.append((kind, EDGE, y))
        out.labels.append(Label(EDGE + LINE + 8, y, (words,), "legend"))
        out.width = max(out.width, 2 * EDGE + LINE + 8 + len(words) * CELL)
        out.height += 1.3 * ROW
    if hidden:
        words = f"not drawn: {hidden} edges that a path of these implies"
        out.labels.append(Label(EDGE, out.height + ROW / 2, (words,), "legend"))
        out.width = max(out.width, 2 * EDGE + len(words) * CELL)
        out.height += 1.3 * ROW
    if out.height > page.height:
        out.height += EDGE - 0.3 * ROW
