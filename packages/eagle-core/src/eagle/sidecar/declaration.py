# SPDX-License-Identifier: Apache-2.0
"""A checked sidecar as the attributes a plan reads of a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from eagle.dtypes import np_dtype
from eagle.sidecar.document import Document

__all__ = ["declaration"]


def declaration(sidecar: Mapping[str, Any]) -> SimpleNamespace:
    """A plugin without entries: what a plan reads of a kernel, from its checked sidecar.

    Every attribute is always there; what the sidecar does not say is None or empty.
    """
    doc = Document("eagle.sidecar.declaration", str(sidecar["kernel"]), sidecar)
    mutables, launch, given = doc.given("mutables", []), doc.given("launch", {}), doc.given
    stored = np_dtype(doc.scalar_type).name
    return SimpleNamespace(
        name=sidecar["kernel"], kernel=sidecar["kernel"],
        abi_tag=sidecar["aether_abi"],
        arg_spec=tuple(tuple(pair) for pair in sidecar["arg_spec"]),
        exec_access=sidecar.get("exec_access"), exec_op=sidecar.get("exec_op"),
        exec_targets=tuple(given("exec_targets", ())),
        scalar_type=doc.scalar_type,
        arg_widths=dict(given("arg_widths", {})),
        arg_dtypes={name: stored if tag == doc.scalar_type else tag for name, tag in given("arg_dtypes", {}).items()},
        params=tuple(given("params", ())),
        vec_mutables=frozenset(m["name"] for m in mutables if m["dtype"] == "vector"),
        mat_mutables=frozenset(m["name"] for m in mutables if m["dtype"] == "matrix"),
        prior_mutables=frozenset(m["name"] for m in mutables if m.get("prior")),
        mat_shapes={name: tuple(shape) for name, shape in (
            *given("mat_shapes", {}).items(), *((m["name"], m["shape"]) for m in mutables if m.get("shape")))},
        terminated_readonly=given("terminated_readonly", False),
        finish=sidecar.get("finish"),
        step_ops=sidecar.get("step_ops"), fp64_ops_ir=given("fp64_ops_ir", sidecar.get("ops_per_step")),
        entry_counts_finished=given("entry_counts_finished", False),
        dispatch=tuple(given("dispatch", ())),
        lane_space=launch.get("lane_space"), box=launch.get("box"), block=launch.get("block"),
        plane_axes=dict(given("plane_axes", {})), sorted_inputs=tuple(given("sorted_inputs", ())),
        cells=dict(given("cells", {})), companions=dict(given("companions", {})),
        keyed=dict(given("keyed", {})), stages=tuple(given("stages", ())),
        adjoint_like=dict(given("adjoint_like", {})), gather_mats=dict(given("gather_mats", {})),
        param_planes=tuple(given("param_planes", ())),
        derivative=sidecar.get("derivative"), lanes=tuple(given("lanes", ())),
        unread=frozenset(), fold_entries={}, stage_plugins=())
