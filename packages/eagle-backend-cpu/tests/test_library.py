# SPDX-License-Identifier: Apache-2.0
"""The installed library as a stranger sees it: what it exports, needs and says of itself."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SYMBOL_LIST = Path(__file__).parents[2] / "eagle-core" / "include" / "eagle" / "eagle_backend_symbols.def"
GROUPS = {
    *("core", "stream", "capturer", "captured", "fork", "conditional", "attribution", "graph", "launcher"),
    *("exec", "device", "interop", "filtering", "extension"),
}
CAPABILITIES = 0x7EFF  # bits 0 to 7 and 9 to 14
NEEDED = re.compile(r"(libc|libm|libpthread|libdl|libstdc\+\+|libgcc_s)\.so|ld-linux")


@pytest.fixture(scope="module")
def path() -> Path:
    spec = importlib.util.find_spec("eagle_backend_cpu")
    assert spec is not None and spec.origin is not None, "eagle-backend-cpu is not installed"
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    return Path(spec.origin).with_name("libeagle_cpu" + suffix)


@pytest.fixture(scope="module")
def library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


def output(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs-toolkit: {command[0]} was not found")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def promised_symbols() -> set[str]:
    entries = re.findall(r"^EAGLE_SYMBOL\((\w+), (\w+),", SYMBOL_LIST.read_text(), flags=re.MULTILINE)
    return {f"eagle_backend_{name}" for name, group in entries if group in GROUPS}


def test_exports_the_seam_and_nothing_else(path: Path) -> None:
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", str(path))}
    assert exported == promised_symbols()


def test_needs_the_c_and_cpp_libraries_only(path: Path) -> None:
    needed = [line for line in output("readelf", "-d", str(path)) if "(NEEDED)" in line]
    assert needed
    assert [line for line in needed if not NEEDED.search(line)] == []


def test_is_never_unloaded(path: Path) -> None:
    assert any("NODELETE" in line for line in output("readelf", "-d", str(path)))


def test_version(library: ctypes.CDLL) -> None:
    assert library.eagle_backend_version() == (1 << 16) | 6


def test_capabilities(library: ctypes.CDLL) -> None:
    bits = ctypes.c_uint64()
    assert library.eagle_backend_capabilities(ctypes.byref(bits)) == 0
    assert bits.value == CAPABILITIES


def test_device_types(library: ctypes.CDLL) -> None:
    types, count = (ctypes.c_int32 * 64)(), ctypes.c_int32()
    assert library.eagle_backend_device_types(types, 64, ctypes.byref(count)) == 0
    assert list(types)[: count.value] == [1, 3]


def test_build_info_names_the_release(library: ctypes.CDLL) -> None:
    from importlib.metadata import version

    info = ctypes.create_string_buffer(192)
    info[0] = 192
    assert library.eagle_backend_build_info(info) == 0
    assert info.raw[16:48].split(b"\0")[0].decode() == version("eagle-backend-cpu")
    assert info.raw[176:192].split(b"\0")[0] == b"cpu"


def test_probe_finds_the_host(library: ctypes.CDLL) -> None:
    assert library.eagle_backend_probe() == 0


def test_team_size_follows_the_environment(path: Path) -> None:
    program = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); n = ctypes.c_int32();"
               "library.eagle_backend_team_size(0, ctypes.byref(n)); print(n.value)")
    for environment, threads in (({"EAGLE_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, "3"),
                                 ({"OMP_NUM_THREADS": "5,2"}, "5"),
                                 ({"EAGLE_NUM_THREADS": "none", "OMP_NUM_THREADS": "4"}, "4")):
        run = subprocess.run([sys.executable, "-c", program, str(path)], env=environment, check=True,
                             capture_output=True, text=True)
        assert run.stdout.strip() == threads
