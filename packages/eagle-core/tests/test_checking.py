# SPDX-License-Identifier: Apache-2.0
"""Checked launches: an index that leads outside its plane is reported, and damages nothing."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kernels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import eagle
from eagle.exec import HostTeam, checking
from eagle.plan import plan

HERE = str(Path(__file__).parent)
N = 2000
AWAY = (-1, N, N + 10**6, 2**31 - 1, 2**31, 2**32 - 1, -2**31, 2**40 + N)  # the entry keeps the low 32 bits


def in_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `code` in a fresh process with the kernels importable."""
    return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {HERE!r})\n" + code], text=True,
                          env={**os.environ, **environment}, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def wild(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Makes plans of the entries of wild.cpp: ``wild("put", out="mutable", x="per_sample", ...)``."""
    path = tmp_path_factory.mktemp("wild") / "wild.so"
    subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), "-std=c++17", "-shared", "-fPIC", "-O1",
                    str(Path(__file__).with_name("wild.cpp")), "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))

    def make(entry: str, access: str = "cross_sample_write", box: Any = None, **slots: str) -> Any:
        plugin = SimpleNamespace(
            name=entry, exec_access=access, box=box, arg_spec=[(role, name) for name, role in slots.items()],
            host_entry=ctypes.cast(getattr(library, entry), ctypes.c_void_p).value, _keepalive=library,
            arg_dtypes={name: "int64" for name in slots if name in ("where", "place")})
        return plan(plugin, structure=HostTeam)

    return make


@pytest.fixture
def putting(wild: Callable[..., Any]) -> Any:
    return wild("put", out="mutable", x="per_sample", where="per_sample")


def element_of(index: int) -> int:
    return index % 2**32


def far(index: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Numbers to look up, and the indices of N samples of which two are `index`, the first of them sample 1234."""
    i = np.arange(N)[::-1].copy()
    i[[1234, 1900]] = index
    return np.arange(float(N)), i


@pytest.mark.smoke
@pytest.mark.parametrize("index", AWAY)
def test_a_neighbour_outside_the_plane(index: int) -> None:
    x, i = far(index)
    y = np.full(N, 7.0)
    deployed = eagle.deploy(kernels.neighbour, npartitions=3)
    doors = (("neighbour.run", lambda: deployed.run(x=x, i=i, y=y)), ("neighbour()", lambda: deployed(x, i, y=y)),
             ("neighbour.run", lambda: deployed.host.run(x=x, i=i, y=y)),
             ("neighbour.launch", deployed.bind(x=x, i=i, y=y).launch))
    with checking():
        for door, call in doors:
            with pytest.raises(eagle.OutOfBounds) as raised:
                call()
            signed = f" (index {element_of(index) - 2**32})" if element_of(index) >= 2**31 else ""
            assert str(raised.value) == (
                f"{door}: kernel 'neighbour', Scalar 'x': found a read of element {element_of(index)}{signed} by "
                f"sample 1234, wanted 0 to 1999; correct the indices of partition (base, count, n) (667, 667, 2000); "
                f"no plane was changed")
            error = raised.value
            assert (error.plane, error.element, error.sample) == ("x", element_of(index), 1234)
    assert (y == 7.0).all() and (x == np.arange(float(N))).all()


def test_the_careful_path_names_its_door() -> None:
    x, i = far(N)
    with checking(), pytest.raises(eagle.OutOfBounds, match=r"^neighbour\(\): kernel 'neighbour', Scalar 'x'"):
        eagle.deploy(kernels.neighbour)(list(x), i)
    with checking(), pytest.raises(eagle.OutOfBounds, match=r"^neighbour.run: kernel 'neighbour', Scalar 'x'"):
        eagle.deploy(kernels.neighbour).run(x=list(x), i=i)


def test_an_index_past_a_row_is_inside_the_plane() -> None:
    """Rows of a Vector lie behind each other: only the last one ends at the end of the plane."""
    v, i = np.arange(30.0).reshape(3, 10), np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10])
    with checking(), pytest.raises(eagle.OutOfBounds) as raised:
        eagle.deploy(kernels.pulled).run(v=v, i=i)
    assert raised.value.element == 30 and raised.value.sample == 9
    assert "Vector 'v': found a read of element 30 by sample 9, wanted 0 to 29, counted over the 3 rows" \
        in str(raised.value)


@pytest.mark.smoke
@pytest.mark.parametrize("where", [N, N + 12345, -10**6, 2**32 - 1])
def test_a_write_outside_the_plane(putting: Any, where: int) -> None:
    to, x, out = np.arange(N), np.arange(float(N)), np.full(N, 7.0)
    to[777] = where
    with checking(), pytest.raises(eagle.OutOfBounds, match="Mutable 'out': found a write of element") as raised:
        putting.run(out=out, x=x, where=to)
    assert (raised.value.element, raised.value.sample) == (where, 777)
    assert (out == 7.0).all()


def test_a_sample_is_named_by_what_those_before_it_did(wild: Callable[..., Any]) -> None:
    steps, place, marks = np.ones(N, np.int64), np.zeros(N, np.int64), np.zeros(N)
    steps[:5] = 300  # the 505th sample comes to 1999, the next one to 2000
    with checking(), pytest.raises(eagle.OutOfBounds) as raised:
        wild("walk", place="mutable", marks="mutable", where="per_sample").run(place=place, marks=marks, where=steps)
    assert (raised.value.plane, raised.value.element, raised.value.sample) == ("marks", 2000, 504)
    assert not place.any() and not marks.any()


FORMS: dict[str, tuple[Any, dict[str, Any], str, str, int, str]] = {
    # the kernel, its other planes, the plane of indices, the plane they lead into, what index i reaches, how
    "table": (kernels.looked_up, {"t": np.arange(7.0)}, "i", "Table 't'", lambda i: i, "read"),
    "staged": (kernels.in_stages, {"f": np.zeros(150)}, "i", "Table 'f'", lambda i: 100 + i, "read"),
    "wide": (kernels.edges, {"b": np.zeros(28)}, "e", "Wide 'b'", lambda i: 4 * i + 2, "read"),
    "store": (kernels.stored, {"x": np.ones(70), "b": np.ones(64)}, "k", "Mutable 'b'", lambda i: i, "write"),
    "add": (kernels.added, {"x": np.ones(70), "b": np.ones(64)}, "k", "Mutable 'b'", lambda i: i, "read"),
}


@pytest.mark.smoke
@pytest.mark.parametrize("index", [64, 10**6, 2**29 - 1, -101, -1000])
@pytest.mark.parametrize("form", FORMS)
def test_buffers_with_a_length_of_their_own(form: str, index: int) -> None:
    kernel, others, indices, plane, reached, access = FORMS[form]
    i = np.zeros(70, np.int64)
    i[66] = index
    before = {name: array.copy() for name, array in others.items()}
    deployed, y = eagle.deploy(kernel), np.full(70, 7.0)
    outputs = {} if "x" in others else {"y": y}
    bound = deployed.bind(**{indices: i}, **others, **outputs)
    for door, call in ((f"{kernel.name}.launch", bound.launch),
                       (f"{kernel.name}.run", lambda: deployed.run(**{indices: i}, **others, **outputs))):
        with checking(), pytest.raises(eagle.OutOfBounds) as raised:
            call()
        element = element_of(reached(int(i[66])))
        assert (raised.value.plane, raised.value.element, raised.value.sample) == (plane[-2], element, 66)
        assert str(raised.value).startswith(
            f"{door}: kernel {kernel.name!r}, {plane}: found a {access} of element {element}")
    assert (y == 7.0).all() and all((others[name] == array).all() for name, array in before.items())


def test_a_reduction_names_the_row() -> None:
    x, i = np.arange(100.0), np.arange(100)
    i[70] = 100
    total, s = eagle.deploy(kernels.pulled_total, npartitions=2), np.full(1, 7.0)
    for call in (total.bind(x=x, i=i, s=s).launch, lambda: total(x, i, s=s)):
        row = "by one of the samples 64 to 95, wanted 0 to 99"
        with checking(), pytest.raises(eagle.OutOfBounds, match=row) as raised:
            call()
        assert (raised.value.plane, raised.value.element, raised.value.sample) == ("x", 100, None)
    assert s[0] == 7.0
    i[70], i[98] = 70, -5
    with checking(), pytest.raises(eagle.OutOfBounds, match="by one of the samples 96 to 99"):
        total.run(x=x, i=i)
    i[98] = 98
    with checking():
        assert total.run(x=x, i=i)[0] == x.sum()


def test_a_later_kernel_of_a_program() -> None:
    """Nothing of the first kernel is left either."""
    x, i, s, y = np.ones(50), np.arange(50) % 5, np.full(1, 7.0), np.full(50, 7.0)
    bound = eagle.deploy(kernels.in_two_kernels).bind(x=x, i=i, t=np.arange(5.0), s=s, y=y)
    assert len(bound.stages) == 2
    i[40] = 5
    where = f"^in_two_kernels.launch: kernel '{bound.stages[1]}', Table 't'.*by sample 40"
    with checking(), pytest.raises(eagle.OutOfBounds, match=where):
        bound.launch()
    assert (s[0] == 7.0) and (y == 7.0).all()
    i[40] = 0
    with checking():
        bound.launch()
    assert s[0] == 50.0 and (y == x / 50.0 + i).all()


@pytest.mark.parametrize(("n", "bad", "samples"), [
    (100, 45, "37 to 61 in steps of 8"), (100, 0, "0 to 24 in steps of 8"), (52, 34, "34 to 50 in steps of 8"),
    (100, 98, "98"), (70, 69, "69")])
def test_a_thread_of_several_samples(wild: Callable[..., Any], n: int, bad: int, samples: str) -> None:
    where = np.arange(n)
    where[bad] = n
    boxed = wild("put_boxed", "sample_local", {"T": 4, "stride": 8}, out="mutable", x="per_sample", where="per_sample")
    one = "sample" if samples.isdigit() else "one of the samples"
    with checking(), pytest.raises(eagle.OutOfBounds, match=f"a write of element {n} by {one} {samples}, wanted"):
        boxed.run(x=np.zeros(n), where=where)
    where[bad] = bad
    with checking():
        assert (boxed.run(x=np.arange(float(n)), where=where) == np.arange(n)).all()


@settings(max_examples=150, deadline=None)
@given(data=st.data(), n=st.integers(1, 300), parts=st.integers(1, 5))
def test_the_first_sample_is_found(data: st.DataObject, n: int, parts: int) -> None:
    x = np.arange(float(n))
    i = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, n - 1)))
    bad = data.draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3))
    i[list(bad)] = data.draw(st.integers(n, 2**32 - 1))
    with checking(), pytest.raises(eagle.OutOfBounds) as raised:
        eagle.deploy(kernels.neighbour, npartitions=parts).run(x=x, i=i)
    assert raised.value.sample == min(bad) and raised.value.element == i[min(bad)]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), n=st.integers(0, 200), parts=st.integers(1, 4))
def test_checked_launches_give_the_same_bits(data: st.DataObject, n: int, parts: int) -> None:
    # The payload that a sum of two NaNs has is neither NumPy's promise nor the kernel's.
    floats = hnp.arrays(np.float64, n, elements=st.floats(width=64, allow_nan=False))
    x, y = data.draw(floats), data.draw(floats)
    i = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, max(n - 1, 0))))
    v = data.draw(hnp.arrays(np.float64, (3, n), elements=st.floats(-1e3, 1e3)))
    u, w = np.ones((3, n)), np.ones((3, n))
    with checking():
        pulled = eagle.deploy(kernels.neighbour, npartitions=parts).run(x=x, i=i)
        total, difference = eagle.deploy(kernels.sum_difference, npartitions=parts)(x, y)
        eagle.deploy(kernels.advance).bind(v=v, dt=0.5, x=u, layout="samples_last").launch()
    assert pulled.tobytes() == x[i].tobytes()
    with np.errstate(all="ignore"):
        assert total.tobytes() == (x + y).tobytes() and difference.tobytes() == (x - y).tobytes()
    w += v * 0.5
    assert u.tobytes() == w.tobytes()


def test_an_input_that_is_the_output() -> None:
    x = np.arange(5.0)
    with checking():
        eagle.deploy(kernels.scale).run(x=x, a=2.0, b=1.0, out=x)
    assert x.tolist() == [1, 3, 5, 7, 9]


def test_words_and_masks_come_back() -> None:
    x, done, count = np.array([1.0, 3.0, 20.0]), np.zeros(3, bool), np.zeros(1, np.uint32)
    bound = eagle.deploy(kernels.double_until).bind(limit=np.full(3, 10.0), x=x, terminated=done,
                                                    finished_count=count)
    with checking():
        bound.launch()
        assert (x.tolist(), done.tolist(), count.tolist()) == ([2, 6, 40], [False, False, True], [1])
        bound.launch()
    assert (x.tolist(), done.tolist(), count.tolist()) == ([4, 12, 40], [False, True, True], [2])


def test_an_exception_of_a_kernel(wild: Callable[..., Any]) -> None:
    x, out = np.array([1.0, 2.0, -1.0]), np.zeros(3)
    giving_up = wild("give_up", out="mutable", x="per_sample")
    with pytest.raises(RuntimeError) as unchecked:
        giving_up.run(out=out, x=x)
    out[:] = 7.0
    with checking(), pytest.raises(RuntimeError) as checked:
        giving_up.run(out=out, x=x)
    assert str(checked.value) == str(unchecked.value) and "the kernel gave up" in str(checked.value)
    assert (out == 7.0).all()


def test_nested_checks() -> None:
    x, i = np.zeros(3), np.array([0, 1, 3])
    i_in, run = np.zeros(3, np.int64), eagle.deploy(kernels.neighbour).run
    with checking():
        with checking():
            run(x=x, i=i_in)
        with pytest.raises(eagle.OutOfBounds):
            run(x=x, i=i)

    @checking()
    def decorated() -> None:
        run(x=x, i=i)

    with pytest.raises(eagle.OutOfBounds):
        decorated()


def test_checks_end() -> None:
    """An index past the plane, into memory that is there: without checks the launch reads it."""
    done = in_process("""
import numpy as np, eagle, kernels
from eagle.exec import checking
room, i = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 3])
deployed, y = eagle.deploy(kernels.neighbour), np.zeros(3)
calls = (lambda: deployed.run(x=room[:3], i=i), deployed.bind(x=room[:3], i=i, y=y).launch)
for call in calls:
    for _ in range(2):
        try:
            with checking():
                with checking():
                    pass
                call()
        except eagle.OutOfBounds as error:
            print(error.element)
    print(call(), y)
""", EAGLE_CHECK="0")
    assert done.stdout == "3\n3\n[1. 2. 4.] [0. 0. 0.]\n3\n3\nNone [1. 2. 4.]\n", done.stderr


def test_an_input_of_a_file_that_may_only_be_read(tmp_path: Path) -> None:
    """Nothing is copied back into it."""
    done = in_process(f"""
import numpy as np, eagle, kernels
path = {str(tmp_path / "x")!r}
np.arange(5000.0).tofile(path)
x, i, y = np.memmap(path, mode="r"), np.arange(5000)[::-1].copy(), np.zeros(5000)
x = x.view(np.float64)
deployed = eagle.deploy(kernels.neighbour)
deployed.bind(x=x, i=i, y=y).launch()
print((y == x[::-1]).all(), (deployed.run(x=x, i=i) == x[::-1]).all())
""", EAGLE_CHECK="1")
    assert done.stdout == "True True\n", (done.returncode, done.stderr)


def test_the_variable_asks_for_checks() -> None:
    code = """
import eagle, kernels, numpy as np
try:
    print(eagle.deploy(kernels.neighbour).run(x=np.arange(4.0), i=np.array([1, 2, 3, {last}])))
except (IndexError, ValueError) as error:
    print(type(error).__name__, error)
"""
    def printed(last: int, value: str) -> str:
        done = in_process(code.format(last=last), EAGLE_CHECK=value)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert printed(0, "1") == printed(0, "0") == printed(0, "") == "[1. 2. 3. 0.]"
    assert printed(-1, "1").startswith("OutOfBounds neighbour.run: kernel 'neighbour', Scalar 'x': found a read of "
                                       "element 4294967295 (index -1) by sample 3, wanted 0 to 3;")
    assert printed(0, "yes") == ("ValueError neighbour.run: EAGLE_CHECK: found 'yes', wanted '1' or '0'; set it before "
                                 "eagle is imported")


@pytest.mark.smoke
def test_threads_beside_each_other() -> None:
    """Checked launches of several threads, some out of bounds, beside a thread that runs Python."""
    deployed, errors, stop, turns = eagle.deploy(kernels.neighbour), [], threading.Event(), [0]

    def launches(seed: int) -> None:
        try:
            x, i = far(N) if seed % 2 else (np.arange(float(N)), np.arange(N)[::-1].copy())
            for _ in range(40):
                if seed % 2:
                    with pytest.raises(eagle.OutOfBounds) as raised:
                        deployed.run(x=x, i=i)
                    assert raised.value.sample == 1234
                else:
                    assert (deployed.run(x=x, i=i) == x[::-1]).all()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def turning() -> None:
        while not stop.is_set():
            turns[0] += 1

    other = threading.Thread(target=turning)
    other.start()
    with checking():
        threads = [threading.Thread(target=launches, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stop.set()
    other.join()
    assert not errors and turns[0] > 0


def test_checks_of_two_threads_end_each_on_its_own() -> None:
    x, i = far(N)
    run = eagle.deploy(kernels.neighbour).run
    opened, close = threading.Event(), threading.Event()

    def other() -> None:
        with checking():
            opened.set()
            close.wait(10)

    thread = threading.Thread(target=other)
    with checking():
        thread.start()
        assert opened.wait(10)
    with pytest.raises(eagle.OutOfBounds):
        run(x=x, i=i)
    close.set()
    thread.join()


@pytest.mark.smoke
def test_a_child_of_fork_is_checked_too() -> None:
    done = in_process("""
import os, threading, numpy as np, eagle, kernels
deployed, x, i = eagle.deploy(kernels.neighbour), np.arange(5000.0), np.arange(5000)
bad = i.copy(); bad[4000] = -1
stop = threading.Event()
def work():
    while not stop.is_set():
        assert (deployed.run(x=x, i=i) == x).all()
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if child == 0:
        try:
            deployed.run(x=x, i=bad)
        except eagle.OutOfBounds as error:
            os._exit(0 if error.sample == 4000 else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
""", EAGLE_CHECK="1")
    assert done.returncode == 0, done.stderr


def test_other_faults_keep_their_handler(wild: Callable[..., Any]) -> None:
    """A crash that is none of ours ends the process as it would without checks, under faulthandler and without."""
    library = wild("crash", out="mutable").plugin._keepalive._name
    code = f"""
import ctypes, numpy as np, eagle, kernels
from types import SimpleNamespace
from eagle.exec import HostTeam
from eagle.plan import plan
library = ctypes.CDLL({library!r})
plugin = SimpleNamespace(name="crash", exec_access="sample_local", arg_spec=[("mutable", "out")],
                         host_entry=ctypes.cast(library.crash, ctypes.c_void_p).value, _keepalive=library)
x = np.zeros(3)
for _ in range(3):
    try:
        eagle.deploy(kernels.neighbour).run(x=x, i=np.array([0, 1, 3]))
    except eagle.OutOfBounds as error:
        print("caught", error.element, flush=True)
plan(plugin, structure=HostTeam).run(out=np.zeros(3))
"""
    for prelude, said in (("import faulthandler; faulthandler.enable()\n", "Fatal Python error: Segmentation fault"),
                          ("import faulthandler; faulthandler.disable()\n", "")):
        done = in_process(prelude + code, EAGLE_CHECK="1")
        assert done.stdout == "caught 3\n" * 3
        assert done.returncode == -signal.SIGSEGV or "AddressSanitizer" in done.stderr
        assert said in done.stderr


def test_a_signal_that_was_sent_goes_to_its_handler() -> None:
    done = in_process("""
import os, signal, threading, time, numpy as np, eagle, kernels
got = []
signal.signal(signal.SIGSEGV, lambda number, frame: got.append(number))
deployed, x, i = eagle.deploy(kernels.neighbour), np.zeros(300_000), np.arange(300_000)
stop = threading.Event()
def work():
    while not stop.is_set():
        deployed.run(x=x, i=i)
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(0.005)
stop.set()
thread.join()
print(set(got) == {signal.SIGSEGV})
""", EAGLE_CHECK="1")
    assert done.stdout == "True\n", done.stderr


def test_a_limit_of_address_space_is_named() -> None:
    done = in_process("""
import resource, numpy as np, eagle, kernels
deployed, x, i = eagle.deploy(kernels.neighbour), np.arange(4.0), np.arange(4)
resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30,) * 2)
try:
    deployed.run(x=x, i=i)
except MemoryError as error:
    print(error)
""", EAGLE_CHECK="1")
    assert re.fullmatch(r"neighbour.run: checking: found no \d+ bytes of address space for a copy of 32 bytes, wanted "
                        r"them; raise the limit \(ulimit -v\) or launch without checks\n", done.stdout), done.stderr
