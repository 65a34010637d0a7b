"""Pictures from above."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from safexp.tasks.drawing import ALARM, BODY, draw
from safexp.tasks.navigation import NavigationVectorEnv


def pixel(picture: np.ndarray, place, reach: float) -> tuple[int, ...]:
    scale = len(picture) / (2 * reach)
    return tuple(picture[int((reach - place[1]) * scale), int((place[0] + reach) * scale)].tolist())


@pytest.mark.parametrize("robot", ["Point", "Car"])
def test_things_are_where_they_should_be(robot: str) -> None:
    envs = NavigationVectorEnv(2, robot, "Static", render_mode="rgb_array")
    envs.reset(seed=0)
    first, second = envs.render()
    assert first.shape == (400, 400, 3) and first.dtype == np.uint8
    assert not np.array_equal(first, second)
    position = envs.physics.position[0, :2]
    assert pixel(first, position, 1.85) == BODY
    red, green, _ = pixel(first, (0.05, 0.05), 1.85)
    assert red > green, "the hazard"
    red, green, _ = pixel(first, (1.1, 1.3), 1.85)
    assert green > red, "the goal"


def test_a_robot_in_a_hazard_is_red() -> None:
    envs = NavigationVectorEnv(1, "Point", "Static")
    envs.reset(seed=0)
    envs.hazards[0, 0] = envs.physics.position[0, :2]
    assert pixel(draw(envs.scene(0), 300), envs.physics.position[0, :2], 1.85) == ALARM


def test_the_trail_follows_the_robot_through_long_episodes_and_resets() -> None:
    envs = NavigationVectorEnv(2, "Point", "Goal1", render_mode="rgb_array", autoreset_mode="Disabled")
    envs.reset(seed=0)
    places = [envs.physics.position[0, :2].copy()]
    for _ in range(300):
        envs.step(np.full((2, 2), 0.02))
        places.append(envs.physics.position[0, :2].copy())
    assert np.array_equal(envs.scene(0).trail, places)
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.scene(0).trail.shape == (1, 2)
    assert envs.scene(1).trail.shape == (301, 2)


def test_the_vase_is_drawn_turned() -> None:
    envs = NavigationVectorEnv(1, "Car", "Goal1")
    envs.reset(seed=0)
    vase, (shape,) = envs.physics.places["vases"][0, 0, :2], envs.scene(0).shapes
    corners = shape.corners
    assert np.allclose(corners.mean(axis=0), vase, atol=1e-3)
    assert np.allclose(np.linalg.norm(corners - vase, axis=1), 0.1 * np.sqrt(2), atol=1e-3)


def test_without_a_render_mode_nothing_is_drawn() -> None:
    envs = NavigationVectorEnv(1)
    envs.reset(seed=0)
    assert envs.render() is None
    env = gym.make("safexp/CarGoalMoving-v0", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (400, 400, 3)
