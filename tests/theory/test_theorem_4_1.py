"""Theorem 4.1: behind a quantifier that is right with probability 1 − δ, a run violates with probability at most δ."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import binomtest
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import Budget, Constraint, Instantaneous, Known, Penalty, Schedule
from safexp.envs.guard import Guard
from support.finite_mdp import FiniteEnv, FiniteMDP, random_mdp

DELTA = 0.1
WIDTH = 0.1
NUM_RUNS = 60
NUM_ENVS = 8
NUM_STEPS = 8
LIMITS = np.array([0.6, 0.4, 0.7, 0.3])
MakeQuantifier = Callable[[FiniteMDP, np.random.Generator], Known]


def breaks_instantaneous(costs: list[float]) -> bool:
    return any(cost > 0.5 for cost in costs)


def breaks_schedule(costs: list[float]) -> bool:
    return any(cost > limit for cost, limit in zip(costs, LIMITS, strict=False))


def breaks_budget(costs: list[float]) -> bool:
    return sum(costs) > 1.2


def breaks_discounted_budget(costs: list[float]) -> bool:
    return sum(cost * 0.8**h for h, cost in enumerate(costs)) > 1.0


CASES = {
    "instantaneous": (Instantaneous(0.5), breaks_instantaneous),
    "schedule": (Schedule(LIMITS), breaks_schedule),
    "budget": (Budget(1.2), breaks_budget),
    "discounted budget": (Budget(1.0, discount=0.8), breaks_discounted_budget),
}


def correct(mdp: FiniteMDP, rng: np.random.Generator) -> Known:
    """Estimates that are off by up to the width."""
    mean = np.clip(mdp.costs + WIDTH * rng.uniform(-1, 1, mdp.costs.shape), 0, 1)
    return mdp.quantifier(mean, WIDTH)


def wrong_with_probability_delta(mdp: FiniteMDP, rng: np.random.Generator) -> Known:
    """Correct in all of a run with probability 1 − δ, and of another cost function otherwise."""
    wrong = rng.uniform() < DELTA
    mean = 0.1 * rng.uniform(size=mdp.costs.shape) if wrong else mdp.costs
    return mdp.quantifier(mean, WIDTH, DELTA)


def overconfident(mdp: FiniteMDP, rng: np.random.Generator) -> Known:
    """Estimates that are off by up to ten times the width it reports."""
    mean = np.clip(mdp.costs + 0.4 * rng.uniform(-1, 1, mdp.costs.shape), 0, 1)
    return mdp.quantifier(mean, 0.04)


class Run(NamedTuple):
    violated: bool
    stops: int
    interventions: int


def run(constraint: Constraint, breaks: Callable[[list[float]], bool], quantify: MakeQuantifier, seed: int) -> Run:
    """Random proposals in a random MDP, whose first state has one free action, behind the guard."""
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, branches=2)
    mdp.costs[0, 0] = 0.0
    envs = [FiniteEnv(mdp, seed=NUM_ENVS * seed + i) for i in range(NUM_ENVS)]
    venv = DummyVecEnv([lambda env=env: env for env in envs])
    guard = Guard(venv, constraint, mdp.shield(quantify(mdp, rng)), Penalty())
    guard.reset()
    for _ in range(NUM_STEPS):
        guard.step(rng.integers(3, size=NUM_ENVS))
    episodes = guard.recorder.episodes
    reported = guard.recorder.violations > 0
    violated = any(breaks(costs) for env in envs for costs in env.episodes)
    assert reported == violated
    return Run(violated, sum(e.stopped for e in episodes), sum(e.interventions for e in episodes))


@cache
def runs(case: str, quantify: MakeQuantifier) -> list[Run]:
    return [run(*CASES[case], quantify, seed) for seed in range(NUM_RUNS)]


def violations(case: str, quantify: MakeQuantifier) -> int:
    return sum(run.violated for run in runs(case, quantify))


@pytest.mark.parametrize("case", CASES)
def test_a_correct_quantifier_never_lets_a_violation_happen(case: str) -> None:
    assert violations(case, correct) == 0
    assert sum(run.stops for run in runs(case, correct)) > NUM_RUNS
    assert sum(run.interventions for run in runs(case, correct)) > NUM_RUNS


@pytest.mark.parametrize("case", CASES)
def test_at_most_a_share_delta_of_runs_violates(case: str) -> None:
    count = violations(case, wrong_with_probability_delta)
    assert count > 0
    assert binomtest(count, NUM_RUNS, DELTA, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("case", CASES)
def test_an_understated_width_violates_more_often_than_delta(case: str) -> None:
    count = violations(case, overconfident)
    assert binomtest(count, NUM_RUNS, DELTA, alternative="greater").pvalue < 1e-6
