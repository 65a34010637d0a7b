"""Calibration of a quantifier's widths, on stretches bolder than its data and on those of the run."""

from __future__ import annotations

import copy
import logging
import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array
from safexp.quantifiers.base import Quantifier, Transitions, rows_of, stretches_of
from safexp.quantifiers.boldness import by_boldness, ladder, stretch_maxima

INNER = "inner."
"""Prefix of the inner quantifier's array names in `Calibrated.state`."""

LEAST_CONFIDENCE = 0.5
"""Confidence below which nothing is certified."""

log = logging.getLogger("safexp")


class Calibrated(Quantifier):
    """Quantifier whose widths are scaled so that they miss at most a share δ of all stretches.

    A *stretch* is an episode, or the part of one in an update. Its score is the largest error of any of its steps in
    the unsafe direction, in widths; it is *missed* at scale s if its score is above s. No step has to be costly: the
    log of a cautious controller calibrates as well as any.

    `fit` scores every stretch by a model that has not seen it. The boldest fifth, which came nearest to its limit, is
    scored by a model of the others; the boldest fifth of those by a model of the remaining ones; and so on, `rungs`
    times. Exploration goes where the log was boldest and then further, so each rung tests what a run will need: is the
    model right one step bolder than its data? Of the timid rest, every second one is scored by a model of all others.

    The scale is the smallest score that, with this `confidence`, a further stretch exceeds with probability at most δ
    (`least_scale`): of all scores, for stretches like those of the log; and of only the boldest, as many as that
    requires (59 by default, of which it is the largest), for stretches that are bolder by as much. With fewer stretches
    in total it is the largest score, and `reached` is its confidence; below 50% nothing is certified.

    A policy that learns produces different stretches. So every update first scores the new ones, before it learns from
    them: they join the latest `capacity` scores, as the boldest, and in addition each miss multiplies the scale by
    e^{rate·(1−δ)} and each hit divides it by e^{rate·δ}, never to below the scale of the scores.

    If `reached` is below `confidence`, the log has too few episodes: 59 are needed for δ = 0.05. If the scale is large,
    the model is wrong where the log is boldest: `examine` says which input is missing.

    Args:
        quantifier: predicts one cost or those of `Within` (`PerCost` takes several calibrated ones).
        delta: share of stretches that may be missed.
        confidence: confidence in the bound from the scored stretches.
        rungs: how many times the boldest fifth of the remaining stretches is held out.
        rate: weight of a miss during a run; 0 ignores the run.
        least: smallest scale; 1 never narrows the quantifier's widths.
        capacity: number of scores kept: the latest, and the boldest of a log.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(-1, 1, (300, 1)), rng.uniform(-0.3, 0.3, (300, 1))
        >>> log = safexp.Log(states, actions, episodes=np.arange(300) // 10, next_observations=states + actions)
        >>> box = gym.spaces.Box(-2.0, 2.0, (1,), np.float64)
        >>> certificate = safexp.Calibrated(safexp.ChangeModel(safexp.FeatureRegression(num_features=16)), delta=0.1)
        >>> shield = safexp.Shield(certificate, box, box, constraint=safexp.Within(0, low=-1.5, high=1.5))
        >>> shield.fit(log)
        >>> print(round(shield.quantifier.scale, 2), round(shield.quantifier.reached, 2))
        1.0 0.95
    """

    bounds_realised_cost = True

    def __init__(
        self,
        quantifier: Quantifier,
        *,
        delta: float = 0.05,
        confidence: float = 0.95,
        rungs: int = 5,
        rate: float = 0.05,
        least: float = 1.0,
        capacity: int = 500,
    ) -> None:
        for name, value in [("delta", delta), ("confidence", confidence)]:
            if not 0 < value < 1:
                raise ValueError(f"Calibrated({name}={value}) must lie in (0, 1).")
        for name, value in [("rate", rate), ("least", least)]:
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Calibrated({name}={value}) must be finite and at least 0.")
        if rungs < 1:
            raise ValueError(f"Calibrated(rungs={rungs}) must be at least 1, to hold out any stretches.")
        needed = stretches_needed(delta, confidence)
        if capacity < needed:
            raise ValueError(
                f"Calibrated(capacity={capacity}) is too small: delta={delta:g} with confidence {confidence:g} needs "
                f"{needed} stretches."
            )
        self.quantifier = quantifier
        self.delta = delta
        self.confidence = confidence
        self.rungs = rungs
        self.rate = rate
        self.least = least
        self.capacity = capacity
        self.num_costs = quantifier.num_costs
        self.num_signals = quantifier.num_signals
        self.looks_ahead = quantifier.looks_ahead
        self.excess = 0.0
        self.scale = math.inf
        self.scores: Array = np.zeros(0)
        self._told = False

    promises_coverage = True

    @property
    def reached(self) -> float:
        """Confidence that the scale misses at most a share δ of stretches like the scored ones."""
        return self.confidence if len(self.scores) >= self._needed else 1.0 - (1.0 - self.delta) ** len(self.scores)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.as_costs(*self.interval(states, actions))

    def interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        return self.scaled_interval(states, actions, 1.0)

    def scaled_interval(self, states: Array, actions: Array, scale: float) -> tuple[Array, Array]:
        if math.isfinite(self.scale):
            return self.quantifier.scaled_interval(states, actions, scale * self.scale)
        mean, width = self.quantifier.interval(states, actions)
        return np.asarray(mean), np.full(np.shape(width), np.inf)

    def outcomes(self, states: Array, actions: Array) -> Array | None:
        return self.quantifier.outcomes(states, actions)

    def as_costs(self, mean: Array, width: Array) -> tuple[Array, Array]:
        return self.quantifier.as_costs(mean, width)

    def observed(self, data: Transitions) -> Array:
        return self.quantifier.observed(data)

    def error(self, observed: Array, mean: Array) -> Array:
        return self.quantifier.error(observed, mean)

    def nearness(self, data: Transitions) -> Array:
        return self.quantifier.nearness(data)

    def fit(self, data: Transitions) -> None:
        self._check(data)
        self.excess, self._told = 0.0, False
        stretches = stretches_of(data)
        scores = np.zeros(0)
        for learned, held_out in ladder(by_boldness(self.quantifier, data, stretches), self.rungs):
            model = copy.deepcopy(self.quantifier)
            model.fit(rows_of(data, np.isin(stretches, learned)))
            unseen = np.isin(stretches, held_out)
            found = stretch_maxima(transition_scores(model, rows_of(data, unseen), held_out=True), stretches[unseen])
            scores = np.append(scores, found[np.argsort(np.argsort(held_out))])
        self.scores = scores[~np.isnan(scores)][-self.capacity :]
        self.quantifier.fit(data)
        self._rescale()

    def update(self, data: Transitions) -> None:
        self._check(data)
        if self.quantifier.knows:
            new = stretch_maxima(transition_scores(self.quantifier, data), stretches_of(data))
            new = new[~np.isnan(new)]
            if math.isfinite(self.scale):
                misses = int((new > self.scale).sum())
                self.excess = max(self.excess + self.rate * (misses - self.delta * len(new)), 0.0)
            self.scores = np.concatenate([self.scores, new])[-self.capacity :]
        self.quantifier.update(data)
        self._rescale()

    def state(self) -> dict[str, NDArray[Any]]:
        inner = {f"{INNER}{name}": part for name, part in self.quantifier.state().items()}
        return {**inner, "scores": self.scores.copy(), "excess": np.array([self.excess])}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.quantifier.restore(
            {name.removeprefix(INNER): part for name, part in state.items() if name.startswith(INNER)}
        )
        self.scores, self.excess = np.array(state["scores"]), float(state["excess"][0])
        self._told = True
        self._rescale()

    def with_delta(self, delta: float) -> Self:
        inner = self.quantifier.with_delta(self.quantifier.delta * delta / self.delta)
        settings = self.settings() | {"delta": delta}
        settings["capacity"] = max(self.capacity, stretches_needed(delta, self.confidence))
        copied = type(self)(inner, **settings)
        copied.restore(self.state())
        return copied

    @property
    def _needed(self) -> int:
        return stretches_needed(self.delta, self.confidence)

    def _rescale(self) -> None:
        scale = math.inf
        if self.reached >= LEAST_CONFIDENCE:
            scale = float(self.scores[-self._needed :].max())
            if len(self.scores) > self._needed:
                scale = max(scale, least_scale(self.scores, self.delta, self.confidence))
        self.scale = max(scale, self.least) * math.exp(min(self.excess, 700.0)) if math.isfinite(scale) else math.inf
        if not self._told and self.quantifier.knows:
            self._told = True
            if shortage := self.shortage:
                log.warning("%s", shortage)

    @property
    def shortage(self) -> str:
        """What the calibration lacks, as a clause; empty if nothing."""
        count, beyond = len(self.scores), int(np.isinf(self.scores).sum())
        if math.isinf(self.scale) and beyond and self.reached >= LEAST_CONFIDENCE:
            return f"Calibrated certifies nothing: no finite scale covers {beyond} of {count} stretches"
        if count >= self._needed:
            return ""
        nothing = ", so nothing is certified" if math.isinf(self.scale) else ""
        return (
            f"Calibrated has {count} stretches, and {self._needed} are needed for delta={self.delta:g} with confidence "
            f"{self.confidence:g}: its scale holds with confidence {self.reached:.0%}{nothing}; give more episodes, or "
            "a larger delta"
        )

    def _check(self, data: Transitions) -> None:
        if data.costs.ndim != 1 and data.signals is None:
            raise ValueError(
                f"Calibrated received costs of shape {data.costs.shape}, expected (n,): calibrate each of several "
                "costs separately, PerCost(Calibrated(...), Calibrated(...))."
            )


def stretches_needed(delta: float, confidence: float) -> int:
    """Number of stretches without a miss that show, with this confidence, that at most a share δ is missed."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - delta))


def least_scale(scores: Array, delta: float, confidence: float) -> float:
    """The smallest score (n,) that a further one exceeds with probability at most δ, with this confidence.

    The score with j larger ones is such a bound if P[Binomial(n, δ) ≤ j] ≤ 1 − confidence (Wilks 1941; it only assumes
    independent, identically distributed scores). Infinite if not even the largest score is.
    """
    if len(scores) == 0:
        return math.inf
    from scipy.stats import binom  # slow to import

    risks = binom.cdf(np.arange(len(scores)), len(scores), delta)
    larger = int(np.searchsorted(risks, 1 - confidence, side="right")) - 1
    return math.inf if larger < 0 else float(np.sort(scores)[len(scores) - 1 - larger])


def transition_scores(model: Quantifier, data: Transitions, *, held_out: bool = False) -> Array:
    """The largest error of each transition (n,) in widths; infinite where the model has no prediction."""
    try:
        return model.score(data, held_out=held_out)
    except Exception as error:  # any error means that nothing was predicted
        log.warning("%s could not be calibrated: %s", type(model).__name__, error)
        return np.full(len(data.costs), np.inf)
