"""Costs counted inside an environment, by code that knows nothing of shields."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Tally(gym.Wrapper[Any, Any, Any, Any]):
    """Counts costs inside the environment, knowing nothing of shields."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.sums: list[float] = []
        self.actions: list[Any] = []

    def reset(self, **named: Any) -> Any:
        self.sums.append(0.0)
        return self.env.reset(**named)

    def step(self, action: Any) -> Any:
        found = self.env.step(action)
        self.sums[-1] += found[4]["cost"]
        self.actions.append(np.array(action))
        return found
