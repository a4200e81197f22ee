# SPDX-License-Identifier: Apache-2.0
"""What the suite cannot learn from a library: how to make a kernel for it, and how to reach its memory.

Quirks hold no claims: capabilities are read from the library alone.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Protocol, runtime_checkable

from eagle_conformance.seam import Library, ModuleDesc
from eagle_conformance.skips import Skip, skip

KERNEL = "eagle_conformance_visit"
TABLE = "eagle_conformance_table"
TABLE_VALUES = (2, 3, 5, 7)


@runtime_checkable
class Quirks(Protocol):
    """One backend's answers. The image holds two names.

    ``eagle_conformance_visit(uint32_t *visits, int64_t *seen, uint32_t step)``, a kernel that adds ``step`` to
    ``visits[i]`` and stores ``n_samples`` in ``seen[i]`` for every sample i of its range; and
    ``int32_t eagle_conformance_table[4] = {2, 3, 5, 7}``.
    """

    def image(self, folder: Path) -> bytes:
        """The kernel image as module_load takes it; ``folder`` is for the files it needs."""

    def entry(self, library: Library, folder: Path) -> int:
        """The address of the kernel as run_device takes it."""

    def allocate(self, library: Library, nbytes: int) -> int:
        """The address of memory that kernels and copies reach."""

    def free(self, library: Library, address: int) -> None:
        """Gives it back."""

    def write(self, library: Library, address: int, data: bytes) -> None:
        """Copies from the host."""

    def read(self, library: Library, address: int, nbytes: int) -> bytes:
        """Copies to the host, after all work enqueued on the default stream."""


SOURCE = f"""
#include <stdint.h>
int32_t {TABLE}[4] = {{{", ".join(map(str, TABLE_VALUES))}}};
void {KERNEL}(void *const *params, int64_t base, int64_t count, int64_t n_samples) {{
    uint32_t *visits = *(uint32_t **)params[0];
    int64_t *seen = *(int64_t **)params[1];
    uint32_t step = *(uint32_t *)params[2];
    for (int64_t i = base; i < base + count; ++i) {{
        visits[i] += step;
        seen[i] = n_samples;
    }}
}}
"""


def build_host_library(folder: Path, name: str, source: str) -> Path:
    """A shared library of C text by the system's compiler, built once in `folder`."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        skip(Skip.NEEDS_TOOLKIT, f"no C compiler {compiler[0]!r} to make a host kernel")
    built, text = folder / f"lib{name}.so", folder / f"{name}.c"
    if not built.exists():
        text.write_text(source)
        subprocess.run([*compiler, "-O2", "-shared", "-fPIC", str(text), "-o", str(built)], check=True)
    return built


class HostQuirks:
    """For backends of host memory (DLPack type 1): a C function from the system's compiler."""

    def __init__(self) -> None:
        self._memory: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def image(self, folder: Path) -> bytes:
        """The path of a shared library."""
        return str(build_host_library(folder, "visit", SOURCE)).encode()

    def entry(self, library: Library, folder: Path) -> int:
        """Opened here, not by the backend: launches are tested where modules are absent."""
        function = getattr(ctypes.CDLL(self.image(folder).decode()), KERNEL)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def allocate(self, library: Library, nbytes: int) -> int:
        """Plain host memory."""
        block = ctypes.create_string_buffer(max(1, nbytes))
        self._memory[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, library: Library, address: int) -> None:
        """Forgets the block."""
        del self._memory[address]

    def write(self, library: Library, address: int, data: bytes) -> None:
        """A host copy."""
        ctypes.memmove(address, data, len(data))

    def read(self, library: Library, address: int, nbytes: int) -> bytes:
        """A host copy; host streams are synchronous."""
        return ctypes.string_at(address, nbytes)


def load_quirks(spec: str | None, library: Library) -> Quirks | None:
    """The object ``module:object`` names, called when it is a class; else the host's; else none."""
    if spec is None:
        return HostQuirks() if library.on_host else None
    module, _, name = spec.partition(":")
    found = getattr(importlib.import_module(module), name)
    quirks = found() if isinstance(found, type) else found
    if not isinstance(quirks, Quirks):
        raise TypeError(f"--eagle-quirks {spec}: {type(quirks).__name__} lacks methods of eagle_conformance.Quirks")
    return quirks


def module_desc(image: bytes, /, **fields: int) -> tuple[ModuleDesc, ctypes.Array[ctypes.c_char]]:
    """The desc of an image, with the buffer it points to, which the caller keeps."""
    buffer = ctypes.create_string_buffer(image)
    values = {"device": -1, "image": ctypes.addressof(buffer), "image_bytes": len(image)} | fields
    return ModuleDesc(**values), buffer
