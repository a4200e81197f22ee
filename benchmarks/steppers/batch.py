"""What the steppers share."""

from typing import Any

import numpy as np

from steppers.inputs import STATE, batch


class Batch:
    """A batch that `step()` steps until each sample is done, in place; `reset()` brings its first state back.

    `exact` says whether every tool with such a batch gives the same bits.
    """

    exact = False

    def __init__(self, model: str, mix: str, n: int) -> None:
        self.given = batch(model, mix, n)
        self.state = {name: self.given[name] for name in STATE[model]}
        self._first = {name: plane.copy() for name, plane in self.state.items()}

    def reset(self) -> None:
        for name, plane in self.state.items():
            np.copyto(plane, self._first[name])

    def step(self) -> Any:
        raise NotImplementedError

    def result(self) -> dict[str, np.ndarray]:
        """The state after a step, as arrays of NumPy."""
        return self.state
