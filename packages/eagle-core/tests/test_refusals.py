# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments: the documented class, the facts in the message, nothing written."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from typing import Any

import kernels
import numpy as np
import pytest

import eagle
from eagle import ArgumentError, BufferRefused, LayoutError, PerformanceWarning

X = np.arange(5.0)


def scale() -> Any:
    return eagle.deploy(kernels.scale)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("given", "error", "facts"), [
    ({"x": X, "a": 1.0}, ArgumentError, ["'b'", "nothing", "b=..."]),
    ({"x": X, "a": 1.0, "b": 1.0, "c": 2}, ArgumentError, ["'c'", "['out', 'x', 'a', 'b']"]),
    ({"a": 1.0, "b": 1.0}, ArgumentError, ["'x'"]),
    ({"x": X, "a": 1.0, "b": 1.0, "device": 0}, BufferRefused, ["device", "0"]),
    ({"x": X, "a": 1.0, "b": 1.0, "layout": "rows"}, LayoutError, ["layout", "'rows'", "samples_last"]),
    ({"x": True, "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "bool", "float64"]),
    ({"x": 3.0, "a": 1.0, "b": 1.0, "out": X}, LayoutError, [
        "that 'x' is one sample (shape ()) but 'out' is a batch of 5 (shape (5,))", "np.full(5, x)"]),
    ({"x": None, "a": 1.0, "b": 1.0}, ArgumentError, ["'x'", "found None"]),
    ({"x": "abc", "a": 1.0, "b": 1.0}, ArgumentError, ["'x'", "str"]),
    ({"x": [[1.0], 2.0], "a": 1.0, "b": 1.0}, TypeError, ["'x'", "list"]),
    ({"x": np.ma.array(X), "a": 1.0, "b": 1.0}, TypeError, ["'x'", "masked"]),
    ({"x": X.reshape(1, 5), "a": 1.0, "b": 1.0}, LayoutError, ["'x'", "(1, 5)", "(n,)"]),
    ({"x": X.astype(">f8"), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", ">f8", "float64", "astype"]),
    ({"x": X > 1, "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "bool", "float64"]),
    ({"x": X * 1j, "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "complex128", "float64"]),
    ({"x": X.astype(object), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "object"]),
    ({"x": X.astype("M8[s]"), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "datetime64"]),
    ({"x": X.astype(np.longdouble), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "float64", "astype"]),
    ({"x": np.array([2**53 + 1]), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "9007199254740993", "exact"]),
    ({"x": np.array([2**64 - 1], np.uint64), "a": 1.0, "b": 1.0}, BufferRefused, ["'x'", "18446744073709551615"]),
    ({"x": X, "a": np.ones(1), "b": 1.0}, BufferRefused, ["'a'", "(1,)", "one number"]),
    ({"x": X, "a": True, "b": 1.0}, TypeError, ["'a'", "True"]),
    ({"x": X, "a": "1", "b": 1.0}, TypeError, ["'a'", "'1'"]),
    ({"x": X, "a": None, "b": 1.0}, TypeError, ["'a'", "None"]),
    ({"x": X, "a": 1j, "b": 1.0}, TypeError, ["'a'", "1j"]),
    ({"x": X, "a": 10**400, "b": 1.0}, ValueError, ["'a'", "float64"]),
    ({"x": X, "a": 10**5000, "b": 1.0}, ValueError, ["'a'", "float64"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": read_only(np.zeros(5))}, BufferRefused, ["'out'", "read-only", "writable"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": np.zeros(5, np.float32)}, BufferRefused, ["'out'", "float32", "float64"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": np.zeros(10)[::2]}, BufferRefused, ["'out'", "(16,)", "C-contiguous"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": np.zeros(4)}, LayoutError, ["'out'", "4 samples", "5, as 'x' has"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": 3.0}, BufferRefused, ["'out'", "3.0", "writable"]),
    ({"x": X, "a": 1.0, "b": 1.0, "out": [0.0] * 5}, ArgumentError, ["'out'", "list"]),
])
def test_run(given: dict[str, Any], error: type[Exception], facts: list[str]) -> None:
    out = given.get("out")
    before = out.copy() if isinstance(out, np.ndarray) else None
    with pytest.raises(error) as caught:
        scale().run(**given)
    message = str(caught.value)
    assert message.startswith("scale.run: ") and "found" in message and "wanted" in message
    for fact in facts:
        assert fact in message
    assert caught.type is error
    if before is not None:
        assert (out == before).all()


def test_arguments_without_names() -> None:
    with pytest.raises(ArgumentError, match=r"scale.run: arguments: found 1 without a name.*them: x=..., a=..."):
        scale().run(X, a=1.0, b=1.0)
    with pytest.raises(ArgumentError, match=r"scale.bind: arguments: found 1 without a name.*them: out=..., x="):
        scale().bind(X, a=1.0, b=1.0)


def test_argument_errors_are_value_and_type_errors() -> None:
    assert issubclass(ArgumentError, ValueError) and issubclass(ArgumentError, TypeError)


@pytest.mark.parametrize(("dtype", "warns"), [(np.int64, False), (np.int8, False), (np.uint32, False),
                                              (np.float16, True), (np.float32, True)])
def test_inputs_are_converted_where_no_value_changes(dtype: type, warns: bool) -> None:
    x = np.array([0, 1, 2, 100], dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert scale().run(x=x, a=1.0, b=0.0).tolist() == [0, 1, 2, 100]
    assert [w.category for w in caught] == ([PerformanceWarning] if warns else [])
    assert all(w.filename == __file__ for w in caught)


@pytest.mark.parametrize("value", [2.0**63, -2.0**63 - 2048, 0.5])
def test_floats_an_index_cannot_hold(value: float) -> None:
    plan, t = eagle.deploy(kernels.looked_up), np.arange(3.0)
    for door in (plan.run, plan):
        with pytest.raises(BufferRefused, match=re.escape(f"'i': found the value {np.float64(value)!s} (float64)")):
            door(i=[value, 1.0], t=t)
    assert plan.run(i=[2.0, 1.0], t=t).tolist() == [2, 1]


def test_the_largest_floats_an_integer_plane_holds() -> None:
    """The last one below 2**63, and -2**63 itself."""
    edge = [2.0**63 - 1024, -2.0**63]
    assert eagle.deploy(kernels.kept).run(i=edge).tolist() == [2**63 - 1024, -2**63]


def test_large_integers_that_are_exact_are_taken() -> None:
    x = np.array([2**62, -(2**53) - 2, 3])
    assert scale().run(x=x, a=1.0, b=0.0).tolist() == [2.0**62, -(2.0**53) - 2, 3.0]


def test_lists_are_converted_and_strided_arrays_copied() -> None:
    assert scale().run(x=[1, 2.5], a=2.0, b=0.0).tolist() == [2, 5]
    with pytest.warns(PerformanceWarning, match="'x' is not C-contiguous"):
        assert scale().run(x=X[::-2], a=1.0, b=0.0).tolist() == [4, 2, 0]


def test_numbers_of_every_kind_are_uniforms() -> None:
    for a in (2, 2.0, np.float32(2), np.int8(2), np.array(2.0)):
        assert scale().run(x=np.ones(2), a=a, b=0).tolist() == [2, 2]
    assert np.isinf(scale().run(x=np.ones(1), a=float("inf"), b=0.0)[0])


def test_float32_uniforms_that_overflow_are_refused() -> None:
    plan = eagle.deploy(kernels.scale, scalar_type="float32")
    with pytest.raises(ValueError, match=r"Param 'a': found 1e\+300, wanted a number float32 can hold"):
        plan.run(x=np.ones(2, np.float32), a=1e300, b=0.0)


def test_float64_into_a_float32_kernel_is_refused() -> None:
    plan = eagle.deploy(kernels.scale, scalar_type="float32")
    with pytest.raises(BufferRefused, match=r"'x': found float64, wanted float32; build the kernel in it"):
        plan.run(x=X, a=1.0, b=0.0)


def test_partly_overlapping_planes_are_refused() -> None:
    memory = np.arange(8.0)
    before = memory.copy()
    for x, out in ((memory[:5], memory[3:]), (memory[3:], memory[:5]), (memory[:5], memory[:5][::1][0:5])):
        if x.ctypes.data == out.ctypes.data:
            continue
        with pytest.raises(BufferRefused, match="'out' and Scalar 'x': found arrays that share memory"):
            scale().run(x=x, a=1.0, b=0.0, out=out)
    assert (memory == before).all()


def test_two_outputs_in_one_array_are_refused() -> None:
    y = np.zeros(3)
    with pytest.raises(BufferRefused, match="'out0' and output 'out1'"):
        eagle.deploy(kernels.sum_difference).run(x=np.ones(3), y=np.ones(3), out0=y, out1=y)


def test_an_input_that_is_the_output_gives_the_right_answer() -> None:
    x = np.arange(4.0)
    assert scale().run(x=x, a=2.0, b=1.0, out=x) is x
    assert x.tolist() == [1, 3, 5, 7]
    x, y = np.arange(3.0), np.arange(3.0) + 10
    with pytest.warns(PerformanceWarning, match="'x' is also an output"):
        got = eagle.deploy(kernels.swapped).run(x=x, y=y, out0=x)
    assert got["out0"].tolist() == [20, 22, 24] and got["out1"].tolist() == [0, 3, 6]


def test_a_vector_that_is_its_own_output_gives_the_right_answer() -> None:
    p = np.arange(15.0).reshape(3, 5)
    a, b, c = p.copy()
    with pytest.warns(PerformanceWarning, match="'p' is also an output"):
        got = eagle.deploy(kernels.turned).run(p=p, u=p)
    assert got is p and got.tolist() == np.stack([b * 2 - c, c - a * 3, a + b]).tolist()


def test_an_input_other_samples_read_is_copied() -> None:
    for door in ("run", "__call__"):
        x, i = np.arange(5.0), np.arange(5)[::-1].copy()
        plan = eagle.deploy(kernels.neighbour)
        with pytest.warns(PerformanceWarning, match="'x' is also an output"):
            assert getattr(plan, door)(x=x, i=i, y=x) is x
        assert x.tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(BufferRefused, match="'x': found an array that is also an output"):
        plan.bind(x=x, i=i, y=x)


def test_an_input_that_a_later_stage_reads_is_copied() -> None:
    """Whatever access the first stage declares: only one kernel reads each sample before it writes it."""
    plugin = copy.copy(eagle.deploy(kernels.share).plugin)
    plugin.exec_access = "sample_local"
    x = np.array([1.0, 2.0, 5.0])
    with pytest.warns(PerformanceWarning, match="'x' is also an output"):
        assert eagle.deploy(plugin).run(x=x, out=x) is x
    assert x.tolist() == [0.125, 0.25, 0.625]


def test_unaligned_arrays() -> None:
    x = np.zeros(41, np.uint8)[1:].view(np.float64)
    x[:] = X
    with pytest.warns(PerformanceWarning, match=r"'x' is not aligned; .* pass x.copy\(\)"):
        assert scale().run(x=x, a=1.0, b=0.0).tolist() == X.tolist()
    with pytest.raises(BufferRefused, match=r"'x': found an address that is no multiple of 8 .* pass x.copy\(\)"):
        scale().bind(x=x, a=1.0, b=0.0, out=np.zeros(5))
    scale().bind(x=x.copy(), a=1.0, b=0.0, out=np.zeros(5))
    with pytest.raises(BufferRefused, match="'out': found .* wanted a C-contiguous, aligned array"):
        scale().run(x=X, a=1.0, b=0.0, out=x)


def test_a_plane_that_reads_both_ways_is_refused() -> None:
    planes = {"v": np.arange(9.0).reshape(3, 3), "dt": 1.0}
    with pytest.raises(LayoutError, match=r"'v': found shape \(3, 3\), which reads as component-major"):
        eagle.deploy(kernels.advance).run(**planes)
    got = eagle.deploy(kernels.advance).run(layout="samples_last", **planes)
    assert got.tolist() == planes["v"].tolist()


def test_shapes_name_the_fix() -> None:
    advance = eagle.deploy(kernels.advance)
    for given, fix in (({"v": np.zeros(4)}, r"found shape \(4,\), wanted shape \(3, n\) or \(n, 3\)"),
                       ({"v": np.zeros((3, 7)), "x": np.zeros((3, 8))}, "'x': found 8 samples, wanted 7, as 'v' has")):
        with pytest.raises(LayoutError, match=fix):
            advance.run(dt=1.0, **given)
    with pytest.raises(LayoutError, match=r"'m': found shape \(3, 2, 5\), wanted shape \(6, n\) or \(n, 6\)"):
        eagle.deploy(kernels.shapes).run(p=np.ones((3, 5)), m=np.ones((3, 2, 5)), q=np.ones((4, 5)), s=np.ones(5), a=1)


def test_the_call_form() -> None:
    plan = scale()
    with pytest.raises(ArgumentError, match=r"scale\(\): argument 'a': found two values"):
        plan(X, 2.0, a=3.0)
    with pytest.raises(ArgumentError, match=r"scale\(\): Param 'b': found nothing"):
        plan(X, 2.0)
    with pytest.raises(ArgumentError, match=r"scale\(\): arguments: found 5 without a name"):
        plan(X, 2.0, 1.0, 4.0, 5.0)
    with pytest.raises(ArgumentError, match=r"into\(\): arguments: found 3 without a name, wanted at most 2"):
        eagle.deploy(kernels.into)(X, np.zeros(5), 2.0)
    with pytest.raises(ArgumentError, match=r"mixed\(\): Mutable 'k': found nothing, .* previous value"):
        eagle.deploy(kernels.mixed)(X, a=2.0)
    with pytest.raises(ArgumentError, match="names only: a built plugin"):
        eagle.deploy(plan.plugin)(X, 2.0, 1.0)


def test_the_mask_is_required_by_run_and_bind() -> None:
    plan = eagle.deploy(kernels.double_until)
    for door in (plan.run, plan.bind):
        with pytest.raises(ArgumentError, match="Terminated 'terminated': found nothing"):
            door(x=np.ones(2), limit=np.ones(2))


def test_a_read_only_mask_is_refused_before_anything_is_written() -> None:
    x = np.ones(3)
    with pytest.raises(BufferRefused, match="Terminated 'terminated': found a read-only array"):
        eagle.deploy(kernels.double_until).run(x=x, limit=np.ones(3), terminated=read_only(np.zeros(3, bool)))
    assert x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("changed", "error", "facts"), [
    ({"x": X.astype(np.float32)}, BufferRefused, ["'x'", "float32", "float64"]),
    ({"x": np.arange(5)}, BufferRefused, ["'x'", "int64", "float64"]),
    ({"x": [1.0] * 5}, ArgumentError, ["'x'", "list"]),
    ({"x": np.zeros(10)[::2]}, BufferRefused, ["'x'", "C-contiguous"]),
    ({"x": np.zeros(4)}, LayoutError, ["4", "5", "as"]),
    ({"out": read_only(np.zeros(5))}, BufferRefused, ["'out'", "read-only"]),
    ({"a": "1"}, TypeError, ["'a'", "'1'"]),
    ({"c": 1.0}, ArgumentError, ["'c'"]),
])
def test_bind_and_rebind(changed: dict[str, Any], error: type[Exception], facts: list[str]) -> None:
    planes = {"x": X, "a": 1.0, "b": 2.0, "out": np.zeros(5)}
    with pytest.raises(error) as at_bind:
        scale().bind(**{**planes, **changed})
    bound = scale().bind(**planes)
    with pytest.raises(error) as at_rebind:
        bound.rebind(**changed)
    for fact in facts:
        assert fact in str(at_bind.value) and fact in str(at_rebind.value)
    assert str(at_bind.value).startswith("scale.bind: ")
    assert str(at_rebind.value).startswith("scale.rebind: ")
    bound.launch()
    assert planes["out"].tolist() == (X + 2.0).tolist()


def test_bind_refuses_an_input_that_is_another_kernels_output() -> None:
    x = np.arange(3.0)
    with pytest.raises(BufferRefused, match="'x': found an array that is also an output"):
        eagle.deploy(kernels.swapped).bind(x=x, y=np.ones(3), out0=x, out1=np.ones(3))


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
def test_launch_refuses_what_changed_since_bind() -> None:
    class Mine(np.ndarray):
        pass

    for change in ("read-only", "read-only subclass", "shape", "resize"):
        out = np.zeros(5).view(Mine) if change.endswith("subclass") else np.zeros(5)
        bound = scale().bind(x=X, a=1.0, b=2.0, out=out)
        if change.startswith("read-only"):
            out.flags.writeable = False
        elif change == "shape":
            out = np.reshape(out, 5)
            bound.planes["out"].shape = (5, 1)
        else:
            out.resize(5_000_000, refcheck=False)
        with pytest.raises(BufferRefused, match="scale.launch: output 'out'.*rebind"):
            bound.launch()
        bound.rebind(out=np.zeros(5)).launch()
        assert bound.planes["out"].tolist() == (X + 2.0).tolist()


def test_rebind_keeps_the_number_of_samples() -> None:
    bound = scale().bind(x=X, a=1.0, b=2.0, out=np.zeros(5))
    with pytest.raises(LayoutError, match="'x': found 4 samples, wanted 5, as bound"):
        bound.rebind(x=np.zeros(4), out=np.zeros(4))
    assert bound.n == 5 and bound.planes["x"] is X


def test_rebind_keeps_the_layout_of_bind() -> None:
    bound = eagle.deploy(kernels.advance).bind(layout="samples_last", v=np.ones((3, 3)), x=np.zeros((3, 3)), dt=1.0)
    bound.rebind(dt=2.0).launch()
    assert (bound.planes["x"] == 2.0).all()


def test_a_bound_plan_that_was_never_bound() -> None:
    with pytest.raises(RuntimeError, match="BoundPlan.launch: found nothing bound"):
        eagle.BoundPlan.__new__(eagle.BoundPlan).launch()


def test_names_with_code_in_them() -> None:
    """A call site may be left while its old names are dropped; that code must not meet it half changed."""
    plan = scale()

    class Name(str):
        def __del__(self) -> None:
            for _ in range(5):
                assert plan.run(**{Name("x"): X, Name("b"): 1.0, Name("a"): 3.0}).tolist() == (3 * X + 1).tolist()
                Name.__del__ = lambda self: None  # type: ignore[method-assign]

    for _ in range(20):
        assert plan.run(**{Name("x"): X, Name("a"): 2.0, Name("b"): 1.0}).tolist() == (2 * X + 1).tolist()


def test_values_that_change_a_plane_while_they_are_read() -> None:
    x = np.ones(1 << 16)

    class Number:
        def __float__(self) -> float:
            x.resize(2, refcheck=False)
            return 2.0

    assert scale().run(x=x, a=Number(), b=1.0).tolist() == [3.0, 3.0]


def test_values_that_change_an_output_while_they_are_read() -> None:
    """Numbers are read first: an output is refused for what it has become."""
    class Number:
        def __init__(self, change: Callable[[], None]) -> None:
            self.change = change

        def __float__(self) -> float:
            self.change()
            return 2.0

    out = np.full(5, 7.0)
    with pytest.raises(BufferRefused, match="'out': found a read-only array"):
        scale().run(x=X, a=Number(lambda: out.setflags(write=False)), b=1.0, out=out)
    assert (out == 7.0).all()
    out.setflags(write=True)
    with pytest.raises(LayoutError, match="'out': found 3 samples, wanted 5, as 'x' has"):
        scale().run(x=X, a=Number(lambda: out.resize(3, refcheck=False)), b=1.0, out=out)
    assert out.tolist() == [7.0] * 3
    with pytest.raises(BufferRefused, match="'out': found a read-only array"):
        scale().bind(x=X, a=Number(lambda: out.setflags(write=False)), b=1.0, out=out)


def test_a_read_only_mask_is_refused_before_an_input_is_converted() -> None:
    """No warning of a conversion comes first."""
    x, limit = np.ones(3), np.ones(3, np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(BufferRefused, match="Terminated 'terminated': found a read-only array"):
            eagle.deploy(kernels.double_until).run(x=x, limit=limit, terminated=read_only(np.zeros(3, bool)))
    assert not caught and x.tolist() == [1, 1, 1]


def test_launch_takes_no_stream_and_no_grid() -> None:
    bound = scale().bind(x=X, a=1.0, b=2.0, out=np.zeros(5))
    for arguments in ({"stream": 0}, {"grid": 4}):
        with pytest.raises(ValueError, match=next(iter(arguments))):
            bound.launch(**arguments)
    with pytest.raises(ArgumentError, match="'blocks'"):
        bound.launch(blocks=1)
    with pytest.raises(ArgumentError, match="at most one"):
        bound.launch(None, None)
    assert bound.launch(None, grid=None, block=64) is None


def test_clear() -> None:
    bound = scale().bind(x=X, a=1.0, b=2.0, out=np.ones(5))
    with pytest.raises(ArgumentError, match=r"'x'.*\['out'\]"):
        bound.clear("out", "x")
    assert bound.planes["out"].tolist() == [1] * 5
    bound.clear("out")
    assert bound.planes["out"].tolist() == [0] * 5


def test_bound_plans_tell_what_they_hold() -> None:
    bound = eagle.deploy(kernels.scale, npartitions=2).bind(x=X, a=1.0, b=2.0, out=np.ones(5))
    assert bound.n == 5 and bound.names == ("out", "x", "a", "b")
    assert bound.partitions == ((0, 3, 5), (3, 2, 5))
    assert bound.planes["x"] is X and dict(bound.planes)["a"] == 1.0
    with pytest.raises(TypeError):
        bound.planes["x"] = X  # type: ignore[index]
    assert bound.plan.npartitions == 2
    other = np.arange(5.0) * 2
    assert bound.rebind(x=other, a=3.0) is bound and bound.planes["x"] is other
    bound.launch()
    assert bound.planes["out"].tolist() == (other * 3 + 2).tolist()
