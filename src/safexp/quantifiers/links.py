"""Link functions of generalised linear models (the paper's Definition 5.1 and Assumption 5.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from safexp.core.arrays import Array

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Link:
    """Link function of a `GLM`: twice differentiable on [−1, 1], with 0 < κ̲ ≤ |f′| ≤ κ̄ and |f″| ≤ M there.

    `slope` is f′, `least_slope` κ̲, `largest_slope` κ̄ and `curvature` M.

    Args:
        value: f, of an array.
        slope: f′.
        least_slope: κ̲.
        largest_slope: κ̄.
        curvature: M.

    Example:
        >>> square = safexp.Link(lambda x: (x + 2) ** 2 / 9, lambda x: 2 * (x + 2) / 9, 2 / 9, 6 / 9, 2 / 9)
        >>> square.sign
        1.0
    """

    value: Function
    slope: Function
    least_slope: float
    largest_slope: float
    curvature: float

    def __post_init__(self) -> None:
        inside = np.linspace(-1.0, 1.0, 201)
        slope = np.asarray(self.slope(inside))
        if not 0.0 < self.least_slope <= self.largest_slope < np.inf:
            raise ValueError(
                f"the slopes must satisfy 0 < least_slope <= largest_slope < inf, got {self.least_slope} and "
                f"{self.largest_slope}"
            )
        if np.any(slope > 0) and np.any(slope < 0):
            raise ValueError("the slope changes its sign on [-1, 1]; a link must be monotone there")
        size = np.abs(slope)
        if size.min() < self.least_slope - 1e-9 or size.max() > self.largest_slope + 1e-9:
            raise ValueError(
                f"|slope| ranges from {size.min():.4g} to {size.max():.4g} on [-1, 1], beyond the given "
                f"[{self.least_slope:.4g}, {self.largest_slope:.4g}]; give wider bounds"
            )

    @property
    def sign(self) -> float:
        """1 for an increasing link, −1 for a decreasing one."""
        return float(np.sign(self.slope(np.zeros(1))[0]))

    def extended(self, x: Array) -> tuple[Array, Array]:
        """Value and slope, extended linearly beyond [−1, 1], where iterates of a fit may be."""
        inside = np.clip(x, -1.0, 1.0)
        slope = np.asarray(self.slope(inside))
        return self.value(inside) + slope * (x - inside), slope


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _sigmoid_slope(x: Array) -> Array:
    value = _sigmoid(x)
    return value * (1.0 - value)


IDENTITY = Link(lambda x: x, np.ones_like, 1.0, 1.0, 0.0)
"""f(x) = x, the linear model.

Example:
    >>> safexp.IDENTITY.value(np.array([0.3]))
    array([0.3])
"""

LOGISTIC = Link(_sigmoid, _sigmoid_slope, float(_sigmoid_slope(np.ones(1))[0]), 0.25, 0.0909)
"""f(x) = 1/(1 + e⁻ˣ); its largest |f″| on [-1, 1] is f″(-1) = 0.09086.

Example:
    >>> safexp.LOGISTIC.value(np.array([0.0]))
    array([0.5])
"""
