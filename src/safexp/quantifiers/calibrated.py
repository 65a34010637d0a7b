"""A quantifier whose widths were measured: scaled on held-out episodes, and watched while the run goes on."""

from __future__ import annotations

import logging
import math
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags
from safexp.quantifiers.base import Quantifier, Transitions
from safexp.quantifiers.targets import Target, cost_interval, target_of

INNER = "inner."
"""What the names of the inner quantifier's arrays begin with in `Calibrated.state`."""

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, are spread evenly: whole numbers become a sample."""

log = logging.getLogger("safexp")


@runtime_checkable
class OnTarget(Protocol):
    """A quantifier that models the cost or the margin, and tells its interval of that."""

    target: Target

    def predict_target(self, states: Array, actions: Array) -> tuple[Array, Array]: ...


class Calibrated(Quantifier):
    """Multiplies the widths of another quantifier until they miss at most a share δ of what is costly.

    A transition is *costly* if its cost is `near` or more, and an episode if any of its transitions is. A costly
    episode is *missed* at scale s if one of its costly transitions has cost > mean + s·width. A part of all episodes is
    held out: the quantifier never learns from them. The scale is the smallest for which, with this confidence, a
    costly episode like the held-out ones is missed with probability at most δ (`least_scale`). With too few of them for
    any such statement it is infinite, and nothing is certified. Of a quantifier that models the margin, the margin's
    width is scaled, and a miss is a margin < mean − s·width.

    That holds for episodes like the held-out ones, and a policy that learns makes others. So every update first counts
    the costly episodes that were missed, before anything is learned from them: each miss multiplies the scale by
    e^{rate·(1−δ)}, each hit divides it by e^{rate·δ}, down to the held-out scale and never below. However the
    episodes come about, the share of misses is then at most δ + `excess` / (rate · episodes).

    Episodes are told apart by `Transitions.episodes`; without it each transition stands for itself, and must then be
    like the others independently of its neighbours. δ is the probability of a miss in an episode, not in the whole run.

    Args:
        quantifier: predicts the costs, one of them (`Each` takes several that are calibrated).
        delta: the share of costly episodes that may be missed.
        near: the cost, scaled to [0, 1], from which on a transition is costly; 0 takes all.
        confidence: of the statement about held-out episodes.
        holdout: the share of episodes that is held out.
        rate: how strongly a miss during the run counts; 0 does not watch.
        least: the smallest scale; 1 never makes a width narrower than the quantifier did.
        capacity: how many costly held-out episodes are kept, the latest.
    """

    bounds_realised_cost = True

    def __init__(
        self,
        quantifier: Quantifier,
        *,
        delta: float = 0.05,
        near: float = 0.0,
        confidence: float = 0.95,
        holdout: float = 0.3,
        rate: float = 0.2,
        least: float = 1.0,
        capacity: int = 500,
    ) -> None:
        for name, value in [("delta", delta), ("confidence", confidence), ("holdout", holdout)]:
            if not 0 < value < 1:
                raise ValueError(f"Calibrated({name}={value}) must lie in (0, 1).")
        for name, value in [("near", near), ("rate", rate), ("least", least)]:
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"Calibrated({name}={value}) must be finite and at least 0.")
        needed = episodes_needed(delta, confidence)
        if capacity < needed:
            raise ValueError(
                f"Calibrated(capacity={capacity}) is too small: delta={delta:g} with confidence {confidence:g} takes "
                f"{needed} held-out episodes."
            )
        self.quantifier = quantifier
        self.delta = delta
        self.near = near
        self.confidence = confidence
        self.holdout = holdout
        self.rate = rate
        self.least = least
        self.capacity = capacity
        self.excess = 0.0
        self.scale = math.inf
        self._certifies = True
        self._held_out: Transitions | None = None
        self._numbered = 0

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        if math.isinf(self.scale):
            mean, width = self.quantifier.predict(states, actions)
            return np.asarray(mean), np.full(np.shape(width), np.inf)
        mean, width = self._interval(states, actions)
        return cost_interval("margin" if self._models_margin else "cost", mean, self.scale * width)

    def fit(self, data: Transitions) -> None:
        self._check(data)
        self.excess, self._held_out, self._numbered = 0.0, None, 0
        data, held = self._split(data)
        if held.all():
            raise ValueError(
                f"Calibrated(holdout={self.holdout}) holds out all episodes that it was given, and leaves none to "
                "learn from: give more of them, each with a number of its own."
            )
        self.quantifier.fit(rows_of(data, ~held))
        self._hold_out(rows_of(data, held))

    def update(self, data: Transitions) -> None:
        self._check(data)
        self._watch(data)
        data, held = self._split(data)
        if not held.all():
            self.quantifier.update(rows_of(data, ~held))
        self._hold_out(rows_of(data, held))

    def state(self) -> dict[str, NDArray[Any]]:
        held = {} if self._held_out is None else self._held_out._asdict()
        return {
            **{f"{INNER}{name}": part for name, part in self.quantifier.state().items()},
            **{name: part for name, part in held.items() if part is not None},
            "watch": np.array([self.excess, self._numbered]),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        self.quantifier.restore(
            {name.removeprefix(INNER): part for name, part in state.items() if name.startswith(INNER)}
        )
        held = {name: np.array(state[name]) for name in Transitions._fields if name in state}
        self._held_out = Transitions(**held) if held else None
        self.excess, self._numbered = float(state["watch"][0]), int(state["watch"][1])
        self._rescale()

    def with_delta(self, delta: float) -> Self:
        inner = self.quantifier.with_delta(self.quantifier.delta * delta / self.delta)
        copy = type(self)(inner, **(self.settings() | {"delta": delta}))
        copy.restore(self.state())
        return copy

    @property
    def held_out_episodes(self) -> int:
        """How many costly episodes the scale rests on."""
        return 0 if self._held_out is None else len(episode_maxima(self._held_out.costs, self._held_out.episodes))

    def _watch(self, data: Transitions) -> None:
        """Count the missed among the costly episodes of these transitions, which nothing was learned from yet."""
        costly = rows_of(data, data.costs >= self.near)
        if len(costly.costs) == 0 or math.isinf(self.scale):
            return
        worst = episode_maxima(self._scores(costly), costly.episodes)
        misses = int((worst > self.scale).sum())
        self.excess = max(self.excess + self.rate * (misses - self.delta * len(worst)), 0.0)

    def _hold_out(self, data: Transitions) -> None:
        """Keep the costly ones of these transitions, and calibrate anew."""
        costly = rows_of(data, data.costs >= self.near)
        if len(costly.costs):
            both = costly if self._held_out is None else joined(self._held_out, costly)
            assert both.episodes is not None, "numbered when they came"
            self._held_out = rows_of(both, both.episodes >= np.unique(both.episodes)[-self.capacity :][0])
        self._rescale()

    def _rescale(self) -> None:
        worst = np.zeros(0)
        if self._held_out is not None:
            worst = episode_maxima(self._scores(self._held_out), self._held_out.episodes)
        scale = least_scale(worst, self.delta, self.confidence)
        certifies = math.isfinite(scale)
        if self._certifies and not certifies:
            log.warning("Calibrated certifies nothing: %s", self._why_nothing(worst))
        self._certifies = certifies
        self.scale = max(scale, self.least) * math.exp(min(self.excess, 700.0)) if certifies else math.inf

    def _why_nothing(self, worst: Array) -> str:
        needed = episodes_needed(self.delta, self.confidence)
        if len(worst) >= needed:
            beyond = int(np.isinf(worst).sum())
            return f"no width would have covered {beyond} of {len(worst)} held-out episodes (see earlier warnings)."
        return (
            f"{len(worst)} held-out episodes have a cost of {self.near:g} or more, and delta={self.delta:g} with "
            f"confidence {self.confidence:g} takes {needed}; give more seed data, a larger delta or holdout, or a "
            "smaller near."
        )

    def _scores(self, data: Transitions) -> Array:
        """By how many widths each cost lies above its mean, (n,); infinite where the quantifier does not answer."""
        try:
            mean, width = self._interval(data.states, data.actions[:, None])
            if self._models_margin:
                return excess_in_widths(-target_of("Calibrated", "margin", data), -mean[:, 0], width[:, 0])
            return excess_in_widths(data.costs, mean[:, 0], width[:, 0])
        except Exception as error:  # whatever went wrong, it predicted nothing
            log.warning("%s could not be calibrated: %s", type(self.quantifier).__name__, error)
            return np.full(len(data.costs), np.inf)

    @property
    def _models_margin(self) -> bool:
        return isinstance(self.quantifier, OnTarget) and self.quantifier.target == "margin"

    def _interval(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and width (n, m) of what is modelled, the cost or the margin."""
        if isinstance(self.quantifier, OnTarget):
            mean, width = self.quantifier.predict_target(states, actions)
        else:
            mean, width = self.quantifier.predict(states, actions)
        return np.asarray(mean), np.asarray(width)

    def _split(self, data: Transitions) -> tuple[Transitions, Flags]:
        """The transitions with episode numbers that did not occur before, and which of them are held out, (n,).

        A fixed share of any stretch of the original numbers is, so an episode that goes on after an update stays on its
        side; where it does, its two parts count as two episodes.
        """
        if data.episodes is None:
            numbers = chosen_by = self._numbered + np.arange(len(data.costs))
        else:
            numbers = self._numbered + np.unique(data.episodes, return_inverse=True)[1]
            chosen_by = data.episodes
        self._numbered = int(numbers.max(initial=self._numbered - 1)) + 1
        return data._replace(episodes=numbers), (chosen_by * GOLDEN) % 1.0 < self.holdout

    def _check(self, data: Transitions) -> None:
        if data.costs.ndim != 1:
            raise ValueError(
                f"Calibrated was given costs of shape {data.costs.shape}, expected (n,): calibrate each of several "
                "costs by itself, Each(Calibrated(...), Calibrated(...))."
            )


def episodes_needed(delta: float, confidence: float) -> int:
    """How many episodes without a miss it takes to say, with this confidence, that at most a share δ is missed."""
    return math.ceil(math.log(1 - confidence) / math.log(1 - delta))


def least_scale(scores: Array, delta: float, confidence: float) -> float:
    """The smallest score (n,) that a further one exceeds with probability at most δ, with this confidence.

    The score with j larger ones is such a bound if P[Binomial(n, δ) ≤ j] ≤ 1 − confidence (Wilks 1941: it needs scores
    that are independent and alike, and nothing else). Infinite where not even the largest is.
    """
    if len(scores) == 0:
        return math.inf
    from scipy.stats import binom  # here, because it takes longer to import than all the rest

    risks = binom.cdf(np.arange(len(scores)), len(scores), delta)
    larger = int(np.searchsorted(risks, 1 - confidence, side="right")) - 1
    return math.inf if larger < 0 else float(np.sort(scores)[len(scores) - 1 - larger])


def excess_in_widths(costs: Array, mean: Array, width: Array) -> Array:
    """(cost − mean) / width, (n,): 0 where a width of 0 was right, infinite where it was wrong or is no width."""
    over = np.where(width > 0, costs - mean, np.where(costs > mean + 1e-9, np.inf, 0.0))
    scores = over / np.where(width > 0, width, 1.0)
    return np.where(np.isfinite(mean) & (width >= 0), scores, np.inf)


def episode_maxima(scores: Array, episodes: NDArray[np.int64] | None) -> Array:
    """The largest score of each episode; all scores where episodes are not told apart."""
    if episodes is None:
        return scores
    _, index = np.unique(episodes, return_inverse=True)
    largest = np.full(int(index.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, index, scores)
    return largest


def rows_of(data: Transitions, rows: Any) -> Transitions:
    """Some of the transitions."""
    return Transitions(*(None if part is None else part[rows] for part in data))  # type: ignore[arg-type]


def joined(first: Transitions, second: Transitions) -> Transitions:
    """Both, one after the other; what only one of them tells is left out."""
    return Transitions(
        *(None if a is None or b is None else np.concatenate([a, b]) for a, b in zip(first, second, strict=True))  # type: ignore[arg-type]
    )
