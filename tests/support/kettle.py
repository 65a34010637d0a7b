"""A reaction that heats itself: exponentially faster the hotter it is, where the log of a cautious operator ends."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Log

HOTTEST = 90.0


def cool(observations: np.ndarray) -> np.ndarray:
    """Full cooling."""
    return -np.ones((len(observations), 1))


def aimed(observations: np.ndarray, aim: float, gain: float) -> np.ndarray:
    """Jacket command for an aimed temperature."""
    return np.clip((aim + gain * (aim - observations[:, :1]) - 60.0) / 50.0, -1.0, 1.0)


class Kettle(gym.Env[np.ndarray, np.ndarray]):
    """Observes the temperatures of the kettle and of its jacket; `hottest` has the highest one of each episode."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, steps: int = 100) -> None:
        self.steps = steps
        self.hottest: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        start = self.np_random.uniform(40.0, 60.0)
        self.state, self.taken = np.array([start, start]), 0
        self.hottest.append(start)
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        heat, jacket = self.state
        jacket += 0.3 * (60.0 + 50.0 * float(np.clip(action[0], -1.0, 1.0)) - jacket)
        heat += 0.08 * (jacket - heat) + 0.5 * np.exp((heat - 80.0) / 6.0) + self.np_random.normal(0.0, 0.05)
        self.state, self.taken = np.array([min(heat, 300.0), jacket]), self.taken + 1
        self.hottest[-1] = max(self.hottest[-1], self.state[0])
        return self.state.copy(), float(self.state[0]), False, self.taken >= self.steps, {}


def cautious_log(episodes: int = 80, seed: int = 0) -> Log:
    """An operator who aims at 55 to 72 °C with noise on the command, and lets the cooling drive once an episode."""
    rng, env, rows = np.random.default_rng(seed), Kettle(), []
    for episode in range(episodes):
        before, _ = env.reset(seed=int(rng.integers(2**31)))
        aim, begin = rng.uniform(55.0, 72.0), rng.integers(30, 75)
        for t in range(env.steps):
            action = np.clip(aimed(before[None], aim, 1.0)[0] + 0.3 * rng.normal(size=1), -1.0, 1.0)
            if begin <= t <= begin + 15:
                action = cool(before[None])[0]
            after, *_ = env.step(action)
            rows.append((before, action, after, episode))
            before = after
    observations, actions, following, numbers = map(np.array, zip(*rows, strict=True))
    assert max(env.hottest) < HOTTEST
    return Log(observations, actions, episodes=numbers, next_observations=following)
