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
from safexp.core.encoding import encode_actions
from safexp.shield.candidates import path_to
from safexp.shield.decisions import Decisions

CHUNK = 2000

AT_THRESHOLD = 1e-9
"""Distance of a bound from its threshold within which rounding may decide."""

EQUAL = 1e-10
"""Largest difference of equal bounds, as a share of the interval that they come from."""


class Found(NamedTuple):
    """Result of a comparison.

    Attributes:
        questions: number of questions.
        refused: questions that both refuse, because an observation is not finite or not a choice.
        replaced: decisions that are not the proposal.
        different: decisions that differ, though no bound is at its threshold.
        at_threshold: decisions that differ where a bound is within `AT_THRESHOLD` of its threshold.
        unequal: bounds that differ by more than `EQUAL`.
        error: largest difference of bounds, relative to |mean| + width. A bound is mean + width and may be near 0,
            where one rounding of its terms is any share of it.
        of_bound: largest difference relative to the bound itself.
    """

    questions: int
    refused: int
    replaced: int
    different: int
    at_threshold: int
    unequal: int
    error: float
    of_bound: float


def compare(case: Case, count: int, seed: int, decider: Decider | None = None) -> Found:
    """Ask the Python shield and another one, by default `CompiledShield`, the same questions."""
    rng = np.random.default_rng(seed)
    decider = decider or Asked(case.shield, safexp.CompiledShield(case.shield))
    total, errors = np.zeros(6, dtype=np.int64), np.zeros(2)
    for start in range(0, count, CHUNK):
        questions = ask(case, min(CHUNK, count - start), rng)
        counts, worst = _compare(case, decider, questions, rng)
        total += counts
        errors = np.maximum(errors, worst)
    return Found(*total.tolist(), *errors.tolist())


def _compare(
    case: Case, decider: Decider, questions: Questions, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    shield = case.shield
    ours = Asked(shield)
    taken = np.isfinite(questions.observations).all(axis=1)
    if isinstance(shield.observation_space, spaces.Dict | spaces.Tuple):
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
        near = np.array([_at_threshold(shield, questions.rows([k])) for k in np.flatnonzero(~same)], bool)
        equal = (one.upper_bounds == other.upper_bounds) | ~same[:, None]
        sizes = np.abs(one.upper_bounds)
        gaps = [
            _relative(one.upper_bounds - other.upper_bounds, equal, size)
            for size in (np.fmax(sizes, _intervals(shield, questions, one)), sizes)
        ]
    replaced, unequal = int((one.intervened | one.stopped).sum()), int((gaps[0] > EQUAL).sum())
    counts = [len(taken), int((~taken).sum()), replaced, int((~near).sum()), int(near.sum()), unequal]
    return np.array(counts), np.array([gap.max(initial=0.0) for gap in gaps])


def _relative(gap: NDArray[np.float64], equal: NDArray[np.bool_], size: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences of bounds as a share of a size: 0 where they are equal, infinite where one of them is no number."""
    share = np.abs(gap) / np.maximum(size, 1e-300)
    return np.where(equal, 0.0, np.where(np.isfinite(share), share, np.inf))


def _intervals(shield: safexp.Shield, questions: Questions, decided: Decisions) -> NDArray[np.float64]:
    """|mean| + width (n, K) of the costs of the actions that the bounds are of."""
    observations = as_observations(shield.observation_space, questions.observations)
    asked = shield.question(observations, questions.thresholds, measured=questions.measured)
    actions = encode_actions(shield.action_space, decided.actions)
    mean, width = shield.quantifier.predict(asked.states, actions[:, None])
    return np.reshape(np.abs(mean) + width, decided.upper_bounds.shape)


def _at_threshold(shield: safexp.Shield, question: Questions) -> bool:
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
    return bool((np.abs(np.clip(mean + width, 0, 1) - question.thresholds) <= AT_THRESHOLD).any())
