"""Promises of certificates: broken ones end an episode before the violation."""

from __future__ import annotations

import numpy as np

from safexp import Backup, Budget, Known, Shield
from safexp.backups.promises import Promises
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from support.rover import HORIZON, Rover, brake


def test_a_promise_is_broken_by_the_cost_that_exceeds_it():
    promises = Promises(2, np.array([True]))
    promises.renew(np.array([True, True]), np.array([[2.0], [0.0]]))
    promises.note(np.array([1.0, 0.0]))
    assert not promises.broken.any()
    promises.note(np.array([1.0, 1.0]))
    assert promises.broken.tolist() == [False, True]
    promises.note(np.array([1.0, 0.0]))
    assert promises.broken.tolist() == [True, False]  # only while costs occur
    assert promises.hopeless(np.array([0.5, 0.5])).tolist() == [True, False]
    assert not promises.hopeless(np.array([1.0, 0.5])).any()  # one more cost still fits
    assert not promises.hopeless(np.array([-1.0, 0.5])).any()  # violated already
    promises.trust(np.array([True, False]), np.array([2.0, 2.0]))
    assert not promises.broken.any()
    promises.note(np.array([2.0, 0.0]))
    assert not promises.broken.any()  # the backup may spend what remains


def test_limits_on_every_step_promise_nothing():
    promises = Promises(1, np.array([False]))
    promises.note(np.array([1.0]))
    assert not promises.broken.any()


def guard_of(rover, limit, rescue=None):
    """A guard whose certificate wrongly says that nothing costs anything."""
    constraint = Budget(limit)
    backup = Backup(brake, HORIZON, drills=0.0, rescue=rescue)
    shield = Shield(
        Known(lambda states, actions: np.zeros(len(states))),
        rover.observation_space,
        rover.action_space,
        constraint=constraint,
        backup=backup,
    )
    return Guard(as_vec_env(rover), constraint, shield, None, backup=backup)


def test_an_episode_whose_certificate_was_wrong_is_stopped_with_the_budget_spent():
    rover = Rover(places=[[0.0, 0.0]])  # it stands inside from the beginning
    guard = guard_of(rover, 3.0)
    guard.reset()
    for _ in range(10):
        guard.step(np.zeros((1, 2), dtype=np.float32))
    episodes = guard.recorder.episodes
    assert [episode.cost for episode in episodes] == [3.0] * 3
    assert all(episode.stopped and not episode.violated for episode in episodes)
    assert max(rover.inside) == 3


def test_the_rescue_drives_where_a_certificate_was_wrong_and_nothing_is_certified():
    rover = Rover(places=[[0.0, 0.0]])
    away = np.array([1.0, 0.0], dtype=np.float32)
    guard = guard_of(rover, 30.0, rescue=lambda observations: np.tile(away, (len(observations), 1)))
    guard.reset()
    guard.step(np.zeros((1, 2), dtype=np.float32))
    guard.shield.quantifier.cost = lambda states, actions: np.full(len(states), 99.0)
    guard.recheck()
    _, _, _, infos = guard.step(np.zeros((1, 2), dtype=np.float32))
    assert infos[0]["shield"]["takeover"]
    assert infos[0]["shield"]["action"].tolist() == away.tolist()
