"""The pendulum that follows a set point: its set points, signals, regulator and log."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safexp.tasks.pendulum import ANGLE, POSITION, SET_POINT, PendulumReach, cautious_log, follow_cautiously, regulate

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_gymnasium_accepts_it():
    check_env(PendulumReach(), skip_render_check=True)


def test_the_set_point_jumps_and_is_what_is_paid_for():
    env = gym.make("safexp/PendulumReach-v0")
    observation, info = env.reset(seed=3)
    assert info == {"x": observation[0], "angle": observation[1]}
    points = []
    for _ in range(120):
        aimed_at = observation[4]
        points.append(aimed_at)
        observation, reward, terminated, _, info = env.step(regulate(observation[None])[0])
        assert not terminated
        assert reward == pytest.approx(1 - abs(info["x"] - aimed_at) / 0.5)
    assert points == [points[0]] * 50 + [-points[0]] * 50 + [points[0]] * 20
    assert abs(points[0]) == SET_POINT


def test_the_regulator_brings_it_back_to_the_middle():
    env = PendulumReach()
    observation, _ = env.reset(seed=1)
    env.inner.set_state(np.array([0.15, 0.03]), np.array([0.2, -0.1]))
    observation = np.array([0.15, 0.03, 0.2, -0.1, SET_POINT])
    for _ in range(150):
        observation, *_ = env.step(regulate(observation[None])[0])
    np.testing.assert_allclose(observation[:4], 0.0, atol=1e-2)


def test_the_cautious_log_keeps_far_from_the_limits_and_is_in_order():
    log = cautious_log(np.random.default_rng(0))
    assert len(log.actions) == 30_000
    assert np.abs(log.signals["x"]).max() < 0.8 * POSITION
    assert np.abs(log.signals["angle"]).max() < ANGLE
    np.testing.assert_array_equal(log.next_observations[:299], log.observations[1:300])
    assert follow_cautiously(log.observations[:5]).shape == (5, 1)
