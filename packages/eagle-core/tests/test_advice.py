# SPDX-License-Identifier: Apache-2.0
"""What a refusal advises: the exact words, and that it works when it is followed."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import advice_kernels as k
import hawk
import numpy as np
import pytest

import eagle
import eagle.exec
import eagle.plan
from eagle import ArgumentError, BufferRefused, LayoutError, LayoutWarning, PerformanceWarning
from eagle.errors import WARNED

X = np.arange(4.0)
BOOLS = np.zeros(4, bool)
ACTIVE = {"x": X, "limit": X, "terminated": BOOLS}
MAP = {"active_map": np.arange(4, dtype=np.int32)}


class OnDevice:
    __cuda_array_interface__: dict[str, Any] = {}


class Series:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return X

    def __len__(self) -> int:
        return 4


def read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(4)
    array.flags.writeable = False
    return array


ASIDE = "copy them to the host first: t.cpu().numpy() of a torch tensor, cupy.asnumpy(a) of a CuPy array"
INTO = "found an object of {}, wanted an array; make one, {}, and pass it: the result is written into it"
NO_NUMBERS = "wanted an array; pass an array or a list of numbers"
KNOWN = "found a name the kernel does not declare, wanted one of ['bins', 'k', 'w', 'bin']"

RUN: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "on a device": (k.line, {"x": OnDevice(), "a": 1, "b": 1}, ValueError, "line.run: kernel 'line': found planes on a "
                    f"device, wanted planes on the host: this version launches nothing on a device; {ASIDE}"),
    "output list": (k.line, {"x": X, "a": 1, "b": 1, "out": [0] * 4}, TypeError, "line.run: output 'out': "
                    + INTO.format("builtins.list", "out = np.empty(4)")),
    "output series": (k.line, {"x": X, "a": 1, "b": 1, "out": Series()}, TypeError, "line.run: output 'out': "
                      + INTO.format(f"{__name__}.Series", "out = np.empty(4)")),
    "output number": (k.line, {"x": X, "a": 1, "b": 1, "out": 3.0}, BufferRefused, "line.run: output 'out': found the "
                      "number 3.0, which cannot receive a write, wanted a writable array; leave it out to have it "
                      "returned, or pass an array: out=np.empty(()) for one sample"),
    "state list": (k.until, {"limit": X, "x": [1.0] * 4, "terminated": BOOLS}, TypeError, "until.run: Mutable 'x': "
                   + INTO.format("builtins.list", "x = np.array(x, 'float64')")),
    "mask list": (k.until, {"limit": X, "x": X, "terminated": [0] * 4}, TypeError, "until.run: Terminated "
                  "'terminated': " + INTO.format("builtins.list", "terminated = np.array(terminated, 'bool')")),
    "read-only": (k.line, {"x": X, "a": 1, "b": 1, "out": read_only()}, BufferRefused, "line.run: output 'out': found "
                  "a read-only array, wanted a writable array; pass a writable array of your own; the result is in it"),
    "generator": (k.line, {"x": iter(()), "a": 1, "b": 1}, TypeError, "line.run: Scalar 'x': found an object of "
                  f"builtins.tuple_iterator, {NO_NUMBERS}"),
    "None": (k.line, {"x": None, "a": 1, "b": 1}, TypeError, f"line.run: Scalar 'x': found None, {NO_NUMBERS}"),
    "text": (k.line, {"x": "1", "a": 1, "b": 1}, TypeError,
             f"line.run: Scalar 'x': found an object of builtins.str, {NO_NUMBERS}"),
    "too small": (k.twice, {"u": [-6], "k": [0]}, BufferRefused, "twice.run: UInt32 'u': found the value -6 (int64), "
                  "wanted whole numbers from 0 to 4294967295 (uint32); correct it, or build the kernel with a "
                  "wider plane"),
    "a fraction": (k.twice, {"u": [6], "k": [0.5]}, BufferRefused, "twice.run: Int32 'k': found the value 0.5 "
                   "(float64), wanted whole numbers from -2147483648 to 2147483647 (int32); round it first"),
    "number for a table": (k.pick, {"i": [0], "t": 2.0}, TypeError, "pick.run: Table 't': found the number 2.0, wanted "
                           "an array of its cells; one cell is np.array([x])"),
    "number of finished": (k.until, {**ACTIVE, "finished_count": 0}, TypeError, "until.run: argument 'finished_count': "
                           "found the number 0, wanted an array; pass finished_count=np.zeros(1, np.uint32)"),
    "number of active": (k.active, {**ACTIVE, **MAP, "active_count": 4}, TypeError, "active.run: argument "
                         "'active_count': found the number 4, wanted an array; "
                         "pass active_count=np.array([n], np.uint32)"),
    "too many active": (k.active, {**ACTIVE, **MAP, "active_count": np.array([9], np.uint32)}, ValueError,
                        "active.run: argument 'active_count': found 9, wanted at most 4, the samples; "
                        "pass how many entries of active_map shall run"),
    "two axes for one": (k.histogram, {"k": [0], "w": [1.0], "bins": np.zeros((2, 5))}, LayoutError,
                         "histogram.run: Mutable 'bins': found shape (2, 5), wanted one axis, 'bin'; reshape it"),
    "close name": (k.histogram, {"k": [0], "w": [1.0], "bims": X}, ArgumentError,
                   f"histogram.run: argument 'bims': {KNOWN}; did you mean 'bins'?"),
    "close label": (k.histogram, {"k": [0], "w": [1.0], "bim": 4}, ArgumentError,
                    f"histogram.run: argument 'bim': {KNOWN}; did you mean 'bin'?"),
    "far name": (k.histogram, {"k": [0], "w": [1.0], "zzz": 4}, ArgumentError,
                 f"histogram.run: argument 'zzz': {KNOWN}; leave zzz= out"),
    "no samples": (k.total, {"x": X[:0]}, LayoutError, "total.run: planes: found 0 samples, wanted at least 1: the "
                   "kernel reduces over samples; pass at least one sample"),
    "lanes of another width": (k.weigh, {"x": np.zeros((2, 4)), "w": np.ones(3)}, LayoutError, "weigh.run: Scalar 'x': "
                               "found shape (2, 4), wanted shape (1, 3), (3,) or one that NumPy broadcasts to (1, 3); "
                               "declare the kernel with these extents"),
    "lanes turned": (k.weigh, {"x": np.zeros((3, 2)), "w": np.ones((2, 1))}, LayoutError, "weigh.run: Scalar 'x': "
                     "found shape (3, 2), wanted shape (2, 3), (6,) or one that NumPy broadcasts to (2, 3), as 'w' "
                     "tells; transpose it, or declare the kernel with these extents"),
    "one a row": (k.weigh, {"x": np.zeros((2, 3)), "w": np.ones(2)}, LayoutError, "weigh.run: Scalar 'w': found "
                  "shape (2,), wanted shape (2, 3), (6,) or one that NumPy broadcasts to (2, 3), as 'x' tells; "
                  "one value a row is w[:, None]"),
    "image": (k.line, {"x": np.zeros((480, 640)), "a": 1, "b": 1}, LayoutError, "line.run: Scalar 'x': found shape "
              "(480, 640), wanted shape (n,); pass np.ravel(x) and reshape the result, or declare the kernel with "
              'lane: Grid["row", "column":640]'),
}

BIND: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "no output": (k.line, {"x": X, "a": 1, "b": 1}, ArgumentError, "output 'out': found nothing, wanted a value for "
                  "it; pass out=np.empty(4)"),
    "no reduction": (k.total, {"x": X}, ArgumentError, "reduction 's': found nothing, wanted a value for it; "
                     "pass s=np.zeros(1)"),
    "no bins": (k.histogram, {"k": np.arange(3), "w": np.ones(3)}, ArgumentError, "Mutable 'bins': found nothing, "
                "wanted a value for it; pass bins=np.zeros(bin)"),
    "no state": (k.until, {"limit": X, "terminated": BOOLS}, ArgumentError, "Mutable 'x': found nothing, wanted a "
                 "value for it; it is updated from its previous value; pass x=np.zeros(4)"),
    "no mask": (k.until, {"limit": X, "x": X}, ArgumentError, "Terminated 'terminated': found nothing, wanted a value "
                "for it; pass terminated=np.zeros(4, bool)"),
    "no map": (k.active, {**ACTIVE, "active_count": np.array([4], np.uint32)}, ArgumentError, "argument 'active_map': "
               "found nothing, wanted a value for it; pass active_map=np.arange(4, dtype=np.int32)"),
    "no live count": (k.active, {**ACTIVE, **MAP}, ArgumentError, "argument 'active_count': found nothing, wanted a "
                      "value for it; pass active_count=np.array([4], np.uint32)"),
    "another dtype": (k.line, {"x": np.arange(4), "a": 1, "b": 1, "out": np.zeros(4)}, BufferRefused, "Scalar 'x': "
                      "found int64, wanted float64; convert it with x.astype('float64')"),
    "a list": (k.line, {"x": [0.0] * 4, "a": 1, "b": 1, "out": np.zeros(4)}, TypeError, "Scalar 'x': found an object "
               "of builtins.list, wanted an array; convert it with np.asarray(x, 'float64')"),
    "strided": (k.line, {"x": np.arange(8.0)[::2], "a": 1, "b": 1, "out": np.zeros(4)}, BufferRefused, "Scalar 'x': "
                "found strides (16,) for shape (4,), wanted a C-contiguous, aligned array; "
                "pass np.ascontiguousarray(x)"),
    "strided and broadcast": (k.weigh, {"x": np.ones((2, 3)), "w": np.arange(6.0)[::2], "out": np.zeros((2, 3))},
                              BufferRefused, "Scalar 'w': found strides (16,) for shape (3,), wanted a C-contiguous, "
                              "aligned array; pass np.ascontiguousarray(w)"),
}


def said(error: type[Exception], call: Callable[..., Any], *args: Any, **given: Any) -> str:
    with pytest.raises(error) as caught:
        call(*args, **given)
    assert issubclass(caught.type, error)
    return str(caught.value)


@pytest.mark.parametrize("case", RUN)
def test_run(case: str) -> None:
    kernel, given, error, text = RUN[case]
    assert said(error, eagle.deploy(kernel).run, **given) == text


@pytest.mark.parametrize("case", BIND)
def test_bind(case: str) -> None:
    kernel, given, error, text = BIND[case]
    assert said(error, eagle.deploy(kernel).bind, **given) == f"{kernel.name}.bind: {text}"


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("make", [lambda: X[:, None], lambda: X[None], lambda: np.matrix(X), lambda: [[v] for v in X]],
                         ids=["column", "row", "matrix", "nested list"])
def test_one_axis_too_many(make: Callable[[], Any]) -> None:
    x = make()
    line = eagle.deploy(k.line)
    assert said(LayoutError, line, x, 2.0, 0.0).endswith("wanted shape (n,); pass np.ravel(x)")
    assert line(np.ravel(x), 2.0, 0.0).tolist() == [0, 2, 4, 6]


@pytest.mark.filterwarnings("ignore::eagle.LayoutWarning")
@pytest.mark.parametrize(("kernel", "name", "plane"), [
    (k.first, "v", np.arange(12.0).reshape(4, 3).tolist()), (k.first, "v", np.arange(12.0).reshape(2, 2, 3)),
    (k.corner, "r", np.arange(12.0).reshape(3, 2, 2).tolist())], ids=str)
def test_samples_that_come_first_are_turned(kernel: Any, name: str, plane: Any) -> None:
    deployed = eagle.deploy(kernel)
    advice = said(LayoutError, deployed.run, **{name: plane}).rpartition("; ")[2].removeprefix("pass ")
    got = deployed.run(**{name: eval(advice, {"np": np, name: plane})})
    index = (..., 0) if kernel is k.first else (..., 0, 1)
    assert got.tolist() == np.asarray(plane)[index].ravel().tolist()


@pytest.mark.parametrize(("kernel", "name", "plane"), [(k.first, "v", np.arange(12.0).reshape(4, 3)),
                                                       (k.corner, "r", np.arange(12.0).reshape(3, 2, 2))], ids=str)
def test_a_layout_warning_says_how_to_be_rid_of_it(kernel: Any, name: str, plane: np.ndarray[Any, Any]) -> None:
    deployed = eagle.deploy(kernel)
    with pytest.warns(LayoutWarning) as caught:
        copied = deployed.run(**{name: plane})
    text, kind = str(caught[0].message), "Vector" if name == "v" else "Matrix"
    assert text.startswith(f"{kernel.name}.run: {kind} {name!r} of shape {plane.shape} is sample-major")
    for advice in (text[text.index("; pass ") + 7:text.index(", or keep")], text[text.rindex(": ") + 2:]):
        turned = eval(advice, {"np": np, name: plane})
        if turned.shape == plane.shape:
            turned[...] = plane
        assert deployed.run(**{name: turned}).tolist() == copied.tolist()


def test_a_matrix_that_reads_both_ways_names_both() -> None:
    text = said(LayoutError, eagle.deploy(k.corner).run, r=np.ones((2, 2, 2)))
    assert text.endswith("which reads as component-major with N = 2 and as sample-major with N = 2, wanted a shape "
                         'that says which axis holds the samples; pass layout="samples_last" or '
                         'layout="samples_first", or mark it: eagle.samples_last(r), eagle.samples_first(r)')


def test_only_float32_is_offered_to_build_in() -> None:
    for dtype, advice in ((np.float16, "Pass float64"), (np.float32, "Pass float64, or build in it: eagle.deploy(k, "
                                                                      "scalar_type='float32')")):
        WARNED.clear()
        with pytest.warns(PerformanceWarning, match=f"{re.escape(advice)}$"):
            eagle.deploy(k.line).run(x=X.astype(dtype), a=1.0, b=0.0)


def test_derivatives() -> None:
    gradient, one = eagle.deploy(k.affine_vjp), np.ones(3)
    assert said(ArgumentError, gradient, one, one, one) == (
        "affine_vjp(): arguments: found 3 without a name, wanted names only; a derivative takes names only: "
        "bar_y=..., x=..., z=...")
    got = gradient.run(x=one, z=2 * one, b=one, bar_y=one)  # b does not matter, and is a parameter of the primal
    assert {name: plane.tolist() for name, plane in got.items()} == {
        "bar_x": [2] * 3, "bar_z": [1] * 3, "bar_b": [1] * 3}
    assert "'q'" in said(ArgumentError, gradient.run, x=one, z=one, q=one, bar_y=one)
    assert said(TypeError, eagle.deploy, hawk.diff.vjp(k.affine)) == (
        "eagle.deploy: plugin: found the vjp of 'affine', wanted a hawk kernel; wrap it: "
        "hawk.Kernel('affine_vjp', hawk.diff.vjp(...))")


def test_deploy() -> None:
    def plain(x: float) -> float:
        return x

    for given in (plain, [plain]):
        assert said(TypeError, eagle.deploy, given).endswith("; decorate it with @hawk.kernel")
    assert said(ArgumentError, eagle.deploy, k.line, k.first) == (
        "eagle.deploy: arguments: found 2 without a name, wanted one kernel, or a list; "
        "pass a list, eagle.deploy([k1, k2]), and keywords by name")
    assert said(ValueError, eagle.deploy, [k.line, k.histogram]).endswith("; deploy them one by one")
    assert "hawk.artifact.build_bundle([kernel], folder" in said(ValueError, eagle.deploy, k.branches)
    assert said(ValueError, eagle.deploy, k.histogram, npartitions=3) == (
        "eagle.deploy: npartitions: found 3 for a cross_sample_write kernel on host_team, wanted 1: it writes cells of "
        "other samples and runs as one range; leave npartitions and partitions out")
    assert eagle.deploy is eagle.plan.auto and eagle.deploy.__name__ == eagle.deploy.__qualname__ == "deploy"


def test_a_bundle_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "nowhere")
    assert said(FileNotFoundError, eagle.load_bundle, path) == (
        f"eagle.load_bundle: {path!r}: found no such folder or file, wanted a bundle; pass its folder")


def test_a_bound_plan() -> None:
    keys, bins = np.array([0, 1, 0], np.int8), np.zeros(2)
    bound = eagle.deploy(k.histogram).bind(k=keys, w=np.ones(3), bins=bins)
    assert said(LayoutError, bound.rebind, bins=np.zeros(5)) == (
        "histogram.rebind: Mutable 'bins': found shape (5,), wanted shape (2,), as bound; "
        "make it with np.zeros((2,), 'float64')")
    assert said(ArgumentError, bound.clear) == (
        "histogram.clear: names: found none, wanted some of ['bins']; name what shall be zero")
    assert said(AttributeError, setattr, bound, "w", np.ones(3)) == (
        "BoundPlan: w: found an assignment, wanted no change; call rebind(w=...)")
    packed = bound.planes["k"]
    assert packed.dtype == np.int64 and packed.tolist() == [0, 1, 0] and bound.planes["bins"] is bins
    packed[:] = 1  # what a launch reads
    keys[:] = 0
    bound.launch()
    bound.rebind(w=np.full(3, 10.0)).launch()
    assert bins.tolist() == [0, 33] and bound.planes["k"] is packed


@pytest.mark.parametrize(("x", "w"), [
    ([[1, 2, 3], [4, 5, 6]], [1, 2, 3]), (np.ones((2, 3)), [[1], [2]]), (np.ones((2, 3)), np.arange(6.0)[::2]),
    (np.ones((2, 3)), np.arange(4.0)[::2][:, None]), (np.ones((3, 2)).T, (1.0, 2.0, 3.0)),
    (np.ones((2, 3)), np.float32([1, 2, 3]))], ids=str)
def test_lists_and_strided_arrays_are_broadcast(x: Any, w: Any) -> None:
    strided = [array for array in (x, w) if isinstance(array, np.ndarray) and not array.flags.c_contiguous]
    narrow = [array for array in (x, w) if isinstance(array, np.ndarray) and array.dtype == np.float32]
    out = np.zeros((2, 3))
    deployed = eagle.deploy(k.weigh)
    for call in (lambda: deployed(x, w), lambda: deployed.run(w=w, x=x, out=out)):
        WARNED.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = call()
        assert got.tolist() == (np.asarray(x, float) * np.asarray(w, float)).tolist()
        assert [one.category for one in caught] == [PerformanceWarning] * len(strided + narrow)
        assert all(one.filename == __file__ for one in caught)
    assert got is out


def test_what_an_auto_plan_shows() -> None:
    line, histogram = eagle.deploy(k.line), eagle.deploy(k.histogram)
    assert repr(line) == "AutoPlan('line', targets=['host'], arguments=['out', 'x', 'a', 'b'])"
    assert str(inspect.signature(line)) == "(x, a, b, *, out=None, device=None, layout=None)"
    assert str(inspect.signature(histogram)) == "(k, w, bins=None, bins_c=None, *, bin=None, device=None, layout=None)"
    assert str(inspect.signature(eagle.deploy(line.plugin))) == "(*, x, a, b, out=None, device=None, layout=None)"


@pytest.mark.parametrize("name", ["exec", "errors", "dtypes", "abi", "roles", "plan", "registry", "sidecar",
                                  "backends"])
def test_dir_shows_what_is_public(name: str) -> None:
    module = importlib.import_module(f"eagle.{name}")
    assert dir(module) == sorted(module.__all__)
    assert not {"annotations", "import_module", "os", "sys"} & set(dir(eagle)) and {*eagle.__all__} <= set(dir(eagle))
