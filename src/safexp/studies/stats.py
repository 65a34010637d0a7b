"""Statistics that a report may quote."""

from __future__ import annotations


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
