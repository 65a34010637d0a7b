"""The drop-in for Safety-Gymnasium's `make`."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import adapt, safety_gymnasium


def test_every_task_is_there_for_both_robots() -> None:
    assert len(safety_gymnasium.IDS) == 20
    assert {"SafetyPointGoal1-v0", "SafetyCarButton2-v0", "SafetyCarRun0-v0"} <= set(safety_gymnasium.IDS)


@pytest.mark.parametrize("id_", ["SafetyPointButton1-v0", "SafetyCarGoal0-v0", "SafetyPointCircle2-v0"])
def test_a_step_has_six_values(id_: str) -> None:
    env = safety_gymnasium.make(id_)
    observation, info = env.reset(seed=0)
    assert env.observation_space.contains(observation) and info == {}
    observation, reward, cost, terminated, truncated, info = env.step(np.zeros(2, dtype=np.float32))
    assert env.observation_space.contains(observation)
    assert isinstance(reward, float) and cost == info["cost_sum"] == 0.0
    assert terminated is False and truncated is False
    assert all(key.startswith("cost_") for key in info), "and no goal_met as long as none is"


def test_goals_and_time_limits_are_told() -> None:
    env = safety_gymnasium.make("SafetyPointGoal1-v0", max_episode_steps=2)
    env.reset(seed=0)
    env.unwrapped.batch.goal[:] = env.unwrapped.batch.physics.position[:, :2]
    *_, truncated, info = env.step(np.zeros(2, dtype=np.float32))
    assert info["goal_met"] is True and not truncated
    *_, truncated, info = env.step(np.zeros(2, dtype=np.float32))
    assert "goal_met" not in info and truncated


def test_what_adapts_the_original_adapts_it_too() -> None:
    env = adapt(safety_gymnasium.make("SafetyCarPush2-v0"))
    env.reset(seed=0)
    *_, info = env.step(np.zeros(2, dtype=np.float32))
    assert info["cost"] == 0.0


def test_an_unknown_id_is_explained() -> None:
    with pytest.raises(ValueError, match="'SafetyDoggoGoal1-v0' is not known; expected one of SafetyPointGoal0-v0, "):
        safety_gymnasium.make("SafetyDoggoGoal1-v0")
