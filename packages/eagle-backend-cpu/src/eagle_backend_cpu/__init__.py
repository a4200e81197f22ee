# SPDX-License-Identifier: Apache-2.0
"""The CPU backend of eagle: host kernels on a thread team, in ``libeagle_cpu`` beside this file."""

from __future__ import annotations

from pathlib import Path

from eagle.backends import BackendSpec, hookimpl, library_name

__all__ = ["eagle_backend"]


@hookimpl
def eagle_backend() -> BackendSpec:
    return BackendSpec(kind="cpu", library=Path(__file__).parent / library_name("cpu"), device_types=(1, 3),
                       formats=("host",), array_module="numpy")
