"""A shielded policy at the ends: of its settings, of its thread, of its account."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from gymnasium import spaces

from safexp import Budget, Instantaneous, Known, Shield, ShieldedPolicy, Unknown

STATES = spaces.Box(-1.0, 1.0, (1,), np.float64)
LINE = spaces.Box(-1.0, 1.0, (1,), np.float32)
HERE = np.zeros(1)
BRAKE = np.zeros(1, dtype=np.float32)


def full_speed(observation):
    return np.ones(1, dtype=np.float32)


def around(constraint=None, quantifier=None, **options):
    shield = Shield(quantifier or Unknown(), STATES, LINE)
    policy = ShieldedPolicy(full_speed, shield, constraint or Budget(5.0), BRAKE, **options)
    policy.reset(HERE)
    return policy


@pytest.mark.parametrize("braking", [-0.1, -3.0, np.nan, np.inf])
def test_braking_is_finite_and_not_negative(braking):
    with pytest.raises(ValueError, match=rf"braking={braking} must be finite and at least 0"):
        around(braking=braking)


@pytest.mark.parametrize("deadline", [0.0, -1.0, np.nan, np.inf])
def test_a_deadline_is_a_time(deadline):
    with pytest.raises(ValueError, match=rf"deadline={deadline} must be a number of seconds above 0"):
        around(deadline=deadline)


def test_close_ends_the_thread_of_a_policy_that_is_still_there():
    before = set(threading.enumerate())
    policy = around(deadline=10.0)
    policy.act(HERE)
    (thread,) = set(threading.enumerate()) - before
    assert thread.daemon  # a controller that hangs must not keep the program from ending
    policy.close()
    thread.join(30)
    assert not thread.is_alive()
    assert policy.counts["proposal"] == 1


def test_without_a_deadline_there_is_no_thread_and_nothing_to_close():
    before = set(threading.enumerate())
    policy = around()
    policy.act(HERE)
    assert set(threading.enumerate()) == before
    policy.close()
    assert policy.act(HERE).outcome == "proposal"


@pytest.mark.parametrize(("braking", "allowed"), [(0.0, 5), (2.0, 3), (4.0, 1)])
def test_braking_is_kept_back_from_what_the_shield_may_spend(braking, allowed):
    policy = around(braking=braking)
    answers = []
    for _ in range(6):
        answers.append(policy.act(HERE).outcome)
        policy.observe(1.0)
    assert answers == ["proposal"] * allowed + ["stop"] * (6 - allowed)


def test_what_was_never_observed_counts_as_the_largest_cost():
    policy = around()
    for _ in range(2):
        policy.act(HERE)
    assert policy.threshold == pytest.approx(4.0)
    assert policy.bad_costs == 1
    policy.observe(None)
    assert policy.threshold == pytest.approx(3.0)
    assert policy.bad_costs == 2


def test_a_reset_forgets_the_action_that_waits_for_its_cost():
    policy = around()
    policy.act(HERE)
    policy.reset(HERE)
    policy.act(HERE)
    assert policy.threshold == pytest.approx(5.0)
    assert policy.bad_costs == 0
    policy.reset(HERE)
    with pytest.raises(RuntimeError, match="no action to report on"):
        policy.observe(0.0)


def test_the_last_answer_is_a_candidate_until_the_episode_ends():
    """Only the very action that was run before is cheap enough where no candidate of the fixed set is."""
    special = np.array([0.1234], dtype=np.float32)

    def cost(states, actions):
        return np.where(np.abs(actions[:, 0] - special[0]) < 1e-6, 0.1, 0.9)

    proposals = iter([special, np.ones(1), np.ones(1)])
    shield = Shield(Known(cost), STATES, LINE)
    policy = ShieldedPolicy(lambda seen: next(proposals), shield, Instantaneous(0.5), BRAKE)
    policy.reset(HERE)
    assert policy.act(HERE).outcome == "proposal"
    policy.observe(0.1)
    answer = policy.act(HERE)
    assert answer.outcome == "replacement"
    np.testing.assert_array_equal(answer.action, special)
    policy.reset(HERE)
    assert policy.act(HERE).outcome == "stop"


def test_the_fallback_given_away_is_a_copy():
    policy = around(Instantaneous(0.5))
    policy.act(HERE).action[:] = 1.0
    policy.observe(0.0)
    np.testing.assert_array_equal(policy.act(HERE).action, BRAKE)


@pytest.mark.parametrize(("cost", "bad", "spent"), [(0.0, 0, 0.0), (2.0, 0, 1.0), (2.1, 1, 1.05), (-0.1, 1, 1.0)])
def test_a_cost_at_its_ends(cost, bad, spent):
    policy = around(Budget(10.0, cost_max=2.0))
    policy.act(HERE)
    policy.observe(cost)
    assert policy.bad_costs == bad
    assert policy.threshold == pytest.approx(5.0 - spent)
