"""What the paper's Section 5 states wrongly, each shown by a case; docs/explanation/errata.md lists them all."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.quantifiers.glm import GLM, quasi_likelihood
from safexp.quantifiers.links import IDENTITY
from safexp.studies.finite.glm_mase import GLMMASE, GLMMASESettings, theorem_level
from safexp.studies.finite.linear_mdp import STOP, LinearCMDP, random_linear_cmdp


def chain(thresholds: list[float], *, cost: float = 0.8) -> LinearCMDP:
    """State 0 leads to state 1 under both actions; state 1 stays. Pairs are one-hot features; (1, ·) costs `cost`."""
    features = np.eye(4).reshape(2, 2, 4)
    measures = np.tile([0.0, 1.0], (4, 1))
    weights = np.array([0.1, 0.1, cost / 2.0, cost / 2.0])
    return LinearCMDP(features, measures, np.full(4, 0.5), weights, np.array(thresholds))


def test_erratum_3_a_stop_is_due_where_the_next_step_has_no_certified_action() -> None:
    """Algorithm 2 tests A⁺_h, which was not empty since a_h was taken from it; it must test A⁺_{h+1}."""
    learner = GLMMASE(chain([0.2, 0.2]), GLMMASESettings(), np.random.default_rng(0))
    episode = learner.episode()
    assert episode.policy[0, 0] != STOP
    assert episode.policy[1, 1] == STOP
    assert episode.stopped
    assert len(episode.actions) == 1


def test_erratum_3_nothing_is_tested_after_the_last_step() -> None:
    """With H = 1 the same next state ends the episode by itself, so there is no stop and no penalty."""
    episode = GLMMASE(chain([0.2]), GLMMASESettings(), np.random.default_rng(0)).episode()
    assert not episode.stopped
    assert len(episode.actions) == 1


def test_erratum_3_an_episode_that_may_not_even_begin_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no action is certified in the first state"):
        GLMMASE(chain([0.05, 0.05]), GLMMASESettings(), np.random.default_rng(0)).episode()


def test_erratum_4_the_largest_value_of_undiscounted_rewards_is_the_horizon() -> None:
    """V_max = (1 - γ^H)/(1 - γ) is 0/0 at γ = 1, and values count discounts from their own step on."""
    problem = chain([0.9, 0.9, 0.9])
    assert problem.value_caps.tolist() == [3.0, 2.0, 1.0, 0.0]
    halved = LinearCMDP(
        problem.features,
        problem.measures,
        problem.reward_weights,
        problem.cost_weights,
        problem.thresholds,
        discount=0.5,
    )
    assert halved.value_caps.tolist() == [1.75, 1.5, 1.0, 0.0]
    assert halved.policy_value(np.zeros((3, 2), dtype=int)) == pytest.approx(0.5 * 1.75)


def test_erratum_5_the_gram_matrix_holds_outer_products_of_past_episodes() -> None:
    """Λ_{h,t} = I + Σ_{τ<t} φφᵀ: a d x d matrix, without the transpose the sum is a number; the paper sums τ ≤ t."""
    problem = random_linear_cmdp(np.random.default_rng(0))
    learner = GLMMASE(problem, GLMMASESettings(), np.random.default_rng(0))
    before = learner.quantifier.gram.copy()
    episode = learner.episode()
    phi = problem.features[episode.states[:-1], episode.actions]
    np.testing.assert_allclose(learner.quantifier.gram, before + phi.T @ phi, atol=1e-12)
    np.testing.assert_array_equal(learner.episode().policy.shape, episode.policy.shape)


def test_erratum_5_targets_are_discounted_penalised_and_maximised_over_certified_actions() -> None:
    """From state 0 everything leads to state 1, where nothing is certified: Q̂_1 must tend to the penalty, not to r."""
    problem = chain([0.2, 0.2])
    settings = GLMMASESettings(penalty=0.5, optimism=0.0, value_regulariser=1e-9)
    learner = GLMMASE(problem, settings, np.random.default_rng(0))
    for _ in range(5):
        episode = learner.episode()
        assert episode.stopped
    certified, _, width = learner.judge()
    values = learner.optimistic_values(certified, width)
    taken = int(episode.actions[0])
    # Γ in state 1 is still the prior's √λ·‖φ‖/√λ = 1, so the penalty is -c = -0.5: no reward, no discount, no max.
    assert values[0, 0, taken] == pytest.approx(-0.5, abs=1e-6)


def test_erratum_7_the_smallest_eigenvalue_must_reach_the_square() -> None:
    """‖φ‖_{Λ⁻¹} ≤ λ_min^{-1/2}: at λ_min = 2C/ζ, the paper's level, Γ is far above ζ/2; at (2C/ζ)² it is ζ/2."""
    margin = 0.1

    def fresh() -> GLM:
        return GLM(lambda states, actions: states, 2, regulariser=1.0)

    model = fresh()
    direction = np.array([[1.0, 0.0]])
    paper_level = 2.0 * model.scale / margin
    for level, expected in ((paper_level, model.scale / np.sqrt(paper_level)), (paper_level**2, margin / 2.0)):
        visits = round(level) - 1
        model = fresh()
        model.learn(np.tile(np.eye(2), (visits, 1)), np.zeros(2 * visits))
        assert np.linalg.eigvalsh(model.gram)[0] == pytest.approx(level)
        assert model.bounds(direction)[1][0] == pytest.approx(expected)
    assert model.scale / np.sqrt(paper_level) > 4.0 * margin / 2.0
    assert theorem_level(model, margin) == pytest.approx(paper_level**2)


def test_erratum_8_a_bound_for_one_step_fails_somewhere_in_a_run() -> None:
    """At each single step an interval of level 1 - δ misses with probability δ, but over a run far more often.

    200 runs of 400 steps, one-dimensional means of unit noise, δ = 0.05: the interval that is right at any one step
    misses somewhere in a third of the runs, the self-normalised one of `GLM` in at most δ of them.
    """
    delta, steps, runs = 0.05, 400, 200
    noise = np.random.default_rng(0).normal(size=(runs, steps))
    count = np.arange(1, steps + 1)
    error = np.abs(noise.cumsum(axis=1)) / (1.0 + count)
    pointwise = 1.96 / np.sqrt(count)
    uniform = np.sqrt(2.0 * np.log(1.0 / delta) + np.log(1.0 + count)) / np.sqrt(1.0 + count)
    assert np.mean(error > pointwise) == pytest.approx(delta, abs=0.01)
    assert np.mean(np.any(error > pointwise, axis=1)) > 5 * delta
    assert np.mean(np.any(error > uniform, axis=1)) <= delta


def test_erratum_12_values_beyond_one_need_rescaled_targets() -> None:
    """f(⟨φ, θ⟩) with ‖φ‖, ‖θ‖ ≤ 1 is at most 1, but Q goes up to V_max = H: the unit ball cannot fit it."""
    problem = random_linear_cmdp(np.random.default_rng(0))
    phi = problem.features.reshape(-1, problem.features.shape[2])
    # The best policy's weights at the first step, by dynamic programming over all actions.
    value = np.zeros(len(problem.features))
    for _ in range(problem.horizon):
        weights = problem.reward_weights + problem.measures @ value
        value = (problem.features @ weights).max(axis=1)
    targets = phi @ weights
    assert np.linalg.norm(weights) > 1.0
    raw = quasi_likelihood(phi, np.ones(len(phi)), targets, IDENTITY, 1e-9, np.zeros(len(weights)))
    assert np.abs(phi @ raw - targets).max() > 0.5
    scale = problem.value_caps[0] * np.sqrt(len(weights))
    fitted = quasi_likelihood(phi, np.ones(len(phi)), targets / scale, IDENTITY, 1e-9, np.zeros(len(weights)))
    np.testing.assert_allclose(scale * (phi @ fitted), targets, atol=1e-6)


def test_replacing_the_reward_at_a_stop_leaves_the_linear_class() -> None:
    """E[r̂ + ...] = r(s,a)·(1 - P(stop)) + ...: a product of two linear functions, so Assumption 5.3 fails for r̂.

    Not among the paper's slips of the pen: the modified reward itself is quadratic in φ wherever a stop is possible.
    """
    problem = random_linear_cmdp(np.random.default_rng(0))
    phi = problem.features.reshape(-1, problem.features.shape[2])
    stops = np.zeros(len(problem.features))
    stops[::3] = 1.0
    expected = problem.reward * (1.0 - problem.transitions @ stops) - problem.transitions @ stops
    residual = np.linalg.lstsq(phi, expected.ravel(), rcond=None)[1]
    assert residual[0] > 1e-3
    added = problem.reward - problem.transitions @ stops
    assert np.linalg.lstsq(phi, added.ravel(), rcond=None)[1][0] < 1e-20
