"""What a worker can be asked to measure. Runs under a tool's own Python; both tools run this same code.

A job is set up by its constructor, calibrated by `prepare(target)`, and gives one figure for each `round()`.
`result` is what its first call computed, or None; so is `summary`, what tools that round otherwise must agree in.
"""

import ctypes
import hashlib
import math
import os
import statistics
import subprocess
import sys
import threading
import time
import timeit
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
A, B = 1.1, 0.3


@cache
def deployed(kernel: str) -> Any:
    """The tool's deployed kernel, built once a process."""
    import kernels

    import eagle

    return eagle.deploy(getattr(kernels, kernel), cache_dir=os.environ["BENCH_CACHE"])


def placed(n: int) -> np.ndarray:
    """An array 16 bytes behind a page boundary, where numpy's large arrays start: luck of placement is no result."""
    raw = np.empty(n + 512 + 2)
    skip = (4096 + 16 - raw.ctypes.data) % 4096 // 8
    return raw[skip : skip + n]


def samples(n: int) -> np.ndarray:
    """The same input for every tool."""
    x = placed(n)
    np.random.default_rng(0).random(out=x)
    return x


def bound(kernel: str, n: int) -> Any:
    """A bound plan over arrays of its own."""
    return deployed(kernel).bind(x=samples(n), a=A, b=B, out=placed(n))


class Job:
    """One figure a round, or the `only` one where a round takes long. `steps` is how many it is a mean of, if any."""

    result: np.ndarray | None = None
    summary: dict[str, Any] | None = None
    only: float | None = None
    steps: float | None = None

    def prepare(self, target: float) -> int:
        """Gets ready for rounds of about `target` seconds; returns the calls of a round."""
        return 1

    def round(self) -> float:
        raise NotImplementedError

    def digest(self) -> str | None:
        if self.result is None:
            return None
        return hashlib.sha256(np.ascontiguousarray(self.result).data).hexdigest()


class Timed(Job):
    """Seconds a call, from a loop long enough to be timed."""

    calls = 1
    warm_up = 0.0

    def seconds(self, calls: int) -> float:
        """Seconds that so many calls took."""
        raise NotImplementedError

    def prepare(self, target: float) -> int:
        self.warm_up = target / 2
        self._warm()
        self.calls = max(self._calibrated(target) for _ in range(3))
        return self.calls

    def round(self) -> float:
        self._warm()
        return self.seconds(self.calls) / self.calls

    def _warm(self) -> None:
        """Wakes the thread team and fills the caches; by time, since a slow first call says nothing about the next."""
        end = time.perf_counter() + self.warm_up
        self.seconds(1)
        while time.perf_counter() < end:
            self.seconds(math.ceil(self.calls / 8))

    def _calibrated(self, target: float) -> int:
        calls = 1
        while (took := self.seconds(calls)) < target:
            calls = math.ceil(calls * min(10.0, 1.2 * target / max(took, 1e-9)))
        return calls


class Call(Timed):
    """A statement of user code, in timeit's loop, its names local variables: s, x, y, bound and launch.

    With `cells` also t and acc, so many of them, and k, n keys to them.
    """

    def __init__(self, statement: str, n: int, kernel: str = "axpb", cells: int = 0) -> None:
        names: dict[str, Any] = {"s": deployed(kernel), "x": samples(n), "y": placed(n)}
        if cells:
            keys = np.random.default_rng(1).integers(0, cells, n)
            names |= {"t": samples(cells), "acc": np.zeros(cells), "k": keys}
        if "launch" in statement:
            names["bound"] = names["s"].bind(x=names["x"], a=A, b=B, out=names["y"])
            names["launch"] = names["bound"].launch
        returned = eval(statement, dict(names))
        self.result = names["y"] if returned is None else np.asarray(returned)
        locals_ = f"{', '.join(names)} = names.values()"
        self.timer = timeit.Timer(statement, locals_, globals={"names": names})

    def seconds(self, calls: int) -> float:
        return self.timer.timeit(calls)


class Exchange(Timed):
    """A statement about buffers of other libraries: import_buffer, x an array of `library`, and its view."""

    def __init__(self, statement: str, library: str) -> None:
        from eagle.interop import import_buffer

        x: Any = samples(1000)
        if library == "torch":
            import torch

            x = torch.from_numpy(x)
        names = {"import_buffer": import_buffer, "x": x, "view": import_buffer(x)}
        self.result = np.from_dlpack(names["view"])
        locals_ = f"{', '.join(names)} = names.values()"
        self.timer = timeit.Timer(statement, locals_, globals={"names": names})

    def seconds(self, calls: int) -> float:
        return self.timer.timeit(calls)


class Handed(Timed):
    """A statement that runs a kernel on arrays as other code keeps them: s, launch, and the kernel's x, y or v, p.

    x and y are of `library`; v and p, of the kernel push, have their samples first; n = 0 is one sample.
    """

    def __init__(self, statement: str, n: int, library: str = "numpy", kernel: str = "axpb") -> None:
        warnings.simplefilter("ignore")  # of copies, which are the point
        s = deployed(kernel)
        names: dict[str, Any] = {"s": s, "x": np.array(2.0), "y": np.zeros(())}
        if kernel == "push":
            names = {"s": s, "v": samples(3 * n).reshape(n, 3), "p": np.zeros((n, 3))}
            names["launch"] = s.bind(v=names["v"], dt=A, p=names["p"]).launch if "launch" in statement else None
        elif n:
            names |= {"x": samples(n), "y": placed(n)}
        if library == "torch":
            import torch

            names |= {name: torch.from_numpy(names[name]) for name in ("x", "y")}
        returned = eval(statement, dict(names))
        self.result = np.array(names["p"] if returned is None else returned)
        locals_ = f"{', '.join(names)} = names.values()"
        self.timer = timeit.Timer(statement, locals_, globals={"names": names})

    def seconds(self, calls: int) -> float:
        return self.timer.timeit(calls)


class Plain(Timed):
    """The C++ loop of plain.cpp, one range for each CPU of this process."""

    result: np.ndarray

    def __init__(self, n: int) -> None:
        self.x, self.result = samples(n), placed(n)
        pointer, size, double = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double
        self.function = ctypes.CDLL(compiled("plain")).plain_axpb
        self.function.argtypes = [pointer, pointer, double, double, size, size, size]
        self.function.restype = double
        self.seconds(1)

    def seconds(self, calls: int) -> float:
        x, y = self.x.ctypes.data, self.result.ctypes.data
        return float(self.function(x, y, A, B, self.x.size, cpus(), calls))


class AfterIdle(Job):
    """Seconds of one launch after 20 ms of idleness."""

    def __init__(self, n: int, repeats: int = 7) -> None:
        self.launch = bound("axpb", n).launch
        self.repeats = repeats

    def round(self) -> float:
        return statistics.median(self._once() for _ in range(self.repeats))

    def _once(self) -> float:
        time.sleep(0.02)
        start = time.perf_counter()
        self.launch()
        return time.perf_counter() - start


class Beside(Job):
    """The speed of a counting Python thread while the main thread launches back to back, divided by its speed alone."""

    def __init__(self, n: int, window: float = 0.2) -> None:
        self.launch = bound("axpb", n).launch
        self.window = window

    def round(self) -> float:
        alone = self._rate(lambda: time.sleep(self.window))
        return self._rate(self._launch_on) / alone

    def _launch_on(self) -> None:
        end = time.perf_counter() + self.window
        while time.perf_counter() < end:
            self.launch()

    @staticmethod
    def _rate(meanwhile: Callable[[], object]) -> float:
        running, rate = [True], []

        def count() -> None:
            counted, start = 0, time.perf_counter()
            while running[0]:
                counted += 1
            rate.append(counted / (time.perf_counter() - start))

        thread = threading.Thread(target=count)
        thread.start()
        meanwhile()
        running[0] = False
        thread.join()
        return rate[0]


class TwoThreads(Job):
    """Two threads that launch different plans, divided by the time one thread takes for both."""

    calls = 1

    def __init__(self, n: int) -> None:
        self.launches = [bound("horner", n).launch, bound("axpb", n).launch]

    def prepare(self, target: float) -> int:
        """Both halves get about the same work, each enough to make a thread's start small."""
        self.counts = []
        for launch in self.launches:
            launch()
            timer = timeit.Timer("launch()", "launch = given", globals={"given": launch})
            calls, took = timer.autorange()
            self.counts.append(math.ceil(3 * target * calls / took))
        return sum(self.counts)

    def round(self) -> float:
        def work(which: int) -> None:
            launch = self.launches[which]
            for _ in range(self.counts[which]):
                launch()

        start = time.perf_counter()
        work(0)
        work(1)
        serial = time.perf_counter() - start
        threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - start) / serial


class ImportTime(Job):
    """Seconds that importing a module takes in a fresh interpreter, everything it imports included."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.round()  # brings the files into the page cache

    def round(self) -> float:
        command = [sys.executable, "-X", "importtime", "-c", f"import {self.module}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=False)
        text = done.stderr.strip()
        if done.returncode:
            raise RuntimeError(text.rpartition("\n")[2])
        for line in text.splitlines():
            if line.startswith("import time:") and line.rpartition("|")[2].strip() == self.module:
                return int(line.split("|")[1]) / 1e6
        raise RuntimeError(f"no import time for {self.module}")


def cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def compiled(name: str, *more: str) -> str:
    """The shared library of a C++ file beside this one, made with more flags."""
    library = Path(os.environ["BENCH_CACHE"], f"{name}.so")
    flags = ["-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-pthread"]
    command = [os.environ.get("CXX", "c++"), *flags, str(HERE / f"{name}.cpp"), *more, "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0])
    return str(library)


JOBS: dict[str, type[Job]] = {
    "call": Call,
    "exchange": Exchange,
    "handed": Handed,
    "plain": Plain,
    "after_idle": AfterIdle,
    "beside": Beside,
    "two_threads": TwoThreads,
    "import_time": ImportTime,
}
