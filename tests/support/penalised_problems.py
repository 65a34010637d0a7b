"""Constrained MDPs with their optimum, and how a penalty changes it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from safexp import Constraint, Instantaneous, Penalty
from support.finite_mdp import (
    FiniteMDP,
    Layer,
    constrained_optimum,
    penalised_optimum,
    safety_margin,
    same_policy,
    unroll,
    value,
)

LARGEST = 1e300
LEAST_MARGIN = 0.005


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
