"""A potter's kiln: an environment, its cost and a log of careful firings, as a user of safexp would write them.

Every minute the controller sets the burner's power and how far the vent is open. The burner heats an element, the
element heats the ware. The ware should be at 1,000 °C for as much of an hour as possible, and must never exceed
1,050 °C, where the glaze runs. Nothing here tells the learner how a kiln works.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Knowledge, Log

MINUTES = 60
TARGET = 1000.0
OUTSIDE = 20.0
HOTTEST = 1700.0
"""No temperature is ever above this: the largest cost."""


class Kiln(gym.Env[np.ndarray, np.ndarray]):
    """Observes the temperatures of element and ware, in 1,000 °C; acts with power and vent, both in [0, 1]."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, HOTTEST / 1000, (2,), np.float64)
        self.action_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.knowledge = Knowledge(log=careful_firings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """A kiln that was fired some hours ago."""
        super().reset(seed=seed)
        self.element = self.ware = self.np_random.uniform(OUTSIDE, 200.0)
        self.minute = 0
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        """One minute."""
        power, vent = np.clip(np.asarray(action, dtype=np.float64), 0.0, 1.0)
        self.element += 100.0 * power - 0.2 * (self.element - self.ware)
        self.ware += 0.2 * (self.element - self.ware) - (0.05 + 0.15 * vent) * (self.ware - OUTSIDE)
        self.ware += self.np_random.normal(0.0, 0.5)  # draughts
        self.element, self.ware = np.clip([self.element, self.ware], 0.0, HOTTEST)
        self.minute += 1
        reward = 1.0 - abs(self.ware - TARGET) / 1000 - 0.1 * vent
        return self._observation(), float(reward), False, self.minute >= MINUTES, {}

    def _observation(self) -> np.ndarray:
        return np.array([self.element, self.ware]) / 1000


def ware_temperature(observations: np.ndarray, actions: np.ndarray, following: np.ndarray) -> np.ndarray:
    """The cost of a minute, in °C: how hot the ware is after it, in each of n kilns."""
    return following[:, 1] * 1000


def careful_firings(rng: np.random.Generator, firings: int = 60) -> Log:
    """What the potter logged: firings at about half the power, so that the ware stayed far below the limit."""
    kiln, rows = Kiln(), []
    for firing in range(firings):
        before, _ = kiln.reset(seed=int(rng.integers(2**31)))
        usual = rng.uniform(0.3, 0.5)
        for _ in range(MINUTES):
            power, vent = usual + rng.normal(0.0, 0.15), rng.exponential(0.05)
            action = np.clip([power, vent], 0.0, 1.0).astype(np.float32)
            after, *_ = kiln.step(action)
            cost = ware_temperature(before[None], action[None], after[None])[0]
            rows.append((before, action, cost, firing))
            before = after
    observations, actions, costs, numbers = zip(*rows, strict=True)
    return Log(np.array(observations), np.array(actions), np.array(costs), episodes=np.array(numbers))


gym.register("Kiln-v0", entry_point=Kiln)
