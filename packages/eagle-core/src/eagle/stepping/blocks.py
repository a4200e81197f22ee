# SPDX-License-Identifier: Apache-2.0
"""``max_memory=``: a batch is stepped block by block, in buffers of that size; memory maps stay in their files."""

from __future__ import annotations

import mmap
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from eagle.errors import refusal, shown
from eagle.plan.layout import unmarked, with_samples_last
from eagle.plan.signature import Slot, Use
from eagle.stepping.calling import Calling
from eagle.stepping.interrupts import between
from eagle.stepping.making import read_planes
from eagle.stepping.model import Kernel, Model
from eagle.stepping.progress import Bar, read_progress
from eagle.stepping.relocation import Reach, reach
from eagle.stepping.report import RunReport, Verdict, together
from eagle.stepping.runner import Runner, make_report, make_runner

__all__ = ["check_blocks", "step_blocks"]

Array = np.ndarray[Any, Any]

CHUNK = 2**20  # bytes of a memory map that are looked at before they are given back
_SHARED = ("r", "r+", "w+")  # modes of memory maps whose pages are their file's
LOOK = 2**22  # the same, with what the system maps around them
_ALONE = (Use.SAMPLES, Use.NUMBER, Use.TABLE, Use.WORD, Use.MIX)  # what a kernel of a block may have


def check_blocks(door: str, model: Model, max_memory: Any) -> int:
    """`max_memory=` as an integer. ValueError, naming the kernel, for a model whose samples are not independent."""
    if isinstance(max_memory, bool) or not hasattr(type(max_memory), "__index__"):
        raise TypeError(refusal(door, "max_memory", shown(max_memory), "an integer", "pass bytes"))
    if model.has_nodes:
        raise ValueError(refusal(door, "max_memory", "a step with nodes, which see all samples", "kernels alone",
                                 "leave it out"))
    for kernel in model.kernels:
        if not _is_local(kernel):
            raise ValueError(refusal(door, f"max_memory, kernel {kernel.name!r}", "one that is not known to touch its "
                                     "own sample only", "kernels that use neither other samples nor their position",
                                     "leave it out"))
        if model.mask not in kernel.masks:
            raise ValueError(refusal(door, f"max_memory, kernel {kernel.name!r}", "one without the finish mask "
                                     f"{model.mask!r}, which runs for every sample until the whole batch is done",
                                     "kernels that stop with their sample", f"declare {model.mask}: Terminated in it, "
                                     "or leave max_memory= out"))
    most = operator.index(max_memory)
    if most < 1:
        raise ValueError(refusal(door, "max_memory", shown(most), "at least 1", "pass bytes"))
    return most


def _is_local(kernel: Kernel) -> bool:
    """Whether samples can be stepped in blocks with the same bits."""
    signature = kernel.signature
    slots = signature.stages[0].slots
    return (all(slot.use in _ALONE for slot in slots)  # Use.COUNT is the number of samples
            and reach(signature) is Reach.MOVABLE)


@dataclass
class _Plane:
    """A plane of a batch and the memory of its blocks."""

    slot: Slot
    whole: Array  #: with the samples last
    memory: Array  #: of one block, flat
    writes: bool

    def block(self, n: int) -> Array:
        """The first `n` samples of the block, as the kernels take them."""
        return self.memory[:self.slot.width * n].reshape(self.slot.shape(n))

    def move(self, base: int, n: int, *, back: bool) -> None:
        """Copy `n` samples from `base` on into the block, or back."""
        row = max(1, CHUNK // max(1, self.slot.width * self.slot.dtype.itemsize))
        mine = self.block(n).reshape((*self.whole.shape[:-1], n))
        for first in range(0, n, row):
            part = slice(first, min(first + row, n))
            theirs = self.whole[..., base + part.start:base + part.stop]
            if back:
                theirs[...] = mine[..., part]
            else:
                mine[..., part] = theirs
            _give_back(theirs)


def step_blocks(door: str, model: Model, calling: Calling, planes: Mapping[str, Any], made: Iterable[str],
                runner: Runner, most: int, *, layout: str | None, progress: Any,
                **options: Any) -> tuple[RunReport, float]:
    """Step the batch of `planes`, which is bound to `runner`, in at most `most` bytes: the report and the seconds.

    The planes were checked as a whole; those that eagle `made`, and the mask, count as memory too.
    """
    n, began = runner.n, perf_counter()
    plain, _ = unmarked(door, planes)
    readings = read_planes(door, model, planes, layout)
    slots = {name: one.slot for name, one in calling.parameters.items() if one.slot is not None and name in readings}
    for name in slots:
        if not isinstance(plain[name], np.ndarray):
            raise TypeError(refusal(door, f"max_memory, {slots[name].what}", f"a {type(plain[name]).__name__}",
                                    "an array of numpy", "pass a memory map, np.memmap"))
    size = _block(door, slots, n, most - runner.terminated.nbytes - sum(plain[name].nbytes for name in made))
    batch = [_Plane(slot, with_samples_last(slot, np.asarray(plain[name]), readings[name]),
                    np.empty(size * slot.width, slot.dtype), slot.writes) for name, slot in slots.items()]
    told = read_progress(door, progress)
    mask, done, most_steps, exact, mapped = runner.terminated, 0, 0, True, 0
    before = offered = 0  # steps, as far as somebody is told
    others = {name: value for name, value in plain.items() if name not in slots}
    blocks: dict[int, Runner] = {}
    verdict: Verdict | None = None

    def tell(now: int, _: int, steps: int) -> object:
        nonlocal offered
        offered = before + steps
        return told(done + now, n, offered) if told is not None else None

    try:
        for base in range(0, n, size):
            count = min(size, n - base)
            own = {name: plane.block(count) for name, plane in zip(slots, batch, strict=True)}
            block = blocks.get(count) or blocks.setdefault(count, make_runner(
                door, model, planes=others | own, layout="samples_last", progress=tell if told is not None else None,
                **options))
            # Also behind KeyboardInterrupt every plane is at a step boundary.
            report = between(partial(block.run_for, door), partial(_copy_back, batch, base, count, mask, block),
                             partial(_copy, batch, base, count, block))
            done, before = done + report.finished, offered
            most_steps, exact, mapped = max(most_steps, report.steps), exact and report.exact_steps, \
                mapped + report.mapped
            verdict = together(verdict, report)
    finally:
        if isinstance(told, Bar):
            told.close()
    return make_report(model, n, done, most_steps, exact, mapped, verdict=verdict), perf_counter() - began


def _copy(batch: Sequence[_Plane], base: int, count: int, block: Runner) -> None:
    for plane in batch:
        plane.move(base, count, back=False)
    block.reset()


def _copy_back(batch: Sequence[_Plane], base: int, count: int, mask: Array, block: Runner) -> None:
    mask[base:base + count] = block.terminated
    for plane in batch:
        if plane.writes:
            plane.move(base, count, back=True)


def _block(door: str, slots: Mapping[str, Slot], n: int, left: int) -> int:
    """The samples of a block in `left` bytes, some of which go to a look at the files."""
    sample = sum(slot.width * slot.dtype.itemsize for slot in slots.values()) + 1  # and its byte of the mask
    size = (left - min(LOOK, left // 2)) // sample
    if size < 1:
        raise ValueError(refusal(door, "max_memory", f"{left} bytes beside the mask of {n} samples",
                                 f"at least {2 * sample}, for one sample", "allow more"))
    return min(size, max(n, 1))


def _give_back(part: Array) -> None:
    """Let the pages of a memory map go: what was written is in its file's cache. Not of a private one, which has no
    other place for it."""
    owner: Any = part
    shared = False
    while isinstance(owner, np.ndarray):
        shared, owner = isinstance(owner, np.memmap) and owner.mode in _SHARED, owner.base
    if shared and isinstance(owner, mmap.mmap) and hasattr(owner, "madvise"):
        owner.madvise(mmap.MADV_DONTNEED)
