"""The GSE problem: every constraint becomes a threshold b_h, "the next cost must be at most b_h".

The paper's Problems 1 (budget), 2 (state visits), 3 (instantaneous) and 5 (joint chance) are rewritten as
Problem 4. A constraint is an immutable description; what has happened so far in each of n environments is an
array of its own (n, w) that `start` makes and `update` replaces, so that a reset is the assignment
`state[done] = constraint.start(observations)[done]`.

Each constraint also knows its *original* form: `violated` judges a finished episode from the true signals, by the
definition in the paper and not by the thresholds, so that the shield is never asked whether it did well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.signals import (
    Array,
    CostSource,
    Observations,
    StatePredicate,
    Step,
    batch_size,
    indicator,
    read_cost,
    refuse,
)

TOLERANCE = 1e-9
"""How far a (scaled) cost or discounted sum may exceed its limit: room for rounding, and for nothing else."""


LEAST_WEIGHT = 1e-200
"""Of a discounted cost: a smaller one could spend nothing that a number can hold."""


class Constraint(ABC):
    """A safety constraint as a sequence of thresholds.

    `memory` is the width w of the state array. `in_observation` says that the threshold carries what the observation
    does not (what remains of a budget), so that the learner should see it; `on_realised_cost`, that what is limited are
    the costs that happen and not their probabilities; `on_every_step`, that each of them is, and no sum. A *signal* is
    what the environment tells at a step, in the user's units (by default a cost from `cost`, at most `cost_max`); a
    *cost* is the same scaled to [0, 1]. With K constraints (`AllOf`) both, and the thresholds, have a last axis K.
    """

    memory: ClassVar[int] = 0
    in_observation: ClassVar[bool] = False
    on_realised_cost: ClassVar[bool] = True
    on_every_step: ClassVar[bool] = False
    cost: CostSource = "cost"
    cost_max: float = 1.0

    def signal(self, step: Step) -> Array:
        """What this step brought, (n,), in the user's units; raises `ValueError` on a value that cannot be."""
        return read_cost(self.cost, self.cost_max, step)

    def first_signal(self, observations: Observations) -> Array:
        """What the first state of an episode brings before any action, (n,)."""
        return np.zeros(batch_size(observations))

    def logged(self, costs: Array, margins: Array | None) -> Array:
        """The signals (n,) of logged transitions; raises `ValueError` where they are not one for each."""
        if costs.ndim != 1:
            raise ValueError(f"logged costs have shape {costs.shape}, expected (n,) for {type(self).__name__}.")
        return costs

    def normalise(self, signal: Array) -> Array:
        """The signal as a cost in [0, 1]."""
        return signal / self.cost_max

    def true_cost(self, signal: Array) -> Array:
        """The signal as the cost that a person adds up."""
        return signal

    @property
    def largest_threshold(self) -> float | Array:
        """The threshold that the learner sees as 1."""
        return 1.0

    @property
    def grows(self) -> bool:
        """Whether a threshold can exceed the largest one later, as that of a discounted budget does."""
        return False

    def start(self, observations: Observations) -> Array:
        """What is remembered at the first state of an episode, (n, w)."""
        return np.zeros((batch_size(observations), self.memory))

    @abstractmethod
    def threshold(self, state: Array) -> Array:
        """b_h (n,) for the cost of the next action."""

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        """What is remembered after a step of this `cost` (n,), which was promised to be at most `upper_bound`."""
        return state

    @abstractmethod
    def violated(self, first: Array, signals: Array) -> bool:
        """Whether an episode with these signals (T,), after `first` (), broke the constraint as the paper states it."""


@dataclass(frozen=True)
class Instantaneous(Constraint):
    """Every cost is at most `limit` (Problem 3): b_h = ξ₃."""

    limit: float
    cost: CostSource = "cost"
    cost_max: float = 1.0
    on_every_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_limit(self, "limit", self.limit)
        check_positive(self, "cost_max", self.cost_max)
        check_cost(self, self.cost)

    def threshold(self, state: Array) -> Array:
        return np.full(len(state), self.limit / self.cost_max + TOLERANCE)

    def violated(self, first: Array, signals: Array) -> bool:
        return bool(np.any(signals / self.cost_max > self.limit / self.cost_max + TOLERANCE))


@dataclass(frozen=True, eq=False)
class Schedule(Constraint):
    """The cost of step h is at most `limits[h]` (Problem 4 with a threshold of its own for every step).

    `limits` is an array, whose last value holds after its end, or a function of the steps (n,) since the reset. It is
    asked for a step only when that step comes: thresholds are known myopically.
    """

    limits: ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]
    cost: CostSource = "cost"
    cost_max: float = 1.0
    memory: ClassVar[int] = 1
    in_observation: ClassVar[bool] = True
    on_every_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self, "cost_max", self.cost_max)
        check_cost(self, self.cost)
        if isinstance(self.limits, Mapping):
            raise TypeError(
                f"Schedule(limits={self.limits!r}) must be an array with one limit for every step, or a function of "
                "the steps (n,)."
            )
        if not callable(self.limits):
            limits = np.asarray(self.limits, dtype=np.float64)
            if limits.ndim != 1 or limits.size == 0 or not np.all(np.isfinite(limits) & (limits >= 0)):
                raise ValueError(
                    f"Schedule(limits=...) needs finite limits of at least 0 of shape (steps,), got {self.limits!r}; "
                    "give one limit for every step, or a function of the steps (n,)."
                )
            object.__setattr__(self, "limits", limits)

    def threshold(self, state: Array) -> Array:
        return self._limits_at(state[:, 0].astype(np.int64)) / self.cost_max + TOLERANCE

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return state + 1.0

    def violated(self, first: Array, signals: Array) -> bool:
        limits = self._limits_at(np.arange(len(signals)))
        return bool(np.any(signals / self.cost_max > limits / self.cost_max + TOLERANCE))

    def _limits_at(self, steps: NDArray[np.int64]) -> Array:
        if not callable(self.limits):
            limits = np.asarray(self.limits, dtype=np.float64)
            return limits[np.minimum(steps, len(limits) - 1)]
        limits = np.asarray(self.limits(steps), dtype=np.float64)
        if limits.shape != steps.shape or not np.all(np.isfinite(limits)):
            raise ValueError(
                f"Schedule's function must return one finite limit for each of the steps {steps.tolist()}, "
                f"got {limits!r}; it is given an array (n,) and must return an array (n,)."
            )
        return limits


@dataclass(frozen=True)
class Budget(Constraint):
    """The discounted sum of the costs of an episode is at most `limit` (Problem 1).

    With the first cost undiscounted, b₁ = ξ₁ and b_{h+1} = (b_h − g_h) / γ_g (the η recursion of Appendix B). The
    recursion is kept as the sum S spent so far and the weight γʰ of the next cost, b_h = (ξ₁ − S) / γʰ, whose
    rounding errors do not grow with h. A limit of zero allows costs of zero.
    """

    limit: float
    discount: float = 1.0
    cost: CostSource = "cost"
    cost_max: float = 1.0
    memory: ClassVar[int] = 2
    in_observation: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_limit(self, "limit", self.limit)
        check_discount(self, self.discount)
        check_positive(self, "cost_max", self.cost_max)
        check_cost(self, self.cost)

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
        return discounted_sum(signals / self.cost_max, self.discount) > self.limit / self.cost_max + TOLERANCE


@dataclass(frozen=True)
class StateVisits(Constraint):
    """The discounted number of unsafe states in an episode is at most `limit`, on every path (Problem 2).

    `unsafe(observations)` tells which of n observations are unsafe. A visit is charged to the action that leads there;
    the first state, which no action led to, is charged at the reset with weight 1. Bounding every path implies the
    paper's bound on the expectation, so this form is conservative.
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

    def signal(self, step: Step) -> Array:
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
        return discounted_sum(visits, self.discount) > self.limit + TOLERANCE


@dataclass(frozen=True)
class JointChance(Constraint):
    """The probability of ever visiting an unsafe state in an episode is at most `risk` (Problem 5).

    Each step spends the *bound* on its risk, not what then happened: by the tower property the sum of the bounds
    dominates the expected number of visits, and by Boole's inequality that dominates the probability of any. A risk
    of 1 constrains nothing. Needs a quantifier whose upper bound is one on the probability of stepping into an unsafe
    state. `violated` is the event whose probability is bounded; compare its *rate* with `risk`.
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

    def signal(self, step: Step) -> Array:
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


@dataclass(frozen=True)
class Margin(Constraint):
    """The signed distance `info[key]` to the limit never falls below zero.

    A margin m becomes the cost ½ − m / (2·scale), clipped to [0, 1], with the threshold ½: as smooth as the margin
    itself within ±scale, where an indicator would jump.
    """

    scale: float = 1.0
    key: str = "margin"
    on_every_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self, "scale", self.scale)

    def signal(self, step: Step) -> Array:
        margins = np.asarray(step.info(self.key), dtype=np.float64)
        refuse(~np.isfinite(margins), margins, f"info[{self.key!r}] must be a finite signed distance")
        return margins

    def logged(self, costs: Array, margins: Array | None) -> Array:
        """The margins, where they are logged as such, or else what is logged as the cost."""
        costs = super().logged(costs, margins)
        if margins is not None and (self.key == "margin" or np.array_equal(costs, margins < 0)):
            return margins
        return costs

    def normalise(self, signal: Array) -> Array:
        return np.clip(0.5 - signal / (2 * self.scale), 0.0, 1.0)

    def true_cost(self, signal: Array) -> Array:
        return np.maximum(-signal, 0.0)

    def threshold(self, state: Array) -> Array:
        return np.full(len(state), 0.5 + TOLERANCE)

    def violated(self, first: Array, signals: Array) -> bool:
        return bool(np.any(signals < -2 * TOLERANCE * self.scale))


@dataclass(frozen=True, init=False)
class AllOf(Constraint):
    """Several constraints at once: signals, costs and thresholds get a last axis K, one entry for each."""

    parts: tuple[Constraint, ...]

    def __init__(self, *parts: Constraint) -> None:
        if not parts or any(not isinstance(part, Constraint) or isinstance(part, AllOf) for part in parts):
            raise ValueError(f"AllOf(...) takes one or more simple constraints, got {parts!r}.")
        object.__setattr__(self, "parts", parts)

    @property
    def memory(self) -> int:  # type: ignore[override]
        return sum(part.memory for part in self.parts)

    @property
    def in_observation(self) -> bool:  # type: ignore[override]
        return any(part.in_observation for part in self.parts)

    @property
    def on_realised_cost(self) -> bool:  # type: ignore[override]
        return any(part.on_realised_cost for part in self.parts)

    @property
    def on_every_step(self) -> bool:  # type: ignore[override]
        return all(part.on_every_step for part in self.parts)

    @property
    def largest_threshold(self) -> Array:
        return np.array([part.largest_threshold for part in self.parts])

    @property
    def grows(self) -> bool:
        return any(part.grows for part in self.parts)

    def signal(self, step: Step) -> Array:
        return np.stack([part.signal(step) for part in self.parts], axis=-1)

    def first_signal(self, observations: Observations) -> Array:
        return np.stack([part.first_signal(observations) for part in self.parts], axis=-1)

    def logged(self, costs: Array, margins: Array | None) -> Array:
        if costs.ndim != 2 or costs.shape[1] != len(self.parts):
            raise ValueError(f"logged costs have shape {costs.shape}, expected (n, {len(self.parts)}) for AllOf.")
        return np.stack([part.logged(costs[:, k], margins) for k, part in enumerate(self.parts)], axis=-1)

    def normalise(self, signal: Array) -> Array:
        return np.stack([part.normalise(signal[..., k]) for k, part in enumerate(self.parts)], axis=-1)

    def true_cost(self, signal: Array) -> Array:
        return np.stack([part.true_cost(signal[..., k]) for k, part in enumerate(self.parts)], axis=-1)

    def start(self, observations: Observations) -> Array:
        return np.concatenate([part.start(observations) for part in self.parts], axis=-1)

    def threshold(self, state: Array) -> Array:
        return np.stack([part.threshold(own) for part, own in self._split(state)], axis=-1)

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        own_states = enumerate(self._split(state))
        return np.concatenate(
            [part.update(own, cost[:, k], upper_bound[:, k]) for k, (part, own) in own_states], axis=-1
        )

    def violated(self, first: Array, signals: Array) -> bool:
        return any(part.violated(first[k], signals[:, k]) for k, part in enumerate(self.parts))

    def _split(self, state: Array) -> list[tuple[Constraint, Array]]:
        ends = np.cumsum([part.memory for part in self.parts])
        return list(zip(self.parts, np.split(state, ends[:-1], axis=1), strict=True))


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


def check_number(owner: Constraint, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{type(owner).__name__}({name}={value!r}) must be a number.")


def check_cost(owner: Constraint, cost: CostSource) -> None:
    if not (isinstance(cost, str) or callable(cost)):
        raise TypeError(
            f"{type(owner).__name__}(cost={cost!r}) must be a key of the environment's info, or a function of the "
            "observations, actions and next observations."
        )


def check_limit(owner: Constraint, name: str, value: float) -> None:
    check_number(owner, name, value)
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(
            f"{type(owner).__name__}({name}={value}) must be finite and at least 0 (0 allows costs of zero only)."
        )


def check_positive(owner: Constraint, name: str, value: float) -> None:
    check_number(owner, name, value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{type(owner).__name__}({name}={value}) must be finite and above 0.")


def check_discount(owner: Constraint, value: float) -> None:
    check_number(owner, "discount", value)
    if not 0 < value <= 1:
        raise ValueError(f"{type(owner).__name__}(discount={value}) must lie in (0, 1]; 1 adds costs up plainly.")


def check_callable(owner: Constraint, name: str, value: object) -> None:
    if not callable(value):
        raise ValueError(
            f"{type(owner).__name__}({name}={value!r}) must be a function of the observations (n, ...) that returns "
            "a bool for each."
        )
