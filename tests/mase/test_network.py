"""Trained policies as networks in NumPy."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp import MASE, TRPO, Budget, Unknown
from safexp.mase.network import network_of


class Short(gym.Env):
    """One step; the policy is never trained here."""

    def __init__(self, discrete: bool) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (3,))
        self.action_space = spaces.Discrete(3) if discrete else spaces.Box(-2.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        return np.zeros(3, np.float32), 0.0, True, False, {"cost": 0.0}


@pytest.mark.parametrize("learner", [PPO, TRPO, SAC, TD3, DQN])
def test_the_network_acts_as_the_policy(learner: type[BaseAlgorithm]) -> None:
    agent = MASE(Short(learner is DQN), Budget(3.0), Unknown(), learner, seed=0)
    network = network_of(agent)
    rng = np.random.default_rng(0)
    for threshold in (0.5, 2.0, 9.0):
        seen = rng.uniform(-1, 1, 3).astype(np.float32)
        expected = agent.propose(seen, threshold)[0]
        np.testing.assert_allclose(network(seen[None], [[threshold]])[0], expected, atol=1e-5)
