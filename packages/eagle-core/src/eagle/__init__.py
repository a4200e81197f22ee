# SPDX-License-Identifier: Apache-2.0
"""eagle: an execution engine for compiled per-sample kernels.

Importing it opens no backend and reads no entry points; every name is looked up in its module when first used.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from eagle import _core  # noqa: F401  a broken build shows at once
from eagle.errors import (
    ArgumentError,
    BackendUnavailable,
    BufferRefused,
    Busy,
    LayoutError,
    LayoutWarning,
    NonToggleableMemberError,
    OutOfBounds,
    PerformanceWarning,
    UnknownMemberError,
)

if TYPE_CHECKING:  # what _LAZY says, for type checkers
    from eagle import (
        abi,
        backends,
        counters,
        dtypes,
        exec,
        graph,
        interop,
        nodes,
        plan,
        registry,
        roles,
        sidecar,
        stepping,
    )
    from eagle.backends import device_props
    from eagle.compose import GraphComposer
    from eagle.exec import num_threads, set_num_threads
    from eagle.graph import Graph
    from eagle.interop import detect, origin_adapter, to_cupy
    from eagle.nodes import RepeatWhile, SkipGuard, Skippable, opaque, reduce, repeat_while, skippable
    from eagle.pipeline import GraphPipeline
    from eagle.plan import AutoPlan, BoundPlan, Plan, samples_first, samples_last
    from eagle.plan import auto as deploy
    from eagle.registry import load_bundle
    from eagle.roles import FINISHED_COUNT as FINISHED_PLANE
    from eagle.roles import FUSED_STEPS as FUSED_STEPS_PLANE
    from eagle.stepping import (
        ActiveSet,
        Runner,
        RunReport,
        SimResult,
        Simulation,
        compaction_body,
        run_until_done,
        simulate,
        simulation,
        until_done,
    )
    from eagle.transfer import copy, pinned

__all__ = ["ActiveSet", "ArgumentError", "AutoPlan", "BackendUnavailable", "BoundPlan", "BufferRefused", "Busy",
           "FINISHED_PLANE", "FUSED_STEPS_PLANE", "Graph", "GraphComposer", "GraphPipeline", "LayoutError",
           "LayoutWarning", "NonToggleableMemberError", "OutOfBounds", "PerformanceWarning", "Plan", "RepeatWhile",
           "RunReport", "Runner", "SimResult", "Simulation", "SkipGuard", "Skippable", "UnknownMemberError", "abi",
           "backends", "compaction_body", "copy", "counters", "deploy", "detect", "device_props", "dtypes", "exec",
           "graph", "interop", "load_bundle", "nodes", "num_threads", "opaque", "origin_adapter", "pinned", "plan",
           "reduce", "registry", "repeat_while", "roles", "run_until_done", "samples_first", "samples_last",
           "set_num_threads", "sidecar", "simulate", "simulation", "skippable", "stepping", "to_cupy", "until_done"]

# Other distributions add modules to this package (eagle.gemm): a folder `eagle` without an __init__.py, anywhere on
# the path, is a part of it; a checkout of some repository called eagle is not.
__path__ += [folder for folder in (os.path.join(entry, "eagle") for entry in sys.path)
             if os.path.isdir(folder) and not any(os.path.exists(os.path.join(folder, name))
                                                  for name in ("__init__.py", "pyproject.toml", ".git"))]

# Name to the module that has it, and ":name" where it is called otherwise there; a module is listed under its own name.
_LAZY = {
    "ActiveSet": "eagle.stepping",
    "AutoPlan": "eagle.plan",
    "BoundPlan": "eagle.plan",
    "FINISHED_PLANE": "eagle.roles:FINISHED_COUNT",
    "FUSED_STEPS_PLANE": "eagle.roles:FUSED_STEPS",
    "Graph": "eagle.graph",
    "GraphComposer": "eagle.compose",
    "GraphPipeline": "eagle.pipeline",
    "Plan": "eagle.plan",
    "RepeatWhile": "eagle.nodes",
    "RunReport": "eagle.stepping",
    "Runner": "eagle.stepping",
    "SimResult": "eagle.stepping",
    "Simulation": "eagle.stepping",
    "SkipGuard": "eagle.nodes",
    "Skippable": "eagle.nodes",
    "_counters": "eagle._counters",
    "abi": "eagle.abi",
    "backends": "eagle.backends",
    "compaction_body": "eagle.stepping",
    "copy": "eagle.transfer",
    "counters": "eagle.counters",
    "deploy": "eagle.plan:auto",
    "detect": "eagle.interop",
    "device_props": "eagle.backends",
    "dtypes": "eagle.dtypes",
    "exec": "eagle.exec",
    "graph": "eagle.graph",
    "interop": "eagle.interop",
    "load_bundle": "eagle.registry",
    "nodes": "eagle.nodes",
    "num_threads": "eagle.exec",
    "opaque": "eagle.nodes",
    "origin_adapter": "eagle.interop",
    "pinned": "eagle.transfer",
    "plan": "eagle.plan",
    "reduce": "eagle.nodes",
    "registry": "eagle.registry",
    "repeat_while": "eagle.nodes",
    "roles": "eagle.roles",
    "run_until_done": "eagle.stepping",
    "samples_first": "eagle.plan",
    "samples_last": "eagle.plan",
    "set_num_threads": "eagle.exec",
    "sidecar": "eagle.sidecar",
    "simulate": "eagle.stepping",
    "simulation": "eagle.stepping",
    "skippable": "eagle.nodes",
    "stepping": "eagle.stepping",
    "to_cupy": "eagle.interop",
    "until_done": "eagle.stepping",
}


def _found(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # milliseconds that most programs never need
        value: object = version("eagle-core")
    elif name in _LAZY:
        where, _, other = _LAZY[name].partition(":")
        value = module = import_module(where)
        if where != f"eagle.{name}":
            value = getattr(module, other or name)
    else:
        raise AttributeError(f"module 'eagle' has no attribute {name!r}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # else every misspelt name would be an object
    __getattr__ = _found


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY, "__version__"})

