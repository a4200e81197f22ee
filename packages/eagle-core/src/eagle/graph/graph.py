# SPDX-License-Identifier: Apache-2.0
"""``Graph``: nodes written down once, ordered by the arrays they touch, recorded and replayed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Never, NoReturn, Self, SupportsIndex

import numpy as np

from eagle import _core, backends, counters
from eagle.errors import BackendUnavailable, BufferRefused, busy, refusal, shown
from eagle.graph import pictures
from eagle.graph.builder import decorated
from eagle.graph.device import check_device, kind_for
from eagle.graph.dispatch import dispatched
from eagle.graph.edges import Edge, derive, edges_of, refuse_races
from eagle.graph.forks import Parallel
from eagle.graph.fusion import Fusion
from eagle.graph.looks import picture_of
from eagle.graph.lowering import Step, bounds_of, program_of, refuse_rebound, refuse_stale, steps_of
from eagle.graph.places import Place, Touched, places_of, refuse_read_only, touched_by
from eagle.graph.profile import Profile, profile_of, shares_of
from eagle.graph.rebinding import rebound
from eagle.graph.recorder import GraphRecorder
from eagle.graph.stages import Stage, stages_of
from eagle.graph.switch import Switch
from eagle.graph.tree import CONDITIONALS, HOST, LAUNCH, as_node, every, group, launch, leaves
from eagle.integers import index_of
from eagle.nodes import Node, RepeatWhile, Skippable, find_kind, record_with, recorder
from eagle.plan import BoundPlan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Graph", "recorded", "switch", "times_of"]

DOOR = "eagle.Graph"


class Graph(_core.Replays):
    """Nodes that run in the order they were added, as far as the arrays they touch ask for it; built once, run again
    and again.

    `record`, `backend`, `dispatch` and `device` are what :meth:`build` takes where it is given none. One call at a
    time: another one, of any thread, raises eagle.Busy. Pictures, edges and labels may be asked for at any time.
    """

    def __init__(self, *extra: Never, record: bool = False, backend: str | None = None, dispatch: Any = None,
                 device: SupportsIndex | None = None) -> None:
        if extra:
            raise TypeError(refusal(DOOR, "arguments", f"{len(extra)} by position", "record=, backend=, dispatch= and "
                                    "device= alone", "pass them by name, and nodes to add or add_node"))
        self._options = {"record": _flag(DOOR, "record", record), "backend": backend, "dispatch": dispatch,
                         "device": device}
        self._nodes: list[Node] = []
        self._fuse = True
        self._backend: str | None = None
        self._stages: tuple[Stage, ...] = ()
        self._tiles: list[int] = []  # of each leaf of a built graph
        self._found: _core.Edges | None = None  # once they were asked for, of a built graph
        self._drawn: pictures.Picture | None = None
        self._dispatch: dict[str, dict[str, str]] = {}
        self._steps: tuple[Step, ...] = ()
        self._bounds: list[tuple[Node, _core.Bound]] = []
        self._places: tuple[Place, ...] = ()
        self._result: Any = None
        self._recording: GraphRecorder | None = None  # while a builder records
        self._parameters: Mapping[str, Any] = {}  # of the builder that made it
        self._title, self._owner = DOOR, weakref.ref[Any](self)  # of whom messages speak, and whose conditionals are
        self._switch: Switch | None = None  # of one that was recorded for others
        self._seam: _core.Backend | None = None  # that recorded it
        if isinstance(recording := recorder(), GraphRecorder):
            if recording.graph is not None:
                raise RuntimeError(refusal(DOOR, "a second graph", f"two in {recording.door}", "one for each builder",
                                           "use a block for what several share"))
            recording.graph, self._recording, self._nodes = self, recording, recording.scopes[0]

    @classmethod
    def builder(cls, function: Callable[..., Any], /) -> Callable[..., Any]:
        """A decorator: the function runs once at each call, its calls of kernels become nodes of the graph it makes and
        returns, and so does control flow on cells, which are arrays of one numpy.uint32. The graph comes back built.

        A function whose first parameter is annotated eagle.Graph is a block: it adds to the graph, or to the branch,
        that it is given. Raises TypeError for another annotation of what it returns and for a parameter named buffer.
        """
        return decorated(cls, function)

    # ---- what it is made of ------------------------------------------------------------------------------------------

    def add(self, bound: BoundPlan, *, name: str | None = None, grad: bool = True) -> Self:
        """Append the launch of a bound plan. Returns this graph.

        Raises TypeError for what is none, ValueError for derivative kernels and for planes that a launch would copy,
        RuntimeError once the graph is built.
        """
        door = f"{DOOR}.add"
        self._open(door)
        given: object = bound
        if not isinstance(given, BoundPlan):
            fix = "use add_node" if isinstance(given, Node) else "bind the plan, or use add_node"
            raise TypeError(refusal(door, "bound", f"{shown(given)}, a {type(given).__name__}",
                                    "a BoundPlan, as Plan.bind returns it", fix))
        return self._append(door, launch(door, bound, name, grad))

    def add_node(self, node: Node | Skippable | RepeatWhile, *, name: str | None = None) -> Self:
        """Append a node, or what skippable() or repeat_while() returns. Returns this graph.

        Raises TypeError for others, ValueError for a kind that nobody registered and for a conditional that another
        graph holds, RuntimeError once the graph is built.
        """
        door = f"{DOOR}.add_node"
        self._open(door)
        given: object = node
        if not isinstance(given, Node | Skippable | RepeatWhile):
            fix = "use add" if isinstance(given, BoundPlan) else "wrap your own code in eagle.opaque"
            raise TypeError(refusal(door, "node", f"{shown(given)}, a {type(given).__name__}",
                                    "a Node, or what skippable() or repeat_while() returns", fix))
        return self._append(door, as_node(door, "node", node, name))

    def add_group(self, branches: Sequence[Any], *, names: Sequence[str | None] | None = None) -> Self:
        """Append branches that may run at the same time; what comes next waits for all. Returns this graph.

        A branch is a BoundPlan, a node, a conditional, or a list of those, run in order. `names` has one for each
        branch; the nodes of a longer one are named "<name>.<label>". Raises ValueError for fewer than two branches, an
        empty one and another number of names; TypeError for what is no branch; RuntimeError once the graph is built.
        """
        door = f"{DOOR}.add_group"
        self._open(door)
        return self._append(door, group(door, branches, names))

    def _append(self, door: str, node: Node) -> Self:
        if node.kind != LAUNCH:
            for leaf in every([node]):
                find_kind(door, leaf.kind)
        if not self._enter():
            self._busy(door.rpartition(".")[2])
        try:
            self._open(door)  # a build may have ended since
            if node.kind != LAUNCH:
                self._claim(door, [node])
            if self._recording is not None:
                self._recording.put(node)
            else:
                self._nodes.append(node)
            return self
        finally:
            self._leave()

    # ---- within a builder --------------------------------------------------------------------------------------------

    @property
    def recording(self) -> GraphRecorder | None:
        """What a builder records this graph with; None outside of it."""
        return self._recording

    @contextmanager
    def record_block(self, door: str) -> Iterator[GraphRecorder]:
        """While it is open, a block adds to this graph, which must not be built; one that fails adds nothing."""
        self._open(door)
        self._recording, before = GraphRecorder(door, self._nodes, self), len(self._nodes)
        try:
            yield self._recording
            self._recording.refuse_unfinished()
            self._claim(door, self._nodes)
        except BaseException:
            self._disclaim(before)
            del self._nodes[before:]
            raise
        finally:
            self._recording = None

    def finish_recording(self, parameters: Mapping[str, Any]) -> Self:
        """The end of a builder, whose arguments were `parameters`."""
        self._recording, self._parameters = None, parameters
        self._claim(f"{DOOR}.builder", self._nodes)
        return self.build()

    def parallel(self) -> Parallel:
        """Within a builder, a fork: ``with g.parallel() as p: with p.branch() as b:``. RuntimeError elsewhere."""
        return Parallel(self._recorded("parallel"), None)

    def wait(self, *planes: Any) -> NoReturn:
        """Refused: a branch waits, ``b.wait(plane)``."""
        raise RuntimeError(refusal(f"{DOOR}.wait", "this graph", "a wait outside a branch", "one of a branch's handle",
                                   "write b.wait(plane) within `with p.branch() as b:`"))

    def _recorded(self, method: str) -> GraphRecorder:
        if self._recording is None:
            raise RuntimeError(refusal(f"{DOOR}.{method}", "this graph", "one that no builder records",
                                       "the graph of a builder, within it", "use add_group, or Graph.builder"))
        return self._recording

    def _claim(self, door: str, nodes: Iterable[Node]) -> None:
        """A conditional keeps cells of its own: it belongs to one graph."""
        found = [node.payload.made_of for node in every(nodes) if node.kind in CONDITIONALS]
        for made in found:
            holder = None if made.holder is None else made.holder()
            if holder not in (None, self._owner()):
                raise ValueError(refusal(door, "node", f"a {type(made).__name__} that another graph holds",
                                         "one of its own", "make a new one for each graph"))
        for made in found:
            object.__setattr__(made, "holder", self._owner)

    def _disclaim(self, first: int) -> None:
        """Nodes from `first` on are not added after all: their conditionals are anybody's again."""
        kept, dropped = ([node.payload.made_of for node in every(nodes) if node.kind in CONDITIONALS]
                         for nodes in (self._nodes[:first], self._nodes[first:]))
        for made in dropped:
            if made.holder is self._owner and not any(made is other for other in kept):
                object.__setattr__(made, "holder", None)

    def _open(self, door: str) -> None:
        if self._backend is not None:
            raise RuntimeError(refusal(door, "this graph", "one that is built", "one that is not", "make a new Graph"))

    # ---- what it says of itself --------------------------------------------------------------------------------------

    def edges(self) -> tuple[Edge, ...]:
        """Which node must wait for which, and why; also before build()."""
        return edges_of(self._derived(f"{DOOR}.edges"))

    def _derived(self, door: str) -> _core.Edges:
        if self._backend is None:
            return derive(door, self._nodes)
        if self._found is None:
            self._found = derive(door, self._nodes)
        return self._found

    def node_labels(self) -> list[str]:
        """The labels of the nodes in the order they were added, members of groups included; a conditional is one."""
        return [node.label for node in leaves(self._nodes)]

    def num_nodes(self) -> int:
        """How many nodes there are."""
        return sum(1 for _ in leaves(self._nodes))

    @property
    def schedule(self) -> tuple[str, ...]:
        """How each stage runs; () before build()."""
        return tuple(stage.schedule for stage in self._stages)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the built graph; () before build()."""
        return self._stages

    @property
    def backend(self) -> str | None:
        """"cpu", "gpu", or None before build()."""
        return self._backend

    @property
    def dispatch(self) -> dict[str, dict[str, str]]:
        """How the "auto" groups of each launch run, by label and group; {} before build()."""
        return {label: dict(groups) for label, groups in self._dispatch.items()}

    @property
    def fuse(self) -> bool:
        """Whether launches that may run tile by tile do so. It changes no bit; settable before build()."""
        return self._fuse

    @fuse.setter
    def fuse(self, value: bool) -> None:
        self._open(f"{DOOR}.fuse")
        self._fuse = _flag(f"{DOOR}.fuse", "fuse", value)

    @property
    def result(self) -> Any:
        """What calling the graph returns: an array, or a tuple, list or dict of results. Settable before build()."""
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        self._open(f"{DOOR}.result")
        _check_result(value)
        self._result = value

    @property
    def record(self) -> None:
        """None: this version records nothing."""

    def __repr__(self) -> str:
        stages = len(self._stages) or len(self._nodes)
        return f"<eagle.Graph {self.num_nodes()} nodes, {stages} stages, {self._backend or 'unbuilt'}>"

    # ---- pictures ----------------------------------------------------------------------------------------------------

    @property
    def _picture(self) -> pictures.Picture:
        if self._backend is None:
            return picture_of(self._nodes, self._derived(DOOR))
        if self._drawn is None:
            self._drawn = picture_of(self._nodes, self._derived(DOOR), self._backend, self.schedule, self._tiles)
        return self._drawn

    def show(self, *, file: IO[str] | None = None) -> None:
        """Print the graph, to `file` where one is given. Raises TypeError for what cannot be written to."""
        if file is not None and not hasattr(file, "write"):
            raise TypeError(refusal(f"{DOOR}.show", "file", f"{shown(file)}, a {type(file).__name__}", "an open "
                                    "file, or what has write() like one", "leave it out for standard output"))
        print(self, file=file)

    def plot(self, ax: Any = None, *, edge_labels: bool = True, show_schedule: bool = True,
             profile: Profile | None = None) -> Figure:
        """The graph as a matplotlib figure, drawn into `ax` if there is one; `profile` colours each node by its share
        of the time. Raises ImportError without matplotlib."""
        shares = None if profile is None else shares_of(f"{DOOR}.plot", self._nodes, profile)
        return pictures.plot(self._picture, ax, edge_labels=edge_labels, show_schedule=show_schedule, shares=shares)

    def to_mermaid(self) -> str:
        """The graph as a flowchart of Mermaid."""
        return pictures.mermaid(self._picture)

    def to_dot(self) -> str:
        """The graph as a digraph of Graphviz."""
        return pictures.dot(self._picture)

    def to_svg(self) -> str:
        """The graph as an SVG image."""
        return pictures.svg(self._picture)

    def __str__(self) -> str:
        if not self._nodes:
            return f"{self._picture.header}\n\n  (empty)\n"
        return pictures.text(self._picture)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        return pictures.html(self._picture)

    # ---- build -------------------------------------------------------------------------------------------------------

    def build(self, *, backend: str | None = None, record: bool = False, dispatch: Any = None,
              device: SupportsIndex | None = None) -> Self:
        """Check the nodes, find their order and record them. Returns this graph; a build that fails leaves it open.

        `dispatch` says how the groups with policy "auto" of hawk kernels run: "switch" or "predicated", or these by
        group; None leaves them as they were built, a switch.

        Raises ValueError for an empty graph, branches that could race, a `dispatch` that no launch can take, and a
        `backend` or `device` that is none or not where the planes live; BufferRefused for a read-only array that some
        node writes and for one that moved since its node was made; TypeError for another `record` or `device` than
        these; RuntimeError the second time; BackendUnavailable where the backend records nothing.
        """
        return self._build(f"{DOOR}.build", backend, record, dispatch, device)

    def _build(self, door: str, backend: str | None = None, record: bool = False, dispatch: Any = None,
               device: Any = None) -> Self:
        if not self._enter():
            self._busy("build")
        try:
            self._open(door)
            if self._recording is not None:
                raise RuntimeError(refusal(door, "this graph", "one that a builder records", "one that is finished",
                                           "return it: a builder's graph comes back built"))
            if not self._nodes:
                raise ValueError(refusal(door, "nodes", "none", "one or more", "add some first"))
            if _flag(door, "record", record) or self._options["record"]:
                raise ValueError(refusal(door, "record", "True", "False: this version records nothing",
                                         "leave record= out"))
            nodes, chosen = dispatched(door, self._nodes, self._given("dispatch", dispatch))
            refuse_races(door, nodes)
            touched = touched_by(nodes)
            kind = kind_for(door, touched, self._given("backend", backend))
            check_device(door, self._given("device", device))
            seam = backends.load(kind)
            if not seam.has("launcher_launch"):
                raise BackendUnavailable(refusal(door, "backend", f"{kind!r}, which records nothing",
                                                 "one with the groups capturer and launcher", "upgrade it"))
            self._lower(door, seam, nodes, touched)
            self._dispatch, self._backend = chosen, HOST
            counters.add("graph_builds")
            return self
        finally:
            self._leave()

    def _lower(self, door: str, seam: _core.Backend, nodes: Sequence[Node], touched: Sequence[Touched]) -> None:
        """Record nodes, which then are the graph's."""
        fusion, places = Fusion(self._fuse), places_of(door, touched)
        refuse_read_only(door, places)
        refuse_stale(door, nodes)
        steps = steps_of(door, nodes, fusion)
        switch = self._switch
        program = program_of(seam, steps, nodes, places, switch is not None, switch.handle if switch else 0)
        stages = tuple(stages_of(nodes, fusion))
        if switch is not None:
            switch.take(program, nodes)
        self._set(program)
        self._seam = seam
        self._nodes, self._steps, self._places = list(nodes), steps, places
        self._bounds = bounds_of(door, nodes)
        self._stages, self._tiles = stages, fusion.tiles(nodes)
        self._found = self._drawn = None

    def bind(self, **planes: Any) -> Self:
        """Other arrays for arguments of the builder that made this graph, of the same shapes and dtypes. Returns this
        graph; nothing changes where one is refused.

        Raises ValueError for names that are no arguments, for arguments that were values of Python, for arrays that do
        not fit and for those that own code touches; TypeError for what is no array.
        """
        door = f"{DOOR}.bind"
        seam = self._built(door)
        if not self._enter():
            self._busy("bind")
        try:
            nodes, result = rebound(door, self._nodes, self._result, self._parameters, planes)
            refuse_races(door, nodes)
            self._claim(door, nodes)
            self._lower(door, seam, nodes, touched_by(nodes))
            self._result, self._parameters = result, {**self._parameters, **planes}
            counters.add("rebinds")
            return self
        finally:
            self._leave()

    def profile(self, n: SupportsIndex = 100) -> Profile:
        """Run the nodes n times, each of them timed: what each takes, and its share. The planes change as by n
        launches. Replays without profiling pay nothing for it.

        Raises as :meth:`launch`, and BackendUnavailable where the backend cannot time nodes.
        """
        door = f"{DOOR}.profile"
        seam = self._built(door)
        if (times := times_of(door, n)) == 0:
            raise ValueError(refusal(door, "n", "0", "1 or more", "pass how often the graph shall run"))
        if not self._enter():
            self._busy("profile")
        try:
            self.refuse_moved(door)
            program = program_of(seam, self._steps, self._nodes, self._places, attribute=True)
            if self._switch is not None:
                self._switch.carry_over(program)
            replays: list[tuple[float, ...]] = []
            for _ in range(times):
                if (replay := program.timed()) is None:
                    self._moved("profile", door)
                replays.append(replay)
            if not replays[0]:
                raise BackendUnavailable(refusal(door, "backend", f"{seam.kind!r}, which times no nodes",
                                                 "one that provides eagle_backend_launcher_launch_timed", "upgrade it"))
            return profile_of(self._nodes, replays)
        finally:
            self._leave()

    def _given(self, name: str, value: Any) -> Any:
        return self._options[name] if value is None else value

    # ---- run ---------------------------------------------------------------------------------------------------------

    def _launch(self, *args: Any, **kw: Any) -> Self:
        """What launch() leaves to Python: other arguments than one int of 0 or more."""
        door = f"{self._title}.launch"
        if len(args) > 1 or kw.keys() - {"n"} or (args and kw):
            raise TypeError(refusal(door, "arguments", f"{len(args)} by position and {sorted(kw)} by name",
                                    "n alone", "pass launch(n)"))
        times = times_of(door, kw.get("n", args[0] if args else 1))
        self._built(door)
        return self.launch(times)

    def enqueue(self, n: SupportsIndex = 1) -> Self:
        """On the host the same as :meth:`launch`."""
        return self.enqueue_behind(None, n)

    def enqueue_behind(self, ahead: Callable[[], object] | None, n: SupportsIndex) -> Self:
        """:meth:`enqueue` behind a call of `ahead`, in one turn: for the rooms above."""
        door = f"{self._title}.enqueue"
        times = times_of(door, n)
        self._built(door)
        return self._after(ahead, times, "enqueue")

    def reached(self) -> list[Node]:
        """The leaves that the last launch of a graph that :func:`recorded` made began, or passed by: for the rooms
        above."""
        return [] if self._switch is None else self._switch.reached()

    def synchronize(self) -> Self:
        """Wait for what was enqueued; on the host nothing is left to wait for."""
        self._built(f"{DOOR}.synchronize")
        return self

    def __call__(self, n: SupportsIndex = 1, /) -> Any:
        """``launch(n)``, then :attr:`result`."""
        self.launch(n)
        return self._result

    def update(self, values: Any = None, /, **kw: Any) -> NoReturn:
        """Refused: this version records nothing."""
        self._built(f"{DOOR}.update")
        raise ValueError(refusal(f"{DOOR}.update", "this graph", "one that records nothing",
                                   "one built with record=True, in a version that has it", "change the arrays instead"))

    def _built(self, door: str) -> _core.Backend:
        if self._backend is None or self._seam is None:
            raise RuntimeError(refusal(door, "this graph", "one that is not built", "one that is",
                                       "call build() first"))
        return self._seam

    @property
    def _kind(self) -> str:
        return self._title.removeprefix("eagle.")

    def _busy(self, method: str) -> NoReturn:
        raise busy(self._kind, method)

    def refuse_moved(self, door: str | None = None) -> None:
        """Raise BufferRefused where a plane is no longer what was recorded: for the rooms above."""
        if self._has_moved():
            self._moved("launch", door)

    def _moved(self, method: str, door: str | None = None) -> NoReturn:
        """Raises for the plane that is no longer what was recorded."""
        door = door or f"{self._title}.{method}"
        for place in self._places:
            if (found := place.found()) is not None:
                raise BufferRefused(refusal(
                    door, f"node {place.node.label!r}, plane {place.plane!r}", found,
                    f"the array of shape {place.shape} that was there at build()",
                    f"make a new {self._kind}, or put it back"))
        for node in every(self._nodes):
            plane = node.payload.bound.packed(door).moved(True) if node.kind == LAUNCH else None
            if plane is not None:
                raise BufferRefused(refusal(
                    door, f"node {node.label!r}, plane {plane!r}", "an array that moved, changed its shape, was "
                    "deleted or may no longer be written", "the one that was there at build()",
                    f"make a new {self._kind}"))
        raise BufferRefused(refusal(door, "a plane", "an array that moved", "arrays that stay as they were at build()",
                                    f"make a new {self._kind}"))

    def _checked(self, n: int) -> None:
        """launch() while somebody asks for checks: node by node."""
        refuse_rebound(f"{self._title}.launch", self._kind, self._bounds)
        for _ in range(n):
            for node in self._nodes if self._switch is None else self._switch.each():
                node()


def recorded(door: str, owner: object, nodes: Sequence[Node], device: int,
             stream: _core.Stream | None = None) -> Graph:
    """A built graph of an `owner`, for its method `door`: messages name it, conditionals are the owner's, and leaves of
    the nodes can be switched. Raises what :meth:`Graph.add_node` and :meth:`Graph.build` do."""
    with record_with(None):  # a builder records none of it
        made = Graph(device=None if device < 0 else device)
    made._title, made._owner, made._switch = door.rpartition(".")[0], weakref.ref(owner), Switch(stream)
    for node in nodes:
        made._append(door, node)
    return made._build(door)


def switch(graph: Graph, method: str, nodes: Iterable[Node], on: bool) -> None:
    """Switch leaves of a graph that :func:`recorded` made, for the launches to come, by a `method` of its owner. Raises
    BackendUnavailable where the backend does not tell what it recorded."""
    assert graph._switch is not None and graph._seam is not None
    if not graph._seam.has("capture_snapshot_nodes"):
        raise BackendUnavailable(refusal(f"{graph._title}.{method}", "backend", f"{graph._seam.kind!r}, which does not "
                                         "tell what it recorded", "one that provides the group attribution",
                                         "upgrade it"))
    if not graph._enter():
        graph._busy(method)
    try:
        graph._switch.set(nodes, on)
    finally:
        graph._leave()


def _flag(door: str, argument: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(refusal(door, argument, shown(value), "True or False", "pass one of them"))
    return bool(value)


def times_of(door: str, n: Any) -> int:
    """How often something shall run. TypeError for what is no integer, ValueError for a negative one."""
    if (times := index_of(n)) is None:
        raise TypeError(refusal(door, "n", f"{shown(n)}, a {type(n).__name__}", "an integer", "pass an int"))
    if not 0 <= times < 2**63:
        raise ValueError(refusal(door, "n", shown(times), "0 to 2**63 - 1", "pass how often the graph shall run"))
    return times


def _check_result(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(refusal(f"{DOOR}.result", "a key", shown(key), "texts", "name each result"))
            _check_result(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_result(item)
    elif value is not None and (isinstance(value, type) or not hasattr(value, "shape")):
        raise TypeError(refusal(f"{DOOR}.result", "result", f"{shown(value)}, a {type(value).__name__}",
                                "an array, or a tuple, list or dict of them", "set the arrays that hold the answers"))
