# SPDX-License-Identifier: Apache-2.0
"""eagle.sidecar: each key, well formed and in agreement with the slots, or refused by name."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest

from eagle import sidecar
from eagle.sidecar import LaneSpace, LaunchDecl, ParamSpec, validate_sidecar
from eagle.sidecar.declaration import declaration

LANES = {"axes": [{"label": "row", "extent": None}, {"label": "col", "extent": 8}], "group": 1}

# One sidecar with every key; no real kernel has them all.
FULL: dict[str, Any] = {
    "format": "host", "schema_version": 3, "pattern": "pure", "aether_abi": "aether-abi/2", "exec_targets": ["host"],
    "exec_access": "sample_local", "scalar_type": "float64", "kernel": "unit", "host_entry": "unit_host",
    "params": [{"name": "a", "dtype": "float"}, {"name": "n", "dtype": "int"}], "params_schema": 2,
    "per_sample": ["x", "k"], "vector_inputs": ["v"], "matrix_inputs": ["m"], "wide_inputs": ["w"],
    "wide_outputs": ["b"], "accum_outputs": ["s_0", "s_0_comp", "s_1", "s_1_comp", "hi", "acc", "acc_c", "bar_t"],
    "mat_shapes": {"m": [2, 3]},
    "mutables": [{"name": "y", "dtype": "vector", "width": 2, "default": None, "prior": True},
                 {"name": "q", "dtype": "matrix", "width": 4, "default": 0.5, "shape": [2, 2]},
                 {"name": "o", "dtype": "int", "width": 1, "default": None}],
    "arg_widths": {"y": 2, "q": 4, "o": 1, "v": 3, "m": 6, "x": 1, "k": 1, "done": 1},
    "vec_widths": {"v": 3},
    "arg_shapes": {"y": 2, "q": 4, "o": 1, "v": 3, "m": 6, "x": 1, "k": 1, "done": 1, "t": None, "acc": None},
    "arg_dtypes": {"y": "float64", "q": "float64", "o": "int64", "v": "float64", "m": "float64", "x": "float64",
                   "k": "int64", "done": "bool", "t": "float64", "finished_count": "uint32", "fused_steps": "int64",
                   "active_map": "int32", "active_count": "uint32", "d_mix": "uint32"},
    "arg_spec": [["mutable", "y"], ["mutable", "q"], ["out", "o"], ["wide_out", "b"], ["accum_out", "s_0"],
                 ["accum_out", "s_0_comp"], ["accum_out", "s_1"], ["accum_out", "s_1_comp"], ["accum_out", "hi"],
                 ["accum_out", "acc"], ["accum_out", "acc_c"], ["accum_out", "bar_t"], ["vec_in", "v"],
                 ["mat_in", "m"], ["wide_in", "w"], ["per_sample", "x"], ["per_sample", "k"], ["lookup", "t"],
                 ["lookup", "finished_count"], ["lookup", "fused_steps"], ["lookup", "active_map"],
                 ["lookup", "active_count"], ["lookup", "d_mix"], ["terminated", "done"], ["uniform", "a"],
                 ["uniform", "n"], ["nsamples", "n_samples"]],
    "buffers": [], "terminated_readonly": False,
    "finish": {"mask": "done", "counter": "finished_count", "steps": "auto", "steps_max": 64},
    "step_ops": 12, "fp64_ops_ir": 9, "entry_counts_finished": True,
    "dispatch": [{"name": "d", "K": 3, "policy": "auto", "static_selector": True,
                  "selector_reads": [["per_sample", "k"]], "mix": "d_mix"}],
    "cells": {"s": {"op": "sum", "columns": 2}, "hi": {"op": "max", "columns": 1, "internal": False}},
    "companions": {"acc_c": "acc"}, "adjoint_like": {"bar_t": "t"}, "gather_mats": {"m": [True, False]},
    "param_planes": ["t"], "sorted_inputs": ["k"],
    "plane_axes": {"acc": {"payload": [3], "axes": [{"label": "bin", "extent": 8}, {"label": "node",
                                                                                    "extent": None}]}},
    "launch": {"lane_space": LANES, "box": {"axis": 1, "T": 4, "stride": 2}, "block": 128},
    "derivative": {"kind": "vjp", "wrt": ["x"], "primal": "f", "primal_unit": None},
    "lanes": [{"name": "one", "slots": [["per_sample", "x"]], "digest": "ab"}],
}
SPLIT: dict[str, Any] = {
    **{key: FULL[key] for key in ("schema_version", "pattern", "aether_abi", "exec_targets", "exec_access")},
    "kernel": "unit", "arg_spec": [["accum_out", "cut"], ["accum_out", "cut_comp"], ["per_sample", "x"]],
    "cells": {"cut": {"op": "sum", "columns": 1, "internal": True}},
    "keyed": {"row": {"width": 1, "axes": [["row", None], ["col", 4]]}},
    "stages": [{"kernel": "unit", "cells_in": [], "cells_out": ["cut"], "recomputed": []},
               {"kernel": "unit_2", "cells_in": ["cut"], "cells_out": [], "recomputed": ["x"]}],
}


def changed(document: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """`document` with a value put at a dotted path; numbers are indices, `...` deletes."""
    made = copy.deepcopy(document)
    *path, last = (int(part) if part.isdigit() else part for part in key.split("."))
    place = functools.reduce(lambda inner, part: inner[part], path, made)
    if value is ...:
        del place[last]  # type: ignore[arg-type]
    else:
        place[last] = value  # type: ignore[index]
    return made


def test_all_keys_pass() -> None:
    for document in (FULL, SPLIT, {}, {"schema_version": 3}):
        assert validate_sidecar(document, name="unit.json") is document


# key, value, what the refusal says of the key, and of what was found
WRONG: list[tuple[str, Any, str, str]] = [
    ("format", "elf", "format", "'elf'"), ("schema_version", 4, "schema_version", "v4"),
    ("pattern", "round", "pattern", "'round'"), ("pattern", [], "pattern", "[]"),
    ("scalar_type", "float16", "scalar_type", "'float16'"), ("scalar_type", ["float64"], "scalar_type", "['float64']"),
    ("kernel", 3, "kernel", "3"), ("kernel", "a\nb", "kernel", "'a\\nb'"), ("host_entry", "a b", "host_entry", "'a b'"),
    ("arg_spec.0", ["sideways", "y"], "arg_spec", "'sideways'"), ("arg_spec.1.1", "y", "arg_spec", "'y' twice"),
    ("params", {}, "params", "{}"), ("params.0", "a", "params[0]", "'a'"), ("params.0.dtype", "bool", "params[0].dtype",
                                                                              "'bool'"),
    ("params.1", ..., "params", "['a']"), ("params.0.name", "x", "params", "['n', 'x']"),
    ("params.0.name", "n", "params", "['n', 'n']"),
    ("params_schema", 3, "params_schema", "3"), ("params_schema", True, "params_schema", "True"),
    ("per_sample", ["x"], "per_sample", "['x']"), ("per_sample", ["k", "x"], "per_sample", "['k', 'x']"),
    ("vector_inputs", ["x"], "vector_inputs", "'x', a slot of role 'per_sample'"),
    ("matrix_inputs", [["m"]], "matrix_inputs", "['m']"), ("wide_inputs", "w", "wide_inputs", "'w'"),
    ("wide_outputs", ["b", "b"], "wide_outputs", "['b', 'b']"), ("accum_outputs", [], "accum_outputs", "[]"),
    ("mat_shapes.m", [2, 2], "mat_shapes.m", "[2, 2]"), ("mat_shapes.m", [6], "mat_shapes.m", "[6]"),
    ("mat_shapes.m", 6, "mat_shapes.m", "6"), ("mat_shapes.m", [-2, -3], "mat_shapes.m", "-2"),
    ("mat_shapes.x", [1, 1], "mat_shapes", "'x', a slot of role 'per_sample'"), ("mat_shapes", [], "mat_shapes", "[]"),
    ("mutables", {}, "mutables", "{}"), ("mutables.0", "y", "mutables[0]", "'y'"),
    ("mutables.0.name", "x", "mutables[0].name", "'x'"), ("mutables.0.name", ["y"], "mutables[0].name", "['y']"),
    ("mutables.1.name", "y", "mutables[1].name", "'y'"), ("mutables.2", ..., "mutables", "no entry for slot 'o'"),
    ("mutables.0.dtype", "quat", "mutables[0].dtype", "'quat'"), ("mutables.0.dtype", "int", "mutables[0].width", "2"),
    ("mutables.2.dtype", "uint32", "mutables[2].dtype", "'uint32'"),
    ("mutables.0.width", 3, "mutables[0].width", "3"), ("mutables.0.width", True, "mutables[0].width", "True"),
    ("mutables.1.shape", [2, 3], "mutables[1].shape", "[2, 3]"), ("mutables.1.shape", ..., "mutables[1].shape", "None"),
    ("mutables.0.shape", [2, 1], "mutables[0].shape", "[2, 1]"), ("mutables.0.prior", 1, "mutables[0].prior", "1"),
    ("mutables.0.default", "0", "mutables[0].default", "'0'"),
    ("arg_widths", [], "arg_widths", "[]"), ("arg_widths.y", 2.0, "arg_widths.y", "2.0"),
    ("arg_widths.y", True, "arg_widths.y", "True"), ("arg_widths.y", 0, "arg_widths.y", "0"),
    ("arg_widths.y", -2, "arg_widths.y", "-2"), ("arg_widths.y", 10**40, "arg_widths.y", "100000"),
    ("arg_widths.y", None, "arg_widths.y", "None"), ("arg_widths.x", 2, "arg_widths.x", "2"),
    ("arg_widths.zz", 1, "arg_widths", "'zz', no slot"), ("arg_widths.t", 1, "arg_widths", "'t', a slot of role 'look"),
    ("vec_widths.v", 2, "vec_widths.v", "2"), ("vec_widths.x", 1, "vec_widths", "'x'"),
    ("arg_shapes.v", 2, "arg_shapes.v", "2"), ("arg_shapes.v", None, "arg_shapes.v", "None"),
    ("arg_shapes.t", 5, "arg_shapes.t", "5"), ("arg_shapes.a", 1, "arg_shapes", "'a', a slot of role 'uniform'"),
    ("arg_dtypes", "float64", "arg_dtypes", "'float64'"), ("arg_dtypes.x", "float32", "arg_dtypes.x", "'float32'"),
    ("arg_dtypes.x", "complex", "arg_dtypes.x", "'complex'"), ("arg_dtypes.x", {}, "arg_dtypes.x", "{}"),
    ("arg_dtypes.done", "int32", "arg_dtypes.done", "'int32'"), ("arg_dtypes.zz", "bool", "arg_dtypes", "'zz'"),
    ("arg_dtypes.fused_steps", "int32", "arg_dtypes.fused_steps", "'int32'"),
    ("arg_dtypes.o", "int32", "mutables[2].dtype", "'int'"),
    ("buffers", [{"name": "t", "kind": "stack"}], "buffers[0].kind", "'stack'"), ("buffers", [3], "buffers[0]", "3"),
    ("buffers", [{"name": "x", "kind": "lookup"}], "buffers[0].name", "'x'"),
    ("terminated_readonly", "false", "terminated_readonly", "'false'"),
    ("terminated_readonly", True, "finish", "never"),
    ("finish", [], "finish", "[]"), ("finish.mask", "x", "finish.mask", "'x'"),
    ("finish.mask", [], "finish.mask", "[]"),
    ("finish.counter", "counted", "finish.counter", "'counted'"), ("finish.steps", 0, "finish.steps_max", "64"),
    ("finish.steps_max", ..., "finish.steps_max", "None"), ("finish.steps_max", 1.5, "finish.steps_max", "1.5"),
    ("finish.extra", 1, "finish", "extra"), ("finish.counter", ..., "finish", "['mask'"),
    ("step_ops", -1, "step_ops", "-1"), ("step_ops", 2**64, "step_ops", str(2**64)),
    ("fp64_ops_ir", "9", "fp64_ops_ir", "'9'"), ("entry_counts_finished", 1, "entry_counts_finished", "1"),
    ("dispatch", {}, "dispatch", "{}"), ("dispatch.0.K", 0, "dispatch[0].K", "0"),
    ("dispatch.0", 3, "dispatch[0]", "3"),
    ("dispatch.0.mix", "x", "dispatch[0].mix", "'x'"), ("dispatch.0.mix", ..., "dispatch[0].mix", "None"),
    ("dispatch.0.name", {}, "dispatch[0].name", "{}"),
    ("dispatch.0.units", ["a", "b"], "dispatch[0].units", "['a', 'b']"),
    ("dispatch.0.selector_reads", [["k"]], "dispatch[0].selector_reads", "['k']"),
    ("dispatch.0.static_selector", "yes", "dispatch[0].static_selector", "'yes'"),
    ("cells", [], "cells", "[]"), ("cells.s", "sum", "cells.s", "'sum'"), ("cells.s.op", "mean", "cells.s.op",
                                                                                  "'mean'"),
    ("cells.s.op", [], "cells.s.op", "[]"), ("cells.s.columns", 3, "cells.s", "'s_2', no slot"),
    ("cells.s.columns", 10**12, "cells.s.columns", "1000000000000"), ("cells.s.columns", ..., "cells.s", "['op']"),
    ("cells.hi.internal", None, "cells.hi.internal", "None"), ("cells.hi.op", "sum", "cells.hi", "'hi_comp'"),
    ("companions", ["acc"], "companions", "['acc']"), ("companions.acc_c", "x", "companions.acc_c", "'x'"),
    ("companions.acc_c", ["acc"], "companions.acc_c", "['acc']"), ("companions.x", "acc", "companions", "'x'"),
    ("companions.acc_c", "acc_c", "companions.acc_c", "'acc_c'"), ("companions.hi", "acc", "companions.hi", "'acc'"),
    ("adjoint_like.bar_t", "x", "adjoint_like.bar_t", "'x'"), ("adjoint_like.x", "t", "adjoint_like", "'x'"),
    ("gather_mats.m", [True], "gather_mats.m", "[True]"), ("gather_mats.m", [1, 0], "gather_mats.m", "1"),
    ("gather_mats.v", None, "gather_mats", "'v'"), ("gather_mats.m", "all", "gather_mats.m", "'all'"),
    ("param_planes", ["x"], "param_planes", "'x'"), ("param_planes", "t", "param_planes", "'t'"),
    ("sorted_inputs", ["x"], "sorted_inputs", "'x' of dtype 'float64'"),
    ("sorted_inputs", ["t"], "sorted_inputs", "'t'"),
    ("plane_axes", [3], "plane_axes", "[3]"), ("plane_axes.x", {"payload": [], "axes": []}, "plane_axes", "'x'"),
    ("plane_axes.acc.axes", [], "plane_axes.acc.axes", "[]"), ("plane_axes.acc.payload", [0], "plane_axes.acc.payload",
                                                               "0"),
    ("plane_axes.acc.axes.0.extent", True, "plane_axes.acc.axes[0].extent", "True"),
    ("plane_axes.acc.axes.1.label", "bin", "plane_axes.acc.axes", "['bin', 'bin']"),
    ("plane_axes.acc.axes.0.label", None, "plane_axes.acc.axes[0].label", "None"),
    ("plane_axes.acc.axes.0.extent", 2**62, "plane_axes.acc", "bin"),
    ("plane_axes.acc.more", 1, "plane_axes.acc", "more"),
    ("launch", [], "launch", "[]"), ("launch.lane_space", 3, "lane_space", "exactly"),
    ("launch.lane_space.group", 0, "lane_space", "0"), ("launch.lane_space.axes.1.extent", None, "lane_space", "null"),
    ("launch.lane_space.axes.1.extent", 2**63, "launch.lane_space", str(2**63)),
    ("launch.lane_space.axes.0.label", "a\0", "launch.lane_space", "'a\\x00'"),
    ("launch.box.T", 1, "launch.box.T", "1"), ("launch.box.axis", -1, "launch.box.axis", "-1"),
    ("launch.box.stride", 0, "launch.box.stride", "0"), ("launch.box.more", 1, "launch.box", "more"),
    ("launch.box", [4], "launch.box", "[4]"), ("launch.block", 0, "launch.block", "0"),
    ("launch.block", "128", "launch.block", "'128'"),
    ("derivative", 3, "derivative", "3"), ("derivative.kind", "tape", "derivative.kind", "'tape'"),
    ("lanes", {"a": 1}, "lanes", "{'a': 1}"), ("lanes.0.digest", 3, "lanes[0].digest", "3"),
    ("lanes.0.slots", [["round", "x"]], "lanes[0].slots", "['round', 'x']"),
    ("keyed", {"acc": {"width": 1, "axes": [["a", 1]]}}, "keyed", "['acc']"),
]


@pytest.mark.parametrize(("key", "value", "names", "found"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_key_is_named(key: str, value: Any, names: str, found: str) -> None:
    with pytest.raises(ValueError, match=r"^eagle\.sidecar\.validate_sidecar: .*unit\.json") as caught:
        validate_sidecar(changed(FULL, key, value), name="unit.json")
    text = str(caught.value)
    assert names in text and found in text and ";" in text
    assert len(text) < 1000


@pytest.mark.parametrize(("key", "value", "found"), [
    ("stages", {"kernel": "unit"}, "{'kernel': 'unit'}"), ("stages.0.kernel", "other", "['other', 'unit_2']"),
    ("stages.1.kernel", "unit", "['unit', 'unit']"), ("stages.1", ..., "['unit']"), ("stages.0", "unit", "'unit'"),
    ("stages.0.cells_out", "cut", "'cut'"), ("stages.1.cells_in", ["none"], "['none']"),
    ("stages.1.recomputed", [3], "3"), ("stages.0.more", 1, "more"), ("stages.0.cells_in", ..., "['cells_out'"),
    ("keyed.row.width", 0, "0"), ("keyed.row.axes", [], "[]"), ("keyed.row.axes", [["row"]], "['row']"),
    ("keyed.row.axes", [["row", -1]], "-1"), ("keyed.row.axes", [[None, 4]], "None"), ("keyed.row", 3, "3"),
    ("cells.cut.columns", 2**30, str(2**30)), ("cells.cut.internal", "yes", "'yes'"),
])
def test_a_wrong_split_is_named(key: str, value: Any, found: str) -> None:
    with pytest.raises(ValueError, match=r"unit\.json, key ") as caught:
        validate_sidecar(changed(SPLIT, key, value), name="unit.json")
    assert key.split(".")[0] in str(caught.value) and found in str(caught.value)


@pytest.mark.parametrize("steps", [1, 7])
def test_fixed_steps(steps: int) -> None:
    finish = {"mask": "done", "counter": "finished_count", "steps": steps}
    assert sidecar.read_finish(validate_sidecar({**FULL, "finish": finish}, name="u"), name="u") == finish
    for wrong in (0, -1, True, "all", None, 1.0):
        with pytest.raises(ValueError, match=r"finish\.steps"):
            validate_sidecar({**FULL, "finish": {**finish, "steps": wrong}}, name="u")


def test_legacy_sidecars_pass() -> None:
    legacy = {"aether_abi": "aether-abi/1", "pattern": "vector", "kernel": "raptor_kernel",
              "arg_spec": [["out", "force"], ["vec_in", "r"], ["uniform", "mu"], ["lookup", "table"]],
              "vector_inputs": ["r"], "params": ["mu"], "vec_widths": {"r": 3, "force": 3}, "accumulate": True,
              "mutables": [{"name": "force", "dtype": "float", "width": 1, "default": 0.0}],
              "buffers": [{"name": "table", "kind": "lookup", "count": 12}]}
    validate_sidecar(legacy, name="unit")
    assert sidecar.read_params(legacy, name="unit") == (ParamSpec("mu", "float"),)


def test_neural_blocks_go_to_their_owner() -> None:
    with pytest.raises(ValueError, match=r"^eagle\.sidecar\.validate_sidecar: .*neural_block"):
        validate_sidecar({"pattern": "neural_block", "kernel": "b"}, name="unit")
    block = {"pattern": "neural_block", "kernel": "b", "scalar_type": "float64", "arg_spec": [], "in_degree": 1,
             "out_degree": 1, "input_width": 1, "output_width": 1, "state_width": 1, "param_width": 0,
             "scatter_policy": "unique_write", "forward_exec": {"kind": "kernel", "kernel": "k"}}
    assert validate_sidecar(block, name="unit") is block
    with pytest.raises(ValueError):
        validate_sidecar({**block, "scatter_policy": []}, name="unit")


# ---- readers ---------------------------------------------------------------------------------------------------------


def test_readers() -> None:
    space = LaneSpace((("row", None), ("col", 8)), 1)
    assert sidecar.read_lane_space(FULL, name="u") == space
    assert sidecar.read_lane_space({}, name="u") == sidecar.UNDECLARED_LANE_SPACE == LaneSpace(((None, None),), 1)
    assert (sidecar.read_block(FULL, name="u"), sidecar.read_block({}, name="u")) == (128, None)
    assert sidecar.read_box(FULL, name="u") == {"axis": 1, "T": 4, "stride": 2}
    assert sidecar.read_box({}, name="u") is None
    assert sidecar.read_plane_axes(FULL, name="u") == FULL["plane_axes"]
    assert sidecar.read_launch(FULL, name="u") == LaunchDecl(space, 128, FULL["plane_axes"], ("k",),
                                                             {"axis": 1, "T": 4, "stride": 2})
    assert sidecar.read_finish(FULL, name="u") == FULL["finish"]
    assert sidecar.read_finish({}, name="u") is None
    assert sidecar.read_terminated_readonly({"terminated_readonly": True}, name="u") is True
    assert sidecar.read_terminated_readonly({}, name="u") is False
    assert sidecar.read_params(FULL, name="u") == (ParamSpec("a", "float"), ParamSpec("n", "int"))
    assert sidecar.read_params({}, name="u", required=False) == ()
    with pytest.raises(ValueError, match=r"^eagle\.sidecar\.read_params: u, key 'params'"):
        sidecar.read_params({}, name="u")
    assert (sidecar.TERMINATED_READONLY_KEY, sidecar.FINISH_KEY, sidecar.FINISH_COUNTER, sidecar.FINISH_AUTO,
            sidecar.PARAMS_SCHEMA_KEY, sidecar.PARAM_DTYPES) == (
        "terminated_readonly", "finish", "finished_count", "auto", "params_schema", ("float", "int"))


@pytest.mark.parametrize(("reader", "meta"), [
    ("read_launch", {"launch": 3}), ("read_lane_space", {"launch": {"lane_space": {}}}),
    ("read_block", {"launch": {"block": True}}), ("read_box", {"launch": {"box": 3}}),
    ("read_plane_axes", {"plane_axes": {"x": 3}}), ("read_finish", {"finish": {"mask": "x"}}),
    ("read_finish", {"finish": FULL["finish"], "arg_spec": 3}),
    ("read_terminated_readonly", {"terminated_readonly": 1}), ("read_params", {"params": 3}),
    ("read_launch", {"sorted_inputs": ["k"], "arg_dtypes": 3, "arg_spec": [["lookup", "k"]]}),
])
def test_readers_name_the_artifact(reader: str, meta: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"^eagle\.sidecar\.{reader}: '?unit"):
        getattr(sidecar, reader)(meta, name="unit")


# ---- declarations ----------------------------------------------------------------------------------------------------


def test_a_full_declaration() -> None:
    found = vars(declaration(FULL))
    for key in ("finish", "step_ops", "fp64_ops_ir", "entry_counts_finished", "cells", "companions", "adjoint_like",
                "gather_mats", "plane_axes", "derivative", "arg_widths", "arg_dtypes", "scalar_type",
                "terminated_readonly", "exec_access"):
        assert found[key] == FULL[key], key
    for key in ("dispatch", "lanes", "param_planes", "sorted_inputs", "params", "exec_targets"):
        assert found[key] == tuple(FULL[key]), key
    assert found["arg_spec"] == tuple((role, name) for role, name in FULL["arg_spec"])
    assert found["lane_space"] == LANES and found["box"] == FULL["launch"]["box"] and found["block"] == 128
    assert found["vec_mutables"] == {"y"} and found["mat_mutables"] == {"q"} and found["prior_mutables"] == {"y"}
    assert found["mat_shapes"] == {"m": (2, 3), "q": (2, 2)}
    assert found["name"] == found["kernel"] == "unit" and found["abi_tag"] == "aether-abi/2"


def test_an_empty_declaration_has_every_attribute() -> None:
    least = {"kernel": "unit", "aether_abi": "aether-abi/2", "arg_spec": [["per_sample", "x"]]}
    full, found = vars(declaration({**FULL, **SPLIT})), vars(declaration(least))
    assert set(found) == set(full)
    assert full["stages"] == tuple(SPLIT["stages"]) and full["keyed"] == SPLIT["keyed"]
    for key in ("stages", "keyed", "companions", "cells", "dispatch", "adjoint_like", "gather_mats", "param_planes",
                "plane_axes", "sorted_inputs", "derivative", "step_ops", "fp64_ops_ir", "lanes", "finish", "box",
                "block", "lane_space", "fold_entries", "stage_plugins"):
        assert not found[key], key
    assert vars(declaration({**least, "ops_per_step": 7}))["fp64_ops_ir"] == 7


def test_softdouble_is_stored_as_float64() -> None:
    soft = validate_sidecar({**SPLIT, "scalar_type": "softdouble", "arg_dtypes": {"x": "softdouble"}}, name="u")
    assert declaration(soft).arg_dtypes == {"x": "float64"}


# ---- derivatives at forward doors ------------------------------------------------------------------------------------


class Holder:
    """Something that runs a plugin: a plan, or what binds one."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin

    def launch(self) -> None: ...

    @property
    def derivative(self) -> Any:
        raise RuntimeError("a foreign property")


def test_derived_tag() -> None:
    derived, primal = declaration(FULL), declaration(SPLIT)
    for wrapped in (derived, Holder(derived), Holder(derived).launch, functools.partial(Holder(derived).launch)):
        assert sidecar.derived_tag(wrapped) == ("vjp", "f")
    for other in (primal, Holder(primal), None, 3, test_derived_tag):
        assert sidecar.derived_tag(other) is None
    ring = Holder(None)
    ring.plugin = ring
    assert sidecar.derived_tag(ring) is None


def test_forward_doors_refuse_derivatives() -> None:
    sidecar.refuse_derived(declaration(SPLIT), door="eagle.simulate")
    with pytest.raises(ValueError, match=r"^eagle\.simulate: kernel: found the vjp of 'f', wanted"):
        sidecar.refuse_derived(Holder(declaration(FULL)), door="eagle.simulate")


def test_state_that_is_missing_is_refused() -> None:
    plugin = declaration(FULL)
    sidecar.refuse_prior_read(plugin, {"y", "x"}, door="eagle.simulate")
    with pytest.raises(ValueError, match=r"^eagle\.simulate: Mutable 'y': found nothing.*pass y="):
        sidecar.refuse_prior_read(plugin, {"x"}, door="eagle.simulate")
