"""Graphs: replay of chains, forks, conditionals and Python nodes; what building and drawing them costs."""

from dataclasses import replace

from bench.cells import Cell, Contender, Goal, at_most, both, times

NEVER_SLOWER = times("peer", 0.97)
PLANES = {False: "distinct planes", True: "two planes"}
SMALL = 64
MOST = 10**8  # samples of a chain in distinct planes: its arrays take 0.8 GB for each tool
LEAST = {(1, 10**5, False): 3.0, (1, 10**5, True): 3.0, (64, 10**5, False): 3.0, (64, 10**5, True): 6.0}


def a_node(nodes: int, nanoseconds: float) -> Goal:
    """Ours must stay within a fixed time for each node."""
    text = f"ours ≤ {nanoseconds:g} ns a node"
    return Goal(text, lambda m: m["ours"] / nodes, nanoseconds * 1e-9, False, "s")


def within(seconds: float) -> Goal:
    """Ours must stay within a fixed time."""
    return Goal(f"ours ≤ {seconds * 1e3:g} ms", lambda m: m["ours"], seconds, False, "s")


def chain(nodes: int, n: int, reuse: bool) -> Cell:
    what = {"nodes": nodes, "n": n, "reuse": reuse}
    contenders = both("chain", **what)
    goals = [times("peer", LEAST.get((nodes, n, reuse), 0.97))]
    if n == SMALL:
        contenders["oneTBB"] = Contender("plain", "flow", {"shape": "chain", **what})
        goals.append(at_most(150) if nodes == 1 else a_node(nodes, 20))
    memory = len(contenders) * 8 * n * (2 if reuse else nodes + 1)
    return Cell(f"`launch()`, chain of {nodes}, {PLANES[reuse]}", contenders, tuple(goals), n, memory=memory)


def fork(branches: int, n: int, reuse: bool) -> Cell:
    what = {"branches": branches, "length": 16, "n": n, "reuse": reuse}
    contenders = {**both("fork", **what), "oneTBB": Contender("plain", "flow", {"shape": "fork", **what})}
    return Cell(f"`launch()`, fork {branches} x 16, {PLANES[reuse]}", contenders, (times("peer", 4.0),), n)


def replay(what: str, job: str, **params: object) -> Cell:
    return Cell(f"`launch()`, {what}", both(job, n=SMALL, **params), (NEVER_SLOWER,), SMALL)


def build(nodes: int, reuse: bool, adding: bool = False) -> Cell:
    statement = "g.add(...) and g.build()" if adding else "g.build()"
    contenders = both("build", nodes=nodes, n=SMALL, reuse=reuse, adding=adding)
    goals = (NEVER_SLOWER, *((within(0.02),) if nodes == 1000 and not adding else ()))
    return Cell(f"`{statement}`, chain of {nodes}, {PLANES[reuse]}", contenders, goals)


def picture(statement: str, nodes: int, reuse: bool) -> Cell:
    """With two planes it is ours alone that is asked: the peer draws every pair's edge, for minutes."""
    contenders = both("picture", statement=statement, nodes=nodes, reuse=reuse)
    goals = [within(1.0)]
    if reuse:
        del contenders["peer"]
    else:
        goals.append(NEVER_SLOWER)
    return Cell(f"`{statement}`, chain of {nodes}, {PLANES[reuse]}", contenders, tuple(goals))


def cells(quick: bool) -> list[Cell]:
    sizes = (SMALL, 10**5) if quick else (SMALL, 10**5, 10**6)
    found = [
        *(chain(nodes, n, reuse) for reuse in PLANES for nodes in (1, 8, 64, 1000) for n in sizes
          if reuse or nodes * n <= MOST),
        *(fork(branches, 1024, reuse) for reuse in PLANES for branches in (2, 8)),
        replay("skippable that runs", "conditional"),
        replay("skippable that is skipped", "conditional", holds=False),
        replay("repeat_while of 100", "conditional", times=100),
        replay("chain of 8 NumPy calls", "host", nodes=8),
        *(build(nodes, reuse) for reuse in PLANES for nodes in (64, 1000)),
        build(1000, False, adding=True),
        *(picture(statement, 1000, reuse) for reuse in PLANES for statement in ("str(g)", "g.to_dot()", "g.plot()")),
    ]
    return [replace(cell, rounds=3) for cell in found] if quick else found
