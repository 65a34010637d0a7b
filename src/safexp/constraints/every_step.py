"""Limits on the cost of every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from safexp.constraints.base import (
    TOLERANCE,
    Constraint,
    check_cost,
    check_limit,
    check_positive,
    exceeds,
)
from safexp.core.arrays import Array, Observations, batch_size
from safexp.core.costs import CostSource
from safexp.core.obstacles import Obstacles


@dataclass(frozen=True)
class Instantaneous(Constraint):
    """Limit on the cost of every step (Problem 3): g_h ≤ b_h = `limit`.

    A learned quantifier certifies nothing before it has data: give `MASE` or `Shield` a log or a safe action. To limit
    a measured quantity use `Within`, which models the signal instead of a cost.

    Args:
        limit: largest cost of a step, in the user's units.
        cost: see `Budget`.
        cost_max: see `Budget`.
        among: see `Budget`.

    Example:
        >>> limit = safexp.Instantaneous(120, cost_max=200)
        >>> limit.threshold(limit.start(np.zeros((1, 4))))
        array([0.6])
    """

    limit: float
    cost: CostSource = "cost"
    cost_max: float = 1.0
    among: Obstacles | None = field(default=None, kw_only=True)
    on_every_step: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_limit(self, "limit", self.limit)
        check_positive(self, "cost_max", self.cost_max)
        check_cost(self, self.cost)
        object.__setattr__(self, "among", Obstacles.of(self.among))

    def threshold(self, state: Array) -> Array:
        return np.full(len(state), self.limit / self.cost_max + TOLERANCE)

    def violated(self, first: Array, signals: Array) -> bool:
        return exceeds(float(signals.max(initial=0.0)) / self.cost_max, self.limit / self.cost_max)


@dataclass(frozen=True, eq=False)
class Schedule(Constraint):
    """Limit on the cost of each step that changes during an episode (Problem 4): g_h ≤ `limits[h]`.

    `limits` is an array, whose last value holds after its end, or a function of the steps (n,) since the reset. The
    function is called for a step only when that step comes, by the shield and right after by the judge: thresholds are
    known myopically. Its answer at that moment holds for the step, even if it would answer differently later.

    A limit that falls faster than the machine can follow stops episodes: let it fall earlier, or use a `Backup`. On
    signals use `Within` with a schedule.

    Args:
        limits: array whose last value holds after its end, or a function of the steps (n,) since the reset.
        cost: see `Budget`.
        cost_max: see `Budget`.

    Example:
        >>> night = safexp.Schedule([0.5, 0.5, 0.2])
        >>> state = night.start(np.zeros((1, 4)))
        >>> night.threshold(state)
        array([0.5])
    """

    limits: ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]
    cost: CostSource = "cost"
    cost_max: float = 1.0
    memory: ClassVar[int] = 2  # the step, and its limit
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

    def start(self, observations: Observations) -> Array:
        return self._at(np.zeros(batch_size(observations), dtype=np.int64))

    def threshold(self, state: Array) -> Array:
        return state[:, 1] / self.cost_max + TOLERANCE

    def update(self, state: Array, cost: Array, upper_bound: Array) -> Array:
        return self._at(state[:, 0].astype(np.int64) + 1)

    def violated(self, first: Array, signals: Array) -> bool:
        excess = signals - self.limits_at(np.arange(len(signals)))
        return exceeds(float(excess.max(initial=0.0)) / self.cost_max, 0.0)

    def settled(self, limits: Array) -> Schedule:
        return replace(self, limits=limits.__getitem__) if callable(self.limits) else self

    def _at(self, steps: NDArray[np.int64]) -> Array:
        return np.stack([steps.astype(np.float64), self.limits_at(steps)], axis=-1)

    def limits_at(self, steps: NDArray[np.int64]) -> Array:
        if not callable(self.limits):
            limits = np.asarray(self.limits, dtype=np.float64)
            return limits[np.minimum(steps, len(limits) - 1)]
        limits = np.asarray(self.limits(steps), dtype=np.float64)
        if limits.shape != steps.shape or not np.all(np.isfinite(limits)):
            raise ValueError(
                f"Schedule's function must return one finite limit for each of the steps {steps.tolist()}, "
                f"got {limits!r}; it is called with an array (n,) and must return an array (n,)."
            )
        return limits
