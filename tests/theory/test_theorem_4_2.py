"""Theorem 4.2: with widths of at most ζ/2 and c large enough, the penalised optimum is the constrained one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from safexp import Budget, Constraint, Instantaneous, Penalty, Schedule
from support.finite_mdp import (
    least_path_probability,
    paper_c,
    random_mdp,
    value,
)
from support.penalised_problems import LARGEST, Problem, dead_end_at_the_last_step, gamble, pose

CONSTRAINTS = [Instantaneous(0.5), Schedule([0.6, 0.4, 0.7, 0.3]), Budget(1.2), Budget(1.0, discount=0.8)]
NAMES = ["instantaneous", "schedule", "budget", "discounted budget"]
NUM_PROBLEMS = {1: 20, 2: 10}


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


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_deterministic_optimum_is_kept_by_the_papers_c(constraint: Constraint) -> None:
    problems = random_problems(constraint, branches=1)
    assert all(problem.keeps_optimum(Penalty(paper_c(problem.mdp, problem.zeta), LARGEST)) for problem in problems)


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=NAMES)
def test_stochastic_optimum_is_kept_by_c_over_the_least_path_probability(constraint: Constraint) -> None:
    for problem in random_problems(constraint, branches=2):
        c = paper_c(problem.mdp, problem.zeta) / least_path_probability(problem.mdp, problem.layers)
        assert problem.keeps_optimum(Penalty(c, LARGEST))


@pytest.mark.slow
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
