from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safexp.finite.grid_world import GridWorld
from safexp.tasks.grid_world import GridWorldEnv, register


def test_gymnasium_accepts_it() -> None:
    register()
    register()
    env = gym.make("safexp/GridWorld-v0", size=6)
    check_env(env.unwrapped, skip_render_check=True)


def test_a_step_pays_and_costs_what_the_world_says() -> None:
    altitude, reward = np.zeros((3, 3)), np.arange(9.0).reshape(3, 3)
    altitude[1, 2] = 0.25
    env = GridWorldEnv(world=GridWorld(altitude, reward, start=4), steps=3, rise=0.03)
    observation, info = env.reset(seed=0)
    assert observation.tolist() == [0.5, 0.5]
    assert info["next_threshold"] == 1.0
    observation, paid, terminated, truncated, info = env.step(np.int64(1))
    assert observation.tolist() == [0.5, 1.0]
    assert (paid, terminated, truncated) == (5.0, False, False)
    assert info["cost"] == 1.0
    assert info["margin"] == 0.0
    *_, truncated, info = env.step(np.int64(1))
    assert not truncated
    assert info["cost"] == 0.5
    assert info["margin"] == pytest.approx(0.24)
    assert env.step(np.int64(0))[3]


def test_the_world_belongs_to_its_seed() -> None:
    same, other = (GridWorldEnv(size=5, world_seed=seed).world for seed in (3, 4))
    assert np.array_equal(same.altitude, GridWorldEnv(size=5, world_seed=3).world.altitude)
    assert not np.array_equal(same.altitude, other.altitude)


def test_an_unknown_action_is_refused() -> None:
    env = GridWorldEnv(size=5)
    env.reset()
    with pytest.raises(ValueError, match=r"action is 7; 0 \(stay\), 1 \(right\)"):
        env.step(7)  # type: ignore[arg-type]
