"""Logs of a heater, good ones and ones with a single fault each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp import Log, Within

LIMIT = Within("heat", low=-16.0, high=16.0)


def heater(
    *, episodes: int = 90, steps: int = 30, noise: float = 1.0, late: int = 0, seed: int = 0, boldness: float = 8.0
) -> dict[str, NDArray[Any]]:
    """Columns of a log: heat' = .95·heat + 2·action + .3·draught, by a controller that aims at random set points.

    Its actions have this much exploration noise, and act `late` steps later than they are taken.
    """
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {name: [] for name in ("states", "actions", "next_states", "episodes", "heat")}
    for episode in range(episodes):
        heat, aim, before = rng.uniform(-2, 2), rng.uniform(-boldness, boldness), [0.0] * late
        draught = rng.normal()
        for _ in range(steps):
            action = float(np.clip(0.15 * (aim - heat) + noise * rng.normal(), -3, 3))
            before.append(action)
            state = [heat, draught, aim]
            heat = 0.95 * heat + 2 * before.pop(0) + 0.3 * draught + 0.02 * np.sin(heat)
            draught = 0.8 * draught + 0.6 * rng.normal()
            rows["states"].append(state)
            rows["actions"].append([action])
            rows["next_states"].append([heat, draught, aim])
            rows["episodes"].append(episode)
            rows["heat"].append(heat)
    return {name: np.array(column) for name, column in rows.items()}


def as_log(columns: dict[str, NDArray[Any]]) -> Log:
    return Log(
        columns["states"],
        columns["actions"],
        episodes=columns["episodes"],
        signals={"heat": columns["heat"]},
        next_observations=columns["next_states"],
    )
