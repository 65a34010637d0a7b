"""The path of a robot and its backup past obstacles: learned from drills, and right about costs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Backup, Budget, Calibrated, Instantaneous, Obstacles, PlanarPath, Shield
from safexp.envs.guard import Guard
from safexp.quantifiers.planar_path import UNKNOWN, points_of
from safexp.quantifiers.replays import Course
from safexp.shield.transitions import transitions_of
from support.rover import HORIZON, PLACES, RADIUS, Rover, brake, drill_log

AMONG = Obstacles(2, RADIUS)


@cache
def log():
    return drill_log()


def shield_of(constraint, *, quantifier=None, fit=True):
    env, backup = Rover(), Backup(brake, HORIZON, drills=0.0)
    shield = Shield(
        quantifier or Calibrated(PlanarPath()),
        env.observation_space,
        env.action_space,
        constraint=constraint,
        backup=backup,
    )
    if fit and quantifier is None:
        shield.quantifier.restore(learned())  # what is learned does not depend on constraint and obstacles
    elif fit:
        shield.fit(log())
    return shield


@cache
def learned():
    return shield_of(Budget(0.0, among=AMONG), quantifier=Calibrated(PlanarPath())).quantifier.state()


def upper_bound(shield, speed, distance, action):
    """Bound of an action at this speed, heading for an obstacle at this distance."""
    pose = [PLACES[0, 0] - distance, PLACES[0, 1], 0.0]
    states = shield.states(np.array([[0.0, speed, 0.0]]), np.array([[*pose, *PLACES.ravel()]]))
    mean, width = shield.quantifier.predict(states, np.array([[action]]))
    return float((mean + width)[0, 0])


def test_only_the_speed_is_found_relevant():
    shield = shield_of(Budget(0.0, among=AMONG), quantifier=PlanarPath())
    assert shield.quantifier.relevant == (1,)


def test_the_brake_s_path_decides_what_is_certified():
    shield = shield_of(Budget(0.0, among=AMONG))
    assert upper_bound(shield, 0.0, 1.0, [0.0, 0.0]) == 0.0
    assert upper_bound(shield, 0.25, 2.0, [1.0, 0.0]) == 0.0
    assert upper_bound(shield, 0.25, 1.0, [1.0, 0.0]) >= UNKNOWN  # it would come to rest inside
    assert upper_bound(shield, -0.25, 1.0, [-1.0, 0.0]) == 0.0


def test_beyond_the_speeds_of_the_log_nothing_is_known():
    assert upper_bound(shield_of(Budget(25.0, among=AMONG)), 3.0, 50.0, [0.0, 0.0]) >= UNKNOWN


def test_obstacles_that_move_need_more_room():
    moving = Obstacles(2, RADIUS, speed=0.02)
    assert upper_bound(shield_of(Budget(0.0, among=moving)), 0.0, 1.0, [0.0, 0.0]) >= UNKNOWN
    assert upper_bound(shield_of(Budget(0.0, among=moving)), 0.0, 2.0, [0.0, 0.0]) == 0.0


def test_bodies_cannot_be_crossed_with_a_budget():
    """At this speed the brake's path leads through the disc and out of it, which takes a few steps."""
    small = (RADIUS / 10, RADIUS / 10)
    open_, solid = (shield_of(Budget(25.0, among=Obstacles(2, small, solid=count))) for count in (0, 2))
    bounds = [upper_bound(shield, 0.25, distance, [1.0, 0.0]) for shield in (open_, solid) for distance in (0.4, 3.0)]
    assert 0.0 < bounds[0] < 25.0 and bounds[2] >= UNKNOWN
    assert bounds[1] == bounds[3] == 0.0


def test_walls_are_kept_by_the_rover_s_own_ledger():
    """A driver at full speed towards walls in the world's frame, whatever the heading."""
    rover, among = Rover(), Obstacles(0, walls=(0.7, float("inf")))
    rover.reset(seed=0)
    constraint = Budget(0.0, among=among)
    shield = shield_of(constraint)
    guard = Guard(DummyVecEnv([lambda: rover]), constraint, shield, None, backup=shield.backup)
    guard.reset()
    farthest = 0.0
    for _ in range(300):
        *_, infos = guard.step(np.array([[1.0, 0.0]], dtype=np.float32))
        farthest = max(farthest, abs(infos[0]["pose"][0]))
    assert 0.3 < farthest <= 0.7


def test_a_limit_on_every_step_is_bounded_by_the_largest_cost():
    shield = shield_of(Instantaneous(0.5, among=AMONG))
    assert upper_bound(shield, 0.0, 1.0, [0.0, 0.0]) == 0.0
    assert upper_bound(shield, 0.25, 1.0, [1.0, 0.0]) == 1.0


@pytest.mark.parametrize("limit", [0.0, 3.0])
def test_a_driver_at_full_speed_keeps_the_budget_by_the_rover_s_own_ledger(limit):
    rover, constraint = Rover(), Budget(limit, among=AMONG)
    shield = shield_of(constraint)
    guard = Guard(DummyVecEnv([lambda: rover]), constraint, shield, None, backup=shield.backup)
    rng = np.random.default_rng(1)
    guard.reset()
    for _ in range(600):
        guard.step(np.array([[1.0, 0.1 * rng.normal()]], dtype=np.float32))
    assert max(rover.inside) <= limit
    episodes = guard.recorder.episodes
    assert not any(episode.stopped or episode.violated for episode in episodes)
    assert sum(episode.interventions + episode.takeovers for episode in episodes) > 0


def test_without_the_shield_the_same_driver_does_not():
    rover, rng = Rover(), np.random.default_rng(1)
    for _ in range(6):
        rover.reset()
        for _ in range(100):
            rover.step([1.0, 0.1 * rng.normal()])
    assert max(rover.inside) >= 4


def test_it_learns_on_from_drills_of_the_run():
    shield = shield_of(Budget(25.0, among=AMONG), quantifier=PlanarPath())
    before = upper_bound(shield, 0.2, 1.5, [0.0, 0.0])
    more = transitions_of(
        drill_log(20, seed=5), shield.constraint, shield.observation_space, shield.action_space, with_next=True
    )
    shield.quantifier.update(more)
    assert upper_bound(shield, 0.2, 1.5, [0.0, 0.0]) == pytest.approx(before, abs=1.0)


def test_a_stretch_beyond_a_gap_does_not_vouch_for_what_lies_between():
    shield = shield_of(Budget(25.0, among=AMONG), quantifier=PlanarPath(inputs=(0, 1)))
    more = transitions_of(
        drill_log(20, seed=5), shield.constraint, shield.observation_space, shield.action_space, with_next=True
    )
    far = np.eye(1, more.states.shape[1]) * 10.0  # the first entry lay in [-1, 1]
    shield.quantifier.update(more._replace(states=more.states + far, next_states=more.next_states + far))
    states = shield.states(np.array([[first, 0.0, 0.0] for first in (0.5, 5.0, 10.0)]), np.zeros((3, 7)))
    widths = shield.quantifier.path(states, np.zeros((3, 1, 2)))[1][:, -1]
    assert np.isinf(widths).tolist() == [False, True, True]


def test_it_comes_back_from_a_file(tmp_path):
    shield = shield_of(Budget(25.0, among=AMONG))
    shield.save(tmp_path / "rover.safexp")
    again = Shield.load(tmp_path / "rover.safexp", backup=Backup(brake, HORIZON))
    for speed in (0.0, 0.1, 0.25):
        assert upper_bound(again, speed, 1.1, [0.5, 0.1]) == upper_bound(shield, speed, 1.1, [0.5, 0.1])
    assert again.constraint == shield.constraint


def test_nothing_is_certified_before_it_has_learned():
    assert upper_bound(shield_of(Budget(25.0, among=AMONG), fit=False), 0.0, 50.0, [0.0, 0.0]) == np.inf


def test_without_obstacles_or_backup_it_says_what_is_missing():
    env = Rover()
    spaces = env.observation_space, env.action_space
    with pytest.raises(ValueError, match=r"Budget names none: give Budget\(limit, among=Obstacles"):
        Shield(PlanarPath(), *spaces, constraint=Budget(1.0), backup=Backup(brake, HORIZON))
    with pytest.raises(ValueError, match=r"give backup=Backup\(controller, horizon\)"):
        Shield(PlanarPath(), *spaces, constraint=Budget(1.0, among=AMONG))
    with pytest.raises(ValueError, match=r"no obstacles yet: give it to a Shield or MASE"):
        PlanarPath().predict(np.zeros((1, 3)), np.zeros((1, 1, 2)))
    with pytest.raises(ValueError, match=r"degree=4\) must be 1, 2 or 3"):
        PlanarPath(degree=4)


def test_a_path_is_predicted_often_enough_while_an_action_is_held():
    course = Course(np.asarray, np.asarray, 20, None, None, 12)
    times = points_of(course)
    assert times[0] == 1 and times[-1] == course.steps == 33
    assert np.diff(times[times <= 13]).max() <= 5


def test_a_held_action_is_certified_where_the_brake_alone_would_come_to_rest_inside():
    """At rest at the edge of an obstacle, only an action that is held for a while leads clear of it."""
    env, backup = Rover(), Backup(brake, HORIZON, hold=(0, 8), drills=0.0)
    constraint = Budget(25.0, among=AMONG)
    shield = Shield(
        Calibrated(PlanarPath()), env.observation_space, env.action_space, constraint=constraint, backup=backup
    )
    shield.fit(drill_log(hold=8))
    inside = RADIUS - 0.3
    pose = [PLACES[0, 0] - inside, PLACES[0, 1], 0.0]
    states = shield.states(np.array([[0.0, 0.0, 0.0]]), np.array([[*pose, *PLACES.ravel()]]))
    bounds = [sum(part.predict(states, np.array([[[-1.0, 0.0]]])))[0, 0] for part in shield.quantifier.parts]
    assert bounds[0] >= UNKNOWN > 25.0 >= bounds[1]
    assert shield.option_after(states, np.array([[-1.0, 0.0]], dtype=np.float32)).tolist() == [1]
    with pytest.raises(ValueError, match="2 options, and a single decision does not remember"):
        shield.filter(np.zeros(3), np.zeros(2), 25.0, measured=[*pose, *PLACES.ravel()])
