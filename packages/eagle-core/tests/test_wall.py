# SPDX-License-Identifier: Apache-2.0
"""The wall between core and backends: the core links none, and `import eagle` opens none."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from eagle import _core


@pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("readelf"),
                    reason="needs-toolkit: readelf reads ELF files only")
def test_the_core_links_no_backend_and_no_device_library() -> None:
    def readelf(option: str) -> list[str]:
        return subprocess.run(["readelf", "-W", option, _core.__file__], text=True, capture_output=True,
                              check=True).stdout.splitlines()

    needed = [line.split("[")[1].rstrip("]") for line in readelf("--dynamic") if "(NEEDED)" in line]
    assert {name.split(".so")[0] for name in needed} <= {"libstdc++", "libm", "libgcc_s", "libc", "libpthread", "libdl",
                                                         "ld-linux-x86-64", "libasan", "libubsan", "libtsan"}
    symbols = [line.split()[-1] for line in readelf("--dyn-syms") if " UND " in line]
    assert symbols and not [name for name in symbols if name.startswith(("eagle_backend_", "cu", "hip", "omp_"))]
    assert not [line for line in readelf("--section-headers") if "nv_fatbin" in line or "hip_fatbin" in line]


def test_importing_eagle_maps_no_backend() -> None:
    code = """
import os, eagle
print(open("/proc/self/maps").read() if os.path.exists("/proc/self/maps") else "")
"""
    shown = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert "libeagle_" not in shown
