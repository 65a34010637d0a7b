"""Environments that return the cost as a sixth value."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safexp import adapt


class Corridor:
    """Safety-Gymnasium's signature, and no Gymnasium class: walk to 1, at a cost beyond 0.5."""

    observation_space = gym.spaces.Box(-2, 2, (1,), dtype=np.float64)
    action_space = gym.spaces.Box(-0.125, 0.125, (1,), dtype=np.float32)
    metadata: dict = {"render_modes": []}  # noqa: RUF012
    cost = 2.0

    def reset(self, *, seed=None, options=None):
        self.place = np.zeros(1)
        return self.place.copy(), {"seed": seed}

    def step(self, action):
        self.place = self.place + action
        cost = self.cost * float(self.place[0] > 0.5)
        return self.place.copy(), self.place[0], cost, self.place[0] >= 1.0, False, {"place": self.place[0]}

    def close(self):
        self.closed = True


def test_the_cost_goes_into_the_info() -> None:
    env = adapt(Corridor(), cost_max=2.0)
    observation, info = env.reset(seed=4)
    assert observation.tolist() == [0.0] and info == {"seed": 4, "cost": 0.0}
    steps = [env.step(np.array([0.125])) for _ in range(8)]
    assert [step[4]["cost"] for step in steps] == [0.0] * 4 + [1.0] * 4
    assert steps[-1][2] is True and steps[-1][3] is False
    assert steps[2][4]["place"] == 0.375
    env.close()
    assert env.env.closed


def test_gymnasiums_checker_accepts_it() -> None:
    check_env(adapt(Corridor(), cost_max=2.0), skip_render_check=True)


def test_a_cost_above_the_maximum_is_refused() -> None:
    env = adapt(Corridor())
    env.reset()
    with pytest.raises(ValueError, match=r"cost 2.0, outside \[0, 1.0\]; call adapt\(env, cost_max=...\)"):
        for _ in range(6):
            env.step(np.array([0.125]))


def test_wrong_environments_are_explained() -> None:
    with pytest.raises(ValueError, match="was given int, which has no `reset`"):
        adapt(3)
    with pytest.raises(ValueError, match="cost_max=0: expected the largest cost"):
        adapt(Corridor(), cost_max=0)
    env = adapt(gym.make("CartPole-v1"))
    env.reset(seed=0)
    with pytest.raises(ValueError, match="returned 5 values"):
        env.step(0)
