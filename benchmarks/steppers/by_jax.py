"""JAX: `jit(vmap(while_loop))` of one sample, in float64 on the CPU, compiled before it is timed."""

import os
from typing import Any

if os.environ.get("OMP_NUM_THREADS") == "1":  # JAX reads no such setting: its threads get one CPU to share
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

from steppers.bodies import dopri
from steppers.inputs import CAP, STATE, batch
from steppers.whole import SHARED, functions

jax.config.update("jax_enable_x64", True)
trial = dopri(jnp.where, jnp.sqrt, jnp.power, jnp.clip)


class Call:
    """One call of the compiled function, waited for. It writes nothing: every call starts from the same arrays."""

    exact = False

    def __init__(self, model: str, mix: str, n: int) -> None:
        step, done = functions(model, trial)
        cap, self.names, given = CAP[model], STATE[model], batch(model, mix, n)
        fixed = {key: value for key, value in given.items() if key not in self.names}

        def until_done(state: Any, fixed: Any) -> Any:
            def go_on(state: Any) -> Any:
                return jnp.logical_not(done(state, **fixed)) & (state[-1] < cap)

            return jax.lax.while_loop(go_on, lambda state: step(state, **fixed), state)

        axes = (0, {key: None if key in SHARED else 0 for key in fixed})
        self.arguments = jax.device_put((tuple(given[key] for key in self.names), fixed))
        self.function = jax.jit(jax.vmap(until_done, in_axes=axes)).lower(*self.arguments).compile()

    def reset(self) -> None:
        pass

    def step(self) -> None:
        self.answer = jax.block_until_ready(self.function(*self.arguments))

    def result(self) -> dict[str, np.ndarray]:
        return {name: np.asarray(plane) for name, plane in zip(self.names, self.answer, strict=True)}
