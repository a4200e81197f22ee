# SPDX-License-Identifier: Apache-2.0
"""Guards, skippable steps and loops, against plain Python loops."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from producers import Producer

import eagle
from eagle import BufferRefused, LayoutError, RepeatWhile, SkipGuard, Skippable, repeat_while, skippable
from eagle.interop import import_buffer

if TYPE_CHECKING:
    from conftest import MakeLibrary, Site

UINT32 = (1, 32, 1)  # type code, bits, lanes
SHINE = 12  # DLPack device type of a fake backend


def u32(*values: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array(values, np.uint32)


def nothing() -> None:
    pass


# ---- guards ----------------------------------------------------------------------------------------------------------


@given(counts=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4), negate=st.booleans(), data=st.data())
def test_a_guard_compares_cells(counts: list[int], negate: bool, data: st.DataObject) -> None:
    bases = data.draw(st.lists(st.sampled_from([0, 1, *counts]), min_size=1, max_size=4))
    i, j = (data.draw(st.integers(0, len(cells) - 1)) for cells in (counts, bases))
    count, base = u32(*counts), u32(*bases)
    guards = SkipGuard(count, i, None, 0, negate), SkipGuard(count, i, base, j, negate)
    for _ in range(2):  # cells are read each time
        expected = ((count.tolist()[i] != 0) != negate, (count.tolist()[i] != base.tolist()[j]) != negate)
        assert tuple(guard.evaluate() for guard in guards) == expected
        assert tuple(guard.negated().evaluate() for guard in guards) == (not expected[0], not expected[1])
        count[i] = bases[j]


def test_the_ways_to_make_a_guard() -> None:
    cells = u32(0, 7, 7, 9)
    assert not SkipGuard.nonzero(cells).evaluate() and SkipGuard.nonzero(cells[1:]).evaluate()
    assert [SkipGuard.intent(cells, i).evaluate() for i in range(4)] == [False, True, True, True]
    assert [SkipGuard.nonempty_bucket(cells, t).evaluate() for t in range(3)] == [True, False, True]
    with pytest.raises(TypeError):
        SkipGuard.intent(cells)  # type: ignore[call-arg]
    guard = SkipGuard(cells, np.int64(1), cells, np.uint8(2), np.True_)
    assert (guard.count_arr is cells, guard.count_idx, guard.baseline_arr is cells, guard.baseline_idx,
            guard.negate) == (True, 1, True, 2, True)
    assert guard.evaluate() is True and guard.negated().negate is False
    with pytest.raises(AttributeError):
        guard.negate = False  # type: ignore[misc]


def test_a_guard_keeps_its_arrays() -> None:
    guard = SkipGuard(np.full(1000, 3, np.uint32), 999, np.full(1000, 3, np.uint32), 999)
    gc.collect()
    assert not guard.evaluate()


def test_cells_of_any_array() -> None:
    strided, memory = np.arange(8, dtype=np.uint32)[::3], u32(0, 5)
    assert [SkipGuard.intent(strided, i).evaluate() for i in range(3)] == [False, True, True]
    for cells in (import_buffer(memory), Producer(memory, dtype=UINT32)):
        guard = SkipGuard.intent(cells, 0)
        assert guard.count_arr is cells and not guard.evaluate()
        memory[0] = 2
        assert guard.evaluate()
        memory[0] = 0
    brk = u32(1)
    loop = repeat_while(nothing, limit=import_buffer(u32(3)), brk=import_buffer(brk))
    loop()
    assert loop.iterations() == 3 and brk[0] == 0
    read_only = u32(4)
    read_only.flags.writeable = False
    assert SkipGuard.nonzero(read_only).evaluate()


CELLS = u32(1, 2, 3)


@pytest.mark.want("10a")
@pytest.mark.parametrize(("arguments", "raised", "text"), [
    (([1],), TypeError, r"count_arr: .*\[1\], a list"), ((None,), TypeError, "count_arr: .*None"),
    ((3,), TypeError, "count_arr: "), ((np.uint32(3),), TypeError, "count_arr: "),
    ((np.array([0.9]),), TypeError, r"count_arr: found an array of float64, wanted uint32; pass an array of numpy"),
    ((np.zeros(1, np.int32),), TypeError, "count_arr: found an array of int32"),
    ((np.zeros(1, bool),), TypeError, "count_arr: found an array of bool"),
    ((np.zeros(1, ">u4"),), TypeError, "count_arr: found an array of >u4"),
    ((CELLS.reshape(1, 3),), LayoutError, r"count_arr: found shape \(1, 3\), wanted one axis"),
    ((u32(1).reshape(()),), LayoutError, r"count_arr: found shape \(\)"),
    ((CELLS, 3), IndexError, "count_idx: found 3 of an array of 3 cells, wanted 0 to 2; count from 0"),
    ((CELLS, -1), IndexError, "count_idx: found -1 of an array of 3 cells"),
    ((CELLS, 2**70), IndexError, "count_idx: found 1180591620717411303424 of an array of 3"),
    ((u32(),), IndexError, "count_idx: found 0 of an array of 0 cells, wanted an array that has cells"),
    ((CELLS, 0.5), TypeError, "count_idx: found 0.5, a float, wanted an integer"),
    ((CELLS, True), TypeError, "count_idx: found True, a bool"), ((CELLS, None), TypeError, "count_idx: found None"),
    ((CELLS, 0, [1]), TypeError, r"baseline_arr: .*\[1\], a list"),
    ((CELLS, 0, CELLS.astype(float)), TypeError, "baseline_arr: found an array of float64"),
    ((CELLS, 0, CELLS, 3), IndexError, "baseline_idx: found 3 of an array of 3"),
    ((CELLS, 0, CELLS, "0"), TypeError, "baseline_idx: found '0', a str"),
    ((CELLS, 0, None, 1), IndexError, "baseline_idx: found 1 without a baseline_arr, wanted 0"),
    ((CELLS, 0, None, 0, 1), TypeError, "negate: found 1, wanted True or False"),
])
def test_what_is_no_guard(arguments: tuple[Any, ...], raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=rf"^eagle\.SkipGuard: {text}"):
        SkipGuard(*arguments)


@pytest.mark.want("10a")
@pytest.mark.parametrize(("call", "raised", "text"), [
    (lambda: SkipGuard.intent(CELLS, 3), IndexError, "intent: index: found 3 of an array of 3 cells"),
    (lambda: SkipGuard.intent([1], 0), TypeError, "intent: array: "),
    (lambda: SkipGuard.nonempty_bucket(CELLS, 2), IndexError, "nonempty_bucket: bucket: found 2 of an array of 2"),
    (lambda: SkipGuard.nonempty_bucket(CELLS, -1), IndexError, "nonempty_bucket: bucket: found -1"),
    (lambda: SkipGuard.nonempty_bucket(u32(), 0), IndexError, "nonempty_bucket: bucket: found 0 of an array of 0"),
    (lambda: SkipGuard.nonempty_bucket(CELLS.astype(int), 0), TypeError, "nonempty_bucket: offsets: found an array of"),
])
def test_what_is_no_guard_of_the_other_ways(call: Callable[[], object], raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=rf"^eagle\.SkipGuard\.{text}"):
        call()


def test_an_array_that_shrank_is_an_error_not_a_crash() -> None:
    cells = u32(*range(1000))
    guard = SkipGuard.intent(cells, 999)
    assert guard.evaluate()
    cells.resize(1, refcheck=False)
    with pytest.raises(IndexError):
        guard.evaluate()


class DeviceCells(Producer):
    """Cells on a device of a fake backend, read and written one by one as CuPy's."""

    def __init__(self, memory: np.ndarray[Any, Any]) -> None:
        super().__init__(memory, dtype=UINT32, device=(SHINE, 0))
        self.memory = memory

    def __getitem__(self, index: int) -> np.ndarray[Any, Any]:
        return self.memory[index:index + 1].reshape(())

    def __setitem__(self, index: int, value: int) -> None:
        self.memory[index] = value


def test_cells_on_a_device(site: Site, make_library: MakeLibrary) -> None:
    site.install_backend("acme-shine", "shine", make_library("shine", DEVICES=SHINE, BITS="(1 << EAGLE_CAP_STREAM)"),
                         device_types=(SHINE,))
    live, limit, brk = (u32(value) for value in (5, 9, 1))

    def step() -> None:
        live[0] -= 1
        if live[0] == 1:
            brk[0] = 1

    guard = SkipGuard.nonzero(DeviceCells(live))
    loop = repeat_while(step, guard, limit=DeviceCells(limit), brk=DeviceCells(brk))
    loop()
    assert loop.iterations() == 4 and guard.evaluate() and brk[0] == 1
    loop()
    assert loop.iterations() == 1 and not guard.evaluate() and brk[0] == 0
    live[0], limit[0] = 7, 3
    loop()
    assert loop.iterations() == 3
    with pytest.raises(IndexError, match="count_idx: found 1 of an array of 1"):
        SkipGuard(DeviceCells(live), 1)


# ---- skippable -------------------------------------------------------------------------------------------------------


def test_a_skippable_step() -> None:
    cell, ran = u32(0), []
    step = skippable(lambda: ran.append("one"), SkipGuard.nonzero(cell))
    assert isinstance(step, Skippable) and step() is None and ran == []
    cell[0] = 1
    assert step() is None and ran == ["one"]
    several = skippable((lambda: ran.append("two"), step, lambda: ran.append("three")), SkipGuard.nonzero(cell))
    several()
    assert ran == ["one", "two", "one", "three"]
    assert len(several.parts) == 3 and several.parts == several.step and step.parts == (step.step,)


@pytest.mark.want("10b")
@pytest.mark.parametrize(("step", "guard", "raised", "text"), [
    (3, None, TypeError, "step: found 3, a int, wanted a callable without arguments; pass a function"),
    (None, None, TypeError, "step: found None"), ("step", None, TypeError, "step: found 'step', a str"),
    ((nothing, 3), None, TypeError, "step, part 1: found 3, a int"), ((), None, ValueError, "step: found no parts"),
    ([nothing, (nothing,)], None, TypeError, "step, part 1: found"),
    (nothing, True, TypeError, "guard: found True, a bool, wanted a SkipGuard"),
    (nothing, CELLS, TypeError, "guard: found array.*, a ndarray"), (nothing, nothing, TypeError, "guard: found"),
    (nothing, SkipGuard, TypeError, "guard: found <class"),
])
def test_what_is_no_skippable_step(step: Any, guard: Any, raised: type[Exception], text: str) -> None:
    with pytest.raises(raised, match=rf"^eagle\.skippable: {text}"):
        skippable(step, SkipGuard.nonzero(CELLS) if guard is None else guard)


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_the_example() -> None:
    live = u32(5)
    loop = repeat_while(lambda: np.subtract(live, 1, out=live), SkipGuard.nonzero(live), 64)
    assert isinstance(loop, RepeatWhile) and loop.iterations() == 0
    assert loop() is None and loop.iterations() == 5  # type: ignore[func-returns-value]
    loop()
    assert loop.iterations() == 0
    live[0] = 100
    loop()
    assert loop.iterations() == 64 and live[0] == 36


def test_facts_of_a_loop() -> None:
    guard, limit, brk = SkipGuard.nonzero(CELLS), u32(3), u32(0)
    loop = repeat_while([nothing, nothing], guard, 5, limit=limit, brk=brk)
    assert (loop.guard, loop.max_iters, loop.cap) == (guard, 5, 5)
    assert loop.limit is limit and loop.brk is brk and loop.parts == (nothing, nothing) and type(loop.parts) is tuple
    single = repeat_while(nothing, guard)
    assert (single.parts, single.step, single.max_iters, single.cap) == ((nothing,), nothing, None, 2**32 - 1)
    assert (single.limit, single.brk) == (None, None)
    with pytest.raises(AttributeError):
        single.cap = 3  # type: ignore[misc]
    index = loop.iteration_index
    assert index.dtype == np.uint32 and index.shape == (1,)
    with pytest.raises(ValueError, match="read-only"):
        index[0] = 1


def test_the_index_counts_while_the_body_runs() -> None:
    seen: list[int] = []
    loop = repeat_while((lambda: seen.append(int(loop.iteration_index[0])), lambda: seen.append(loop.iterations())),
                        None, 3, limit=u32(9))
    loop()
    assert seen == [0, 0, 1, 1, 2, 2] and loop.iteration_index[0] == loop.iterations() == 3


def test_limit_and_brk_are_read_as_the_loop_goes() -> None:
    limit, brk = u32(10), u32(7)

    def step() -> None:
        assert brk[0] == 0  # cleared at the start
        if loop.iteration_index[0] == 2:
            limit[0] = 5

    loop = repeat_while(step, limit=limit, brk=brk)
    loop()
    assert loop.iterations() == 5 and brk[0] == 0
    cells = u32(3, 1, 1)
    ended = repeat_while(lambda: cells.__setitem__(1, 1), brk=cells[1:])
    ended()
    assert ended.iterations() == 1 and cells.tolist() == [3, 1, 1]
    limit[0] = 0
    brk[0] = 1
    loop()
    assert loop.iterations() == 0 and brk[0] == 0


def test_an_exception_leaves_the_loop_usable() -> None:
    at, live = [3], u32(1)

    def step() -> None:
        if loop.iterations() == at[0]:
            raise KeyError(at[0])

    loop = repeat_while((nothing, step), SkipGuard.nonzero(live), 6)
    for _ in range(2):
        with pytest.raises(KeyError):
            loop()
        assert loop.iterations() == loop.iteration_index[0] == 3
    at[0] = 0
    with pytest.raises(KeyError):
        loop()
    assert loop.iterations() == 0
    at[0] = -1
    loop()
    assert loop.iterations() == 6


def test_a_loop_within_itself() -> None:
    depth: list[int] = []

    def step() -> None:
        if len(depth) < 2:
            depth.append(1)
            loop()

    loop = repeat_while(step, None, 3, limit=u32(9))
    loop()
    assert loop.iterations() == 3
    trace: list[int] = []
    inner = repeat_while(lambda: trace.append(int(inner.iteration_index[0])), None, 2, limit=u32(9))
    outer = repeat_while((inner, lambda: trace.append(-int(outer.iteration_index[0]))), None, 3, limit=u32(9))
    outer()
    assert trace == [0, 1, 0, 0, 1, -1, 0, 1, -2] and (inner.iterations(), outer.iterations()) == (2, 3)


def test_a_loop_of_nodes_and_launches() -> None:
    x, live = np.zeros(3), u32(1)
    add = eagle.opaque(lambda: np.add(x, 1.0, out=x), reads={"x": x}, writes={"x": x})
    loop = repeat_while((add, skippable(add, SkipGuard.nonzero(live))), SkipGuard.nonzero(live), 4)
    loop()
    assert x.tolist() == [8.0] * 3


def test_loops_in_several_threads() -> None:
    """Each loop counts for itself."""
    loops = [repeat_while(nothing, None, n, limit=u32(10**6)) for n in (1000, 2000, 3000, 4000)]
    threads = [threading.Thread(target=loop) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [loop.iterations() for loop in loops] == [1000, 2000, 3000, 4000]


@pytest.mark.want("10c")
@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32, int])
def test_a_cap_of_any_integer(kind: type) -> None:
    loop = repeat_while(nothing, SkipGuard.nonzero(CELLS), kind(7))
    loop()
    assert loop.iterations() == loop.max_iters == loop.cap == 7 and type(loop.max_iters) is int


@pytest.mark.want("10d")
@pytest.mark.parametrize(("step", "text"), [
    (3, "step: found 3, a int, wanted a callable without arguments; pass a function"), (None, "step: found None"),
    ({nothing}, "step: found"), ((3,), "step, part 0: found 3"), ([nothing, "x"], "step, part 1: found 'x', a str"),
])
def test_what_is_no_step(step: Any, text: str) -> None:
    with pytest.raises(TypeError, match=rf"^eagle\.repeat_while: {text}"):
        repeat_while(step, SkipGuard.nonzero(CELLS), 3)


@pytest.mark.want("10d")
def test_the_largest_cap() -> None:
    guard = SkipGuard.nonzero(u32(0))
    assert repeat_while(nothing, guard, 2**32 - 1).cap == 2**32 - 1
    for wrong in (2**32, 2**40, 2**64):
        with pytest.raises(ValueError, match=rf"^eagle\.repeat_while: max_iters: found {wrong}, wanted 1 to 429496729"):
            repeat_while(nothing, guard, wrong)


READ_ONLY = u32(1)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(("change", "raised", "text"), [
    ({"step": ()}, ValueError, "step: found no parts, wanted one or more"),
    ({"step": []}, ValueError, "step: found no parts"),
    ({"guard": 3}, TypeError, "guard: found 3, a int, wanted a SkipGuard"),
    ({"guard": CELLS}, TypeError, "guard: found array"),
    ({"guard": None}, ValueError, "guard: found nothing that ends the loop"),
    ({"max_iters": 0}, ValueError, "max_iters: found 0, wanted 1 to 4294967295"),
    ({"max_iters": -3}, ValueError, "max_iters: found -3"), ({"max_iters": True}, TypeError, "max_iters: found True"),
    ({"max_iters": np.True_}, TypeError, "max_iters: found .*True"),
    ({"max_iters": 3.0}, TypeError, "max_iters: found 3.0, a float, wanted an integer"),
    ({"max_iters": "3"}, TypeError, "max_iters: found '3'"), ({"max_iters": [3]}, TypeError, "max_iters: found"),
    ({"limit": 3}, TypeError, "limit: "), ({"limit": np.zeros(1)}, TypeError, "limit: found an array of float64"),
    ({"limit": u32()}, IndexError, "limit: found 0 of an array of 0 cells"),
    ({"limit": CELLS.reshape(3, 1)}, LayoutError, r"limit: found shape \(3, 1\)"),
    ({"brk": [0]}, TypeError, "brk: "), ({"brk": np.zeros(1, bool)}, TypeError, "brk: found an array of bool"),
    ({"brk": u32()}, IndexError, "brk: found 0 of an array of 0 cells"),
    ({"brk": READ_ONLY}, BufferRefused, "brk: found an array that may not be written, wanted a writable one"),
    ({"brk": import_buffer(READ_ONLY)}, BufferRefused, "brk: found an array that may not be written"),
])
def test_what_is_no_loop(change: dict[str, Any], raised: type[Exception], text: str) -> None:
    given: dict[str, Any] = {"step": nothing, "guard": SkipGuard.nonzero(CELLS), "max_iters": 3, **change}
    with pytest.raises(raised, match=rf"^eagle\.repeat_while: {text}"):
        repeat_while(**given)
    assert CELLS.tolist() == [1, 2, 3]


def test_a_bound_plan_is_pointed_to_its_launch() -> None:
    class Bound:
        def launch(self) -> None: ...

    with pytest.raises(TypeError, match="wanted a callable without arguments; pass its launch"):
        repeat_while(Bound(), SkipGuard.nonzero(CELLS))  # type: ignore[arg-type]


# ---- any program of them ---------------------------------------------------------------------------------------------

K = 4  # cells
index = st.integers(0, K - 1)
ops = st.one_of(
    st.tuples(st.just("set"), index, st.integers(0, 3)),
    st.tuples(st.just("add"), index, st.sampled_from([1, -1])),
    st.tuples(st.just("fail"), index, st.integers(2, 3)))
guards = st.tuples(index, st.none() | index, st.booleans())


def loops(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.just("skip"), body, guards),
        st.tuples(st.just("loop"), body, st.none() | guards, st.integers(1, 4), st.none() | index, st.none() | index)
        .filter(lambda loop: loop[2:3] + loop[4:] != (None, None, None)))


programs = st.lists(st.recursive(ops, loops, max_leaves=8), min_size=1, max_size=3)


class Failed(Exception):
    pass


def interpreted(program: list[Any], cells: list[int], counts: dict[int, int]) -> None:
    """The serial Python meaning of a program; counts iterations by id of a loop."""
    def holds(guard: Any) -> bool:
        i, j, negate = guard
        return bool((cells[i] != (0 if j is None else cells[j])) != negate)

    for op in program:
        if op[0] == "set":
            cells[op[1]] = op[2]
        elif op[0] == "add":
            cells[op[1]] = (cells[op[1]] + op[2]) % 2**32
        elif op[0] == "fail":
            if cells[op[1]] == op[2]:
                raise Failed
        elif op[0] == "skip":
            if holds(op[2]):
                interpreted(op[1], cells, counts)
        else:
            _, body, guard, most, limit, brk = op
            if brk is not None:
                cells[brk] = 0
            counts[id(op)] = 0
            while True:
                ran = counts[id(op)]
                if ran >= most or (limit is not None and ran >= cells[limit]) or (guard is not None
                                                                                  and not holds(guard)):
                    break
                interpreted(body, cells, counts)
                counts[id(op)] = ran + 1
                if brk is not None and cells[brk] != 0:
                    break


def compiled(program: list[Any], cells: np.ndarray[Any, Any], made: dict[int, RepeatWhile]) -> list[Any]:
    """The same program of eagle's parts."""
    def guard_of(guard: Any) -> SkipGuard | None:
        return guard and SkipGuard(cells, guard[0], None if guard[1] is None else cells, guard[1] or 0, guard[2])

    def cell(i: int | None) -> Any:
        return None if i is None else cells[i:i + 1]

    def simple(op: Any) -> Callable[[], object]:
        def run() -> None:
            if op[0] == "set":
                cells[op[1]] = op[2]
            elif op[0] == "add":
                cells[op[1]:op[1] + 1] += np.uint32(op[2] % 2**32)
            elif cells[op[1]] == op[2]:
                raise Failed
        return run

    parts: list[Any] = []
    for op in program:
        if op[0] == "skip":
            parts.append(skippable(tuple(compiled(op[1], cells, made)), guard_of(op[2])))  # type: ignore[arg-type]
        elif op[0] == "loop":
            _, body, guard, most, limit, brk = op
            inner = compiled(body, cells, made)
            made[id(op)] = repeat_while(inner[0] if len(inner) == 1 else inner, guard_of(guard), most,
                                        limit=cell(limit), brk=cell(brk))
            parts.append(made[id(op)])
        else:
            parts.append(simple(op))
    return parts


@settings(max_examples=400)
@given(program=programs, start=st.lists(st.integers(0, 3), min_size=K, max_size=K))
def test_any_program_is_as_a_plain_loop(program: list[Any], start: list[int]) -> None:
    expected, cells = list(start), u32(*start)
    counts: dict[int, int] = {}
    made: dict[int, RepeatWhile] = {}
    parts = compiled(program, cells, made)
    for _ in range(2):  # also again, whatever became of the first
        outcomes = []
        for run in (lambda: interpreted(program, expected, counts), lambda: [part() for part in parts]):
            try:
                run()
                outcomes.append("done")
            except Failed:
                outcomes.append("failed")
        assert outcomes[0] == outcomes[1] and cells.tolist() == expected
        assert {op: loop.iterations() for op, loop in made.items()} == {op: counts.get(op, 0) for op in made}
