# SPDX-License-Identifier: Apache-2.0
"""A builder's function, rewritten so that its control flow asks what its conditions are: cells, or values of Python.

Each `if`, `match` and loop becomes calls of the object the function knows as ``__eagle__`` (:class:`~eagle.graph.
recorder.Frame`), and plain `if` and `while` around the same statements, which are there once. All arms of a condition
on cells run, one after the other; names get back what they were ahead of each.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from eagle.errors import refusal
from eagle.graph.liveness import Facts, facts_of, names_read

__all__ = ["RUNTIME", "Rewritten", "rewrite"]

RUNTIME = "__eagle__"
MOST = 2**32


class Rewritten:
    """A function whose control flow asks; a call of :meth:`over` makes one that asks `frame`."""

    def __init__(self, function: FunctionType, code: CodeType) -> None:
        self._function, self._code = function, code

    def over(self, frame: Any) -> Callable[..., Any]:
        cells = dict(zip(self._function.__code__.co_freevars, self._function.__closure__ or (), strict=True))
        cells[RUNTIME] = CellType(frame)
        made = FunctionType(self._code, self._function.__globals__, self._function.__name__,
                            self._function.__defaults__, tuple(cells[name] for name in self._code.co_freevars))
        made.__kwdefaults__ = self._function.__kwdefaults__
        return made


def rewrite(door: str, function: FunctionType) -> Rewritten:
    """Raises ValueError for a function whose source cannot be read."""
    try:
        lines, start = inspect.getsourcelines(function.__code__)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError) as error:
        raise ValueError(refusal(door, "function", "one whose source cannot be read", "one written by def in a file",
                                 "move it there")) from error
    ast.increment_lineno(tree, start - 1)
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise ValueError(refusal(door, "function", f"a {type(definition).__name__}", "one written by def",
                                 "write it so"))
    definition.decorator_list = []
    definition.returns = None
    for argument in ast.walk(definition.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    definition.args.defaults = [ast.Constant(None) for _ in definition.args.defaults]
    definition.args.kw_defaults = [None if value is None else ast.Constant(None)
                                   for value in definition.args.kw_defaults]
    facts = facts_of(definition)
    definition.body = _Rewriter(facts, names_read(definition)).block(definition.body)
    free = [*function.__code__.co_freevars, RUNTIME]
    outer = ast.parse(f"def {RUNTIME}outer({', '.join(free)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [definition, *ast.parse(f"{RUNTIME}").body]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    return Rewritten(function, _inner(_inner(code, outer.name), definition.name))


def _inner(code: CodeType, name: str) -> CodeType:
    return next(part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name)


def _ask(owner: str, method: str, *args: ast.expr | str | int | None) -> ast.Call:
    given = [arg if isinstance(arg, ast.expr) else ast.Constant(arg) for arg in args]
    return ast.Call(ast.Attribute(ast.Name(owner, ast.Load()), method, ast.Load()), given, [])


def _names(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(name) for name in names], ast.Load())


def _facts(facts: Facts) -> tuple[ast.expr, ...]:
    return _names(facts.bound), _names(sorted(facts.carried)), _names(sorted(facts.needed))


def _restore(owner: str, names: Sequence[str]) -> list[ast.stmt]:
    """``if "x" in owner.now: x = owner.now["x"]``, of each name."""
    source = "\n".join(f"if {name!r} in {owner}.now: {name} = {owner}.now[{name!r}]" for name in names)
    return list(ast.parse(source).body)


def _jumps(node: ast.stmt) -> str | None:
    """"break" or "continue" for ``if x: break`` and ``if x: continue``."""
    if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:
        return {ast.Break: "break", ast.Continue: "continue"}.get(type(node.body[0]))
    return None


class _Rewriter(ast.NodeTransformer):
    def __init__(self, facts: dict[ast.stmt, Facts], read: frozenset[str]) -> None:
        self._facts, self._read = facts, read
        self._count = 0
        self._loops: list[str] = []

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for node in body:
            result = self.visit(node)
            made += [ast.copy_location(part, node) if not hasattr(part, "lineno") else part
                     for part in (result if isinstance(result, list) else [result])]
        return made

    def _new(self) -> str:
        self._count += 1
        return f"{RUNTIME}{self._count}"

    @staticmethod
    def _bind(name: str, value: ast.expr) -> ast.stmt:
        return ast.Assign([ast.Name(name, ast.Store())], value)

    # ---- conditions --------------------------------------------------------------------------------------------------

    def _condition(self, test: ast.expr) -> tuple[ast.expr, ast.expr]:
        """What a test is about, and whether it is negated."""
        negate = False
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, negate = test.operand, not negate
        return self.visit(self._decided(test)), ast.Constant(negate)

    def _decided(self, node: ast.expr) -> ast.expr:
        """An expression of a test that is no cell itself: none of its operands may be one."""
        if isinstance(node, ast.BinOp):
            node.left, node.right = self._plain(node.left), self._plain(node.right)
        elif isinstance(node, ast.Compare) and not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            node.left = self._plain(node.left)
            node.comparators = [self._plain(part) for part in node.comparators]
        elif isinstance(node, ast.BoolOp):
            node.values[-1] = self._plain(node.values[-1])
        return node

    def _plain(self, node: ast.expr) -> ast.expr:
        return ast.copy_location(_ask(RUNTIME, "plain", self._decided(node), node.lineno), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values[:-1] = [self._plain(part) for part in node.values[:-1]]
        self.generic_visit(node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self._plain(node.test)
        self.generic_visit(node)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        node.test = self._plain(node.test)
        self.generic_visit(node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            node.operand = self._plain(node.operand)
        self.generic_visit(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        node.ifs = [self._plain(part) for part in node.ifs]
        self.generic_visit(node)
        return node

    def _leave_alone(self, node: Any) -> Any:
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _leave_alone

    # ---- names -------------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        if len(node.targets) == 1:
            node.value = self._named(node.targets[0], node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        self.generic_visit(node)
        if node.value is not None:
            node.value = self._named(node.target, node.value)
        return node

    def _named(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """A call that is told the names its results get."""
        if isinstance(value, ast.IfExp):
            value.body, value.orelse = self._named(target, value.body), self._named(target, value.orelse)
            return value
        if not isinstance(value, ast.Call) or isinstance(value.func, ast.Attribute) and _is_own(value.func.value):
            return value
        if isinstance(target, ast.Name):
            names: ast.expr = ast.Constant(target.id)
        elif isinstance(target, ast.Tuple | ast.List) and all(isinstance(part, ast.Name) for part in target.elts):
            names = _names([part.id for part in target.elts if isinstance(part, ast.Name)])
        else:
            return value
        call = ast.Call(ast.Attribute(ast.Name(RUNTIME, ast.Load()), "call", ast.Load()),
                        [names, value.func, *value.args], value.keywords)
        return ast.copy_location(call, value)

    # ---- arms --------------------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        facts, own = self._facts[node], self._new()
        made: list[ast.stmt] = [self._bind(own, _ask(RUNTIME, "branch", node.lineno, *_facts(facts)))]
        chain, orelse = [node], node.orelse
        while len(orelse) == 1 and isinstance(orelse[0], ast.If) and orelse[0].col_offset == node.col_offset:
            chain.append(orelse[0])  # elif
            orelse = orelse[0].orelse
        for i, part in enumerate(chain):
            test: ast.expr = _ask(own, "test", *self._condition(part.test))
            if i:
                test = ast.BoolOp(ast.And(), [_ask(own, "more"), test])
            made.append(self._arm(own, test, part.body, facts))
        if orelse:
            made.append(self._arm(own, _ask(own, "other"), orelse, facts))
        return self._done(own, made, facts, node)

    def _arm(self, own: str, test: ast.expr, body: Sequence[ast.stmt], facts: Facts) -> ast.If:
        inner = [*_restore(own, facts.bound), *self.block(body), ast.Expr(_ask(own, "leave")),
                 *_restore(own, facts.bound)]
        return ast.If(test, inner, [])

    @staticmethod
    def _done(own: str, made: list[ast.stmt], facts: Facts, node: ast.stmt) -> list[ast.stmt]:
        made += [ast.Expr(_ask(own, "done")), *_restore(own, facts.bound)]
        for part in made:
            ast.copy_location(part, node)
        return made

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        facts, own = self._facts[node], self._new()
        cases = ast.Tuple([ast.Constant(_value(case)) for case in node.cases], ast.Load())
        made: list[ast.stmt] = [self._bind(own, _ask(RUNTIME, "switch", node.lineno, *_facts(facts),
                                                     self.visit(node.subject), cases))]
        picked = [ast.match_case(case.pattern, case.guard, [ast.Expr(_ask(own, "take", i))])
                  for i, case in enumerate(node.cases)]
        subject = ast.Attribute(ast.Name(own, ast.Load()), "subject", ast.Load())
        made.append(ast.If(_ask(own, "plain"), [ast.Match(subject, picked)], []))
        made += [self._arm(own, _ask(own, "case", i), case.body, facts) for i, case in enumerate(node.cases)]
        return self._done(own, made, facts, node)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        facts, own = self._facts[node], self._new()
        test = ast.If(_ask(own, "stops", *self._condition(node.test), bool(node.orelse)), [ast.Break()], [])
        if node.orelse:  # `break` would leave the else out
            loop_test: ast.expr = ast.BoolOp(ast.And(), [_ask(own, "again"), ast.UnaryOp(ast.Not(), test.test)])
            inner: list[ast.stmt] = []
        else:
            loop_test, inner = _ask(own, "again"), [test]
        inner += [*_restore(own, facts.bound), *self._body(own, node.body, facts)]
        loop = ast.While(loop_test, inner, self.block(node.orelse))
        made = [self._bind(own, _ask(RUNTIME, "loop", node.lineno, *_facts(facts))), loop]
        return self._done(own, made, facts, node)

    def visit_For(self, node: ast.For) -> list[ast.stmt] | ast.stmt:
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
                and isinstance(node.target, ast.Name) and not call.keywords):
            node.iter = self.visit(node.iter)
            own = self._new()
            node.body = self._plain_body(own, node.body)
            node.orelse = self.block(node.orelse)
            return [self._bind(own, _ask(RUNTIME, "loop", node.lineno, *_facts(self._facts[node]))), node]
        facts, own = self._facts[node], self._new()
        target, body = node.target.id, list(node.body)
        head = body.pop(0) if body and _jumps(body[0]) == "break" else None
        items = _ask(own, "over", call.func, ast.Tuple([self.visit(arg) for arg in call.args], ast.Load()),
                     head is not None, bool(node.orelse))
        inner: list[ast.stmt] = []
        if isinstance(head, ast.If):
            value, negate = self._condition(head.test)
            inner.append(ast.If(_ask(own, "ends", value, negate), [ast.Break()], []))
        index = _ask(own, "index", ast.Name(target, ast.Load()), target in self._read)
        inner += [self._bind(target, index), *_restore(own, facts.bound), *self._body(own, body, facts)]
        loop = ast.For(ast.Name(target, ast.Store()), items, inner, self.block(node.orelse))
        made = [self._bind(own, _ask(RUNTIME, "loop", node.lineno, *_facts(facts))), loop]
        return self._done(own, made, facts, node)

    def _body(self, own: str, body: Sequence[ast.stmt], facts: Facts) -> list[ast.stmt]:
        return [*self._plain_body(own, body, facts), ast.Expr(_ask(own, "end")), *_restore(own, facts.bound)]

    def _plain_body(self, own: str, body: Sequence[ast.stmt], facts: Facts | None = None) -> list[ast.stmt]:
        self._loops.append(own)
        made: list[ast.stmt] = []
        for node in body:
            if (jump := _jumps(node)) and isinstance(node, ast.If):
                test = _ask(own, "jump", *self._condition(node.test), jump, node.lineno)
                made.append(ast.copy_location(ast.If(test, list(node.body), []), node))
                made += _restore(own, facts.bound) if facts else []
            else:
                made += self.block([node])
        self._loops.pop()
        return made

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return [ast.Expr(_ask(self._loops[-1], "leaves", "break", node.lineno)), node]

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [ast.Expr(_ask(self._loops[-1], "leaves", "continue", node.lineno)), node]

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        self.generic_visit(node)
        return [ast.Expr(_ask(RUNTIME, "leaves", "return", node.lineno)), node]

    def visit_With(self, node: ast.With) -> ast.stmt:
        node.items = [self.visit(item) for item in node.items]
        node.body = self.block(node.body)
        return node

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        for handler in node.handlers:
            handler.body = self.block(handler.body)
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        node.finalbody = self.block(node.finalbody)
        return node


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith(RUNTIME)


def _value(case: ast.match_case) -> int | str | None:
    """The integer of a case; None for ``case _``, a text for what no cell can be matched with."""
    pattern = case.pattern
    if case.guard is not None:
        return "a guard"
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and pattern.name is None:
        return None
    if isinstance(pattern, ast.MatchValue) and isinstance(pattern.value, ast.Constant):
        value = pattern.value.value
        if type(value) is int and 0 <= value < MOST:
            return value
    return f"the pattern {ast.unparse(pattern)}"
