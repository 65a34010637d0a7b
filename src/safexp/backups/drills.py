"""Drills: the backup drives from certified states, to measure how often certificates are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from safexp.constraints import AllOf, Constraint
from safexp.constraints.base import TOLERANCE
from safexp.core.arrays import Array, Flags


class Drills:
    """Drills in n environments, and their results.

    A drill begins with a certified action, after which the backup drives for its horizon. The certificate was *missed*
    if the largest cost on the way, or the sum of costs, exceeded its bound. A drill that is cut short by the end of its
    episode is judged only if it had missed by then.

    Args:
        num_envs: n.
        horizon: largest number of steps that the backup drives.
        share: share of all steps to spend on drills.
        discounts: (K,) discounts of the bounded sums; NaN where the largest cost is bounded.
        seed: seed of the random choice of where drills begin.
    """

    def __init__(
        self, num_envs: int, horizon: int, share: float, discounts: Sequence[float] = (math.nan,), seed: int = 0
    ) -> None:
        self.horizon = horizon
        self.share = share
        self.judged = self.missed = 0
        self._discounts = np.array(discounts)
        self._rng = np.random.default_rng(seed)
        self._left = np.zeros(num_envs, dtype=np.int64)
        self._length = np.zeros(num_envs, dtype=np.int64)
        self._bounds: Array = np.zeros((num_envs, len(discounts)))
        self._worst: Array = np.zeros((num_envs, len(discounts)))

    @property
    def running(self) -> Flags:
        """Environments (n,) in which a drill is running."""
        return self._left > 0

    def drawn(self, certified: Flags) -> Flags:
        """Some of the certified (n,) actions that are about to be run: drills shall begin with these."""
        if not self.share:
            return np.zeros_like(certified)
        rate = self.share / (self.horizon * (1 - self.share))
        return np.asarray(certified & ~self.running & (self._rng.random(len(certified)) < rate))

    def begin(self, rows: Flags, bounds: Array, steps: NDArray[np.int64]) -> None:
        """Begin drills of `steps` (k,) in the marked k of n rows, with actions that have these bounds (n, K)."""
        self._left[rows] = self._length[rows] = steps + 1
        self._bounds[rows], self._worst[rows] = bounds[rows], 0.0

    def note(self, costs: Array, ended: Flags) -> None:
        """Record the costs of a step, (n,) or (n, K), and the episodes (n,) that it ended."""
        running = self.running
        if not running.any():
            return
        costs, worst = costs.reshape(len(costs), -1)[running], self._worst[running]
        weights = self._discounts ** (self._length[running] - self._left[running])[:, None]
        self._worst[running] = np.where(np.isnan(weights), np.maximum(worst, costs), worst + weights * costs)
        self._left[running] -= 1
        missed = (self._worst > self._bounds + TOLERANCE).any(axis=1)
        over = running & ((self._left == 0) | (ended & missed))
        self.judged += int(over.sum())
        self.missed += int((over & missed).sum())
        self._left[ended] = 0

    def end(self, rows: Flags) -> None:
        """Cancel drills in environments (n,) whose episodes were ended between two steps."""
        self._left[rows] = 0

    def cancel(self) -> None:
        """Cancel all drills and begin no more, as in an audit and wherever an agent is put to use."""
        self.share = 0.0
        self._left[:] = 0

    def metrics(self) -> dict[str, float]:
        """Number of judged drills, and of those in which the certificate was wrong."""
        return {"drills": self.judged, "drills_missed": self.missed}

    def state(self) -> dict[str, NDArray[Any]]:
        """Counts, to be saved."""
        return {"drills": np.array([self.judged, self.missed])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Restore the output of `state`."""
        if "drills" in state:
            self.judged, self.missed = map(int, state["drills"])


def discounts_of(constraint: Constraint) -> list[float]:
    """Discount of the sum of each cost (K,) of a constraint, NaN where every single cost is limited."""
    found: list[float] = []
    for part in constraint.parts if isinstance(constraint, AllOf) else (constraint,):
        own = math.nan if part.on_every_step else float(getattr(part, "discount", 1.0))
        found += [own] * part.num_costs
    return found
