# SPDX-License-Identifier: Apache-2.0
"""Graphs: nodes written down once, ordered by the arrays they touch, checked, drawn and replayed."""

from eagle.graph.edges import SHARES_MEMORY_MAX_WORK, Edge
from eagle.graph.graph import Graph
from eagle.graph.stages import Stage
from eagle.nodes import Node, NodeKind, child, get_node_kind, opaque, register_node_kind

__all__ = ["Edge", "Graph", "Node", "NodeKind", "SHARES_MEMORY_MAX_WORK", "Stage", "child", "get_node_kind", "opaque",
           "register_node_kind"]
