"""The brake of the robots, and the log of driving and braking."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from safexp.runs.build import build
from safexp.runs.config import RunConfig
from safexp.tasks import braking
from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.navigation.robots import CAR, POINT
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
    log = braking.braking_log(CAR, layout_named("Goal1"), 16, np.random.default_rng(0))
    assert len(log.actions) > 100 * 3 * braking.HORIZON["Car"]
    assert log.costs is not None and not log.costs.any()
    assert log.signals is not None and log.signals["hazards"].shape == (len(log.actions), 8, 2)
    braked = np.isclose(log.actions, braking.brake_car(log.observations), atol=1e-4).all(axis=1)
    assert 0.2 < braked.mean() < 0.8
    held = (log.actions[1:] == log.actions[:-1]).all(axis=1) & ~braked[1:]
    assert 0.02 < held.mean() < 0.5


@pytest.mark.parametrize(
    ("task", "count", "solid", "walls"),
    [
        *(("Goal1", 8, 0, None), ("Goal2", 20, 10, None), ("Push1", 2, 0, None), ("Push2", 8, 4, None)),
        *(("Circle1", 0, 0, (1.125, np.inf)), ("Circle2", 0, 0, (1.125, 1.125)), ("Run0", 0, 0, (0.5, np.inf))),
    ],
)
@pytest.mark.parametrize("robot", [POINT, CAR], ids=lambda robot: robot.name)
def test_tasks_know_their_brake_and_what_it_must_avoid(robot, task, count, solid, walls, monkeypatch):
    monkeypatch.setattr(braking, "DRIVERS", 4)
    monkeypatch.setattr(braking, "DRILLS", 1)
    envs = gym.make_vec(f"safexp/{robot.name}{task}-v0", num_envs=2)
    known = knowledge_of(envs)
    assert known.backup == (braking.BRAKES[robot.name], braking.HORIZON[robot.name])
    assert known.obstacles is not None and known.drill_log is not None
    assert (known.obstacles.count, known.obstacles.solid, known.obstacles.walls) == (count, solid, walls)
    assert (known.rescue is None) == (walls is not None)
    log, (observations, info) = known.drill_log(np.random.default_rng(0)), envs.reset(seed=0)
    assert np.shape(log.observations)[1:] == observations.shape[1:]
    assert log.signals is not None and log.costs is not None
    assert not log.costs.any()
    for name in ("pose", *([known.obstacles.places] if count else [])):
        assert log.signals[name].shape[1:] == info[name].shape[1:]
    if solid:
        standing = np.concatenate(
            [
                envs.unwrapped.physics.places[k][..., :2]
                for k in ("pillars", "vases")
                if k in envs.unwrapped.physics.places
            ],
            axis=1,
        )
        np.testing.assert_array_equal(info["obstacles"][:, -solid:], standing)
    envs.close()


@pytest.mark.parametrize(
    ("task", "reason"),
    [("Button1", "a gremlin runs into a robot that stands still"), ("Goal0", "none of its steps has a cost")],
)
def test_tasks_without_a_backup_say_why(task, reason):
    config = RunConfig(task=f"safexp/Point{task}-v0", limit=25.0, quantifier="planar-path", backup="controller")
    with pytest.raises(ValueError, match=f"has no backup controller, because {reason}"):
        build(config.settled())


def test_buttons_alone_have_no_backup_either():
    assert "becomes a wrong one" in braking.no_backup(replace(layout_named("Button1"), gremlins=0))


@pytest.mark.parametrize("robot", [POINT, CAR], ids=lambda robot: robot.name)
def test_discs_of_bodies_contain_every_contact(robot):
    """Robots that drive into pillars and vases touch them only within the radii that are certified."""
    for task in ("Push2", "Goal2"):
        envs = NavigationVectorEnv(32, robot.name, replace(layout_named(task), hazards=0, extent=1.4, sleep=False))
        known = braking.obstacles_of(envs.layout, robot)
        assert known is not None
        envs.reset(seed=0)
        rng, touched, before = np.random.default_rng(0), 0, None
        course = rng.uniform(-1.0, 1.0, (32, 2))
        for step in range(150):
            if step % 30 == 0:
                course = rng.uniform(-1.0, 1.0, (32, 2))
            before = envs.physics.position[:, None, :2] - _solids(envs)
            envs.step(course)
            now = envs.physics.position[:, None, :2] - _solids(envs)
            near = np.minimum(*(np.linalg.norm(away, axis=-1) for away in (before, now)))
            contact = np.concatenate([*envs.physics.contacts.values()], axis=1) > 0
            assert (near[contact] < known.radii[-near.shape[1] :].max()).all()
            touched += int(contact.sum())
        assert touched > 50
        envs.close()


def _solids(envs):
    return np.concatenate([envs.physics.places[name][..., :2] for name in envs.physics.contacts], axis=1)


def test_moving_hazards_have_a_speed():
    layout = next(layout for layout in (layout_named("Moving"),) if layout.orbit)
    envs = NavigationVectorEnv(1, "Point", replace(layout))
    known = envs.knowledge.obstacles
    assert known is not None
    first = envs.reset(seed=0)[1]["hazards"]
    moved = envs.step(np.zeros((1, 2)))[4]["hazards"]
    assert np.linalg.norm(moved - first, axis=-1).max() == pytest.approx(known.speed, rel=1e-3)
