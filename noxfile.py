# SPDX-License-Identifier: Apache-2.0
"""Every check of the repository, one nox session each: ``nox -l`` lists them, ``nox -s tests`` runs one.

A session needs Python 3.11 or newer, git and a C++ compiler; everything else it installs into its own environment.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit(f"eagle needs Python 3.11 or newer, this is {platform.python_version()}; install python3.11 and "
             "python3.11-venv (or a newer pair), make a virtual environment with it, and install nox there")

import nox

nox.options.sessions = ["tests"]
nox.options.default_venv_backend = "virtualenv"  # sessions use the pip inside

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"
WORK = ROOT / "build"
VERSION = "0.8.0"

# In build order: eagle-core brings the build hook and the seam header of every native package after it.
PACKAGES = {
    "eagle-core": ROOT / "packages" / "eagle-core",
    "eagle-backend-cpu": ROOT / "packages" / "eagle-backend-cpu",
    "eagle": ROOT / "packages" / "eagle",
    "eagle-conformance": ROOT / "conformance",
}
NATIVE = ("eagle-core", "eagle-backend-cpu")
TEST_TOOLS = ("pytest>=8", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "hypothesis>=6.100", "matplotlib>=3.7")
# Exact, as docs/frameworks.md names them.
FRAMEWORKS = ("numpy==2.4.6", "torch==2.13.0", "jax==0.10.2", "warp-lang==1.19.0", "apache-tvm-ffi==0.1.15.post2")
CLANG_FORMAT = "clang-format==19.1.7"


# ---- sessions --------------------------------------------------------------------------------------------------------


@nox.session
def demo(session: nox.Session) -> None:
    """Build the wheels, install eagle[hawk] from them by name, and fly a million samples."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]")
    session.run("python", str(ROOT / "examples" / "first_flight.py"))
    session.run("eagle", "doctor")


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test that needs no framework and no device, on the installed wheels."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]", "eagle-conformance", *TEST_TOOLS)
    native_tests(session, "plain")
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("pytest", "-q", "--pyargs", "eagle_conformance", "--eagle-backend", "cpu")
    record = WORK / "forms"
    shutil.rmtree(record, ignore_errors=True)
    session.run("pytest", "-q", "-m", "alone", *test_folders())
    session.run("pytest", "-n", "2", "--dist", "worksteal", "-m", "not alone", *test_folders(),
                env={"EAGLE_FORMS_RECORD": str(record)})
    session.run("python", str(ROOT / "tools" / "forms_table.py"), str(record))


@nox.session
def fuzz(session: nox.Session) -> None:
    """Load 20 000 mutated sidecars, manifests, bundles and objects: ``nox -s fuzz -- 100000`` for more."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]", *TEST_TOOLS)
    session.run("pytest", "-q", "-s", str(PACKAGES["eagle-core"] / "tests" / "fuzz"),
                env={"EAGLE_FUZZ_CASES": session.posargs[0] if session.posargs else "20000"})


@nox.session
def graphs(session: nox.Session) -> None:
    """Run 5 000 random graphs against a serial interpreter: ``nox -s graphs -- 50000`` for more."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]", *TEST_TOOLS)
    session.run("pytest", "-q", str(PACKAGES["eagle-core"] / "tests" / "test_graph_random.py"),
                env={"EAGLE_GRAPH_CASES": session.posargs[0] if session.posargs else "5000"})


@nox.session
def interop(session: nox.Session) -> None:
    """Run the doors on arrays of torch, jax, Warp and tvm-ffi, and try 50 000 random arrays of numpy."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]", *TEST_TOOLS)
    session.install(*FRAMEWORKS)
    session.run("python", "-W", "ignore", "-c", "import torch, jax, warp, tvm_ffi", silent=True)
    tests = PACKAGES["eagle-core"] / "tests"
    cases = {"EAGLE_INTEROP_CASES": os.environ.get("EAGLE_INTEROP_CASES", "50000")}
    if session.posargs:
        session.run("pytest", *session.posargs, env=cases)
        return
    WORK.mkdir(exist_ok=True)
    record = WORK / "frameworks.json"
    session.run("pytest", str(tests / "frameworks"), str(tests / "test_interop_properties.py"),
                env={**cases, "EAGLE_FRAMEWORKS_RECORD": str(record)})
    session.run("python", str(ROOT / "tools" / "frameworks_table.py"), str(record))


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and spelling, in Python and C++, and that no tracked file names a path of one machine."""
    session.install("ruff>=0.12", "codespell>=2.3", CLANG_FORMAT)
    session.run("ruff", "check", str(ROOT))
    sources = tracked("*.c", "*.h", "*.cpp", "*.hpp", "*.cu")
    if sources:
        session.run("clang-format", "--dry-run", "-Werror", *sources)
    session.run("codespell", *tracked("*.md", "*.py", "*.h", "*.hpp", "*.cpp", "*.toml"))
    session.run("git", "grep", "-nIE", "/(work|root|home)/", external=True, success_codes=[1])


@nox.session
def types(session: nox.Session) -> None:
    """Check the annotations of the installed packages with mypy --strict."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]", "eagle-conformance", "mypy>=1.15", "hatchling>=1.26", TEST_TOOLS[0])
    with session.chdir(session.create_tmp()):
        session.run("mypy", "--config-file", str(ROOT / "pyproject.toml"), "-p", "eagle", "-p", "eagle_backend_cpu",
                    "-p", "eagle_conformance")
        session.run("mypy", "--strict", str(ROOT / "tests" / "typed_program.py"))


@nox.session
def abi(session: nox.Session) -> None:
    """Check the seam: lock file, layout test, exports of the built library, the generated table in the docs."""
    require_compiler(session)
    build_wheels(session)
    install_ours(session, "eagle-backend-cpu")
    library = session.run("python", "-c", "import eagle_backend_cpu as b; print(b.eagle_backend().library)",
                          silent=True)
    session.run("python", str(ROOT / "tools" / "abi.py"), "--check", "--library", str(library).strip())


@nox.session
def build(session: nox.Session) -> None:
    """Build wheels and sdists in isolation, then the wheels again from the sdists, and check what is in them."""
    require_compiler(session)
    session.install("build>=1.2", "twine>=6")
    shutil.rmtree(DIST, ignore_errors=True)
    build_wheels(session)
    for source in PACKAGES.values():
        session.run("python", "-m", "build", "--sdist", "--outdir", str(DIST), str(source), env=find_links_env(DIST))
    again = WORK / "wheels-from-sdists"
    shutil.rmtree(again, ignore_errors=True)
    for name in PACKAGES:
        sdist = DIST / f"{name.replace('-', '_')}-{VERSION}.tar.gz"
        wheel_of(session, sdist, again, find=again)
    for name in PACKAGES:
        first, second = contents(wheel_in(DIST, name)), contents(wheel_in(again, name))
        if first != second:
            session.error(f"{name}: the wheel from the sdist differs: {sorted(first ^ second)}")
        check_contents(session, name, first)
    session.run("twine", "check", "--strict", *(str(path) for path in sorted(DIST.glob("*.whl"))),
                *(str(path) for path in sorted(DIST.glob("*.tar.gz"))))


@nox.session
def bench(session: nox.Session) -> None:
    """Measure: ``nox -s bench -- calls stream``. The peers have environments of their own."""
    build_wheels(session)
    install_ours(session, "eagle[hawk]")
    frameworks = [name for name in FRAMEWORKS if "torch" in name and "interop" in session.posargs]
    if frameworks:
        session.install(*frameworks)
    drawing = ["matplotlib>=3.9"] if {"stepping", "graphs"} & set(session.posargs) else []
    if drawing:
        session.install(*drawing)
    if "graphs" in session.posargs:
        session.install("tbb-devel")
    tools = {"peer": ["raptor-eagle", "raptor-hawk", "numpy", *drawing, *frameworks]}
    if "stepping" in session.posargs:
        tools |= {"numba": ["numba==0.68.1"]}
        tools |= {tool: ["numpy", *(name for name in FRAMEWORKS if tool in name)] for tool in ("jax", "torch")}
    pythons = ["--ours", str(Path(session.bin) / "python")]
    for tool, requirements in tools.items():
        folder = Path(session.create_tmp()) / tool
        python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
        session.run("python", "-m", "venv", "--clear", str(folder))
        session.run(python, "-m", "pip", "install", "-q", *requirements, external=True)
        pythons += [f"--{tool}", python]
    session.run("python", str(ROOT / "benchmarks" / "run.py"), *session.posargs, *pythons)


@nox.session
@nox.parametrize("kind", ["address,undefined", "thread"], ids=["asan-ubsan", "tsan"])
def sanitize(session: nox.Session, kind: str) -> None:
    """Native tests and a Python smoke run under the sanitizers."""
    if sys.platform != "linux":
        session.skip("the runtimes are preloaded the Linux way")
    name = kind.replace(",", "-")
    option, dist = f"-DEAGLE_SANITIZE={kind}", WORK / f"dist-{name}"
    build_wheels(session)  # the plain core runs the build hook: an instrumented one needs the runtime preloaded
    build_wheels(session, dist, cmake_args=option)
    install_ours(session, "eagle[hawk]", "eagle-conformance", *TEST_TOOLS, dist=dist)
    env = {
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter never frees all it holds
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "TSAN_OPTIONS": "die_after_fork=0:halt_on_error=1",
    }
    native_tests(session, name, option, env={**env, "ASAN_OPTIONS": "detect_leaks=1"})
    runtime = preload("libasan.so" if "address" in kind else "libtsan.so")
    python = ["python", "-X", "faulthandler", "-m", "pytest", "-m", "smoke", "-p", "no:cacheprovider"]
    session.run(*python, *(session.posargs or test_folders()),
                env={**env, "LD_PRELOAD": runtime, "PYTHONMALLOC": "malloc"})


# ---- wheels ----------------------------------------------------------------------------------------------------------


def build_wheels(session: nox.Session, dist: Path = DIST, cmake_args: str = "") -> None:
    """Build every wheel into `dist`, in isolation; a wheel whose sources have not changed is kept."""
    require_compiler(session)
    core = digest(PACKAGES["eagle-core"], cmake_args)
    for name, source in PACKAGES.items():
        wanted = f"{core} {digest(source, cmake_args)}"
        stamp = dist / f".{name}.stamp"
        if stamp.is_file() and stamp.read_text() == wanted and list(dist.glob(wheel_pattern(name))):
            session.log(f"{name}: the wheel in {dist.name}/ is up to date")
            continue
        stamp.unlink(missing_ok=True)
        for old in dist.glob(wheel_pattern(name)):
            old.unlink()
        wheel_of(session, source, dist, find=DIST, cmake_args=cmake_args)
        stamp.write_text(wanted)


def wheel_of(session: nox.Session, source: Path, dist: Path, find: Path, cmake_args: str = "") -> None:
    """One wheel from a source folder or an sdist, its build requirements looked for in `find` first."""
    dist.mkdir(parents=True, exist_ok=True)
    session.run("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir", "-w", str(dist), str(source),
                env={**find_links_env(find), "EAGLE_CMAKE_ARGS": cmake_args})


def install_ours(session: nox.Session, *requirements: str, dist: Path = DIST) -> None:
    """Install by name from `dist`, and make sure that what came is what `dist` holds.

    A reused environment may hold older builds of the same version, so they are taken out first.
    """
    env = find_links_env(dist)
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", *PACKAGES, silent=True)
    session.install(*requirements, env=env)
    session.run("python", str(ROOT / "tools" / "assert_ours.py"), str(dist), *PACKAGES)


def find_links_env(dist: Path) -> dict[str, str]:
    """`dist` added to the places where pip looks, for this pip and for the ones it starts."""
    links = [os.environ.get("PIP_FIND_LINKS", ""), dist.as_uri()]
    return {"PIP_FIND_LINKS": " ".join(link for link in links if link)}


def wheel_pattern(name: str) -> str:
    return f"{name.replace('-', '_')}-{VERSION}-*.whl"


def wheel_in(dist: Path, name: str) -> Path:
    (wheel,) = dist.glob(wheel_pattern(name))
    return wheel


def contents(archive: Path) -> set[str]:
    with zipfile.ZipFile(archive) as wheel:
        return set(wheel.namelist())


def check_contents(session: nox.Session, name: str, files: set[str]) -> None:
    """What a wheel must and must not hold."""
    module = {"eagle-core": "eagle", "eagle-backend-cpu": "eagle_backend_cpu",
              "eagle-conformance": "eagle_conformance"}.get(name)
    info = f"{name.replace('-', '_')}-{VERSION}.dist-info"
    wanted = {f"{info}/licenses/LICENSE"}
    if module:
        wanted |= {f"{module}/__init__.py", f"{module}/py.typed"}
    if name == "eagle-core":
        wanted |= {"eagle/include/eagle/eagle_backend.h", "eagle/include/eagle/eagle_backend_symbols.def",
                   "eagle/cmake/eagleConfig.cmake", "eagle/cmake/eagleConfigVersion.cmake"}
    problems = [f"{path} is missing" for path in sorted(wanted - files)]
    if name in NATIVE and not any(path.endswith((".so", ".dylib", ".pyd", ".dll")) for path in files):
        problems.append("no compiled library")
    problems += [f"{path} does not belong in a wheel" for path in sorted(files)
                 if path.startswith(("tests/", "native/")) or path.endswith((".pyc", ".o", ".a"))]
    if problems:
        session.error(f"{name}: " + "; ".join(problems))


# ---- native tests ----------------------------------------------------------------------------------------------------


def native_tests(session: nox.Session, name: str, *options: str, env: dict[str, str] | None = None) -> None:
    """Configure, build and run the C++ tests of the CPU backend, in a build folder of their own."""
    require_compiler(session)
    session.install("cmake>=3.24", "ninja")
    folder = WORK / f"native-{name}"
    session.run("cmake", "-S", str(PACKAGES["eagle-backend-cpu"] / "native"), "-B", str(folder), "-G", "Ninja",
                "--fresh", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG",
                "-DEAGLE_BUILD_TESTS=ON", f"-DEAGLE_INCLUDE_DIR={PACKAGES['eagle-core'] / 'include'}",
                f"-DEAGLE_VERSION={VERSION}", *options, silent=True)
    session.run("cmake", "--build", str(folder))
    session.run("ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", env=env or {})


def preload(library: str) -> str:
    """The compiler's own sanitizer runtime, with the C++ library it must find already loaded."""
    found = []
    for name in (library, "libstdc++.so"):
        shown = subprocess.run([compiler() or "g++", f"-print-file-name={name}"], capture_output=True, text=True,
                               check=True)
        found.append(shown.stdout.strip())
    return " ".join(found)


# ---- what a session stands on ----------------------------------------------------------------------------------------


def compiler() -> str | None:
    named = os.environ.get("CXX", "").split()
    return shutil.which(named[0]) if named else shutil.which("g++") or shutil.which("c++")


def require_compiler(session: nox.Session) -> None:
    """Say what to install before anything else happens."""
    if compiler() is None:
        session.error("no C++ compiler was found; install one (Debian and Ubuntu: apt install g++, Fedora: dnf install "
                      "gcc-c++, macOS: xcode-select --install) or point $CXX at it")


def git_files(*arguments: str) -> list[str]:
    """Names of files of the repository, relative to its root."""
    if shutil.which("git") is None:
        sys.exit("git was not found; install it (Debian and Ubuntu: apt install git, Fedora: dnf install git)")
    shown = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", *arguments], capture_output=True, text=True,
                           check=True)
    return [name for name in shown.stdout.split("\0") if name and (ROOT / name).is_file()]


def tracked(*patterns: str) -> list[str]:
    return git_files("--", *patterns)


def digest(source: Path, cmake_args: str) -> str:
    """One number for a package's sources and for all else that shapes its wheel."""
    state = hashlib.sha256(f"{sys.version} {os.environ.get('CXX')} {cmake_args}".encode())
    for name in git_files("--cached", "--others", "--exclude-standard", "--", str(source)):
        state.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return state.hexdigest()


def test_folders() -> list[str]:
    """Where tests live: beside each package, in the conformance suite, and here for the whole repository."""
    folders = [source / "tests" for source in PACKAGES.values()] + [ROOT / "tests"]
    return [str(folder) for folder in folders if folder.is_dir()]
