# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: text, Mermaid, DOT, SVG, HTML and matplotlib, all from one layout.

Of a graph with more than :data:`DRAWN_EDGES` edges and more than four a node, a picture leaves out those between two
nodes which a path of others brings into the same order, and says so. Above that many, what leaves a node passes other
layers as one line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from eagle import _core
from eagle.graph.drawing import sketch
from eagle.graph.svg import svg_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Box", "DRAWN_EDGES", "Frame", "Picture", "dot", "html", "mermaid", "plot", "svg", "text"]

#: Pictures show every edge of graphs with up to this many, or with up to four a node.
DRAWN_EDGES: int = _core.DRAWN_EDGES


class Box(NamedTuple):
    """A node: its label, kind, how it runs ("" as long as nobody knows), the innermost frame around it (-1: none),
    whether it is the user's own code, and the number of those that it runs together with, tile by tile (-1: none)."""

    label: str
    kind: str
    schedule: str = ""
    frame: int = -1
    own: bool = False
    tile: int = -1


class Frame(NamedTuple):
    """What holds nodes together: a stage (kind "stage"), or a conditional, which is drawn around its nodes."""

    kind: str
    label: str
    parent: int = -1


@dataclass(frozen=True)
class Picture:
    """What is drawn of a graph: its title, nodes, edges (``_core.derive_edges`` or (src, dst, plane, kind)), frames,
    and lines below the text. ValueError, once it is drawn, for edges or frames that lead nowhere or into a circle."""

    header: str
    nodes: Sequence[Box]
    edges: _core.Edges | Sequence[tuple[int, int, str, str]]
    frames: Sequence[Frame] = ()
    notes: Sequence[str] = ()

    @cached_property
    def drawing(self) -> _core.Drawing:
        """The nodes in their places."""
        edges = self.edges
        if not isinstance(edges, _core.Edges):
            edges = [(src, dst, _utf8(plane), kind) for src, dst, plane, kind in edges]
        return _core.Drawing([node._replace(label=_utf8(node.label)) for node in self.nodes], edges,
                             [frame._replace(label=_utf8(frame.label)) for frame in self.frames])

    def with_labels(self, labels: Sequence[str]) -> Picture:
        """The same picture with other labels, one a node."""
        nodes = [node._replace(label=label) for node, label in zip(self.nodes, labels, strict=True)]
        return replace(self, nodes=nodes)


def _utf8(text: str) -> str:
    """A text as it can be written; any but half a character is."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def text(picture: Picture, *, unicode: bool = True) -> str:
    """A picture as lines of text; unicode=False: ASCII."""
    header = picture.header if unicode else picture.header.replace("·", "-")
    notes = "".join(f"{note}\n" for note in picture.notes)
    return f"{header}\n\n{picture.drawing.text(unicode)}{notes}"


def mermaid(picture: Picture) -> str:
    """A picture as a flowchart of Mermaid."""
    return picture.drawing.mermaid()


def dot(picture: Picture) -> str:
    """A picture as a digraph of Graphviz."""
    return picture.drawing.dot()


def svg(picture: Picture) -> str:
    """A picture as an SVG image."""
    return svg_of(sketch(picture.drawing, picture.nodes, picture.header))


def html(picture: Picture) -> str:
    """A picture as HTML: the SVG image in a box that scrolls."""
    return f'<div style="overflow:auto;max-height:80vh">{svg(picture)}</div>'


def plot(picture: Picture, ax: Any = None, *, edge_labels: bool = True, show_schedule: bool = True,
         shares: Mapping[int, float] | None = None) -> Figure:
    """A picture as a matplotlib figure, drawn into `ax` or into a figure of its own size.

    shares: the part (0 to 1) of the time that each node takes; it colours the boxes. ImportError without matplotlib.
    """
    from eagle.graph.plotting import figure_of

    if shares is not None:
        picture = picture.with_labels([f"{node.label} {shares[i]:.1%}" if i in shares else node.label
                                       for i, node in enumerate(picture.nodes)])
    return figure_of(sketch(picture.drawing, picture.nodes, picture.header, edge_labels=edge_labels,
                            show_schedule=show_schedule, shares=shares), ax)
