"""A quantifier and a method of one's own, used by name: `--quantifier own:Slopes`, `--method own:vented`."""

from __future__ import annotations

from typing import Any

import numpy as np

import safexp


class Slopes(safexp.Quantifier):
    """Costs that change by at most `slopes[k]` per unit of input k, states first: what a data sheet may promise.

    Every logged cost c at x bounds the cost at y: |g(y) − c| ≤ Σ slopes[k] |y[k] − x[k]| + noise. If that promise
    holds, no interval ever misses.

    Args:
        slopes: (ds + da,), of the cost in [0, 1].
        noise: how far two costs of the same inputs may be apart.
        capacity: how many transitions are kept, the latest.
    """

    bounds_realised_cost = True
    delta = 0.0

    def __init__(self, slopes: list[float], noise: float = 0.0, capacity: int = 1000) -> None:
        self.slopes = slopes
        self.noise = noise
        self.capacity = capacity
        self._inputs, self._costs = np.empty((0, len(slopes))), np.empty(0)

    def predict(self, states: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, m, _ = actions.shape
        asked = np.concatenate([np.repeat(states[:, None], m, axis=1), actions], axis=2)
        room = np.full((n, m, len(self._inputs)), self.noise)
        for k, slope in enumerate(self.slopes):
            room += slope * np.abs(asked[:, :, None, k] - self._inputs[:, k])
        upper = np.min(self._costs + room, axis=2, initial=1.0)
        lower = np.max(self._costs - room, axis=2, initial=0.0)
        return (upper + lower) / 2, np.maximum(upper - lower, 0.0) / 2

    def update(self, data: safexp.Transitions) -> None:
        inputs = np.concatenate([data.states, data.actions], axis=1)
        self._inputs = np.concatenate([self._inputs, inputs])[-self.capacity :]
        self._costs = np.concatenate([self._costs, data.costs])[-self.capacity :]

    def state(self) -> dict[str, np.ndarray]:
        return {"inputs": self._inputs, "costs": self._costs}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self._inputs, self._costs = state["inputs"], state["costs"]


def vented(config: Any, envs: Any, constraint: Any, learner: Any, options: dict[str, Any]) -> safexp.MASE:
    """MASE whose potter vouches for one thing: with the burner off and the vent open, the ware cools."""
    quantifier = safexp.Calibrated(safexp.SparseGP(**config.quantifier_options, seed=config.seed))
    log = envs.unwrapped.envs[0].unwrapped.knowledge.log(np.random.default_rng(config.seed))
    return safexp.MASE(
        envs,
        constraint,
        quantifier,
        learner,
        learner_options=options,
        seed_data=log,
        safe_action=[0.0, 1.0],
        seed=config.seed,
    )
