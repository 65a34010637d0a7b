"""Quantifier of a cost that the user knows as a function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions


class Known(Quantifier):
    """Quantifier with a cost function that the user knows, and a width of 0 or as given.

    A function that raises or returns NaN certifies nothing; `Shield.last_failure` is the reason. Use `Linear` if the
    shield is to be exported to C.

    Args:
        cost: function of states (N, ds) and actions (N, da), discrete ones one-hot, that returns costs (N,) in [0, 1];
            under `Within` the signals after the step, (N,) or (N, S), in their own units.
        width: largest distance of the true cost from it: a number, or a function like `cost`.
        delta: probability that the true cost is ever further away.

    Example:
        >>> heat = safexp.Known(lambda states, actions: 0.5 * states[:, 0] + 0.5 * actions[:, 0], width=0.01)
        >>> mean, width = heat.predict(np.array([[0.4]]), np.array([[[0.0], [1.0]]]))
        >>> print(mean, width)
        [[0.2 0.7]] [[0.01 0.01]]
    """

    bounds_realised_cost = True

    def __init__(
        self,
        cost: Callable[[Array, Array], ArrayLike],
        width: float | Callable[[Array, Array], ArrayLike] = 0.0,
        *,
        delta: float = 0.0,
    ) -> None:
        if not callable(cost):
            raise TypeError(f"Known(cost={cost!r}) must be a function of states (N, ds) and actions (N, da).")
        if not callable(width) and not width >= 0:
            raise ValueError(f"Known(width={width}) must be at least 0.")
        self.cost = cost
        self.width = width
        self.delta = delta

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.values(states, actions, ())

    def values(self, states: Array, actions: Array, single: tuple[int, ...]) -> tuple[Array, Array]:
        """Values of the two functions, (n, m, ...), where one pair of state and action has values of shape `single`."""
        n, m, size = actions.shape
        pairs = np.repeat(states, m, axis=0), actions.reshape(n * m, size)
        mean = np.asarray(self.cost(*pairs), dtype=np.float64)
        width = np.asarray(self.width(*pairs) if callable(self.width) else np.full(mean.shape, self.width), dtype=float)
        for name, found in (("cost", mean), ("width", width)):
            if found.shape != (n * m, *single) and not (single == (1,) and found.shape == (n * m,)):
                raise ValueError(
                    f"Known's function {name} returned shape {found.shape}, expected {(n * m, *single)}: it is called "
                    f"with states {pairs[0].shape} and actions {pairs[1].shape} and returns one number for each pair."
                )
        return mean.reshape(n, m, *single), width.reshape(n, m, *single)

    def update(self, data: Transitions) -> None:
        """Nothing to learn."""
