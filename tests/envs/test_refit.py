"""Warnings at the end of an epoch: widths that its costs refute."""

from __future__ import annotations

import logging

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from safexp import Instantaneous, Known, wrap


class Coin(gym.Env):
    """Costs 0.45, or 0.55 after every `every`-th step."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, every):
        self.every = every

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        cost = 0.55 if self.steps % self.every == 0 else 0.45
        return np.zeros(1), 0.0, False, self.steps >= 50, {"cost": cost}


@pytest.mark.parametrize(("every", "warned"), [(2, True), (100, False)])
def test_widths_that_fail_near_the_limit_are_reported_once(every, warned, caplog):
    env = wrap(Coin(every), Instantaneous(0.5), Known(lambda s, a: np.full(len(a), 0.45)))
    env.reset(seed=0)
    with caplog.at_level(logging.WARNING, logger="safexp"):
        for _ in range(3):
            for _ in range(100):
                if env.step(np.zeros(1, dtype=np.float32))[3]:
                    env.reset(seed=0)
            env.end_epoch()
    found = [line for line in caplog.messages if "costs near the limit in one epoch" in line]
    assert len(found) == warned
    if warned:
        assert found[0].startswith("the widths missed 50 of 100 costs near the limit in one epoch, where delta allows")
