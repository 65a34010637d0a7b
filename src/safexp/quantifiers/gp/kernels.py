"""Stationary kernels k(x, y) of unit variance, as pure functions of the scaled distance."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from safexp.core.arrays import Array

Kernel = Literal["rbf", "matern12", "matern32", "matern52"]


def covariance(kernel: Kernel, x: Array, y: Array) -> Array:
    """The matrix k(x_i, y_j) (n, m) of points x (n, d) and y (m, d), already divided by the lengthscales."""
    from scipy.spatial.distance import cdist  # not at the top: the command line starts twice as fast without it

    if kernel == "rbf":
        return np.asarray(np.exp(-0.5 * cdist(x, y, "sqeuclidean")))
    distance = cdist(x, y)
    if kernel == "matern12":
        return np.exp(-distance)
    if kernel == "matern32":
        scaled = math.sqrt(3) * distance
        return (1 + scaled) * np.exp(-scaled)
    scaled = math.sqrt(5) * distance
    return (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
