"""Theorem 4.2: with widths of at most ζ/2 and c large enough, the penalised optimum is the constrained one."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from safexp import Budget, Constraint, Instantaneous, Penalty, Schedule
from theory.finite_mdp import (
    FiniteMDP,
    Layer,
    constrained_optimum,
    least_path_probability,
    paper_c,
    penalised_optimum,
    random_mdp,
    safety_margin,
    same_policy,
    unroll,
    value,
)

LARGEST = 1e300
CONSTRAINTS = [Instantaneous(0.5), Schedule([0.6, 0.4, 0.7, 0.3]), Budget(1.2), Budget(1.0, discount=0.8)]
NAMES = ["instantaneous", "schedule", "budget", "discounted budget"]
LEAST_MARGIN = 0.005
NUM_PROBLEMS = {1: 20, 2: 10}


class Problem(NamedTuple):
    """A constrained MDP with its optimum, that optimum's safety margin, and an estimate of the costs."""

    mdp: FiniteMDP
    constraint: Constraint
    layers: list[Layer]
    optimum: list[np.ndarray]
    zeta: float
    mean: np.ndarray
    width: np.ndarray

    def penalised(self, penalty: Penalty) -> list[np.ndarray]:
        shield = self.mdp.shield(self.mdp.quantifier(self.mean, self.width))
        return penalised_optimum(self.mdp, self.constraint, shield, penalty, self.layers)

    def keeps_optimum(self, penalty: Penalty) -> bool:
        solution = self.penalised(penalty)
        equal = np.isclose(value(solution), value(self.optimum), rtol=1e-9, atol=1e-9)
        return bool(equal) and same_policy(self.layers, self.optimum, solution)


def pose(mdp: FiniteMDP, constraint: Constraint, rng: np.random.Generator) -> Problem | None:
    """Estimate the costs as well as the theorem asks; None where no safe policy is optimal with a margin."""
    layers = unroll(mdp)
    optimum = constrained_optimum(mdp, constraint, layers)
    if not np.isfinite(value(optimum)):
        return None
    zeta = safety_margin(mdp, constraint, layers, optimum)
    if zeta < LEAST_MARGIN:
        return None
    width = zeta / 2 * rng.uniform(0.7, 1.0, mdp.costs.shape)
    mean = np.clip(mdp.costs + width * rng.uniform(-1.0, 1.0, mdp.costs.shape), 0.0, 1.0)
    return Problem(mdp, constraint, layers, optimum, zeta, mean, width)


@cache
def random_problems(constraint: Constraint, branches: int) -> list[Problem]:
    """Problems in which a stop that costs nothing would pay, so that the penalty decides."""
    rng = np.random.default_rng(branches)
    problems: list[Problem] = []
    while len(problems) < NUM_PROBLEMS[branches]:
        mdp = random_mdp(rng, discount=rng.choice([0.6, 0.9, 1.0]), branches=branches)
        problem = pose(mdp, constraint, rng)
        if problem is not None and not problem.keeps_optimum(Penalty(0.0, LARGEST)):
            problems.append(problem)
    return problems


def gamble(second_chance: bool = False) -> Problem:
    """Ten steps: a cautious way that pays ½ a step, and one that pays 1 but fails with probability 0.1.

    State 0 is the start, 1 the cautious way, 2 the rich one, 3 a dead end whose every action costs 1. With a second
    chance, failing leads to state 4, whence only one further try of probability 0.1 ends in the dead end.
    """
    transitions = np.zeros((5, 2, 5))
    rewards = np.ones((5, 2))
    costs = np.zeros((5, 2))
    transitions[0, 0, 1] = 1.0
    transitions[0, 1, [2, 4 if second_chance else 3]] = 0.9, 0.1
    transitions[[1, 2, 3], :, [1, 2, 3]] = 1.0
    transitions[4, :, 2], transitions[4, :, 3] = 0.9, 0.1
    rewards[0, 0] = rewards[1] = 0.5
    costs[3] = 1.0
    problem = pose(FiniteMDP(transitions, rewards, costs, horizon=10), Instantaneous(0.5), np.random.default_rng(0))
    assert problem is not None
    return problem._replace(mean=costs, width=np.full_like(costs, problem.zeta / 2))


def dead_end_at_the_last_step(horizon: int = 10) -> Problem:
    """Deterministic: a cautious way that pays ½ a step, and one that pays 1 until its last step, which costs 1."""
    cautious, num_states = horizon, horizon + 1
    transitions = np.zeros((num_states, 2, num_states))
    rewards = np.ones((num_states, 2))
    costs = np.zeros((num_states, 2))
    for step in range(horizon):
        transitions[step, :, min(step + 1, horizon - 1)] = 1.0
    transitions[0, 0] = 0.0
    transitions[0, 0, cautious] = transitions[cautious, :, cautious] = 1.0
    rewards[0, 0] = rewards[cautious] = 0.5
    costs[horizon - 1] = 1.0
    problem = pose(FiniteMDP(transitions, rewards, costs, horizon), Instantaneous(0.5), np.random.default_rng(0))
    assert problem is not None
    return problem._replace(mean=costs, width=np.full_like(costs, problem.zeta / 2))


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_deterministic_optimum_is_kept_by_the_papers_c(constraint: Constraint) -> None:
    problems = random_problems(constraint, branches=1)
    assert all(problem.keeps_optimum(Penalty(paper_c(problem.mdp, problem.zeta), LARGEST)) for problem in problems)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_stochastic_optimum_is_kept_by_c_over_the_least_path_probability(constraint: Constraint) -> None:
    for problem in random_problems(constraint, branches=2):
        c = paper_c(problem.mdp, problem.zeta) / least_path_probability(problem.mdp, problem.layers)
        assert problem.keeps_optimum(Penalty(c, LARGEST))


@pytest.mark.parametrize(("branches", "share"), [(1, 0.03), (2, 1.0)], ids=["a small c", "the paper's c, by chance"])
def test_optimum_can_be_lost_with_less(branches: int, share: float) -> None:
    problems = [problem for constraint in CONSTRAINTS for problem in random_problems(constraint, branches)]
    penalties = [Penalty(share * paper_c(problem.mdp, problem.zeta), LARGEST) for problem in problems]
    kept = [problem.keeps_optimum(penalty) for problem, penalty in zip(problems, penalties, strict=True)]
    assert 0.05 < np.mean(np.logical_not(kept)) < 0.95


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_optimum_is_lost_by_widths_above_the_margin(constraint: Constraint) -> None:
    problems = random_problems(constraint, branches=1)
    wide = [p._replace(mean=p.mdp.costs, width=np.full_like(p.width, 1.01 * p.zeta)) for p in problems]
    kept = [problem.keeps_optimum(Penalty(paper_c(problem.mdp, problem.zeta), LARGEST)) for problem in wide]
    assert np.mean(kept) < 0.5


def test_erratum_11_a_stop_of_probability_p_needs_c_over_p() -> None:
    problem = gamble()
    c = paper_c(problem.mdp, problem.zeta)
    tempted = problem.penalised(Penalty(c, LARGEST))
    assert value(problem.optimum) == pytest.approx(5.0)
    assert value(tempted) == pytest.approx(0.9 * 10 - 0.1 * 1.001 * 10)
    assert tempted[0][0].argmax() == 1
    assert problem.keeps_optimum(Penalty(c / 0.1, LARGEST))


def test_erratum_11_p_is_that_of_the_whole_stop_not_of_one_transition() -> None:
    problem = gamble(second_chance=True)
    c = paper_c(problem.mdp, problem.zeta)
    assert not problem.keeps_optimum(Penalty(c / 0.1, LARGEST))
    assert problem.keeps_optimum(Penalty(c / least_path_probability(problem.mdp, problem.layers), LARGEST))


def test_erratum_11_a_clipped_or_constant_penalty_voids_the_theorem() -> None:
    problem = dead_end_at_the_last_step()
    c = paper_c(problem.mdp, problem.zeta)
    assert problem.keeps_optimum(Penalty(c, LARGEST))
    assert not problem.keeps_optimum(Penalty(c, largest=1.05 * c))
    assert not problem.keeps_optimum(Penalty(1.0, largest=1.0))
