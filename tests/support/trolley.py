"""A trolley on a rail with a linear brake; how far it has gone is limited, and only the info tells it as a signal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from safexp import Knowledge, LinearFeedback, Log, RunConfig, run

BRAKE = LinearFeedback([[0.0, -2.0]], low=-1.0, high=1.0)
HORIZON = 20


def moved(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Places and speeds (n, 2) after a step."""
    speeds = states[:, 1] + 0.2 * np.clip(actions[:, 0], -1.0, 1.0)
    return np.stack([states[:, 0] + 0.1 * speeds, speeds], axis=1)


def careful_log(rng: np.random.Generator) -> Log:
    """Timid driving, in which the brake drives now and then."""
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = []
    for episode in range(40):
        state, aim = np.zeros((1, 2)), rng.uniform(-1.0, 1.0)
        for t in range(40):
            wanted = (aim - state[:, :1]) - state[:, 1:] + 0.4 * rng.normal(size=(1, 1))
            action = BRAKE(state) if t >= 25 else np.clip(wanted, -1.0, 1.0)
            after = moved(state, action)
            rows.append((state[0], action[0], after[0], episode))
            state = after
    before, actions, following, episodes = (np.array(column) for column in zip(*rows, strict=True))
    return Log(before, actions, episodes=episodes, signals={"reach": following[:, 0]}, next_observations=following)


class Trolley(gym.Env[np.ndarray, np.ndarray]):
    """Is paid for its speed, for 30 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
    knowledge = Knowledge(log=careful_log, backup=(BRAKE, HORIZON))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state, self.taken = np.array([self.np_random.uniform(-0.5, 0.5), 0.0]), 0
        return self.state.copy(), {"reach": float(self.state[0])}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.state, self.taken = moved(self.state[None], np.asarray(action)[None])[0], self.taken + 1
        reach = float(self.state[0])
        return self.state.copy(), float(self.state[1]), False, self.taken >= 30, {"reach": reach}


gym.register("Trolley-v0", entry_point=Trolley)


def trained(folder: Path, **settings: Any) -> Path:
    """Run folder of a tiny training behind certificates that look ahead to the brake."""
    limits = {"constraint": "within", "within": ("reach:-2:2",), "quantifier": "rollout", "backup": "controller"}
    tiny = {"num_envs": 2, "steps": 64, "learner_options": {"n_steps": 32, "batch_size": 32}}
    return run(RunConfig(out=folder, task="support.trolley:Trolley-v0", **{**limits, **tiny, **settings}))
