# SPDX-License-Identifier: Apache-2.0
"""Pictures of graphs: text, Mermaid and DOT to the letter, SVG and matplotlib by what is where."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from eagle import _core
from eagle.graph.drawing import CELL, sketch
from eagle.graph.pictures import DRAWN_EDGES, Box, Frame, Picture, dot, html, mermaid, plot, svg, text

HEADER = "eagle.Graph  3 nodes · 1 group · backend: cpu"
FORK = Picture(
    HEADER,
    [Box("up", "opaque", "work_share", 0, True), Box("dn", "opaque", "work_share", 0, True),
     Box("mix", "skippable", "work_share", 2, True)],
    [(0, 2, "u", "RAW"), (1, 2, "d", "RAW")],
    [Frame("stage", ""), Frame("stage", ""), Frame("skippable", "skip if guard", 1)])


def staged(*stages, frames=None, schedule="", own=()):
    """A picture of nodes given as {label: (reads, writes)}, one dict a stage; `frames` has labels around a node."""
    nodes, boxes, planes, where = [], [], [], {}
    for stage in stages:
        boxes.append(Frame("stage", ""))
        outer = len(boxes) - 1
        for label, (reads, writes) in stage.items():
            frame = outer
            for around in (frames or {}).get(label, ()):
                boxes.append(Frame("skippable", around, frame))
                frame = len(boxes) - 1
            for name in [*(r for r in reads if r not in writes), *writes]:
                access = 2 if name in reads and name in writes else 1 if name in writes else 0
                address = 4096 * (1 + where.setdefault(name, len(where)))
                planes.append((name, len(nodes), address, (100,), (8,), 8, access))
            nodes.append(Box(label, "launch", schedule, frame, label in own))
    return Picture(f"eagle.Graph  {len(nodes)} nodes", nodes, _core.derive_edges(planes), boxes)


def test_text_of_the_specification():
    assert text(FORK) == """\
eagle.Graph  3 nodes · 1 group · backend: cpu

  stage 0 work_share ┌───────┐   ┌───────┐
                     │ <up>  │   │ <dn>  │
                     └───┬───┘   └───┬───┘
                         u           d
                         └─────┬─────┘
                      ┌─ skip if guard ─┐
  stage 1 work_share  │ ┌──────┴──────┐ │
                      │ │    <mix>    │ │
                      │ └─────────────┘ │
                      └─────────────────┘
"""


def test_text_in_ascii():
    assert text(FORK, unicode=False) == """\
eagle.Graph  3 nodes - 1 group - backend: cpu

  stage 0 work_share +-------+   +-------+
                     | <up>  |   | <dn>  |
                     +---+---+   +---+---+
                         u           d
                         +-----+-----+
                      += skip if guard =+
  stage 1 work_share  | +------+------+ |
                      | |    <mix>    | |
                      | +-------------+ |
                      +=================+
"""


def test_text_of_every_kind_of_edge():
    # last overwrites seed's a, which left and right read before; loop reads what last wrote, and what seed did.
    picture = staged({"seed": ("", "a")}, {"left": ("a", ["b_long_name"]), "right": ("a", ["cc_long"])},
                     {"combine": (["b_long_name", "cc_long"], "d")}, {"last": ("a", "a")}, {"loop": ("ad", "e")},
                     frames={"combine": ["skip if guard"], "loop": ["repeat ≤ 5"]})
    assert text(picture) == """\
eagle.Graph  6 nodes

  stage 0                 ┌───────┐
                          │ seed  │
                          └───┬───┘
                              a
              ┌─────────────┬─┴─┬───────┐
  stage 1 ┌───┴───┐         │   │   ┌───┴───┐
          │ left  │         │   │   │ right │
          └───┬───┘         │   │   └───┬───┘
              b_long_name,a │   │       cc_long,a
              └───────┬─────┴───┴──┬───┬┴──┬...┐
             ┌─ skip if guard ─┐   :   │   │   :
  stage 2    │ ┌──────┴──────┐ │   :   │   │   :
             │ │   combine   │ │   :   │   │   :
             │ └──────┬──────┘ │   :   │   │   :
             └────────┼────────┘   :   │   │   :
                      d            :   │   │   :
                      └───┬───────┬┴──┬┴───┴...┘
  stage 3             ┌───┴───┐   │   │
                      │ last  │   │   │
                      └───┬───┘   │   │
                          a       │   │
                          └───┬───┴───┘
                      ┌─ repeat ≤ 5 ──┐
  stage 4             │ ┌─────┴─────┐ │
                      │ │   loop    │ │
                      │ └───────────┘ │
                      └───────────────┘
  edges:  ── RAW data flows  .. WAR must wait to overwrite
"""


def test_text_of_nested_frames():
    picture = staged({"init": ("", "ab")}, {"inner": ("a", "c"), "other": ("b", "d")}, {"deep": ("cd", "e")},
                     frames={"inner": ["repeat ≤ 100", "skip if guard"], "deep": ["skip if guard"]})
    assert text(picture) == """\
eagle.Graph  4 nodes

  stage 0              ┌───────┐
                       │ init  │
                       └───┬───┘
                           a,b
                     ┌─────┴────────────┐
          ┌─ repeat ≤ 100 ──────┐       │
          │ ┌─ skip if guard ─┐ │       │
  stage 1 │ │ ┌──────┴──────┐ │ │   ┌───┴───┐
          │ │ │    inner    │ │ │   │ other │
          │ │ └──────┬──────┘ │ │   └───┬───┘
          │ └────────┼────────┘ │       │
          └──────────┼──────────┘       │
                     c                  d
                     └─────┬────────────┘
                  ┌─ skip if guard ─┐
  stage 2         │ ┌──────┴──────┐ │
                  │ │    deep     │ │
                  │ └─────────────┘ │
                  └─────────────────┘
"""
    assert mermaid(picture) == """\
flowchart TD
  n0["init"]
  n2["other"]
  subgraph f0["repeat ≤ 100"]
    subgraph f1["skip if guard"]
      n1["inner"]
    end
  end
  subgraph f2["skip if guard"]
    n3["deep"]
  end
  n0 -->|"a"| n1
  n0 -->|"b"| n2
  n1 -->|"c"| n3
  n2 -->|"d"| n3
"""
    assert dot(picture) == """\
digraph eagle {
  rankdir=TB;
  node [shape=box];
  n0 [label="init"];
  n2 [label="other"];
  subgraph cluster_f0 {
    label="repeat ≤ 100";
    subgraph cluster_f1 {
      label="skip if guard";
      n1 [label="inner"];
    }
  }
  subgraph cluster_f2 {
    label="skip if guard";
    n3 [label="deep"];
  }
  n0 -> n1 [label="a", style=solid];
  n0 -> n2 [label="b", style=solid];
  n1 -> n3 [label="c", style=solid];
  n2 -> n3 [label="d", style=solid];
}
"""


ODD = Picture("h", [Box("é\t中文\n", "launch", "work_share"), Box("a" * 30, "launch", own=True), Box('q"\\', "launch")],
              [(0, 1, "p\nq", "WAW"), (0, 2, '"', "WAR")])


def test_labels_of_all_kinds():
    # A letter of Chinese takes two cells; control characters are blanks; without stages everything is stage 0.
    assert text(ODD) == """\
h

  stage 0               ┌─────────┐
                        │ é 中文  │
                        └────┬────┘
                             p q,"
                         ┌~~~┴.................┐
          ┌──────────────┴──────────────┐   ┌──┴──┐
          │ <aaaaaaaaaaaaaaaaaaaaaaa…>  │   │ q"\\ │
          └─────────────────────────────┘   └─────┘
  edges:  .. WAR must wait to overwrite  ~~ WAW same output
"""
    ascii_text = text(ODD, unicode=False)
    assert ascii_text.isascii()
    assert "| ? ??  |" in ascii_text
    assert "| <aaaaaaaaaaaaaaaaaaaaa...>  |" in ascii_text
    assert mermaid(ODD) == """\
flowchart TD
  n0["é 中文 <br/>work_share"]
  n1["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]
  n2["q#quot;\\"]
  n0 ==>|"p q"| n1
  n0 -.->|"#quot;"| n2
  classDef opaque stroke-dasharray: 4 2
  class n1 opaque
"""
    assert dot(ODD) == """\
digraph eagle {
  rankdir=TB;
  node [shape=box];
  n0 [label="é 中文 \\nwork_share"];
  n1 [label="aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", style=dashed];
  n2 [label="q\\"\\\\"];
  n0 -> n1 [label="p q", style=bold];
  n0 -> n2 [label="\\"", style=dashed];
}
"""


def test_half_a_character_is_drawn():
    picture = Picture("h", [Box("\udc80a", "launch"), Box("b", "launch")], [(0, 1, "\ud800", "RAW")])
    assert "│ ?a  │" in text(picture)
    ElementTree.fromstring(svg(picture))


def test_notes_come_last():
    picture = Picture("h", [Box("model [stream]", "opaque", own=True)], [],
                      notes=["  model [stream: cpu runs eagerly]"])
    assert text(picture).endswith("┘\n  model [stream: cpu runs eagerly]\n")


@pytest.mark.parametrize(("picture", "what"), [
    (Picture("h", [Box("a", "k")], [(0, 1, "x", "RAW")]), "0 to 1"),
    (Picture("h", [Box("a", "k")], [(0, 0, "x", "RAW")]), "0 to 0"),
    (Picture("h", [Box("a", "k"), Box("b", "k")], [(0, 1, "x", "RAW"), (1, 0, "x", "WAR")]), "circle"),
    (Picture("h", [Box("a", "k"), Box("b", "k")], [(0, 1, "x", "raw")]), '"raw"'),
    (Picture("h", [Box("a", "k", "", 0)], []), "in frame 0"),
    (Picture("h", [], [], [Frame("stage", "", 0)]), "inside itself"),
    (Picture("h", [], _core.derive_edges([("x", 0, 0, (1,), (1,), 1, 0)])), "planes of more nodes")])
def test_what_is_no_graph_is_refused(picture, what):
    for draw in (text, mermaid, dot, svg):
        with pytest.raises(ValueError, match=what):
            draw(picture)


def test_layout():
    nodes = [Box(label, "launch") for label in "abcd"]
    drawing = Picture("h", nodes, [(0, 3, "x", "RAW"), (1, 2, "y", "RAW")]).drawing
    assert drawing.xy == [(-0.5, 0.0), (0.5, 0.0), (0.5, 1.0), (-0.5, 1.0)]


def chain(n, own=()):
    """Two planes in turn, each read or written by every node."""
    return staged(*({f"node{i}": ("xy", "xy"[i % 2])} for i in range(n)), own=own)


def test_small_graphs_show_every_edge():
    small = chain(8)
    assert len(small.edges) <= DRAWN_EDGES == 100
    assert dot(small).count(" -> ") == len(small.edges)
    assert "not drawn" not in text(small) + mermaid(small) + dot(small) + svg(small)


def reaches(edges, n):
    """Which nodes come after which, by any path."""
    after = [set() for _ in range(n)]
    for src, dst, *_ in sorted(edges, reverse=True):
        after[src] |= {dst} | after[dst]
    return after


def test_large_graphs_leave_out_what_a_path_implies():
    large = chain(40)
    shown = [(int(a[3:]), int(b[1:])) for a, b in
             (line.split(" [")[0].split(" -> ") for line in dot(large).splitlines() if " -> " in line)]
    edges = large.edges.tuples()
    assert len(edges) > DRAWN_EDGES
    assert set(shown) == {(i, i + 1) for i in range(39)}
    assert reaches(shown, 40) == reaches(edges, 40)
    note = f"not drawn: {len(edges) - len(shown)} edges that a path of these implies"
    assert text(large).splitlines()[-1] == f"  {note}"
    assert f"  %% {note}\n" in mermaid(large)
    assert f"  // {note}\n" in dot(large)
    assert note in svg(large)
    same = Picture(large.header, large.nodes, edges, large.frames)  # the list instead of the planes
    assert (text(same), dot(same), mermaid(same)) == (text(large), dot(large), mermaid(large))


def test_a_plane_that_many_read_is_one_line_in_a_large_graph():
    picture = staged({"first": ("", "x")}, *({f"reader{i}": ("x", [f"y{i}"])} for i in range(300)))
    assert picture.drawing.hidden == 0
    assert max(map(len, text(picture).splitlines())) < 60


def test_pictures_of_a_long_chain_are_fast():
    picture = chain(1000)
    for draw in (text, mermaid, dot, svg):
        begun = time.process_time()
        draw(picture)
        assert time.process_time() - begun < 0.5


def boxes_apart(rects):
    rects = sorted(rects)
    return all(b.x >= a.x + a.w or b.y >= a.y + a.h or b.y + b.h <= a.y
               for i, a in enumerate(rects) for b in rects[i + 1:] if b.x < a.x + a.w)


def words_apart(labels):
    places = sorted((label.x - (len(line) * CELL / 2 if label.middle else 0.0), label.y + 12.5 * i, len(line) * CELL)
                    for label in labels for i, line in enumerate(label.lines))
    return all(x + w <= other or abs(y - below) >= 10 for k, (x, y, w) in enumerate(places)
               for other, below, _ in places[k + 1:])


PICTURES = {
    "fork": FORK, "odd": ODD, "chain": chain(8), "columns": chain(60),
    "wide": staged({"seed": ("", "x")}, {f"branch{i}": ("x", [f"out_{i}"]) for i in range(12)},
                   {"join": ([f"out_{i}" for i in range(12)], ["y"])}),
    "nested": staged({"init": ("", "ab")}, {"inner": ("a", "c"), "other": ("b", "d")}, {"deep": ("cd", "e")},
                     frames={"inner": ["repeat ≤ 100", "skip if guard"],
                             "deep": ["skip if guard", "repeat ≤ 4294967295", "skip if guard"]}),
    "long names": staged(
        {"propagate_state_with_atmospheric_drag_and_third_body":
         ("", ["atmospheric_density_kg_per_m3", "accelerations"])},
        {"integrate_covariance_forward_in_time": (["accelerations"], ["covariance_upper_triangle_packed"]),
         "lookup_solar_flux_table_for_density_model": (["atmospheric_density_kg_per_m3"], ["solar_flux_f107_daily"])},
        {"combine": (["covariance_upper_triangle_packed", "solar_flux_f107_daily"], "y")})}


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_lies_on_anything_else(name):
    picture = PICTURES[name]
    out = sketch(picture.drawing, picture.nodes, picture.header)
    boxes = [rect for rect in out.rects if rect.role != "frame"]
    assert len(boxes) == len(picture.nodes)
    assert boxes_apart(boxes)
    assert words_apart(out.labels)
    for rect in out.rects:
        assert rect.x >= 0 and rect.y >= 0 and rect.x + rect.w <= out.width and rect.y + rect.h <= out.height
    for arrow in out.arrows:  # each begins at the foot of a box and ends at the head of another
        x, y = arrow.path[0][1][0]
        assert any(b.x < x < b.x + b.w and abs(b.y + b.h - y) < 1e-6 for b in boxes)
        x, y = arrow.path[-1][1][-1]
        assert any(b.x < x < b.x + b.w and abs(b.y - y) < 1e-6 for b in boxes)
        assert all(0 <= px <= out.width and 0 <= py <= out.height for _, points in arrow.path for px, py in points)
    for i, node in enumerate(picture.nodes):  # whole, in lines
        label = [label for label in out.labels if label.role == "node"][i]
        assert "".join(label.lines).replace(" ", "") == "".join(node.label.split())
        assert all(len(line) * CELL < boxes[i].w for line in label.lines)


def test_one_arrow_a_pair_and_kind():
    picture = chain(8)
    out = sketch(picture.drawing, picture.nodes, "")
    assert len(out.arrows) == len({(src, dst, kind) for src, dst, _, kind in picture.edges.tuples()})


def test_svg_holds_every_text():
    picture = PICTURES["nested"]
    root = ElementTree.fromstring(svg(picture))
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for wanted in ("eagle.Graph 4 nodes", "init", "inner", "deep", "repeat ≤ 4294967295", "stage 2", "a,b", "c"):
        assert wanted in texts
    odd = ElementTree.fromstring(svg(ODD))
    assert 'q"\\' in ["".join(element.itertext()) for element in odd.iter("{http://www.w3.org/2000/svg}text")]
    assert html(picture).startswith("<div") and svg(picture) in html(picture)


@pytest.fixture
def matplotlib():
    return pytest.importorskip("matplotlib", reason="framework-missing: matplotlib")


def test_plot(matplotlib):
    figure = plot(FORK)
    (ax,) = figure.axes
    assert ax.get_title() == " ".join(HEADER.split())
    words = [label.get_text() for label in ax.texts]
    assert words.count("up") == words.count("mix") == words.count("u") == words.count("stage 0 work_share") == 1
    bare = [label.get_text() for label in plot(FORK, edge_labels=False, show_schedule=False).axes[0].texts]
    assert "u" not in bare and "stage 0" in bare and "stage 0 work_share" not in bare
    figure.canvas.draw()
    ends = [label.get_window_extent() for label in ax.texts]  # as matplotlib's own font has them
    assert not any(a.overlaps(b) for i, a in enumerate(ends) for b in ends[i + 1:])


def test_plot_of_nothing(matplotlib):
    assert plot(Picture("eagle.Graph  0 nodes", [], [])).axes[0].get_title() == "eagle.Graph 0 nodes"


def test_plot_into_axes(matplotlib):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    left, right = figure.subplots(1, 2)
    assert plot(FORK, right) is figure
    assert right.get_title() and not left.get_title()
    figure.canvas.draw()
    words = {label.get_text(): label.get_window_extent() for label in right.texts}
    assert not words["up"].overlaps(words["dn"])


def test_plot_colours_shares(matplotlib):
    shares = {0: 0.75, 1: 0.25}
    words = [label.get_text() for label in plot(FORK, shares=shares).axes[0].texts]
    assert {"up 75.0%", "dn 25.0%", "mix"} <= set(words)
    out = sketch(FORK.drawing, FORK.nodes, "", shares=shares)
    assert [rect.heat for rect in out.rects if rect.role != "frame"] == [1.0, pytest.approx(1 / 3), None]
    plot(FORK, shares={0: 0.0})


def test_plot_of_a_long_chain(matplotlib):
    picture = chain(1000)
    plot(chain(3))
    begun = time.process_time()
    figure = plot(picture)
    assert time.process_time() - begun < 1
    assert max(figure.get_size_inches()) < 200


def test_plot_needs_no_pyplot(matplotlib):
    program = ("import sys\nfrom eagle.graph.pictures import Box, Picture, plot\n"
               "plot(Picture('h', [Box('a', 'k')], []))\nassert 'matplotlib.pyplot' not in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)


def test_plot_without_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.collections", None)
    with pytest.raises(ImportError, match=r"eagle\[plot\]"):
        plot(FORK)


def test_text_is_empty_without_nodes():
    nothing = Picture("eagle.Graph  0 nodes · 0 groups · backend: (not built)", [], [])
    assert text(nothing) == "eagle.Graph  0 nodes · 0 groups · backend: (not built)\n\n  (empty)\n"
    assert mermaid(nothing) == "flowchart TD\n"
    assert dot(nothing) == "digraph eagle {\n  rankdir=TB;\n  node [shape=box];\n}\n"
    assert ElementTree.fromstring(svg(nothing)).tag.endswith("svg")


# ---- what runs together ----------------------------------------------------------------------------------------------


def tiled(picture, *runs):
    """The same picture where the nodes of each run are one tile."""
    number = {node: tile for tile, run in enumerate(runs) for node in run}
    return replace(picture, nodes=[node._replace(tile=number.get(i, -1)) for i, node in enumerate(picture.nodes)])


def test_text_of_tiles():
    assert text(tiled(staged({"seed": ("", "x")}, {"a": ("x", "y")}, {"b": ("y", "z")}, {"own": ("z", "u")},
                             {"c": ("u", "v")}, {"d": ("v", "w")}, schedule="work_share", own=("own",)),
                      [0, 1, 2], [4, 5])) == """\
eagle.Graph  6 nodes

  stage 0 work_share ─┐ ┌───────┐
                      │ │ seed  │
                      │ └───┬───┘
                      │     x
                      │     │
  stage 1 work_share ─┤   ┌─┴─┐
                      │   │ a │
                      │   └─┬─┘
                      │     y
                      │     │
  stage 2 work_share ─┘   ┌─┴─┐
                          │ b │
                          └─┬─┘
                            z
                            │
  stage 3 work_share    ┌───┴───┐
                        │ <own> │
                        └───┬───┘
                            u
                            │
  stage 4 work_share ─┐   ┌─┴─┐
                      │   │ c │
                      │   └─┬─┘
                      │     v
                      │     │
  stage 5 work_share ─┘   ┌─┴─┐
                          │ d │
                          └───┘
  stages:  ─┐ ─┘ run together, tile by tile
"""


def test_text_of_tiles_within_a_group():
    # Branches of the same layers share a mark, others stand beside it; a layer that runs together by itself has one.
    picture = staged({"a0": ("", "a"), "b0": ("", "b"), "c0": ("", "c")}, {"a1": ("a", "d"), "b1": ("b", "e"),
                                                                          "c1": ("c", "f")}, {"c2": ("f", "g")})
    one = replace(picture, frames=[Frame("stage", "")], nodes=[node._replace(frame=0) for node in picture.nodes])
    assert text(tiled(one, [0, 3], [1, 4], [2, 5, 6]), unicode=False) == """\
eagle.Graph  7 nodes

  stage 0 -++ +-----+   +-----+   +-----+
           || | a0  |   | b0  |   | c0  |
           || +--+--+   +--+--+   +--+--+
           ||    a         b         c
           ||    |         |         |
          -++ +--+--+   +--+--+   +--+--+
            | | a1  |   | b1  |   | c1  |
            | +-----+   +-----+   +--+--+
            |                        f
            |              +---------+
          --+           +--+--+
                        | c2  |
                        +-----+
  stages:  -+ -+ run together, tile by tile, in a group each branch by itself
"""
    assert text(tiled(Picture("h", [Box("a", "launch"), Box("b", "launch")], []), [0, 1])) == """\
h

  stage 0 ─┐ ┌───┐   ┌───┐
           │ │ a │   │ b │
          ─┘ └───┘   └───┘
  stages:  ─┐ ─┘ run together, tile by tile
"""


def test_markup_of_tiles():
    picture = tiled(chain(3), [1, 2])
    assert '\n  n0["node0"]\n  n1["node1<br/>tile 0"]\n' in mermaid(picture)
    assert '\n  n0 [label="node0"];\n  n1 [label="node1\\ntile 0"];\n' in dot(picture)
    scheduled = Picture("h", [Box("a", "launch", "work_share", tile=3)], [])
    assert '"a<br/>work_share, tile 3"' in mermaid(scheduled)
    assert '"a\\nwork_share, tile 3"' in dot(scheduled)


def test_bands_join_what_runs_together():
    picture = tiled(PICTURES["columns"], range(5), range(10, 60))
    out = sketch(picture.drawing, picture.nodes, "")
    boxes = [rect for rect in out.rects if rect.role != "frame"]
    columns = len({round(label.x) for label in out.labels if label.role == "gutter"})
    assert len(out.bands) == columns > 2  # the second run begins in the second one
    middles = {(round(box.x + box.w / 2), round(box.y + box.h / 2)) for i, box in enumerate(boxes) if i < 5 or i > 9}
    passed = [(round(x), round(y)) for band in out.bands for x, y in band]
    assert middles <= set(passed) and len(passed) == 55 + 2 * (columns - 2)  # and where columns end and begin
    assert all(0 <= x <= out.width and 0 <= y <= out.height for band in out.bands for x, y in band)
    assert "run together, tile by tile" in svg(picture)
    assert "run together" not in svg(PICTURES["columns"])
    bare = sketch(picture.drawing, picture.nodes, "", show_schedule=False)
    assert not bare.bands and all("together" not in line for label in bare.labels for line in label.lines)


@pytest.mark.parametrize("label", ["skip if guard", "repeat ≤ 4294967295"])
@pytest.mark.parametrize("before", [1, 2, 5])
def test_arrows_pass_beside_the_labels_of_frames(label, before):
    names = "abcde"[:before]
    picture = staged({f"write {name}": ("", name) for name in names}, {"x": (names, "z")}, {"y": (names, "z")},
                     frames={"x": [label, "repeat", "skip if guard"], "y": [label]})
    out = sketch(picture.drawing, picture.nodes, "")
    words = [label for label in out.labels if label.role == "frame"]
    assert len(words) == 4
    for word in words:
        for arrow in out.arrows:
            ends = [points[-1] for _, points in arrow.path]
            for (x, y), (x2, y2) in zip(ends, ends[1:], strict=False):
                if min(y, y2) < word.y < max(y, y2) and arrow.path[-1][1][-1][1] > word.y:
                    assert not (word.x <= x <= word.x + len(word.lines[0]) * CELL and x == x2)


def test_plot_of_tiles(matplotlib):
    figure = plot(tiled(FORK, [0, 1]))
    assert "run together, tile by tile" in [label.get_text() for label in figure.axes[0].texts]
    figure.canvas.draw()
