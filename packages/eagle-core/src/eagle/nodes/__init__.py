# SPDX-License-Identifier: Apache-2.0
"""Nodes: pieces of work that say which planes they read and write. Calling one does its work once, on the host.

A room that brings a kind of node registers how nodes of it behave; nothing else needs to know what kinds there are.
"""

from eagle.nodes.conditionals import RepeatWhile, SkipGuard, Skippable, repeat_while, skippable
from eagle.nodes.node import (
    BUILT_IN,
    READ,
    WRITTEN,
    Node,
    NodeKind,
    Plane,
    check_grad,
    check_name,
    find_kind,
    get_node_kind,
    lowered,
    register_built_in,
    register_node_kind,
)
from eagle.nodes.own_code import child, opaque
from eagle.nodes.recording import Recorder, record_with, recorder
from eagle.nodes.reduction import reduce

__all__ = ["BUILT_IN", "Node", "NodeKind", "Plane", "READ", "Recorder", "RepeatWhile", "SkipGuard", "Skippable",
           "WRITTEN", "check_grad", "check_name", "child", "find_kind", "get_node_kind", "lowered", "opaque",
           "record_with", "recorder", "reduce", "register_built_in", "register_node_kind", "repeat_while", "skippable"]
