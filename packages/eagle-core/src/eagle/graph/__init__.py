# SPDX-License-Identifier: Apache-2.0
"""Graphs: what a node is, kinds of nodes, own code and captured graphs as nodes."""

from eagle.nodes import Node, NodeKind, child, get_node_kind, opaque, register_node_kind

__all__ = ["Node", "NodeKind", "child", "get_node_kind", "opaque", "register_node_kind"]
