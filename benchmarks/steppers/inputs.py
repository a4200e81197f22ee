"""The batches that every tool steps, the same to the bit. A plane `k` of each model counts the steps of a sample."""

from typing import Any

import numpy as np

DT, TOLERANCE, FIRST = 1e-3, 1e-9, 0.01
PER_STEP = 0.065  # time that a trial step of the orbit moves on, on average
# The most steps of a sample. No multiple of 64 and one: there an automatic kernel's last step is of other bits.
CAP = {"osc": 1000, "table": 1000, "orbit": 2000}
STATE = {"osc": ("x", "v", "k"), "table": ("x", "v", "k"), "orbit": ("x", "y", "u", "v", "t", "h", "k")}
MIXES = ("spread", "uniform", "once", "straggler", "bimodal")

# Numbers of steps: log-uniform; all alike; one; a single long one among short ones; half of each kind.
_STEPS: dict[str, Any] = {
    "spread": lambda rng, n: np.floor(np.exp(rng.uniform(0, np.log(1000), n))),
    "uniform": lambda rng, n: np.full(n, 300.0),
    "once": lambda rng, n: np.ones(n),
    "straggler": lambda rng, n: np.where(np.arange(n) == n // 2, 900.0, 3.0),
    "bimodal": lambda rng, n: np.where(rng.random(n) < 0.5, 20.0, 500.0),
}


def batch(model: str, mix: str, n: int) -> dict[str, Any]:
    """All planes and parameters of `n` samples of a model ("osc", "table", "orbit")."""
    rng = np.random.default_rng(7)
    steps = _STEPS[mix](rng, n)
    if model == "orbit":
        return _orbit(rng, steps, n)
    planes = {"omega": rng.uniform(1, 3, n), "zeta": rng.uniform(0.01, 0.1, n), "nstop": steps, "dt": DT,
              "x": np.ones(n), "v": np.zeros(n), "k": np.zeros(n)}
    if model == "table":
        planes |= {"medium": rng.integers(0, 64, n), "drag": rng.uniform(0.5, 1.5, 64)}
    return planes


def _orbit(rng: np.random.Generator, steps: np.ndarray, n: int) -> dict[str, Any]:
    """Ellipses, started where they are fastest. The end time is near that of so many steps; their number is found."""
    eccentricity = rng.uniform(0.1, 0.3, n)
    end = np.where(steps > 1, PER_STEP * steps, FIRST / 2)
    zeros = np.zeros(n)
    return {"end": end, "tolerance": TOLERANCE, "x": 1 - eccentricity, "y": zeros, "u": zeros.copy(),
            "v": np.sqrt((1 + eccentricity) / (1 - eccentricity)), "t": zeros.copy(), "h": np.full(n, FIRST),
            "k": zeros.copy()}
