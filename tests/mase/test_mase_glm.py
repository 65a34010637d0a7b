"""A GLM certifies for any learner: costs that are linear in known features are learned from a small log, and kept."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC

import safexp
from safexp.quantifiers.glm import GLM


class Press(gym.Env[Any, Any]):
    """Push as hard as the temperature allows: reward is the push, cost 0.05 + 0.25·temperature + 0.3·push."""

    def __init__(self, discrete: bool) -> None:
        self.discrete = discrete
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = spaces.Discrete(5) if discrete else spaces.Box(0.0, 1.0, (1,), np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 10
        self.heat = self.np_random.random(1)
        return self.heat, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = float(action) / 4.0 if self.discrete else float(action[0])
        info = {"cost": 0.05 + 0.25 * float(self.heat[0]) + 0.3 * push}
        self.left -= 1
        self.heat = self.np_random.random(1)
        return self.heat, push, False, self.left == 0, info


def features(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    push = actions.argmax(axis=1) / 4.0 if actions.shape[1] == 5 else actions[:, 0]
    return np.stack([np.ones(len(states)), states[:, 0], push], axis=1) / np.sqrt(3.0)


OFF_POLICY = {"learning_starts": 100, "batch_size": 32, "policy_kwargs": {"net_arch": [16]}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "discrete", "options"),
    [
        (PPO, False, {"n_steps": 100, "batch_size": 50}),
        (SAC, False, OFF_POLICY),
        (DQN, True, OFF_POLICY),
    ],
)
def test_a_glm_keeps_an_instantaneous_limit_while_learning(
    learner: type, discrete: bool, options: dict[str, Any]
) -> None:
    heat = np.linspace(0.0, 1.0, 8)[:, None]
    still = np.zeros(8, dtype=np.int64) if discrete else np.zeros((8, 1))
    log = safexp.Log(heat, still, 0.05 + 0.25 * heat[:, 0])
    glm = GLM(features, 3, regulariser=1e-3)
    agent = safexp.MASE(
        Press(discrete), safexp.Instantaneous(0.35), glm, learner, learner_options=options, seed_data=log, seed=0
    )
    agent.epoch_steps = 100
    agent.learn(600)
    assert len(agent.episodes) >= 50
    assert max(episode.max_step_cost for episode in agent.episodes) <= 0.35 + 1e-9
    late = agent.episodes[-10:]
    assert np.mean([episode.true_return for episode in late]) > 2.0
    assert not any(episode.stopped for episode in late)
    assert np.abs(glm.theta - np.sqrt(3.0) * np.array([0.05, 0.25, 0.3])).max() < 0.05
