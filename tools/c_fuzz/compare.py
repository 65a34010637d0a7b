"""Comparison of decisions: the same action, or a bound that is at its threshold up to rounding."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import safexp
from c_fuzz.deciders import Asked, Decider, as_observations
from c_fuzz.questions import Questions, ask, at_bounds
from c_fuzz.shields import Case
from safexp.shield.candidates import path_to

CHUNK = 2000


class Found(NamedTuple):
    """Result of a comparison.

    Attributes:
        questions: number of questions.
        refused: questions that both refuse, because an observation is not finite or not a choice.
        replaced: decisions that are not the proposal.
        different: decisions that differ, though no bound is at its threshold.
        at_threshold: decisions that differ where a bound is within the tolerance of its threshold.
        unequal: bounds that differ by more than 1e-10 of their size.
        error: largest relative difference of bounds.
    """

    questions: int
    refused: int
    replaced: int
    different: int
    at_threshold: int
    unequal: int
    error: float


def compare(case: Case, count: int, seed: int, decider: Decider | None = None, tolerance: float = 1e-9) -> Found:
    """Ask the Python shield and another one, by default `CompiledShield`, the same questions."""
    rng = np.random.default_rng(seed)
    decider = decider or Asked(case.shield, safexp.CompiledShield(case.shield))
    total, error = np.zeros(6, dtype=np.int64), 0.0
    for start in range(0, count, CHUNK):
        questions = ask(case, min(CHUNK, count - start), rng)
        counts, worst = _compare(case, decider, questions, rng, tolerance)
        total += counts
        error = max(error, worst)
    return Found(*total.tolist(), error)


def _compare(
    case: Case, decider: Decider, questions: Questions, rng: np.random.Generator, tolerance: float
) -> tuple[NDArray[np.int64], float]:
    shield = case.shield
    ours = Asked(shield)
    taken = np.isfinite(questions.observations).all(axis=1)
    if isinstance(shield.observation_space, spaces.Dict):
        taken &= np.isin(questions.observations[:, 2], [1, 2, 3])
    with np.errstate(all="ignore"):
        refused = questions.rows(~taken)
        if not (taken.all() or (decider.refuses(refused).all() and ours.refuses(refused).all())):
            raise AssertionError("a question was decided whose observation is none.")
        questions = questions.rows(taken)
        questions = at_bounds(questions, ours.decide(questions).upper_bounds, rng)
        one, other = ours.decide(questions), decider.decide(questions)
        same = (one.stopped == other.stopped) & (one.intervened == other.intervened) & (one.vouched == other.vouched)
        same &= (one.actions == other.actions).reshape(len(same), -1).all(axis=1) | one.stopped
        near = np.array([_at_threshold(shield, questions.rows([k]), tolerance) for k in np.flatnonzero(~same)], bool)
        equal = (one.upper_bounds == other.upper_bounds) | ~same[:, None]
        gap = np.abs(one.upper_bounds - other.upper_bounds) / np.maximum(np.abs(one.upper_bounds), 1e-300)
    gap = np.where(equal, 0.0, np.where(np.isfinite(gap), gap, np.inf))
    replaced = int((one.intervened | one.stopped).sum())
    counts = [len(taken), int((~taken).sum()), replaced, int((~near).sum()), int(near.sum()), int((gap > 1e-10).sum())]
    return np.array(counts), float(gap.max(initial=0.0))


def _at_threshold(shield: safexp.Shield, question: Questions, tolerance: float) -> bool:
    """Whether a bound of the proposal, of a candidate or of an action between them is at its threshold."""
    observation = as_observations(shield.observation_space, question.observations)
    asked = shield.question(observation, question.thresholds, measured=question.measured)
    space = shield.action_space
    offers = shield.candidates
    if isinstance(space, spaces.Box):
        extra = [question.proposals[0], np.where(np.isnan(question.last_safe[0]), offers[0], question.last_safe[0])]
        extra = [np.clip(np.asarray(one, space.dtype), space.low.ravel(), space.high.ravel()) for one in extra]
        offers = np.concatenate([offers, np.nan_to_num(extra)])
        towards = path_to(space, np.repeat(extra[0][None].astype(np.float64), len(offers), axis=0), offers)
        offers = np.concatenate([offers, towards.reshape(-1, offers.shape[1])])
    mean, width = (
        np.reshape(part, (len(offers), -1)) for part in shield.quantifier.predict(asked.states, offers[None])
    )
    return bool((np.abs(np.clip(mean + width, 0, 1) - question.thresholds) <= tolerance).any())
