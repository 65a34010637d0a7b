"""The brake of the robots, and the log of driving and braking."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from safexp.tasks import braking
from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.navigation.suite import layout_named
from safexp.tasks.navigation.vector_env import NavigationVectorEnv


@pytest.mark.parametrize(("robot", "left"), [("Point", 0.02), ("Car", 0.005)])
def test_a_braked_robot_rests_within_its_horizon(robot, left):
    envs = NavigationVectorEnv(8, robot, "Goal0", max_episode_steps=1000)
    seen, _ = envs.reset(seed=0)
    rng = np.random.default_rng(0)
    course = rng.uniform(-1.0, 1.0, (8, 2))
    for _ in range(30):
        seen, *_ = envs.step(course)
    for _ in range(braking.HORIZON[robot]):
        seen, *_ = envs.step(braking.BRAKES[robot](seen))
    rest = envs.physics.position[:, :2].copy()
    for _ in range(50):
        seen, *_ = envs.step(braking.BRAKES[robot](seen))
    assert np.linalg.norm(envs.physics.position[:, :2] - rest, axis=1).max() < left


def test_the_log_shows_the_brake_and_no_cost(monkeypatch):
    monkeypatch.setattr(braking, "DRIVERS", 100)
    monkeypatch.setattr(braking, "DRILLS", 3)
    log = braking.braking_log("Car", layout_named("Goal1"), 16, np.random.default_rng(0))
    assert len(log.actions) > 100 * 3 * braking.HORIZON["Car"]
    assert log.costs is not None and not log.costs.any()
    assert log.signals is not None and log.signals["hazards"].shape == (len(log.actions), 8, 2)
    braked = np.isclose(log.actions, braking.brake_car(log.observations), atol=1e-4).all(axis=1)
    assert 0.2 < braked.mean() < 0.8
    held = (log.actions[1:] == log.actions[:-1]).all(axis=1) & ~braked[1:]
    assert 0.02 < held.mean() < 0.5


def test_tasks_whose_only_costs_are_hazards_know_their_brake():
    known = knowledge_of(gym.make_vec("safexp/CarGoal1-v0", num_envs=1))
    assert known.backup == (braking.brake_car, 12)
    assert known.obstacles is not None and known.obstacles.count == 8
    assert knowledge_of(gym.make_vec("safexp/PointButton1-v0", num_envs=1)).backup is None


def test_moving_hazards_have_a_speed():
    layout = next(layout for layout in (layout_named("Moving"),) if layout.orbit)
    envs = NavigationVectorEnv(1, "Point", replace(layout))
    known = envs.knowledge.obstacles
    assert known is not None
    first = envs.reset(seed=0)[1]["hazards"]
    moved = envs.step(np.zeros((1, 2)))[4]["hazards"]
    assert np.linalg.norm(moved - first, axis=-1).max() == pytest.approx(known.speed, rel=1e-3)
