# SPDX-License-Identifier: Apache-2.0
"""What ``Graph.builder`` refuses: the type, the line, what was found and what to do."""

from __future__ import annotations

import linecache
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder_kernels import add, both, hot, picked, shrink, turned

import eagle
from eagle.graph import opaque


def call(folder: Path, body: str, *args: Any, head: str = "def f(x, c):") -> Any:
    """Call a builder of these statements, which begin in line 2."""
    path = folder / "written.py"
    path.write_text(head + "\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n")
    linecache.checkcache()
    names = {"eagle": eagle, "np": np, "add": add, "both": both, "hot": hot, "opaque": opaque, "picked": picked,
             "shrink": shrink, "turned": turned, "other": other, "block": block}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return eagle.Graph.builder(names["f"])(*(args or (np.array([8.0, 3.0]), np.ones(1, np.uint32))))


@eagle.Graph.builder
def other(x):
    g = eagle.Graph()
    shrink(x)
    return g


@eagle.Graph.builder
def block(g: eagle.Graph, x):
    return shrink(x)


REFUSED = {
    # what is returned
    "nothing returned": ("g = eagle.Graph()\nshrink(x)", TypeError, "f(): the function: found None returned"),
    "another thing": ("g = eagle.Graph()\nreturn x", TypeError, "the graph it made; end with `return g`"),
    "no graph": ("shrink(x)\nreturn x", TypeError, "found no graph that it made"),
    "two graphs": ("g = eagle.Graph()\nh = eagle.Graph()\nreturn g", RuntimeError, "a second graph: found two in f()"),
    "nothing recorded": ("return eagle.Graph()", ValueError, "eagle.Graph.build: nodes: found none"),
    "result": ("g = eagle.Graph()\ng.result = 3\nreturn g", TypeError, "eagle.Graph.result"),
    "built within": ("g = eagle.Graph()\nshrink(x)\ng.build()", RuntimeError, "a builder's graph comes back built"),
    "launched within": ("g = eagle.Graph()\nshrink(x)\ng.launch()", RuntimeError, "call build() first"),
    "record": ("g = eagle.Graph(record=True)\nshrink(x)\nreturn g", ValueError, "this version records nothing"),
    "a builder within": ("g = eagle.Graph()\nother(x)\nreturn g", RuntimeError, "other(): this builder: found a call"),
    # blocks
    "a block without its graph": ("g = eagle.Graph()\nblock(x)", RuntimeError, "block(): g: found array([8., 3.])"),
    "a block of nothing": ("g = eagle.Graph()\nblock()", RuntimeError, "wanted an open eagle.Graph"),
    # conditions
    "mixed": ("g = eagle.Graph()\nif c: shrink(x)\nelif True: shrink(x)\nreturn g", ValueError,
              "f, line 3: control flow: found cells and values of Python in one chain"),
    "mixed the other way": ("g = eagle.Graph()\nif x is None: shrink(x)\nelif c: shrink(x)\nreturn g", ValueError,
                            "f, line 3: control flow: found cells and values"),
    "and": ("g = eagle.Graph()\nif c and g: shrink(x)\nreturn g", ValueError, "f, line 3: control flow: found a cell"),
    "or": ("g = eagle.Graph()\nif None or c: shrink(x)\nreturn g", ValueError, "found a cell within an expression"),
    "compared": ("g = eagle.Graph()\nif c > 0: shrink(x)\nreturn g", ValueError, "found a cell within an expression"),
    "added": ("g = eagle.Graph()\nif c + 1: shrink(x)\nreturn g", ValueError, "found a cell within an expression"),
    "not, in a value": ("g = eagle.Graph()\nk = not c\nreturn g", ValueError, "found a cell within an expression"),
    "if else": ("g = eagle.Graph()\ny = shrink(x) if c else x\nreturn g", ValueError, "found a cell within"),
    "assert": ("g = eagle.Graph()\nassert c\nreturn g", ValueError, "found a cell within an expression"),
    "comprehension": ("g = eagle.Graph()\nk = [1 for _ in range(2) if c]\nreturn g", ValueError, "found a cell within"),
    "an array": ("g = eagle.Graph()\nif x: shrink(x)\nreturn g", ValueError, "an array of float64 and shape (2,)"),
    "another library's cell": ("g = eagle.Graph()\nif eagle.interop.import_buffer(c): shrink(x)\nreturn g", ValueError,
                               "f, line 3: control flow: found an array of uint32 and shape (1,) as a condition"),
    "range of an array": ("g = eagle.Graph()\nfor i in range(x): shrink(x)\nreturn g", ValueError,
                          "range() of an array of float64"),
    # match
    "a guard": ("g = eagle.Graph()\nmatch c:\n    case 0 if g: shrink(x)\nreturn g", SyntaxError, "found a guard"),
    "a sequence": ("g = eagle.Graph()\nmatch c:\n    case [0]: shrink(x)\nreturn g", SyntaxError, "the pattern [0]"),
    "alternatives": ("g = eagle.Graph()\nmatch c:\n    case 0 | 1: shrink(x)\nreturn g", SyntaxError, "pattern 0 | 1"),
    "a capture": ("g = eagle.Graph()\nmatch c:\n    case k: shrink(x)\nreturn g", SyntaxError, "the pattern k"),
    "negative": ("g = eagle.Graph()\nmatch c:\n    case -1: shrink(x)\nreturn g", SyntaxError, "the pattern -1"),
    # loops
    "while else": ("g = eagle.Graph()\nwhile c:\n    shrink(x)\nelse:\n    shrink(x)\nreturn g", SyntaxError,
                   "f, line 3: control flow: found an else of a loop"),
    "for else": ("g = eagle.Graph()\nfor _ in range(3):\n    if c: break\n    shrink(x)\nelse:\n    shrink(x)\n"
                 "return g", SyntaxError, "found an else of a loop"),
    "cap": ("g = eagle.Graph()\nfor _ in range(np.int64(3)):\n    if c: break\n    shrink(x)\nreturn g", TypeError,
            "f, line 3: range: found (np.int64(3),), wanted one int of Python"),
    "bounds": ("g = eagle.Graph()\nfor _ in range(0, 3):\n    if c: break\n    shrink(x)\nreturn g", TypeError,
               "found (0, 3), wanted one int"),
    "no work": ("g = eagle.Graph()\nfor _ in range(3):\n    if c: break\nreturn g", ValueError, "launches nothing"),
    "break of a Python loop": ("g = eagle.Graph()\nfor _ in [1, 2]:\n    shrink(x)\n    if c: break\nreturn g",
                               ValueError,
                               "f, line 5: control flow: found `break` by a cell in a loop of Python"),
    "break behind": ("g = eagle.Graph()\nfor _ in range(3):\n    shrink(x)\n    if c: break\nreturn g", ValueError,
                     "begin the loop with `if not cell: break`, in `for _ in range(N)`"),
    "break not alone": ("g = eagle.Graph()\nfor _ in range(3):\n    if not c: break\n    if c:\n        x = shrink(x)\n"
                        "        break\nreturn g", ValueError, "f, line 7: control flow: found `break` within"),
    "break by Python": ("g = eagle.Graph()\nfor _ in range(3):\n    if not c: break\n    x = shrink(x)\n"
                        "    if g: break\nreturn g", ValueError, "f, line 6: control flow: found `break` within"),
    "continue by Python": ("g = eagle.Graph()\nfor _ in range(3):\n    if not c: break\n    if g:\n        shrink(x)\n"
                           "        continue\nreturn g", ValueError,
                           "f, line 7: control flow: found `continue` within"),
    "return": ("g = eagle.Graph()\nif c:\n    return g\nreturn g",
               ValueError, "f, line 4: control flow: found `return`"),
    # names
    "none beforehand": ("g = eagle.Graph()\nif c: y = shrink(x)\nelse: y = add(x, x)\ng.result = y\nreturn g",
                        ValueError,
                        "f, line 3: control flow: found 'y', which is bound here and read behind it"),
    "in another arm": ("g = eagle.Graph()\nif c: y = shrink(x)\nelse: z = add(x, y)\nreturn g",
                       ValueError, "found 'y'"),
    "carried": ("g = eagle.Graph()\nfor _ in range(3):\n    if not c: break\n    z = add(x, w)\n    w = shrink(z)\n"
                "return g", ValueError, "f, line 3: control flow: found 'w'"),
    "Python values": ("g, k = eagle.Graph(), 0\nif c:\n    k = 1\n    shrink(x)\nprint(k)\nreturn g", ValueError,
                      "found 'k', which was 0 and becomes 1"),
    "another shape": ("g = eagle.Graph()\nif c:\n    x = shrink(np.ones(3))\ng.result = x\nreturn g", ValueError,
                      "'x' of float64 and shape (3,), wanted float64 and shape (2,), as before"),
    "in place": ("g, i = eagle.Graph(), np.array([1, 0])\nif c:\n    x = picked(i, x)\ng.result = x\nreturn g",
                 ValueError,
                 "picked(): 'x': found an assignment"),
    # forks
    "wait of the graph": ("g = eagle.Graph()\ng.wait(x)", RuntimeError, "write b.wait(plane)"),
    "own": ("g = eagle.Graph()\nwith g.parallel() as p:\n    with p.branch() as b:\n        y = shrink(x)\n"
            "        b.wait(y)", ValueError, "eagle.Graph.wait: planes[0]: found an array that no earlier branch"),
    "unwritten": ("g = eagle.Graph()\nwith g.parallel() as p:\n    with p.branch() as b: shrink(x)\n"
                  "    with p.branch() as b: b.wait(x)", ValueError, "that no earlier branch of this fork writes"),
    "later": ("g = eagle.Graph()\ny = np.zeros(2)\nwith g.parallel() as p:\n    with p.branch() as b: b.wait(y)\n"
              "    with p.branch() as b: shrink(x, out=y)", ValueError, "cannot wait for itself or for a later one"),
    "no plane": ("g = eagle.Graph()\nwith g.parallel() as p, p.branch() as b: b.wait(3)",
                 TypeError, "an array of NumPy"),
    "a wait elsewhere": ("g = eagle.Graph()\nwith g.parallel() as p:\n    with p.branch() as b: shrink(x)\n"
                         "    b.wait(x)", RuntimeError, "one that is not open"),
    "a fork of the graph": ("g = eagle.Graph()\nwith g.parallel() as p, p.branch() as b: g.parallel()", RuntimeError,
                            "call parallel() of the branch's handle"),
    "branches that race": ("g = eagle.Graph()\ny = np.zeros(2)\nwith g.parallel() as p:\n"
                           "    with p.branch() as b: shrink(x, out=y)\n    with p.branch() as b: shrink(x, out=y)\n"
                           "return g", ValueError, "branches of one group with RAW"),
    # calls
    "buffer, a text": ("g = eagle.Graph()\ny = shrink(x, buffer='a')", TypeError, "shrink(): buffer, 'out': found 'a'"),
    "buffer, a name": ("g = eagle.Graph()\ny = both(x, x, buffer={'a': True})", ValueError, "found the name 'a'"),
    "buffer, too many": ("g = eagle.Graph()\ny = shrink(x, buffer=[True, True])", ValueError, "found 2 of them"),
    "buffer, one for two": ("g = eagle.Graph()\ny = both(x, x, buffer=x)", ValueError, "one for each of"),
    "buffer, a shape": ("g = eagle.Graph()\ny = shrink(x, buffer=np.ones(3))", eagle.LayoutError, "found 3 samples"),
    "buffer, twice": ("g = eagle.Graph()\ny = shrink(x, out=x, buffer=True)\nreturn y", TypeError, "the graph it made"),
    "two arrays": ("g = eagle.Graph()\ny = shrink(x, out=x, buffer=np.ones(2))", eagle.ArgumentError, "two arrays"),
    "a list": ("g = eagle.Graph()\ny = shrink([1.0, 2.0])", ValueError, "shrink()"),
    "a copy": ("g = eagle.Graph()\ny = turned(eagle.samples_first(np.ones((3, 2))))", ValueError, "planes ['p']"),
}


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    body, kind, text = REFUSED[name]
    x, c = np.array([8.0, 3.0]), np.ones(1, np.uint32)
    with pytest.raises(kind, match=re.escape(text)):
        call(tmp_path, body, x, c)
    assert x.tolist() == [8, 3] and c.tolist() == [1]
    assert shrink(x).tolist() == [4, 1.5]  # calls run again
    assert other(x).node_labels() == ["shrink"]


def test_what_is_no_builder() -> None:
    def returns(x) -> int: ...

    def reserved(x, buffer): ...

    with pytest.raises(TypeError, match="eagle.Graph.builder: returns: found the return annotation"):
        eagle.Graph.builder(returns)
    with pytest.raises(TypeError, match="eagle.Graph.builder: reserved: found a parameter named 'buffer'"):
        eagle.Graph.builder(reserved)
    for thing in (3, shrink, np.sum):
        with pytest.raises(TypeError, match="wanted a function written by def"):
            eagle.Graph.builder(thing)
    with pytest.raises(ValueError, match="whose source cannot be read"):
        eagle.Graph.builder(eval("lambda x: x"))(3)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        other()


def test_out_of_place() -> None:
    x = np.array([8.0, 3.0])
    g = eagle.Graph()
    with pytest.raises(RuntimeError, match=r"eagle.Graph.parallel: this graph: found one that no builder records"):
        g.parallel()
    with pytest.raises(RuntimeError, match=r"eagle.Graph.wait"):
        g.wait(x)
    with pytest.raises(eagle.ArgumentError, match="buffer"):
        shrink(x, buffer=True)
    handles = []

    @eagle.Graph.builder
    def f(x):
        g = eagle.Graph()
        with g.parallel() as p, p.branch() as b:
            handles.extend([p, b])
            block(b, x)
        with pytest.raises(RuntimeError, match="another graph than the one that is recorded"):
            block(made, x)
        with pytest.raises(RuntimeError, match="a branch that is not open"):
            block(b, x)
        return g

    made = eagle.Graph().add_node(opaque(lambda: None)).build()
    f(x)
    with pytest.raises(RuntimeError, match="a fork that is not open"):
        handles[0].branch()
    with pytest.raises(RuntimeError, match="a branch whose builder has returned"):
        block(handles[1], x)


def test_an_exception_of_the_function_leaves_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        call(tmp_path, "g = eagle.Graph()\nshrink(x)\n1 / 0")
    assert shrink(np.ones(2)).tolist() == [0.5, 0.5]


def test_a_block_that_fails_adds_nothing() -> None:
    @eagle.Graph.builder
    def fails(g: eagle.Graph, x):
        shrink(x)
        g.add_node(step)
        with g.parallel() as p, p.branch():
            shrink(x)
            raise ZeroDivisionError

    x = np.array([8.0, 3.0])
    step = eagle.skippable(eagle.opaque(x.sum), eagle.SkipGuard.nonzero(np.ones(1, np.uint32)))
    g = eagle.Graph()
    block(g, x)
    with pytest.raises(ZeroDivisionError):
        fails(g, x)
    assert g.node_labels() == ["shrink"] and g.build().launch() is g
    assert eagle.Graph().add_node(step).num_nodes() == 1  # nobody else's
