"""Random generalised-linear CMDPs that satisfy the paper's Assumptions 3.2, 5.2 and 5.3, and their exact optimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from safexp.core.arrays import Array, Flags, Indices
from safexp.quantifiers.links import IDENTITY, Link

STOP = -1
"""The entry of a policy table where the episode is stopped."""


@dataclass(frozen=True, eq=False)
class LinearCMDP:
    """A finite CMDP whose transitions and reward are linear in known features, and whose cost is a GLM of them.

    `features` (S, A, d) have norm ≤ 1; P(s'|s, a) = ⟨φ, μ(s')⟩ with `measures` μ (d, S), r = ⟨φ, θ_r⟩ and g =
    f(⟨φ, θ_g⟩), ‖θ_g‖ ≤ 1. `thresholds` (H,) are b_h. So every Bellman backup of any function of the next
    state is linear in φ, which is the optimistic closure that Assumption 5.3 asks for.
    """

    features: Array
    measures: Array
    reward_weights: Array
    cost_weights: Array
    thresholds: Array
    start: int = 0
    discount: float = 1.0
    link: Link = IDENTITY

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return len(self.thresholds)

    @cached_property
    def transitions(self) -> Array:
        """The transition probabilities P (S, A, S)."""
        return self.features @ self.measures

    @cached_property
    def reward(self) -> Array:
        """The reward r (S, A)."""
        return self.features @ self.reward_weights

    @cached_property
    def cost(self) -> Array:
        """The cost g (S, A)."""
        return self.link.value(self.features @ self.cost_weights)

    @cached_property
    def safe(self) -> Flags:
        """Which actions (H, S, A) truly satisfy g ≤ b_h."""
        return self.cost <= self.thresholds[:, None, None]

    @cached_property
    def margin(self) -> float:
        """ζ: how far every safe cost stays below its threshold (Assumption 3.2, for all policies at once)."""
        return float(np.min((self.thresholds[:, None, None] - self.cost)[self.safe]))

    @cached_property
    def value_caps(self) -> Array:
        """The largest value (H + 1,) from each step on when rewards lie in [0, 1]; the first is V_max."""
        return np.concatenate([np.cumsum(self.discount ** np.arange(self.horizon))[::-1], [0.0]])

    @cached_property
    def optimal_value(self) -> float:
        """V* of the best policy that is always safe."""
        return _optimal_value(self, self.safe)

    @cached_property
    def unconstrained_value(self) -> float:
        """The value of the best policy when costs do not matter."""
        return _optimal_value(self, np.ones_like(self.safe))

    def feature_map(self, states: Array, actions: Array) -> Array:
        """The features (N, d) of states (N, 1), given by number, and one-hot actions (N, A): a `GLM`'s feature map."""
        return self.features[states[:, 0].astype(np.int64), actions.argmax(axis=1)]

    def policy_value(self, policy: Indices) -> float:
        """The exact value of a policy table (H, S); an entry of `STOP` ends the episode there."""
        states = np.arange(len(self.features))
        value = np.zeros(len(self.features))
        for actions in policy[::-1]:
            goes_on = actions != STOP
            following = self.reward[states, actions] + self.discount * self.transitions[states, actions] @ value
            value = np.where(goes_on, following, 0.0)
        return float(value[self.start])


def random_linear_cmdp(
    generator: np.random.Generator,
    *,
    states: int = 30,
    actions: int = 6,
    dimension: int = 5,
    horizon: int = 8,
    margin: float = 0.1,
    threshold_spread: float = 0.05,
    link: Link = IDENTITY,
) -> LinearCMDP:
    """A problem with features on the simplex, a safe action in every state and no cost within `margin` below b_h.

    Thresholds differ from step to step by up to `threshold_spread`. Where the reward is high so is the cost,
    half of it, so that the constraint matters. Features whose cost falls into the forbidden band are drawn
    again.
    """
    if dimension < 2 or actions < 2 or states < 2 or horizon < 1:
        raise ValueError(
            f"got {states} states, {actions} actions, dimension {dimension}, horizon {horizon}; "
            "at least 2, 2, 2 and 1 are needed"
        )
    levels = (np.arange(dimension) + generator.uniform(0.0, 1.0, dimension)) / dimension
    cost_weights = 0.98 * levels / np.linalg.norm(levels)
    if link is not IDENTITY:
        cost_weights = 0.98 * (levels - 0.5) / np.linalg.norm(levels - 0.5)
    reward_weights = 0.5 * levels + 0.5 * generator.uniform(0.0, 1.0, dimension)
    measures = generator.dirichlet(np.full(states, 0.3), dimension)
    corners = link.value(np.sort(cost_weights))
    low, high = (corners[0], corners[-1]) if link.sign > 0 else (corners[-1], corners[0])
    top = low + 0.5 * (high - low)
    thresholds = generator.uniform(top - threshold_spread, top, horizon)
    if thresholds.min() - margin <= low:
        raise ValueError(
            f"costs start at {low:.3g} and thresholds at {thresholds.min():.3g}; no action can be {margin} below: "
            "lower the margin"
        )
    features = np.empty((states, actions, dimension))
    for state in range(states):
        while True:
            drawn = generator.dirichlet(np.full(dimension, 0.35), 8 * actions)
            cost = link.value(drawn @ cost_weights)
            fitting = drawn[(cost <= thresholds.min() - margin) | (cost > thresholds.max())]
            if len(fitting) >= actions:
                features[state] = fitting[:actions]
                if link.value(features[state] @ cost_weights).min() <= thresholds.min() - margin:
                    break
    return LinearCMDP(features, measures, reward_weights, cost_weights, thresholds, link=link)


def _optimal_value(problem: LinearCMDP, allowed: Flags) -> float:
    """By dynamic programming; an episode in a state without an allowed action ends there."""
    value = np.zeros(len(problem.features))
    for choices in allowed[::-1]:
        following = problem.reward + problem.discount * problem.transitions @ value
        best = np.where(choices, following, -np.inf).max(axis=1)
        value = np.where(choices.any(axis=1), best, 0.0)
    return float(value[problem.start])
