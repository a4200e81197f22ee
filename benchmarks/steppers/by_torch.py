"""PyTorch: steps of the whole batch, of which a mask takes the samples that go on."""

import numpy as np
import torch

from steppers.bodies import dopri
from steppers.inputs import CAP, STATE, batch
from steppers.whole import functions

trial = dopri(torch.where, torch.sqrt, torch.pow, torch.clip)


class Call:
    """One run of the loop. It writes nothing: every run starts from the same tensors."""

    exact = False

    def __init__(self, model: str, mix: str, n: int) -> None:
        self.move, self.done = functions(model, trial)
        self.cap, self.names = CAP[model], STATE[model]
        given = {key: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
                 for key, value in batch(model, mix, n).items()}
        self.first = tuple(given.pop(key) for key in self.names)
        self.fixed = given

    def reset(self) -> None:
        pass

    @torch.inference_mode()
    def step(self) -> None:
        state, alive = self.first, torch.ones(self.first[0].shape, dtype=torch.bool)
        for _ in range(self.cap):
            moved = self.move(state, **self.fixed)
            state = tuple(torch.where(alive, new, old) for new, old in zip(moved, state, strict=True))
            alive &= ~self.done(state, **self.fixed)
            if not alive.any():
                break
        self.answer = state

    def result(self) -> dict[str, np.ndarray]:
        return {name: plane.numpy() for name, plane in zip(self.names, self.answer, strict=True)}
