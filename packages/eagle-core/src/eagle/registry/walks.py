# SPDX-License-Identifier: Apache-2.0
"""The bodies of hawk kernels, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["nodes_of", "raw_texts"]


def nodes_of(order: Iterable[Any]) -> Iterator[Any]:
    """Every node of a body once: those in the order, and whatever hangs on them."""
    stack, seen = list(order), set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            stack.extend(_parts(node))


def raw_texts(kernel: Any) -> tuple[tuple[Any, ...], ...]:
    """What an author wrote in the blocks of text of a kernel, which no digest of hawk holds."""
    blocks = (node.literal for node in nodes_of(kernel.walk.order) if node.kind == "raw_device")
    return tuple(sorted((block.text, block.language, block.access, block.reads, block.writes) for block in blocks))


def _parts(node: Any) -> Iterator[Any]:
    """The nodes that a node holds, by any name: operands, and the body, the break and the stores of a loop."""
    names = {name for cls in type(node).__mro__ for name in getattr(cls, "__slots__", ())}
    for name in names | getattr(node, "__dict__", {}).keys():
        held = getattr(node, name, None)
        yield from (part for part in (held if isinstance(held, list | tuple) else (held,)) if hasattr(part, "operands"))
