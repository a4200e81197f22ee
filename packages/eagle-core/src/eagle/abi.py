# SPDX-License-Identifier: Apache-2.0
"""The argument-block ABI of a compiled kernel: its tags and the sizes an artifact must agree with."""

from __future__ import annotations

from collections.abc import Sequence

from eagle.errors import refusal

__all__ = ["ABI_TAG_V1", "ABI_TAG_V2", "LAYOUT_FIELDS", "LAYOUT_SIZES", "LAYOUT_SYMBOL", "TAG_SYMBOL", "check_exports"]

ABI_TAG_V1 = "aether-abi/1"
ABI_TAG_V2 = "aether-abi/2"

#: The data symbols every aether-abi/2 object exports.
TAG_SYMBOL = "eagle_abi_tag"
LAYOUT_SYMBOL = "eagle_layout_sizes"

#: What ``eagle_layout_sizes`` lists, in order, and the bytes of each (``include/eagle/plugin.h``).
LAYOUT_FIELDS = ("GRefMirror", "ScalarHandle", "IntHandle", "aether::idx_t", "partition triple")
LAYOUT_SIZES = (40, 32, 32, 4, 24)


def check_exports(door: str, artifact: str, tag: str, sizes: Sequence[int]) -> None:
    """Refuse an artifact whose exported tag or box sizes are not this build's.

    Raises ValueError that names the artifact and the first field that differs.
    """
    if tag != ABI_TAG_V2:
        raise ValueError(refusal(door, artifact, f"the ABI tag {tag!r}", repr(ABI_TAG_V2), "rebuild the artifact"))
    for field, found, wanted in zip(LAYOUT_FIELDS, sizes, LAYOUT_SIZES, strict=True):
        if found != wanted:
            raise ValueError(refusal(door, artifact, f"{found} bytes for {field} in {LAYOUT_SYMBOL}",
                                     f"{wanted} bytes", "rebuild the artifact with headers of this ABI"))
