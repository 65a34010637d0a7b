"""The judge finds no violation in an episode that kept its thresholds, however long, and every one that did not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from safexp.constraints import Account, Budget, Instantaneous, Margin, Schedule, StateVisits

EVERYWHERE = np.ones(1, dtype=bool)
discounts = st.one_of(st.sampled_from([1.0, 0.999, 0.99, 0.9, 0.5]), st.floats(0.05, 1.0))
lengths = st.integers(1, 10_000)
limits = st.floats(0.0, 100.0)
seeds = st.integers(0, 2**32 - 1)


def unsafe(observations):
    return observations[:, 0] > 0


def spend_all(constraint, length, seed, levels=None):
    """The costs (T,) of an episode that takes whatever its thresholds allow, or the largest level that they do."""
    rng = np.random.default_rng(seed)
    account = Account(constraint, 1)
    account.open(EVERYWHERE, np.zeros((1, 1)))
    costs = np.zeros(length)
    for step, wanted in enumerate(rng.random(length)):
        allowed = min(float(account.thresholds[0]), 1.0)
        if levels:
            costs[step] = float(wanted < 0.5 and allowed >= 1.0)
        else:
            costs[step] = max(allowed, 0.0) if wanted < 0.5 else max(allowed, 0.0) * wanted
        account.charge(costs[step : step + 1], np.ones(1))
    return costs


@settings(max_examples=60)
@given(limits, discounts, st.sampled_from([1.0, 7.0, 1e-3]), lengths, seeds)
@example(3.0, 0.99, 1.0, 5000, 0)
@example(3.0, 0.9, 1.0, 500, 1)
def test_a_budget_that_was_spent_in_full_is_kept(limit, discount, cost_max, length, seed):
    constraint = Budget(limit * cost_max, discount, cost_max=cost_max)
    assert not constraint.violated(np.zeros(()), cost_max * spend_all(constraint, length, seed))


@settings(max_examples=40)
@given(limits, discounts, lengths, seeds)
def test_visits_that_were_all_allowed_are_kept(limit, discount, length, seed):
    constraint = StateVisits(limit, unsafe, discount)
    visits = spend_all(constraint, length, seed, levels=True)
    first = constraint.first_signal(np.zeros((1, 1)))[0]
    assert not constraint.violated(first, visits)


@given(limits, discounts, st.integers(1, 200))
def test_a_budget_that_was_overspent_by_more_than_rounding_is_broken(limit, discount, length):
    costs = np.zeros(length)
    costs[0] = limit + 1e-5 * max(limit, 1.0)
    assert Budget(limit, discount).violated(np.zeros(()), costs)
    assert StateVisits(limit, unsafe, discount).violated(np.array(costs[0]), np.zeros(length))


@given(st.floats(0.0, 1.0), st.sampled_from([1.0, 7.0, 1e-3]))
def test_a_limit_on_every_step_is_broken_by_more_than_rounding(limit, cost_max):
    for excess, broken in ((1e-9, False), (1e-5, True)):
        signals = np.array([0.0, limit + excess]) * cost_max
        assert Instantaneous(limit * cost_max, cost_max=cost_max).violated(np.zeros(()), signals) is broken
        schedule = Schedule([0.0, limit * cost_max], cost_max=cost_max)
        assert schedule.violated(np.zeros(()), signals) is broken
        assert Margin(cost_max).violated(np.zeros(()), np.array([1.0, -2 * excess * cost_max])) is broken


def test_what_is_no_number_is_a_violation():
    signals = np.array([0.0, np.nan, 0.0])
    for constraint in (Budget(2.0), Instantaneous(0.5), Schedule([0.5]), Margin(), StateVisits(1.0, unsafe)):
        assert constraint.violated(np.zeros(()), signals)


@pytest.mark.parametrize("limit", [100.0, 1e6])
def test_rounding_is_forgiven_in_proportion_to_a_large_limit(limit):
    for share, broken in ((5e-8, False), (2e-7, True)):
        assert Budget(limit).violated(np.zeros(()), np.array([limit, share * limit])) is broken
