"""Certificates by simulation, against the exact braking distance of a cart."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from safexp import AllOf, Backup, Budget, Calibrated, Instantaneous, Log, Shield, Twin, Within
from safexp.constraints import Constraint
from safexp.quantifiers import Quantifier

PLACES, FORCES = spaces.Box(-9.0, 9.0, (2,), np.float64), spaces.Box(-1.0, 1.0, (1,), np.float64)
BRAKE = Backup(lambda carts: np.clip(-10 * carts[:, 1:], -1.0, 1.0), horizon=40)


def step(states, actions):
    """Place and speed of a cart after a tenth of a second."""
    speed = states[:, 1] + 0.1 * actions[:, 0]
    return np.column_stack([states[:, 0] + 0.1 * speed, speed])


def heavier(states, actions):
    """A cart that brakes worse than the simulator says."""
    return step(states, 0.9 * actions)


def in_the_lane(states, actions, following):
    return (following[:, 0] > 1.0).astype(np.float64)


def shield_with(quantifier: Quantifier, constraint: Constraint, backup: Backup = BRAKE) -> Shield:
    return Shield(quantifier, PLACES, FORCES, constraint=constraint, backup=backup)


def certifies(shield: Shield, state, action) -> bool:
    """Whether all limits on signals are certified, whose costs are half at the limit."""
    measured = np.concatenate([state, state[: shield.quantifier.num_signals]])
    mean, width = shield.quantifier.predict(measured[None], action[None, None])
    return bool((mean + width <= 0.5 + 1e-9).all())


def furthest(state, action, advance=step):
    """The furthest place on the way, simulated by hand."""
    now, place = advance(state[None], action[None]), -np.inf
    for _ in range(BRAKE.horizon + 1):
        place = max(place, now[0, 0])
        now = advance(now, BRAKE.act(now))
    return place


@given(st.floats(-1, 1.5), st.floats(-2, 2), st.floats(-1, 1))
def test_an_action_is_certified_exactly_if_braking_after_it_stays_within_the_limits(place, speed, force):
    state, action = np.array([place, speed]), np.array([force])
    decision = shield_with(Twin(step), Within(0, high=1.0)).filter(state, action)
    assert (not decision.intervened and not decision.takeover) == (furthest(state, action) <= 1.0)


@given(st.floats(-1, 1), st.floats(-2, 2))
def test_costs_are_summed_under_a_budget_and_the_largest_is_taken_under_a_limit(place, speed):
    states, actions = np.array([[place, speed]]), np.array([[[-1.0], [0.3], [1.0]]])
    for constraint, combine in [(Budget(3.0), np.sum), (Instantaneous(0.5), np.max)]:
        quantifier = shield_with(Twin(step, cost=in_the_lane), constraint).quantifier
        mean, width = quantifier.predict(states, actions)
        for found, action in zip(mean[0], actions[0], strict=True):
            costs, now = [], step(states, action[None])
            for _ in range(BRAKE.horizon + 1):
                costs.append(float(now[0, 0] > 1.0))
                now = step(now, BRAKE.act(now))
            assert found == combine(costs)
        assert (width == 0).all()


def test_several_limits_and_options_of_a_backup_are_simulated_too():
    glide = Backup(BRAKE.controller, BRAKE.horizon, hold=(0, 3))
    shield = shield_with(Twin(step), AllOf(Within(0, high=1.0), Within(1, low=-0.5, high=0.5)), glide)
    assert certifies(shield, np.array([0.0, 0.0]), np.array([1.0]))
    assert not certifies(shield, np.array([0.0, 0.6]), np.array([1.0]))


def test_calibration_measures_how_wrong_the_simulator_is():
    rng, rows = np.random.default_rng(0), []
    for episode in range(80):
        state = np.array([0.0, rng.uniform(0, 1)])
        for k in range(60):
            action = rng.uniform(-1, 1, 1) if k < 15 else BRAKE.act(state[None])[0]
            after = heavier(state[None], action[None])[0]
            rows.append((state, action, after, episode))
            state = after
    before, actions, following, episodes = (np.array(part) for part in zip(*rows, strict=True))
    quantifier = Calibrated(Twin(step, width=0.01))
    shield = shield_with(quantifier, Within(0, high=1.0))
    shield.fit(Log(before, actions, episodes=episodes, next_observations=following))
    assert shield.quantifier.scale > 1.5
    tried = rng.uniform([0.0, 0.5], [1.0, 1.0], (300, 2)), rng.uniform(-1, 1, (300, 1))
    passed = [certifies(shield, state, action) for state, action in zip(*tried, strict=True)]
    reached = np.array([furthest(state, action, heavier) for state, action in zip(*tried, strict=True)])
    plain = shield_with(Twin(step), Within(0, high=1.0))
    fooled = [certifies(plain, state, action) for state, action in zip(*tried, strict=True)]
    assert (reached[fooled] > 1.0).any()
    assert any(passed)
    assert not (reached[passed] > 1.0).any()


@pytest.mark.parametrize("answer", [np.nan, np.inf])
def test_a_simulator_without_an_answer_certifies_nothing(answer):
    shield = shield_with(Twin(lambda states, actions: np.full_like(states, answer)), Within(0, high=1.0))
    assert shield.filter(np.zeros(2), np.zeros(1)).takeover


def test_a_function_of_the_wrong_shape_certifies_nothing_and_says_why():
    shield = shield_with(Twin(lambda states, actions: states[:, 0]), Within(0, high=1.0))
    assert shield.filter(np.zeros(2), np.zeros(1)).takeover
    assert "step returned shape" in str(shield.last_failure)


def test_what_cannot_be_simulated_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match=r"give Within\(...\) a function of the observation"):
        shield_with(Twin(step), Within("current", high=1.0))
    with pytest.raises(ValueError, match=r"give Twin\(step, cost="):
        shield_with(Twin(step), Budget(3.0))
    with pytest.raises(ValueError, match="give backup="):
        Shield(Twin(step), PLACES, FORCES, constraint=Within(0, high=1.0))
    with pytest.raises(ValueError, match="at least 0"):
        Twin(step, width=-1.0)
    with pytest.raises(TypeError, match="must be a function"):
        Twin(3)
