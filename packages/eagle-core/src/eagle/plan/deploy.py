# SPDX-License-Identifier: Apache-2.0
"""deploy(): a kernel becomes a plan that runs where its data lives."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, overload

from eagle.errors import ArgumentError, refusal, shown
from eagle.plan.auto_plan import AutoPlan
from eagle.plan.broadcast import Variants
from eagle.plan.plan import check_policy, is_hawk_kernel, read_cut
from eagle.registry import load_bundle
from eagle.registry.walks import raw_texts

__all__ = ["HawkSource", "auto", "deploy", "deploy_kernels", "hawk_source"]

DOOR = "eagle.deploy"
PLAN_KEYWORDS = ("npartitions", "partitions", "n_samples", "policy")
PRECISIONS = ("float64", "float32")


@overload
def deploy(plugin: Sequence[Any], *, targets: Sequence[str] | None = None,
           cache_dir: str | os.PathLike[str] | None = None, scalar_type: str | None = None,
           **plan_kw: Any) -> tuple[AutoPlan, ...]: ...


@overload
def deploy(plugin: Any, *, targets: Sequence[str] | None = None, cache_dir: str | os.PathLike[str] | None = None,
           scalar_type: str | None = None, **plan_kw: Any) -> AutoPlan: ...


def deploy(plugin: Any, *more: Any, targets: Sequence[str] | None = None,
           cache_dir: str | os.PathLike[str] | None = None, scalar_type: str | None = None,
           **plan_kw: Any) -> AutoPlan | tuple[AutoPlan, ...]:
    """An :class:`AutoPlan` of `plugin`: a hawk kernel, or a plugin that was built before. A list of kernels is built
    into one bundle and gives a tuple of plans in order. A bundle has one access class: kernels that touch their own
    sample only, read others, write others, and reduce over samples are deployed one by one.

    A kernel is built through hawk's cache under `cache_dir` (None: hawk's default); a repeat compiles nothing.
    `targets` are hawk's target names (None: ``("host",)``); this version builds the others and runs the host's.
    `scalar_type` is ``"float64"`` (None) or ``"float32"``. The other keywords are those of :func:`eagle.plan.plan`:
    `npartitions`, `partitions`, `n_samples`, `policy`.

    Raises TypeError for what is neither kernel nor plugin, ArgumentError for unknown keywords, ValueError for values
    that do not fit, ImportError when a kernel is given and hawk is not installed, and hawk's own errors of a build.
    """
    if more:
        raise ArgumentError(refusal(DOOR, "arguments", f"{1 + len(more)} without a name", "one kernel, or a list",
                                    "pass a list, eagle.deploy([k1, k2]), and keywords by name"))
    for name in plan_kw:
        if name in ("structure", "inner", "gather"):
            raise ArgumentError(refusal(DOOR, f"argument {name!r}", "a keyword of eagle.plan.plan",
                                        f"some of {PLAN_KEYWORDS}", "where the data lives picks the structure"))
        if name not in PLAN_KEYWORDS:
            raise ArgumentError(refusal(DOOR, f"argument {name!r}", "an unknown keyword", f"some of "
                                        f"{('targets', 'cache_dir', 'scalar_type', *PLAN_KEYWORDS)}", "leave it out"))
    cut, _, _ = read_cut(DOOR, *(plan_kw.get(name, default) for name, default in
                                 (("npartitions", 1), ("partitions", None), ("n_samples", None))))
    if plan_kw.get("partitions") is not None:
        plan_kw["partitions"] = cut  # read once: it may be an iterator
    check_policy(DOOR, plan_kw.get("policy", "compensated"))
    if scalar_type is not None and not (isinstance(scalar_type, str) and scalar_type in PRECISIONS):
        raise ValueError(refusal(DOOR, "scalar_type", shown(scalar_type), f"one of {PRECISIONS}",
                                 "leave it out for float64"))
    if targets is not None and (isinstance(targets, str) or not isinstance(targets, Sequence)):
        raise TypeError(refusal(DOOR, "targets", shown(targets), "a sequence of target names",
                                'for example targets=("host",)'))
    if cache_dir is not None and (not isinstance(cache_dir, str | os.PathLike) or not os.fspath(cache_dir)):
        raise TypeError(refusal(DOOR, "cache_dir", shown(cache_dir), "a path", "leave it out for hawk's own cache"))
    if is_hawk_kernel(plugin):
        return deploy_kernels(DOOR, [plugin], scalar_type, targets, cache_dir, plan_kw)[0]
    if _is_derivative(plugin):
        raise TypeError(refusal(DOOR, "plugin", f"the {plugin.kind} of {plugin.primal!r}", "a hawk kernel",
                                f"wrap it: hawk.Kernel('{plugin.primal}_{plugin.kind}', hawk.diff.{plugin.kind}(...))"))
    if isinstance(plugin, list | tuple):
        _check_list(plugin)
        return deploy_kernels(DOOR, list(plugin), scalar_type, targets, cache_dir, plan_kw)
    if not (hasattr(plugin, "arg_spec") and hasattr(plugin, "exec_access")):
        raise TypeError(refusal(DOOR, "plugin", f"a {type(plugin).__name__}", "a hawk kernel or a built plugin",
                                "decorate it with @hawk.kernel" if isinstance(plugin, FunctionType) else ""))
    for name, value in (("targets", targets), ("cache_dir", cache_dir), ("scalar_type", scalar_type)):
        if value is not None:
            raise ArgumentError(refusal(DOOR, name, f"{shown(value)} with a built plugin",
                                        "nothing: it says how to build", "pass the kernel, or leave the keyword out"))
    return AutoPlan(plugin, plan_kw)


auto = deploy


def _is_derivative(value: Any) -> bool:
    """Whether `value` is what hawk.diff makes, before it is a kernel."""
    return type(value).__module__.split(".")[0] == "hawk" and hasattr(value, "primal") and hasattr(value, "kind")


def _check_list(kernels: Sequence[Any]) -> None:
    if not kernels:
        raise ValueError(refusal(DOOR, "plugin", "an empty list", "at least one hawk kernel",
                                 "pass the kernels to build"))
    seen: dict[str, Any] = {}
    for i, kernel in enumerate(kernels):
        if not is_hawk_kernel(kernel):
            fix = "decorate it with @hawk.kernel" if isinstance(kernel, FunctionType) else \
                "wrap it: hawk.Kernel(name, ...)" if _is_derivative(kernel) else \
                "a list is built into one bundle; pass a built plugin on its own"
            raise TypeError(refusal(DOOR, f"plugin[{i}]", f"a {type(kernel).__name__}", "a hawk kernel", fix))
        if seen.setdefault(kernel.name, kernel) is not kernel:
            raise ValueError(refusal(DOOR, f"plugin[{i}]", f"another kernel named {kernel.name!r}", "different names",
                                     "rename one, or deploy them one by one"))


def deploy_kernels(door: str, kernels: Sequence[Any], scalar_type: str | None = None,
                   targets: Sequence[str] | None = None, cache_dir: Any = None,
                   plan_kw: Mapping[str, Any] = MappingProxyType({})) -> tuple[AutoPlan, ...]:
    """What :func:`deploy` does of hawk kernels of different names, for the door named `door`."""
    try:
        import hawk  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{door}: building a kernel needs hawk: pip install raptor-hawk") from error

    built = tuple(targets) if targets is not None else ("host",)
    unique = list({id(kernel): kernel for kernel in kernels}.values())
    bundle, plugins = _build(door, unique, built, cache_dir, scalar_type or "float64")
    plans = []
    for kernel in kernels:
        if kernel.name not in plugins:
            raise ValueError(refusal(door, f"kernel {kernel.name!r}", f"the units {sorted(plugins)}", "one entry",
                                     "call hawk.artifact.build_bundle([kernel], folder, "
                                     f"mode={scalar_type or 'float64'!r}, targets={built}), then eagle.plan.plan of "
                                     "each of eagle.load_bundle(folder)"))
        plugin = SimpleNamespace(**vars(plugins[kernel.name]))
        parts = getattr(plugin, "stage_plugins", None) or (plugin,)
        slots = {name for part in parts for _, name in part.arg_spec} | (plugin.cells or {}).keys()
        declared = getattr(kernel, "planes", {}) or getattr(getattr(kernel.sinks, "source", None), "planes", {})
        plugin.unread = frozenset(name for name, plane in declared.items()
                                  if name not in slots and not getattr(plane, "grid", ()))
        for part in parts:
            part.table_axes, part.param_dtypes = _declared(kernel)
        plugin.table_axes, plugin.param_dtypes = _declared(kernel)
        plugin._hawk_source = HawkSource(kernel, bundle.digest, cache_dir)
        plans.append(AutoPlan(plugin, dict(plan_kw), kernel,
                              _variants(kernel, targets, cache_dir, scalar_type, plan_kw), door))
    return tuple(plans)


class HawkSource(NamedTuple):
    """What the plugin of a deployed kernel was made of: the kernel, the bundle, and where it is kept."""

    kernel: Any
    digest: str
    cache_dir: Any


def hawk_source(plugin: Any) -> HawkSource | None:
    """What a plugin was made of; None where it was loaded."""
    return getattr(plugin, "_hawk_source", None)


def _build(door: str, kernels: list[Any], targets: tuple[str, ...], cache_dir: Any,
           precision: str) -> tuple[Any, dict[str, SimpleNamespace]]:
    """The bundle of these kernels, from the cache or built, and its plugins."""
    from hawk import HawkError, artifact
    from hawk.compile import default_cache_dir

    cache = Path(cache_dir if cache_dir is not None else default_cache_dir())
    key = _key(kernels, targets, precision)
    folder = cache / "bundles" / key
    own = {"cache_dir": cache / "raw" / key} if any(map(raw_texts, kernels)) else {}  # as hawk's memo knows no text
    with _primals_named(door, kernels, targets, cache_dir, precision), _lock_of(folder):
        try:
            bundle = _build_bundle(artifact, kernels, folder, mode=precision, targets=targets, **own)
        except HawkError as error:
            if "execution axis" not in str(error):
                raise
            names = [kernel.name for kernel in kernels]
            raise ValueError(refusal(door, f"kernels {names}", "kernels of different access classes", "a list of one: "
                                     "that touch their own sample only, read others, write others, or reduce over "
                                     "samples", "deploy them one by one")) from error
        if bundle.manifest is None:
            raise ValueError(refusal(door, "targets", shown(targets), "a target that has an entry to run",
                                     'add "host"'))
        return bundle, load_bundle(folder)


def _build_bundle(artifact: Any, *args: Any, **kw: Any) -> Any:
    try:
        return artifact.build_bundle(*args, **kw)
    except TypeError:  # hawk 0.7.1 loses a stage when its memo of artifacts is full just then; it is empty now
        return artifact.build_bundle(*args, **kw)


@contextmanager
def _primals_named(door: str, kernels: list[Any], targets: tuple[str, ...], cache_dir: Any,
                   precision: str) -> Iterator[None]:
    """While it is open, each derivative names the unit its kernel was built into, which is built first.

    That unit depends on the precision: nothing is left on the kernels, and one build at a time names units.
    """
    sources = {id(kernel): (kernel, kernel.sinks.source) for kernel in kernels
               if is_hawk_kernel(getattr(kernel.sinks, "source", None)) and kernel.sinks.primal_unit is None}
    units = {key: _build(door, [source], targets, cache_dir, precision)[0].digest
             for key, (_, source) in sources.items()}
    if not units:
        yield
        return
    with _naming:
        try:
            for key, (kernel, _) in sources.items():
                kernel.sinks.primal_unit = units[key]
            yield
        finally:
            for kernel, _ in sources.values():
                kernel.sinks.primal_unit = None


def _declared(kernel: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """What a kernel declares and its sidecar lacks: the named axes of its tables, the width of its integers."""
    planes = {name: plane for name, plane in getattr(kernel, "planes", {}).items()
              if name not in getattr(kernel, "broadcast", {})}
    tables = {name: tuple((label, extent) for label, extent, _ in plane.dims) for name, plane in planes.items()
              if getattr(plane, "form", None) in ("table", "wide") and plane.dims}
    params = {name: plane.ttype.dtype for name, plane in planes.items()
              if getattr(plane, "form", None) == "uniform" and plane.ttype.dtype in ("int32", "uint32")}
    return tables, params


def _variants(kernel: Any, targets: Sequence[str] | None, cache_dir: Any, scalar_type: str | None,
              plan_kw: Mapping[str, Any]) -> Variants | None:
    """The variants of a Grid kernel for inputs given broadcast; None for any other kernel."""
    return Variants.of(kernel, lambda made: deploy_kernels(DOOR, [made], scalar_type, targets, cache_dir, plan_kw)[0])


def _key(kernels: list[Any], targets: tuple[str, ...], precision: str) -> str:
    """The name of a bundle's folder: a digest of everything the build depends on."""
    from importlib.metadata import version

    from hawk.artifact.unit_cache import declaration_digest
    from hawk.compile.toolchain import host_profile, opt_level

    facts: list[object] = [version("raptor-hawk"), targets, precision, host_profile(), opt_level()]
    facts += [(kernel.name, kernel.walk.digest, declaration_digest(kernel),
               getattr(getattr(kernel, "kind", None), "slug", None),  # a fused group has none
               getattr(kernel.sinks, "derivative", None), raw_texts(kernel)) for kernel in kernels]
    if any(target != "host" for target in targets):
        facts.append(os.environ.get("HAWK_CUDA_ARCH"))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


# One build at a time per folder. A forked child starts with fresh locks: the thread that held one is not there.
_locks: dict[Path, threading.Lock] = {}
_locks_lock = threading.Lock()
_naming = threading.RLock()


def _lock_of(folder: Path) -> threading.Lock:
    with _locks_lock:
        return _locks.setdefault(folder, threading.Lock())


def _forget_locks() -> None:
    global _locks_lock, _naming
    _locks_lock, _naming = threading.Lock(), threading.RLock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)
