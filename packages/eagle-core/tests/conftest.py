# SPDX-License-Identifier: Apache-2.0
"""Fakes: backend libraries from fake_backend.c, and installed plug-ins that bring them."""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import producers
import pytest

import eagle
from eagle.backends import choosing, library_name
from eagle.errors import WARNED
from eagle.nodes import node as kinds

SOURCE = Path(__file__).with_name("fake_backend.c")
INCLUDE = Path(eagle.__file__).parent / "include"

MakeLibrary = Callable[..., Path]


def pytest_collection_finish() -> None:
    """The collections of garbage in tests, two in each of hundreds, need not walk all tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nobody_was_warned() -> None:
    """A line that runs in several tests warns in each."""
    WARNED.clear()


@pytest.fixture(scope="session")
def make_library(tmp_path_factory: pytest.TempPathFactory) -> MakeLibrary:
    """Compiles fake_backend.c with macros, once for each choice of them: ``make_library("hip", BITS=1)``."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    assert shutil.which(compiler[0]), "the tests build fake backends with a C compiler; point $CC at one"
    root = tmp_path_factory.mktemp("libraries")
    made: dict[tuple[str, tuple[tuple[str, object], ...]], Path] = {}

    def make(kind: str = "fake", **macros: object) -> Path:
        key = kind, tuple(sorted(macros.items()))
        if key not in made:
            folder = root / str(len(made))
            folder.mkdir()
            defines = {"KIND": f'"{kind}"', **macros}
            made[key] = folder / library_name(kind)
            subprocess.run([*compiler, "-shared", "-fPIC", "-Wall", "-Werror", f"-I{INCLUDE}", str(SOURCE),
                            *(f"-D{name}={value}" for name, value in defines.items()), "-o", str(made[key])],
                           check=True)
        return made[key]

    return make


class Site:
    """A folder of installed distributions; in this process, and through PYTHONPATH in others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(self, distribution: str, kind: str, source: str, version: str = "1.2") -> str:
        """Installs a plug-in whose module holds `source`; the module's name."""
        module = f"plug_in_{distribution.replace('-', '_')}"
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        with (info / "entry_points.txt").open("a") as points:
            points.write(f"[eagle.backends]\n{kind} = {module}\n")
        return module

    def install_backend(self, distribution: str, kind: str, library: Path, **fields: object) -> str:
        """Installs a well-behaved plug-in for a library."""
        fields = {"device_types": (77,), **fields}
        arguments = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        return self.install(distribution, kind, f"""\
from eagle.backends import BackendSpec, hookimpl

@hookimpl
def eagle_backend():
    return BackendSpec(kind={kind!r}, library={str(library)!r}, {arguments})
""")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty Site on the path, with nothing found or loaded before, and nothing kept after.

    Installed backends are out of sight: a distribution of the same name and without entry points lies before them.
    """
    for distribution in {point.dist.name for point in metadata.entry_points(group="eagle.backends") if point.dist}:
        info = tmp_path / f"{distribution.replace('-', '_')}-0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0\n")
    for name in list(os.environ):
        if name.startswith("EAGLE_BACKEND_"):
            monkeypatch.delenv(name)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    choosing.forget()
    yield Site(tmp_path)
    choosing.forget()
    for name in [name for name in sys.modules if name.startswith("plug_in_")]:
        del sys.modules[name]


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c() -> None:
    """A shell starts what runs in the background with SIGINT ignored, and children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _exact_kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Kernels are built without contraction, so that NumPy gives the same bits, in a cache of the tests of all runs."""
    runs = tmp_path_factory.getbasetemp().parent
    if "PYTEST_XDIST_WORKER" in os.environ:  # its folder lies in that of the run
        runs = runs.parent
    os.environ["HAWK_HOST_PROFILE"] = "native"
    os.environ["HAWK_CACHE_DIR"] = str(runs / "eagle-kernels")


@pytest.fixture
def no_tensor_is_left() -> Iterator[None]:
    """Every managed tensor that was handed out in plain Python was deleted, once."""
    gc.collect()  # what an earlier test's exceptions held
    assert not producers.alive
    yield
    gc.collect()
    left = len(producers.alive)
    producers.alive.clear()
    assert left == 0


@pytest.fixture
def team() -> Iterator[Callable[[int], None]]:
    """Sets how many threads there are, for one test."""
    before = eagle.num_threads()
    yield eagle.set_num_threads
    eagle.set_num_threads(before)


@pytest.fixture
def fresh_kinds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone behind it."""
    monkeypatch.setattr(kinds, "_kinds", dict(kinds._kinds))
    yield
