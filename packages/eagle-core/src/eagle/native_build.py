# SPDX-License-Identifier: Apache-2.0
"""The hatchling build hook of every native package: configure, build and install one CMake project into the wheel.

A backend of your own uses it too::

    [build-system]
    requires = ["hatchling", "eagle-core", "cmake", "ninja"]

    [tool.hatch.build.targets.wheel.hooks.eagle-native]
    python-tag = false        # a plain shared library: the wheel is py3-none-<platform>

What the CMake project installs lands in the wheel at the same relative path. It is given ``EAGLE_INCLUDE_DIR`` (the
directory that holds ``eagle/eagle_backend.h``), ``EAGLE_VERSION`` (the project's version) and ``Python_EXECUTABLE``;
``$EAGLE_CMAKE_ARGS`` is appended.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl


class NativeBuildHook(BuildHookInterface[Any]):
    """Builds ``<root>/native`` with CMake and Ninja and adds what it installs to the wheel."""

    PLUGIN_NAME = "eagle-native"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            raise RuntimeError(f"{self.metadata.name} holds native code and cannot be installed editable; "
                               "install it as a wheel: pip install <path>")
        for tool, package in (("cmake", "cmake"), ("ninja", "ninja")):
            if shutil.which(tool) is None:
                raise RuntimeError(f"building {self.metadata.name}: {tool} was not found; pip install {package}")
        named = os.environ.get("CXX", "").split() or ["c++"]
        if shutil.which(named[0]) is None and shutil.which("g++") is None:
            raise RuntimeError(f"building {self.metadata.name}: no C++ compiler was found; install one "
                               "(Debian and Ubuntu: apt install g++, Fedora: dnf install gcc-c++) or point $CXX at it")
        root = Path(self.root)
        build, prefix = root / "build" / "native", root / "build" / "prefix"
        shutil.rmtree(prefix, ignore_errors=True)
        run = [
            # Fresh: the cache of an earlier build names tools of an isolated environment that is gone.
            ["cmake", "--fresh", "-S", str(root / "native"), "-B", str(build), "-G", "Ninja",
             "-DCMAKE_BUILD_TYPE=Release",
             f"-DCMAKE_INSTALL_PREFIX={prefix}", f"-DEAGLE_INCLUDE_DIR={self._include_dir()}",
             f"-DEAGLE_VERSION={self.metadata.version}", f"-DPython_EXECUTABLE={sys.executable}",
             *shlex.split(os.environ.get("EAGLE_CMAKE_ARGS", ""))],
            ["cmake", "--build", str(build)],
            ["cmake", "--install", str(build)],
        ]
        for command in run:
            subprocess.run(command, check=True)
        build_data["pure_python"] = False
        if self.config.get("python-tag", True):
            build_data["infer_tag"] = True
        else:
            build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        for path in sorted(prefix.rglob("*")):
            if path.is_file():
                build_data["force_include"][str(path)] = str(path.relative_to(prefix))

    def _include_dir(self) -> Path:
        """The header root: beside this file in a wheel, two levels up in eagle-core's own source tree."""
        here = Path(__file__).resolve().parent
        wheel = here / "include"
        return wheel if wheel.is_dir() else here.parents[1] / "include"


@hookimpl
def hatch_register_build_hook() -> type[BuildHookInterface[Any]]:
    return NativeBuildHook
