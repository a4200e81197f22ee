# SPDX-License-Identifier: Apache-2.0
"""DLPack producers in plain Python: any capsule, well-formed or not, whose deleter is counted."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CPU, CUDA = 1, 2
FAKE = 1 << 20  # an address nobody reads
FLOAT64 = (2, 64, 1)  # type code, bits, lanes
READ_ONLY = 1

api = ctypes.PyDLL(None)  # not ctypes.pythonapi, whose functions others declare too
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("rank", ctypes.c_int32), ("dtype", DataType),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


alive: dict[int, Producer] = {}  # the address of a managed tensor to whoever made it


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def delete(address: int) -> None:
    producer = alive.pop(address)  # a second run of the deleter is a KeyError, which the tests see as a warning
    producer.deleted += 1
    del producer.tensors[address]


api.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
pointer_of_dying = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", api))


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def drop(capsule: int) -> None:
    """The destructor of a capsule nobody took."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if api.PyCapsule_IsValid(capsule, name):
            address = pointer_of_dying(capsule, name)
            if alive[address].has_deleter:
                delete(address)


def integers(values: Any) -> Any:
    return None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values)


class Producer:
    """An object with ``__dlpack__``. It owns nothing: `data` is an address, or an array whose memory it shares.

    `deleted` counts runs of the deleter, `made` capsules, `asked` has the keywords of each call.
    """

    def __init__(self, data: Any = None, *, shape: Any = None, strides: Any = "C",
                 dtype: tuple[int, int, int] = FLOAT64, device: tuple[int, int] = (CPU, 0), rank: int | None = None,
                 offset: int = 0, flags: int = 0, version: tuple[int, int] = (1, 0), legacy: bool = False,
                 name: bytes | None = None, has_deleter: bool = True) -> None:
        if isinstance(data, np.ndarray):
            shape = data.shape if shape is None else shape
            if strides == "C":
                strides = [step // data.itemsize for step in data.strides]
            self.keeps, data = data, data.ctypes.data
        self.facts = (data, shape, None if strides == "C" else strides, dtype, rank, offset)
        self.device, self.flags, self.version = device, flags, version
        self.legacy, self.name, self.has_deleter = legacy, name, has_deleter
        self.made = self.deleted = 0
        self.asked: list[dict[str, Any]] = []
        self.tensors: dict[int, Any] = {}

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        self.asked.append(keywords)
        return self.capsule()

    def capsule(self) -> Any:
        data, shape, strides, dtype, rank, offset = self.facts
        held = integers(shape), integers(strides)
        managed = (Legacy if self.legacy else Versioned)()
        managed.deleter = ctypes.cast(delete, ctypes.c_void_p) if self.has_deleter else None
        if not self.legacy:
            managed.major, managed.minor = self.version
            managed.flags = self.flags
        tensor = managed.tensor
        tensor.data, tensor.byte_offset = data, offset
        tensor.device, tensor.dtype = Device(*self.device), DataType(*dtype)
        tensor.rank = len(shape or ()) if rank is None else rank
        for field, value in zip(("shape", "strides"), held, strict=True):
            if value is not None:
                setattr(tensor, field, ctypes.cast(value, ctypes.POINTER(ctypes.c_int64)))
        address = ctypes.addressof(managed)
        self.tensors[address] = managed, held
        alive[address] = self
        self.made += 1
        name = self.name or (b"dltensor" if self.legacy else b"dltensor_versioned")
        return api.PyCapsule_New(address, name, ctypes.cast(drop, ctypes.c_void_p))


class OldProducer(Producer):
    """One from before version 1.0, whose ``__dlpack__`` takes a stream alone."""

    def __init__(self, data: Any = None, **facts: Any) -> None:
        super().__init__(data, legacy=True, **facts)

    def __dlpack__(self, stream: int | None = None) -> Any:
        self.asked.append({"stream": stream})
        return self.capsule()


class Remembering(Producer):
    """One that keeps its capsules."""

    def __init__(self, data: Any = None, **facts: Any) -> None:
        super().__init__(data, **facts)
        self.capsules: list[Any] = []

    def capsule(self) -> Any:
        self.capsules.append(super().capsule())
        return self.capsules[-1]


def named(kind: type) -> str:
    """What messages call the producer of a type."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


def name_of(capsule: Any) -> bytes:
    return bytes(api.PyCapsule_GetName(capsule))


def tensor_of(capsule: Any) -> Any:
    """The managed tensor in a capsule of any name; valid while the capsule is."""
    name = name_of(capsule)
    kind = Versioned if b"versioned" in name else Legacy
    return kind.from_address(api.PyCapsule_GetPointer(capsule, name))


def call_deleter(capsule: Any) -> None:
    """Consumes a capsule: renames it and runs its tensor's deleter."""
    managed = tensor_of(capsule)
    assert api.PyCapsule_SetName(capsule, {b"dltensor": b"used_dltensor"}.get(name_of(capsule),
                                                                            b"used_dltensor_versioned")) == 0
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)(ctypes.addressof(managed))

