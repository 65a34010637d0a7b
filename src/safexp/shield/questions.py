"""Queries to a shield: encoded states, current signals, and the thresholds of the next costs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from safexp.constraints import Constraint
from safexp.core.arrays import Array, Flags, Observations, take
from safexp.core.signals import in_observation, name_of_signal
from safexp.quantifiers.base import Quantifier


class Question(NamedTuple):
    """Query about n states: observations, their encoding (n, ds), and the thresholds (n, K) of their next costs.

    `first` (n,) marks first states of an episode and those reached from there by vouched actions alone.
    """

    observations: Observations
    states: Array
    limits: Array
    first: Flags | None = None

    def rows(self, index: Any) -> Question:
        """Query about a subset of the states."""
        first = None if self.first is None else self.first[index]
        return Question(take(self.observations, index), self.states[index], self.limits[index], first)


def checked_thresholds(thresholds: ArrayLike, n: int, quantifier: Quantifier) -> Array:
    """Thresholds (n,) or (n, K) as (n, K); raises `ValueError` unless there is one per cost."""
    limits = np.asarray(thresholds, dtype=np.float64)
    if limits.ndim not in (1, 2) or len(limits) != n:
        raise ValueError(f"thresholds have shape {limits.shape}, expected ({n},) or, for K costs, ({n}, K).")
    if np.isnan(limits).any():
        raise ValueError(f"a threshold is NaN: {limits}; without one nothing can be certified.")
    limits = limits.reshape(n, -1)
    if limits.shape[1] != quantifier.num_costs:
        raise ValueError(
            f"{limits.shape[1]} thresholds for each state, but {type(quantifier).__name__} bounds "
            f"{quantifier.num_costs} costs: give one threshold for each cost."
        )
    return limits


def steady_thresholds(constraint: Constraint | None, observations: Observations) -> Array:
    """Thresholds (n,) or (n, K) of a constraint whose thresholds do not change during an episode."""
    if constraint is None:
        raise ValueError("the shield has no constraint to take a threshold from: give threshold=.")
    if constraint.in_observation:
        raise ValueError(
            f"{type(constraint).__name__} changes its threshold during an episode: give threshold=<what remains, "
            "divided by cost_max>, or let ShieldedPolicy keep the account."
        )
    return constraint.threshold(constraint.start(observations))


def with_signals(
    encoded: Array,
    count: int,
    observations: Observations,
    measured: ArrayLike | None,
    constraint: Constraint | None,
) -> Array:
    """Encoded states (n, ds), followed by the current signals (n, S).

    Raises:
        ValueError: if signals are not in the observation and were not given either.
    """
    if measured is None:
        if constraint is None:
            raise ValueError(f"the shield limits {count} signals: give measured=<their values now>, or its constraint.")
        absent = [name_of_signal(one) for one in constraint.sources if not in_observation(one, observations)]
        if absent:
            given = ", ".join(map(name_of_signal, constraint.sources))
            raise ValueError(
                f"the signal {absent[0]} is not in the observation, so the shield does not know its present value: "
                f"give measured=[{given}], as measured now."
            )
        measured = constraint.now(observations)
    signals = np.asarray(measured, dtype=np.float64)
    if signals.shape != (len(encoded), count):
        raise ValueError(f"measured has shape {signals.shape}, expected ({len(encoded)}, {count}): the signals now.")
    return np.concatenate([encoded, signals], axis=1)
