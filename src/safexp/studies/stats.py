"""Statistics that a report may quote."""

from __future__ import annotations


def exact_interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Clopper-Pearson interval of a probability, from `count` events in `total` independent trials."""
    if total == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest  # here, because it takes longer to import than all the rest

    interval = binomtest(count, total).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)
