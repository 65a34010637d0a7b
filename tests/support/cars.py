"""A car on a straight road whose environment can have one fault at a time, for the checks of environments."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Fault = Literal[
    "late cost",
    "percent",
    "normalised reward",
    "unseeded noise",
    "unsafe reset",
    "nan",
    "wrong shape",
    "terminated at the time limit",
    "clipped actions",
    "no cost at the end",
]

DT, HORIZON = 0.1, 60


class Road(gym.Env[np.ndarray, np.ndarray]):
    """Place x, speed v: v' = v + dt·a, x' = x + dt·v' (or dt·v if `lagging`); random wind if `windy`.

    The cost is |x| / 4, at most 1, or 1 beyond |x| = 2 if `sharp`; an episode ends beyond 5 and after 60 steps. With
    `clock` the observation has the time.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        fault: Fault | None = None,
        *,
        lagging: bool = False,
        sharp: bool = False,
        windy: bool = False,
        clock: bool = False,
    ) -> None:
        self.fault, self.lagging, self.sharp, self.windy, self.clock = fault, lagging, sharp, windy, clock
        self.observation_space = spaces.Box(-100.0, 100.0, (2 + clock,), np.float64)
        bound = 10.0 if fault == "clipped actions" else 4.0
        self.action_space = spaces.Box(-bound, bound, (1,), np.float32)
        self.spread = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.x, self.v = self.np_random.uniform(-0.5, 0.5, 2)
        if self.fault == "unsafe reset" and self.np_random.random() < 0.2:
            self.x = 3.0
        self.steps, self.last = 0, 0.0
        return self._seen(), {"x": self.x}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict]:
        push = float(np.clip(action, -4.0, 4.0)[0])
        before = self.v
        self.v += DT * push
        if self.windy:
            self.v += 0.1 * self.np_random.standard_normal()
        if self.fault == "unseeded noise":
            self.v += 0.1 * np.random.default_rng().standard_normal()
        self.x += DT * (before if self.lagging else self.v)
        self.steps += 1
        cost = float(abs(self.x) > 2) if self.sharp else min(abs(self.x) / 4, 1.0)
        reward = self.v
        if self.fault == "late cost":
            cost, self.last = self.last, cost
        if self.fault == "percent":
            cost *= 100
        if self.fault == "normalised reward":
            self.spread = max(self.spread, abs(reward))
            reward /= self.spread + 1e-9
        if self.fault == "nan" and self.x > 1.5:
            cost = np.nan
        terminated, late = abs(self.x) > 5, self.steps >= HORIZON
        if self.fault == "terminated at the time limit" or self.clock:
            terminated, late = terminated or late, False
        info = {"x": self.x, "cost": cost}
        if self.fault == "no cost at the end" and (terminated or late):
            del info["cost"]
        seen = self._seen()
        if self.fault == "wrong shape" and self.steps > 20:
            seen = seen[None]
        return seen, reward, terminated, late, info

    def _seen(self) -> np.ndarray:
        return np.array([self.x, self.v, *[self.steps / HORIZON] * self.clock])
