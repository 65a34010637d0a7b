"""The cautious controllers keep their limits, and what they log is what happened."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.navigation.layouts import STATIC
from safexp.tasks.navigation.vector_env import SOFTNESS, NavigationVectorEnv
from safexp.tasks.seed_controllers import drive, gentle


@pytest.fixture(scope="module")
def driven():
    return drive(STATIC, "margin", 16, 40, np.random.default_rng(0))


def test_the_driver_never_comes_near_and_sometimes_arrives(driven):
    assert driven.log.margins.min() > 0.05
    assert 1.0 < driven.returns.mean() < 2.9
    assert len(driven.returns) >= 40


def test_its_log_is_of_whole_transitions(driven):
    log = driven.log
    assert len(log.costs) == 40 * STATIC.steps
    np.testing.assert_allclose(log.costs, 1 / (1 + np.exp(log.margins / SOFTNESS)), atol=1e-12)
    first = log.episodes == 0
    # The margin before a step is what the lidar tells: closeness is 1 - distance / 3, and readings add up to twice it.
    before = 3 * (1 - log.observations[first, -16:].sum(axis=1) / 2) - STATIC.hazard_radius
    np.testing.assert_allclose(before[1:], log.margins[first][:-1], atol=1e-9)
    assert np.abs(log.actions).max() <= 1.0
    assert np.all(np.diff(np.unique(log.episodes)) == 1)


def test_only_tasks_with_one_hazard_tell_of_it():
    told = knowledge_of(gym.make_vec("safexp/PointGoalStatic-v0", num_envs=1, cost="margin"))
    log = told.log(np.random.default_rng(0))
    assert log.margins.min() > 0.0
    for task in ("PointGoal1", "PointGoalMoving", "CarGoalStatic"):
        assert knowledge_of(gym.make_vec(f"safexp/{task}-v0", num_envs=1)).log is None


@pytest.mark.slow
def test_a_gentle_robot_stays_well_below_its_limit():
    moved = gentle("safexp/HalfCheetahVelocity-v0", None, 5, 60, np.random.default_rng(0))
    assert moved.log.margins.min() > 1.0
    assert moved.log.costs.max() == 0.0
    np.testing.assert_array_equal(np.unique(moved.log.episodes), np.arange(5))
    told = knowledge_of(gym.make_vec("safexp/HalfCheetahVelocity-v0", num_envs=1, limit=2.0))
    assert told.log(np.random.default_rng(0)).margins.max() < 2.0 + 3.0
    assert knowledge_of(gym.make_vec("safexp/HopperVelocity-v0", num_envs=1)).log is None


@pytest.mark.parametrize("layout", ["Push1", "Button1", "Goal1"])
def test_nothing_is_told_of_a_hazard_among_other_things(layout: str) -> None:
    known = knowledge_of(NavigationVectorEnv(1, "Point", layout, hazards=1))
    assert known.fallback is None and known.log is None
