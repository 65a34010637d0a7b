"""A walk on the line on which every sequence of costs can be asked for, and a guard around it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Penalty, Shield
from safexp.envs.guard import Guard


class Line(gym.Env[Any, Any]):
    """A walk on the line: moving by a costs |a|, so every cost sequence can be asked for.

    Reward 1 for every step; ends after `horizon` steps; `info` and `observation` can be bent to test bad input.
    """

    def __init__(self, horizon: int = 10, discrete: bool = False, mapping: bool = False, start: float = 0.0) -> None:
        self.horizon = horizon
        self.discrete = discrete
        self.mapping = mapping
        self.start = start
        box = spaces.Box(-100.0, 100.0, (1,), np.float64)
        self.observation_space: Any = spaces.Dict({"place": box}) if mapping else box
        self.action_space: Any = spaces.Discrete(3) if discrete else spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.executed: list[float] = []

    def observe(self) -> Any:
        place = np.array([self.place])
        return {"place": place} if self.mapping else place

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = self.start
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        move = (float(action) - 1.0) if self.discrete else float(np.asarray(action).ravel()[0])
        self.executed.append(move)
        self.place += move
        self.steps += 1
        return self.observe(), 1.0, False, self.steps >= self.horizon, self.info(move)

    def info(self, move: float) -> dict[str, Any]:
        return {"cost": abs(move), "margin": 5.0 - abs(self.place)}


def line_cost(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The cost of actions (N, 1), or one-hot (N, 3), on the line."""
    return np.abs(actions[:, 0] if actions.shape[1] == 1 else actions.argmax(axis=1) - 1.0)


def guard_of(constraint, quantifier, num_envs=1, penalty=Penalty(1.0), env=Line, safe_action=None, **options):
    venv = DummyVecEnv([env for _ in range(num_envs)])
    shield = Shield(quantifier, venv.observation_space, venv.action_space, safe_action=safe_action)
    return Guard(venv, constraint, shield, penalty, **options)


def walk(guard, moves):
    """Steps with the same move in all environments."""
    return [guard.step(np.full((guard.num_envs, 1), move, dtype=np.float32)) for move in moves]
