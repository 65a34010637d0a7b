"""Moving hazards and gates."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import gate
from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.layouts import MOVING
from safexp.tasks.navigation.lidar import lidar


def test_hazards_circle_at_a_constant_distance_and_speed() -> None:
    envs = NavigationVectorEnv(8, "Point", "Moving", autoreset_mode="Disabled")
    envs.reset(seed=0)
    path = [envs.hazards.copy()]
    orbit = MOVING.orbit
    for _ in range(orbit.period):
        envs.step(np.zeros((8, 2)))
        path.append(envs.hazards.copy())
    path = np.array(path)
    speeds = np.linalg.norm(np.diff(path, axis=0), axis=3)
    assert np.allclose(speeds, 2 * orbit.radius * np.sin(np.pi / orbit.period))
    first, second = path[1] - path[0], path[2] - path[1]
    turns = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
    assert (turns > 0).any() and (turns < 0).any(), "both senses occur"
    assert np.allclose(path[0], path[-1]), "a period later they are back"


def test_the_second_hazard_lidar_shows_where_they_will_be() -> None:
    envs = NavigationVectorEnv(4, "Point", "Moving", autoreset_mode="Disabled")
    observations, _ = envs.reset(seed=3)
    ahead = observations[:, -16:]
    position, rotation = envs.physics.position.copy(), envs.physics.rotation.copy()
    for _ in range(MOVING.orbit.preview):
        envs.step(np.zeros((4, 2)))
    then = lidar(envs.hazards, np.zeros(3, dtype=int), position, rotation, bins=16)
    assert np.allclose(ahead, then)


def test_a_robot_at_rest_can_be_run_over() -> None:
    envs = NavigationVectorEnv(1, "Point", "Moving", autoreset_mode="Disabled")
    envs.reset(seed=0)
    for _ in range(MOVING.orbit.period // 2):
        envs.step(np.zeros((1, 2)))
    opposite = envs.hazards[:, 0].copy()  # where the first one is half a period from its start
    envs.reset(seed=0)
    envs.physics.place(np.array([0]), opposite, np.array([[1.0, 0, 0, 0]]), {}, {})
    costs = [envs.step(np.zeros((1, 2)))[4]["cost"][0] for _ in range(MOVING.orbit.period)]
    assert 0 < np.mean(costs) < 1


def test_no_episode_starts_in_a_hazard() -> None:
    envs = NavigationVectorEnv(256, "Car", "Moving")
    _, info = envs.reset(seed=0)
    assert (info["margin"] > 0).all()


def test_gates_open_and_close() -> None:
    assert gate(7, period=3, open_for=1).tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert gate(4, period=2, open_for=1, closed=0.4, opened=0.9).tolist() == [0.9, 0.4, 0.9, 0.4]
    assert gate(3, period=5, open_for=0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="expected 0 ≤ open_for ≤ period"):
        gate(10, period=3, open_for=4)
