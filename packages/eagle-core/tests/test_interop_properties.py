# SPDX-License-Identifier: Apache-2.0
"""Any array of numpy against any requirements, and any DLPack tensor: taken, described and refused as their facts say.

The plain tests run a sample; ``nox -s interop`` runs ``$EAGLE_INTEROP_CASES`` cases.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import producers
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from eagle.errors import BufferRefused
from eagle.interop import Requirements, import_buffer

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(1800)]

CASES = int(os.environ.get("EAGLE_INTEROP_CASES", "400"))
SERVED = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
DTYPES = [*SERVED, *SERVED, ">f8", ">i4", ">u2", "c8", "c16", "M8[ns]", "S3", "U2", "V8", "g"]
Array = np.ndarray[Any, Any]


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Array, bool]:
    """An array somewhere inside a buffer of bytes, and whether it was made by indexing and transposing alone."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    memory = np.arange(2**15, dtype=np.uint32).view(np.uint8)
    start = draw(st.integers(0, 33))
    rank = draw(st.integers(0, 7))
    shape = [draw(st.sampled_from([0, 1, 1, 2, 3, 4])) if axis < 4 else draw(st.sampled_from([1, 1, 1, 2]))
             for axis in range(rank)]
    count = int(np.prod(shape, dtype=np.int64))
    flat: Array = memory[start:start + count * dtype.itemsize].view(dtype)
    array = flat.reshape(shape, order=draw(st.sampled_from("CF")))
    array = array.transpose(draw(st.permutations(range(rank))))
    steps = tuple(slice(draw(st.sampled_from([None, 0, 1])), None, draw(st.sampled_from([1, 1, 1, 2, -1])))
                  for _ in range(rank))
    array = array[(*steps, ...)]
    plain, writable = draw(st.integers(0, 3)) > 0, draw(st.booleans())
    if plain:
        array.flags.writeable = writable
    else:
        strides = [draw(st.sampled_from([0, 1, 2, 3, 5])) * dtype.itemsize + draw(st.sampled_from([0, 0, 0, 1]))
                   for _ in array.shape]
        array = np.lib.stride_tricks.as_strided(array, array.shape, strides, writeable=writable)
    return array, plain


def takes(array: Array) -> bool:
    """Whether the layer has words for the array."""
    steps = [(n, step) for n, step in zip(array.shape, array.strides, strict=True) if n > 1 and array.size]
    return (array.dtype.isnative and array.dtype.str[1:] in {np.dtype(name).str[1:] for name in SERVED}
            and array.ndim <= 6 and all(step >= 0 and step % array.itemsize == 0 for _, step in steps))


def shares_elements(array: Array) -> bool:
    """Whether two elements begin at one address."""
    starts = [sum(i * step for i, step in zip(index, array.strides, strict=True))
              for index in itertools.product(*map(range, array.shape))]
    return len(set(starts)) < len(starts)


@st.composite
def requirements(draw: st.DrawFn, array: Array) -> dict[str, Any]:
    """Requirements that the array meets about as often as not."""
    some: dict[str, Any] = {}
    if draw(st.booleans()):
        some["dtype"] = draw(st.sampled_from([array.dtype.name if takes(array) else "bool", "float64", "int32"]))
    if draw(st.booleans()):
        some["count"] = draw(st.sampled_from([array.size, array.size, array.size + 1, 0]))
    if draw(st.booleans()):
        some["shape"] = draw(st.sampled_from([array.shape, array.shape, array.shape[::-1], (*array.shape, 1)]))
    some["contiguous"] = draw(st.booleans())
    some["alignment"] = draw(st.sampled_from([0, 1, 2, 8, 16, 64]))
    some["device"] = draw(st.sampled_from([None, "cpu", "cuda"]))
    some["device_id"] = draw(st.sampled_from([None, 0, 1]))
    some["writable"] = draw(st.booleans())
    return some


def failing(array: Array, some: dict[str, Any], writable: bool) -> list[str]:
    """The checks that fail, in order, from NumPy's facts."""
    return [check for check, fails in (
        ("dtype", some.get("dtype", array.dtype.name) != array.dtype.name),
        ("count", some.get("count", array.size) != array.size),
        ("shape", some.get("shape", array.shape) != array.shape),
        ("stride", some["contiguous"] and not array.flags.c_contiguous),
        ("alignment", some["alignment"] and array.size and array.ctypes.data % some["alignment"] != 0),
        ("device", some["device"] == "cuda"), ("device id", some["device_id"] == 1),
        ("access", some["writable"] and not writable)) if fails]


def cases(share: float) -> Any:
    """That share of all cases, seeded."""
    some = settings(max_examples=int(CASES * share), deadline=None, database=None,
                    suppress_health_check=list(HealthCheck))
    return lambda test: seed(20240229)(some(test))


@cases(1.0)
@given(data=st.data())
def test_any_array_against_any_requirements(data: st.DataObject) -> None:
    array, plain = data.draw(arrays())
    some = data.draw(requirements(array))
    wanted = Requirements(**some)
    before = array.tobytes()
    if not takes(array):
        with pytest.raises(BufferRefused, match=r"^eagle\.interop\.import_buffer: numpy\.ndarray: "):
            import_buffer(array)
        return
    view = import_buffer(array)
    assert (view.shape, view.ptr, view.dtype) == (array.shape, array.ctypes.data, array.dtype.name)
    assert view.access == ("read-write" if array.flags.writeable else "read-only")
    assert all(step * array.itemsize == given for n, step, given in zip(array.shape, view.strides, array.strides,
                                                                       strict=True) if n > 1 and array.size)
    # Whether elements share memory is told without trying them all: it may be feared for odd strides, never missed.
    free = array.flags.writeable and not shares_elements(array)
    assert view.writable == free if plain else view.writable <= free
    clauses = view.refusals(wanted)
    assert [clause.split(":")[0] for clause in clauses] == failing(array, some, view.writable)
    if clauses:
        with pytest.raises(BufferRefused) as refused:
            import_buffer(array, require=wanted)
        assert str(refused.value).endswith("; ".join(clauses))
    else:
        import_buffer(array, require=wanted)
    for alias in (np.asarray(view), np.from_dlpack(view), np.from_dlpack(import_buffer(view))):
        assert (alias.shape, alias.dtype, alias.flags.writeable) == (array.shape, array.dtype, view.writable)
        assert alias.tobytes() == before and (not array.size or alias.ctypes.data == array.ctypes.data)
    assert view.moved() is False and array.tobytes() == before


SMALL = st.integers(0, 4)
EXTENTS = st.one_of(*[SMALL] * 6, st.sampled_from([-1, 2**31, 2**32, 2**62, 2**63 - 1, -2**63]))
COMMON = st.sampled_from([(2, 64, 1), (2, 32, 1), (0, 8, 1), (6, 8, 1), (4, 16, 1)])
TYPES = st.one_of(*[COMMON] * 4,
                  st.tuples(st.integers(0, 18), st.sampled_from([1, 4, 8, 16, 32, 64, 128]), st.integers(0, 2)))
NUMBERS = {(code, bits) for code, sizes in ((0, (8, 16, 32, 64)), (1, (8, 16, 32, 64)), (2, (16, 32, 64)), (4, (16,)),
                                            (6, (8,))) for bits in sizes}


@cases(0.5)
@given(shape=st.lists(EXTENTS, max_size=7), strides=st.one_of(st.none(), st.lists(EXTENTS, min_size=7, max_size=7)),
       dtype=TYPES, device=st.sampled_from([*[1] * 9, 2, 17, 18, 0, 5, -1]), legacy=st.booleans(),
       version=st.sampled_from([*[(1, 0)] * 9, (0, 9), (1, 3), (2, 0), (2**32 - 1, 0)]),
       data=st.sampled_from([*[producers.FAKE] * 9, None]))
def test_any_tensor(shape: list[int], strides: list[int] | None, dtype: tuple[int, int, int], device: int, legacy: bool,
                    version: tuple[int, int], data: int | None) -> None:
    rank, size, empty = len(shape), dtype[1] // 8, 0 in shape
    steps = None if strides is None else strides[:rank]
    walks = [] if steps is None or empty else [(n, s) for n, s in zip(shape, steps, strict=True) if n > 1]
    cells = int(np.prod([max(n, 1) for n in shape], dtype=object))
    fits = (dtype[:2] in NUMBERS and dtype[2] == 1 and device in (1, 2, 17) and rank <= 6 and min([0, *shape]) == 0
            and (legacy or version[0] <= 1) and cells * size < 2**63 and (data is not None or empty)
            and all(s >= 0 for _, s in walks) and (sum((n - 1) * s for n, s in walks) + 1) * size < 2**63)
    producer = producers.Producer(data, shape=shape, strides=steps, dtype=dtype, device=(device, 0), legacy=legacy,
                                  version=version)
    if fits:
        view = import_buffer(producer)
        assert (view.shape, view.ptr, view.device) == (tuple(shape), data or 0, (device, 0))
        assert view.refusals(Requirements(count=0 if empty else cells)) == []
        assert min([0, *view.strides]) == 0
        assert all(s == given for n, s, given in zip(shape, view.strides, steps or view.strides, strict=True) if n > 1
                   and not empty)
        view.__dlpack__(max_version=(1, 0), stream=view.stream)
        del view
    else:
        with pytest.raises(BufferRefused, match=r"^eagle\.interop\.import_buffer: \w+\.Producer: "):
            import_buffer(producer)
    assert (producer.made, producer.deleted) == (1, 1) and not producers.alive
