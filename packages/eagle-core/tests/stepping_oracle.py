# SPDX-License-Identifier: Apache-2.0
"""Single steps in a plain loop: what every way of stepping must give, bit for bit.

`Serial` launches a bound plan once a step; `MODELS` are steps in NumPy, which use nothing of eagle. Neither uses the
stepping doors. Kernels are built in the exact host profile, so a step has the same bits however it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from stepping_forms import Array, Model, Planes, bits, copied, layout


@dataclass(frozen=True)
class Answer:
    """What a run leaves behind. `counts` are the steps each sample took in it."""

    planes: Planes
    mask: Array
    counts: Array

    @property
    def n(self) -> int:
        return len(self.mask)

    @property
    def finished(self) -> int:
        return int(self.mask.sum())

    @property
    def done(self) -> bool:
        return self.finished == self.n

    @property
    def steps(self) -> int:
        return int(self.counts.max(initial=0))


class Serial:
    """A batch of a model, stepped by one launch of each of its kernels a step. Its planes are its own."""

    def __init__(self, model: Model, planes: Planes, mask: Array | None = None) -> None:
        self.model, self.planes = model, copied(planes)
        n = len(mask) if mask is not None else batch(planes)
        self.mask = np.zeros(n, bool) if mask is None else mask.copy()
        everything = {**self.planes, "terminated": self.mask}
        if model.compacts:
            everything |= {"active_map": np.arange(n, dtype=np.int32), "active_count": np.array([n], np.uint32)}
        own = {name: np.zeros(length, np.uint32) for name, length in model.owned.items()}
        names = {*own, "active_map", "active_count"}
        self.bound = [plan.bind(**layout(planes), **own, **{name: value for name, value in everything.items()
                                          if name in names or name in kernel.planes})
                      for plan, kernel in zip(model.deployed(one=True), model.one or model.kernels, strict=True)]

    def run(self, cap: int) -> Answer:
        """Steps until all are done, or each was offered `cap` steps; a launch that takes K steps is not cut."""
        return self.runs([cap])[cap]

    def runs(self, caps: Iterable[int]) -> dict[int, Answer]:
        """What a run from here on leaves behind for each of these caps."""
        counts, taken, answers = np.zeros(len(self.mask), np.int64), 0, {}
        for cap in sorted(caps):
            while taken < self.model.offered(cap) and not (self.mask | self.planes.get("rejected", np.False_)).all():
                counts += ~self.mask & ~self.planes.get("rejected", np.False_)
                for bound in self.bound:
                    bound.launch()
                taken += 1
            answers[cap] = Answer(copied(self.planes), self.mask.copy(), counts.copy())
        return answers


def batch(planes: Planes) -> int:
    """How many samples planes of a model hold."""
    for name in ("k", "y", "x", "p"):
        if name in planes:
            return int(planes[name].shape[-1])
    raise KeyError(sorted(planes))


# ---- the second oracle: steps in NumPy -----------------------------------------------------------------------------


Step = Callable[[Planes], tuple[Planes, Array]]


def _linear(p: Planes) -> tuple[Planes, Array]:
    a = p["x"].dtype.type(p["a"])
    return {"x": a * p["x"] + p["b"], "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _decay(p: Planes) -> tuple[Planes, Array]:
    y = p["y"] * p["rate"]
    return {"y": y, "hits": p["hits"] + 1}, y < p["floor"]


def _gauged(p: Planes) -> tuple[Planes, Array]:
    """`e` follows `y`, but not into the step in which the sample finishes."""
    new, done = _decay(p)
    return {**new, "e": np.where(done, p["e"], new["y"] * new["y"])}, done


def _oscillator(p: Planes) -> tuple[Planes, Array]:
    x, v, dt, w2, c = p["x"], p["v"], p["dt"], p["omega"] * p["omega"], 2.0 * p["zeta"] * p["omega"]
    k1x, k1v = v, -w2 * x - c * v
    k2x = v + 0.5 * dt * k1v
    k2v = -w2 * (x + 0.5 * dt * k1x) - c * k2x
    k3x = v + 0.5 * dt * k2v
    k3v = -w2 * (x + 0.5 * dt * k2x) - c * k3x
    k4x = v + dt * k3v
    k4v = -w2 * (x + dt * k3x) - c * k4x
    return {"x": x + dt / 6.0 * (k1x + 2.0 * k2x + 2.0 * k3x + k4x),
            "v": v + dt / 6.0 * (k1v + 2.0 * k2v + 2.0 * k3v + k4v), "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _collatz(p: Planes) -> tuple[Planes, Array]:
    half = np.floor(p["x"] * 0.5)
    x = np.where(p["x"] > 2 * half, 3 * p["x"] + 1, half)
    return {"x": x, "highest": np.fmax(p["highest"], x)}, x == 1


def _integers(p: Planes) -> tuple[Planes, Array]:
    return {"o": p["o"] * 3 + p["i"], "p": p["p"] + np.int32(1), "q": p["q"] + p["u"]}, p["p"] + 1 >= p["stop"]


def _table_read(p: Planes) -> tuple[Planes, Array]:
    return {"x": p["x"] * 0.5 + p["t"][p["i"]], "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _neighbour(p: Planes) -> tuple[Planes, Array]:
    return {"x": p["x"] * 0.5 + p["u"][p["i"]], "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _own_index(p: Planes) -> tuple[Planes, Array]:
    return {"x": p["x"] * 0.5 + np.arange(float(len(p["x"]))), "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _one_step(p: Planes) -> tuple[Planes, Array]:
    return {"x": p["x"] * p["a"] + 0.25, "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


def _write_only(p: Planes) -> tuple[Planes, Array]:
    return {"last": p["a"] * 3, "x": p["x"] + p["a"], "k": p["k"] + 1}, p["k"] + 1 >= p["stop"]


NUMPY: dict[str, Step] = {
    "plain arithmetic": _linear, "plain arithmetic, float32": _linear, "decay": _decay, "finisher first": _gauged,
    "RK4 oscillator": _oscillator, "branches": _collatz, "integer planes": _integers, "steps=4, integers": _integers,
    "Table": _table_read, "steps=4, Table": _table_read, "compacting, Table": _table_read,
    "another sample": _neighbour, "sample_index": _own_index, "compacting, sample_index": _own_index,
    "write-only": _write_only, "steps=1": _one_step, "steps=7": _one_step, "compacting": _one_step,
    "compacting, steps=4": _one_step,
}


def in_numpy(model: Model, step: Step, planes: Planes, cap: int, mask: Array | None = None) -> Answer:
    """What `Serial` gives, computed by NumPy."""
    planes = copied(planes)
    mask = np.zeros(batch(planes), bool) if mask is None else mask.copy()
    counts = np.zeros(len(mask), np.int64)
    for _ in range(model.offered(cap)):
        if mask.all():
            break
        with np.errstate(over="ignore"):
            new, done = step(planes)
        for name, value in new.items():
            planes[name][~mask] = value[~mask]
        counts += ~mask
        mask |= done
    return Answer(planes, mask, counts)


def assert_same(got: Planes, mask: Array, want: Answer) -> None:
    """The planes and the mask have the bits of the answer."""
    for name, value in want.planes.items():
        if isinstance(value, np.ndarray) and bits(got[name]) != bits(value):
            where = np.nonzero(np.asarray(got[name]).reshape(value.shape) != value)[-1][:8].tolist()
            raise AssertionError(f"{name!r} differs, first at {where}: {got[name].ravel()[where]}, "
                                 f"wanted {value.ravel()[where]}")
    assert bits(mask) == bits(want.mask), np.nonzero(mask != want.mask)[0][:8].tolist()
