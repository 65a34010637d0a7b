"""The way out of a hazard: what the lidar tells of it, and that the bound on it holds."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from safexp.tasks.escape import CLEARANCE, Escape
from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.navigation import NavigationVectorEnv


def endless(robot, copies=150):
    return NavigationVectorEnv(
        copies, robot, "Static", autoreset_mode=AutoresetMode.SAME_STEP, max_episode_steps=10_000, lidar_bins=16
    )


def mirrored(observations):
    """The hazard's lidar turned by half a circle: what leads out of there leads in here."""
    return np.concatenate([observations[:, :-16], np.roll(observations[:, -16:], 8, axis=1)], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "latest"), [("Point", 75), ("Car", 50)])
def test_the_bound_holds_on_the_way_out(robot, latest):
    rng = np.random.default_rng(7)
    copies = 400 if robot == "Point" else 150
    envs = endless(robot, copies)
    escape = Escape(envs.physics.robot, envs.layout.hazard_radius, envs.lidar_bins)
    observations, _ = envs.reset(seed=7)
    turns = rng.integers(15, latest, size=copies)
    scale = envs.action_space.high * (0.02 if robot == "Car" else 1.0)
    aside, bounds, costs = rng.normal(scale=0.3, size=(copies, 2)), np.full(copies, np.nan), np.zeros(copies)
    for step in range(latest + 50):
        inward = escape.drive(mirrored(observations)) + scale * aside
        bounds[turns == step] = escape.steps(observations)[turns == step]
        leaving = turns <= step
        actions = np.where(leaving[:, None], escape.drive(observations), np.clip(inward, -scale, scale))
        observations, _, _, _, info = envs.step(actions)
        costs += info["cost"] * leaving
    paid = (bounds > 0) & (bounds < 20)
    assert np.count_nonzero(paid) >= 10
    assert np.all(costs[bounds == 0] == 0)
    assert np.all(costs[paid] <= bounds[paid] + 5.0)  # what `Fallback` keeps in reserve
    assert np.mean(costs[paid] <= bounds[paid]) >= 0.9
    assert not np.any(info["cost"][bounds < 20])
    envs.close()


@pytest.mark.parametrize("robot", ["Point", "Car"])
def test_distance_and_direction_are_read_exactly(robot):
    envs = endless(robot)
    observations, _ = envs.reset(seed=0)
    distance, bearing = Escape(envs.physics.robot, 0.7, 16).locate(observations)
    place, turn = envs.physics.position, envs.physics.rotation
    offsets = np.einsum("nji,nj->ni", turn, np.append(-place[:, :2], -place[:, 2:], axis=1))
    np.testing.assert_allclose(distance, np.hypot(offsets[:, 0], offsets[:, 1]), atol=1e-9)
    np.testing.assert_allclose(np.exp(1j * bearing), np.exp(1j * np.arctan2(offsets[:, 1], offsets[:, 0])), atol=1e-9)


def test_outside_and_at_rest_the_way_out_costs_nothing_and_inside_always_something():
    envs = endless("Point")
    observations, _ = envs.reset(seed=0)
    bound = Escape(envs.physics.robot, 0.7, 16).steps
    np.testing.assert_array_equal(bound(observations), 0.0)
    distance = np.linalg.norm(envs.physics.position[:, :2], axis=1)
    for radius in (float(distance.max()) + 0.1, float(distance.max()) - CLEARANCE / 2):
        inside = distance < radius + CLEARANCE
        assert np.all(Escape(envs.physics.robot, radius, 16).steps(observations)[inside] > 0)


def test_tasks_with_one_hazard_that_stands_still_know_the_way_out():
    for task in ("PointGoalStatic", "CarGoalStatic"):
        assert knowledge_of(gym.make_vec(f"safexp/{task}-v0", num_envs=1)).fallback is not None
    for task in ("PointGoal1", "PointGoalMoving", "CarGoalDynamic"):
        assert knowledge_of(gym.make_vec(f"safexp/{task}-v0", num_envs=1)).fallback is None
    soft = gym.make_vec("safexp/PointGoalStatic-v0", num_envs=1, cost="margin")
    assert knowledge_of(soft).fallback is None
