"""The small task: Gymnasium's contract, its closed forms, and its optimum."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

from safexp.tasks import planar_robot
from safexp.tasks.planar_robot import PlanarRobot, PlanarRobotVector


@pytest.mark.parametrize("name", ["safexp/PlanarRobot-v0", "safexp/PlanarRobotDiscrete-v0"])
def test_gymnasium_s_checker_is_content(name):
    check_env(gym.make(name).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("discrete", [False, True])
def test_the_batch_equals_environments_one_by_one(discrete):
    batch = PlanarRobotVector(1, discrete)
    single = SyncVectorEnv([lambda: PlanarRobot(discrete)], autoreset_mode=batch.metadata["autoreset_mode"])
    np.testing.assert_array_equal(batch.reset(seed=3)[0], single.reset(seed=3)[0])
    batch.action_space.seed(0)
    for _ in range(200):
        actions = batch.action_space.sample()
        found, expected = batch.step(actions), single.step(actions)
        for part in range(4):
            np.testing.assert_array_equal(found[part], expected[part])
        ended = found[2] | found[3]
        if ended.any():
            np.testing.assert_array_equal(found[4]["final_obs"][0], expected[4]["final_obs"][0])
            assert found[4]["final_info"]["cost"] == expected[4]["final_info"]["cost"]
        else:
            assert found[4]["cost"] == expected[4]["cost"]
            assert found[4]["margin"] == expected[4]["margin"]


@pytest.mark.parametrize("discrete", [False, True])
def test_stepping_some_leaves_the_others_alone(discrete):
    envs, twin = PlanarRobotVector(3, discrete), PlanarRobotVector(3, discrete)
    first, _ = envs.reset(seed=3)
    twin.reset(seed=3)
    envs.action_space.seed(0)
    for _ in range(5):
        actions = envs.action_space.sample()
        found, expected = envs.step_some(np.array([False, True, False]), actions), twin.step(actions)
        np.testing.assert_array_equal(found[0][1], expected[0][1])
        np.testing.assert_array_equal(found[0][[0, 2]], first[[0, 2]])
        assert found[4]["cost"][1] == expected[4]["cost"][1]


def test_stepping_some_ends_but_never_resets():
    envs = PlanarRobotVector(2)
    envs.reset(seed=0)
    ends = [envs.step_some(np.array([True, False]), np.zeros((2, 2)))[3] for _ in range(planar_robot.HORIZON)]
    assert [end[0] for end in ends] == [False] * (planar_robot.HORIZON - 1) + [True]
    assert not any(end[1] for end in ends)


def test_the_known_cost_is_what_the_environment_charges():
    for discrete in (False, True):
        env = PlanarRobotVector(32, discrete)
        states, _ = env.reset(seed=0)
        env.action_space.seed(1)
        for _ in range(100):
            actions = env.action_space.sample()
            encoded = np.eye(9)[actions] if discrete else actions.astype(np.float64)
            expected = planar_robot.cost_of(states, encoded)
            states, _, _, _, infos = env.step(actions)
            np.testing.assert_allclose(infos["cost"], expected, rtol=1e-12)


def test_costs_are_in_the_unit_interval_and_the_margin_is_zero_where_the_cost_is_one_half():
    positions = np.random.default_rng(0).uniform(-1.5, 1.5, (10_000, 2))
    costs = planar_robot.hill_height(positions)
    assert 0 <= costs.min() <= costs.max() <= 1
    margins = planar_robot.margin(positions)
    assert np.all(costs[margins < -1e-3] > 0.5)
    assert np.all(costs[margins > 0.01] < 0.5)


def test_the_cautious_controller_reaches_the_optimum_safely():
    env = PlanarRobotVector(64)
    states, _ = env.reset(seed=0)
    first, returns, running, highest = states, np.zeros(64), np.ones(64, dtype=bool), 0.0
    for _ in range(planar_robot.HORIZON):
        states, rewards, terminated, _, infos = env.step(planar_robot.detour(states))
        returns += rewards * running
        highest = max(highest, infos["cost"][running].max(initial=0.0))
        running &= ~terminated
    assert not running.any()
    np.testing.assert_allclose(returns, planar_robot.optimal_return(first))
    assert highest < 0.1


def test_no_policy_collects_more_than_the_optimum():
    env = PlanarRobotVector(256)
    states, _ = env.reset(seed=1)
    first, returns, running = states, np.zeros(256), np.ones(256, dtype=bool)
    env.action_space.seed(2)
    for _ in range(planar_robot.HORIZON):
        states, rewards, terminated, truncated, _ = env.step(env.action_space.sample())
        returns += rewards * running
        running &= ~(terminated | truncated)
        assert np.all(returns <= planar_robot.optimal_return(first) + 1e-9)


def test_walls_stop_the_robot():
    state = np.array([[1.45, 0.0, 1.0, 0.0]])
    np.testing.assert_array_equal(planar_robot.advance(state, np.array([[1.0, 0.0]])), [[1.5, 0.0, 0.0, 0.0]])


def test_seeds_reproduce():
    def run(seed):
        env = PlanarRobotVector(4)
        env.reset(seed=seed)
        return np.concatenate([env.step(np.full((4, 2), 0.3))[0] for _ in range(100)])

    np.testing.assert_array_equal(run(5), run(5))
    assert np.any(run(5) != run(6))


@pytest.mark.parametrize("actions", [np.zeros((3, 2)), np.full((2, 2), np.nan), np.zeros(2)])
def test_wrong_actions_are_named(actions):
    env = PlanarRobotVector(2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="must be 2 finite rows of Box"):
        env.step(actions)


def test_the_cautious_log_is_safe_and_true():
    log = planar_robot.cautious_log(4, np.random.default_rng(0))
    assert len(log.costs) == 4 * planar_robot.HORIZON
    np.testing.assert_array_equal(log.costs, planar_robot.cost_of(log.observations, log.actions.astype(float)))
    assert log.costs.max() < 0.3
