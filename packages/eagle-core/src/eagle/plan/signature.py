# SPDX-License-Identifier: Apache-2.0
"""A plugin's declaration as slots: what each plane and uniform must be, checked once per plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from eagle import roles
from eagle.abi import ABI_TAG_V2
from eagle.dtypes import PLANE_DTYPES, np_dtype
from eagle.errors import refusal, shown

__all__ = ["Box", "Signature", "Slot", "read_signature"]

WIDEST = 2**20  # components of a plane


class Box(IntEnum):
    """How a slot rides in the argument block; the numbers are those of ``native/kernel.h``."""

    HANDLE = 0
    MIRROR = 1
    FLOAT64 = 2
    FLOAT32 = 3
    INT64 = 4
    SAMPLE_COUNT = 5
    CELL = 6


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of ``arg_spec``, resolved."""

    role: str
    name: str
    box: Box
    dtype: np.dtype[Any]
    width: int = 1
    matrix: tuple[int, int] | None = None  #: (R, C) where declared
    reads_prior: bool = False  #: the kernel reads the value the launch starts from
    writes: bool = False
    zero: bool = False  #: left out, it starts at zero; else the kernel writes every cell
    start: int = 0  #: a word's start value
    declared: bool = True  #: the plugin declares the dtype; else integer and bool arrays pass unchanged

    @property
    def is_plane(self) -> bool:
        return self.box in (Box.HANDLE, Box.MIRROR)

    @property
    def is_array(self) -> bool:
        """A plane or a word: what the caller gives as an array."""
        return self.is_plane or self.is_word

    @property
    def is_uniform(self) -> bool:
        return self.role == roles.UNIFORM

    @property
    def is_output(self) -> bool:
        return self.role in roles.OUTPUTS

    @property
    def is_word(self) -> bool:
        return self.box is Box.CELL

    def shape(self, n: int) -> tuple[int, ...]:
        """The component-major shape over `n` samples."""
        return (n,) if self.box is Box.HANDLE else (self.width, n)

    def omissible(self, door: str) -> bool:
        """Whether `door` ("run", "call" or "bind") may leave the slot out."""
        if self.is_word or self.role == "nsamples":
            return True
        if door == "run":
            return self.is_output
        if door == "call":
            return (self.is_output and not self.reads_prior) or self.role == roles.MASK
        return False


@dataclass(frozen=True, slots=True)
class Signature:
    """The slots of one kernel, in block order."""

    kernel: str
    access: str
    slots: tuple[Slot, ...]
    unread: frozenset[str]  #: parameters the kernel declares and never reads

    @property
    def names(self) -> list[str]:
        """The names a caller gives."""
        return [s.name for s in self.slots if not s.is_word and s.role != "nsamples"]

    def required(self, door: str) -> list[str]:
        """The names `door` ("run", "call" or "bind") does not do without."""
        return [s.name for s in self.slots if not s.omissible(door)]

    @property
    def aliasable(self) -> bool:
        """Whether an input may be the very array of the output: one output of one component is written last."""
        written = [s for s in self.slots if s.writes]
        return len(written) == 1 and written[0].width == 1


def read_signature(door: str, plugin: Any, access: str) -> Signature:
    """The slots `plugin` declares.

    Raises ValueError for a declaration that is malformed, and for kernel forms this version does not run, naming the
    kernel, the slot and the form.
    """
    kernel = str(getattr(plugin, "name", None) or getattr(plugin, "kernel", None) or "kernel")
    try:
        return _read(door, kernel, plugin, access)
    except (AttributeError, TypeError, KeyError, IndexError) as error:
        raise ValueError(refusal(door, f"kernel {kernel!r}", f"a declaration that cannot be read ({error})",
                                 "the attributes of a loaded kernel")) from error


def _read(door: str, kernel: str, plugin: Any, access: str) -> Signature:
    spec = _pairs(door, kernel, plugin.arg_spec)
    _refuse_forms(door, kernel, plugin)
    real = np_dtype(getattr(plugin, "scalar_type", None) or "float64")
    declared: Mapping[str, str] = getattr(plugin, "arg_dtypes", None) or {}
    widths: Mapping[str, int] = getattr(plugin, "arg_widths", None) or {}
    shapes: Mapping[str, Any] = getattr(plugin, "mat_shapes", None) or {}
    vectors = frozenset(getattr(plugin, "vec_mutables", None) or ())
    matrices = frozenset(getattr(plugin, "mat_mutables", None) or ())
    priors = getattr(plugin, "prior_mutables", None)  # absent: any mutable may be read first
    integers = _integer_params(getattr(plugin, "params", None) or ())
    masked = any(role == roles.MASK for role, _ in spec)
    readonly_mask = bool(getattr(plugin, "terminated_readonly", False))
    slots = []
    for role, name in spec:
        where = f"kernel {kernel!r}, slot ({role!r}, {name!r})"
        if role == roles.UNIFORM:
            box = Box.INT64 if name in integers else Box.FLOAT32 if real == np.float32 else Box.FLOAT64
            slots.append(Slot(role, name, box, np.dtype(np.int64) if name in integers else real))
        elif role == "nsamples":
            slots.append(Slot(role, name, Box.SAMPLE_COUNT, np.dtype(np.uint32)))
        elif role == "lookup" and name in roles.WORDS:
            tag, start = roles.WORDS[name]
            slots.append(Slot(role, name, Box.CELL, PLANE_DTYPES[tag], writes=name == roles.FINISHED_COUNT,
                              start=start))
        elif role in (*roles.INPUTS, *roles.OUTPUTS, roles.MASK):
            default = "bool" if role == roles.MASK else real.name
            tag = declared.get(name, default)
            if tag not in PLANE_DTYPES:
                raise ValueError(refusal(door, where, f"the dtype {tag!r}", f"one of {tuple(PLANE_DTYPES)}"))
            wide = role in ("vec_in", "mat_in") or name in vectors or name in matrices
            width = widths.get(name, 0 if wide else 1)
            if not isinstance(width, int) or isinstance(width, bool) or not 1 <= width <= WIDEST:
                raise ValueError(refusal(door, where, f"the width {shown(width)}", f"an integer of 1 to {WIDEST}",
                                         "declare it in arg_widths"))
            if not wide and width != 1:
                raise ValueError(refusal(door, where, f"the width {width}", "1 for a scalar plane",
                                         "declare it as a vector or matrix"))
            output = role in roles.OUTPUTS
            prior = output and (priors is None or name in priors)
            slots.append(Slot(role, name, Box.MIRROR if wide else Box.HANDLE, PLANE_DTYPES[tag], width,
                              _matrix(shapes.get(name), width), reads_prior=prior and role == "mutable",
                              writes=output or (role == roles.MASK and not readonly_mask),
                              zero=masked or prior or role == roles.MASK,
                              declared=name in declared or role == roles.MASK))
        elif role in roles.ROLES:
            raise ValueError(refusal(door, where, f"the role {role!r}",
                                     "scalar, Vector, Matrix and Quat planes, Param, Mutable, Terminated",
                                     "this version runs no tables, wide buffers or scatter sinks"))
        else:
            raise ValueError(refusal(door, where, f"the role {role!r}", f"one of {roles.ROLES}"))
    return Signature(kernel, access, tuple(slots), frozenset(getattr(plugin, "unread", None) or ()))


def _pairs(door: str, kernel: str, spec: Any) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for item in spec if isinstance(spec, Iterable) and not isinstance(spec, str | bytes) else ():
        pair = tuple(item) if isinstance(item, list | tuple) else ()
        if len(pair) != 2 or not all(isinstance(word, str) for word in pair):
            raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", repr(item), "a (role, name) pair of text"))
        pairs.append(pair)
    if not pairs:
        raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", repr(spec), "at least one (role, name) pair"))
    names = [name for _, name in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", f"{name!r} twice", "each name once"))
        if name in ("device", "layout"):
            raise ValueError(refusal(door, f"kernel {kernel!r}, arg_spec", f"a plane named {name!r}", "another name",
                                     f"{name}= is a keyword of run and bind"))
    return pairs


def _refuse_forms(door: str, kernel: str, plugin: Any) -> None:
    """Refuse what needs more than a launch over samples."""
    space = getattr(plugin, "lane_space", None)
    plain = space is None or (isinstance(space, Mapping) and space.get("group", 1) == 1
                              and [dict(a) for a in space.get("axes", ())] in ([], [{"label": None, "extent": None}]))
    found = {
        "a Grid lane space": not plain,
        "a thread box": bool(getattr(plugin, "box", None)),
        "reductions over samples": bool(getattr(plugin, "cells", None)),
        "stages": bool(getattr(plugin, "stages", None)),
        "a legacy entry, not " + ABI_TAG_V2: (getattr(plugin, "abi_tag", None) or ABI_TAG_V2) != ABI_TAG_V2,
    }
    for form, present in found.items():
        if present:
            raise ValueError(refusal(door, f"kernel {kernel!r}", form, "a kernel of plain per-sample planes",
                                     "this version does not run that form"))


def _integer_params(params: Iterable[Any]) -> frozenset[str]:
    return frozenset(p["name"] for p in params if isinstance(p, Mapping) and p.get("dtype") == "int")


def _matrix(shape: Any, width: int) -> tuple[int, int] | None:
    if isinstance(shape, list | tuple) and len(shape) == 2 and all(isinstance(side, int) for side in shape):
        return (shape[0], shape[1]) if shape[0] * shape[1] == width else None
    return None
