"""Linear functions with visible coefficients: models of a signal or a cost, and feedback controllers."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array


@final
class Linear:
    """Linear function of states and actions, for `Known`: states · A + actions · B + c.

    A plain Python function does as well, except that `Shield.export_c` cannot translate it.

    Args:
        of_states: coefficients of the encoded observation, (ds,), or (ds, S) for S values.
        of_actions: coefficients of the action, (da,) or (da, S).
        constant: the constant, () or (S,).

    Example:
        >>> next_level = safexp.Linear([1.0, 0.1], [0.0])
        >>> next_level(np.array([[2.0, 3.0]]), np.array([[5.0]]))
        array([2.3])
    """

    def __init__(self, of_states: ArrayLike, of_actions: ArrayLike, constant: ArrayLike = 0.0) -> None:
        self.of_states, self.of_actions, self.constant = (
            np.asarray(part, dtype=np.float64) for part in (of_states, of_actions, constant)
        )
        if not 1 <= self.of_states.ndim <= 2 or self.of_states.shape[1:] != self.of_actions.shape[1:]:
            raise ValueError(
                f"Linear(of_states={self.of_states.shape}, of_actions={self.of_actions.shape}) must have the shapes "
                "(ds,) and (da,), or (ds, S) and (da, S)."
            )
        if self.constant.shape not in ((), self.of_states.shape[1:]):
            raise ValueError(f"Linear(constant={constant!r}) must be a number, or one for each value.")
        if not all(np.isfinite(part).all() for part in (self.of_states, self.of_actions, self.constant)):
            raise ValueError("Linear(...) has a coefficient that is not finite.")

    def __call__(self, states: Array, actions: Array) -> Array:
        """Values (N,) or (N, S) at states (N, ds) and actions (N, da)."""
        return np.asarray(states @ self.of_states + actions @ self.of_actions + self.constant)


@final
class LinearFeedback:
    """Controller target + gains · (observation − centre), clipped: a brake, a PD controller, an LQR.

    As the controller of a `Backup` it can be exported to C with the shield (`Shield.export_c`).

    Args:
        gains: (da, ds).
        centre: observation at which the action is the target, () or (ds,).
        target: action there, () or (da,).
        low: smallest action, () or (da,).
        high: largest action, () or (da,).

    Example:
        >>> brake = safexp.LinearFeedback([[0.0, -2.0]], low=-1.0, high=1.0)
        >>> brake(np.array([[0.3, 0.1], [0.0, 4.0]]))
        array([[-0.2],
               [-1. ]])
    """

    def __init__(
        self,
        gains: ArrayLike,
        *,
        centre: ArrayLike = 0.0,
        target: ArrayLike = 0.0,
        low: ArrayLike = -np.inf,
        high: ArrayLike = np.inf,
    ) -> None:
        self.gains = np.asarray(gains, dtype=np.float64)
        if self.gains.ndim != 2 or not np.isfinite(self.gains).all():
            raise ValueError(f"LinearFeedback(gains={gains!r}) must be a finite matrix (da, ds).")
        actions, entries = self.gains.shape
        self.centre = _broadcast("centre", centre, entries)
        self.target, self.low, self.high = (
            _broadcast(name, value, actions) for name, value in (("target", target), ("low", low), ("high", high))
        )
        if not (np.isfinite(self.centre).all() and np.isfinite(self.target).all() and (self.low <= self.high).all()):
            raise ValueError("LinearFeedback(...) needs a finite centre and target, and low at most high.")

    def __call__(self, observations: Any) -> Array:
        """Actions (n, da) for observations (n, ds)."""
        seen = np.asarray(observations, dtype=np.float64)
        wanted = (seen - self.centre) @ self.gains.T + self.target
        return np.minimum(np.maximum(wanted, self.low), self.high)


def _broadcast(name: str, value: ArrayLike, size: int) -> Array:
    try:
        return np.broadcast_to(np.asarray(value, dtype=np.float64), (size,)).copy()
    except ValueError:
        raise ValueError(
            f"LinearFeedback({name}={value!r}) must be one number, or one for each of {size} entries."
        ) from None
