# SPDX-License-Identifier: Apache-2.0
"""Nodes and their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from eagle.nodes import Node, NodeKind, Plane, get_node_kind, register_node_kind
from eagle.nodes import node as kinds


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeKind]:
    """A kind whose nodes fill an array with ones, unless their payload forbids it; gone after the test."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))

    def check(node: Node) -> None:
        if node.payload is None:
            raise RuntimeError("no array")

    yield register_node_kind("fill", reads=lambda node: (), writes=lambda node: (Plane("out", node.payload, "out"),),
                             lower_gpu=None, lower_cpu=lambda node, ctx: lambda: node.payload.fill(1.0),
                             check=check)


def test_a_call_does_the_work_once(fill: NodeKind) -> None:
    a = np.zeros(3)
    node = Node("fill", a)
    assert a.tolist() == [0.0, 0.0, 0.0]
    assert node() is None  # type: ignore[func-returns-value]
    assert a.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="no array"):
        Node("fill", None)()


def test_facts_of_a_node(fill: NodeKind) -> None:
    a = np.zeros((2, 3))
    node = Node("fill", a, "ones")
    assert (node.kind, node.name, node.label, Node("fill", a).label) == ("fill", "ones", "ones", "fill")
    assert node.reads == () and node.writes == (("out", a, "out"),)
    assert repr(node) == "<Node fill 'ones': reads nothing, writes out (2, 3)>"
    assert repr(Node("fill", None)) == "<Node fill: reads nothing, writes out ()>"
    assert node != Node("fill", a, "ones") and len({node, node}) == 1
    with pytest.raises(AttributeError):
        node.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", [1, b"x", ["x"]])
def test_a_name_is_text(name: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.nodes\.Node: name: found .*, wanted a text or None; pass str"):
        Node("copy", None, name)


def test_kinds(fill: NodeKind) -> None:
    facts = {field.name: getattr(fill, field.name) for field in fields(fill) if field.name != "kind"}
    assert get_node_kind("fill") is fill and register_node_kind("fill", **facts) is fill
    with pytest.raises(ValueError, match="found 'fill', which is taken"):
        register_node_kind("fill", **{**facts, "check": None})
    assert get_node_kind("fill") is fill
    for wrong in ("", None, 3):
        with pytest.raises(TypeError, match="kind: found .*, wanted a text that is not empty"):
            register_node_kind(wrong, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["nothing", None, [1]])
def test_an_unknown_kind(fill: NodeKind, kind: Any) -> None:
    node = Node(kind, None)
    for ask in (lambda: get_node_kind(kind), node, lambda: node.reads, lambda: node.writes):
        with pytest.raises(ValueError, match="wanted one of .*'fill'"):
            ask()
    if kind == "nothing":
        assert repr(node) == "<Node nothing>"
