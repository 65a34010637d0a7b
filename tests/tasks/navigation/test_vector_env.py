"""The batched Goal tasks: Gymnasium's contract, seeds, autoreset, costs and errors."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import safexp.tasks
from safexp.tasks.navigation import NavigationEnv, NavigationVectorEnv
from safexp.tasks.navigation.layouts import STATIC
from safexp.tasks.navigation.suite import GOAL1

IDS = [
    f"safexp/{robot}{task}-v0"
    for robot in ("Point", "Car")
    for task in ("GoalStatic", "GoalDynamic", "Goal1", "GoalMoving")
]
SIZES = {"GoalStatic": 32, "GoalDynamic": 32, "Goal1": 48, "GoalMoving": 48}


def drive(envs: NavigationVectorEnv, steps: int, seed: int = 0) -> list[tuple]:
    rng = np.random.default_rng(seed)
    return [envs.step(rng.uniform(-1, 1, (envs.num_envs, 2))) for _ in range(steps)]


@pytest.mark.filterwarnings("ignore:.*Box observation space m....um value is -?infinity")  # as it is
@pytest.mark.parametrize("name", IDS)
def test_single_environments_pass_gymnasiums_checker(name: str) -> None:
    env = gym.make(name, render_mode="rgb_array")
    check_env(env.unwrapped)
    robot, task = name.removeprefix("safexp/").removesuffix("-v0").split("Goal", 1)
    sensors = {"Point": 12, "Car": 24}[robot]
    assert env.observation_space.shape == (sensors + SIZES["Goal" + task],)


@pytest.mark.parametrize("name", IDS)
def test_make_vec_gives_the_native_batch(name: str) -> None:
    envs = gym.make_vec(name, num_envs=3)
    assert isinstance(envs.unwrapped, NavigationVectorEnv)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    observations, info = envs.reset(seed=1)
    assert envs.observation_space.contains(observations)
    assert info["cost"].tolist() == [0.0, 0.0, 0.0]
    observations, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(observations)
    for values in (rewards, terminated, truncated, info["cost"], info["margin"], info["goal_met"]):
        assert values.shape == (3,)


def test_registering_twice_changes_nothing() -> None:
    before = dict(gym.registry)
    safexp.tasks.register()
    assert dict(gym.registry) == before


@pytest.mark.parametrize("robot", ["Point", "Car"])
@pytest.mark.parametrize("layout", ["Static", "Goal1", "Moving"])
def test_a_single_environment_is_a_batch_of_one(robot: str, layout: str) -> None:
    single, batch = NavigationEnv(robot, layout), NavigationVectorEnv(1, robot, layout, autoreset_mode="Disabled")
    first, _ = single.reset(seed=7)
    firsts, _ = batch.reset(seed=7)
    assert np.array_equal(first, firsts[0])
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = rng.uniform(-1.5, 1.5, 2)
        observation, reward, _, _, info = single.step(action)
        observations, rewards, _, _, infos = batch.step(action[None])
        assert np.array_equal(observation, observations[0])
        assert reward == rewards[0]
        assert info["cost"] == infos["cost"][0]


@pytest.mark.parametrize("num_envs", [1, 2, 17, 1024])
def test_batches_of_all_sizes(num_envs: int) -> None:
    envs = NavigationVectorEnv(num_envs, "Point", "Goal1", autoreset_mode=AutoresetMode.SAME_STEP)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (num_envs, 60)
    assert len(np.unique(observations[:, 9])) == num_envs, "every environment has a start of its own"
    for observations, rewards, _, _, _ in drive(envs, 2):
        assert np.isfinite(observations).all()
        assert np.isfinite(rewards).all()


@pytest.mark.parametrize("layout", ["Static", "Dynamic", "Goal1", "Moving"])
def test_seeds_repeat_and_differ(layout: str) -> None:
    runs = []
    for seed, before in ((3, 0), (3, 5), (4, 0)):
        envs = NavigationVectorEnv(4, "Car", layout, max_episode_steps=6, autoreset_mode="SameStep")
        envs.reset(seed=99)
        drive(envs, before)
        first, _ = envs.reset(seed=seed)
        runs.append([first] + [step[0] for step in drive(envs, 15)])
    assert all(np.array_equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not np.array_equal(runs[0][0], runs[2][0])


def test_threads_do_not_change_anything() -> None:
    runs = []
    for threads in (1, 2):
        envs = NavigationVectorEnv(8, "Car", "Goal1", threads=threads)
        envs.reset(seed=0)
        runs.append([step[0] for step in drive(envs, 10)])
    assert np.array_equal(runs[0], runs[1])


@pytest.mark.parametrize("layout", ["Static", "Goal1"])
def test_same_step_is_next_step_without_the_pause(layout: str) -> None:
    """Both modes, and resets by hand, show the same episodes; what they show at the seams differs as documented."""
    limit, total = 5, 12
    actions = np.random.default_rng(1).uniform(-1, 1, (total, 3, 2))
    same = NavigationVectorEnv(3, "Point", layout, max_episode_steps=limit, autoreset_mode="SameStep")
    late = NavigationVectorEnv(3, "Point", layout, max_episode_steps=limit, autoreset_mode="NextStep")
    hand = NavigationVectorEnv(3, "Point", layout, max_episode_steps=limit, autoreset_mode="Disabled")
    for envs in (same, late, hand):
        envs.reset(seed=5)
    for action in actions:
        observations, rewards, terminated, truncated, info = same.step(action)
        expected, expected_rewards, _, ended, expected_info = late.step(action)
        by_hand, *_ = hand.step(action)
        assert np.array_equal(rewards, expected_rewards)
        assert np.array_equal(truncated, ended)
        assert np.array_equal(info["cost"], expected_info["cost"])
        if not truncated.any():
            assert np.array_equal(observations, expected)
            assert np.array_equal(by_hand, expected)
            assert "final_obs" not in info
            continue
        assert truncated.all() and not terminated.any()
        assert np.array_equal(np.stack(info["final_obs"]), expected)
        assert np.array_equal(by_hand, expected)
        assert info["_final_obs"].all() and info["_final_info"].all()
        assert np.array_equal(info["final_info"]["margin"], expected_info["margin"])
        fresh, pause_rewards, over, cut, pause = late.step(np.ones((3, 2)))
        assert np.array_equal(fresh, observations)
        assert not pause_rewards.any() and not over.any() and not cut.any() and not pause["cost"].any()
        reset, _ = hand.reset(options={"reset_mask": truncated})
        assert np.array_equal(reset, observations)


def test_final_observations_have_gymnasiums_form() -> None:
    native = NavigationVectorEnv(2, "Point", "Static", max_episode_steps=3, autoreset_mode="SameStep")
    plain = gym.vector.SyncVectorEnv(
        [lambda: gym.make("safexp/PointGoalStatic-v0", max_episode_steps=3)] * 2, autoreset_mode=AutoresetMode.SAME_STEP
    )
    ends = []
    for envs in (native, plain):
        envs.reset(seed=0)
        for _ in range(3):
            *_, info = envs.step(np.zeros((2, 2), dtype=np.float32))
        ends.append(info)
    ours, theirs = ends
    assert ours["final_obs"].dtype == theirs["final_obs"].dtype == object
    assert ours["final_obs"][1].shape == theirs["final_obs"][1].shape
    assert set(theirs["final_info"]) <= set(ours["final_info"])
    for key, values in theirs["final_info"].items():
        assert ours["final_info"][key].dtype == values.dtype
        assert ours["final_info"][key].shape == values.shape
    listed = gym.wrappers.vector.DictInfoToList(native)
    listed.reset(seed=0)
    for _ in range(3):
        *_, infos = listed.step(np.zeros((2, 2)))
    assert infos[1]["final_info"]["cost"] == 0.0


def test_some_episodes_end_and_others_go_on() -> None:
    envs = NavigationVectorEnv(3, "Point", "Static", autoreset_mode="SameStep")
    envs.reset(seed=0)
    drive(envs, 3)
    envs.goal[1] = envs.physics.position[1, :2]
    before = envs.steps.copy()
    observations, rewards, terminated, truncated, info = envs.step(np.zeros((3, 2)))
    assert terminated.tolist() == [False, True, False] == info["goal_met"].tolist()
    assert not truncated.any()
    assert rewards[1] > 1.0
    assert info["final_obs"][0] is None
    assert not np.array_equal(info["final_obs"][1], observations[1])
    assert np.array_equal(info["_final_obs"], terminated)
    assert envs.steps.tolist() == [before[0] + 1, 0, before[2] + 1]


def test_a_masked_reset_leaves_the_others_alone() -> None:
    envs = NavigationVectorEnv(4, "Car", "Goal1", autoreset_mode="Disabled")
    envs.reset(seed=0)
    observations = drive(envs, 4)[-1][0]
    mask = np.array([False, True, False, True])
    fresh, info = envs.reset(options={"reset_mask": mask})
    assert np.array_equal(fresh[~mask], observations[~mask])
    assert not np.isclose(fresh[mask], observations[mask]).all(axis=1).any()
    assert info["cost"].shape == (4,)
    other = NavigationVectorEnv(4, "Car", "Goal1", autoreset_mode="Disabled")
    other.reset(seed=0)
    drive(other, 4)
    action = np.full((4, 2), 0.01)
    assert np.array_equal(envs.step(action)[0][~mask], other.step(action)[0][~mask])


def test_reaching_a_goal_of_goal1_moves_it() -> None:
    envs = NavigationVectorEnv(16, "Point", "Goal1")
    envs.reset(seed=2)
    envs.goal[:] = envs.physics.position[:, :2]
    envs.last_distance[:] = 0.0
    _, rewards, terminated, _, info = envs.step(np.zeros((16, 2)))
    assert info["goal_met"].all() and not terminated.any()
    assert np.allclose(rewards, 1.0, atol=1e-3)
    position = envs.physics.position[:, :2]
    assert (np.linalg.norm(envs.goal - position, axis=1) >= 0.705).all()
    assert (np.linalg.norm(envs.hazards - envs.goal[:, None], axis=2) >= 0.305 + 0.18).all()
    assert (np.linalg.norm(envs.physics.places["vases"][:, 0, :2] - envs.goal, axis=1) >= 0.305 + 0.15).all()
    assert np.allclose(envs.last_distance, np.linalg.norm(envs.goal - position, axis=1))


def test_an_episode_without_room_for_a_new_goal_ends() -> None:
    envs = NavigationVectorEnv(2, "Point", "Goal1", hazards=1, extent=1.0)
    envs.reset(seed=2)
    envs.goal[0] = envs.physics.position[0, :2]
    envs.hazards[0] = np.linspace(0.0, 0.0, 2)
    envs.layout = dataclasses.replace(envs.layout, hazard_radius=3.0)
    _, _, terminated, _, info = envs.step(np.zeros((2, 2)))
    assert info["goal_met"].tolist() == terminated.tolist() == [True, False]


@pytest.mark.parametrize("layout", ["Static", "Goal1", "Moving"])
def test_cost_margin_and_reward_follow_their_definitions(layout: str) -> None:
    envs = NavigationVectorEnv(32, "Point", layout, autoreset_mode="SameStep")
    smooth = NavigationVectorEnv(32, "Point", layout, autoreset_mode="SameStep", cost="margin")
    envs.reset(seed=1)
    smooth.reset(seed=1)
    actions = np.repeat(np.random.default_rng(0).uniform(-1, 1, (6, 32, 2)), 10, axis=0)
    costs = []
    for action in actions:
        distance = np.linalg.norm(envs.goal - envs.physics.position[:, :2], axis=1)
        _, rewards, terminated, truncated, info = envs.step(action)
        *_, soft = smooth.step(action)
        going = ~(terminated | truncated | info["goal_met"])
        hazards = np.linalg.norm(envs.hazards - envs.physics.position[:, None, :2], axis=2)
        assert np.allclose(info["margin"][going], hazards.min(axis=1)[going] - envs.layout.hazard_radius)
        assert np.array_equal(info["cost"][going], (info["margin"] < 0).astype(float)[going])
        assert np.allclose(soft["cost"][going], 1 / (1 + np.exp(info["margin"][going] / 0.1)))
        after = np.linalg.norm(envs.goal - envs.physics.position[:, :2], axis=1)
        assert np.allclose(rewards[going], (distance - after)[going])
        costs.append(info["cost"])
    assert 0 < np.mean(costs) < 1


def test_observation_ends_with_lidars_of_the_asked_size() -> None:
    envs = NavigationVectorEnv(2, "Car", "Goal1", lidar_bins=5)
    observations, _ = envs.reset(seed=0)
    assert observations.shape == (2, 24 + 15)
    assert envs.single_observation_space.low[24:].tolist() == [0.0] * 15


def test_options_change_the_layout() -> None:
    envs = NavigationVectorEnv(2, "Point", "Static", hazards=[(0.0, 0.5), (0.0, -0.5)], hazard_radius=0.2, extent=2.0)
    envs.reset(seed=0)
    assert envs.hazards[1].tolist() == [[0.0, 0.5], [0.0, -0.5]]
    assert envs.layout.hazard_radius == 0.2
    more = NavigationVectorEnv(2, "Point", "Dynamic", hazards=5, hazard_radius=0.1)
    more.reset(seed=0)
    assert more.hazards.shape == (2, 5, 2)
    mine = NavigationVectorEnv(2, "Point", dataclasses.replace(GOAL1, vases=0))
    assert mine.reset(seed=0)[0].shape == (2, 44)
    made = gym.make_vec("safexp/PointGoalStatic-v0", num_envs=2, hazard_radius=0.3, max_episode_steps=4)
    made.reset(seed=0)
    assert drive(made, 4)[-1][3].all()


def test_the_time_limit_of_a_single_environment_is_the_wrappers() -> None:
    env = gym.make("safexp/PointGoalStatic-v0", max_episode_steps=300)
    env.reset(seed=0)
    truncations = [env.step(np.zeros(2, dtype=np.float32))[3] for _ in range(300)]
    assert truncations == [False] * 299 + [True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"robot": "Doggo"}, "robot='Doggo' is not known; expected one of 'Point', 'Car'"),
        ({"layout": "Maze"}, "layout='Maze' is not known; expected one of 'Static', 'Dynamic', 'Moving', 'Goal0'"),
        ({"cost": "sum"}, "cost='sum' is not known; expected 'indicator' or 'margin'"),
        ({"num_envs": 0}, "num_envs=0: expected an integer of 1 or more"),
        ({"lidar_bins": 2.5}, "lidar_bins=2.5: expected an integer"),
        ({"threads": 0}, "threads=0: expected"),
        ({"max_episode_steps": 0}, "max_episode_steps=0: expected"),
        ({"render_mode": "human"}, "render_mode='human' is not known"),
        ({"hazards": 0}, "hazards=0: expected one hazard or more"),
        ({"hazard_radius": -1.0}, "hazard_radius=-1.0 is not a length"),
        ({"extent": float("nan")}, "extent=nan is not a length"),
    ],
)
def test_wrong_options_are_explained(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("'", ".")):
        NavigationVectorEnv(**options)


def test_a_goal_that_stays_must_end_the_episode() -> None:
    with pytest.raises(ValueError, match="a goal that is reached must move or end the"):
        dataclasses.replace(STATIC, ends_at_goal=False)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.zeros((2, 3)), r"shape \(2, 3\); expected \(2, 2\)"),
        (np.zeros(2), r"shape \(2,\); expected \(2, 2\)"),
        ([[0.0, np.nan], [0.0, 0.0]], r"not finite in 1 environments, first \[ ?0\. nan\]"),
        ([[np.inf, 0.0], [0.0, np.nan]], "not finite in 2 environments"),
        ([["a", "b"], ["c", "d"]], "is not numeric"),
    ],
)
def test_wrong_actions_are_explained_and_change_nothing(actions: object, message: str) -> None:
    envs = NavigationVectorEnv(2, "Point", "Static")
    envs.reset(seed=0)
    state = envs.physics.batch.state.copy()
    with pytest.raises(ValueError, match=message):
        envs.step(actions)
    assert np.array_equal(envs.physics.batch.state, state)


def test_single_actions_are_checked_too() -> None:
    env = NavigationEnv()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(1, 2\); expected \(2,\)"):
        env.step(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="not finite"):
        env.step([np.nan, 0.0])


def test_actions_are_clipped() -> None:
    runs = []
    for scale in (1.0, 7.0):
        envs = NavigationVectorEnv(2, "Point", "Static")
        envs.reset(seed=0)
        runs.append(envs.step(scale * np.ones((2, 2)))[0])
    assert np.array_equal(*runs)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_stepping_before_a_reset_is_refused(mode: AutoresetMode) -> None:
    with pytest.raises(ResetNeeded, match=r"Environments \[0, 1\] have no running episode"):
        NavigationVectorEnv(2, autoreset_mode=mode).step(np.zeros((2, 2)))


def test_without_autoreset_an_ended_episode_cannot_go_on() -> None:
    envs = NavigationVectorEnv(2, max_episode_steps=1, autoreset_mode="Disabled")
    envs.reset(seed=0)
    envs.step(np.zeros((2, 2)))
    envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ResetNeeded, match=r"Environments \[1\]"):
        envs.step(np.zeros((2, 2)))


@pytest.mark.parametrize("mask", [np.ones(3, dtype=bool), np.ones(2), np.zeros(2, dtype=bool)])
def test_wrong_reset_masks_are_explained(mask: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected a boolean array of shape \(2,\) with at least one"):
        NavigationVectorEnv(2).reset(options={"reset_mask": mask})


def test_a_list_of_seeds_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one integer or None"):
        NavigationVectorEnv(2).reset(seed=[1, 2])


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    envs = gym.make_vec("safexp/CarGoal1-v0", num_envs=4)
    envs.reset(seed=0)
    drive(envs, 5)
    envs.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("layout", ["Static", "Goal1", "Moving", "Button1", "Push1"])
def test_stepping_some_leaves_the_others_alone(layout: str) -> None:
    envs, together, later = (NavigationVectorEnv(3, layout=layout) for _ in range(3))
    for batch in (envs, together, later):
        batch.reset(seed=5)
    some, actions = np.array([False, True, False]), np.random.default_rng(0).uniform(-1, 1, (20, 3, 2))
    for k in range(10):
        found = envs.step_some(some, actions[k])
        expected = together.step(actions[k])
        for part, whole in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(part[1], whole[1])
        assert found[4]["cost"][1] == expected[4]["cost"][1]
    for k in range(10, 20):
        found, expected = envs.step(actions[k]), later.step(actions[k])
        for part, whole in zip(found[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(part[[0, 2]], whole[[0, 2]])
        np.testing.assert_array_equal(found[4]["cost"][[0, 2]], expected[4]["cost"][[0, 2]])
