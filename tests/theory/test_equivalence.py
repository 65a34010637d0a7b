"""Theorem 3.1: "every cost is at most its threshold" is, or implies, the constraint as it was stated.

Equivalent for `Budget`, `Instantaneous` and `Schedule`; sufficient for `StateVisits` and `JointChance`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Constraint, Instantaneous, JointChance, Known, Schedule, StateVisits
from safexp.constraints import TOLERANCE
from safexp.constraints.base import JUDGED
from safexp.envs.guard import Guard
from support.finite_mdp import FiniteEnv, FiniteMDP
from support.unsafe_visits import (
    UNSAFE,
    is_unsafe,
    most_visits,
    possible_visit,
    random_chain,
    section_6_threshold,
    within_thresholds,
)

examples = settings(derandomize=True, max_examples=200, deadline=None, database=None)
units = st.sampled_from([1.0, 2.5])
fractions = st.one_of(st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 1.0]), st.floats(0, 1))
sequences = st.lists(fractions, min_size=1, max_size=12)
discounts = st.one_of(st.just(1.0), st.floats(0.3, 1.0))


def discounted(costs: list[float], discount: float, first_power: int = 0) -> Fraction:
    """Σ γʰ g_h without rounding, the first cost with this power of γ."""
    return sum((Fraction(cost) * Fraction(discount) ** (h + first_power) for h, cost in enumerate(costs)), Fraction(0))


def assume_clear(excess: Fraction) -> bool:
    """Whether a limit is exceeded; by less than the judge's tolerance, shield and judge may differ."""
    assume(not 0 < excess <= 10 * JUDGED)
    return excess > 0


@examples
@given(sequences, st.floats(0, 3), discounts, units)
def test_budget_thresholds_are_equivalent_to_the_discounted_sum(
    costs: list[float], limit: float, discount: float, unit: float
) -> None:
    exceeded = assume_clear(discounted(costs, discount) - Fraction(limit))
    constraint = Budget(limit * unit, discount, cost_max=unit)
    assert within_thresholds(constraint, costs) is not exceeded
    assert constraint.violated(np.zeros(()), np.array(costs) * unit) is exceeded


@examples
@given(sequences, st.floats(0, 1.2), units)
def test_instantaneous_thresholds_are_equivalent_to_the_largest_cost(
    costs: list[float], limit: float, unit: float
) -> None:
    exceeded = assume_clear(Fraction(max(costs)) - Fraction(limit))
    constraint = Instantaneous(limit * unit, cost_max=unit)
    assert within_thresholds(constraint, costs) is not exceeded
    assert constraint.violated(np.zeros(()), np.array(costs) * unit) is exceeded


@examples
@given(sequences, st.lists(st.floats(0, 1.2), min_size=1, max_size=12), units)
def test_schedule_thresholds_are_equivalent_to_the_limits_of_each_step(
    costs: list[float], limits: list[float], unit: float
) -> None:
    held = limits + limits[-1:] * len(costs)
    exceeded = max(assume_clear(Fraction(cost) - Fraction(held[h])) for h, cost in enumerate(costs))
    constraint = Schedule(np.array(limits) * unit, cost_max=unit)
    assert within_thresholds(constraint, costs) is not exceeded
    assert constraint.violated(np.zeros(()), np.array(costs) * unit) is exceeded


@examples
@given(st.booleans(), st.lists(st.booleans(), min_size=1, max_size=12), st.floats(0, 3), discounts)
def test_state_visit_thresholds_are_equivalent_to_the_sum_on_the_path(
    first: bool, visits: list[bool], limit: float, discount: float
) -> None:
    indicators = [float(visit) for visit in [first, *visits]]
    exceeded = assume_clear(discounted(indicators, discount) - Fraction(limit))
    constraint = StateVisits(limit, is_unsafe, discount)
    assert within_thresholds(constraint, indicators[1:], first=UNSAFE if first else 0) is not exceeded
    assert constraint.violated(np.array(indicators[0]), np.array(indicators[1:])) is exceeded


@examples
@given(st.lists(st.tuples(st.floats(0, 0.2), st.floats(1, 2), st.booleans()), min_size=1, max_size=12), st.floats(0, 1))
def test_joint_chance_thresholds_imply_the_probability_of_any_visit(
    steps: list[tuple[float, float, bool]], risk: float
) -> None:
    risks = np.array([step[0] for step in steps])
    bounds = risks * [step[1] for step in steps]
    outcomes = [float(step[2]) for step in steps]
    constraint = JointChance(risk, is_unsafe)
    assume(within_thresholds(constraint, outcomes, bounds))
    assert 1 - np.prod(1 - risks) <= risk + 2 * TOLERANCE


@examples
@given(sequences, st.floats(0.01, 1), st.floats(0.3, 0.99))
def test_erratum_1_counting_from_one_starts_at_the_limit_over_the_discount(
    costs: list[float], limit: float, discount: float
) -> None:
    exceeded = assume_clear((discounted(costs, discount, first_power=1) - Fraction(limit)) / Fraction(discount))
    assert within_thresholds(Budget(limit / discount, discount), costs) is not exceeded


@examples
@given(sequences, st.floats(0.01, 0.5), st.floats(0.3, 0.9))
def test_erratum_2_section_6_is_too_lax_at_first(costs: list[float], limit: float, discount: float) -> None:
    first = min(limit / discount, 1.0)
    assume(first > limit + 1e-6)
    assert first <= section_6_threshold([], limit, discount)
    assert not within_thresholds(Budget(limit, discount), [first, *costs])


@examples
@given(st.integers(2, 12), st.floats(0.01, 0.5), st.floats(0.3, 0.9))
def test_erratum_2_section_6_is_too_strict_later(unspent: int, limit: float, discount: float) -> None:
    last = min(limit / discount**unspent, 1.0)
    assume(last > limit / discount + 1e-6)
    assert last > section_6_threshold([0.0] * unspent, limit, discount)
    assert within_thresholds(Budget(limit, discount), [0.0] * unspent + [last])


@pytest.mark.parametrize("factor", [1.0, 1.5], ids=["exact risks", "over-estimated risks"])
def test_no_policy_behind_a_joint_chance_shield_exceeds_the_risk(factor: float) -> None:
    rng = np.random.default_rng(7)
    constraint = JointChance(0.2, is_unsafe)
    chains = [random_chain(rng, horizon=4) for _ in range(12)]
    worst = [
        most_visits(mdp, constraint, mdp.shield(mdp.quantifier(factor * mdp.costs)), count_first_only=True)
        for mdp in chains
    ]
    assert max(worst) <= 0.2 + 2 * TOLERANCE
    assert max(worst) > 0.1


def test_a_policy_behind_understated_risks_can_exceed_the_risk() -> None:
    rng = np.random.default_rng(7)
    constraint = JointChance(0.2, is_unsafe)
    chains = [random_chain(rng, horizon=4) for _ in range(12)]
    worst = [
        most_visits(mdp, constraint, mdp.shield(mdp.quantifier(0.3 * mdp.costs)), count_first_only=True)
        for mdp in chains
    ]
    assert max(worst) > 0.25


@pytest.mark.parametrize("discount", [1.0, 0.7])
def test_no_policy_behind_a_state_visits_shield_exceeds_the_expectation(discount: float) -> None:
    rng = np.random.default_rng(8)
    limit = 1.0 if discount == 1.0 else 0.6
    constraint = StateVisits(limit, is_unsafe, discount)
    chains = [random_chain(rng, horizon=4) for _ in range(12)]
    worst = [most_visits(mdp, constraint, mdp.shield(possible_visit(mdp)), discount) for mdp in chains]
    assert 0 < max(worst) <= limit + 2 * TOLERANCE


def test_state_visits_need_a_bound_on_the_realised_visit_not_on_its_probability() -> None:
    rng = np.random.default_rng(8)
    constraint = StateVisits(0.2, is_unsafe)
    chains = [random_chain(rng, horizon=4) for _ in range(12)]
    assert max(most_visits(mdp, constraint, mdp.shield(mdp.quantifier())) for mdp in chains) > 0.25


def simulate(mdp: FiniteMDP, constraint: Constraint, quantifier: Known, seed: int) -> list[list[int]]:
    """Ten paths of every environment, of a policy behind the guard that takes the riskiest action it is offered."""
    num_envs = 40
    envs = [FiniteEnv(mdp, seed=num_envs * seed + i) for i in range(num_envs)]
    venv = DummyVecEnv([lambda env=env: env for env in envs])
    guard = Guard(venv, constraint, mdp.shield(quantifier), penalty=None, show_threshold=False)
    observations = guard.reset()
    for _ in range(10 * mdp.horizon):
        riskiest = np.where(guard.action_masks(), mdp.costs[observations], -1.0).argmax(axis=1)
        observations = guard.step(riskiest)[0]
    return [path for env in envs for path in env.paths[:10]]


def visit_rate(factor: float) -> tuple[int, int]:
    """How many of how many simulated episodes, over several chains, visit the unsafe state."""
    rng = np.random.default_rng(7)
    paths: list[list[int]] = []
    for seed in range(4):
        mdp = random_chain(rng, horizon=6)
        paths += simulate(mdp, JointChance(0.2, is_unsafe), mdp.quantifier(factor * mdp.costs), seed)
    return sum(UNSAFE in path for path in paths), len(paths)


@pytest.mark.parametrize("factor", [1.0, 1.5], ids=["exact risks", "over-estimated risks"])
def test_simulated_visits_behind_the_guard_stay_below_the_risk(factor: float) -> None:
    count, total = visit_rate(factor)
    assert count > 0
    assert binomtest(count, total, 0.2, alternative="greater").pvalue > 1e-3


def test_simulated_visits_behind_understated_risks_exceed_it() -> None:
    count, total = visit_rate(0.3)
    assert binomtest(count, total, 0.2, alternative="greater").pvalue < 1e-6


def test_simulated_discounted_visits_stay_below_the_limit_on_every_path() -> None:
    rng = np.random.default_rng(9)
    mdp = random_chain(rng, horizon=6)
    paths = simulate(mdp, StateVisits(0.6, is_unsafe, discount=0.7), possible_visit(mdp), seed=0)
    sums = [float(np.sum(0.7 ** np.arange(len(path)) * is_unsafe(path))) for path in paths]
    assert 0 < max(sums) <= 0.6 + TOLERANCE
    assert np.mean(sums) < 0.5 * max(sums)
