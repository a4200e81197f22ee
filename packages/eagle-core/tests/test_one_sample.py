# SPDX-License-Identifier: Apache-2.0
"""One sample: given without an axis of samples, run as a batch of one, and returned without that axis."""

from __future__ import annotations

from typing import Any

import advice_kernels
import kernels
import layout_kernels
import numpy as np
import pytest

import eagle
from eagle import BufferRefused, LayoutError

M, V = np.arange(6.0).reshape(2, 3), np.array([3.0, 4.0])


@pytest.mark.smoke
@pytest.mark.parametrize("x", [2.0, 2, np.float64(2), np.float32(2), np.int8(2), np.array(2.0), np.array(2)], ids=repr)
def test_a_number_is_one_sample(x: Any) -> None:
    scale = eagle.deploy(kernels.scale)
    for got in (scale.run(x=x, a=3.0, b=1.0), scale(x, 3.0, 1.0), scale(x, a=3.0, b=1.0)):
        assert type(got) is np.float64 and got == 7.0 and got.shape == ()
    narrow = eagle.deploy(kernels.scale, scalar_type="float32").run(x=2.0, a=3.0, b=1.0)
    assert type(narrow) is np.float32 and narrow == 7.0
    assert type(eagle.deploy(kernels.kept).run(i=5)) is np.int64


@pytest.mark.parametrize("m", [M, M.ravel(), M.tolist(), M.ravel().tolist()], ids=["(R, C)", "(R*C,)", "lists", "list"])
@pytest.mark.parametrize("v", [V, V.tolist(), np.array([9.0, 3.0, 9.0, 4.0])[1::2]], ids=["array", "list", "strided"])
@pytest.mark.filterwarnings("ignore::eagle.PerformanceWarning")
def test_heads(m: Any, v: Any) -> None:
    turn = eagle.deploy(layout_kernels.turn)
    got = turn.run(m=m, v=v, a=2.0)
    assert {name: plane.shape for name, plane in got.items()} == {"scaled": (2, 3), "moved": (2,), "norm": ()}
    assert (got["scaled"] == 2.0 * M).all() and (got["moved"] == 2.0 * V).all() and got["norm"] == 25.0
    assert type(got["norm"]) is np.float64
    batch = turn.run(m=M.reshape(6, 1), v=V.reshape(2, 1), a=2.0)
    assert {name: plane.shape for name, plane in batch.items()} == {"scaled": (6, 1), "moved": (2, 1), "norm": (1,)}


def test_outputs_that_are_given() -> None:
    turn = eagle.deploy(layout_kernels.turn)
    for shape in ((2, 3), (6,)):
        scaled, moved, norm = np.zeros(shape), np.zeros(2), np.zeros(())
        got = turn.run(m=M, v=V, a=2.0, scaled=scaled, moved=moved, norm=norm)
        assert got["scaled"] is scaled and got["moved"] is moved and got["norm"] is norm
        assert (scaled.ravel() == 2.0 * M.ravel()).all() and (moved == 2.0 * V).all() and norm == 25.0
    for number in (1.0, np.float64(1), 1j):
        with pytest.raises(BufferRefused, match="'norm': found the number .*, which cannot receive a write"):
            turn.run(m=M, v=V, a=2.0, norm=number)


def test_batches_stay_batches() -> None:
    """A shape that is both is a batch."""
    assert eagle.deploy(kernels.scale).run(x=np.ones(1), a=1.0, b=0.0).shape == (1,)
    column = eagle.deploy(layout_kernels.column)
    assert column.run(m=np.ones((3, 1)), a=2.0).shape == (1,)
    assert column.run(m=np.ones(3), a=2.0).shape == ()
    with pytest.raises(LayoutError, match="reads as component-major with N = 3"):
        column.run(m=np.ones((3, 3)), a=2.0)
    with pytest.raises(LayoutError, match=r"'v': found shape \(3,\)"):
        eagle.deploy(layout_kernels.turn).run(m=M, v=np.ones(3), a=1.0)
    for shape in ((3, 2), (1, 6, 1), (2, 3, 1, 1), ()):  # as many elements do not make a matrix
        with pytest.raises(LayoutError, match="Matrix 'm': found shape"):
            eagle.deploy(layout_kernels.turn).run(m=np.ones(shape), v=V, a=1.0)


@pytest.mark.parametrize(("given", "facts"), [
    ({"x": 1.0, "v": np.ones((3, 1000))}, ["'x' is one sample (shape ()) but 'v' is a batch of 1000 (shape (3, 1000))",
                                           "Param", "Table", "np.full(1000, x)"]),
    ({"x": np.ones(1), "v": np.ones(3)}, ["'v' is one sample (shape (3,)) but 'x' is a batch of 1 (shape (1,))",
                                          "np.repeat(v[..., None], 1, axis=-1)"]),
    ({"x": 1.0, "v": np.ones(3), "moved": np.zeros((3, 1))}, ["is one sample", "but 'moved' is a batch of 1"]),
])
def test_one_sample_beside_a_batch(given: dict[str, Any], facts: list[str]) -> None:
    for door in (eagle.deploy(kernels.named).run, eagle.deploy(kernels.named)):
        with pytest.raises(LayoutError) as caught:
            door(a=1.0, **given)
        assert all(fact in str(caught.value) for fact in facts), caught.value


@pytest.mark.smoke
def test_bound_in_place() -> None:
    v, x, y, limit, done = np.array([1.0, 2.0]), np.zeros(2), np.zeros(2), np.array(2.5), np.array(False)
    approach = eagle.deploy(layout_kernels.approach)
    bound = approach.bind(v=v, x=x, y=y, limit=limit, terminated=done)
    assert bound.n == 1 and bound.planes["x"] is x and bound.planes["terminated"] is done
    for step in range(1, 6):
        bound.launch()
        assert x.tolist() == [min(step, 3.0), 2.0 * min(step, 3.0)] and done == (step >= 3)
    assert y.tolist() == [2.0, 4.0]
    bound.clear("x")
    done[()] = False
    v[0] = 10.0
    bound.launch()
    assert x.tolist() == [10.0, 2.0] and done
    other = np.zeros(2)
    done[()] = False
    bound.rebind(x=other).launch()
    assert other.tolist() == [10.0, 2.0]
    with pytest.raises(LayoutError, match=r"'x' is a batch of 1"):
        bound.rebind(x=np.zeros((2, 1)))


def test_numbers_are_no_memory_to_bind() -> None:
    scale = eagle.deploy(kernels.scale)
    for name, planes in (("Scalar 'x'", {"x": 2.0, "out": np.zeros(())}),
                         ("output 'out'", {"x": np.ones(()), "out": 2.0})):
        with pytest.raises(TypeError, match=rf"scale.bind: {name}: found the number 2.0.*np.array\(2.0\)"):
            scale.bind(a=1.0, b=0.0, **planes)


def test_a_mask_without_axes() -> None:
    until = eagle.deploy(kernels.double_until)
    x, done = np.array(3.0), np.array(False)
    until.run(x=x, limit=5.0, terminated=done)
    assert x == 6.0 and done
    until.run(x=x, limit=5.0, terminated=done)
    assert x == 6.0
    x = np.array(3.0)
    assert until(x=x, limit=7.0) is x and x == 6.0  # without a mask
    with pytest.raises(BufferRefused, match="Terminated 'terminated'.*which cannot receive a write"):
        until.run(x=x, limit=5.0, terminated=False)


def test_reductions_and_tables_keep_their_shapes() -> None:
    got = eagle.deploy(layout_kernels.sums).run(v=V, x=7.0)
    assert got["s"].tolist() == [7.0] and got["t"].tolist() == [3.0, 4.0]
    s, t = np.zeros(1), np.zeros(2)
    eagle.deploy(layout_kernels.sums)(v=V, x=7.0, s=s, t=t)
    assert s.tolist() == [7.0] and t.tolist() == [3.0, 4.0]
    bound = eagle.deploy(layout_kernels.sums).bind(v=V, x=np.array(5.0), s=s, t=t)
    bound.launch()
    assert s.tolist() == [5.0] and t.tolist() == [3.0, 4.0]
    got = eagle.deploy(layout_kernels.shifted).run(x=1.0, t=np.array([10.0, 20.0, 30.0]))
    assert type(got) is np.float64 and got == 21.0


def test_trees_of_returns() -> None:
    plus, minus = eagle.deploy(kernels.sum_difference)(5.0, 3)
    assert (plus, minus) == (8.0, 2.0) and type(plus) is np.float64
    tree = eagle.deploy(kernels.named)(1.0, [1.0, 2.0, 3.0], 2.0)
    assert tree["moved"].tolist() == [2.0, 4.0, 6.0] and type(tree["shifted"]) is np.float64


@pytest.mark.parametrize(("x", "error"), [
    ("1", TypeError), (True, BufferRefused), (1j, TypeError), (2**53 + 1, BufferRefused), (10**400, BufferRefused),
    (None, TypeError), (np.bool_(True), BufferRefused), (np.datetime64("2020"), BufferRefused)], ids=repr)
def test_what_is_no_number_of_the_kernel(x: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Scalar 'x': found"):
        eagle.deploy(kernels.scale).run(x=x, a=1.0, b=0.0)


def test_whole_numbers_for_whole_planes() -> None:
    kept = eagle.deploy(kernels.kept)
    assert kept.run(i=2.0) == 2 and kept.run(i=-(2**63)) == -(2**63)
    for bad in (2.7, 2**63, float("nan"), True):
        with pytest.raises(BufferRefused, match="Index 'i': found"):
            kept.run(i=bad)


def test_numbers_that_the_way_in_c_leaves_to_the_careful_one() -> None:
    """Behind a good call of the same form, so that the exact case is tried first."""
    narrow = eagle.deploy(kernels.scale, scalar_type="float32")
    assert narrow.run(x=2**24, a=1.0, b=0.0) == 2.0**24 == narrow(2**24, 1.0, 0.0)
    into = eagle.deploy(kernels.into)
    y = np.array(0.0)
    assert into.run(x=1.0, y=y, a=2.0) is y and y == 2.0
    twice = eagle.deploy(advice_kernels.twice)
    assert twice.run(u=7, k=-3) == twice.run(u=np.array(7, np.uint32), k=np.array(-3, np.int32))
    until = eagle.deploy(kernels.double_until)
    until.run(x=np.array(1.0), limit=5.0, terminated=np.array(False))
    for _ in range(2):
        with pytest.raises(BufferRefused, match="'x': found the value 16777217"):
            narrow.run(x=2**24 + 1, a=1.0, b=0.0)
        with pytest.raises(BufferRefused, match="'y': found the number 2.0, which cannot receive a write"):
            into.run(x=1.0, y=2.0, a=2.0)
        with pytest.raises(BufferRefused, match="UInt32 'u': found the value -1"):
            twice.run(u=-1, k=0)
        with pytest.raises(BufferRefused, match="'terminated': found the number 0, which cannot receive a write, "
                                                "wanted a writable array; pass an array: terminated=np.zeros"):
            until.run(x=np.array(1.0), limit=5.0, terminated=0)
        with pytest.raises(LayoutError, match=r"'m': found shape \(2, 4\)"):
            eagle.deploy(layout_kernels.turn).run(m=np.ones((2, 4)), v=V, a=1.0)


@pytest.mark.parametrize(("door", "kernel", "given", "missing"), [
    ("call", kernels.advance, {"v": np.ones(3), "dt": 0.5}, "x"),
    ("bind", kernels.scale, {"x": np.array(2.0), "a": 1.0, "b": 0.0}, "out"),
    ("bind", layout_kernels.column, {"m": np.ones(3), "a": 1.0}, "out"),
    ("run", kernels.double_until, {"x": np.array(2.0), "limit": 1.0}, "terminated")])
def test_the_advice_for_one_sample_works(door: str, kernel: Any, given: dict[str, Any], missing: str) -> None:
    plan = eagle.deploy(kernel)
    act = {"call": plan, "run": plan.run, "bind": plan.bind}[door]
    with pytest.raises(ValueError, match=f"{missing!r}: found nothing") as caught:
        act(**given)
    advice = str(caught.value).rpartition("; pass ")[2].removeprefix(f"{missing}=")
    act(**given, **{missing: eval(advice, {"np": np})})


@pytest.mark.parametrize("parts", [1, 3])
def test_the_same_bits_as_in_a_batch(parts: int) -> None:
    rng = np.random.default_rng(0)
    m, v = rng.normal(size=(2, 3, 50)), rng.normal(size=(2, 50))
    turn = eagle.deploy(layout_kernels.turn, npartitions=parts)
    batch = turn.run(m=m, v=v, a=0.3)
    for i in range(50):
        one = turn.run(m=np.ascontiguousarray(m[..., i]), v=np.ascontiguousarray(v[:, i]), a=0.3)
        assert one["scaled"].tobytes() == batch["scaled"].reshape(2, 3, 50)[..., i].tobytes()
        assert one["moved"].tobytes() == batch["moved"][:, i].tobytes() and one["norm"] == batch["norm"][i]
