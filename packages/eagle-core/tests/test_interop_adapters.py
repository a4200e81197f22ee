# SPDX-License-Identifier: Apache-2.0
"""Which framework an array belongs to, addresses of host arrays, and the way to CuPy, with stand-ins for frameworks."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest
from producers import CUDA, FAKE, READ_ONLY, OldProducer, Producer

from eagle.errors import BackendUnavailable, BufferRefused
from eagle.interop import (
    Adapter,
    as_out_buffer,
    detect,
    export_like,
    external_stream,
    host_ptr,
    import_buffer,
    origin_adapter,
    refuse_jax_written,
    to_cupy,
)

pytestmark = pytest.mark.usefixtures("no_tensor_is_left")


def of(module: str, **members: Any) -> Any:
    """An object whose type says that it is an array of a framework."""
    return type("Array", (), {"__module__": module, "shape": (), "dtype": None, **members})()


def raising(*_: object) -> Any:
    raise RuntimeError("not yet known")


HOST, ON_CUDA = {"__dlpack_device__": lambda self: (1, 0)}, {"__dlpack_device__": lambda self: (CUDA, 0)}
DLPACK = {"__dlpack__": raising}


@pytest.mark.parametrize(("x", "name", "cuda", "blocking"), [
    (np.zeros(2), "numpy", False, True), (np.float64(1), "numpy", False, True), (np.ma.zeros(2), "numpy", False, True),
    (of("cupy", **ON_CUDA), "cupy", True, False), (of("torch", **HOST), "torch", False, True),
    (of("torch.nn.parameter", **ON_CUDA), "torch", True, False), (of("jaxlib._jax", **HOST), "jax", False, True),
    (of("jax._src.core", __dlpack_device__=raising), "jax", False, True), (of("jax", **ON_CUDA), "jax", True, True),
    (of("tensorflow.python", is_cuda=True), "tensorflow", True, True),
    (of("tensorflow", device="/job:x/device:GPU:0"), "tensorflow", True, True),
    (of("tensorflow", device="CPU"), "tensorflow", False, True),
    (of("torch", is_cuda=property(raising)), "torch", False, True),
    (of("warp", **DLPACK, **HOST), "dlpack", False, True), (of("warp", **DLPACK, **ON_CUDA), "dlpack", True, False),
    (import_buffer(np.zeros(2)), "dlpack", False, True), (of("x", __cuda_array_interface__={}), "cai", True, False),
])
def test_what_is_detected(x: Any, name: str, cuda: bool, blocking: bool) -> None:
    adapter = detect(x)
    assert adapter == Adapter(name, cuda) and adapter.blocking is blocking


@pytest.mark.parametrize("x", [
    None, 3, 2.5, "a", [np.zeros(2)], {}, np.dtype("f8"), np.ndarray, np, object(), Producer, of("x", **DLPACK),
    of("x", __array_interface__={}), of("x", __dlpack__=property(raising)),
    type("size", (tuple,), {"__module__": "torch"})(),
], ids=lambda x: type(x).__name__)
def test_what_is_no_array(x: Any) -> None:
    assert detect(x) is None


def test_a_class_of_the_users_own() -> None:
    tensor = type("Tensor", (), {"__module__": "torch", "shape": (), "dtype": None, **HOST})
    mine = type("Mine", (tensor,), {"__module__": "somewhere"})
    assert detect(mine()) == Adapter("torch", False)


def test_where_results_go() -> None:
    host, device = np.zeros(2), of("cupy", **ON_CUDA)
    torch, jax = of("torch", **HOST), of("jax", **HOST)
    assert origin_adapter([]) == origin_adapter([None, 3, host]) == Adapter("numpy", False)
    assert origin_adapter([host, device, of("x", __cuda_array_interface__={})]) == Adapter("cupy", True)
    assert origin_adapter([device, torch, host]) == Adapter("torch", False)
    assert origin_adapter(iter([torch, torch])).name == "torch"
    with pytest.raises(TypeError, match=r"^eagle\.origin_adapter: 'candidate 0' and 'candidate 2': found "
                                        "arrays of torch and of jax"):
        origin_adapter([torch, host, jax])


def test_written_arrays_of_jax() -> None:
    assert refuse_jax_written(np.zeros(2), "out") is None and refuse_jax_written(None, "out") is None
    with pytest.raises(BufferRefused, match="mutable 'v': found an array of jax, which never changes"):
        refuse_jax_written(of("jaxlib._jax", **HOST), "mutable 'v'")


# ---- addresses -------------------------------------------------------------------------------------------------------


def test_addresses() -> None:
    a = np.arange(6.0).reshape(2, 3)
    for x in (a, Producer(a), import_buffer(a), a.view(np.ndarray)):
        assert host_ptr(x) == host_ptr(x, writable=True) == a.ctypes.data
    assert host_ptr(OldProducer(a)) == a.ctypes.data


@pytest.mark.parametrize(("x", "writable", "kind", "text"), [
    (np.zeros((4, 4))[:, ::2], False, BufferRefused, "stride: required C-contiguous"),
    (np.zeros((4, 4)).T, False, BufferRefused, "stride: required C-contiguous"),
    (np.broadcast_to(1.0, 3), True, BufferRefused, "access: required read-write, got read-only"),
    (Producer(np.zeros(3), flags=READ_ONLY), True, BufferRefused, "got read-only"),
    (OldProducer(np.zeros(3)), True, BufferRefused, "got unknown"), (np.zeros(3, ">f8"), False, BufferRefused, "'>f8'"),
    (np.zeros(3)[::-1], False, BufferRefused, "negative stride"),
    (Producer(FAKE, shape=(3,), device=(CUDA, 0)), False, TypeError, "wanted host memory"),
    ([1.0], False, TypeError, "a list"), (None, False, TypeError, "NoneType"), ("text", False, TypeError, "a str"),
    (np.float64(1), False, TypeError, "a float64"), (3, False, TypeError, "an int|a int"),
])
def test_addresses_nobody_has(x: Any, writable: bool, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"^eagle\.interop\.host_ptr: x: .*{text}"):
        host_ptr(x, writable=writable)


# ---- CuPy ------------------------------------------------------------------------------------------------------------


class DeviceArray:
    """Stands in for an array of CuPy; its memory is numpy's."""

    __module__ = "cupy"
    shape: Any = None
    dtype: Any = None

    def __init__(self, a: np.ndarray[Any, Any]) -> None:
        self.a = a
        self.dtype, self.shape, self.flags = a.dtype, a.shape, a.flags

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, **_: Any) -> None: ...

    def copy(self) -> DeviceArray:
        return DeviceArray(self.a.copy())


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module cupy in memory of the host."""
    module = types.ModuleType("cupy")
    module.asarray = lambda x: x if isinstance(x, DeviceArray) else DeviceArray(np.asarray(x))  # type: ignore[attr-defined]
    module.from_dlpack = lambda x: DeviceArray(x.a)  # type: ignore[attr-defined]
    module.asnumpy = lambda x: x.a.copy()  # type: ignore[attr-defined]
    module.cuda = types.SimpleNamespace(ExternalStream=lambda code: [code])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def test_without_cupy() -> None:
    for call in (lambda: to_cupy(np.zeros(2)), lambda: external_stream(7), lambda: to_cupy([1.0])):
        with pytest.raises(BackendUnavailable, match="wanted the package cupy"):
            call()


def test_to_cupy(cupy: types.ModuleType) -> None:
    device = DeviceArray(np.arange(3.0))
    assert to_cupy(device) is device
    other = of("warp", a=np.arange(3.0), **DLPACK, **ON_CUDA)
    assert to_cupy(other).a is other.a
    for host in (np.arange(3.0), import_buffer(np.arange(3.0)), [0.0, 1.0, 2.0], Producer(np.arange(3.0)),
                 OldProducer(np.arange(3.0))):
        assert to_cupy(host).a.tolist() == [0.0, 1.0, 2.0]


def test_streams_of_cupy(cupy: types.ModuleType) -> None:
    stream = external_stream(4711)
    assert stream == [4711] and external_stream(4711) is stream and external_stream(4712) is not stream
    with pytest.raises(BufferRefused, match=r"^eagle\.interop\.external_stream: stream: found 0"):
        external_stream(0)


def test_out_buffers(cupy: types.ModuleType) -> None:
    out = DeviceArray(np.zeros((2, 3)))
    assert as_out_buffer(out, (2, 3)) is out
    for x in (np.zeros((2, 3)), None, [1.0], Producer(np.zeros(3))):
        with pytest.raises(TypeError, match="wanted an array of a CUDA device"):
            as_out_buffer(x, (2, 3))
    with pytest.raises(BufferRefused, match="out: found an array of jax"):
        as_out_buffer(of("jaxlib", **ON_CUDA), (2, 3))
    for wrong, dtype in ((np.zeros(6), np.float64), (np.zeros((2, 3)), np.float32), (np.zeros((3, 2)).T, np.float64)):
        with pytest.raises(BufferRefused, match=r"wanted float(64|32) \(2, 3\), contiguous"):
            as_out_buffer(DeviceArray(wrong), (2, 3), dtype)


def test_results_like_an_argument(cupy: types.ModuleType) -> None:
    native = np.arange(3.0)
    for like in (np.zeros(2), None, 3.0, import_buffer(np.zeros(2))):
        result = export_like(like, native)
        assert type(result) is np.ndarray and result.tolist() == [0.0, 1.0, 2.0] and result is not native
        down = export_like(like, DeviceArray(native))
        assert type(down) is np.ndarray and down.tolist() == [0.0, 1.0, 2.0]
    device = DeviceArray(np.zeros(2))
    assert export_like(device, native).a.tolist() == [0.0, 1.0, 2.0]
    copied = export_like(device, device)
    assert copied is not device and copied.a.tolist() == [0.0, 0.0]


def test_importing_it_imports_no_framework() -> None:
    code = ("import sys, eagle.interop; found = {'torch', 'jax', 'cupy', 'warp', 'tensorflow', 'raptor', 'hawk'}; "
            "print(sorted(found & sys.modules.keys()))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
