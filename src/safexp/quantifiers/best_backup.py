"""Certificate of an action after which any one of several backups may drive."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, restore_parts, state_of_parts


class BestBackup(Quantifier):
    """Certificate of an action followed by the best of several backups.

    Each part looks ahead to one backup. Of an action, the interval is that of the backup whose largest upper bound is
    the smallest, the first of equal ones: `chosen` names it, and this one must drive where nothing is certified next.
    The second backup is only asked about actions for which the first is not free of cost, and so on.

    The probability that any part misses is at most the sum of their δ.

    Usually made by `Backup(hold=..., others=...)`; build it yourself only from `Known` certificates.

    Args:
        parts: a quantifier for each backup, in the order of its options.

    Example:
        >>> brake = safexp.Known(lambda states, actions: np.full(len(states), 0.8))
        >>> veer = safexp.Known(lambda states, actions: np.full(len(states), 0.2))
        >>> best = safexp.BestBackup(brake, veer)
        >>> mean, width = best.predict(np.zeros((1, 2)), np.zeros((1, 1, 1)))
        >>> print(mean)
        [[0.2]]
    """

    def __init__(self, *parts: Quantifier) -> None:
        self.parts = parts
        self.num_costs = parts[0].num_costs
        self.num_signals = parts[0].num_signals
        self.delta = sum(part.delta for part in parts)
        self.bounds_realised_cost = all(part.bounds_realised_cost for part in parts)
        self.looks_ahead = True

    @classmethod
    def of(cls, quantifier: Quantifier, count: int) -> BestBackup:
        """`count` copies that share the δ of one."""
        return cls(*(quantifier.with_delta(quantifier.delta / count) for _ in range(count)))

    @property
    def knows(self) -> bool:
        return any(part.knows for part in self.parts)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        mean, width, _ = self._best(states, actions)
        return mean, width

    def chosen(self, states: Array, actions: Array) -> NDArray[np.int64]:
        """Index (n,) of the backup on which the interval of each action (n, da) in its state (n, ds) rests."""
        return self._best(states, actions[:, None])[2][:, 0]

    def outcomes(self, states: Array, actions: Array) -> Array | None:
        """Outcomes for the last backup, which holds an action for the longest time."""
        return self.parts[-1].outcomes(states, actions)

    def update(self, data: Transitions) -> None:
        for part in self.parts:
            part.update(data)

    def fit(self, data: Transitions) -> None:
        for part in self.parts:
            part.fit(data)

    def settings(self) -> dict[str, Any]:
        """Empty: the parts are described separately."""
        return {}

    def state(self) -> dict[str, NDArray[Any]]:
        return state_of_parts(self.parts)

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        restore_parts(self.parts, state)

    def with_delta(self, delta: float) -> Self:
        share = delta / len(self.parts)
        return type(self)(*(part.with_delta(share) for part in self.parts))

    def _best(self, states: Array, actions: Array) -> tuple[Array, Array, NDArray[np.int64]]:
        """Mean and width (n, m) or (n, m, K) of the best backup, and its index (n, m)."""
        n, m, _ = actions.shape
        mean, width = (np.array(part, dtype=np.float64) for part in self.parts[0].predict(states, actions))
        chosen = np.zeros((n, m), dtype=np.int64)
        least = _largest(mean, width)
        for k, part in enumerate(self.parts[1:], start=1):
            rows, columns = np.nonzero(least > 0)
            if not len(rows):
                break
            every = len(rows) == n * m
            answer = (
                part.predict(states, actions) if every else part.predict(states[rows], actions[rows, columns][:, None])
            )
            own_mean, own_width = (np.asarray(one).reshape(len(rows), *mean.shape[2:]) for one in answer)
            bound = _largest(own_mean[:, None], own_width[:, None])[:, 0]
            better = bound < least[rows, columns]
            at = rows[better], columns[better]
            mean[at], width[at] = own_mean[better], own_width[better]
            least[at], chosen[at] = bound[better], k
        return mean, width, chosen


def _largest(mean: Array, width: Array) -> Array:
    """Largest upper bound (n, m) of any cost; infinite where one is not a number."""
    upper = mean + width
    upper = np.where(np.isnan(upper), np.inf, upper)
    return np.asarray(upper if upper.ndim == 2 else upper.max(axis=2))
