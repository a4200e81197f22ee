# SPDX-License-Identifier: Apache-2.0
"""Array interfaces, requirements, devices and their streams."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest
from producers import CUDA, FAKE, OldProducer, Producer, named

import eagle
from conftest import MakeLibrary, Site
from eagle.errors import BackendUnavailable, BufferRefused
from eagle.interop import Requirements, import_buffer, refence

pytestmark = [pytest.mark.smoke, pytest.mark.usefixtures("no_tensor_is_left")]

LEFT_OUT = object()


# ---- array interfaces ------------------------------------------------------------------------------------------------


class Interface:
    """An object with an array interface of any content."""

    def __init__(self, name: str = "__array_interface__", **facts: Any) -> None:
        self.memory = np.arange(6.0)
        self.facts = {"shape": (3,), "typestr": "<f8", "data": (self.memory.ctypes.data, False), "version": 3, **facts}
        setattr(self, name, {key: value for key, value in self.facts.items() if value is not LEFT_OUT})


def test_an_array_interface() -> None:
    x = Interface(strides=(16,))
    view = import_buffer(x)
    assert (view.shape, view.strides, view.dtype, view.access) == ((3,), (2,), "float64", "read-write")
    assert np.asarray(view).tolist() == [0.0, 2.0, 4.0]
    gone = weakref.ref(x)
    b = np.from_dlpack(view)
    del x, view
    gc.collect()
    assert gone() is not None and b.tolist() == [0.0, 2.0, 4.0]
    del b
    assert gone() is None
    assert import_buffer(Interface(data=(FAKE, True))).access == "read-only"
    assert import_buffer(Interface(shape=(0,), data=(0, False))).ptr == 0
    assert import_buffer(Interface(typestr="|b1")).dtype == "bool"


@pytest.mark.parametrize(("facts", "text"), [
    ({"data": LEFT_OUT}, "found None as data of __array_interface__, wanted a tuple"),
    ({"data": bytes(24)}, "as data of __array_interface__, wanted a tuple"),
    ({"data": (1,)}, r"found \(1,\) as data of __array_interface__, wanted a pair"),
    ({"data": ("a", False)}, "wanted a pair"), ({"data": (-1, False)}, "wanted a pair"),
    ({"data": (0, False)}, "found a null pointer for 3 elements"),
    ({"shape": LEFT_OUT}, "as shape of"), ({"shape": [3]}, "as shape of"), ({"shape": (2.5,)}, "integers of 64 bits"),
    ({"shape": (2**63,)}, "integers of 64 bits"), ({"shape": (-1,)}, "found extent -1 of axis 0"),
    ({"shape": (1,) * 7}, "7 axes"), ({"strides": (8, 8)}, "found 2 strides, wanted 1"),
    ({"strides": (12,)}, "a stride of 12 bytes"), ({"strides": (-8,)}, "the negative stride -1"),
    ({"strides": "x"}, "as strides of"), ({"typestr": LEFT_OUT}, "as typestr of"), ({"typestr": 8}, "as typestr of"),
    ({"typestr": ">f8"}, "found '>f8'"), ({"typestr": "<c16"}, "found '<c16'"), ({"typestr": "|V8"}, "found '|V8'"),
    ({"typestr": "f8"}, "found 'f8'"), ({"typestr": ""}, "found ''"), ({"typestr": "<f99999999999"}, "found '<f99"),
    ({"mask": Interface()}, "mask: found a masked array, wanted an array without a mask; pass"),
])
def test_a_malformed_array_interface(facts: dict[str, Any], text: str) -> None:
    with pytest.raises(BufferRefused, match=text) as refused:
        import_buffer(Interface(**facts))
    assert f": {named(Interface)}: " in str(refused.value)


def test_a_negative_bit() -> None:
    x = Producer(np.arange(3.0))
    x.is_neg = lambda: False  # type: ignore[attr-defined]
    assert import_buffer(x).shape == (3,)
    x.is_neg = lambda: True  # type: ignore[attr-defined]
    with pytest.raises(BufferRefused, match=r"negative bit set.*resolve_neg\(\)"):
        import_buffer(x)


def test_an_interface_that_is_no_dict() -> None:
    thing = Interface()
    thing.__array_interface__ = 5  # type: ignore[attr-defined]
    with pytest.raises(BufferRefused, match="found 5 as __array_interface__, wanted a dict"):
        import_buffer(thing)


# ---- requirements ----------------------------------------------------------------------------------------------------


def test_clauses_in_order() -> None:
    memory = np.zeros(64, np.uint8)
    start = (-memory.ctypes.data) % 16 + 4
    a = memory[start:start + 40].view(np.float32)[::2]
    a.flags.writeable = False
    wanted = Requirements(dtype="float64", count=10, shape=(10,), contiguous=True, alignment=16, device="cuda",
                          device_id=1, writable=True)
    clauses = ["dtype: required float64, got float32", "count: required 10 elements, got 5",
               "shape: required (10,), got (5,)",
               "stride: required C-contiguous with unit stride, got strides (2,) for shape (5,)",
               f"alignment: required a multiple of 16 bytes, got address {hex(a.ctypes.data)}, 4 bytes past a multiple",
               "device: required cuda, got cpu", "device id: required 1, got 0",
               "access: required read-write, got read-only"]
    view = import_buffer(a)
    assert view.refusals(wanted) == clauses
    with pytest.raises(BufferRefused) as refused:
        view.check(wanted)
    assert str(refused.value) == "BufferView.check: numpy.ndarray: " + "; ".join(clauses)
    with pytest.raises(BufferRefused) as refused:
        import_buffer(a, require=wanted)
    assert str(refused.value) == "eagle.interop.import_buffer: numpy.ndarray: " + "; ".join(clauses)
    assert view.check(Requirements()) is None and view.refusals(Requirements()) == []


def test_an_unknown_access_tells_how_to_assert() -> None:
    assert import_buffer(OldProducer(np.zeros(2))).refusals(Requirements(writable=True)) == [
        "access: required read-write, got unknown; assume_writable=True asserts that it may be written"]
    import_buffer(OldProducer(np.zeros(2)), require=Requirements(writable=True), assume_writable=True)


@pytest.mark.parametrize("dtype", ["float32", "f4", np.float32, np.dtype("f4"), "<f4"])
def test_spellings_of_a_dtype(dtype: Any) -> None:
    assert Requirements(dtype=dtype).dtype == "float32"
    assert Requirements(dtype="bfloat16").dtype == "bfloat16" and Requirements(dtype=bool).dtype == "bool"


@pytest.mark.parametrize(("wrong", "kind"), [
    ({"dtype": "float99"}, ValueError), ({"dtype": np.complex128}, ValueError), ({"dtype": 7}, ValueError),
    ({"count": -1}, ValueError), ({"count": 2.5}, TypeError), ({"count": True}, ValueError),
    ({"shape": (2, -1)}, ValueError), ({"shape": "ab"}, TypeError), ({"shape": (2.0,)}, TypeError),
    ({"shape": (2**64,)}, ValueError), ({"alignment": 3}, ValueError), ({"alignment": -8}, ValueError),
    ({"alignment": "8"}, TypeError), ({"device": "tpu"}, ValueError), ({"device": 1}, TypeError),
    ({"device_id": -1}, ValueError), ({"device_id": "0"}, TypeError),
])
def test_requirements_nothing_can_meet(wrong: dict[str, Any], kind: type[Exception]) -> None:
    with pytest.raises(kind, match=rf"^eagle\.interop\.Requirements: {next(iter(wrong))}: found "):
        Requirements(**wrong)


def test_requirements_as_an_object() -> None:
    wanted = Requirements(dtype="f8", shape=[2, np.int64(3)], device="cpu")
    assert (wanted.dtype, wanted.count, wanted.shape, wanted.contiguous) == ("float64", None, (2, 3), False)
    assert (wanted.alignment, wanted.device, wanted.device_id, wanted.writable) == (0, "cpu", None, False)
    assert repr(wanted) == "Requirements(device='cpu', dtype='float64', shape=(2, 3))"
    with pytest.raises(AttributeError, match="wanted a new Requirements"):
        wanted.count = 3
    with pytest.raises(TypeError):
        Requirements("float64")  # type: ignore[misc]
    with pytest.raises(TypeError, match="require: found str, wanted eagle.interop.Requirements"):
        import_buffer(np.zeros(2)).refusals("float64")  # type: ignore[arg-type]


# ---- devices and streams ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device_type", [2, 3, 4, *range(7, 18)])
def test_records_of_devices(device_type: int) -> None:
    producer = Producer(FAKE, shape=(4,), device=(device_type, 3), legacy=True)
    view = import_buffer(producer)
    assert (view.device, view.stream, view.access) == ((device_type, 3), 1, "unknown")
    assert import_buffer(producer, stream=77).stream == 77
    again = import_buffer(view, stream=1)
    assert again.device == (device_type, 3) and again.ptr == FAKE
    if device_type != 3:
        with pytest.raises(TypeError, match="wanted an element type of numpy in host memory"):
            np.asarray(view)


def test_codes_of_streams() -> None:
    producer = Producer(FAKE, shape=(4,), device=(CUDA, 0))

    class Stream:
        cuda_stream = 55

    class Protocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 56

    for stream, code in ((None, 1), (1, 1), (2, 2), (-1, -1), (99, 99), (Stream(), 55), (Protocol(), 56)):
        assert import_buffer(producer, stream=stream).stream == code
    for wrong, text in ((0, "found 0, which is ambiguous"), (-2, "found -2, wanted -1 or a stream"),
                        (2**63, "wanted -1")):
        with pytest.raises(BufferRefused, match=text):
            import_buffer(producer, stream=wrong)
    for thing in (True, "1", 1.0, object()):
        with pytest.raises(TypeError, match="wanted an int, or an object with __cuda_stream__"):
            import_buffer(producer, stream=thing)


def test_ordering_needs_a_backend(site: Site) -> None:
    view = import_buffer(Producer(FAKE, shape=(4,), device=(CUDA, 0)), stream=5)
    for silent in (5, -1):
        view.refence(silent)
        refence(5, silent)
        view.__dlpack__(stream=silent)
    for call in (lambda: view.refence(6), lambda: view.refence(None), lambda: refence(5, 6), lambda: refence(None, 2),
                 lambda: view.__dlpack__(stream=2), lambda: np.from_dlpack(view)):
        with pytest.raises(BackendUnavailable):
            call()
    host = import_buffer(np.zeros(2))
    assert host.refence(None) is None
    with pytest.raises(BufferRefused, match="a CPU buffer takes no stream"):
        host.refence(1)
    for codes in ((0, 1), (1, 0), (1, -2), (-2, 1)):
        with pytest.raises(BufferRefused, match=r"^eagle\.interop\.refence: stream: found"):
            refence(*codes)
    with pytest.raises(TypeError):
        refence(1, 2, device="0")  # type: ignore[arg-type]
    with pytest.raises(BufferRefused, match="device: found -2"):
        refence(1, 2, device=-2)


def test_ordering_goes_to_the_backend(site: Site, make_library: MakeLibrary) -> None:
    bits = "(UINT64_C(1) << EAGLE_CAP_DEVICE | 1 << EAGLE_CAP_INTEROP | 1 << EAGLE_CAP_FILTERING)"
    library = make_library("shine", DEVICES=CUDA, BITS=bits, FENCES=1)
    site.install_backend("shine", "shine", library, device_types=(CUDA,))
    fake = ctypes.CDLL(str(library))
    count = ctypes.c_int32.in_dll(fake, "fences")
    rows = (ctypes.c_int64 * 4 * 16).in_dll(fake, "fenced")
    count.value = 0
    view = import_buffer(Producer(FAKE, shape=(4,), device=(CUDA, 1)), stream=5)
    view.refence(6)
    view.__dlpack__(stream=7)
    view.__dlpack__()
    view.__dlpack__(stream=5)
    refence(8, 9, device=1)
    refence(8, 9)
    assert [list(row) for row in rows[:count.value]] == [[2, 1, 5, 6], [2, 1, 5, 7], [2, 1, 5, 1], [2, 1, 8, 9],
                                                         [2, -1, 8, 9]]
    count.value = 0
    name = "__cuda_array_interface__"
    for facts, stream, device in (({"data": (FAKE, False), "stream": 4}, 3, 0),
                                  ({"data": (2**40, True), "stream": 1}, None, 1),
                                  ({"data": (FAKE, False)}, 3, 0), ({"shape": (0,), "data": (0, False)}, None, 0)):
        view = import_buffer(Interface(name, **facts), stream=stream)
        assert (view.device, view.stream) == ((CUDA, device), stream or 1)
        assert view.access == ("read-only" if device else "read-write")
    assert [list(row) for row in rows[:count.value]] == [[2, 0, 4, 3]]
    for facts in ({"stream": 0}, {"stream": "x"}, {"mask": 1}):
        with pytest.raises(BufferRefused):
            import_buffer(Interface(name, **facts))


def test_the_cuda_array_interface_needs_a_backend(site: Site) -> None:
    with pytest.raises(BackendUnavailable, match="DLPack device type 2"):
        import_buffer(Interface("__cuda_array_interface__"))
    assert import_buffer(Interface("__cuda_array_interface__", shape=(0,), data=(0, False))).device == (2, 0)


def test_names_at_the_first_level() -> None:
    assert eagle.detect is eagle.interop.detect and eagle.to_cupy is eagle.interop.to_cupy
    assert eagle.origin_adapter is eagle.interop.origin_adapter
    assert eagle.interop.BufferRefused is eagle.BufferRefused
