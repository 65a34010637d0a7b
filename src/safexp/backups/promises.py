"""Promises of look-ahead certificates, and where they were broken."""

from __future__ import annotations

import numpy as np

from safexp.constraints.base import TOLERANCE
from safexp.core.arrays import Array, Flags


class Promises:
    """Remaining cost that the last certificate of each of n environments allows the backup.

    A certificate bounds the sum of an action's cost and those of the backup after it. It is *broken* in a step whose
    cost exceeds what was left of that sum. Where no certificate is needed, in a first state and after an action that
    the user vouches for, all that remains of the constraint is promised.

    Args:
        num_envs: n.
        summed: (K,) which of the costs have a limited sum; others promise nothing.
    """

    def __init__(self, num_envs: int, summed: Flags) -> None:
        self._summed = summed
        self._left: Array = np.zeros((num_envs, len(summed)))
        self.broken: Flags = np.zeros(num_envs, dtype=bool)
        """Environments (n,) in which the last step broke a promise."""

    def renew(self, certified: Flags, bounds: Array) -> None:
        """Note the bounds (n, K) of the certified (n,) actions that are about to be run."""
        self._left[certified] = bounds[certified]

    def note(self, costs: Array) -> None:
        """Subtract the costs of a step, (n,) or (n, K)."""
        costs = costs.reshape(len(costs), -1)
        self._left -= costs
        self.broken = np.any((self._left < -TOLERANCE) & (costs > 0) & self._summed, axis=1)

    def trust(self, rows: Flags, remaining: Array) -> None:
        """Expect no more of these (n,) environments than what remains, thresholds (n,) or (n, K), as at a reset."""
        self._left[rows] = remaining.reshape(len(remaining), -1)[rows]
        self.broken[rows] = False

    def hopeless(self, remaining: Array) -> Flags:
        """Where a broken promise leaves less than one more cost: `remaining` thresholds (n,) or (n, K), not yet spent.

        An episode is stopped there, before the violation; where it has already come to one, nothing is left to stop.
        """
        left = remaining.reshape(len(remaining), -1)[:, self._summed]
        return self.broken & ((left >= 0) & (left < 1)).any(axis=1)
