# SPDX-License-Identifier: Apache-2.0
"""How independent the samples of a kernel are: of each other, of where they lie, and of where their planes begin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from eagle.plan.deploy import hawk_source
from eagle.plan.signature import Signature, Use
from eagle.registry.memo import Memo
from eagle.registry.origin import Origin, emitted_source
from eagle.registry.walks import nodes_of
from eagle.stepping.source_proof import is_anywhere, is_scalar, words

__all__ = ["Reach", "reach", "unaligned"]

_proven: dict[Callable[[str], bool], Memo[bool]] = {is_anywhere: Memo(128), is_scalar: Memo(128)}  # by what was loaded


class Reach(IntEnum):
    """What a launch over some of the samples may assume."""

    BATCH = 0  #: samples go together: every launch covers all of them
    LOCAL = 1  #: any range of samples may be launched by itself, with the planes of these alone
    MOVABLE = 2  #: and samples may be moved to other positions


#: What a launch may read and write beside planes with something of each sample.
_LOCAL = (Use.SAMPLES, Use.NUMBER, Use.COUNT, Use.WORD, Use.MAP, Use.LIVE, Use.MIX, Use.TABLE)
#: What says that positions, or which samples are neighbours, mean something.
_TIES = ("sorted_inputs", "gather_mats", "plane_axes", "adjoint_like", "derivative")
#: The roles of buffers that are bound whole.
_WHOLE = ("lookup", "wide_in")
#: Kinds of nodes whose value depends on where the sample lies, and on nothing that a launch writes.
_PLACED = ("sample_index", "random_uniform", "random_normal")
#: Every kind of node whose value is the same wherever the sample lies. Kinds that are not named here, those of later
#: versions too, prove nothing.
_ANYWHERE = words(
    "vocab_read uniform table_read terminated nsamples prior_read constant assign finish loop loop_index "
    "loop_carry loop_value loop_count tape_read primitive select dispatch at cast add sub mul div pow min max "
    "atan2 hypot copysign fmod remainder fdim neg abs sqrt rsqrt exp log sin cos tan tanh asin acos atan floor "
    "exp2 expm1 log2 log10 log1p cbrt sinh cosh asinh acosh atanh ceil trunc round rint sign erf erfc spacing "
    "fma clip isnan isinf isfinite lt le gt ge eq ne land lor lnot floordiv mod band bor bxor shl shr invert "
    "dot cross norm sum component component_at set_component_at add_at vec splat mv mm transpose outer quat_mul "
    "quat_conj quat_recip quat_rotate as_pure as_vec3 lu chol eigh chol_from lu_solve lu_solve_t cho_solve "
    "tri_lower tri_upper_t lu_info lu_det chol_info chol_factor eigh_w eigh_v eigh_info")


def reach(signature: Signature) -> Reach:
    """The reach of a kernel, as far as its sidecar allows and its body proves.

    The sidecar cannot tell that a body does not use its own index: samples of a kernel that is known neither to hawk
    nor by the source it was built from stay where they are.
    """
    if len(signature.stages) != 1:
        return Reach.BATCH
    stage = signature.stages[0]
    plugin = stage.plugin
    access = getattr(plugin, "exec_access", None)
    if (access not in ("sample_local", "cross_sample_read") or getattr(plugin, "exec_op", None)
            or getattr(plugin, "box", None) or stage.cells or signature.keyed
            or any(slot.use not in _LOCAL or slot.use is Use.MAP and _group(plugin) != 1 for slot in stage.slots)):
        return Reach.BATCH  # of a map of groups, whoever launches a range would have to cut it at groups
    walk = _walk(plugin)
    nodes = tuple(nodes_of(walk.order)) if walk is not None else ()
    moves = all(map(_is_anywhere, nodes)) if nodes else _is_proven(is_anywhere, plugin)
    if access != "sample_local" and not (moves or nodes and all(map(_spares_others, nodes))):
        return Reach.BATCH
    tied = signature.lanes.declared or _group(plugin) != 1 or any(getattr(plugin, name, None) for name in _TIES)
    return Reach.MOVABLE if moves and not tied else Reach.LOCAL


def unaligned(signature: Signature) -> bool:
    """Whether launches of a fixed number of steps are known to have the same bits wherever planes begin in their cache
    lines."""
    return len(signature.stages) == 1 and _is_proven(is_scalar, signature.stages[0].plugin)


def _is_proven(proof: Callable[[str], bool], plugin: Any) -> bool:
    """Whether the source of a loaded kernel proves something."""
    origin = getattr(plugin, "origin", None)
    if not isinstance(origin, Origin):
        return False
    proven = _proven[proof].find(origin)
    if proven is None:
        source = emitted_source(origin)
        proven = _proven[proof].keep(origin, source is not None and proof(source))
    return proven


def _group(plugin: Any) -> Any:
    """The samples that go together as the kernel was built; 1 for most."""
    lanes = getattr(plugin, "lane_space", None)
    return lanes.get("group", 1) if isinstance(lanes, Mapping) else getattr(lanes, "group", 1)


def _walk(plugin: Any) -> Any:
    """The body that one step runs, where the hawk kernel is known; else None."""
    source = hawk_source(plugin)
    kernel = None if source is None else source.kernel
    return getattr(getattr(kernel, "step", None) or kernel, "walk", None)


def _is_anywhere(node: Any) -> bool:
    """Whether the node gives a sample the same result wherever the sample lies, as far as its operands do.

    Buffers that are bound whole are read at an index, by an "at"; a loop hands them on to its body.
    """
    if node.kind not in _ANYWHERE:
        return False
    plain = node.operands
    if node.kind == "at":
        plane, *plain = plain
        if not _is_whole(plane):
            return False
    return node.kind == "loop" or not any(map(_is_whole, plain))


def _spares_others(node: Any) -> bool:
    """Whether the node reads nothing of other samples: text of an author's may."""
    if node.kind == "at":
        return _is_whole(node.operands[0])
    return node.kind in _ANYWHERE or node.kind in _PLACED


def _is_whole(node: Any) -> bool:
    return getattr(node, "role", None) in _WHOLE
