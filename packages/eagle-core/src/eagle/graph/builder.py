# SPDX-License-Identifier: Apache-2.0
"""``Graph.builder``: a function, run once, whose calls of kernels become the nodes of a graph."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from eagle.errors import refusal, shown
from eagle.graph.control import Rewritten, rewrite
from eagle.graph.forks import BranchHandle
from eagle.graph.recorder import Frame, GraphRecorder
from eagle.nodes import record_with, recorder

__all__ = ["decorated"]

DOOR = "eagle.Graph.builder"


def decorated(graph: type, function: Any) -> Callable[..., Any]:
    """What the decorator makes of a function, for the class of graphs."""
    if not isinstance(function, FunctionType):
        raise TypeError(refusal(DOOR, "function", f"{shown(function)}, a {type(function).__name__}",
                                "a function written by def", "decorate one"))
    signature, name = _signature(function), function.__name__
    if "buffer" in signature.parameters:
        raise TypeError(refusal(DOOR, name, "a parameter named 'buffer'", "another name",
                                "buffer= is a keyword of the kernels called within"))
    parameters = list(signature.parameters.values())
    if parameters and _is_graph(parameters[0].annotation, graph):
        return _Block(graph, function, signature)
    if signature.return_annotation is not inspect.Signature.empty and not _is_graph(signature.return_annotation, graph):
        raise TypeError(refusal(DOOR, name, f"the return annotation {shown(signature.return_annotation)}",
                                "eagle.Graph, or none", "annotate the first parameter by eagle.Graph for a block"))
    return _Builder(graph, function, signature)


def _signature(function: FunctionType) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # noqa: BLE001  annotations may say anything
        return inspect.signature(function)


def _is_graph(annotation: Any, graph: type) -> bool:
    return annotation is graph or isinstance(annotation, str) and annotation.split(".")[-1] == "Graph"


class _Decorated:
    """Both kinds of functions."""

    def __init__(self, graph: type, function: FunctionType, signature: inspect.Signature) -> None:
        self._graph: Any = graph
        self._function, self._signature = function, signature
        self._rewritten: Rewritten | None = None
        functools.update_wrapper(self, function)  # type: ignore[arg-type]

    @property
    def _name(self) -> str:
        return self._function.__name__

    def _run(self, recording: GraphRecorder, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
        """The function over a frame of its own."""
        if self._rewritten is None:
            self._rewritten = rewrite(f"{DOOR} {self._name}", self._function)
        return self._rewritten.over(Frame(recording, self._name, [*args, *kw.values()]))(*args, **kw)


class _Builder(_Decorated):
    """Makes a graph at each call."""

    def __call__(self, *args: Any, **kw: Any) -> Any:
        door = f"{self._name}()"
        if recorder() is not None:
            raise RuntimeError(refusal(door, "this builder", "a call within another builder", "a block",
                                       "annotate its first parameter by eagle.Graph, and pass the graph"))
        bound = self._signature.bind(*args, **kw)
        recording = GraphRecorder(door, [])
        with record_with(recording):
            graph = self._run(recording, args, kw)
        if recording.graph is None:
            raise TypeError(refusal(door, "the function", "no graph that it made", "one",
                                    "begin with g = eagle.Graph()"))
        if graph is not recording.graph:
            raise TypeError(refusal(door, "the function", f"{shown(graph)} returned", "the graph it made",
                                    "end with `return g`; say by g.result which arrays are the answer"))
        recording.refuse_unfinished()
        bound.apply_defaults()
        return graph.finish_recording(bound.arguments)


class _Block(_Decorated):
    """Adds to the graph it is given; returns what the function returns."""

    def __call__(self, *args: Any, **kw: Any) -> Any:
        door, first = f"{self._name}()", next(iter(self._signature.parameters))
        graph: Any = args[0] if args else kw.get(first)
        if not isinstance(graph, self._graph | BranchHandle):
            raise RuntimeError(refusal(door, first, f"{shown(graph)}, a {type(graph).__name__}", "an open eagle.Graph, "
                                       "or the handle of a branch", "pass the graph first"))
        recording: Any = recorder()
        owner = graph.recorder if isinstance(graph, BranchHandle) else graph.recording
        if recording is not None and owner is not recording:
            raise RuntimeError(refusal(door, first, "another graph than the one that is recorded", "that one",
                                       "pass the builder's graph, or a branch of it"))
        if recording is not None:
            at = recording.forks[-1] if recording.forks else None
            if isinstance(graph, BranchHandle) and graph is not at:
                raise RuntimeError(refusal(door, first, "a branch that is not open", "the innermost one",
                                           "call the block within `with p.branch() as b:`"))
            return self._run(recording, args, kw)
        if isinstance(graph, BranchHandle):
            raise RuntimeError(refusal(door, first, "a branch whose builder has returned", "an open one",
                                       "call the block within it"))
        with graph.record_block(door) as recording, record_with(recording):
            return self._run(recording, args, kw)
