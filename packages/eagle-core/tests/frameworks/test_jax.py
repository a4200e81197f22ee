# SPDX-License-Identifier: Apache-2.0
"""Arrays of jax in host memory: read, never written."""

from __future__ import annotations

import numpy as np
import pytest

import eagle
from eagle.errors import BufferRefused
from eagle.interop import Requirements, detect, export_like, host_ptr, import_buffer, refuse_jax_written

jax = pytest.importorskip("jax", reason="framework-missing: jax")
jnp = pytest.importorskip("jax.numpy", reason="framework-missing: jax")

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16",
          "uint8", "bool"]


@pytest.fixture(autouse=True)
def _wide() -> object:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", DTYPES)
def test_element_types(name: str) -> None:
    x = jnp.asarray([0, 1, 1], dtype=name)
    view = import_buffer(x, require=Requirements(dtype=name, shape=(3,), contiguous=True))
    assert (view.ptr, view.access) == (x.unsafe_buffer_pointer(), "unknown")
    assert (view.producer, view.device) == ("jaxlib.ArrayImpl", (1, 0))
    back = jnp.from_dlpack(view)
    assert back.tolist() == x.tolist() and back.unsafe_buffer_pointer() == view.ptr


def test_never_written() -> None:
    x = jnp.arange(3.0)
    view = import_buffer(x, assume_writable=True)
    assert view.assumed_writable and not view.writable
    assert not np.asarray(view).flags.writeable and not np.from_dlpack(view).flags.writeable
    with pytest.raises(BufferRefused, match="the producer's arrays never change"):
        import_buffer(x, require=Requirements(writable=True), assume_writable=True)
    with pytest.raises(BufferRefused, match="host_ptr: x: .*access: required read-write"):
        host_ptr(x, writable=True)
    assert host_ptr(x) == x.unsafe_buffer_pointer()
    with pytest.raises(BufferRefused, match="out: found an array of jax"):
        refuse_jax_written(x, "out")


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    view = import_buffer(jnp.zeros(shape), require=Requirements(shape=shape, contiguous=True))
    assert np.asarray(view).shape == shape and jnp.from_dlpack(view).shape == shape


def test_memory_of_others() -> None:
    a = np.zeros(64)
    start = -a.ctypes.data % 64 // 8  # jax shares memory that begins at a multiple of 64 bytes, and copies other
    view = import_buffer(a[start:start + 8])
    x = jnp.from_dlpack(view)
    assert x.unsafe_buffer_pointer() == view.ptr
    a.flags.writeable = False
    with pytest.raises(BufferError, match="found a read-only buffer"):
        jnp.from_dlpack(import_buffer(a))


def test_an_array_lives_as_long_as_its_exports() -> None:
    x = jnp.arange(1000.0) + 1.0
    a = np.asarray(import_buffer(x))
    x.delete()
    assert a.tolist() == [i + 1.0 for i in range(1000)]


def test_the_adapter() -> None:
    x = jnp.zeros(2)
    adapter = detect(x)
    assert adapter is not None and (adapter.name, adapter.cuda, adapter.blocking) == ("jax", False, True)
    seen = []
    jax.jit(lambda tracer: seen.append(detect(tracer)) or tracer)(x)
    assert seen == [adapter]
    native = np.array([0.1, 0.2])
    with jax.enable_x64(False):
        result = export_like(x, native)
    assert isinstance(result, jax.Array) and np.asarray(result).tobytes() == native.tobytes()
    native[0] = 9.0
    assert float(result[0]) == 0.1


@pytest.mark.parametrize("name", DTYPES)
def test_copied_from_and_never_into(name: str) -> None:
    x = jnp.asarray([0, 1, 1], dtype=name)
    into = jnp.zeros(3, dtype=name)
    with pytest.raises(BufferRefused, match=r"^eagle\.copy: into: .*the producer's arrays never change; pass an array"):
        eagle.copy(x, into=into)
    if name != "bfloat16":
        a = np.ones(3, name)
        eagle.copy(x, into=a)()
        assert a.tolist() == x.tolist()
        with pytest.raises(BufferRefused, match="into: .*required read-write"):
            eagle.copy(a, into=import_buffer(into, assume_writable=True))
    assert not into.any()
