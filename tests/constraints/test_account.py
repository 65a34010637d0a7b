"""The account of an episode: nothing may be certified before it is opened, and braking is kept back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import AllOf, Budget, Instantaneous, JointChance, Schedule, StateVisits, Within
from safexp.constraints import Account

EVERYWHERE = np.ones(2, dtype=bool)
PLACES = np.array([[0.0], [3.0]])


def beyond_two(observations):
    return observations[:, 0] > 2


def test_nothing_is_allowed_before_an_episode_is_opened():
    account = Account(AllOf(Budget(4.0), Instantaneous(0.5)), 2)
    np.testing.assert_array_equal(account.thresholds, np.full((2, 2), -np.inf))
    account.open(~EVERYWHERE, PLACES)
    np.testing.assert_array_equal(account.thresholds, np.full((2, 2), -np.inf))


def test_what_braking_may_cost_is_kept_back_from_every_threshold():
    account = Account(AllOf(Budget(4.0), Instantaneous(0.5)), 2, braking=0.25)
    account.open(EVERYWHERE, PLACES)
    np.testing.assert_allclose(account.thresholds, [[4.0, 0.5]] * 2)
    np.testing.assert_allclose(account.certifiable, [[3.75, 0.25]] * 2)
    assert Account(Budget(4.0), 1).braking == 0.0


@pytest.mark.parametrize("braking", [-0.1, np.nan, np.inf])
def test_braking_is_finite_and_not_negative(braking):
    with pytest.raises(ValueError, match="must be finite and at least 0"):
        Account(Budget(4.0), 1, braking)


def test_an_episode_is_opened_by_itself_at_its_own_observation():
    account = Account(StateVisits(3.0, beyond_two), 2)
    account.open(EVERYWHERE, PLACES)
    np.testing.assert_allclose(account.thresholds, [3.0, 2.0])
    account.charge(np.array([1.0, 1.0]), np.ones(2))
    np.testing.assert_allclose(account.thresholds, [2.0, 1.0])
    account.open(np.array([False, True]), PLACES[::-1])
    np.testing.assert_allclose(account.thresholds, [2.0, 3.0])


def test_a_risk_is_charged_by_its_bound_and_a_budget_by_its_cost():
    account = Account(AllOf(Budget(4.0), JointChance(0.5, beyond_two)), 2)
    account.open(EVERYWHERE, np.zeros((2, 1)))
    account.charge(np.array([[1.0, 0.0], [0.25, 0.0]]), np.array([[1.0, 0.125], [1.0, 0.25]]))
    np.testing.assert_allclose(account.thresholds, [[3.0, 0.375], [3.75, 0.25]])


def test_thresholds_that_were_handed_out_do_not_change():
    account = Account(Budget(4.0), 2)
    account.open(EVERYWHERE, PLACES)
    before = account.thresholds
    account.charge(np.ones(2), np.ones(2))
    account.open(np.array([True, False]), PLACES)
    np.testing.assert_allclose(before, [4.0, 4.0])
    np.testing.assert_allclose(account.thresholds, [4.0, 3.0])


def test_an_episode_that_has_not_begun_may_spend_nothing():
    account = Account(Budget(3.0), 2)
    account.open(np.array([True, False]), np.zeros((2, 1)))
    np.testing.assert_allclose(account.thresholds, [3.0, -np.inf])


LIMITS = [
    Instantaneous(3.0, cost_max=10.0),
    Schedule([6.0, 4.0, 5.0], cost_max=10.0),
    Budget(12.0, cost_max=10.0),
    Budget(8.0, 0.8, cost_max=10.0),
    Within("heat", high=5.0),
    Within("heat", low={0: 0.0, 3: 2.0}, high=9.0),
    Within(("heat", "speed"), low=[0.0, 1.0], high=[9.0, 8.0]),
    AllOf(Budget(12.0, cost_max=10.0), Within("heat", high=5.0)),
]


@pytest.mark.parametrize("constraint", LIMITS, ids=str)
@given(values=st.lists(st.integers(0, 40), min_size=24, max_size=24))
def test_a_step_is_more_than_was_allowed_where_the_constraints_own_judge_says_so(constraint, values):
    """The judge knows nothing of thresholds: it is given all the signals of an episode, in the user's units."""
    sizes = (6,) if constraint.num_costs == 1 else (6, constraint.num_costs)
    signals = np.resize(np.array(values) / 4, sizes)
    account = Account(constraint, 1)
    account.open(np.ones(1, dtype=bool), np.zeros((1, 1)))
    broken = []
    for signal in signals:
        costs = constraint.normalise(signal[None])
        broken.append(bool(account.exceeded(costs)[0]))
        account.charge(costs, np.ones_like(costs))
    first = constraint.first_signal(np.zeros((1, 1)))[0]
    verdicts = [constraint.violated(first, signals[: steps + 1]) for steps in range(len(signals))]
    assert np.maximum.accumulate(broken).tolist() == verdicts


def test_neither_an_unknown_cost_nor_a_cost_of_zero_is_more_than_was_allowed():
    account = Account(Budget(1.0), 3)
    account.open(np.ones(3, dtype=bool), np.zeros((3, 1)))
    account.charge(np.full(3, 2.0), np.ones(3))
    assert account.exceeded(np.array([np.nan, 0.0, 0.01])).tolist() == [False, False, True]


def test_what_braking_may_cost_is_allowed():
    account = Account(Instantaneous(0.5), 1, braking=0.2)
    account.open(np.ones(1, dtype=bool), np.zeros((1, 1)))
    assert not account.exceeded(np.array([0.5]))[0]
