# SPDX-License-Identifier: Apache-2.0
"""Draw the graphs of docs/graphs.md and compare them with what is there: ``python tools/draw_graphs.py [--write]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from graph_kernels import add, drift, energy, half, hot, kick

import eagle
from eagle import SkipGuard, opaque, repeat_while, skippable

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "graphs"


def planes(count: int) -> Any:
    return np.zeros((count, 1000))


def cell() -> Any:
    return np.zeros(1, np.uint32)


def bound(kernel: Any, **arguments: Any) -> Any:
    return eagle.deploy(kernel).bind(**arguments)


def nothing() -> None: ...


def chain() -> eagle.Graph:
    x, v, e = planes(3)
    total = np.zeros(1)
    g = eagle.Graph()
    g.add(bound(kick, x=x, v=v, k=0.1)).add(bound(drift, x=x, v=v, h=0.2)).add(bound(kick, x=x, v=v, k=0.1))
    g.add(bound(energy, x=x, v=v, e=e))
    return g.add_node(eagle.reduce(e, total), name="total").build()


def fork() -> eagle.Graph:
    x, v, near, far, field, e = planes(6)
    g = eagle.Graph()
    g.add(bound(drift, x=x, v=v, h=0.1))
    g.add_group([bound(add, a=x, b=x, c=near), bound(add, a=x, b=v, c=far), bound(energy, x=x, v=v, e=e)],
                names=["near field", "far field", "energy"])
    g.add(bound(add, a=near, b=far, c=field), name="field")
    return g.add(bound(kick, x=field, v=v, k=0.1)).build()


def conditional() -> eagle.Graph:
    x, v, e, after = planes(4)
    rough, busy = cell(), cell()
    judge = opaque(nothing, reads={"e": e}, writes={"rough": rough}, name="judge")
    relax = repeat_while((bound(kick, x=x, v=v, k=0.1).launch, bound(drift, x=x, v=v, h=0.1).launch),
                         SkipGuard.nonzero(busy), max_iters=100)
    refine = skippable(opaque(nothing, reads={"e": e}, writes={"x": x}), SkipGuard.nonzero(rough))
    g = eagle.Graph()
    g.add(bound(energy, x=x, v=v, e=e)).add_node(judge).add_node(refine, name="refine mesh")
    g.add_node(relax, name="relax")
    return g.add(bound(energy, x=x, v=v, e=after), name="energy after").build()


@eagle.Graph.builder
def cool(v: Any, busy: Any) -> eagle.Graph:
    g = eagle.Graph()
    for _ in range(20):
        if not busy:
            break
        v = half(v)
        busy = hot(v)
    g.result = half(v)
    return g


def loop() -> eagle.Graph:
    return cool(planes(1)[0], cell())


@eagle.Graph.builder
def forks(x: Any, v: Any) -> eagle.Graph:
    g = eagle.Graph()
    start = half(x)
    with g.parallel() as p:
        with p.branch() as b:
            left = half(start)
            with b.parallel() as q:
                with q.branch():
                    inner = half(left)
                with q.branch():
                    outer = half(left)
            rim = add(inner, outer)
        with p.branch():
            right = half(v)
            tail = half(right)
    whole = add(rim, tail)
    deep = skippable(repeat_while((bound(kick, x=whole, v=v, k=0.1).launch, bound(drift, x=x, v=v, h=0.1).launch),
                                  SkipGuard.nonzero(cell()), max_iters=8), SkipGuard.nonzero(cell()))
    g.add_node(deep, name="settle")
    g.add_node(opaque(nothing, reads={"v": v}, name="save"))
    return g


def nested() -> eagle.Graph:
    return forks(*planes(2))


def sixty() -> eagle.Graph:
    regions = ["north", "east", "south", "west", "core", "rim"]
    x, v, e, near, far = (planes(6) for _ in range(5))
    left, mean, flow, rest = planes(4)
    total, wanted = np.zeros(1), cell()
    g = eagle.Graph()
    g.add_node(opaque(nothing, writes={"left": left}, name="boundary conditions"))
    for step in range(2):
        g.add_group([[bound(kick, x=left, v=v[i], k=0.1), bound(drift, x=x[i], v=v[i], h=0.1),
                      bound(add, a=x[i], b=v[i], c=near[i]), bound(energy, x=near[i], v=v[i], e=e[i])]
                     for i in range(6)], names=[f"{region}.{step}" for region in regions])
        g.add(bound(add, a=e[0], b=e[5], c=left), name=f"exchange halos {step}")
    g.add_group([bound(add, a=e[i], b=e[i + 1], c=far[i]) for i in (0, 2, 4)],
                names=["sum polar", "sum equator", "sum deep"])
    g.add(bound(add, a=far[0], b=far[2], c=mean), name="mean")
    g.add(bound(add, a=mean, b=far[4], c=flow), name="flow")
    g.add_node(skippable(opaque(nothing, reads={"flow": flow}), SkipGuard.nonzero(wanted)),
               name="write a checkpoint of the whole model")
    g.add(bound(add, a=flow, b=left, c=rest), name="residual")
    g.add_node(eagle.reduce(rest, total), name="total")
    g.add_node(opaque(nothing, reads={"total": total}, name="report"))
    return g.build()


GRAPHS: tuple[Callable[[], eagle.Graph], ...] = (chain, fork, conditional, loop, nested, sixty)


def main() -> None:
    eagle.set_num_threads(2)  # which decides schedules
    stale = []
    for make in GRAPHS:
        path, drawn = FOLDER / f"{make.__name__}.svg", make().to_svg()
        if "--write" in sys.argv:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            stale.append(path.name)
    if stale:
        sys.exit(f"not what is drawn now: {', '.join(stale)}; run python tools/draw_graphs.py --write")


if __name__ == "__main__":
    main()
