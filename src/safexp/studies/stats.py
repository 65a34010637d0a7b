"""Statistics that a report may quote."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from safexp.signals import Array

BISECTIONS = 60
"""Halvings of [0, 1]: more than a double has digits."""


def exact_interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Clopper-Pearson interval of a probability, from `count` events in `total` independent trials."""
    if total == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest  # here, because it takes longer to import than all the rest

    interval = binomtest(count, total).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def upper_bound(count: int, total: int, confidence: float = 0.95) -> float:
    """The upper end of the exact one-sided interval of a probability, from `count` events in `total` trials."""
    if count >= total:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(confidence, count + 1, total - count))


def anytime_interval(count: ArrayLike, total: ArrayLike, confidence: float = 0.95) -> tuple[Array, Array]:
    """Intervals of a probability that hold at all times at once, so that one may look and stop whenever one likes.

    With k events in n trials, the wealth of a bettor who spreads his money over all probabilities q by Jeffreys' prior
    is M(p) = ∫ qᵏ(1 − q)ⁿ⁻ᵏ dBeta(q; ½, ½) / (pᵏ(1 − p)ⁿ⁻ᵏ), a martingale if p is the truth. By Ville's inequality it
    ever exceeds 1/α with probability at most α; the interval is where it does not (Robbins 1970). M is convex in p with
    its least value at k/n. `count` and `total` may be arrays; so are both ends then.
    """
    from scipy.special import betaln, xlog1py, xlogy

    k, n = np.broadcast_arrays(np.asarray(count, dtype=np.float64), np.asarray(total, dtype=np.float64))
    limit = -np.log1p(-confidence) - betaln(k + 0.5, n - k + 0.5) + betaln(0.5, 0.5)
    best = k / np.maximum(n, 1)

    def end(inner: Array, outer: Array) -> Array:
        for _ in range(BISECTIONS):
            middle = (inner + outer) / 2
            kept = -xlogy(k, middle) - xlog1py(n - k, -middle) <= limit
            inner, outer = np.where(kept, middle, inner), np.where(kept, outer, middle)
        return outer

    low = np.where(k > 0, end(best, np.zeros_like(best)), 0.0)
    high = np.where(k < n, end(best, np.ones_like(best)), 1.0)
    return low, high
