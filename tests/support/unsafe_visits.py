"""Constraints step by step, and chains in which an unsafe state may be visited, solved exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from safexp import Constraint, Known, Shield
from safexp.core.arrays import Array
from support.finite_mdp import FiniteMDP

UNSAFE = 4


def is_unsafe(observations: ArrayLike) -> Array:
    return np.asarray(observations) == UNSAFE


def within_thresholds(
    constraint: Constraint, costs: ArrayLike, bounds: ArrayLike | None = None, first: int = 0
) -> bool:
    """Whether each cost (or its bound, which must then be given too) is at most the threshold of its time."""
    memory = constraint.start(np.array([first]))
    for cost, bound in zip(np.asarray(costs), np.asarray(costs if bounds is None else bounds), strict=True):
        if bound > constraint.threshold(memory)[0]:
            return False
        memory = constraint.update(memory, np.array([cost]), np.array([bound]))
    return True


def section_6_threshold(costs: list[float], limit: float, discount: float) -> float:
    """The paper's b_h of Section 6, γ⁻¹(ξ − Σ_{h' < h} γ^h' g_h')."""
    return (limit - sum(cost * discount**h for h, cost in enumerate(costs))) / discount


def random_chain(rng: np.random.Generator, horizon: int) -> FiniteMDP:
    """Safe states 0-3 and an unsafe one: pairs lead to one safe state, or with their risk to the unsafe one."""
    transitions = np.zeros((5, 3, 5))
    risks = rng.uniform(0, 0.15, size=(5, 3)) * rng.integers(2, size=(5, 3))
    for pair in np.ndindex(5, 3):
        transitions[pair][rng.integers(4)] = 1 - risks[pair]
        transitions[pair][UNSAFE] = risks[pair]
    return FiniteMDP(transitions, np.zeros((5, 3)), risks, horizon)


def possible_visit(mdp: FiniteMDP) -> Known:
    """Bounds the realised indicator of the next state: 1 where it may be unsafe."""
    return mdp.quantifier((mdp.costs > 0).astype(np.float64))


def most_visits(
    mdp: FiniteMDP, constraint: Constraint, shield: Shield, discount: float = 1.0, count_first_only: bool = False
) -> float:
    """The largest expected number of visits, or probability of any, that a policy behind the shield can cause."""

    def worst(h: int, state: int, memory: Array) -> float:
        if h == mdp.horizon:
            return 0.0
        observations, thresholds = np.array([state]), constraint.threshold(memory)
        offers = shield.outlook(observations, thresholds)
        outcomes = [0.0]
        for action in np.flatnonzero(offers.safe[0]):
            total = 0.0
            for successor in np.flatnonzero(mdp.transitions[state, action]):
                visit = np.array([float(successor == UNSAFE)])
                onwards = 0.0
                if not (visit[0] and count_first_only):
                    after = constraint.update(memory, visit, offers.upper_bounds[0, action])
                    onwards = worst(h + 1, int(successor), after)
                total += mdp.transitions[state, action, successor] * (discount ** (h + 1) * visit[0] + onwards)
            outcomes.append(total)
        return max(outcomes)

    return worst(0, 0, constraint.start(np.array([0])))
