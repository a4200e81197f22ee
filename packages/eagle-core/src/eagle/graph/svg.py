# SPDX-License-Identifier: Apache-2.0
"""A sketch as an SVG image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from eagle.graph.drawing import CELL, FONT, KINDS, LINE, TILE, Arrow, Label, Point, Rect, Sketch, heat

__all__ = ["BAND", "BOXES", "TEXTS", "TIP", "TITLE", "svg_of"]

TITLE = 2.6 * FONT  # its height
#: Of each role of boxes: fill, line, its width, dashes.
BOXES: dict[str, tuple[str, str, float, tuple[float, ...]]] = {
    "frame": ("#f6f4ee", "#9c9276", 0.9, ()), "node": ("#eef3fb", "#4f6d9c", 1.1, ()),
    "own": ("#ffffff", "#4f6d9c", 1.1, (4.0, 2.5))}
TEXTS = {"node": "#16202e", "plane": "#5a4a7a", "frame": "#75694a", "gutter": "#7b8594", "legend": "#5b6472"}
BAND = "#d5ecdb"  # behind nodes that run together
TIP = (7.0, 2.8)  # an arrow's: its length, and half its width


def svg_of(sketch: Sketch) -> str:
    """The image, on a white page of its own."""
    width = max(sketch.width, len(sketch.title) * 1.1 * CELL + 3 * FONT)
    height = sketch.height + TITLE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" '
        f'font-size="{FONT:g}">',
        f"<title>{_text(sketch.title)}</title>",
        '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>',
        f'<text x="12" y="{1.7 * FONT:g}" font-size="{1.1 * FONT:g}" font-weight="bold" fill="#16202e">'
        f"{_text(sketch.title)}</text>",
        f'<g transform="translate(0 {TITLE:g})">',
        *(_rect(rect) for rect in sketch.rects if rect.role == "frame"),
        *(_band(band) for band in sketch.bands),
        *(line for arrow in sketch.arrows for line in _arrow(arrow)),
        *(_rect(rect) for rect in sketch.rects if rect.role != "frame"),
        *(_label(label) for label in sketch.labels),
        *(_band(((x + FONT / 2, y), (x + LINE - FONT / 2, y)), FONT) if kind == "tile" else
          f'<path d="M{x:.1f} {y:.1f}h{LINE:g}" fill="none" {_stroke(kind)}/>' for kind, x, y in sketch.legend),
        "</g></svg>"]
    return "\n".join(parts) + "\n"


def _text(words: str) -> str:
    """What XML may hold of a text."""
    return escape(re.sub("[^\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]", " ", words))


def _dashed(dashes: Sequence[float]) -> str:
    return f' stroke-dasharray="{" ".join(f"{dash:g}" for dash in dashes)}"' if dashes else ""


def _stroke(kind: str) -> str:
    colour, dashes = KINDS[kind]
    return f'stroke="{colour}" stroke-width="1.2"{_dashed(dashes)}'


def _band(points: Sequence[Point], width: float = TILE) -> str:
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return (f'<path d="M{way}" fill="none" stroke="{BAND}" stroke-width="{width:g}" stroke-linecap="round" '
            f'stroke-linejoin="round"/>')


def _rect(rect: Rect) -> str:
    fill, line, width, dashes = BOXES[rect.role]
    if rect.heat is not None:
        fill = heat(rect.heat)
    return (f'<rect x="{rect.x:.1f}" y="{rect.y:.1f}" width="{rect.w:.1f}" height="{rect.h:.1f}" rx="4" fill="{fill}" '
            f'stroke="{line}" stroke-width="{width}"{_dashed(dashes)}/>')


def _label(label: Label) -> str:
    anchor = ' text-anchor="middle"' if label.middle else ""
    slanted = ' font-style="italic"' if label.role == "plane" else ""
    baseline = label.y + 0.35 * FONT
    inside = _text(label.lines[0]) if len(label.lines) == 1 else "".join(
        f'<tspan x="{label.x:.1f}" dy="{1.25 * FONT if i else 0:g}">{_text(line)}</tspan>'
        for i, line in enumerate(label.lines))
    behind = "" if label.role != "frame" else (
        f'<rect x="{label.x - 2:.1f}" y="{label.y - 0.55 * FONT:.1f}" width="{len(label.lines[0]) * CELL + 4:.1f}" '
        f'height="{0.95 * FONT:.1f}" fill="{BOXES["frame"][0]}"/>')
    return (f'{behind}<text x="{label.x:.1f}" y="{baseline:.1f}" fill="{TEXTS[label.role]}"{anchor}{slanted}>'
            f"{inside}</text>")


def _arrow(arrow: Arrow) -> Iterator[str]:
    """Its line, which ends inside the tip, and the tip, which looks downwards."""
    length, half = TIP
    *way, (verb, points) = arrow.path
    x, y = points[-1]
    steps = "".join(verb + " ".join(f"{px:.1f} {py:.1f}" for px, py in some)
                    for verb, some in [*way, (verb, (*points[:-1], (x, y - length / 2)))])
    yield f'<path d="{steps}" fill="none" {_stroke(arrow.kind)}/>'
    yield (f'<path d="M{x:.1f} {y:.1f}l{-half:g} {-length:g}h{2 * half:g}z" fill="{KINDS[arrow.kind][0]}"/>')
