"""Statistics for reports: exact, anytime and bootstrap intervals, inter-quartile means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from safexp.core.arrays import Array

# Functions import scipy themselves, because it takes longer to import than everything else.

TRIMMED = 0.25
"""Share of the scores that an inter-quartile mean drops at either end."""

RESAMPLES = 2000
"""Number of bootstrap samples for an interval."""

BISECTIONS = 60
"""Number of bisections of [0, 1]: more than a double has bits."""


def exact_interval(count: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The Clopper-Pearson interval of a probability, from `count` events in `total` independent trials."""
    if total == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(confidence, method="exact")
    return float(interval.low), float(interval.high)


def upper_bound(count: int, total: int, confidence: float = 0.95) -> float:
    """The upper end of the exact one-sided interval of a probability, from `count` events in `total` trials."""
    if count >= total:
        return 1.0
    from scipy.stats import beta

    return float(beta.ppf(confidence, count + 1, total - count))


def mean_and_deviation(scores: ArrayLike, axis: int = -1) -> tuple[Any, Any]:
    """The mean and one standard deviation σ (of these scores, not of the population), as the paper shows."""
    values = np.asarray(scores, dtype=np.float64)
    return values.mean(axis=axis), values.std(axis=axis)


def interquartile_mean(scores: ArrayLike, axis: int = -1) -> Any:
    """The mean of the middle half of the scores: one lucky or unlucky seed moves it less than the mean."""
    from scipy.stats import trim_mean

    return trim_mean(np.asarray(scores, dtype=np.float64), TRIMMED, axis=axis)


def interquartile_interval(strata: Sequence[ArrayLike], seed: int = 0) -> tuple[Any, Any]:
    """The 95% stratified bootstrap interval of the inter-quartile mean of all scores together.

    Every stratum (…, n), such as the scores of a task's seeds, is resampled separately, along its last axis; there is
    one interval for each entry of the leading axes, such as epochs.
    """

    def pooled(*samples: Array, axis: int = -1) -> Any:
        return interquartile_mean(np.concatenate(samples, axis=axis), axis=axis)

    return _bootstrap(strata, pooled, seed)


def probability_of_improvement(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike]) -> float:
    """Probability that a run of ours scores better than one of theirs on the same task; ties count half.

    `ours` and `theirs` hold the scores of each task, (n,) and (m,): the mean over tasks of the Mann-Whitney statistic.
    """
    return float(_improvement(*map(_scores, [*ours, *theirs])))


def improvement_interval(ours: Sequence[ArrayLike], theirs: Sequence[ArrayLike], seed: int = 0) -> tuple[float, float]:
    """The 95% stratified bootstrap interval of `probability_of_improvement`."""
    low, high = _bootstrap([*ours, *theirs], _improvement, seed)
    return float(low), float(high)


def ratio_interval(ours: ArrayLike, theirs: ArrayLike, seed: int = 0) -> tuple[float, float]:
    """The 95% bootstrap interval of the ratio of two means, (n,) and (m,), each side resampled separately."""

    def ratio(ours: Array, theirs: Array, axis: int = -1) -> Any:
        return ours.mean(axis=axis) / theirs.mean(axis=axis)

    low, high = _bootstrap([ours, theirs], ratio, seed)
    return float(low), float(high)


def _improvement(*samples: Array, axis: int = -1) -> Any:
    """`probability_of_improvement` of samples (…, n): all of ours, then equally many of theirs."""
    if len(samples) % 2:
        raise ValueError(f"{len(samples)} samples: give the scores of both sides for every task.")
    pairs = zip(samples[: len(samples) // 2], samples[len(samples) // 2 :], strict=True)
    each = []
    for ours, theirs in pairs:
        difference = np.moveaxis(ours, axis, -1)[..., :, None] - np.moveaxis(theirs, axis, -1)[..., None, :]
        each.append((0.5 + 0.5 * np.sign(difference)).mean(axis=(-2, -1)))
    return np.mean(each, axis=0)


def _bootstrap(strata: Sequence[ArrayLike], statistic: Callable[..., Any], seed: int) -> tuple[Any, Any]:
    from scipy.stats import bootstrap

    samples = [_scores(stratum) for stratum in strata]
    if any(sample.shape[-1] < 2 for sample in samples):
        sizes = [sample.shape[-1] for sample in samples]
        raise ValueError(f"strata of {sizes} scores: a bootstrap interval needs at least 2 scores in each.")
    found = bootstrap(
        samples,
        statistic,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return found.low, found.high


def _scores(sample: ArrayLike) -> Array:
    values = np.asarray(sample, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0 or not np.isfinite(values).all():
        raise ValueError(f"scores {values.tolist()} must be one or more finite numbers.")
    return values


def anytime_interval(count: ArrayLike, total: ArrayLike, confidence: float = 0.95) -> tuple[Array, Array]:
    """Confidence sequence of a probability: intervals that hold at all times at once, for any stopping rule.

    With k events in n trials, the wealth of a bettor who spreads his money over all probabilities q by Jeffreys' prior
    is M(p) = ∫ qᵏ(1 − q)ⁿ⁻ᵏ dBeta(q; ½, ½) / (pᵏ(1 − p)ⁿ⁻ᵏ), a martingale if p is the true probability. By Ville's
    inequality it ever exceeds 1/α with probability at most α; the interval is where it does not (Robbins 1970). M is
    convex in p with its minimum at k/n. `count` and `total` may be arrays; then so are both ends.
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
