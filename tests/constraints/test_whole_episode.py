"""Limits on a whole episode: thresholds by hand, and how they are judged."""

from __future__ import annotations

import numpy as np

from safexp import Budget, JointChance, StateVisits
from safexp.constraints import TOLERANCE
from support.steps import OBSERVATIONS, step, thresholds, unsafe


def test_budget_is_what_remains():
    found = thresholds(Budget(2.0), [[0.5, 1.0], [0.25, 1.0]])
    np.testing.assert_allclose(found, [[2.0, 2.0], [1.5, 1.0], [1.25, 0.0]], atol=2 * TOLERANCE)


def test_discounted_budget_follows_the_eta_recursion():
    discount, costs = 0.9, np.array([0.5, 0.2, 0.9, 0.0, 0.3])
    eta = [2.0]
    for cost in costs:
        eta.append((eta[-1] - cost) / discount)
    found = thresholds(Budget(2.0, discount), np.stack([costs, costs], axis=1))
    np.testing.assert_allclose(found[:, 0], eta, rtol=1e-8)


def test_state_visits_charge_the_action_that_leads_there_and_the_first_state():
    constraint = StateVisits(2.0, unsafe=unsafe, discount=0.5)
    np.testing.assert_array_equal(constraint.first_signal(OBSERVATIONS), [0.0, 1.0])
    np.testing.assert_array_equal(constraint.read(step(np.array([[3.0], [0.0]]))), [1.0, 0.0])
    # The first state has weight 1, the state that the first action leads to has weight γ.
    np.testing.assert_allclose(constraint.threshold(constraint.start(OBSERVATIONS)), [4.0, 2.0], atol=1e-8)
    assert not constraint.violated(np.array(1.0), np.array([1.0, 1.0]))
    assert StateVisits(1.7, unsafe, 0.5).violated(np.array(1.0), np.array([1.0, 1.0]))


def test_joint_chance_spends_the_bound_and_not_what_happened():
    found = thresholds(JointChance(0.3, unsafe), costs=[[1.0, 0.0]], bounds=[[0.1, 0.2]])
    np.testing.assert_allclose(found, [[0.3, -0.7], [0.2, -0.9]], atol=1e-8)


def test_cost_max_scales_physical_units():
    constraint = Budget(20.0, cost_max=5.0)
    costs = constraint.normalise(constraint.read(step(cost=[5.0, 1.0])))
    np.testing.assert_allclose(costs, [1.0, 0.2])
    np.testing.assert_allclose(thresholds(constraint, [costs])[1], [3.0, 3.8], atol=1e-8)
    assert not constraint.violated(np.array(0.0), np.array([5.0] * 4))
    assert constraint.violated(np.array(0.0), np.array([5.0] * 4 + [0.1]))


def test_a_budget_of_zero_allows_costs_of_zero_only():
    constraint = Budget(0.0)
    (threshold, _) = constraint.threshold(constraint.start(OBSERVATIONS))
    assert 0.0 <= threshold <= TOLERANCE
    assert not constraint.violated(np.array(0.0), np.zeros(5))
    assert constraint.violated(np.array(0.0), np.array([0.0, 1e-6]))


def test_a_risk_of_one_constrains_nothing():
    assert np.all(thresholds(JointChance(1.0, unsafe), np.ones((3, 2))) >= 1)


def test_a_strongly_discounted_budget_does_not_overflow():
    constraint = Budget(20.0, discount=0.5)
    state = constraint.start(OBSERVATIONS)
    for _ in range(2000):
        state = constraint.update(state, np.ones(len(state)), np.ones(len(state)))
    assert (constraint.threshold(state) > 1).all()
