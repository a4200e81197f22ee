# SPDX-License-Identifier: Apache-2.0
"""import_buffer and BufferView: what is read, what is refused, and that every deleter runs once."""

from __future__ import annotations

import array
import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import producers
import pytest
from producers import CUDA, FAKE, READ_ONLY, OldProducer, Producer, Remembering, named

from eagle.errors import BufferRefused
from eagle.interop import BufferView, Requirements, import_buffer

pytestmark = [pytest.mark.smoke, pytest.mark.usefixtures("no_tensor_is_left")]

ELEMENTS = {"float64": (2, 64, 1), "float32": (2, 32, 1), "float16": (2, 16, 1), "bfloat16": (4, 16, 1),
            "int64": (0, 64, 1), "int32": (0, 32, 1), "int16": (0, 16, 1), "int8": (0, 8, 1), "uint64": (1, 64, 1),
            "uint32": (1, 32, 1), "uint16": (1, 16, 1), "uint8": (1, 8, 1), "bool": (6, 8, 1)}
OF_NUMPY = sorted(ELEMENTS.keys() - {"bfloat16"})


# ---- arrays of numpy -------------------------------------------------------------------------------------------------


def test_a_view_tells_what_the_array_is() -> None:
    a = np.arange(12.0).reshape(3, 4)[:, 1::2]
    view = import_buffer(a)
    assert (view.shape, view.strides, view.dtype, view.device) == ((3, 2), (4, 2), "float64", (1, 0))
    assert (view.ptr, view.access, view.owner, view.producer) == (a.ctypes.data, "read-write", "external",
                                                                  "numpy.ndarray")
    assert (view.stream, view.assumed_writable, view.writable) == (None, False, True)
    assert repr(view) == "<BufferView of numpy.ndarray: float64 (3, 2), read-write, cpu:0>"


@pytest.mark.parametrize("name", OF_NUMPY)
def test_element_types_of_numpy(name: str) -> None:
    a = np.array([0, 1, 1], dtype=name)
    view = import_buffer(a, require=Requirements(dtype=name))
    assert view.dtype == name
    assert np.asarray(view).dtype == a.dtype
    np.testing.assert_array_equal(np.asarray(view), a)
    through = np.from_dlpack(view)
    assert through.dtype == a.dtype and through.ctypes.data == a.ctypes.data


@pytest.mark.parametrize("a", [
    np.zeros(2, "c16"), np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]"), np.zeros(2, "U3"), np.zeros(2, "S3"),
    np.zeros(2, object), np.zeros(2, "i4,f8"), np.zeros(2, ">f8"), np.zeros(2, ">i2"), np.zeros(2, "V2"),
    np.zeros(2, np.longdouble),
], ids=lambda a: a.dtype.str)
def test_element_types_nobody_else_has(a: np.ndarray[Any, Any]) -> None:
    with pytest.raises(BufferRefused) as refused:
        import_buffer(a)
    assert str(refused.value).startswith("eagle.interop.import_buffer: numpy.ndarray: dtype: found ")
    assert repr(a.dtype.str) in str(refused.value)


def test_a_read_only_array_stays_so() -> None:
    a = np.arange(3.0)
    a.flags.writeable = False
    view = import_buffer(a, assume_writable=True)
    assert (view.access, view.assumed_writable, view.writable) == ("read-only", True, False)
    assert not np.asarray(view).flags.writeable
    assert not np.from_dlpack(view).flags.writeable


def test_subclasses_are_read_as_arrays(tmp_path: Any) -> None:
    a = np.memmap(tmp_path / "file", np.float64, "w+", shape=3)
    view = import_buffer(a)
    assert view.producer == "numpy.memmap" and view.ptr == a.ctypes.data
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    with pytest.raises(BufferRefused, match="found a masked array, wanted an array without a mask"):
        import_buffer(masked)


def test_a_negative_stride_is_called_one() -> None:
    with pytest.raises(BufferRefused, match="found the negative stride -2 of axis 1, wanted strides of 0 or more"):
        import_buffer(np.zeros((2, 6))[:, ::-2])


def test_strides_between_elements_are_refused() -> None:
    field = np.zeros(4, "i1,f8")["f1"]
    with pytest.raises(BufferRefused, match="found a stride of 9 bytes of axis 0, wanted whole elements of 8 bytes"):
        import_buffer(field)


def test_axes_that_never_step_may_have_any_stride() -> None:
    one = np.zeros(1)[::-1]
    assert one.strides == (-8,)
    assert (import_buffer(one).shape, import_buffer(one).strides) == ((1,), (1,))
    assert import_buffer(np.zeros((3, 1))[:, ::-1]).refusals(Requirements(contiguous=True)) == []
    assert import_buffer(np.zeros(1, "i1,f8")["f1"]).shape == (1,)


def test_too_many_axes() -> None:
    assert import_buffer(np.zeros((1,) * 6)).shape == (1,) * 6
    with pytest.raises(BufferRefused, match="found 7 axes, wanted at most 6"):
        import_buffer(np.zeros((1,) * 7))


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty_arrays_are_contiguous(shape: tuple[int, ...]) -> None:
    view = import_buffer(np.zeros(shape), require=Requirements(contiguous=True, count=0, shape=shape, alignment=64))
    assert np.asarray(view).shape == shape
    assert np.from_dlpack(view).shape == shape
    assert import_buffer(np.zeros((4, 4))[4:, ::-1]).shape == (0, 4)


def test_zero_axes() -> None:
    a = np.array(7.0)
    view = import_buffer(a, require=Requirements(count=1, shape=(), contiguous=True, writable=True))
    np.asarray(view)[()] = 8.0
    assert a[()] == 8.0


@pytest.mark.parametrize(("shape", "strides", "aliased"), [
    ((4,), (0,), True), ((3, 4), (8, 0), True), ((3, 3), (8, 8), True), ((3, 2), (16, 8), False),
    ((2, 3), (8, 16), False), ((1, 3), (0, 8), False), ((2, 2), (8, 24), False),
])
def test_elements_that_share_memory_are_not_writable(shape: Any, strides: Any, aliased: bool) -> None:
    a = np.lib.stride_tricks.as_strided(np.zeros(16), shape, strides)
    assert a.flags.writeable
    view = import_buffer(a, assume_writable=True)
    assert (view.access, view.writable) == ("read-write", not aliased)
    assert np.asarray(view).flags.writeable is not aliased
    if aliased:
        assert view.refusals(Requirements(writable=True)) == [
            "access: required read-write, got read-write, but elements share memory"]


def test_asarray_is_the_memory_itself() -> None:
    a = np.arange(6.0).reshape(2, 3).T
    view = import_buffer(a)
    b = np.asarray(view)
    b[2, 1] = 50.0
    assert a[2, 1] == 50.0 and b.strides == a.strides and b.base is view
    assert np.array(view).ctypes.data != a.ctypes.data
    assert np.asarray(view, np.float32).dtype == np.float32
    assert np.array(view, np.float64, copy=False).ctypes.data == a.ctypes.data
    with pytest.raises(ValueError, match="copy: found False"):
        np.asarray(view, np.float32, copy=False)


def test_a_moved_array_is_seen() -> None:
    a = np.arange(3.0)
    view = import_buffer(a)
    again = import_buffer(view)
    assert view.moved() is again.moved() is False
    a.resize(100_000, refcheck=False)
    assert view.moved() is again.moved() is True
    b = np.zeros((2, 3))
    view = import_buffer(b)
    b.shape = (3, 2)
    assert view.moved() is True


# ---- objects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [
    None, 3, 2.5, True, "text", b"bytes", bytearray(8), memoryview(bytes(8)), array.array("d", [1.0]), [1.0], (1.0,),
    {}, object(), np.float64(1.0), np.bool_(True), np.ndarray, Producer,
], ids=lambda thing: type(thing).__name__)
def test_what_is_no_array(thing: Any) -> None:
    with pytest.raises(TypeError, match="wanted an array with __dlpack__, __cuda_array_interface__ or __array_inter"):
        import_buffer(thing)


def test_a_bare_capsule_is_no_array() -> None:
    producer = Producer(np.zeros(3))
    capsule = producer.capsule()
    with pytest.raises(TypeError, match="PyCapsule"):
        import_buffer(capsule)
    assert producer.deleted == 0
    del capsule
    assert producer.deleted == 1


def test_arguments() -> None:
    a = np.zeros(3)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((a, 1), {}), ((a,), {"other": 1}), ((a,), {"require": "float64"}), ((a,), {"assume_writable": 1})]
    for given, named_ones in wrong:
        with pytest.raises(TypeError, match=r"^eagle\.interop\.import_buffer: "):
            import_buffer(*given, **named_ones)


def test_a_view_as_an_object() -> None:
    view = import_buffer(np.zeros(3))
    other = import_buffer(np.zeros(3))
    assert view == view and view != other and len({view, other}) == 2
    assert weakref.ref(view)() is view
    for wrong in (lambda: pickle.dumps(view), lambda: copy.copy(view), lambda: BufferView(), lambda: len(view),
                  lambda: setattr(view, "ptr", 0)):
        with pytest.raises((TypeError, AttributeError)):
            wrong()


def test_a_view_keeps_its_producer_and_lets_it_go() -> None:
    class Array(np.ndarray):
        pass

    a = np.zeros(3).view(Array)
    gone = weakref.ref(a)
    view = import_buffer(a)
    b = np.from_dlpack(view)
    a.view_of_itself = view  # type: ignore[attr-defined]  a circle the collector sees
    del a, view
    gc.collect()
    assert gone() is not None and b.tolist() == [0.0] * 3
    del b
    gc.collect()
    assert gone() is None


# ---- DLPack, in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legacy", [False, True], ids=["versioned", "legacy"])
@pytest.mark.parametrize("name", sorted(ELEMENTS))
def test_element_types_of_dlpack(name: str, legacy: bool) -> None:
    producer = Producer(FAKE, shape=(2, 3), dtype=ELEMENTS[name], legacy=legacy)
    view = import_buffer(producer, require=Requirements(dtype=name, contiguous=True))
    assert (view.dtype, view.shape, view.strides, view.ptr) == (name, (2, 3), (3, 1), FAKE)
    assert view.access == ("unknown" if legacy else "read-write")
    del view
    assert (producer.made, producer.deleted) == (1, 1)


@pytest.mark.parametrize(("make", "access"), [
    (lambda a: Producer(a, flags=READ_ONLY), "read-only"), (lambda a: Producer(a), "read-write"),
    (lambda a: Producer(a, flags=2 | 1 << 40), "read-write"), (lambda a: Producer(a, version=(0, 8)), "read-write"),
    (lambda a: Producer(a, version=(1, 99)), "read-write"), (lambda a: Producer(a, legacy=True), "unknown"),
    (OldProducer, "unknown"),
])
def test_access_is_what_was_declared(make: Callable[[Any], Producer], access: str) -> None:
    a = np.arange(3.0)
    for assumed in (False, True):
        view = import_buffer(make(a), assume_writable=assumed)
        assert (view.access, view.assumed_writable) == (access, assumed)
        assert view.writable == (access == "read-write" or access == "unknown" and assumed)
        assert np.asarray(view).flags.writeable == view.writable
        assert view.producer == named(type(make(a)))


def test_an_offset_belongs_to_the_address() -> None:
    a = np.arange(6.0)
    view = import_buffer(Producer(a, shape=(4,), offset=16))
    assert view.ptr == a.ctypes.data + 16 and np.asarray(view).tolist() == [2.0, 3.0, 4.0, 5.0]
    assert np.from_dlpack(view).tolist() == [2.0, 3.0, 4.0, 5.0]


def test_64_bits_of_everything() -> None:
    view = import_buffer(Producer(FAKE, shape=(2**40, 3), strides=(1, 2**50), dtype=ELEMENTS["int8"]))
    assert (view.shape, view.strides) == ((2**40, 3), (1, 2**50))
    assert view.refusals(Requirements(count=3 * 2**40)) == []


def test_how_a_producer_is_asked() -> None:
    host, old, device = Producer(np.zeros(2)), OldProducer(np.zeros(2)), Producer(FAKE, shape=(2,), device=(CUDA, 1))
    import_buffer(host)
    assert host.asked == [{"max_version": (1, 0)}]
    import_buffer(old)
    assert old.asked == [{"stream": None}]
    import_buffer(device)
    import_buffer(device, stream=2)
    import_buffer(device, stream=-1)
    assert [keywords["stream"] for keywords in device.asked] == [None, 2, -1]


def test_an_error_inside_the_producer_is_not_asked_away() -> None:
    class Wrong(Producer):
        error: Exception

        def __dlpack__(self, **keywords: Any) -> Any:
            self.asked.append(keywords)
            raise self.error

    for error in (TypeError("int() takes no keyword arguments"), BufferError("not today"), KeyError("x"), OSError()):
        wrong = Wrong(np.zeros(2))
        wrong.error = error
        with pytest.raises(type(error)) as raised:
            import_buffer(wrong)
        assert raised.value is error and len(wrong.asked) == 1


def test_no_capsule_means_the_next_protocol() -> None:
    a = np.arange(3.0)

    class Both:
        __array_interface__ = a.__array_interface__

        def __dlpack__(self, **keywords: Any) -> None:
            return None

    assert import_buffer(Both()).ptr == a.ctypes.data


def test_an_array_interface_says_more_than_a_legacy_capsule() -> None:
    a = np.arange(3.0)

    class Both(Producer):
        __array_interface__ = a.__array_interface__

    both = Both(a, legacy=True)
    assert import_buffer(both).access == "read-write"
    assert (both.made, both.deleted) == (1, 1)
    versioned = Both(a, flags=READ_ONLY)
    assert import_buffer(versioned).access == "read-only"

    class Reluctant(Both):
        def __dlpack__(self, **keywords: Any) -> Any:
            raise BufferError("read-only")

    assert import_buffer(Reluctant(a)).access == "read-write"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "complex": ({"dtype": (5, 128, 1)}, "found DLPack type code 5 of 128 bits and 1 lanes"),
    "float8": ({"dtype": (10, 8, 1)}, "found DLPack type code 10 of 8 bits and 1 lanes"),
    "opaque": ({"dtype": (3, 64, 1)}, "found DLPack type code 3 of 64 bits"),
    "lanes": ({"dtype": (2, 32, 4)}, "32 bits and 4 lanes"),
    "no lanes": ({"dtype": (2, 32, 0)}, "32 bits and 0 lanes"),
    "bit": ({"dtype": (6, 1, 1)}, "code 6 of 1 bits"),
    "int4": ({"dtype": (0, 4, 1)}, "code 0 of 4 bits"),
    "rank 7": ({"shape": (1,) * 7}, "found 7 axes, wanted at most 6"),
    "rank -1": ({"rank": -1}, "found -1 axes"),
    "no shape": ({"shape": None, "rank": 2}, "shape: found a null pointer"),
    "negative extent": ({"shape": (2, -3)}, "found extent -3 of axis 1, wanted 0 or more"),
    "negative stride": ({"shape": (2, 3), "strides": (3, -1)}, "the negative stride -1 of axis 1"),
    "most elements": ({"shape": (2**32, 2**32)}, r"found \(4294967296, 4294967296\), wanted at most 2\*\*63 - 1 bytes"),
    "most bytes": ({"shape": (2**60,)}, r"wanted at most 2\*\*63 - 1 bytes"),
    "farthest": ({"shape": (3, 2), "strides": (2**61, 1)}, r"found stride 2305843009213693952 of axis 0"),
    "no data": ({"data": None}, "found a null pointer for 3 elements, wanted an address"),
    "device 0": ({"device": (0, 0)}, "found DLPack device type 0"),
    "device 5": ({"device": (5, 0)}, "found DLPack device type 5"),
    "device 18": ({"device": (18, 0)}, "found DLPack device type 18, wanted 1 to 4 or 7 to 17"),
    "device -1": ({"device": (-1, 0)}, "found DLPack device type -1"),
}


@pytest.mark.parametrize("legacy", [False, True], ids=["versioned", "legacy"])
@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_refused_tensor_is_deleted_once(case: str, legacy: bool) -> None:
    facts, text = REFUSED[case]
    producer = Remembering(**{"data": FAKE, "shape": (3,), **facts}, legacy=legacy)
    with pytest.raises(BufferRefused, match=text) as refused:
        import_buffer(producer)
    assert str(refused.value).startswith(f"eagle.interop.import_buffer: {named(Remembering)}: ")
    assert (producer.made, producer.deleted) == (1, 1)
    assert producers.name_of(producer.capsules[0]) == (b"used_dltensor" if legacy else b"used_dltensor_versioned")
    producer.capsules.clear()
    assert producer.deleted == 1


def test_a_newer_major_version_is_deleted_and_not_read() -> None:
    producer = Producer(np.zeros(3), version=(2, 5))
    with pytest.raises(BufferRefused, match=r"version: found DLPack 2.5, wanted at most major version 1"):
        import_buffer(producer)
    assert producer.deleted == 1


def test_a_stream_for_the_host() -> None:
    for stream in (1, 2, -1, 77):
        for host in (np.zeros(3), Producer(np.zeros(3)), import_buffer(np.zeros(3))):
            with pytest.raises(BufferRefused, match=f"stream: found {stream}, wanted None; a CPU buffer takes no"):
                import_buffer(host, stream=stream)
    for odd, text in (10**30, "a int"), ("x", "a str"):
        with pytest.raises(BufferRefused, match=f"stream: found {text}, wanted None"):
            import_buffer(np.zeros(3), stream=odd)

    class Unplaced(Producer):
        __dlpack_device__ = None  # type: ignore[assignment]

    unplaced = Unplaced(np.zeros(3))
    with pytest.raises(BufferRefused, match="found 2, wanted None; a CPU buffer takes no stream"):
        import_buffer(unplaced, stream=2)
    assert (unplaced.made, unplaced.deleted) == (1, 1)
    assert import_buffer(unplaced).shape == (3,)


def test_a_refused_requirement_deletes_once() -> None:
    producer = Producer(np.zeros(3))
    with pytest.raises(BufferRefused, match="count: required 4 elements, got 3"):
        import_buffer(producer, require=Requirements(count=4))
    assert producer.deleted == 1


@pytest.mark.parametrize("name", [b"used_dltensor", b"used_dltensor_versioned", b"other"])
def test_a_capsule_of_another_name_is_left_alone(name: bytes) -> None:
    producer = Remembering(np.zeros(3), name=name)
    with pytest.raises(BufferRefused, match="wanted 'dltensor' or 'dltensor_versioned'; a capsule serves once"):
        import_buffer(producer)
    assert producer.deleted == 0 and producers.name_of(producer.capsules[0]) == name
    producers.delete(next(iter(producer.tensors)))


def test_a_capsule_serves_once() -> None:
    producer = Remembering(np.zeros(3))
    view = import_buffer(producer)
    capsule = producer.capsules[0]

    class Again:
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    with pytest.raises(BufferRefused, match="found 'used_dltensor_versioned'"):
        import_buffer(Again())
    assert producer.deleted == 0
    del view
    assert producer.deleted == 1


def test_something_else_for_a_capsule() -> None:
    class Liar:
        def __dlpack__(self, **keywords: Any) -> Any:
            return 17

    with pytest.raises(TypeError, match="__dlpack__ returned int, wanted a capsule"):
        import_buffer(Liar())


def test_a_tensor_without_a_deleter() -> None:
    producer = Producer(np.arange(3.0), has_deleter=False)
    view = import_buffer(producer)
    assert np.asarray(view).tolist() == [0.0, 1.0, 2.0]
    del view
    assert producer.deleted == 0
    producers.alive.clear()


def test_jax_arrays_are_never_written() -> None:
    Array = type("ArrayImpl", (Producer,), {"__module__": "jaxlib._jax"})
    for legacy in (False, True):
        view = import_buffer(Array(np.zeros(3), legacy=legacy), assume_writable=True)
        assert view.assumed_writable and not view.writable and view.producer == "jaxlib.ArrayImpl"
        assert "and the producer's arrays never change" in view.refusals(Requirements(writable=True))[0]
        assert not np.asarray(view).flags.writeable and not np.from_dlpack(view).flags.writeable


def test_a_producer_that_moves_is_seen() -> None:
    producer = Producer(np.zeros(3))
    view = import_buffer(producer)
    assert view.moved() is False
    producer.facts = Producer(np.zeros(3)).facts
    assert view.moved() is True
    assert (producer.made, producer.deleted) == (3, 2)
    del view
    assert producer.deleted == 3


# ---- DLPack, out -----------------------------------------------------------------------------------------------------


def test_a_chain_keeps_the_first_producer() -> None:
    producer = Producer(np.arange(3.0))
    view = import_buffer(producer)
    for _ in range(5):
        view = import_buffer(view)
    end = np.from_dlpack(view)
    assert view.producer == "eagle.BufferView"
    del view
    gc.collect()
    assert producer.deleted == 0 and end.tolist() == [0.0, 1.0, 2.0]
    del end
    assert (producer.made, producer.deleted) == (1, 1)


def test_a_long_chain_is_let_go() -> None:
    producer = Producer(np.arange(3.0))
    view = import_buffer(producer)
    for _ in range(200_000):
        view = import_buffer(view)
    assert view.moved() is False and producer.deleted == 1
    del view
    assert producer.deleted == 2


def test_the_last_share_may_go_on_any_thread() -> None:
    producer = Producer(np.arange(3.0))
    held = [import_buffer(import_buffer(producer))]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert producer.deleted == 1


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 2), (7, 0)])
def test_a_capsule_that_nobody_takes(version: tuple[int, int] | None) -> None:
    producer = Producer(np.arange(3.0))
    view = import_buffer(producer)
    capsule = view.__dlpack__(max_version=version)
    del view
    assert producer.deleted == 0
    versioned = version is not None and version[0] >= 1
    assert producers.name_of(capsule) == (b"dltensor_versioned" if versioned else b"dltensor")
    if versioned:
        managed = producers.tensor_of(capsule)
        assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
    del capsule
    assert producer.deleted == 1


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_somebody_takes(version: tuple[int, int] | None) -> None:
    producer = Producer(np.arange(6.0).reshape(2, 3)[:, ::2])
    view = import_buffer(producer)
    capsule = view.__dlpack__(max_version=version)
    tensor = producers.tensor_of(capsule).tensor
    assert (tensor.data, tensor.rank, tensor.byte_offset) == (view.ptr, 2, 0)
    assert (tensor.shape[:2], tensor.strides[:2]) == ([2, 2], [3, 2])
    del view, tensor
    producers.call_deleter(capsule)
    assert producer.deleted == 1
    del capsule
    assert producer.deleted == 1


@pytest.mark.parametrize(("legacy", "flags", "assumed", "flag"), [
    (False, 0, False, 0), (False, READ_ONLY, True, READ_ONLY), (True, 0, False, READ_ONLY), (True, 0, True, 0)])
def test_a_versioned_export_is_read_only_unless_writable(legacy: bool, flags: int, assumed: bool, flag: int) -> None:
    view = import_buffer(Producer(np.zeros(2), legacy=legacy, flags=flags), assume_writable=assumed)
    assert producers.tensor_of(view.__dlpack__(max_version=(1, 0))).flags == flag


def test_a_legacy_export() -> None:
    flags = import_buffer(np.array([True, False]))
    assert producers.tensor_of(flags.__dlpack__()).tensor.dtype.code == 1
    assert producers.tensor_of(flags.__dlpack__(max_version=(1, 0))).tensor.dtype.code == 6
    producer = Producer(np.zeros(2), flags=READ_ONLY)
    with pytest.raises(BufferError, match="found a read-only buffer"):
        import_buffer(producer).__dlpack__()
    assert producer.deleted == 1


def test_exports_that_are_refused() -> None:
    view = import_buffer(np.zeros(2))
    for wrong, text in (({"copy": True}, "copy: found True"), ({"dl_device": (2, 0)}, r"wanted \(1, 0\), where it is"),
                        ({"dl_device": (1, 1)}, "dl_device"), ({"stream": 1}, "a CPU buffer takes no stream"),
                        ({"stream": -1}, "a CPU buffer takes no stream")):
        with pytest.raises(BufferError, match=text):
            view.__dlpack__(**wrong)
    for wrong in ({"max_version": 1}, {"max_version": (1,)}, {"max_version": ("a", 0)}, {"other": 1}):
        with pytest.raises(TypeError):
            view.__dlpack__(**wrong)  # type: ignore[arg-type]
    for fine in ({"copy": False}, {"copy": None, "dl_device": (1, 0), "stream": None}):
        assert producers.name_of(view.__dlpack__(**fine)) == b"dltensor"  # type: ignore[arg-type]
    assert view.__dlpack_device__() == (1, 0)


def test_threads_share_a_view() -> None:
    producer = Producer(np.arange(100.0))
    shared = [import_buffer(producer)]
    sums: list[float] = []

    def work() -> None:
        sums.extend(float(np.from_dlpack(import_buffer(shared[0])).sum()) for _ in range(300))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [4950.0] * 1200
    shared.clear()
    assert producer.deleted == 1
