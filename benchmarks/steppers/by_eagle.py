"""This project and the peer, which have the same doors: the whole call of `simulate`, and the `run()` of a runner."""

import os
from functools import cache
from typing import Any

from steppers.batch import Batch
from steppers.inputs import CAP, batch

CLOCKED = ("table", "osc_compacting")  # the peer lets a clock choose the code that steps these, and so their last bits


def kernel(variant: str) -> Any:
    from steppers import hawk_kernels

    return getattr(hawk_kernels, variant)


@cache
def deployed(variant: str) -> Any:
    """The kernel's plan, built once a process."""
    import eagle

    return eagle.deploy(kernel(variant), cache_dir=os.environ["BENCH_CACHE"])


class Simulate(Batch):
    """`eagle.simulate` on a kernel it has seen."""

    def __init__(self, model: str, mix: str, n: int, variant: str = "") -> None:
        import eagle

        self.simulate, self.kernel, self.cap = eagle.simulate, kernel(variant or model), CAP[model]
        self.simulate(self.kernel, **batch(model, "once", 2), max_steps=self.cap)
        super().__init__(model, mix, n)
        self.exact = (variant or model) not in CLOCKED

    def step(self) -> None:
        self.simulate(self.kernel, **self.given, max_steps=self.cap)


class Run(Batch):
    """`run()` of a runner made once."""

    def __init__(self, model: str, mix: str, n: int, variant: str = "") -> None:
        import eagle

        plan, cap = deployed(variant or model), CAP[model]
        eagle.run_until_done(plan, **batch(model, "once", 2), max_steps=cap)
        super().__init__(model, mix, n)
        self.exact = (variant or model) not in CLOCKED
        self.runner = eagle.until_done(plan, **self.given, max_steps=cap)

    def reset(self) -> None:
        super().reset()
        self.runner.reset()

    def step(self) -> None:
        self.runner.run()
