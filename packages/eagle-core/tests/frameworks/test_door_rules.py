# SPDX-License-Identifier: Apache-2.0
"""Rules of the doors for arrays of other libraries: mixtures, what cannot be read, numbers, lifetimes."""

from __future__ import annotations

import ctypes
import functools
import gc
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import kernels
import libraries
import numpy as np
import plane_kernels
import producers
import pytest
from libraries import Library

import eagle
from eagle.errors import ArgumentError, BufferRefused, LayoutWarning, PerformanceWarning
from eagle.interop import BufferView, import_buffer

Array = np.ndarray[Any, Any]
A = np.random.default_rng(0).normal(size=1000)


@functools.cache
def deployed(kernel: Any) -> Any:
    return eagle.deploy(kernel)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="framework-missing: torch")


@pytest.fixture
def jnp() -> Iterator[Any]:
    jax = pytest.importorskip("jax", reason="framework-missing: jax")
    with jax.enable_x64(True):
        yield jax.numpy


def same(found: Any, wanted: Array) -> None:
    assert (found.dtype, found.shape, found.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


def refused(error: type[Exception], start: str, text: str, call: Callable[[], Any]) -> None:
    """The exact class, a message that begins with door and argument and has `text`, and leaves no view behind."""
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error
    assert re.match(re.escape(start), str(caught.value)), caught.value
    assert re.search(text, str(caught.value)), caught.value


def test_a_refused_write_says_what_to_do(lib: Library) -> None:
    """Every refusal ends with a next step."""
    into = deployed(kernels.into)
    bound = into.bind(x=A, y=np.zeros(1000), a=2.0)
    for array, _ in lib.unwritable(A):
        for door in (into.run, into, into.bind, bound.rebind):
            with pytest.raises(BufferRefused, match=r": output 'y': .*; .{8,}$"):
                door(x=A, y=array, a=2.0)


# ---- two libraries in one call ---------------------------------------------------------------------------------------


def test_torch_and_jax_in_one_call(torch: Any, jnp: Any) -> None:
    """Refused where a result would have to be of one of them; nothing has run."""
    mixed, k = deployed(kernels.mixed), np.ones(1000)
    x, y = jnp.asarray(A), torch.zeros(1000, dtype=torch.float64)
    for door, name in ((mixed.run, "mixed.run"), (mixed, "mixed()")):
        refused(TypeError, f"{name}: 'y' and 'x': ", "found arrays of torch and of jax, wanted arrays of one framework"
                "; ", lambda door=door: door(x=x, y=y, k=k, a=0.5))
    assert not y.any() and (k == 1.0).all()
    refused(TypeError, "sum_difference(): ", "'x' and 'y': found arrays of jax and of torch",
            lambda: deployed(kernels.sum_difference)(x, y))
    out = np.zeros(1000)
    assert mixed.run(x=x, y=y, k=k, out=out, a=0.5)["out"] is out  # none is left out
    same(y.numpy(), A * 0.5)
    same(out, A - 0.5)


def test_lists_and_numbers_beside_tensors(torch: Any, jnp: Any) -> None:
    """They follow the library of the arrays, in any order."""
    difference, three = deployed(kernels.sum_difference), np.arange(3.0)
    for kind, array in ((torch.Tensor, torch.arange(3.0, dtype=torch.float64)), (type(jnp.ones(1)), jnp.arange(3.0))):
        for plus, minus in (difference(array, [1, 2, 4]), difference(x=array, y=np.array([1.0, 2.0, 4.0]))):
            assert isinstance(plus, kind) and isinstance(minus, kind)
            same(np.asarray(plus), three + [1, 2, 4])
            same(np.asarray(minus), three - [1, 2, 4])
        turned = difference.run(x=[1.0, 2.0, 4.0], y=array)["out1"]
        assert isinstance(turned, kind)
        same(np.asarray(turned), np.array([1.0, 2.0, 4.0]) - three)
        one = difference(2.0, array[1])[1]
        assert isinstance(one, kind) and one.shape == () and one.item() == 1.0


def test_tensors_of_a_subclass_give_tensors(torch: Any) -> None:
    class Mine(torch.Tensor):  # type: ignore[misc, name-defined]
        pass

    for x in (torch.from_numpy(A.copy()).as_subclass(Mine),
              torch.nn.Parameter(torch.from_numpy(A.copy()), requires_grad=False)):
        result = deployed(kernels.scale)(x, 2.0, 1.0)
        assert isinstance(result, torch.Tensor)
        same(result.numpy(), 2.0 * A + 1.0)


# ---- tensors that autograd follows -----------------------------------------------------------------------------------


def test_tensors_that_require_grad(torch: Any) -> None:
    into, scale = deployed(kernels.into), deployed(kernels.scale)
    leaf = torch.from_numpy(A.copy()).requires_grad_()
    y = np.zeros(1000)
    for x in (leaf, leaf * 1.0, torch.nn.Parameter(torch.from_numpy(A.copy()))):
        for door, start in ((scale.run, "scale.run"), (scale, "scale()")):
            with torch.no_grad():
                refused(BufferRefused, f"{start}: Scalar 'x': ", r"requires grad.*; pass x\.detach\(\)$",
                        lambda door=door, x=x: door(x=x, a=2.0, b=1.0))
        refused(BufferRefused, "into.run: Scalar 'x': ", "requires grad", lambda x=x: into.run(x=x, y=y, a=2.0))
    assert not y.any()
    bound = into.bind(x=np.zeros(1000), y=y, a=2.0)
    for door, start in ((into.run, "into.run"), (into, "into()"), (into.bind, "into.bind"),
                        (bound.rebind, "into.rebind")):
        refused(BufferRefused, f"{start}: output 'y': ", r"requires grad.*; pass y\.detach\(\)$",
                lambda door=door: door(x=A, y=leaf, a=2.0))
    same(leaf.detach().numpy(), A)
    bound = into.bind(x=leaf, y=y, a=2.0)  # a launch returns nothing that would have to be followed
    bound.launch()
    same(y, A * 2)
    with torch.no_grad():
        leaf.mul_(-1.0)
    bound.launch()
    same(y, -A * 2)


# ---- what has no plain memory of the kernel's dtype ------------------------------------------------------------------

ODD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "conj": (lambda t: t.zeros(3, dtype=t.complex128).conj(), "conjugate bit"),
    "complex": (lambda t: t.zeros(3, dtype=t.complex128), "type code 5"),
    "neg": (lambda t: t.zeros(3, dtype=t.complex128).conj().imag, r"negative bit set.*resolve_neg\(\)"),
    "bfloat16": (lambda t: t.zeros(3, dtype=t.bfloat16), "found bfloat16, wanted float64"),
    "float8": (lambda t: t.zeros(3, dtype=t.float8_e4m3fn), "type code 10 of 8 bits"),
    "sparse": (lambda t: t.ones(3, dtype=t.float64).to_sparse(), "layout"),
    "meta": (lambda t: t.zeros(3, dtype=t.float64, device="meta"), "meta"),
    "zero tensor": (lambda t: t._efficientzerotensor((3,), dtype=t.float64), "null pointer"),
}


@pytest.mark.parametrize("odd", ODD)
def test_tensors_without_plain_memory(torch: Any, odd: str) -> None:
    make, text = ODD[odd]
    into, y = deployed(kernels.into), np.zeros(3)
    bound = into.bind(x=np.ones(3), y=y, a=2.0)
    for door, start in ((into.run, "into.run"), (into, "into()"), (into.bind, "into.bind"),
                        (bound.rebind, "into.rebind")):
        refused(BufferRefused, f"{start}: Scalar 'x': ", text, lambda door=door: door(x=make(torch), y=y, a=2.0))
        refused(BufferRefused, f"{start}: output 'y': ", text,
                lambda door=door: door(x=np.ones(3), y=make(torch), a=2.0))
    assert not y.any()


def test_bfloat16_of_jax(jnp: Any) -> None:
    refused(BufferRefused, "scale(): Scalar 'x': ", "found bfloat16, wanted float64",
            lambda: deployed(kernels.scale)(jnp.zeros(3, jnp.bfloat16), 2.0, 1.0))


def test_a_value_that_jax_traces(jnp: Any) -> None:
    """It has no elements: refused by the name of the plane."""
    import jax

    with pytest.raises((TypeError, BufferRefused), match=r"^scale\(\): Scalar 'x': "):
        jax.jit(lambda x: deployed(kernels.scale)(x, 2.0, 1.0))(jnp.ones(3))


def test_float32_of_jax_without_its_x64(jnp: Any) -> None:
    """Converted with a warning at a call, refused at bind."""
    import jax

    scale, x = deployed(kernels.scale), jnp.asarray(A[:5].astype(np.float32))
    with jax.enable_x64(False):
        for call in (scale.run, scale):
            with pytest.warns(PerformanceWarning, match="Scalar 'x' is float32; it is converted to float64"):
                result = call(x=x, a=2.0, b=1.0)
            assert isinstance(result, jax.Array)
            same(np.asarray(result), 2.0 * A[:5].astype(np.float32).astype(np.float64) + 1.0)
        refused(BufferRefused, "into.bind: Scalar 'x': ", "found float32, wanted float64; ",
                lambda: deployed(kernels.into).bind(x=x, y=np.zeros(5), a=2.0))


# ---- other memory than the host's, and other memory than it seems ----------------------------------------------------


@pytest.mark.parametrize("device", [2, 8, 10])
@pytest.mark.parametrize("view", [False, True], ids=["object", "view"])
def test_arrays_of_a_device(device: int, view: bool) -> None:
    """An array is an array wherever it is: what a plan of the host refuses about it is its memory."""
    host, y = deployed(kernels.into).select({}), np.zeros(3)
    bound = host.bind(x=np.ones(3), y=y, a=2.0)
    for name, door in (("run", host.run), ("bind", host.bind), ("rebind", bound.rebind)):
        for plane, role in (("x", "Scalar"), ("y", "output")):
            array: Any = producers.Producer(np.ones(3), device=(device, 0))
            given = {"x": np.ones(3), "y": y, "a": 2.0, plane: import_buffer(array) if view else array}
            refused(BufferRefused, f"into.{name}: {role} '{plane}': ", "on a device, wanted an array in host memory; ",
                    lambda door=door, given=given: door(**given))
    assert not y.any()


@pytest.mark.usefixtures("no_tensor_is_left")
def test_page_locked_memory_is_the_hosts() -> None:
    pinned = producers.Producer(A, device=(3, 0))
    same(deployed(kernels.scale)(pinned, 2.0, 1.0), 2.0 * A + 1.0)


def test_a_producer_that_raises() -> None:
    class Raising(producers.Producer):
        def capsule(self) -> Any:
            raise RuntimeError("not today")

    into, y = deployed(kernels.into), np.zeros(1000)
    for name, door in (("into.run", into.run), ("into()", into), ("into.bind", into.bind)):
        refused(BufferRefused, f"{name}: Scalar 'x': ", "not today", lambda door=door: door(x=Raising(A), y=y, a=2.0))
        refused(BufferRefused, f"{name}: output 'y': ", "not today", lambda door=door: door(x=A, y=Raising(y), a=2.0))
    assert not y.any()


def test_two_arrays_over_the_same_memory(lib: Library) -> None:
    """Seen whatever libraries they are of: the very same is read before it is written, a shifted one is refused."""
    if not lib.shares or not lib.writes:
        own = lib.new(A)
        wrong = np.frombuffer((ctypes.c_double * 1000).from_address(lib.address(own) + 8))
        for door in (deployed(kernels.into).run, deployed(kernels.into).bind):
            with pytest.raises(BufferRefused, match="'y' and .*'x': found arrays that share memory"):
                door(x=own, y=wrong, a=2.0)
        return
    own = A.copy()
    x = lib.over(own)
    assert deployed(kernels.into).run(x=own, y=x, a=2.0) is x
    same(own, A * 2)
    deployed(kernels.into).bind(x=x, y=own, a=2.0).launch()
    same(own, A * 4)
    i = np.arange(1000)[::-1].copy()
    with pytest.warns(PerformanceWarning, match="'x' is also an output; the kernel reads a copy"):
        deployed(kernels.neighbour).run(x=x, i=i, y=own)
    same(own, A[::-1] * 4)
    refused(BufferRefused, "neighbour.bind: 'x': ", "also an output",
            lambda: deployed(kernels.neighbour).bind(x=x, i=i, y=own))
    for x, y in ((lib.over(own[1:]), own[:-1]), (own[1:], lib.over(own[:-1])), (lib.over(own[1:]), lib.over(own[:-1]))):
        for door in (deployed(kernels.into).run, deployed(kernels.into).bind):
            with pytest.raises(BufferRefused, match="'y' and .*'x': found arrays that share memory"):
                door(x=x, y=y, a=2.0)
    same(own, A[::-1] * 4)


def test_reductions_masks_and_trees_come_back(lib: Library) -> None:
    """A reduction is an array of one number of the caller's library; a mask is written where it is given."""
    powers = 2.0 ** np.arange(8)
    total = deployed(kernels.total).run(x=lib.new(powers))
    assert isinstance(total, lib.made)
    same(np.asarray(total), np.array([255.0]))
    x, done = powers.copy(), np.array([False, True] * 4)
    given = {"x": x, "terminated": done} if not lib.writes else {"x": lib.over(x), "terminated": lib.over(done)}
    assert deployed(kernels.double_until).run(limit=lib.new(np.full(8, 20.0)), **given) is given["x"]
    same(x, np.where([False, True] * 4, powers, powers * 2))
    assert done.tolist() == [False, True, False, True, True, True, True, True]
    plus, minus = deployed(kernels.listed)(lib.new(powers), lib.new(powers[::-1].copy()))
    assert isinstance(plus, lib.made) and isinstance(minus, lib.made)
    same(np.asarray(plus), powers + powers[::-1])
    same(np.asarray(minus), powers - powers[::-1])


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in libraries.KINDS if name != "warp"])  # which has no arrays of rank 0
def test_an_array_without_axes_is_a_number(name: str) -> None:
    """As a Param of any dtype that holds the value, at run, call and bind."""
    lib = libraries.library(name)
    with lib.around():
        half = lib.new(np.array(0.5))
        same(deployed(kernels.scale)(A, half, lib.new(np.array(3, np.int32))), A * 0.5 + 3.0)
        y = np.zeros(1000)
        deployed(kernels.into).bind(x=A, y=y, a=half).launch()
        same(y, A * 0.5)
        n, u = lib.new(np.array(-3)), lib.new(np.array(2, np.uint8))
        same(deployed(plane_kernels.int_params)(A, n, u), A * -3.0 + 2.0)
        refused(BufferRefused, "scale.run: Param 'a': ", "wanted one number",
                lambda: deployed(kernels.scale).run(x=A, a=lib.new(np.array([0.5])), b=1.0))


def test_tensors_that_are_no_number_of_a_param(torch: Any, jnp: Any) -> None:
    """What a scalar of NumPy is refused for, a tensor is refused for."""
    scale, numbers = deployed(kernels.scale), deployed(plane_kernels.int_params)
    for odd in (np.bool_(True), torch.tensor(True), jnp.bool_(True), np.complex128(1j)):
        refused(TypeError, "scale(): Param 'a': ", "wanted a number", lambda odd=odd: scale(A, odd, 1.0))
    for odd in (torch.tensor(1j), jnp.complex128(1j)):
        refused(BufferRefused, "scale(): Param 'a': ", "wanted a float", lambda odd=odd: scale(A, odd, 1.0))
    for odd in (np.float64(2.5), torch.tensor(2.5), jnp.float64(2.5)):
        refused(ArgumentError, "int_params(): Param 'n': ", "wanted an integer",
                lambda odd=odd: numbers(x=A, n=odd, u=1))
    for odd in (np.bool_(True), torch.tensor(True)):
        refused(TypeError, "int_params(): Param 'n': ", "wanted a", lambda odd=odd: numbers(x=A, n=odd, u=1))
    refused(BufferRefused, "scale(): Param 'a': ", "requires grad",
            lambda: scale(A, torch.tensor(1.0, requires_grad=True), 1.0))


def test_whole_tensors_are_integers(torch: Any, jnp: Any) -> None:
    """2.0 is 2, of any library."""
    for two in (np.float64(2.0), torch.tensor(2.0), jnp.float64(2.0)):
        same(deployed(plane_kernels.int_params)(A, two, 1), A * 2.0 + 1.0)


# ---- memory that moves -----------------------------------------------------------------------------------------------


def moved_in(plane: str) -> str:
    return rf"^into\.launch: \w+ '{plane}': found an array that moved, .*; call rebind\({plane}=\.\.\.\)$"


def test_a_parameter_given_other_storage(torch: Any) -> None:
    x, y = torch.nn.Parameter(torch.from_numpy(A.copy())), np.zeros(1000)
    bound = deployed(kernels.into).bind(x=x, y=y, a=2.0)
    x.data = torch.from_numpy(-A)
    with pytest.raises(BufferRefused, match=moved_in("x")):
        bound.launch()
    assert not y.any()
    bound.rebind(x=x).launch()
    same(y, -A * 2)


def test_an_output_given_other_storage(torch: Any) -> None:
    y = torch.zeros(1000, dtype=torch.float64)
    bound = deployed(kernels.into).bind(x=A, y=y, a=2.0)
    y.resize_(100_000)
    with pytest.raises(BufferRefused, match=moved_in("y")):
        bound.launch()
    y.set_(torch.zeros(1000, dtype=torch.float64))
    bound.rebind(y=y).launch()
    same(y.numpy(), A * 2)


@pytest.mark.parametrize("written", [False, True])
def test_an_array_resized_under_a_view(written: bool) -> None:
    own, other = np.ones(1000), np.zeros(1000)
    view = import_buffer(own)
    bound = deployed(kernels.into).bind(x=other if written else view, y=view if written else other, a=2.0)
    own.resize(1_000_000, refcheck=False)
    own[:] = 7.0
    with pytest.raises(BufferRefused, match=moved_in("y" if written else "x")):
        bound.launch()
    assert (own == 7.0).all() and not other.any()


@pytest.mark.usefixtures("no_tensor_is_left")
@pytest.mark.parametrize("kind", [producers.Producer, producers.OldProducer])
def test_a_producer_of_dlpack_alone_that_moves(kind: Any) -> None:
    first, second, y = A.copy(), -A, np.zeros(1000)
    x = kind(first)
    bound = deployed(kernels.into).bind(x=x, y=y, a=2.0)
    bound.launch()
    x.facts = (second.ctypes.data, *x.facts[1:])
    with pytest.raises(BufferRefused, match=moved_in("x")):
        bound.launch()
    same(y, A * 2)
    bound.rebind(x=x).launch()
    same(y, second * 2)


def test_a_bound_output_that_autograd_follows_later(torch: Any) -> None:
    y = torch.zeros(1000, dtype=torch.float64)
    bound = deployed(kernels.into).bind(x=A, y=y, a=2.0)
    y.requires_grad_()
    with pytest.raises(BufferRefused, match=moved_in("y")):
        bound.launch()
    assert not y.any()
    y.requires_grad_(False)
    bound.launch()
    same(y.numpy(), A * 2)


def test_an_array_of_jax_that_was_deleted(jnp: Any) -> None:
    """Its elements are nobody's from then on: refused by name, not read."""
    x, y = jnp.asarray(A), np.zeros(1000)
    bound = deployed(kernels.into).bind(x=x, y=y, a=2.0)
    x.delete()
    with pytest.raises(BufferRefused, match=r"^into\.launch: Scalar 'x': "):
        bound.launch()
    assert not y.any()


# ---- how long arrays live --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rebind", [False, True])
def test_a_bound_plan_keeps_its_arrays(lib: Library, rebind: bool) -> None:
    owner = lib if lib.writes else Library()
    own = A.copy()
    x, y = lib.over(own) if lib.shares else lib.new(own), owner.new(np.zeros(1000))
    bound = deployed(kernels.into).bind(x=np.zeros(1000), y=np.zeros(1000), a=2.0).rebind(x=x, y=y) if rebind else \
        deployed(kernels.into).bind(x=x, y=y, a=2.0)
    gone = weakref.ref(own if lib.shares else x)
    del x, y, own
    gc.collect()
    others = [np.full(1000, np.nan) for _ in range(64)]  # they would take what was freed
    bound.launch()
    same(owner.read(bound.planes["y"]), A * 2)
    assert len(others) == 64 and gone() is not None
    bound.rebind(x=np.zeros(1000))
    gc.collect()
    assert gone() is None  # and no longer than that
    bound.launch()
    same(owner.read(bound.planes["y"]), np.zeros(1000))


def test_a_result_lives_by_itself(lib: Library) -> None:
    for n in (1, 1000):
        x = lib.new(A[:n])
        result = deployed(kernels.scale)(x, 2.0, 1.0)
        del x
        gc.collect()
        others = [np.full(n, np.nan) for _ in range(64)]
        same(np.asarray(result), 2.0 * A[:n] + 1.0)
        assert len(others) == 64


@pytest.mark.usefixtures("no_tensor_is_left")
@pytest.mark.parametrize("name", ["producer", "old producer"])
def test_deleters_run_once(name: str) -> None:
    """After a call; with the bound plan or its rebind; after a refusal. `no_tensor_is_left` sees a second run."""
    lib: Any = libraries.library(name)
    into, y = deployed(kernels.into), np.zeros(1000)
    for call in (into.run, into, lambda **planes: into.run(layout="samples_last", **planes)):
        x = lib.new(A)
        call(x=x, y=y, a=2.0)
        assert x.made == x.deleted >= 1
    result = deployed(kernels.scale)(lib.new(A), 2.0, 1.0)
    assert result[0] == 2.0 * A[0] + 1.0
    first, second = lib.new(A), lib.new(-A)
    bound = into.bind(x=first, y=y, a=2.0)
    bound.launch()
    assert first.made - first.deleted == 1
    bound.rebind(x=second).launch()
    same(y, -A * 2)
    assert first.made == first.deleted and second.made - second.deleted == 1
    with pytest.raises(BufferRefused):
        bound.rebind(x=lib.new(A.astype(np.float32)))
    bound.rebind(a=3.0).launch()
    same(y, -A * 3)
    assert second.made - second.deleted == 1
    del bound
    gc.collect()
    assert second.made == second.deleted


@pytest.mark.usefixtures("no_tensor_is_left")
@pytest.mark.parametrize("name", ["producer", "old producer"])
def test_deleters_run_once_after_a_refusal(name: str) -> None:
    lib: Any = libraries.library(name)
    into, y, shared = deployed(kernels.into), np.zeros(1000), A.copy()
    bound = into.bind(x=A, y=y, a=2.0)
    failing: list[tuple[Any, dict[str, Any]]] = [
        (lib.new(A), {"y": np.zeros(7)}), (lib.new(A), {"y": np.zeros(1000, np.float32)}),
        (lib.new(A), {"a": "two"}), (lib.new(A), {"a": [1.0, 2.0]}), (lib.new(A[:0].reshape(0, 3)), {}),
        (lib.new(A > 0), {}),
        (lib.over(shared[1:]), {"y": shared[:-1]}), (lib.new(A), {"z": 1.0}), (lib.new(A.reshape(10, 100)), {}),
        (lib.new(A), {"y": lib.read_only(A)}),
    ]
    for x, odd in failing:
        for call in (into.run, into, into.bind, bound.rebind):
            with pytest.raises((ValueError, TypeError)):
                call(**{"x": x, "y": y, "a": 2.0, **odd})
            gc.collect()
            assert x.made == x.deleted
            assert all(value.made == value.deleted for value in odd.values() if isinstance(value, producers.Producer))
    assert not y.any()


def test_a_weak_reference_to_a_view_ends_with_the_call() -> None:
    own = np.ones(1000)
    view: BufferView = import_buffer(own)
    gone = weakref.ref(view)
    deployed(kernels.scale)(view, 2.0, 1.0)
    del view
    gc.collect()
    assert gone() is None


# ---- warnings --------------------------------------------------------------------------------------------------------


def test_an_error_of_every_copy() -> None:
    """A line that has warned raises once the caller makes errors of such warnings."""
    advance, v = deployed(kernels.advance), np.ones((7, 3))

    def copies() -> Any:
        return advance.run(v=v, x=np.ones((3, 7)), dt=1.0)

    with pytest.warns(LayoutWarning, match="'v'"):
        copies()
    with warnings.catch_warnings(), pytest.raises(LayoutWarning, match="'v'"):
        warnings.filterwarnings("error", category=LayoutWarning)
        copies()
