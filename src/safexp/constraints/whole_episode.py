"""Limits on a whole episode: sum of costs, number of unsafe states, probability of any."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from safexp.constraints.base import (
    TOLERANCE,
    Constraint,
    check_callable,
    check_cost,
    check_discount,
    check_limit,
    check_positive,
    exceeds,
)
from safexp.core.arrays import Array, Observations, batch_size
from safexp.core.costs import CostSource, StatePredicate, Step, indicator
from safexp.core.obstacles import Obstacles

LEAST_WEIGHT = 1e-200
"""Smallest weight of a discounted cost: below it, a cost could no longer change the sum."""


@dataclass(frozen=True)
class Budget(Constraint):
    """Limit on the discounted sum of the costs of an episode (Problem 1): Σ_h γ_gʰ g_h ≤ `limit`.

    With the first cost undiscounted, b₁ = ξ₁ and b_{h+1} = (b_h − g_h) / γ_g (the η recursion of Appendix B). The
    recursion is kept as the sum S spent so far and the weight γʰ of the next cost, b_h = (ξ₁ − S) / γʰ, whose
    rounding errors do not grow with h. A limit of zero allows costs of zero.

    If episodes are stopped early, too little remains for one largest cost: raise the limit, lower `cost_max` to the
    true largest cost, or use a quantifier that learns. To limit a measured quantity use `Within`.

    Args:
        limit: largest sum, in the user's units.
        discount: γ_g.
        cost: key of the cost in the info of a step, or a function of the observations, actions and next observations
            (n, ...) that returns the costs (n,).
        cost_max: largest cost of one step, in the user's units.
        among: obstacles within which a robot's step costs `cost_max`, for a certificate that looks ahead
            (`PlanarPath`); costs themselves are still read from `cost`.

    Example:
        >>> budget = safexp.Budget(300, cost_max=100)
        >>> state = budget.start(np.zeros((1, 4)))
        >>> budget.threshold(state)
        array([3.])
        >>> state = budget.update(state, budget.normalise(np.array([50.0])), np.array([1.0]))
        >>> budget.threshold(state)
        array([2.5])
    """

    limit: float
    discount: float = 1.0
    cost: CostSource = "cost"
    cost_max: float = 1.0
    among: Obstacles | None = field(default=None, kw_only=True)
    memory: ClassVar[int] = 2
    in_observation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_limit(self, "limit", self.limit)
        check_discount(self, self.discount)
        check_positive(self, "cost_max", self.cost_max)
        check_cost(self, self.cost)
        object.__setattr__(self, "among", Obstacles.of(self.among))

    @property
    def largest_threshold(self) -> float:
        return max(self.limit / self.cost_max, 1.0)

    @property
    def grows(self) -> bool:
        return self.discount < 1

    def start(self, observations: Observations) -> Array:
        return np.tile([0.0, 1.0], (batch_size(observations), 1))

    def threshold(self, state: Array) -> Array:
        return remaining(self.limit / self.cost_max, state)

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return spend(state, cost, self.discount)

    def violated(self, first: Array, signals: Array) -> bool:
        return exceeds(discounted_sum(signals / self.cost_max, self.discount), self.limit / self.cost_max)


@dataclass(frozen=True)
class StateVisits(Constraint):
    """Limit on the discounted number of unsafe states in an episode, on every path (Problem 2).

    `unsafe(observations)` returns which of n observations are unsafe. A visit is charged to the action that leads to
    it; the first state, which no action led to, is charged at the reset with weight 1. Bounding every path implies the
    paper's bound on the expectation, so this form is conservative.

    Args:
        limit: largest number of visits.
        unsafe: function that returns which (n,) of the observations (n, ...) are unsafe.
        discount: weight of a visit relative to one a step earlier.

    Example:
        >>> limit = safexp.StateVisits(2, unsafe=lambda observations: observations[:, 0] > 1.0)
        >>> limit.threshold(limit.start(np.array([[1.5]])))
        array([1.])
    """

    limit: float
    unsafe: StatePredicate
    discount: float = 1.0
    memory: ClassVar[int] = 2
    in_observation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_limit(self, "limit", self.limit)
        check_discount(self, self.discount)
        check_callable(self, "unsafe", self.unsafe)

    @property
    def largest_threshold(self) -> float:
        return max(self.limit, 1.0)

    @property
    def grows(self) -> bool:
        return self.discount < 1

    def read(self, step: Step) -> Array:
        return self.first_signal(step.next_observations)

    def first_signal(self, observations: Observations) -> Array:
        return indicator(self.unsafe, observations)

    def start(self, observations: Observations) -> Array:
        visits = self.first_signal(observations)
        return np.stack([visits, np.full_like(visits, self.discount)], axis=-1)

    def threshold(self, state: Array) -> Array:
        return remaining(self.limit, state)

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return spend(state, cost, self.discount)

    def violated(self, first: Array, signals: Array) -> bool:
        visits = np.concatenate([np.atleast_1d(first), signals])
        return exceeds(discounted_sum(visits, self.discount), self.limit)


@dataclass(frozen=True)
class JointChance(Constraint):
    """Limit on the probability of ever visiting an unsafe state in an episode (Problem 5).

    Each step spends the *bound* on its risk, not the outcome: by the tower property the sum of the bounds dominates the
    expected number of visits, and by Boole's inequality that dominates the probability of any. A risk of 1 constrains
    nothing. Needs a quantifier whose upper bound is on the probability of stepping into an unsafe state. `violated` is
    the event whose probability is bounded; compare its *rate* with `risk`.

    If every episode is stopped, the bounds are too loose for the risk: their sum over an episode must stay below it.

    Args:
        risk: largest probability.
        unsafe: function that returns which (n,) of the observations (n, ...) are unsafe.

    Example:
        >>> limit = safexp.JointChance(0.1, unsafe=lambda observations: observations[:, 0] > 1.0)
        >>> limit.threshold(limit.start(np.zeros((1, 1))))
        array([0.1])
    """

    risk: float
    unsafe: StatePredicate
    memory: ClassVar[int] = 1
    in_observation: ClassVar[bool] = True
    on_realised_cost: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_limit(self, "risk", self.risk)
        if self.risk > 1:
            raise ValueError(f"JointChance(risk={self.risk}) is not a probability; give a value in [0, 1].")
        check_callable(self, "unsafe", self.unsafe)

    def read(self, step: Step) -> Array:
        return self.first_signal(step.next_observations)

    def first_signal(self, observations: Observations) -> Array:
        return indicator(self.unsafe, observations)

    def start(self, observations: Observations) -> Array:
        return self.first_signal(observations)[:, None]

    def threshold(self, state: Array) -> Array:
        if self.risk == 1.0:
            return np.full(len(state), np.inf)
        return self.risk - state[:, 0] + TOLERANCE

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return state + upper_bound[:, None]

    def violated(self, first: Array, signals: Array) -> bool:
        return bool(first > 0 or np.any(signals > 0))


def remaining(limit: float, state: Array) -> Array:
    """(ξ − S) / γʰ from the sum spent and the weight of the next cost, (n, 2) -> (n,)."""
    spent, weight = state[:, 0], state[:, 1]
    return (limit - spent + TOLERANCE) / np.maximum(weight, LEAST_WEIGHT)


def spend(state: Array, cost: Array, discount: float) -> Array:
    """The sum spent and the weight of the next cost after one more cost (n,)."""
    spent, weight = state[:, 0], state[:, 1]
    return np.stack([spent + weight * cost, weight * discount], axis=-1)


def discounted_sum(costs: Array, discount: float) -> float:
    """Σ γʰ g_h with the first cost undiscounted."""
    return math.fsum(costs * discount ** np.arange(len(costs)))
