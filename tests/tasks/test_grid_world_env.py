from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3 import PPO

import safexp
from safexp.tasks.grid_world import GridWorld
from safexp.tasks.grid_world_env import GridWorldEnv


def test_gymnasium_accepts_it() -> None:
    env = gym.make("safexp/GridWorld-v0", size=6)
    check_env(env.unwrapped, skip_render_check=True)


def test_a_step_pays_and_costs_what_the_world_says() -> None:
    altitude, reward = np.zeros((3, 3)), np.arange(9.0).reshape(3, 3)
    altitude[1, 2] = 0.25
    env = GridWorldEnv(world=GridWorld(altitude, reward, start=4), steps=3, rise=0.03)
    observation, _ = env.reset(seed=0)
    assert observation.tolist() == [0.5, 0.5]
    assert env.thresholds.tolist() == pytest.approx([1.0, 0.98, 0.96])
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


def test_mase_keeps_a_rising_threshold() -> None:
    """Told the moves' costs by the world itself, a learner walks for four episodes without a violation."""
    env = GridWorldEnv(size=12, world_seed=2, steps=100, rise=0.05)

    def cost_of(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        cells = np.rint(states / env.world.step).astype(int) @ [12, 1]
        return env.world.cost(env.world.safety[cells, actions.argmax(axis=1)])

    quantifier = safexp.Known(cost_of)
    agent = safexp.MASE(
        env,
        safexp.Schedule(env.thresholds),
        quantifier,
        PPO,
        learner_options={"n_steps": 100, "batch_size": 50},
        seed=0,
    )
    agent.learn(400)
    assert len(agent.episodes) == 4
    assert not any(episode.violated for episode in agent.episodes)
    assert sum(episode.interventions for episode in agent.episodes) > 0


def test_an_unknown_action_is_refused() -> None:
    env = GridWorldEnv(size=5)
    env.reset()
    with pytest.raises(ValueError, match=r"action=7 must be 0 \(stay\), 1 \(right\)"):
        env.step(7)  # type: ignore[arg-type]
