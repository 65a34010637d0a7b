"""A pit: a walk on which every step inside of it costs 1."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Pit(gym.Env):
    """A walk that costs 1 for every step that ends above 0."""

    observation_space = spaces.Box(-1000.0, 1000.0, (1,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, horizon=40):
        self.horizon = horizon

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = -3.0, 0
        return np.array([self.place]), {}

    def step(self, action):
        self.place += float(action[0])
        self.steps += 1
        return np.array([self.place]), self.place, False, self.steps >= self.horizon, {"cost": float(self.place > 0)}


class Narrow(Pit):
    """A pit whose observations are small numbers, as networks like them."""

    observation_space = spaces.Box(-10.0, 10.0, (1,), np.float64)
