# SPDX-License-Identifier: Apache-2.0
"""What graphs show of themselves: what runs together, where the time goes, and long chains at a good pace."""

from __future__ import annotations

import time
from collections.abc import Callable
from xml.etree import ElementTree

import graph_kernels as ks
import numpy as np
import pytest
from graph_forms import bind, ramp, touching

import eagle
from eagle.graph import Edge, Graph
from eagle.graph.profile import Profile, Timing
from eagle.graph.tree import group

LONG = 1000


def test_what_runs_together_is_drawn() -> None:
    x, y, z = ramp(), ramp(), ramp()
    inner = group("", [[bind(ks.halve, x=x), bind(ks.halve, x=x)], [bind(ks.halve, x=y), touching({"y": y})]], None)
    g = Graph().add_node(touching({"z": z})).add_group([inner, [bind(ks.halve, x=z), bind(ks.halve, x=z)]])
    g.add_node(touching({"z": z})).add(bind(ks.halve, x=z)).add(bind(ks.halve, x=z)).build()
    assert [(stage.tile, stage.fused) for stage in g.stages] == [
        (-1, ()), (-1, (("halve", "halve"), ("halve", "halve"))), (-1, ()), (0, ()), (0, ())]
    boxes = [line for line in g.to_dot().splitlines() if "[label" in line and "->" not in line]
    assert [line.partition("tile ")[2][:1] for line in boxes] == ["", "1", "1", "", "", "2", "2", "", "0", "0"]
    assert "run together, tile by tile" in str(g)
    ElementTree.fromstring(g.to_svg())
    assert g.to_svg() == g._repr_svg_() and g.to_svg() in g._repr_html_()


def test_what_does_not_run_together_has_no_mark() -> None:
    x = ramp()
    g = Graph().add(bind(ks.halve, x=x)).add(bind(ks.halve, x=x))
    assert "tile" not in str(g) + g.to_dot() + g.to_mermaid() + g.to_svg()
    g.fuse = False
    before = str(g)
    assert "tile" not in str(g.build()) + g.to_dot() + g.to_mermaid() + g.to_svg()
    assert "(not built)" in before and "backend: cpu" in str(g)


@pytest.mark.parametrize(("seconds", "shown"), [
    (0.0, "0.00 ns"), (4.2e-9, "4.20 ns"), (99.94e-9, "99.9 ns"), (999.4e-9, "999 ns"), (999.6e-9, "1.00 us"),
    (9.996e-6, "10.0 us"), (1.1e-3, "1.10 ms"), (1123e-6, "1.12 ms"), (0.0999, "99.9 ms"), (2.5, "2.50 s"),
    (1234.0, "1234 s")])
def test_times_are_plain_numbers(seconds: float, shown: str) -> None:
    timing = Timing("kick", 3, seconds, 1.0)
    assert str(Profile((timing,), (timing,), seconds, 7)) == (
        f"eagle.Graph  {shown} a replay, medians of 7\n\n  stage 3    kick  {shown:>9}  100.0%")


# ---- long chains -----------------------------------------------------------------------------------------------------


def apart() -> Graph:
    planes = np.zeros((LONG + 1, 64))
    g, kernel = Graph(), eagle.deploy(ks.affine)
    for i in range(LONG):
        g.add(kernel.bind(x=planes[i], a=0.5, b=1.0, out=planes[i + 1]))
    return g


def in_place() -> Graph:
    x, y = ramp(64), ramp(64)
    g = Graph()
    for _ in range(LONG):
        g.add_node(touching({"x": x, "y": y}, {"x": x, "y": y}))
    return g


def took(*calls: Callable[[], object]) -> float:
    """The least processor time of some calls: others may use the machine."""
    times = []
    for call in calls:
        begun = time.thread_time()
        call()
        times.append(time.thread_time() - begun)
    return min(times)


def test_edges_of_a_long_chain() -> None:
    g = in_place()
    assert took(g.edges, g.edges, g.edges) < 0.4
    edges = g.edges()
    pairs = LONG * (LONG - 1) // 2
    assert len(edges) == 6 * pairs and len(set(edges)) == len(edges)
    assert edges[:6] == tuple(Edge(0, 1, plane, kind) for plane, kind in (
        ("x", "RAW"), ("x", "WAW"), ("y", "RAW"), ("y", "WAW"), ("x", "WAR"), ("y", "WAR")))
    assert edges[-1] == Edge(LONG - 2, LONG - 1, "y", "WAR") and type(edges[-1]) is Edge
    assert edges[-1].meaning == "must wait to overwrite" and hash(edges[-1]) == hash(tuple(edges[-1]))
    assert apart().edges() == tuple(Edge(i, i + 1, "out", "RAW") for i in range(LONG - 1))


@pytest.mark.parametrize("make", [apart, in_place])
def test_a_long_chain_is_built_at_once(make: Callable[[], Graph]) -> None:
    assert took(*(make().build for _ in range(4))) < 0.06


@pytest.mark.parametrize("make", [apart, in_place])
def test_pictures_of_a_long_chain(make: Callable[[], Graph]) -> None:
    g = make()
    for show in (g.__str__, g.to_dot, g.to_mermaid, g.to_svg, g._repr_html_):
        assert took(show, show) < 0.5
    g.build()
    assert took(lambda: str(g.profile(1))) < 0.5
    assert str(g).count("┘") >= LONG
