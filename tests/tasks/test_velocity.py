"""Speed limits on Gymnasium's MuJoCo robots."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safexp.tasks.velocity import LIMITS, VelocityLimit, velocity_limited


@pytest.mark.parametrize("robot", LIMITS)
def test_cost_and_margin_follow_the_velocity(robot: str, capfd: pytest.CaptureFixture[str]) -> None:
    env = gym.make(f"safexp/{robot}Velocity-v0")
    plain = velocity_limited(robot).env
    _, info = env.reset(seed=0)
    assert info["cost"] == 0.0
    assert info["velocity"] == pytest.approx(LIMITS[robot] - info["margin"])
    assert abs(info["velocity"]) < 0.5
    observation, _ = plain.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(30):
        action = env.action_space.sample()
        observation, reward, terminated, _, info = env.step(action)
        expected, expected_reward, over, _, plain_info = plain.step(action)
        assert np.array_equal(observation, expected) and reward == expected_reward and terminated == over
        speed = plain_info["x_velocity"]
        if robot in ("Ant", "Humanoid"):
            speed = np.hypot(speed, plain_info["y_velocity"])
        assert info["velocity"] == pytest.approx(speed)
        assert info["margin"] == pytest.approx(LIMITS[robot] - speed)
        assert info["cost"] == float(speed > LIMITS[robot])
        if terminated:
            break
    assert capfd.readouterr() == ("", "")


def test_above_the_limit_costs_one() -> None:
    class Fast(gym.Env):
        observation_space = gym.spaces.Box(-1, 1, (1,))
        action_space = gym.spaces.Box(-1, 1, (1,))

        def step(self, action):
            return np.zeros(1), 0.0, False, False, {"x_velocity": 3.0, "y_velocity": 4.0}

    for in_plane, limit, cost, margin in (
        (True, 4.9, 1.0, -0.1),
        (True, 5.0, 0.0, 0.0),
        (False, 2.9, 1.0, -0.1),
        (False, 3.0, 0.0, 0.0),
    ):
        info = VelocityLimit(Fast(), limit, in_plane).step(None)[4]
        assert info["cost"] == cost
        assert info["margin"] == pytest.approx(margin)


@pytest.mark.filterwarnings("ignore:.*Box observation space m....um value is -?infinity")  # as it is
def test_checker_time_limit_and_batches() -> None:
    env = gym.make("safexp/HopperVelocity-v0", limit=0.1)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec.max_episode_steps == 1000
    envs = gym.make_vec("safexp/SwimmerVelocity-v0", num_envs=2)
    envs.reset(seed=0)
    assert envs.step(envs.action_space.sample())[4]["cost"].shape == (2,)


def test_another_robot_is_refused() -> None:
    with pytest.raises(ValueError, match="robot='Reacher' is not known; expected one of 'HalfCheetah'"):
        velocity_limited("Reacher")
