"""What a worker can be asked about graphs. Every node is y = a*x + b over n samples, or the same by NumPy."""

import ctypes
import sys
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jobs import Job, Timed, compiled, deployed, placed, samples

A, B = 0.9, 0.3  # values that launches carry on stay finite: they tend to 3
LONG = 1.0  # seconds: what takes longer is done once
GAP = 8  # samples between planes, so that they do not share their place in a page

Pair = tuple[np.ndarray, np.ndarray]


def planes(count: int, n: int) -> list[np.ndarray]:
    """Arrays one behind the other, of small values; the first holds the samples."""
    block = placed(count * (n + GAP)).reshape(count, n + GAP)[:, :n]
    block[:] = 0.5
    block[0] = samples(n)
    return list(block)


def chain(nodes: int, n: int, reuse: bool) -> list[list[Pair]]:
    """One branch: from each plane to the next, or between two of them."""
    found = planes(2 if reuse else nodes + 1, n)
    return [[(found[i % len(found)], found[(i + 1) % len(found)]) for i in range(nodes)]]


def fork(branches: int, length: int, n: int, reuse: bool) -> list[list[Pair]]:
    """Branches that each start from the same plane and go on in planes of their own."""
    each = 2 if reuse else length
    first, *others = planes(1 + branches * each, n)
    found = []
    for branch in range(branches):
        own = others[branch * each : (branch + 1) * each]
        found.append([(own[(i - 1) % each] if i else first, own[i % each]) for i in range(length)])
    return found


def last(branches: list[list[Pair]]) -> np.ndarray:
    """What the branches end with, copied."""
    return np.concatenate([branch[-1][1] for branch in branches])


def launched(pair: Pair) -> Any:
    """The bound plan of one node."""
    return deployed("axpb").bind(x=pair[0], a=A, b=B, out=pair[1])


def graph(branches: list[list[Any]]) -> Any:
    """A graph of plans or nodes, not yet built: a chain, or a group."""
    from eagle.graph import Graph, Node

    made = Graph()
    if len(branches) > 1:
        return made.add_group(branches)
    for step in branches[0]:
        (made.add_node if isinstance(step, Node) else made.add)(step)
    return made


class Replay(Timed):
    """`launch()` of a built graph."""

    def __init__(self, branches: list[list[Pair]], made: Any) -> None:
        self.built = made.build()
        self.built.launch()
        self.result = last(branches)
        self.timer = timeit.Timer("launch()", "launch = given", globals={"given": self.built.launch})

    def seconds(self, calls: int) -> float:
        return self.timer.timeit(calls)


class Chain(Replay):
    def __init__(self, **what: Any) -> None:
        branches = chain(**what)
        super().__init__(branches, graph([[launched(pair) for pair in branches[0]]]))


class Fork(Replay):
    def __init__(self, **what: Any) -> None:
        branches = fork(**what)
        super().__init__(branches, graph([[launched(pair) for pair in branch] for branch in branches]))


class Host(Replay):
    """A chain of nodes of Python code, each a call of NumPy."""

    def __init__(self, nodes: int, n: int) -> None:
        from eagle.graph import opaque

        def step(x: np.ndarray, y: np.ndarray) -> Any:
            return opaque(partial(np.multiply, x, A, out=y), reads={"x": x}, writes={"y": y})

        branches = chain(nodes, n, reuse=False)
        super().__init__(branches, graph([[step(*pair) for pair in branches[0]]]))


class Conditional(Replay):
    """One node under a guard: run if it holds, or so many times while it does."""

    def __init__(self, n: int, holds: bool = True, times: int = 0) -> None:
        import eagle

        branches = chain(1, n, reuse=False)
        guard = eagle.SkipGuard.nonzero(np.array([holds], np.uint32))
        step = launched(branches[0][0]).launch
        node = eagle.repeat_while(step, guard, times) if times else eagle.skippable(step, guard)
        super().__init__(branches, eagle.Graph().add_node(node))


class Slow(Timed):
    """What may take seconds: then one call is the figure."""

    def prepare(self, target: float) -> int:
        took = self.seconds(1)
        if took > LONG:
            self.only = took
            return 1
        return super().prepare(target)


class Build(Slow):
    """`build()` of a new chain, or the adding of its nodes as well."""

    def __init__(self, nodes: int, n: int, reuse: bool, adding: bool = False) -> None:
        self.plans = [launched(pair) for pair in chain(nodes, n, reuse)[0]]
        self.adding = adding

    def seconds(self, calls: int) -> float:
        return sum(self._once() for _ in range(calls))

    def _once(self) -> float:
        start = time.perf_counter()
        made = graph([self.plans])
        if not self.adding:
            start = time.perf_counter()
        made.build()
        return time.perf_counter() - start


class Picture(Slow):
    """A statement about the built chain `g`."""

    def __init__(self, statement: str, nodes: int, reuse: bool) -> None:
        built = graph([[launched(pair) for pair in chain(nodes, 64, reuse)[0]]]).build()
        self.timer = timeit.Timer(statement, "g = given", globals={"given": built})

    def seconds(self, calls: int) -> float:
        return self.timer.timeit(calls)


class Flow(Timed):
    """The same nodes in a flow graph of oneTBB, see flow.cpp."""

    def __init__(self, shape: str, **what: Any) -> None:
        self.branches = {"chain": chain, "fork": fork}[shape](**what)
        pairs = [pair for branch in self.branches for pair in branch]
        self.planes = [(ctypes.c_void_p * len(pairs))(*(p[side].ctypes.data for p in pairs)) for side in (0, 1)]
        self.sizes = [len(self.branches), len(self.branches[0]), pairs[0][0].size]
        prefix = Path(sys.prefix)
        flags = (f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}", "-ltbb")
        self.function = ctypes.CDLL(compiled("flow", *flags)).flow_axpb
        pointer, size, double = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double
        self.function.argtypes = [pointer, pointer, double, double, size, size, size, size]
        self.function.restype = double
        self.seconds(1)
        self.result = last(self.branches)

    def seconds(self, calls: int) -> float:
        return float(self.function(*self.planes, A, B, *self.sizes, calls))


GRAPH_JOBS: dict[str, Callable[..., Job]] = {
    "chain": Chain,
    "fork": Fork,
    "host": Host,
    "conditional": Conditional,
    "build": Build,
    "picture": Picture,
    "flow": Flow,
}
