# SPDX-License-Identifier: Apache-2.0
"""Tensors of torch in host memory, in and out."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eagle
from eagle.errors import BufferRefused
from eagle.interop import (
    Requirements,
    detect,
    export_like,
    host_ptr,
    import_buffer,
    origin_adapter,
    refuse_jax_written,
)

torch = pytest.importorskip("torch", reason="framework-missing: torch")

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
          "uint8", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_element_types(name: str) -> None:
    t = torch.tensor([0, 1, 1]).to(getattr(torch, name))
    view = import_buffer(t, require=Requirements(dtype=name, shape=(3,), contiguous=True, writable=True))
    assert (view.ptr, view.access, view.producer, view.device) == (t.data_ptr(), "read-write", "torch.Tensor", (1, 0))
    back = torch.from_dlpack(view)
    assert back.dtype == t.dtype and back.data_ptr() == t.data_ptr() and torch.equal(back, t)
    if name == "bfloat16":
        with pytest.raises(TypeError, match="bfloat16"):
            np.asarray(view)
    else:
        assert np.asarray(view).tolist() == t.tolist()
    assert Requirements(dtype=t.dtype).dtype == name


def test_what_one_side_writes_the_other_reads() -> None:
    t = torch.arange(6.0).reshape(2, 3).T
    view = import_buffer(t)
    assert (view.shape, view.strides) == ((3, 2), (1, 3))
    a, b = np.asarray(view), torch.from_dlpack(view)
    a[2, 1] = 50.0
    b[0, 0] = 40.0
    assert t[2, 1].item() == 50.0 and t[0, 0].item() == 40.0 and b[2, 1].item() == 50.0
    x = np.arange(3.0)
    torch.from_dlpack(import_buffer(x))[1] = 9.0
    assert x.tolist() == [0.0, 9.0, 2.0]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1), (2, 1, 2, 1, 2, 1)])
def test_shapes(shape: tuple[int, ...]) -> None:
    view = import_buffer(torch.zeros(shape), require=Requirements(shape=shape, contiguous=True))
    assert torch.from_dlpack(view).shape == shape and np.asarray(view).shape == shape
    with pytest.raises(BufferRefused, match="found 7 axes"):
        import_buffer(torch.zeros((1,) * 7))


@pytest.mark.parametrize("make", [
    lambda: torch.zeros(3, requires_grad=True), lambda: torch.zeros(3, requires_grad=True) * 2,
    lambda: torch.nn.Parameter(torch.zeros(3)),
])
def test_gradients_are_left_aside(make: Any) -> None:
    t = make()
    view = import_buffer(t)
    assert view.ptr == t.data_ptr() == host_ptr(t)
    assert view.producer == ("torch.Parameter" if isinstance(t, torch.nn.Parameter) else "torch.Tensor")
    gone = weakref.ref(t)
    del t
    gc.collect()
    assert gone() is not None and np.asarray(view).tolist() == [0.0] * 3
    del view
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: torch.zeros(2, dtype=torch.complex64).conj(), BufferError, "conjugate bit"),
    (lambda: torch.zeros(2, dtype=torch.complex64), BufferRefused, "type code 5"),
    (lambda: torch.zeros(2, dtype=torch.complex64).conj().imag, BufferRefused, r"negative bit set.*resolve_neg\(\)"),
    (lambda: torch.zeros(2, dtype=torch.float8_e4m3fn), BufferRefused, "type code 10 of 8 bits"),
    (lambda: torch.eye(2).to_sparse(), BufferError, "layout"),
    (lambda: torch.zeros(2, device="meta"), ValueError, "meta"),
    (lambda: torch._efficientzerotensor((2,)), BufferRefused, "a null pointer for 2 elements"),
])
def test_tensors_without_plain_memory(make: Any, error: type[Exception], text: str) -> None:
    for _ in range(2):
        with pytest.raises(error, match=text):
            import_buffer(make())
    with pytest.raises(error, match=text):
        host_ptr(make())


def test_an_expanded_tensor_is_not_writable() -> None:
    view = import_buffer(torch.zeros(1).expand(4), assume_writable=True)
    assert (view.access, view.writable, view.strides) == ("read-write", False, (0,))
    assert not np.asarray(view).flags.writeable
    with pytest.raises(BufferRefused, match="elements share memory"):
        view.check(Requirements(writable=True))


def test_a_stream_for_the_host() -> None:
    with pytest.raises(BufferRefused, match="a CPU buffer takes no stream"):
        import_buffer(torch.zeros(2), stream=1)


def test_storage_that_moves_is_seen() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    view = import_buffer(parameter)
    assert view.moved() is False
    parameter.data = torch.ones(3)
    assert view.moved() is True
    t = torch.zeros(3)
    view = import_buffer(t)
    t.resize_(100_000)
    assert view.moved() is True


def test_a_read_only_view_reaches_torch_and_not_its_legacy_door() -> None:
    a = np.arange(3.0)
    a.flags.writeable = False
    view = import_buffer(a)
    assert torch.utils.dlpack.from_dlpack(view.__dlpack__(max_version=(1, 0))).data_ptr() == a.ctypes.data
    with pytest.raises(BufferError, match="found a read-only buffer"):
        torch.utils.dlpack.from_dlpack(view.__dlpack__())


def test_a_tensor_lives_as_long_as_its_exports() -> None:
    t = torch.arange(3.0)
    gone = weakref.ref(t)
    b = torch.from_dlpack(import_buffer(import_buffer(t)))
    del t
    gc.collect()
    assert b.tolist() == [0.0, 1.0, 2.0]
    del b
    gc.collect()
    assert gone() is None


def test_the_adapter() -> None:
    t = torch.zeros(2)
    adapter = detect(t)
    assert adapter is not None and (adapter.name, adapter.cuda, adapter.blocking) == ("torch", False, True)
    assert origin_adapter([np.zeros(2), torch.nn.Parameter(t)]).name == "torch"
    assert detect(torch.float32) is None and detect(torch.nn.Linear(1, 1)) is None and detect(t.shape) is None
    native = np.arange(3.0)
    owned = adapter.from_numpy(native)
    assert owned.data_ptr() == native.ctypes.data
    copied = export_like(t, native)
    assert copied.tolist() == [0.0, 1.0, 2.0] and copied.data_ptr() != native.ctypes.data
    assert refuse_jax_written(t, "out") is None
    with adapter.launch_context():
        pass


@pytest.mark.parametrize("name", DTYPES)
def test_copies(name: str) -> None:
    t = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, name))
    into = torch.zeros_like(t)
    eagle.copy(t, into=into)()
    assert torch.equal(t, into)
    if name != "bfloat16":
        a = np.zeros((2, 3), name)
        eagle.copy(t, into=a)()
        assert a.tolist() == t.tolist()
        eagle.copy(a[::-1].copy(), into=into)()
        assert into.tolist() == t.tolist()[::-1]


def test_a_parameter_given_other_storage() -> None:
    layer, source = torch.nn.Linear(3, 2, bias=False), np.arange(6.0, dtype=np.float32).reshape(2, 3)
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: found a tensor that requires grad.*into\.detach"):
        eagle.copy(source, into=layer.weight)
    layer.weight.requires_grad_(False)
    node = eagle.copy(source, into=layer.weight)
    node()
    assert layer.weight.tolist() == source.tolist()
    layer.weight.requires_grad_()
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: found a tensor that requires grad"):
        node()
    layer.weight.requires_grad_(False)
    layer.weight.data = torch.zeros(2, 3)
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: found an array that moved"):
        node()
    assert not layer.weight.any()


def test_tensors_a_copy_refuses() -> None:
    t = torch.zeros(2, 3)
    for into, text in ((t.T, "stride: required C-contiguous"), (torch.zeros(1).expand(3), "stride|access")):
        with pytest.raises(BufferRefused, match=rf"^eagle\.copy: into: torch\.Tensor: ({text})"):
            eagle.copy(torch.zeros(into.shape), into=into)
    with pytest.raises(ValueError, match=r"into: found float32, wanted bfloat16"):
        eagle.copy(t.bfloat16(), into=t)
