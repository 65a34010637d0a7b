"""A sled on ice: it moves on when it is stopped, and keeps its own account of every step."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

WALL = 10.0


class Sled(gym.Env[np.ndarray, np.ndarray]):
    """x' = x + v', v' = v + a for a ≥ 0; braking slows it down by at most `grip`. A step costs 1 beyond the wall.

    `ledger` has the places of all steps of each episode, whoever drives. A step beyond `crash` raises, one beyond `end`
    terminates the episode.
    """

    def __init__(self, grip: float = 1.0, crash: float = np.inf, end: float = np.inf, steps: int = 1000) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.grip, self.crash, self.end, self.steps = grip, crash, end, steps
        self.ledger: list[list[float]] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state = np.zeros(2)
        self.ledger.append([])
        return self.state.copy(), {"x": 0.0}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state = slid(self.state[None], np.asarray(action, dtype=np.float64)[None], self.grip)[0]
        x = float(self.state[0])
        self.ledger[-1].append(x)
        if x > self.crash:
            raise OSError("the sled broke through the ice")
        late = len(self.ledger[-1]) >= self.steps
        return self.state.copy(), float(self.state[1]), x > self.end, late, {"x": x, "cost": float(x > WALL)}


def slid(states: np.ndarray, actions: np.ndarray, grip: float = 1.0) -> np.ndarray:
    """Places and speeds (n, 2) after a step."""
    push = actions[:, 0]
    speed = np.maximum(states[:, 1] + np.where(push < 0, grip * push, push), 0.0)
    return np.stack([states[:, 0] + speed, speed], axis=1)


def beyond(grip: float = 1.0):
    """The true cost of actions (n, 1) in states (n, 2)."""
    return lambda states, actions: (slid(states, actions, grip)[:, 0] > WALL).astype(float)


def brake(observations: np.ndarray) -> np.ndarray:
    """Full braking (n, 1)."""
    return np.full((len(observations), 1), -1.0)
