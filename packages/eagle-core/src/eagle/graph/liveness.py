# SPDX-License-Identifier: Apache-2.0
"""Which names of a function are read later: what its control flow must carry."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Facts", "assigned_in", "facts_of", "names_read"]

Names = frozenset[str]
NONE: Names = frozenset()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Facts:
    """Of a statement with arms: the names it binds, in order; those of them that are read behind it, or that a loop
    hands from one iteration to the next; and those that some arm reads as they were ahead of it."""

    bound: tuple[str, ...]
    carried: Names
    needed: Names


def facts_of(function: ast.FunctionDef) -> dict[ast.stmt, Facts]:
    """The facts of each if, match and loop in a function."""
    found = _Liveness(function)
    found.block(function.body, NONE)
    return found.facts


def assigned_in(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that nodes bind, in order; functions within them bind their own."""
    names: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names[node.id] = None
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names[node.name] = None
        elif isinstance(node, ast.alias):
            names[(node.asname or node.name).partition(".")[0]] = None
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            names[node.name] = None
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names[node.rest] = None
        if isinstance(node, _FUNCTIONS):
            return
        if isinstance(node, _COMPREHENSIONS):  # their targets are theirs, what := binds is not
            for part in ast.walk(node):
                if isinstance(part, ast.NamedExpr) and isinstance(part.target, ast.Name):
                    names[part.target.id] = None
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for node in nodes:
        visit(node)
    return list(names)


def names_read(*nodes: ast.AST | None) -> Names:
    """The names that nodes read, functions within them too."""
    return frozenset(part.id for node in nodes if node is not None for part in ast.walk(node)
                     if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load))


class _Liveness:
    """Backward over the statements; a loop until nothing changes."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.facts: dict[ast.stmt, Facts] = {}
        inner = [node for node in ast.walk(function) if isinstance(node, _FUNCTIONS) and node is not function]
        self._kept = names_read(*inner)  # a function may be called at any time
        self._foreign = frozenset(name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal)
                                  for name in node.names)
        self._loops: list[tuple[Names, Names]] = []  # what is live where a break, and a continue, leads

    def block(self, body: Sequence[ast.stmt], out: Names) -> Names:
        for node in reversed(body):
            out = self.statement(node, out)
        return out

    def statement(self, node: ast.stmt, out: Names) -> Names:
        match node:
            case ast.If():
                arms = self.block(node.body, out) | self.block(node.orelse, out)
                self._note(node, [*node.body, *node.orelse], out, arms)
                return arms | names_read(node.test)
            case ast.Match():
                arms = frozenset().union(*(self._case(case, out) for case in node.cases))
                self._note(node, node.cases, out, arms)
                return arms | out | names_read(node.subject)
            case ast.While():
                return self._loop(node, node.body, NONE, names_read(node.test), self.block(node.orelse, out), out)
            case ast.For() | ast.AsyncFor():
                own = frozenset(assigned_in([node.target]))
                return names_read(node.iter) | self._loop(node, node.body, own, NONE, self.block(node.orelse, out), out)
            case ast.With() | ast.AsyncWith():
                own = frozenset(assigned_in(node.items))
                return (self.block(node.body, out) - own) | names_read(*node.items)
            case ast.Try():
                last = self.block(node.finalbody, out)
                handlers = frozenset().union(*(self.block(h.body, last) | names_read(h.type) for h in node.handlers))
                ends = self.block(node.orelse, last) | handlers
                return self.block(node.body, ends) | handlers | last
            case ast.Break():
                return self._loops[-1][0]
            case ast.Continue():
                return self._loops[-1][1]
            case ast.Return() | ast.Raise():
                return names_read(node)
            case ast.AugAssign():
                return out | names_read(node) | frozenset(assigned_in([node.target]))
            case _:
                return (out - frozenset(assigned_in([node]))) | names_read(node)

    def _case(self, case: ast.match_case, out: Names) -> Names:
        inner = self.block(case.body, out) | names_read(case.guard, case.pattern)
        return inner - frozenset(assigned_in([case.pattern]))

    def _loop(self, node: ast.stmt, body: Sequence[ast.stmt], own: Names, test: Names, behind: Names,
              out: Names) -> Names:
        head = test | behind
        while True:
            self._loops.append((out, head))
            inner = self.block(body, head) - own
            self._loops.pop()
            if inner | head == head:
                break
            head |= inner
        self._note(node, body, out | inner | test, inner)
        return head

    def _note(self, node: ast.stmt, body: Iterable[ast.AST], carried: Names, read: Names) -> None:
        bound = tuple(name for name in assigned_in(body) if name not in self._foreign)
        live = frozenset(bound) & (carried | self._kept)
        self.facts[node] = Facts(bound, live, live | (frozenset(bound) & read))
