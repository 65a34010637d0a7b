"""Controllers of the robots with a speed limit: what they do to a robot, and what their logs contain."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.locomotion import let_go, stand, straighten, swim_cautiously
from safexp.tasks.seed_controllers import swim
from safexp.tasks.velocity import LIMITS


def drive(robot, controller, steps, seed=0):
    """Velocities under a controller, and whether the robot fell."""
    env = gym.make(f"safexp/{robot}Velocity-v0")
    observation, info = env.reset(seed=seed)
    velocities, fell = [info["velocity"]], False
    for _ in range(steps):
        observation, _, fell, _, info = env.step(np.asarray(controller(observation[None]))[0])
        velocities.append(info["velocity"])
        if fell:
            break
    return np.array(velocities), fell


def test_the_slow_stroke_swims_forward_well_below_the_limit():
    velocities, _ = drive("Swimmer", swim_cautiously, 600)
    gliding, _ = drive("Swimmer", straighten, 600)
    assert velocities.max() < 0.7 * LIMITS["Swimmer"]
    assert velocities[300:].mean() > 1.3 * gliding[300:].mean()


def test_the_backup_of_swimmer_pulls_it_straight_where_letting_go_folds_it():
    ends = []
    for controller in (straighten, lambda observations: np.zeros((len(observations), 2))):
        env, rng = gym.make("safexp/SwimmerVelocity-v0"), np.random.default_rng(1)
        env.reset(seed=1)
        for _ in range(40):
            observation, *_ = env.step((0.1 * rng.standard_normal(2)).astype(np.float32))
        for _ in range(400):
            observation, *_ = env.step(np.asarray(controller(observation[None]))[0])
        ends.append(np.abs(observation[1:3]).max())
    assert ends[0] < 0.05 and ends[1] > 0.5


def test_a_cheetah_that_lets_go_comes_to_rest():
    velocities, _ = drive("HalfCheetah", let_go, 100)
    assert abs(velocities[-1]) < 0.01


def test_hopper_stands_where_letting_go_falls():
    velocities, fell = drive("Hopper", stand, 200)
    assert not fell and abs(velocities[-1]) < 0.05 and velocities.max() < LIMITS["Hopper"]
    _, fell = drive("Hopper", lambda observations: np.zeros((len(observations), 3)), 200)
    assert fell


@pytest.mark.parametrize(("robot", "log"), [("HalfCheetah", True), ("Swimmer", True), ("Hopper", False)])
def test_three_robots_bring_a_backup(robot: str, log: bool) -> None:
    envs = gym.make_vec(f"safexp/{robot}Velocity-v0", num_envs=2)
    known = knowledge_of(envs)
    controller, horizon = known.backup
    observations, _ = envs.reset(seed=0)
    assert np.shape(controller(observations)) == envs.action_space.shape
    assert horizon >= 10
    assert (known.log is not None) is log
    assert knowledge_of(gym.make_vec("safexp/AntVelocity-v0", num_envs=1)).backup is None


def test_the_log_has_the_velocity_after_each_step():
    log = swim(LIMITS["Swimmer"], 3, 20, np.random.default_rng(0)).log
    np.testing.assert_allclose(log.signals["velocity"], LIMITS["Swimmer"] - log.margins)
    assert log.costs.max() == 0.0
    assert log.observations.shape == (60, 8)
