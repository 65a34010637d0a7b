from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp.quantifiers.links import IDENTITY, LOGISTIC, Link
from safexp.studies.finite.linear_mdp import STOP, LinearCMDP, random_linear_cmdp

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=30, deadline=None)
@given(seeds, st.sampled_from([(IDENTITY, 0.1), (LOGISTIC, 0.02)]))
def test_a_random_problem_keeps_every_assumption(seed: int, kind: tuple[Link, float]) -> None:
    link, margin = kind
    problem = random_linear_cmdp(np.random.default_rng(seed), link=link, margin=margin, threshold_spread=margin / 2)
    assert np.all(np.linalg.norm(problem.features, axis=2) <= 1.0)
    assert np.linalg.norm(problem.cost_weights) <= 1.0
    np.testing.assert_allclose(problem.transitions.sum(axis=2), 1.0)
    assert np.all(problem.transitions >= 0.0)
    assert np.all((problem.reward >= 0.0) & (problem.reward <= 1.0))
    assert np.all((problem.cost >= 0.0) & (problem.cost <= 1.0))
    assert problem.safe.any(axis=2).all()
    assert problem.margin >= margin - 1e-12
    assert problem.unconstrained_value >= problem.optimal_value


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_every_bellman_backup_is_linear_in_the_features(seed: int) -> None:
    """Assumption 5.3: r + γ·E[V(s')] = ⟨φ, w⟩ for any V at all, hence for every member of the optimistic class."""
    generator = np.random.default_rng(seed)
    problem = random_linear_cmdp(generator, states=8, actions=3)
    value = generator.normal(size=8)
    backup = problem.reward + problem.transitions @ value
    weights = problem.reward_weights + problem.measures @ value
    np.testing.assert_allclose(backup, problem.features @ weights, atol=1e-12)


def small_problem() -> LinearCMDP:
    """Two states and actions, one-hot features: staying pays 0.1 or 0.5, switching 0.2 or, at a cost of 0.9, 1.0."""
    features = np.eye(4).reshape(2, 2, 4)
    measures = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    return LinearCMDP(
        features,
        measures,
        reward_weights=np.array([0.1, 0.2, 0.5, 1.0]),
        cost_weights=np.array([0.1, 0.2, 0.3, 0.9]),
        thresholds=np.full(3, 0.4),
    )


def test_the_optimum_by_hand() -> None:
    problem = small_problem()
    assert problem.optimal_value == pytest.approx(0.2 + 0.5 + 0.5)
    assert problem.unconstrained_value == pytest.approx(0.2 + 0.5 + 1.0)
    assert problem.margin == pytest.approx(0.1)
    assert problem.value_caps.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_values_of_policies_by_hand() -> None:
    problem = small_problem()
    always_stay = np.zeros((3, 2), dtype=int)
    assert problem.policy_value(always_stay) == pytest.approx(0.3)
    stopping = np.array([[1, 0], [0, STOP], [0, 0]])
    assert problem.policy_value(stopping) == pytest.approx(0.2)


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_no_safe_policy_beats_the_optimum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    problem = random_linear_cmdp(generator, states=6, actions=3, horizon=4)
    for _ in range(20):
        policy = np.where(problem.safe, generator.random(problem.safe.shape), -1.0).argmax(axis=2)
        assert problem.policy_value(policy) <= problem.optimal_value + 1e-12


def test_a_margin_that_nothing_can_keep_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no action can be 0\.9 below: lower the margin"):
        random_linear_cmdp(np.random.default_rng(0), margin=0.9)
    with pytest.raises(ValueError, match="at least 2, 2, 2 and 1 are needed"):
        random_linear_cmdp(np.random.default_rng(0), states=1)
