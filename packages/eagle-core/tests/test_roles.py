# SPDX-License-Identifier: Apache-2.0
"""eagle.roles, eagle.abi, eagle.dtypes: the vocabulary of artifacts, exactly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eagle import abi, dtypes, roles
from eagle.errors import BufferRefused
from eagle.sidecar import ParamSpec

ALL_ROLES = {"accum_out", "lookup", "mat_in", "mutable", "nsamples", "out", "per_sample", "terminated", "uniform",
             "vec_in", "wide_in", "wide_out"}


@pytest.mark.parametrize(("name", "wanted"), [
    ("ROLES", ALL_ROLES),
    ("OUTPUT_ROLES", {"accum_out", "mutable", "out", "wide_out"}),
    ("INPUT_ROLES", {"lookup", "mat_in", "per_sample", "terminated", "vec_in", "wide_in"}),
    ("PER_SAMPLE_ROLES", {"mat_in", "mutable", "out", "per_sample", "terminated", "vec_in"}),
    ("STATE_ROLES", {"accum_out", "mutable", "wide_out"}),
    ("RECOGNIZED_PATTERNS", {"neural_block", "pure", "vector"}),
    ("LAUNCH_CERTIFIED_PATTERNS", {"pure", "vector"}),
    ("EXEC_REF_KINDS", {"kernel"}),
    ("SCATTER_POLICIES", {"accumulate", "unique_write"}),
    ("NEURAL_REQUIRED_FIELDS", {"forward_exec", "in_degree", "input_width", "out_degree", "output_width",
                                "param_width", "scatter_policy", "state_width"}),
    ("NEURAL_EXEC_REF_FIELDS", {"forward_exec", "jvp_exec", "vjp_exec"}),
    ("NEURAL_FORBIDDEN_FIELDS", {"aether_abi", "buffers", "derivative", "host_entry", "mat_shapes", "mutables"}),
    ("BUFFER_KINDS", {"lookup"}),
    ("MANIFEST_FORMATS", {"cubin", "fatbin", "ptx", "host"}),
    ("ARG_TAGS", {"ACCUM_OUT", "GREF_MAT", "GREF_VEC", "HANDLE", "NSAMPLES", "UNIFORM", "WIDE_IN", "WIDE_OUT"}),
])
def test_sets(name: str, wanted: set[str]) -> None:
    assert getattr(roles, name) == frozenset(wanted)
    assert name in dir(roles)


def test_numbers_and_names() -> None:
    assert (roles.SCHEMA_VERSION, roles.MAX_SCHEMA_VERSION, roles.PARAMS_SCHEMA) == (1, 3, 2)
    assert (roles.ACTIVE_MAP, roles.ACTIVE_COUNT) == ("active_map", "active_count")
    assert roles.RESERVED_DTYPES == {"finished_count": "uint32", "fused_steps": "int64", "active_map": "int32",
                                     "active_count": "uint32"}
    assert roles.WORDS == {"finished_count": ("uint32", 0), "fused_steps": ("int64", 1)}
    with pytest.raises(AttributeError, match="NOTHING"):
        roles.NOTHING  # noqa: B018


def test_importing_the_vocabulary_imports_no_raptor() -> None:
    code = ("import sys, eagle.roles, eagle.sidecar, eagle.registry, eagle.exec; assert 'raptor' not in sys.modules; "
            "assert eagle.roles.MAX_SCHEMA_VERSION == 3; assert 'raptor' in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("role", "tag"), [
    ("out", "GREF_VEC"), ("vec_in", "GREF_VEC"), ("mat_in", "GREF_MAT"), ("per_sample", "HANDLE"),
    ("lookup", "HANDLE"), ("terminated", "HANDLE"), ("wide_in", "WIDE_IN"), ("wide_out", "WIDE_OUT"),
    ("accum_out", "ACCUM_OUT"), ("nsamples", "NSAMPLES"), ("uniform", "UNIFORM"), ("mutable", "HANDLE"),
])
def test_classify_arg(role: str, tag: str) -> None:
    assert roles.classify_arg(role, "x") == tag
    assert tag in roles.ARG_TAGS


def test_classify_mutables() -> None:
    assert roles.classify_arg("mutable", "v", vec_mutables=frozenset("v")) == "GREF_VEC"
    assert roles.classify_arg("mutable", "m", mat_mutables=frozenset("m")) == "GREF_MAT"
    assert roles.classify_arg("mutable", "b", vec_mutables=frozenset("b"), mat_mutables=frozenset("b")) == "GREF_MAT"


@pytest.mark.parametrize("role", ["inward", "", None, ["out"], 3])
def test_an_unknown_role_is_named(role: Any) -> None:
    with pytest.raises(ValueError, match=r"slot 'x'") as caught:
        roles.classify_arg(role, "x")
    assert repr(role) in str(caught.value)


def test_every_role_has_a_tag() -> None:
    assert {roles.classify_arg(role, "x") for role in ALL_ROLES} == set(roles.ARG_TAGS)


@pytest.mark.parametrize(("spec", "fact"), [
    ([["per_sample", "x"], ["sideways", "y"]], "'sideways'"), ("text", "'text'"), ([["per_sample"]], "['per_sample']"),
    ([["per_sample", 3]], "3"), ([["per_sample", ""]], "''"), ([["per_sample", "a\0"]], "printable"),
    ([["per_sample", "\ud800"]], "printable"), ([["out", "x"], ["lookup", "x"]], "'x' twice"), (None, "None"),
])
def test_validate_roles_refuses(spec: Any, fact: str) -> None:
    with pytest.raises(ValueError, match=r"^eagle\.roles\.validate_roles: unit") as caught:
        roles.validate_roles(spec, name="unit")
    assert fact in str(caught.value) and ";" in str(caught.value)


def test_validate_roles_takes_every_role() -> None:
    roles.validate_roles([(role, role) for role in sorted(ALL_ROLES)], name="unit")
    roles.validate_roles([], name="unit")


# ---- versions, axes, patterns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("meta", "wanted"), [({}, 1), ({"schema_version": 1}, 1), ({"schema_version": 3}, 3),
                                              ({"version": 2}, 1)])
def test_schema_versions(meta: dict[str, Any], wanted: int) -> None:
    assert roles.check_schema_version(meta) == wanted


def test_the_legacy_key_is_for_manifests() -> None:
    assert roles.check_schema_version({"version": 2}, allow_legacy_version_key=True) == 2
    assert roles.check_schema_version({"version": 9, "schema_version": 2}, allow_legacy_version_key=True) == 2


@pytest.mark.parametrize("version", [0, -1, True, False, "3", 3.0, None, [1], 10**4000, 4])
def test_versions_that_are_refused(version: Any) -> None:
    with pytest.raises(ValueError, match=r"doc, key 'schema_version'") as caught:
        roles.check_schema_version({"schema_version": version}, name="doc")
    assert len(str(caught.value)) < 300
    assert ("upgrade" in str(caught.value)) == (version in (4, 10**4000))


AXIS = {"exec_targets": ["host"], "exec_access": "sample_local"}


@pytest.mark.parametrize(("meta", "version"), [
    ({}, 1), (AXIS, 2), (AXIS, 3), ({**AXIS, "exec_access": "mapreduce", "exec_op": "max"}, 3),
    ({**AXIS, "exec_targets": ["device", "host"], "aether_abi": "aether-abi/2"}, 3),
])
def test_axes(meta: dict[str, Any], version: int) -> None:
    roles.check_execution_axis(meta, version, name="doc")


@pytest.mark.parametrize(("meta", "version", "fact"), [
    (AXIS, 1, "exec_access"), ({}, 2, "exec_targets"), ({"aether_abi": "aether-abi/2"}, 1, "aether-abi/1"),
    ({**AXIS, "aether_abi": "aether-abi/1"}, 3, "aether-abi/2"), ({**AXIS, "exec_targets": []}, 2, "exec_targets"),
    ({**AXIS, "exec_targets": ["host", "host"]}, 2, "duplicates"), ({**AXIS, "exec_targets": [["host"]]}, 2, "texts"),
    ({**AXIS, "exec_access": ["x"]}, 2, "exec_access"), ({**AXIS, "exec_access": "all"}, 2, "'all'"),
    ({**AXIS, "exec_op": "sum"}, 2, "exec_op"), ({**AXIS, "exec_access": "mapreduce"}, 2, "exec_op"),
    ({**AXIS, "exec_access": "mapreduce", "exec_op": {}}, 2, "exec_op"),
])
def test_axes_that_are_refused(meta: dict[str, Any], version: int, fact: str) -> None:
    with pytest.raises(ValueError, match=r"^eagle\.roles\.check_execution_axis: .*doc") as caught:
        roles.check_execution_axis(meta, version, name="doc")
    assert fact in str(caught.value) and "rebuild" in str(caught.value)


def test_patterns() -> None:
    for pattern in ("pure", "vector", "", None):
        roles.check_launch_certified_pattern(pattern, subject="unit")
    with pytest.raises(ValueError, match=r"unit pattern 'round'.*neural_block.*upgrade"):
        roles.check_launch_certified_pattern("round", subject="unit")
    with pytest.raises(ValueError, match=r"unit pattern 'neural_block'.*not launched") as caught:
        roles.check_launch_certified_pattern("neural_block", subject="unit")
    assert "upgrade" not in str(caught.value)
    with pytest.raises(ValueError, match="unit pattern"):
        roles.check_launch_certified_pattern(["pure"], subject="unit")  # type: ignore[arg-type]


# ---- params, derivatives ---------------------------------------------------------------------------------------------


def test_param_decls() -> None:
    given = ["mu", ("k", "int"), ParamSpec("n", "int"), {"name": "b", "dtype": "float"}, SimpleNamespace(
        name="c", dtype="float")]
    wanted = (("mu", "float"), ("k", "int"), ("n", "int"), ("b", "float"), ("c", "float"))
    assert roles.param_decls(given) == wanted
    assert roles.param_names(given) == ("mu", "k", "n", "b", "c")
    assert roles.param_decls([]) == ()


@pytest.mark.parametrize("bad", [[3], [("x", "bool")], [{"name": "x"}], [("x", "int", 1)], "mu", 3, [("", "int")],
                                 [{"name": [], "dtype": "int"}]])
def test_params_without_a_type_are_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^eagle\.roles\.param_decls: params"):
        roles.param_decls(bad)


def test_derivatives() -> None:
    assert roles.parse_derivative({}, name="unit") is None
    block = {"kind": "vjp", "wrt": ["x"], "primal": "f", "primal_unit": None, "residuals": []}
    assert roles.parse_derivative({"derivative": block}, name="unit") == block


@pytest.mark.parametrize(("change", "fact"), [
    ({"kind": "hess"}, "'hess'"), ({"kind": []}, "[]"), ({"residuals": ["t"]}, "residuals"), ({"wrt": "x"}, "wrt"),
    ({"primal": 3}, "primal"), ({"jump": 3}, "jump"),
])
def test_derivatives_that_are_refused(change: dict[str, Any], fact: str) -> None:
    block = {"kind": "jvp", "wrt": [], "primal": "f", "primal_unit": None, **change}
    with pytest.raises(ValueError, match="unit, key 'derivative") as caught:
        roles.parse_derivative({"derivative": block}, name="unit")
    assert fact in str(caught.value)
    with pytest.raises(ValueError, match="an object"):
        roles.parse_derivative({"derivative": 3}, name="unit")


# ---- abi, dtypes -----------------------------------------------------------------------------------------------------


def test_abi_tags() -> None:
    assert abi.ABI_VERSION == abi.ABI_TAG_V1 == "aether-abi/1"
    assert abi.ACCEPTED_ABI_TAGS == ("aether-abi/1", "aether-abi/2")
    assert [abi.abi_version_of(tag) for tag in ("aether-abi/1", "aether-abi/2", "aether-abi/3", None, [])] == \
        [1, 2, 0, 0, 0]
    assert (abi.DEVICE_CPU, abi.DEVICE_CUDA) == (1, 2)
    assert abi.check_aether_abi({"aether_abi": "aether-abi/2"}, kind="sidecar", name="unit") == "aether-abi/2"
    for tag in ("aether-abi/3", None, ["aether-abi/2"]):
        with pytest.raises(ValueError, match=r"sidecar unit.*'aether-abi/1' or 'aether-abi/2'") as caught:
            abi.check_aether_abi({"aether_abi": tag}, kind="sidecar", name="unit")
        assert repr(tag) in str(caught.value)


def test_boxes_have_the_sizes_of_the_abi() -> None:
    assert (abi.GREF_DTYPE.itemsize, abi.HANDLE_DTYPE.itemsize) == abi.LAYOUT_SIZES[:2]
    offsets = {name: facts[1] for name, facts in (abi.GREF_DTYPE.fields or {}).items()}
    assert offsets == {"data": 0, "samples": 8, "compStride": 16, "sampleStride": 24, "deviceType": 32, "deviceId": 36}
    offsets = {name: facts[1] for name, facts in (abi.HANDLE_DTYPE.fields or {}).items()}
    assert offsets == {"data": 0, "samples": 8, "stride": 16, "deviceType": 24, "deviceId": 28}


def test_make_gref() -> None:
    plane = np.zeros((3, 8))
    assert abi.make_gref(plane, 8).tolist() == (plane.ctypes.data, 8, 8, 1, 1, 0)
    assert abi.make_gref(plane[:2, :5], 5).tolist() == (plane.ctypes.data, 5, 8, 1, 1, 0)
    flat = np.zeros(24, np.float32)
    assert abi.make_gref(flat, 8).tolist() == (flat.ctypes.data, 8, 8, 1, 1, 0)
    for bad in (plane[:, ::2], plane[::-1], np.zeros((2, 2, 2))):
        with pytest.raises(BufferRefused, match="contiguous|ascending"):
            abi.make_gref(bad, 4)
    with pytest.raises(TypeError, match="a list"):
        abi.make_gref([1.0], 1)


def test_make_handle() -> None:
    table = np.zeros((4, 3))
    assert abi.make_handle(table, 7).tolist() == (table.ctypes.data, 7, 1, 1, 0)
    with pytest.raises(BufferRefused, match="C-contiguous"):
        abi.make_handle(table[:, ::2], 7)


def test_dtypes() -> None:
    assert [dtypes.np_dtype(tag) for tag in dtypes.SCALAR_TYPES] == [np.float64, np.float32, np.float64]
    for tag in ("float16", None, []):
        with pytest.raises(ValueError, match="softdouble"):
            dtypes.np_dtype(tag)  # type: ignore[arg-type]


def test_exports_that_differ_are_named() -> None:
    check: Callable[..., None] = abi.check_exports
    check("door", "k.so", "aether-abi/2", [40, 32, 32, 4, 24])
    for tag, sizes, fact in (("aether-abi/1", [40, 32, 32, 4, 24], "'aether-abi/1'"),
                             ("aether-abi/2", [40, 32, 32, 8, 24], "8 bytes for aether::idx_t"),
                             ("aether-abi/2", [40, 32], "2 sizes")):
        with pytest.raises(ValueError, match=r"^door: k\.so: found") as caught:
            check("door", "k.so", tag, sizes)
        assert fact in str(caught.value)
