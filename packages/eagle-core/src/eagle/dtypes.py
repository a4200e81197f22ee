# SPDX-License-Identifier: Apache-2.0
"""The element types a kernel's planes can have."""

from __future__ import annotations

from typing import Any

import numpy as np

from eagle.errors import refusal, shown

__all__ = ["INT64_MAX", "PLANE_DTYPES", "SCALAR_TYPES", "np_dtype"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: What an artifact can be built in: the type of its Real planes and uniforms.
SCALAR_TYPES = ("float64", "float32", "softdouble")

#: What counts, extents, indices and addresses are at most.
INT64_MAX = 2**63 - 1

#: Every dtype a plane can be declared with, by its wire name.
PLANE_DTYPES = {name: np.dtype(name) for name in ("float64", "float32", "int64", "int32", "uint32", "bool")}


def np_dtype(tag: str) -> np.dtype[Any]:
    """The dtype that stores Real values of an artifact built as `tag` (``softdouble`` is stored as float64).

    Raises ValueError naming an unknown tag.
    """
    if not isinstance(tag, str) or tag not in SCALAR_TYPES:
        raise ValueError(refusal("eagle.dtypes.np_dtype", "tag", shown(tag), f"one of {SCALAR_TYPES}",
                                 "pass the scalar_type of an artifact"))
    return PLANE_DTYPES["float32" if tag == "float32" else "float64"]
