# SPDX-License-Identifier: Apache-2.0
"""``eagle.copy`` and ``eagle.pinned``, on the host and on the devices of fake backends."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from producers import OldProducer, Producer

import eagle
from eagle import BackendUnavailable, BufferRefused, LayoutError, _core
from eagle.interop import import_buffer
from eagle.nodes import Node

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site

pytestmark = pytest.mark.smoke

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
          "bool")


# ---- copies on the host ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (7,), (2, 3, 4), (300, 300)])
def test_a_call_copies(shape: tuple[int, ...], dtype: str) -> None:
    src = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    into = np.zeros(shape, dtype)
    node = eagle.copy(src, into=into)
    assert not into.any()
    assert node() is None  # type: ignore[func-returns-value]
    assert into.tobytes() == src.tobytes()
    src[...] = 0
    node()
    assert not into.any()


def test_the_node() -> None:
    src, into = np.ones((2, 3)), np.zeros((2, 3))
    node = eagle.copy(src, into=into, name="keep")
    assert isinstance(node, Node)
    assert (node.kind, node.name, node.label, eagle.copy(src, into=into).label) == ("copy", "keep", "keep", "copy")
    assert [plane[::2] for plane in (*node.reads, *node.writes)] == [("src", "per_sample"), ("dst", "out")]
    assert node.reads[0].array is src and node.writes[0].array is into
    assert repr(node) == "<Node copy 'keep': reads src (2, 3), writes dst (2, 3)>"


@given(size=st.integers(0, 60), src=st.integers(0, 60), into=st.integers(0, 60), dtype=st.sampled_from(DTYPES))
def test_overlapping_ranges_are_as_numpys(size: int, src: int, into: int, dtype: str) -> None:
    memory = (np.arange(120) % 251).astype(dtype)
    expected = memory.copy()
    expected[into:into + size] = expected[src:src + size].copy()
    eagle.copy(memory[src:src + size], into=memory[into:into + size])()
    assert memory.tobytes() == expected.tobytes()


def test_the_example_of_overlap() -> None:
    x = np.arange(6.0)
    eagle.copy(x[:4], into=x[2:])()
    assert x.tolist() == [0.0, 1.0, 0.0, 1.0, 2.0, 3.0]
    long = np.arange(100_001.0)
    eagle.copy(long[1:], into=long[:-1])()
    assert np.array_equal(long[:-1], np.arange(1.0, 100_001.0))


@pytest.mark.parametrize("shape", [(), (0,), (4,)])
def test_an_array_into_itself_keeps_its_edges(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 3.0)
    node = eagle.copy(x, into=x)
    node()
    assert (x == 3.0).all() and node.reads[0].array is node.writes[0].array is x


def test_arrays_of_any_library() -> None:
    src, into = np.arange(3.0), np.zeros(3)
    eagle.copy(Producer(src), into=into)()
    assert into.tolist() == [0.0, 1.0, 2.0]
    eagle.copy(import_buffer(src + 1), into=Producer(into))()
    assert into.tolist() == [1.0, 2.0, 3.0]
    eagle.copy(src, into=import_buffer(OldProducer(into), assume_writable=True))()
    assert into.tolist() == [0.0, 1.0, 2.0]


def test_a_node_keeps_its_arrays() -> None:
    node = eagle.copy(np.arange(1000.0), into=np.zeros(1000))
    gc.collect()
    node()
    assert node.writes[0].array.tolist() == list(range(1000))


def test_copies_in_several_threads() -> None:
    """Distinct arrays are copied at once, from one that all read; the GIL is released."""
    src, into = np.arange(1 << 16), np.zeros((4, 1 << 16), np.int64)
    nodes = [eagle.copy(src, into=row) for row in into]
    threads = [threading.Thread(target=lambda node=node: [node() for _ in range(20)]) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (into == src).all()


# ---- refusals --------------------------------------------------------------------------------------------------------


def read_only(shape: int) -> np.ndarray[Any, Any]:
    a = np.zeros(shape)
    a.flags.writeable = False
    return a


A = np.ones(4)


@pytest.mark.want("14a")
@pytest.mark.parametrize(("src", "into", "raised", "text"), [
    ([1.0], A, TypeError, r"src: .*found \[1\.0\], a list"), (A, [1.0], TypeError, r"into: .*found \[1\.0\], a list"),
    (None, A, TypeError, "src: .*found None"), (A, 3.0, TypeError, "into: .*found 3.0"),
    (np.float64(1), np.zeros(()), TypeError, "src: "), (A, np.ndarray, TypeError, "into: "),
    (A[::2], np.zeros(2), BufferRefused, "src: numpy.ndarray: stride: required C-contiguous.*; pass a contiguous"),
    (np.ones(2), np.zeros(4)[::2], BufferRefused, "into: numpy.ndarray: stride: required C-contiguous"),
    (np.ones((2, 3)).T, np.zeros((3, 2)), BufferRefused, "src: numpy.ndarray: stride"),
    (A[::-1], np.zeros(4), BufferRefused, "src: numpy.ndarray: strides: found axis|src: .*negative stride"),
    (A, np.zeros(3), LayoutError, r"into: found shape \(3,\), wanted \(4,\), the shape of src; reshape"),
    (A, np.zeros((1, 4)), LayoutError, r"into: found shape \(1, 4\), wanted \(4,\)"),
    (A, np.zeros(4, np.float32), BufferRefused, "into: found float32, wanted float64, the dtype of src; convert"),
    (A, np.zeros(4, np.int64), BufferRefused, "into: found int64, wanted float64"),
    (A, read_only(4), BufferRefused, "into: numpy.ndarray: access: required read-write, got read-only; pass an array"),
    (A, OldProducer(np.zeros(4)), BufferRefused, "into: .*got unknown; assume_writable=True asserts"),
    (A, np.broadcast_to(np.zeros(1), 4), BufferRefused, "into: "),
    (A.astype(object), np.zeros(4, object), BufferRefused, "src: "),
    (A + 1j, np.zeros(4, complex), BufferRefused, "src: "),
    (A.astype(">f8"), np.zeros(4), BufferRefused, "src: .*'>f8'"),
])
def test_refusals_when_a_node_is_made(src: Any, into: Any, raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=rf"^eagle\.copy: {text}" if "|" not in text else text):
        eagle.copy(src, into=into)
    assert A.tolist() == [1.0] * 4
    if raised is not TypeError:
        assert issubclass(raised, ValueError)


def test_arguments() -> None:
    with pytest.raises(TypeError, match=r"^eagle\.copy: name: found 3, wanted a text or None"):
        eagle.copy(A, into=np.zeros(4), name=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        eagle.copy(A, np.zeros(4))  # type: ignore[misc]
    with pytest.raises(TypeError):
        eagle.copy(A)  # type: ignore[call-arg]


@pytest.mark.parametrize("side", ["src", "into"])
def test_an_array_that_moved(side: str) -> None:
    arrays = {"src": np.ones(4), "into": np.zeros(4)}
    node = eagle.copy(arrays["src"], into=arrays["into"])
    arrays[side].resize(1000, refcheck=False)
    with pytest.raises(BufferRefused, match=rf"^eagle\.copy: {side}: found an array that moved or changed since"):
        node()
    assert arrays["into"][0] == 0.0


def test_an_array_that_became_read_only() -> None:
    into = np.zeros(4)
    node = eagle.copy(np.ones(4), into=into)
    into.flags.writeable = False
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: .*got read-only; make it writable again"):
        node()
    assert not into.any()
    into.flags.writeable = True
    node()
    assert into.all()


# ---- copies with devices ---------------------------------------------------------------------------------------------

SHINE, GLEAM, HOST = 12, 15, -1  # DLPack device types
GROUPS = "(1 << EAGLE_CAP_STREAM)"


class Fake:
    """An installed fake GPU backend, and what it was asked for."""

    def __init__(self, site: Site, make_library: MakeLibrary, kind: str, device_type: int, **macros: object) -> None:
        self.path = make_library(kind, DEVICES=device_type, **{"BITS": GROUPS, "STREAMS": 2, **macros})
        site.install_backend(f"acme-{kind}", kind, self.path, device_types=(device_type,))
        self.library = ctypes.CDLL(str(self.path))
        for name in ("copies", "waits"):
            self.counter(name).value = 0

    def counter(self, name: str) -> ctypes.c_int32:
        return ctypes.c_int32.in_dll(self.library, name)

    def asked(self) -> list[list[int]]:
        """bytes, direction, stream of each copy since the last look."""
        rows = (ctypes.c_int64 * 3 * 16).in_dll(self.library, "copied")
        found = [list(row) for row in rows[:self.counter("copies").value]]
        assert self.counter("waits").value == len(found) and self.counter("streams").value == 0
        self.counter("copies").value = self.counter("waits").value = 0
        return found


Make = Callable[..., Fake]


@pytest.fixture
def fake(site: Site, make_library: MakeLibrary) -> Make:
    """Installs a fake GPU backend: ``fake("shine", SHINE, TRANSFERS=1)``."""
    return lambda kind, device_type, **macros: Fake(site, make_library, kind, device_type, **macros)


def on(device: int, array: np.ndarray[Any, Any], ordinal: int = 0) -> Any:
    """The array as one on a device."""
    return array if device == HOST else Producer(array, device=(device, ordinal))


@pytest.mark.parametrize(("src", "into", "direction"), [(HOST, SHINE, 0), (SHINE, HOST, 1), (SHINE, SHINE, 2)])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_each_direction(fake: Make, src: int, into: int, direction: int, shape: tuple[int, ...]) -> None:
    shine = fake("shine", SHINE, TRANSFERS=3)
    a, b = np.random.default_rng(2).random(shape), np.zeros(shape)
    node = eagle.copy(on(src, a, 1), into=on(into, b, 1))
    assert shine.asked() == [] and not b.any()
    node()
    assert shine.asked() == [[a.nbytes, direction, 1001]] and b.tobytes() == a.tobytes()
    a += 1.0
    node()
    assert shine.asked() == [[a.nbytes, direction, 1001]] and b.tobytes() == a.tobytes()


def test_nothing_to_do_asks_no_backend(site: Site) -> None:
    a = np.ones(3)
    eagle.copy(on(SHINE, a), into=on(SHINE, a))()
    eagle.copy(on(SHINE, a[:0]), into=np.zeros(0))()
    assert a.all()


@pytest.mark.parametrize("shift", [-3, -1, 1, 3])
def test_overlap_on_a_device_goes_by_the_host(fake: Make, shift: int) -> None:
    shine = fake("shine", SHINE, TRANSFERS=3)
    x = np.arange(20.0)
    expected = x.copy()
    expected[5 + shift:15 + shift] = x[5:15]
    eagle.copy(on(SHINE, x[5:15]), into=on(SHINE, x[5 + shift:15 + shift]))()
    assert shine.asked() == [[80, 1, 1000], [80, 0, 1000]] and x.tolist() == expected.tolist()


def test_two_devices_and_two_kinds(fake: Make) -> None:
    shine, gleam = fake("shine", SHINE, TRANSFERS=1), fake("gleam", GLEAM, TRANSFERS=1)
    a, b, c = np.arange(3.0), np.zeros(3), np.zeros(3)
    eagle.copy(on(SHINE, a, 1), into=on(SHINE, b, 0))()
    assert shine.asked() == [[24, 1, 1001], [24, 0, 1000]] and b.tolist() == a.tolist()
    eagle.copy(on(SHINE, b), into=on(GLEAM, c, 1))()
    assert (shine.asked(), gleam.asked()) == ([[24, 1, 1000]], [[24, 0, 1001]]) and c.tolist() == a.tolist()


def test_an_older_backend_copies_on_its_device(fake: Make) -> None:
    shine = fake("shine", SHINE, TRANSFERS=2)
    a, b = np.arange(3.0), np.zeros(3)
    eagle.copy(on(SHINE, a), into=on(SHINE, b))()
    assert shine.asked() == [[24, -1, 1000]] and b.tolist() == a.tolist()
    ending = f"backend 'shine' ({shine.path}) does not provide eagle_backend_memcpy"
    for src, into, side in ((a, on(SHINE, b), "into"), (on(SHINE, a), b, "src"),
                            (on(SHINE, a[1:]), on(SHINE, a[:2]), "src"), (on(SHINE, a, 0), on(SHINE, b, 1), "src")):
        with pytest.raises(BackendUnavailable) as refused:
            eagle.copy(src, into=into)
        assert str(refused.value).startswith(f"eagle.copy: {side}: found <BufferView of producers.Producer: float64 (")
        assert str(refused.value).endswith(ending)
    assert shine.asked() == [] and a.tolist() == [0.0, 1.0, 2.0]


def test_a_backend_without_any_copy(fake: Make) -> None:
    fake("shine", SHINE)
    with pytest.raises(BackendUnavailable, match=r"does not provide eagle_backend_memcpy$"):
        eagle.copy(on(SHINE, A), into=on(SHINE, np.zeros(4)))


def test_a_backend_without_streams(fake: Make) -> None:
    fake("shine", SHINE, TRANSFERS=1, BITS=0)
    b = np.zeros(4)
    with pytest.raises(BackendUnavailable, match=r"does not provide stream$"):
        eagle.copy(on(SHINE, A), into=b)()
    assert not b.any()


def test_a_device_nobody_serves(site: Site) -> None:
    with pytest.raises(BackendUnavailable, match="DLPack device type 12: found no backend that serves it"):
        eagle.copy(on(SHINE, A), into=np.zeros(4))


def test_a_device_array_is_checked_like_one_of_the_host(fake: Make) -> None:
    shine = fake("shine", SHINE, TRANSFERS=3)
    for into, text in ((Producer(np.zeros(4), device=(SHINE, 0), flags=1), "got read-only"),
                       (Producer(np.zeros(4), device=(SHINE, 0), legacy=True), "got unknown; assume_writable=True"),
                       (on(SHINE, np.zeros(8)[::2]), "required C-contiguous")):
        with pytest.raises(BufferRefused, match=rf"^eagle\.copy: into: .*{text}"):
            eagle.copy(A, into=into)
    target = on(SHINE, np.zeros(4))
    node = eagle.copy(A, into=target)
    target.facts = (target.facts[0] + 8, *target.facts[1:])
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: found an array that moved"):
        node()
    assert shine.asked() == []


def test_producers_are_ordered_again_at_each_call(fake: Make) -> None:
    fake("shine", SHINE, TRANSFERS=3)
    source = on(SHINE, np.ones(4))
    node = eagle.copy(source, into=np.zeros(4))
    made = len(source.asked)
    node()
    assert [asked["stream"] for asked in source.asked[made:]] == [-1, None]


# ---- page-locked memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [0, 5, (), (0,), (2, 0), (2, 3), np.int64(4), (np.int32(2), 2)])
@pytest.mark.parametrize("dtype", ["float64", np.float32, "i4", bool, [("a", "f8"), ("b", "i4")], "S3"])
def test_pinned_without_a_gpu(site: Site, shape: Any, dtype: Any) -> None:
    found, expected = eagle.pinned(shape, dtype), np.empty(shape, dtype)
    assert type(found) is np.ndarray and found.base is None and found.flags.writeable and found.flags.c_contiguous
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert eagle.pinned(3).dtype == np.float64


@pytest.mark.want("14b")
@pytest.mark.parametrize(("shape", "raised"), [
    (-1, ValueError), ((2, -3), ValueError), (2.5, TypeError), ((2, 2.0), TypeError), ("3", TypeError),
    (None, TypeError), (True, TypeError), ([2, 3], TypeError), (np.float64(2), TypeError), (2**63, ValueError),
    ((2**40, 2**40), ValueError)])
def test_shapes_that_cannot_be(shape: Any, raised: type[Exception]) -> None:
    with pytest.raises(raised, match=r"^eagle\.pinned: shape: found "):
        eagle.pinned(shape)


@pytest.mark.want("14b")
@pytest.mark.parametrize("dtype", [object, "O", [("a", object)], "nonsense", 3.5])
def test_dtypes_that_cannot_be(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"^eagle\.pinned: dtype: found "):
        eagle.pinned(3, dtype)


def test_pinned_comes_from_the_backend_and_goes_back_with_the_last_view(fake: Make) -> None:
    held = fake("shine", SHINE, TRANSFERS=12).counter("pinned")
    a = eagle.pinned((3, 4), np.int32)
    assert (a.shape, a.dtype, a.flags.c_contiguous, a.flags.writeable, held.value) == ((3, 4), np.int32, True, True, 1)
    a[...] = np.arange(12).reshape(3, 4)
    view = a.T[1:]
    view_of_view = import_buffer(view)
    del a
    gc.collect()
    assert held.value == 1 and view[:, 0].tolist() == [1, 2, 3]
    del view
    gc.collect()
    assert held.value == 1
    del view_of_view
    gc.collect()
    assert held.value == 0
    assert eagle.pinned(0).base is None and held.value == 0
    assert eagle.pinned(3, [("a", "f8"), ("b", "i4")])["b"].shape == (3,)
    gc.collect()
    assert held.value == 0
    with pytest.raises(RuntimeError, match="there is not so much memory"):
        eagle.pinned(2**40)
    assert held.value == 0


@pytest.mark.parametrize(("transfers", "symbol"), [(0, "host_free"), (4, "host_free"), (8, "host_alloc")])
def test_a_backend_without_page_locked_memory(fake: Make, transfers: int, symbol: str) -> None:
    shine = fake("shine", SHINE, TRANSFERS=transfers)
    with pytest.raises(BackendUnavailable) as refused:
        eagle.pinned(3)
    assert str(refused.value) == f"backend 'shine' ({shine.path}) does not provide eagle_backend_{symbol}"
    assert shine.counter("pinned").value == 0


def test_without_a_visible_device_pinned_is_plain(fake: Make) -> None:
    shine = fake("shine", SHINE, TRANSFERS=12, FAIL=4)
    assert eagle.pinned(3).base is None and shine.counter("pinned").value == 0


def test_two_gpus_leave_pinned_plain(fake: Make) -> None:
    fakes = fake("shine", SHINE, TRANSFERS=12), fake("gleam", GLEAM, TRANSFERS=12)
    assert eagle.pinned(3).base is None and [each.counter("pinned").value for each in fakes] == [0, 0]


# ---- the core's own --------------------------------------------------------------------------------------------------


def test_host_memory_without_a_backend(site: Site) -> None:
    for size in (1, 63, 64, 1 << 20):
        address = _core.host_alloc(size)
        assert address != 0 and address % 64 == 0
        ctypes.memset(address, 7, size)
        _core.host_free(address)
    assert _core.host_alloc(0) == 0
    _core.host_free(0)
    for size in (2**63, 2**64 - 1):
        with pytest.raises(MemoryError, match=f"found {size} bytes"):
            _core.host_alloc(size)


@pytest.mark.parametrize("direction", [0, 1, 2, 3])
def test_memcpy_without_a_backend(site: Site, direction: int) -> None:
    x = np.arange(10_000)
    _core.memcpy(x[1:].ctypes.data, x.ctypes.data, x.nbytes - 8, direction)
    assert x.tolist() == [0, *range(9999)]
    _core.memcpy(0, 0, 0, direction)
    for wrong in (-1, 4):
        with pytest.raises(ValueError, match=f"direction: found {wrong}, wanted 0 to 3"):
            _core.memcpy(0, 0, 0, wrong)


def test_what_a_backend_says_is_raised(make_library: MakeLibrary) -> None:
    backend = _core.Backend("fake", str(make_library(TRANSFERS=15, STREAMS=2, BITS=GROUPS)).encode())
    x = np.arange(4.0)
    with pytest.raises(ValueError, match=r"^no such direction$"):
        backend.memcpy(x.ctypes.data, x.ctypes.data + 16, 16, 4)
    with pytest.raises(ValueError, match=r"^the ranges overlap$"):
        backend.memcpy_device(x.ctypes.data, x.ctypes.data + 8, 16)
    backend.memcpy(x.ctypes.data, x.ctypes.data + 16, 16, 3)
    assert x.tolist() == [2.0, 3.0, 2.0, 3.0]
    stream = backend.stream_create(4)
    assert stream.ptr == 1004 and stream.synchronize() is None  # type: ignore[func-returns-value]
    address = backend.host_alloc(8)
    backend.host_free(address)


@pytest.mark.parametrize(("call", "symbol"), [
    (lambda b: b.memcpy(0, 0, 0, 0), "eagle_backend_memcpy"),
    (lambda b: b.memcpy_device(0, 0, 0), "eagle_backend_memcpy_device"),
    (lambda b: b.host_alloc(8), "eagle_backend_host_free"), (lambda b: b.host_free(0), "eagle_backend_host_free"),
    (lambda b: b.stream_create(), "stream")])
def test_an_absent_symbol_is_named(make_library: MakeLibrary, call: Any, symbol: str) -> None:
    path = make_library()
    with pytest.raises(BackendUnavailable) as refused:
        call(_core.Backend("fake", str(path).encode()))
    assert str(refused.value) == f"backend 'fake' ({path}) does not provide {symbol}"


def test_the_host_backend_has_them_all() -> None:
    host = eagle.backends.host()
    a, b = np.arange(5.0), np.zeros(5)
    stream = host.stream_create()
    host.memcpy(b.ctypes.data, a.ctypes.data, 40, 3, stream.ptr)
    stream.synchronize()
    assert b.tolist() == a.tolist()
    address = host.host_alloc(100)
    assert address % 64 == 0
    host.memcpy_device(address, a.ctypes.data, 40)
    assert np.array_equal(np.frombuffer((ctypes.c_char * 40).from_address(address)), a)
    host.host_free(address)
    with pytest.raises(ValueError, match="host_free: ptr is 0x"):
        host.host_free(address)
