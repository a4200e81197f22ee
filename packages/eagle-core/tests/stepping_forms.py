# SPDX-License-Identifier: Apache-2.0
"""What the tests step: models of one or more kernels, their inputs, and what is known of each.

    MODELS["plain arithmetic"].planes(n=1000, seed=7, dist="spread")  # {name: array or number}
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hawk
import numpy as np
import stepping_kernels as ks

import eagle

Array = np.ndarray[Any, Any]
Planes = dict[str, Any]
Rng = np.random.Generator

#: How many steps each sample takes. "never" samples run to the cap.
DISTS: dict[str, Callable[[Rng, int], Array]] = {
    "equal": lambda rng, n: np.full(n, 37.0),
    "bimodal": lambda rng, n: rng.choice([3.0, 150.0], n),
    "straggler": lambda rng, n: np.where(np.arange(n) == n // 2, 300.0, 3.0),
    "spread": lambda rng, n: np.floor(np.exp(rng.uniform(0, np.log(200), n))),
    "immediate": lambda rng, n: np.ones(n),
    "never": lambda rng, n: np.full(n, np.inf),
}


@dataclass(frozen=True)
class Model:
    """One step of one or more kernels. `make(rng, stops)` gives its planes for as many samples as there are stops."""

    kernels: tuple[Any, ...]
    make: Callable[[Rng, Array], Planes]
    one: tuple[Any, ...] = ()  # the same step taken one at a time, where a launch of `kernels` takes more
    k: int | str = "auto"  # steps of a launch
    moves: bool = True  # whether a sample's result depends neither on its position nor on its neighbours
    compacts: bool = False
    scalar_type: str = "float64"
    lanes: int = 1  # n is rounded up to a multiple
    least: int = 0  # samples
    owned: dict[str, int] = field(default_factory=dict)  # uint32 planes bind needs, which a runner makes itself
    exact: bool = True  # whether an engine can know how many steps the busiest sample took

    @property
    def single(self) -> bool:
        return len(self.kernels) == 1

    def offered(self, cap: int) -> int:
        """The most steps a run with a cap offers a sample: a launch that takes K steps is not cut."""
        return -(-cap // self.k) * self.k if isinstance(self.k, int) else cap

    def n_of(self, n: int) -> int:
        return max(-(-n // self.lanes) * self.lanes, self.least)

    def planes(self, n: int, seed: int, dist: str) -> Planes:
        """Fresh planes of at least `n` samples, without the mask."""
        rng = np.random.default_rng(seed)
        made = self.make(rng, DISTS[dist](rng, self.n_of(n)))
        return {name: self._typed(value) for name, value in made.items()}

    def _typed(self, value: Any) -> Any:
        is_real = isinstance(value, np.ndarray) and value.dtype == np.float64
        return value.astype(self.scalar_type) if is_real else value

    def deployed(self, one: bool = False) -> list[Any]:
        """The plans of its step; with `one`, of kernels that take one step a launch."""
        kernels = (self.one or self.kernels) if one else self.kernels
        return [deployed(kernel, self.scalar_type) for kernel in kernels]

    @property
    def model(self) -> Any:
        """What `simulate` is given."""
        return self.kernels[0] if self.single else list(self.kernels)

    @property
    def plan(self) -> Any:
        """What `until_done` is given."""
        return self.deployed()[0] if self.single else self.deployed()


def deployed(kernel: Any, scalar_type: str) -> Any:
    return _deployed(kernel, scalar_type, os.environ.get("HAWK_HOST_PROFILE"))


@functools.cache
def _deployed(kernel: Any, scalar_type: str, profile: str | None) -> Any:
    """What a profile made is no other's, whichever test comes first."""
    return eagle.deploy(kernel, scalar_type=scalar_type)


def _real(rng: Rng, *shape: int) -> Array:
    return rng.normal(size=shape)


def _counted(**inputs: Callable[[Rng, int], Any]) -> Callable[[Rng, Array], Planes]:
    """Planes of a kernel that counts in `k` up to `stop`: `inputs` beside those."""
    def make(rng: Rng, stops: Array) -> Planes:
        made = {name: value(rng, len(stops)) for name, value in inputs.items()}
        return {**made, "stop": stops, "k": np.zeros(len(stops))}
    return make


def _x(rng: Rng, n: int) -> Array:
    return _real(rng, n)


def _index(most: int) -> Callable[[Rng, int], Array]:
    return lambda rng, n: rng.integers(0, most, n)


def _own_index(rng: Rng, n: int) -> Array:
    return rng.integers(0, max(n, 1), n)


def _table(rng: Rng, n: int) -> Array:
    return rng.uniform(0.0, 1.0, 64)


def _row_for_each(rng: Rng, n: int) -> Array:
    return _real(rng, n + 1)


def _bins(rng: Rng, n: int) -> Array:
    return np.zeros(16)


def _decay(rng: Rng, stops: Array) -> Planes:
    rate = np.exp(np.log(0.1) / (stops - 0.5))
    return {"rate": rate, "floor": 0.1, "y": np.ones(len(stops)), "hits": np.zeros(len(stops))}


def _collatz(rng: Rng, stops: Array) -> Planes:
    start = np.where(stops <= 40, 2.0 ** np.minimum(stops, 40.0), np.minimum(stops, 1e6))
    return {"x": np.where(np.isinf(stops), 0.0, start), "highest": np.zeros(len(stops))}


def _integers(rng: Rng, stops: Array) -> Planes:
    n = len(stops)
    return {"i": rng.integers(-9, 9, n), "u": rng.integers(0, 2**32, n, dtype=np.uint32),
            "stop": np.minimum(stops, 2.0**31 - 1).astype(np.int32), "o": rng.integers(-2**60, 2**60, n),
            "p": np.zeros(n, np.int32), "q": rng.integers(0, 2**32, n, dtype=np.uint32)}


def _oscillator(rng: Rng, stops: Array) -> Planes:
    n = len(stops)
    return {"omega": rng.uniform(1, 3, n), "zeta": rng.uniform(0.01, 0.1, n), "stop": stops, "dt": 1e-3,
            "x": np.ones(n), "v": np.zeros(n), "k": np.zeros(n)}


def _tabled_oscillator(rng: Rng, stops: Array) -> Planes:
    planes = _oscillator(rng, stops)
    del planes["zeta"]
    return {**planes, "force": _real(rng, 64), "i": rng.integers(0, 64, len(stops))}


def orbits(rng: Rng, stops: Array) -> Planes:
    """Ellipses from their nearest point, for about as many attempts as `stops` says."""
    n = len(stops)
    e = rng.uniform(0.0, 0.7, n)
    s = np.stack([1 - e, np.zeros(n), np.zeros(n), np.sqrt((1 + e) / (1 - e))])
    return {"t_end": 0.05 * stops, "tol": 1e-8, "s": s, "t": np.zeros(n), "h": np.full(n, 0.01), "k": np.zeros(n)}


def _newton(rng: Rng, stops: Array) -> Planes:
    a = np.where(np.isinf(stops), np.nan, rng.uniform(0.5, 2.0, len(stops)))
    away = 1e-5 * np.exp(np.minimum(stops, 60.0) / 8)
    return {"a": a, "x": np.sqrt(np.abs(a)) + away, "k": np.zeros(len(stops))}


def _random_walk(rng: Rng, stops: Array) -> Planes:
    n = len(stops)
    return {"wall": np.sqrt(np.minimum(stops, 60.0)) * np.where(np.isinf(stops), np.inf, 1.0),
            "seed": rng.integers(0, 99, n), "x": np.zeros(n), "c": np.zeros(n, np.int64)}


def _rejecting(rng: Rng, stops: Array) -> Planes:
    return {**_counted(a=_x, x=_x)(rng, stops), "rejected": rng.integers(0, 5, len(stops)) == 0}


def _beside(*names: str) -> Callable[[Rng, Array], Planes]:
    """A decaying batch with planes of zeros for the kernels beside."""
    return lambda rng, stops: {**_decay(rng, stops), **{name: np.zeros(len(stops)) for name in names}}


def _climbing(rng: Rng, stops: Array) -> Planes:
    n = len(stops)
    return {"a": np.ones(n), "y": np.zeros(n), "wall": stops - 0.5, "crossed": np.zeros(n)}


LINEAR = _counted(a=_x, x=_x)


_vectors = _counted(f=lambda r, n: _real(r, 3, n), p=lambda r, n: _real(r, 3, n))


def _one_step(rng: Rng, stops: Array) -> Planes:
    return {**LINEAR(rng, stops), "a": rng.uniform(-1, 1, len(stops))}


#: {form: the model}. Two of every kind of launch, K, mask and access that an engine may treat on its own.
MODELS: dict[str, Model] = {
    "plain arithmetic": Model((ks.linear,), lambda r, s: {**_counted(b=_x, x=_x)(r, s), "a": 0.75}),
    "plain arithmetic, float32": Model((ks.linear,), lambda r, s: {**_counted(b=_x, x=_x)(r, s), "a": 0.75},
                                       scalar_type="float32"),
    "decay": Model((ks.decay,), _decay),
    "RK4 oscillator": Model((ks.oscillator,), _oscillator),
    "RK4 oscillator, float32": Model((ks.oscillator,), _oscillator, scalar_type="float32"),
    "vectors and matrices": Model((ks.frames,), _counted(
        f=lambda r, n: _real(r, 2, n), w=lambda r, n: _real(r, 6, n), p=lambda r, n: _real(r, 2, n),
        q=lambda r, n: _real(r, 6, n))),
    "inner loop": Model((ks.series,), LINEAR),
    "sin, exp, log": Model((ks.chain,), LINEAR),
    "branches": Model((ks.collatz,), _collatz),
    "integer planes": Model((ks.integers,), _integers),
    "n_samples": Model((ks.counts_samples,), _counted(x=_x)),
    "sample_index": Model((ks.own_index,), _counted(x=_x), moves=False),
    "a draw": Model((ks.one_draw,), _counted(x=_x), moves=False),
    "Table": Model((ks.table_read,), _counted(i=_index(64), t=_table, x=_x)),
    "Table at the own index": Model((ks.table_at_own_index,), _counted(t=_row_for_each, x=_x), moves=False),
    "another sample": Model((ks.neighbour,), _counted(i=_own_index, u=_x, x=_x), moves=False),
    "Staged": Model((ks.in_stages,), _counted(i=_index(50), f=lambda r, n: _real(r, 3, 50), x=_x)),
    "Wide": Model((ks.wide,), _counted(e=_index(30), b=lambda r, n: _real(r, 120), x=_x)),
    "write-only": Model((ks.write_only,), _counted(a=_x, x=_x, last=_x)),
    "unused parameters": Model((ks.unused,), _counted(a=_x, spare=_x, b=lambda r, n: 2.0, x=_x)),
    "dispatch, auto": Model((ks.mixed,), _counted(kind=lambda r, n: r.integers(-1, 4, n), x=_x),
                            owned={"dispatch0_mix": 3}),
    "dispatch, switch": Model((ks.switched,), _counted(kind=lambda r, n: r.integers(-1, 4, n), x=_x)),
    "Grid": Model((ks.grid,), LINEAR, lanes=8, moves=False),
    "Grid, column read": Model((ks.grid_column,), LINEAR, lanes=8, moves=False),
    "two masks": Model((ks.two_masks,), _rejecting, exact=False),
    "RK4 with a Table": Model((ks.tabled_oscillator,), _tabled_oscillator),
    "orbit": Model((ks.orbit,), orbits),
    "steps=1": Model((ks.one_step,), _one_step, k=1),
    "steps=2": Model((hawk.steps(ks.one_step, 2),), _one_step, (ks.one_step,), k=2),
    "steps=4": Model((hawk.steps(ks.one_step, 4),), _one_step, (ks.one_step,), k=4),
    "steps=7": Model((hawk.steps(ks.one_step, 7),), _one_step, (ks.one_step,), k=7),
    "steps=4, integers": Model((hawk.steps(ks.integers, 4),), _integers, (ks.integers,), k=4),
    "steps=4, Table": Model((hawk.steps(ks.table_read, 4),), _counted(i=_index(64), t=_table, x=_x),
                            (ks.table_read,), k=4),
    "steps=1, vector": Model((ks.vector_step,), _vectors, k=1),
    "inner loop over the state": Model((ks.newton,), _newton, k=1),
    "random walk": Model((ks.random_walk,), _random_walk, k=1, moves=False),
    "Table at the state": Model((ks.pointer,), lambda r, s: {
        **_counted(i=_index(64), table=_table, x=_x)(r, s)}, k=1),
    "WideOut": Model((ks.own_column,), _counted(a=_x, b=_x), k=1, moves=False),
    "bins": Model((ks.bins,), _counted(i=_index(16), a=_x, acc=_bins), k=1, moves=False),
    "keyed sum": Model((ks.keyed,), _counted(i=_index(16), a=_x, acc=_bins), k=1, moves=False),
    "sum over samples": Model((ks.summed,), _counted(a=_x, total=lambda r, n: np.zeros(1)), k=1, moves=False,
                              least=1),
    "compacting": Model((ks.live_linear,), _one_step, compacts=True),
    "compacting, steps=1": Model((ks.live_one_step,), _one_step, k=1, compacts=True),
    "compacting, steps=4": Model((hawk.steps(ks.live_one_step, 4),), _one_step, (ks.live_one_step,), k=4,
                                 compacts=True),
    "compacting, integers": Model((ks.live_integers,), _integers, compacts=True),
    "compacting, sample_index": Model((ks.live_index,), _counted(x=_x), moves=False, compacts=True),
    "compacting, Table": Model((ks.live_table,), _counted(i=_index(64), t=_table, x=_x), compacts=True),
    "compacting, vector": Model((ks.live_vector,), _vectors, compacts=True),
    "finisher first": Model((ks.decay, ks.gauge), _beside("e"), k=1),
    "finisher last": Model((ks.pushed, ks.stop_above), _climbing, k=1),
    "gauge before": Model((ks.gauge, ks.decay), _beside("e"), k=1),
    "counter without a mask": Model((ks.decay, ks.counter), _beside("steps_seen"), k=1),
    "two finishers": Model((ks.decay, ks.gauge, ks.stop_at), lambda r, s: {
        **_beside("e", "k")(r, s), "stop": np.floor(1 + s * r.uniform(0.5, 1.5, len(s)))}, k=1),
    "integers and a counter": Model((ks.integers, ks.counter), lambda r, s: {
        **_integers(r, s), "steps_seen": np.zeros(len(s))}, k=1),
    "sum beside": Model((ks.decay, ks.running_total), lambda r, s: {**_decay(r, s), "total": np.zeros(1)}, k=1,
                        least=1),
}

SINGLE = {form: model for form, model in MODELS.items() if model.single}
COMPACTING = {form: model for form, model in MODELS.items() if model.compacts}


def layout(planes: Planes) -> dict[str, str]:
    """What a call must be told of planes as long as they are wide."""
    square = any(np.ndim(value) == 2 and value.shape[0] == value.shape[1] for value in planes.values())
    return {"layout": "samples_last"} if square else {}


def bits(value: Any) -> bytes:
    return np.ascontiguousarray(value).tobytes()


def copied(planes: Planes) -> Planes:
    """Planes of the same values, in memory of their own."""
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in planes.items()}
