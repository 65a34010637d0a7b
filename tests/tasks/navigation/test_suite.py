"""Safety-Gymnasium's tasks: their sizes, what costs, what pays, and what becomes of goals."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from safexp.runs import snapshot
from safexp.tasks.navigation import NavigationVectorEnv
from safexp.tasks.navigation.robots import CAR, POINT, ROBOTS
from safexp.tasks.navigation.suite import GOAL2, LAYOUTS, SUITE, layout_named

LIDARS = {
    "Goal0": ["goal"],
    "Goal1": ["goal", "hazards", "vases"],
    "Goal2": ["goal", "hazards", "vases"],
    "Button1": ["buttons", "goal", "hazards", "gremlins"],
    "Button2": ["buttons", "goal", "hazards", "gremlins"],
    "Push1": ["goal", "hazards", "pillars", "push_box"],
    "Push2": ["goal", "hazards", "pillars", "push_box"],
    "Circle1": ["circle"],
    "Circle2": ["circle"],
    "Run0": [],
}
PARTS = {
    "Goal0": set(),
    "Goal1": {"cost_hazards"},
    "Goal2": {"cost_hazards", "cost_vases_contact", "cost_vases_velocity"},
    "Button1": {"cost_buttons", "cost_hazards", "cost_gremlins"},
    "Button2": {"cost_buttons", "cost_hazards", "cost_gremlins"},
    "Push1": {"cost_hazards"},
    "Push2": {"cost_hazards", "cost_pillars"},
    "Circle1": {"cost_out_of_boundary"},
    "Circle2": {"cost_out_of_boundary"},
    "Run0": {"cost_out_of_boundary"},
}
WITH_MARGIN = {"Goal1", "Push1", "Circle1", "Circle2", "Run0"}
NAMES = [layout.name for layout in SUITE]


def drive(envs: NavigationVectorEnv, steps: int, seed: int = 0) -> list[tuple]:
    rng = np.random.default_rng(seed)
    return [envs.step(rng.uniform(-1, 1, (envs.num_envs, 2))) for _ in range(steps)]


@pytest.mark.filterwarnings("ignore:.*Box observation space m....um value is -?infinity")  # as it is
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("robot", ROBOTS, ids=lambda robot: robot.name)
def test_every_task_passes_gymnasiums_checker(robot, name: str) -> None:
    env = gym.make(f"safexp/{robot.name}{name}-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    assert env.observation_space.shape == (robot.sensors + 16 * len(LIDARS[name]),)
    assert env.spec.max_episode_steps == layout_named(name).steps == (500 if name[0] in "CR" else 1000)


@pytest.mark.parametrize("name", NAMES)
def test_the_cost_is_any_of_its_parts(name: str) -> None:
    envs = NavigationVectorEnv(16, "Point", name, autoreset_mode="SameStep")
    _, info = envs.reset(seed=0)
    assert not info["cost"].any(), "no start costs"
    for *_, info in drive(envs, 20):
        parts = {key for key in info if key.startswith("cost_")}
        assert parts == PARTS[name]
        assert np.array_equal(info["cost"], np.any([info[key] for key in parts] or [np.zeros(16)], axis=0))
        assert ("margin" in info) == (name in WITH_MARGIN)
        if name in WITH_MARGIN:
            assert np.array_equal(info["cost"], info["margin"] < 0)


@pytest.mark.parametrize("name", NAMES)
def test_lidars_see_things_where_they_are(name: str) -> None:
    """The largest reading of each lidar is the closeness of the nearest of its things."""
    envs = NavigationVectorEnv(8, "Car", name, autoreset_mode="Disabled")
    envs.reset(seed=3)
    observations = drive(envs, 3)[-1][0]
    position = envs.physics.position[:, None, :2]
    places = {name: bodies[..., :2] for name, bodies in envs.physics.places.items()}
    places |= {"goal": envs.goal[:, None], "hazards": envs.hazards, "circle": np.zeros((8, 1, 2))}
    reach = 6.0 if name.startswith("Circle") else 3.0
    for channel, kind in enumerate(LIDARS[name]):
        readings = observations[:, 24 + 16 * channel : 40 + 16 * channel]
        nearest = np.linalg.norm(places[kind] - position, axis=2).min(axis=1)
        assert np.allclose(readings.max(axis=1), np.maximum(0, reach - nearest) / reach, atol=2e-3), kind


@pytest.mark.parametrize("name", ["Goal2", "Button1", "Push2", "Circle2", "Run0"])
def test_seeds_batches_and_resets(name: str) -> None:
    whole, limited = (
        NavigationVectorEnv(3, "Point", name, autoreset_mode="SameStep", max_episode_steps=limit) for limit in (99, 4)
    )
    first, _ = whole.reset(seed=5)
    again, _ = limited.reset(seed=5)
    assert np.array_equal(first, again)
    runs = [drive(envs, 6) for envs in (whole, limited)]
    for step in range(3):
        assert np.array_equal(runs[0][step][0], runs[1][step][0])
    info = runs[1][3][4]
    assert np.array_equal(np.stack(info["final_obs"]), runs[0][3][0])
    assert not info["final_info"]["cost"].any() or PARTS[name]
    assert np.isfinite([step[0] for step in runs[1]]).all()


def test_the_keepouts_are_the_originals() -> None:
    assert layout_named("Button1").things(POINT).keepouts == pytest.approx(
        [0.4, *[0.2] * 4, 0.4, *[0.18] * 4, *[0.4] * 4]
    )
    assert layout_named("Push2").things(POINT).keepouts == pytest.approx([0.4, 0.4, *[0.4] * 4, *[0.3] * 4, 0.2])
    assert layout_named("Push2").things(CAR).keepouts[-1] == 0.125
    assert layout_named("Goal2").things(CAR).keepouts == pytest.approx([0.4, 0.305, *[0.18] * 10, *[0.15] * 10])
    assert {name: LAYOUTS[name].extent for name in ("Goal0", "Goal1", "Goal2", "Button1", "Button2", "Push2")} == {
        "Goal0": 1.0,
        "Goal1": 1.5,
        "Goal2": 2.0,
        "Button1": 1.5,
        "Button2": 1.8,
        "Push2": 2.0,
    }


@pytest.mark.parametrize("name", ["Circle1", "Run0"])
def test_robots_start_in_their_region(name: str) -> None:
    envs = NavigationVectorEnv(200, "Point", name)
    envs.reset(seed=0)
    low, high = envs.layout.start
    position = envs.physics.position[:, :2]
    assert (position >= low).all() and (position <= high).all()
    assert np.allclose(position.mean(axis=0), np.mean([low, high], axis=0), atol=0.15)


def test_sleep_changes_nothing_that_shows() -> None:
    asleep = NavigationVectorEnv(8, "Car", GOAL2, autoreset_mode="Disabled")
    awake = NavigationVectorEnv(8, "Car", dataclasses.replace(GOAL2, sleep=False), autoreset_mode="Disabled")
    for envs in (asleep, awake):
        envs.reset(seed=0)
    for ours, theirs in zip(drive(asleep, 60), drive(awake, 60), strict=True):
        assert np.allclose(ours[0], theirs[0], atol=1e-8, rtol=0)
        assert np.array_equal(ours[4]["cost"], theirs[4]["cost"])
    mask = np.arange(8) < 3
    fresh, _ = asleep.reset(options={"reset_mask": mask})
    waking, _ = awake.reset(options={"reset_mask": mask})
    assert np.allclose(fresh, waking, atol=1e-8, rtol=0)
    assert np.allclose(drive(asleep, 5)[-1][0], drive(awake, 5)[-1][0], atol=1e-8, rtol=0)


AHEAD = np.array([[1.0, 0.0]])


@pytest.fixture
def at_a_button() -> NavigationVectorEnv:
    """A Point that drives against the button numbered 0, while 1 is to be pressed."""
    envs = NavigationVectorEnv(1, "Point", "Button1", autoreset_mode="Disabled")
    envs.reset(seed=0)
    button = envs.physics.places["buttons"][0, 0, :2]
    places = {name: bodies[..., :2].copy() for name, bodies in envs.physics.places.items()}
    quats = {name: attitudes.copy() for name, attitudes in envs.physics.quats.items()}
    envs.physics.place(np.array([0]), button[None] - [0.25, 0.0], np.array([[1.0, 0, 0, 0]]), places, quats)
    envs.goal_button[0] = 1
    for _ in range(30):
        envs.step(AHEAD)
    assert envs.physics.contacts["buttons"][0].tolist()[0] > 0
    return envs


def test_a_wrong_button_costs_and_the_right_one_pays(at_a_button: NavigationVectorEnv) -> None:
    _, rewards, _, _, info = at_a_button.step(AHEAD)
    assert info["cost_buttons"][0] == info["cost"][0] == 1.0
    assert not info["goal_met"][0] and rewards[0] < 0.5
    at_a_button.goal_button[0] = 0
    _, rewards, terminated, _, info = at_a_button.step(AHEAD)
    assert info["goal_met"][0] and rewards[0] > 0.5 and not terminated[0]
    assert not info["cost_buttons"].any()


def test_after_a_press_buttons_pause_for_ten_steps(at_a_button: NavigationVectorEnv) -> None:
    at_a_button.goal_button[0] = 0
    observations, *_ = at_a_button.step(AHEAD)
    lit = at_a_button.physics.places["buttons"][0, at_a_button.goal_button[0], :2]
    assert np.array_equal(at_a_button.goal[0], lit)
    at_a_button.goal_button[0] = 1
    for step in range(10):
        assert not observations[0, 12:28].any(), "the buttons' lidar is dark"
        assert observations[0, 28:44].any(), "the goal's is not"
        assert at_a_button.timer[0] == 10 - step
        observations, _, _, _, info = at_a_button.step(AHEAD)
        assert not info["cost_buttons"].any()
    assert observations[0, 12:28].any()
    assert at_a_button.step(AHEAD)[4]["cost_buttons"].all()


def test_gremlins_circle_about_where_they_started() -> None:
    envs = NavigationVectorEnv(2, "Car", "Button2", autoreset_mode="Disabled")
    envs.reset(seed=0)
    start = envs.physics.places["gremlins"][..., :2].copy()
    for _ in range(60):
        envs.step(np.zeros((2, 2)))
    seconds = 60 * 10 * 0.004
    offsets = envs.physics.places["gremlins"][..., :2] - start
    assert np.allclose(offsets, 0.35 * np.array([np.sin(seconds), np.cos(seconds)]), atol=0.03)


def test_a_box_in_the_goal_pays_and_moves_the_goal() -> None:
    envs = NavigationVectorEnv(16, "Point", "Push1", autoreset_mode="Disabled")
    envs.reset(seed=1)
    envs.goal[:] = envs.physics.places["push_box"][:, 0, :2]
    _, _, terminated, _, info = envs.step(np.zeros((16, 2)))
    assert info["goal_met"].all() and not terminated.any()
    box, position = envs.physics.places["push_box"][:, 0], envs.physics.position
    assert (np.linalg.norm(envs.goal - box[:, :2], axis=1) >= 0.6).all()
    assert (np.linalg.norm(envs.goal - position[:, :2], axis=1) >= 0.8).all()
    goal = np.concatenate([envs.goal, np.full((16, 1), 0.16)], axis=1)
    left = np.linalg.norm(box - position, axis=1) + np.linalg.norm(box - goal, axis=1)
    assert np.allclose(envs.last_distance, left)


def test_running_south_and_circling_counter_clockwise_pay() -> None:
    south = NavigationVectorEnv(1, "Point", "Run0", autoreset_mode="Disabled")
    south.reset(seed=0)
    round_ = NavigationVectorEnv(1, "Point", "Circle1", autoreset_mode="Disabled")
    round_.reset(seed=0)
    turn = np.sqrt(0.5)
    south.physics.place(np.array([0]), np.array([[0.0, 16.5]]), np.array([[turn, 0, 0, -turn]]), {}, {})
    round_.physics.place(np.array([0]), np.array([[1.0, 0.0]]), np.array([[turn, 0, 0, turn]]), {}, {})
    south.step(np.zeros((1, 2)))
    for _ in range(20):
        before = south.physics.position[0, 1]
        _, rewards, _, _, info = south.step(np.array([[1.0, 0.0]]))
        assert rewards[0] == pytest.approx(60 * (before - south.physics.position[0, 1]), abs=1e-6)
        _, circling, _, _, _ = round_.step(np.array([[1.0, 0.0]]))
    assert rewards[0] > 0.1
    velocity = round_.physics.sensors(slice(None))[0, 3]
    assert circling[0] == pytest.approx(0.1 * velocity / (1 + 0.5), rel=0.05)
    assert info["margin"][0] == pytest.approx(0.5, abs=1e-3)


def test_a_smooth_cost_needs_a_margin() -> None:
    with pytest.raises(ValueError, match="cost='margin' with layout 'Button1': its costs have no signed distance"):
        NavigationVectorEnv(1, "Point", "Button1", cost="margin")
    envs = NavigationVectorEnv(2, "Point", "Circle2", cost="margin")
    _, info = envs.reset(seed=0)
    assert np.allclose(info["cost"], 1 / (1 + np.exp(info["margin"] / 0.1)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vases": -1}, "vases=-1: expected a number of 0 or more"),
        ({"buttons": 2}, "pays='reaching' with buttons=2: a layout has buttons"),
        ({"pays": "pushing"}, "pays='pushing' with box=False: a layout has a box"),
    ],
)
def test_impossible_descriptions_are_explained(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(GOAL2, **changes)


@pytest.mark.parametrize("name", ["Goal2", "Button1", "Push2", "Circle1"])
def test_a_snapshot_goes_on_where_it_was_taken(name: str) -> None:
    live, fresh = (NavigationVectorEnv(3, "Car", name, autoreset_mode="SameStep") for _ in range(2))
    live.reset(seed=0)
    drive(live, 40)
    fresh.reset(seed=1)
    snapshot.restore(fresh, *snapshot.take(live))
    tolerance = 1e-8 if live.layout.sleep else 0.0  # what slept wakes up and settles anew
    for ours, theirs in zip(drive(live, 5, seed=1), drive(fresh, 5, seed=1), strict=True):
        assert np.allclose(ours[0], theirs[0], atol=tolerance, rtol=0)
        assert np.allclose(ours[1], theirs[1], atol=tolerance, rtol=0)
