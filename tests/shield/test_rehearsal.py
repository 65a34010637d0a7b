"""A shield in closed loop: what is certified is compared with what then happened."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box

from safexp import Known, Shield, Within

BOX = Box(-1.0, 1.0, (1,))


class Tank(gym.Env):
    """The level moves by a tenth of the action, and by a leak that nobody models."""

    observation_space, action_space = Box(-9.0, 9.0, (1,)), BOX

    def __init__(self, leak=0.0):
        self.leak = leak

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level, self.steps = 0.0, 0
        return self._seen(), {"level": self.level}

    def step(self, action):
        self.level += 0.1 * float(action[0]) + self.leak
        self.steps += 1
        return self._seen(), float(action[0]), False, self.steps == 30, {"level": self.level}

    def _seen(self):
        return np.array([self.level], dtype=np.float32)


def shield(**options):
    model = Known(lambda states, actions: states[:, 0] + 0.1 * actions[:, 0])
    return Shield(model, Tank.observation_space, BOX, constraint=Within("level", -1.0, 1.0), **options)


def upwards(observations):
    return np.ones((len(observations), 1))


def test_a_right_model_misses_nothing():
    found = shield().rehearse(Tank(), upwards, 5)
    assert (found.episodes, found.violated, found.missed, found.steps) == (5, 0, 0, 150)
    assert found.interventions > 50
    assert 0.9 < found.mean_return / 10 < 1.2
    assert (found.low, found.high) == pytest.approx((0.0, 0.5218), abs=1e-3)


def test_a_wrong_model_is_caught():
    found = shield().rehearse(Tank(leak=0.05), upwards, 3)
    assert found.violated == found.missed == 3


def test_a_backup_drives_where_nothing_is_certified():
    alone = shield().rehearse(Tank(leak=0.3), upwards, 1)
    assert alone.stopped == 1
    helped = shield().rehearse(Tank(leak=0.3), upwards, 1, backup=lambda seen: -np.ones((len(seen), 1)))
    assert helped.steps == 30
    assert helped.stopped > 1


def test_it_needs_a_constraint_to_judge_by():
    with pytest.raises(ValueError, match="rehearse needs a shield with a constraint"):
        Shield(Known(lambda s, a: s[:, 0]), BOX, BOX).rehearse(Tank(), upwards)
    with pytest.raises(ValueError, match="episodes=0 must be at least 1"):
        shield().rehearse(Tank(), upwards, 0)
