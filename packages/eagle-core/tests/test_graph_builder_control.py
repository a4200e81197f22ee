# SPDX-License-Identifier: Apache-2.0
"""Control flow of ``Graph.builder`` on cells: the same answers as Python gives when kernels run at once."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder_kernels import add, both, count, high, shrink
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eagle


class Eager:
    """Stands for eagle.Graph where kernels run at once: an array of one cell is a condition of Python's too."""

    result: Any = None
    Graph: Any = None


Eager.Graph = Eager


def load(folder: Path, source: str, namespace: Any) -> Callable[..., Any]:
    """The function f of a source text in a file of its own, which calls `namespace` eagle."""
    path = folder / f"m{next(numbers)}.py"
    path.write_text(textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    vars(module).update(eagle=namespace, np=np, add=add, both=both, count=count, high=high, shrink=shrink)
    spec.loader.exec_module(module)
    return module.f  # type: ignore[no-any-return]


numbers = itertools.count()


def lists(tree: Any) -> Any:
    return [item.tolist() for item in tree]


def agree(folder: Path, source: str, *args: Any, cells: Any = range(4)) -> list[str]:
    """Check a function of v, w and two cells against Python, for each value of these; the labels of its graph."""
    built, eager = load(folder, source, eagle), load(folder, source, Eager)
    for c, d in itertools.product(cells, cells):
        v, w = np.array([8.0, 3.0]), np.array([1.0, 0.5])
        given = [v.copy(), w.copy(), np.array([c], np.uint32), np.array([d], np.uint32)]
        wanted = lists(eager(*(array.copy() for array in given)).result)
        g = eagle.Graph.builder(built)(*given)
        assert lists(g()) == wanted, (c, d)
        assert lists(g(2)) == wanted, (c, d)  # a run leaves the arguments alone
        assert lists(given) == [v.tolist(), w.tolist(), [c], [d]]
    return g.node_labels()  # type: ignore[no-any-return]


CASES = {
    "if": ("""
        if c:
            v = add(v, w)
     """, ["seed(v)", "branches"]),
    "if not, else": ("""
        if not c:
            v = add(v, w)
        else:
            w = add(v, v)
     """, ["seed(v)", "seed(w)", "branches"]),
    "elif": ("""
        if c: v = shrink(v)
        elif not d: v = add(v, v)
        elif c: w = shrink(w)
        else: v = add(v, w)
     """, ["seed(v)", "seed(w)", "branches"]),
    "decided once": ("""
        if c:
            c = high(shrink(shrink(shrink(w))))
        elif d:
            d = high(w)
        else:
            c = high(v)
        if not c: v = shrink(v)
     """, ["seed(c)", "seed(d)", "branches", "seed(v)", "branches"]),
    "if in else": ("""
        if c:
            v = shrink(v)
        else:
            if d:
                v = add(v, w)
            w = shrink(w)
     """, ["seed(v)", "seed(w)", "branches"]),
    "match": ("""
        match c:
            case 0: v = shrink(v)
            case 3: v = add(v, v)
            case 2: w = add(v, w)
     """, ["seed(v)", "seed(w)", "branches"]),
    "match _": ("""
        match c:
            case 1: v = shrink(v)
            case _:
                match d:
                    case 2: v = add(v, v)
                    case _: w = add(v, w)
     """, ["seed(v)", "seed(w)", "branches"]),
    "capped": ("""
        for _ in range(5):
            if not c: break
            v = shrink(v)
            c = high(v)
     """, ["seed(v)", "seed(c)", "repeat_while"]),
    "break and continue": ("""
        for i in range(4):
            if not c: break
            v = shrink(v)
            if d: break
            w = add(v, w)
            d = high(w)
            if d: continue
            v = add(v, v)
            c = high(v)
     """, ["seed(v)", "seed(w)", "seed(d)", "seed(c)", "repeat_while"]),
    "break where it is set": ("""
        for _ in range(3):
            if d: break
            v = add(v, w)
            if not c: continue
            w = shrink(v)
     """, ["seed(v)", "seed(w)", "repeat_while"]),
    "loop in loop": ("""
        for i in range(3):
            if not c: break
            for j in range(2):
                if not d: break
                v = add(v, w)
                if c: break
            w = shrink(w)
            if d: w = add(w, w)
     """, ["seed(v)", "seed(w)", "repeat_while"]),
    "index": ("""
        for i in range(6):
            if not c: break
            v = count(v, np.array([i], np.uint32) if isinstance(i, int) else i)
            c = high(shrink(v))
     """, ["seed(v)", "seed(c)", "repeat_while"]),
    "a name that is not carried": ("""
        match c:
            case 1:
                v = add(v, v)
            case _:
                for _ in range(2):
                    if c: break
                    v = shrink(w)
                    if d: break
                    v, w = w, v
                v, w = both(w, w)
     """, ["seed(v)", "seed(w)", "branches"]),
    "swap": ("""
        for _ in range(3):
            if not c: break
            v, w = w, v
            v = shrink(v)
     """, ["seed(v)", "seed(w)", "repeat_while"]),
    "what a name was": ("""
        u = v
        old = shrink(v)
        new = old
        for _ in range(3):
            if not c: break
            last = new
            new = add(new, w)
            w = add(last, w)
        v = add(old, new)
        w = add(u, w)
     """, ["old", "seed(new)", "seed(w)", "repeat_while", "v", "w#2"]),
    "two results": ("""
        for _ in range(3):
            if not d: break
            v, w = both(v, w)
     """, ["seed(v)", "seed(w)", "repeat_while"]),
    "Python decides": ("""
        for k in range(3):
            if k == 1: continue
            v = add(v, w)
            if k > 1 and v is not None: break
        while k:
            k -= 1
            w = shrink(w)
        else:
            w = add(w, w)
        match k:
            case [a, b]: v = None
            case 0 if w is not None: v = shrink(v)
            case other: v = add(v, other)
        for _ in [1, 2]:
            v = shrink(v) if k == 0 else None
        assert k == 0
     """, ["v", "v#2", "w", "w#2", "w#3", "v#3", "v#4", "v#5"]),
    "Python within": ("""
        if c:
            for k in (1, 2, 3):
                if k == 2: continue
                t = add(v, w)
                v = shrink(t)
                if k == 3: break
        else:
            if v is not None:
                w = add(v, v)
     """, ["seed(v)", "seed(w)", "branches"]),
}


@pytest.mark.parametrize("name", CASES)
def test_as_python_does(tmp_path: Path, name: str) -> None:
    body, labels = CASES[name]
    source = "def f(v, w, c, d):\n    g = eagle.Graph()\n" + textwrap.indent(textwrap.dedent(body), "    ") + \
        "\n    g.result = [v, w, c, d]\n    return g\n"
    assert agree(tmp_path, source) == labels


def test_a_counted_loop() -> None:
    @eagle.Graph.builder
    def f(x, n, c):
        g = eagle.Graph()
        for i in range(n):
            if not c: break  # noqa: E701
            x = count(x, i)
            n = high(x)  # range() looked before
        g.result = [x, i, n]
        return g

    for n, wanted in ((0, 1.0), (1, 1.0), (4, 7.0)):
        x = np.array([1.0])
        out, index, last = f(x, np.array([n], np.uint32), np.ones(1, np.uint32))()
        assert out.tolist() == [wanted] and x.tolist() == [1]
        assert index.tolist() == [max(n - 1, 0)] and last.tolist() == [int(n > 2)]
    assert f(x, np.ones(1, np.uint32), np.zeros(1, np.uint32))()[0].tolist() == [1]


def test_a_loop_without_a_cap_warns() -> None:
    @eagle.Graph.builder
    def f(x, c):
        g = eagle.Graph()
        while c:
            x = shrink(x)
            c = high(x)
        while not c:
            x = add(x, x)
            c = high(x)
        g.result = x
        return g

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g = f(np.array([8.0, 0.0]), np.ones(1, np.uint32))
    lines = f._function.__code__.co_firstlineno
    assert [(each.category, each.filename, each.lineno - lines) for each in caught] == [
        (UserWarning, __file__, 3), (UserWarning, __file__, 6)]
    assert g().tolist() == [2, 0]


def test_a_name_of_an_enclosing_function_and_default_values() -> None:
    k = np.array([2.0, 2.0])

    @eagle.Graph.builder
    def f(x, *more, c=None, **named):
        g = eagle.Graph()

        def inner(y):
            return add(y, k)

        y = inner(x)
        if c:
            y = inner(y)
        g.result = [y, *more, *named.values()]
        return g

    g = f(np.array([1.0, 2.0]), k, c=np.ones(1, np.uint32), z=k)
    assert lists(g()) == [[5, 6], [2, 2], [2, 2]]
    k = np.array([5.0, 5.0])
    assert lists(f(np.array([1.0, 2.0]))()) == [[6, 7]]


# ---- programs nobody wrote -------------------------------------------------------------------------------------------

PLANES, CELLS = st.sampled_from("vw"), st.sampled_from("cd")


@st.composite
def blocks(draw: Any, depth: int, loop: bool = False) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        a, b, c = draw(PLANES), draw(PLANES), draw(CELLS)
        test = draw(st.sampled_from([c, f"not {c}"]))
        kinds = ["call", "call", "alias", "swap", "both", "cell"]
        kinds += ["if", "loop", "match"] * (depth > 0) + ["jump"] * loop
        match draw(st.sampled_from(kinds)):
            case "call":
                made = draw(st.sampled_from([f"add({a}, {b})", f"shrink({b})", f"add(shrink({a}), w)"]))
                lines.append(f"{a} = {made}")
            case "alias":
                lines.append(f"{a} = {b}")
            case "swap":
                lines.append("v, w = w, v")
            case "both":
                lines.append(f"v, w = both({a}, {b})")
            case "cell":
                lines.append(draw(st.sampled_from([f"{c} = high({a})", "c, d = d, c"])))
            case "jump":
                lines.append(f"if {test}: {draw(st.sampled_from(['break', 'continue']))}")
            case "if":
                lines += [f"if {test}:", *indented(draw(blocks(depth - 1)))]
                for other in draw(st.lists(CELLS, max_size=2)):
                    lines += [f"elif {other}:", *indented(draw(blocks(depth - 1)))]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(blocks(depth - 1)))]
            case "loop":
                lines += [f"for _ in range({draw(st.integers(0, 3))}):", f"    if {test}: break",
                          *indented([f"{a} = shrink({b})", *draw(blocks(depth - 1, True))])]
            case "match":
                lines.append(f"match {c}:")
                for value in draw(st.lists(st.integers(0, 2), unique=True, max_size=2)):
                    lines += [f"    case {value}:", *indented(indented(draw(blocks(depth - 1))))]
                lines += ["    case _:", *indented(indented(draw(blocks(depth - 1))))]
    return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(blocks(2))
def test_random_programs_as_python_does(tmp_path_factory: pytest.TempPathFactory, body: list[str]) -> None:
    source = "\n".join(["def f(v, w, c, d):", "    g = eagle.Graph()", "    v = shrink(v)", *indented(body),
                        "    g.result = [v, w, c, d]", "    return g", ""])
    agree(tmp_path_factory.getbasetemp(), source, cells=(0, 1))
