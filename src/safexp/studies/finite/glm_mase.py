"""GLM-MASE: the paper's Algorithm 2, with its errata corrected, on finite generalised-linear CMDPs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from safexp.core.arrays import Array, Flags, Indices
from safexp.quantifiers.glm import GLM, Width
from safexp.studies.finite.linear_mdp import STOP, LinearCMDP


@dataclass(frozen=True)
class GLMMASESettings:
    """Settings of GLM-MASE.

    `optimism` is C_{Q/g}, in units of the largest value: how much wider than ‖φ‖_{Λ⁻¹} the optimism in Q is. It must
    exceed √(d·`value_regulariser`), by which the ridge pulls rarely seen values towards 0, or pessimism can win.
    `penalty` is c; −c/min Γ is cut off at −V_max, beyond which it changes no decision. The safe seed, logged
    `seed_visits` times beforehand, is the action of lowest cost, in the first state alone or, with `seed_everywhere`,
    in every state. With `forced_exploration` episode t takes, with probability 1/√t and as long as some pair may yet
    prove safe by `margin` ζ, the certified action whose cost is least known at every step: optimism in Q explores the
    *reward*, and once that is known nothing sends the agent to where only the cost is uncertain.
    """

    width: Width = "tight"
    noise: float = 0.0
    regulariser: float | None = None
    delta: float = 0.05
    optimism: float = 0.05
    value_regulariser: float = 0.0005
    penalty: float = 1.0
    forced_exploration: bool = False
    margin: float = 0.0
    seed_visits: int = 20
    seed_everywhere: bool = False


class GLMEpisode(NamedTuple):
    """One episode: its policy table (H, S), n + 1 states around the n actions executed, and how it ended."""

    policy: Indices
    states: Indices
    actions: Indices
    stopped: bool
    forced: bool


@final
class GLMMASE:
    """Algorithm 2 with its data: how often each (h, s, a, s') was seen, and the cost model, pooled over h."""

    def __init__(self, problem: LinearCMDP, settings: GLMMASESettings, generator: np.random.Generator) -> None:
        states, actions, d = problem.features.shape
        self._problem, self._settings, self._generator = problem, settings, generator
        self._phi = problem.features.reshape(-1, d)
        # Σφ and Σφ·r over the visits of step h that led to s', (H, d, S): all that a regression on any targets needs.
        self._arrivals = np.zeros((problem.horizon, d, states))
        self._paid_arrivals = np.zeros((problem.horizon, d, states))
        self._gram = np.tile(settings.value_regulariser * np.eye(d), (problem.horizon, 1, 1))
        self._cumulative = problem.transitions.cumsum(axis=2)
        self._count = 0
        self.quantifier = GLM(
            problem.feature_map,
            d,
            link=problem.link,
            width=settings.width,
            noise=settings.noise,
            regulariser=settings.regulariser,
            delta=settings.delta,
        )
        seeded = np.arange(states) if settings.seed_everywhere else np.array([problem.start])
        seed = seeded * actions + problem.cost.argmin(axis=1)[seeded]
        self._observe_costs(np.tile(seed, settings.seed_visits))

    def can_start(self) -> bool:
        """Whether any action is certified in the first state."""
        return bool(self.judge()[0][0, self._problem.start].any())

    def episode(self) -> GLMEpisode:
        """Lines 2-15: roll out within A⁺, stop where it is empty, then learn."""
        self._count += 1
        certified, promising, width = self.judge()
        forced = (
            self._settings.forced_exploration
            and bool(promising.any())
            and bool(self._generator.random() < self._count**-0.5)
        )
        score = width[None] if forced else self.optimistic_values(certified, width)
        policy = np.where(certified.any(axis=2), np.where(certified, score, -np.inf).argmax(axis=2), STOP)
        states, actions, stopped = self._roll_out(policy)
        self._learn(states, actions)
        return GLMEpisode(policy, states, actions, stopped, forced)

    def judge(self) -> tuple[Flags, Flags, Array]:
        """A⁺ (H, S, A) for each step's threshold, what may yet prove safe by the margin, and the width Γ (S, A)."""
        shape, thresholds = self._problem.cost.shape, self._problem.thresholds[:, None, None]
        mean, width = self.quantifier.bounds(self._phi)
        certified = np.minimum(1.0, mean + width).reshape(shape) <= thresholds
        promising = ~certified & ((mean - width).reshape(shape) <= thresholds - self._settings.margin)
        return certified, promising, width.reshape(shape)

    def optimistic_values(self, certified: Flags, width: Array) -> Array:
        """Q̂_h (H, S, A) by backward regression on all data, rewritten under the current quantifier.

        A next state without a certified action is terminal and pays the penalty in place of the reward.
        Targets are divided by the norm that Q's weights can have, so that they lie in the class the paper
        fits (unit ball).
        """
        problem, caps = self._problem, self._problem.value_caps
        scale = caps[0] * np.sqrt(self._phi.shape[1])
        penalty = np.maximum(-self._settings.penalty / np.maximum(width.min(axis=1), 1e-12), -caps[0])
        inverse = np.linalg.inv(self._gram)
        bonus = self._settings.optimism * caps[0] * np.sqrt(((self._phi @ inverse) * self._phi).sum(axis=2))
        going_on: Flags = np.asarray(certified.any(axis=2))
        estimates = np.empty(certified.shape)
        value, goes_on = np.zeros(len(penalty)), np.ones(len(penalty), dtype=bool)
        for h in reversed(range(problem.horizon)):
            moment = self._arrivals[h] @ np.where(goes_on, problem.discount * value, penalty)
            moment += self._paid_arrivals[h] @ goes_on
            weights = inverse[h] @ moment / scale
            if weights @ weights > 1.0:
                weights = ball_least_squares(self._gram[h], moment / scale)
            estimate = np.minimum(caps[h], scale * (self._phi @ weights) + bonus[h]).reshape(width.shape)
            estimates[h], goes_on = estimate, going_on[h]
            value = np.where(goes_on, np.where(certified[h], estimate, -np.inf).max(axis=1), 0.0)
        return estimates

    def _roll_out(self, policy: Indices) -> tuple[Indices, Indices, bool]:
        state = self._problem.start
        if policy[0, state] == STOP:
            raise RuntimeError(
                f"no action is certified in the first state {state}: the seed tells too little; log it more often "
                "(seed_visits), widen the thresholds or use the tight width"
            )
        states: list[int] = []
        actions: list[int] = []
        for choices, draw in zip(policy, self._generator.random(len(policy)), strict=True):
            action = int(choices[state])
            if action == STOP:
                return np.array([*states, state]), np.array(actions), True
            states.append(state)
            actions.append(action)
            state = min(int(np.searchsorted(self._cumulative[state, action], draw)), len(choices) - 1)
        return np.array([*states, state]), np.array(actions), False

    def _learn(self, states: Indices, actions: Indices) -> None:
        """Remember the transitions; Λ of step h gains φφᵀ of the pair executed there."""
        steps = np.arange(len(actions))
        pairs = states[:-1] * self._problem.cost.shape[1] + actions
        phi = self._phi[pairs]
        self._arrivals[steps, :, states[1:]] += phi
        self._paid_arrivals[steps, :, states[1:]] += phi * self._problem.reward.flat[pairs][:, None]
        self._gram[: len(actions)] += phi[:, :, None] * phi[:, None, :]
        self._observe_costs(pairs)

    def _observe_costs(self, pairs: Indices) -> None:
        costs = self._problem.cost.ravel()[pairs]
        if self._settings.noise > 0.0:
            costs = costs + self._settings.noise * self._generator.choice([-1.0, 1.0], len(pairs))
        self.quantifier.learn(self._phi[pairs], costs)


def ball_least_squares(gram: Array, moment: Array) -> Array:
    """The minimum of θᵀΛθ/2 − ⟨θ, m⟩ over the unit ball, where the free one lies outside.

    It solves (Λ + μI)θ = m for the μ > 0 that brings the norm to 1, found by bisection in Λ's eigenbasis.
    """
    values, vectors = np.linalg.eigh(gram)
    turned = vectors.T @ moment
    low, high = 0.0, float(np.linalg.norm(moment))
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.norm(turned / (values + middle)) > 1.0 else (low, middle)
    return np.asarray(vectors @ (turned / (values + high)))


def theorem_level(quantifier: GLM, margin: float) -> float:
    """The smallest eigenvalue of Λ from which Γ ≤ ζ/2 everywhere: (2·C_g/ζ)², not the paper's 2·C_g/ζ.

    ‖φ‖_{Λ⁻¹} is at most λ_min(Λ)^{−1/2}, where the paper's lemma has λ_min(Λ)^{−1}.
    """
    return (2.0 * quantifier.scale / margin) ** 2
