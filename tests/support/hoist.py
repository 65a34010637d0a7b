"""Logs of a hoist: an action moves its drive, the drive its speed, and the speed its height."""

from __future__ import annotations

import numpy as np

from safexp import Log, Within
from safexp.core.arrays import Array

LIMIT = Within(0, low=0.0, high=9.0)
HORIZON = 60


def hoist(*, episodes: int = 70, steps: int = 100, jumps: float = 0.0, seed: int = 0) -> Log:
    """Log of a controller of the height (metres, below LIMIT); states are height, speed, drive and load.

    The load pulls, and jumps to another value with this probability in every step.
    """
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        state, target = np.array([rng.uniform(2, 6), 0.0, 0.0, rng.uniform(-0.1, 0.1)]), rng.uniform(1, 8)
        for _ in range(steps):
            action = float(np.clip(0.4 * (target - state[0]) - 0.8 * state[1] + 0.2 * rng.normal(), -1, 1))
            height, speed, drive, load = state
            drive += 0.2 * (action - drive)
            speed += 0.05 * (2.0 * drive - 0.6 * speed - load)
            after = np.array([height + 0.05 * speed, speed, drive, load])
            if rng.random() < jumps:
                after[3] = rng.uniform(-1.2, 1.2)
            rows.append((state, [action], after, episode))
            state = after
    states, actions, following, numbers = map(np.array, zip(*rows, strict=True))
    return Log(states, actions, episodes=numbers, next_observations=following)


def brake(observations: Array) -> Array:
    """Actions (n, 1) that bring the hoist to rest."""
    return np.clip(-2.0 * observations[:, 1:2] - 0.5 * observations[:, 2:3] + 0.5 * observations[:, 3:], -1, 1)
