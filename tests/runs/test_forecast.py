"""Forecasts of look-ahead certificates: where the robot will be, and the course of limited signals."""

from __future__ import annotations

from functools import cache

import numpy as np

from safexp import Backup, Budget, Calibrated, Obstacles, PlanarPath, Rollout, Shield, SparseGP, Within
from safexp.runs.forecast import forecast
from safexp.tasks.scene import Way
from support import cart, rover


@cache
def cart_shield() -> Shield:
    env = cart.Cart()
    shield = Shield(
        Calibrated(Rollout(degree=1)),
        env.observation_space,
        env.action_space,
        constraint=Within(0, low=-1.0, high=0.9),
        backup=Backup(cart.brake, 20),
    )
    shield.fit(cart.cautious_log())
    return shield


def test_the_course_of_a_signal_is_that_of_the_action_and_then_the_backup():
    shield = cart_shield()
    state = shield.states(np.array([[0.1, 0.3]]))[0]
    found = forecast(shield, state, np.array([0.2], dtype=np.float32))
    assert isinstance(found, tuple) and not isinstance(found, Way)
    (signal,) = found
    states, true = cart.advance(state[None, :2], np.array([[0.2]])), []
    for _ in range(21):
        true.append(states[0, 0])
        states = cart.advance(states, cart.brake(states))
    np.testing.assert_allclose(signal.values, true, atol=1e-3)
    assert (np.abs(signal.values - true) <= signal.widths).all()
    assert (signal.name, signal.low, signal.high) == ("observation[0]", -1.0, 0.9)


def test_widths_are_the_calibrated_ones():
    shield = cart_shield()
    state = shield.states(np.array([[0.0, 0.2]]))[0]
    (signal,) = forecast(shield, state, np.zeros(1))
    mean, width = shield.quantifier.interval(state[None], np.zeros((1, 1, 1)))
    worst = np.argmax(signal.values + signal.widths)
    np.testing.assert_allclose([signal.values[worst], signal.widths[worst]], [mean[0, 0, 0], width[0, 0, 0]])


def test_an_action_beyond_the_data_has_no_forecast_and_nor_has_a_model_of_one_step():
    shield = cart_shield()
    assert forecast(shield, shield.states(np.array([[0.0, 40.0]]))[0], np.zeros(1)) is None
    env = cart.Cart()
    one_step = Shield(SparseGP(), env.observation_space, env.action_space, constraint=Within(0, high=1.0))
    assert forecast(one_step, one_step.states(np.zeros((1, 2)))[0], np.zeros(1)) is None
    unfitted = Shield(
        Rollout(), env.observation_space, env.action_space, constraint=Within(0, high=1.0), backup=Backup(cart.brake, 5)
    )
    assert forecast(unfitted, unfitted.states(np.zeros((1, 2)))[0], np.zeros(1)) is None


def test_a_robots_way_begins_where_it_is_and_leads_along_its_heading():
    env = rover.Rover()
    shield = Shield(
        PlanarPath(),
        env.observation_space,
        env.action_space,
        constraint=Budget(0.0, among=Obstacles(2, rover.RADIUS)),
        backup=Backup(rover.brake, rover.HORIZON),
    )
    shield.fit(rover.drill_log())
    pose = [1.0, -2.0, np.pi / 2]
    state = shield.states(np.array([[0.0, 0.1, 0.0]]), np.array([[*pose, *rover.PLACES.ravel()]]))[0]
    way = forecast(shield, state, np.array([0.3, 0.0], dtype=np.float32))
    assert isinstance(way, Way)
    np.testing.assert_array_equal(way.places[0], pose[:2])
    assert way.widths[0] == 0.0 and (way.widths[1:] > 0).all()
    end = way.places[-1]
    assert end[1] > -1.9 and abs(end[0] - 1.0) < 0.05
