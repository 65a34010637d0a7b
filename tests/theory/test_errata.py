"""The paper's errata that the core corrects, one short test each; `tests/theory` shows the longer ones at length."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Instantaneous, JointChance, Penalty, StateVisits
from safexp.envs.guard import Guard
from support.finite_mdp import FiniteEnv, FiniteMDP, paper_c, value
from support.penalised_problems import LARGEST, dead_end_at_the_last_step, gamble
from support.rkhs import paper_factor, runs
from support.unsafe_visits import (
    UNSAFE,
    is_unsafe,
    most_visits,
    possible_visit,
    random_chain,
    section_6_threshold,
    within_thresholds,
)

NO_SIGNAL = np.zeros(())


def test_erratum_1_the_first_cost_is_undiscounted_and_the_first_threshold_is_the_limit() -> None:
    constraint = Budget(0.4, discount=0.5)
    memory = constraint.start(np.zeros(1))
    assert constraint.threshold(memory) == pytest.approx(0.4)
    assert constraint.threshold(constraint.update(memory, np.array([0.3]), np.ones(1))) == pytest.approx(0.2)
    assert not constraint.violated(NO_SIGNAL, np.array([0.3, 0.2]))
    assert constraint.violated(NO_SIGNAL, np.array([0.3, 0.21]))


def test_erratum_1_the_last_cost_counts_too() -> None:
    constraint = Budget(0.4)
    assert within_thresholds(constraint, [0.2, 0.2])
    assert not within_thresholds(constraint, [0.2, 0.2, 0.1])
    assert constraint.violated(NO_SIGNAL, np.array([0.2, 0.2, 0.1]))


def test_erratum_2_the_remaining_budget_is_divided_by_the_discount_to_the_power_of_h() -> None:
    constraint = Budget(0.2, discount=0.5)
    memory = constraint.start(np.zeros(1))
    for power in range(4):
        assert constraint.threshold(memory) == pytest.approx(0.2 / 0.5**power)
        assert section_6_threshold([0.0] * power, 0.2, 0.5) == pytest.approx(0.4)
        memory = constraint.update(memory, np.zeros(1), np.zeros(1))


def test_erratum_2_a_discounted_budget_of_20_is_vacuous_after_160_unspent_steps() -> None:
    def costs(unspent: int) -> np.ndarray:
        return np.repeat([0.0, 1.0], [unspent, 1000 - unspent])

    assert Budget(20, discount=0.99).violated(NO_SIGNAL, costs(160))
    assert not Budget(20, discount=0.99).violated(NO_SIGNAL, costs(161))
    assert within_thresholds(Budget(20, discount=0.99), costs(161))
    assert Budget(20).violated(NO_SIGNAL, costs(161))


def test_erratum_6_the_papers_gp_width_fails_where_the_corrected_one_holds() -> None:
    results = runs("rbf", 0.01, count=10)
    assert all(run.broken_by(paper_factor("rbf", 0.01)) for run in results)
    assert not any(run.broken_by(run.factor) for run in results)


def test_erratum_9_state_visits_are_bounded_on_every_path_not_on_average() -> None:
    mdp = random_chain(np.random.default_rng(0), horizon=1)
    mdp.transitions[0, :, :] = [0.6, 0.0, 0.0, 0.0, 0.4]
    mdp.costs[0] = 0.4
    assert most_visits(mdp, StateVisits(1.0, is_unsafe), mdp.shield(possible_visit(mdp))) == pytest.approx(0.4)
    assert most_visits(mdp, StateVisits(0.5, is_unsafe), mdp.shield(possible_visit(mdp))) == 0.0


def test_erratum_9_discounted_visits_do_not_bound_the_probability_of_any() -> None:
    late_visit = [0.0, 0.0, 1.0]
    assert within_thresholds(StateVisits(0.2, is_unsafe, discount=0.5), late_visit)
    assert not within_thresholds(StateVisits(0.2, is_unsafe), late_visit)
    assert not within_thresholds(JointChance(0.2, is_unsafe), late_visit)


def test_erratum_9_a_chance_constraint_spends_the_bound_and_not_the_outcome() -> None:
    constraint = JointChance(0.2, is_unsafe)
    safe_start, unsafe_start = constraint.start(np.array([0, UNSAFE]))
    assert constraint.threshold(unsafe_start[None])[0] < 0
    for outcome in (0.0, 1.0):
        after = constraint.update(safe_start[None], np.array([outcome]), np.array([0.15]))
        assert constraint.threshold(after) == pytest.approx(0.05)


def test_erratum_10_the_penalty_is_clipped_as_the_width_vanishes() -> None:
    widths = np.array([np.inf, 1.0, 0.5, 0.01, 0.0])
    np.testing.assert_allclose(Penalty(1.0, largest=10.0)(widths), [-1, -1, -2, -10, -10])
    np.testing.assert_allclose(Penalty(1.0, largest=1.0)(widths), -1.0)


@pytest.mark.parametrize(
    ("width", "penalty", "reward"),
    [(0.25, Penalty(1.0, 10.0), -4), (0.0, Penalty(1.0, 10.0), -10), (0.0, Penalty(1.0, 1.0), -1), (0.0, None, 1)],
    ids=["by width", "clipped", "constant", "none"],
)
def test_erratum_10_the_guard_pays_a_stop_that_much(width: float, penalty: Penalty | None, reward: float) -> None:
    transitions = np.zeros((2, 2, 2))
    transitions[:, :, 1] = 1.0
    mdp = FiniteMDP(transitions, np.ones((2, 2)), np.array([[0.0, 0.0], [1.0, 1.0]]), horizon=5)
    shield = mdp.shield(mdp.quantifier(width=width))
    guard = Guard(DummyVecEnv([lambda: FiniteEnv(mdp, seed=0)]), Instantaneous(0.5), shield, penalty)
    guard.reset()
    _, rewards, dones, infos = guard.step(np.zeros(1, dtype=np.int64))
    assert rewards[0] == reward
    assert dones[0]
    assert infos[0]["shield"]["stopped"]


def test_erratum_11_the_papers_c_is_not_enough_for_a_stop_of_probability_a_tenth() -> None:
    problem = gamble()
    c = paper_c(problem.mdp, problem.zeta)
    assert value(problem.penalised(Penalty(c, LARGEST))) > value(problem.optimum) + 1
    assert problem.keeps_optimum(Penalty(c / 0.1, LARGEST))


def test_erratum_11_a_constant_penalty_is_not_enough() -> None:
    problem = dead_end_at_the_last_step()
    assert value(problem.penalised(Penalty(1.0, largest=1.0))) > value(problem.optimum) + 1
