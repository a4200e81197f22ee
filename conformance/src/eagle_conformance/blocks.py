# SPDX-License-Identifier: Apache-2.0
"""Memory that kernels and copies reach, between canaries."""

from __future__ import annotations

from eagle_conformance.quirks import Quirks
from eagle_conformance.seam import Library

CANARY = b"\xa5" * 64


class Block:
    """Device memory between canaries."""

    def __init__(self, library: Library, quirks: Quirks, data: bytes) -> None:
        self.library, self.quirks, self.size = library, quirks, len(data)
        self._start = quirks.allocate(library, self.size + 2 * len(CANARY))
        self.address = self._start + len(CANARY)
        quirks.write(library, self._start, CANARY + data + CANARY)

    def read(self) -> bytes:
        """The data, after a look at the canaries."""
        found = self.quirks.read(self.library, self._start, self.size + 2 * len(CANARY))
        assert found[: len(CANARY)] == found[-len(CANARY) :] == CANARY
        return found[len(CANARY) : -len(CANARY)]

    def free(self) -> None:
        """Gives the memory back."""
        self.quirks.free(self.library, self._start)
