"""A cart on a line: it must not leave |x| ≤ 1, and one step ahead is not enough to stop it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Log

DT, BRAKING = 0.1, 2.0


def brake(observations: np.ndarray) -> np.ndarray:
    """Push against the speed: from speed 1 it takes about 12 steps and half a metre."""
    return np.clip(-BRAKING * np.asarray(observations)[:, 1:2] / DT / 4, -1.0, 1.0)


def advance(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Positions and speeds (n, 2) after a step."""
    speed = states[:, 1] + DT * np.clip(actions[:, 0], -1.0, 1.0)
    return np.stack([states[:, 0] + DT * speed, speed], axis=1)


class Cart(gym.Env[np.ndarray, np.ndarray]):
    """Observes position and speed; `worst` has the largest |x| of each episode."""

    def __init__(self, steps: int = 60, noise: float = 0.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.steps, self.noise = steps, noise
        self.worst: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state, self.taken = np.array([self.np_random.uniform(-0.2, 0.2), 0.0]), 0
        self.worst.append(abs(self.state[0]))
        return self.state.copy(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state = advance(self.state[None], np.asarray(action, dtype=np.float64)[None])[0]
        self.state[1] += self.noise * self.np_random.normal()
        self.taken += 1
        self.worst[-1] = max(self.worst[-1], abs(self.state[0]))
        return self.state.copy(), float(self.state[0]), False, self.taken >= self.steps, {}


def cautious_log(episodes: int = 70, noise: float = 0.0, drills: bool = False, seed: int = 0) -> Log:
    """A driver that goes to and fro between ±0.5, with noise on its actions; with `drills` it brakes now and then."""
    rng, env, rows = np.random.default_rng(seed), Cart(noise=noise), []
    for episode in range(episodes):
        before, _ = env.reset(seed=int(rng.integers(2**31)))
        for t in range(env.steps):
            aim = 0.5 * np.sign(np.sin(t / 10 + episode))
            action = np.clip([0.8 * (aim - before[0]) - 1.2 * before[1] + 0.3 * rng.normal()], -1, 1)
            if drills and t % 30 > 7:
                action = brake(before[None])[0]
            after, *_ = env.step(action.astype(np.float32))
            rows.append((before, action.astype(np.float32), after, episode))
            before = after
    observations, actions, following, numbers = map(np.array, zip(*rows, strict=True))
    return Log(observations, actions, episodes=numbers, next_observations=following)
