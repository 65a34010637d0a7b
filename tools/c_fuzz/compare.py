"""Comparison of decisions: the same action, or a bound that is at its threshold up to rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import safexp
from c_fuzz.questions import Questions, ask, at_bounds
from c_fuzz.shields import Case
from safexp.shield.candidates import path_to
from safexp.shield.decisions import Decisions

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


def compare(case: Case, count: int, seed: int, compiled: Any = None, tolerance: float = 1e-9) -> Found:
    """Ask both shields the same questions. `compiled` has the methods `outcomes` and `filter_batch`."""
    rng = np.random.default_rng(seed)
    compiled = compiled or safexp.CompiledShield(case.shield)
    total = np.zeros(6, dtype=np.int64)
    error = 0.0
    for start in range(0, count, CHUNK):
        questions = ask(case, min(CHUNK, count - start), rng)
        counts, worst = _compare(case, compiled, questions, rng, tolerance)
        total += counts
        error = max(error, worst)
    return Found(*total.tolist(), error)


def as_observations(space: spaces.Space[Any], flat: NDArray[Any]) -> Any:
    """Flat numbers (n, d) as a batch of observations."""
    if isinstance(space, spaces.Dict):  # of c_fuzz.shields
        return {"at": flat[:, :2], "mode": flat[:, 2]}
    return flat.reshape(len(flat), *(space.shape or ()))


def _compare(
    case: Case, compiled: Any, questions: Questions, rng: np.random.Generator, tolerance: float
) -> tuple[NDArray[np.int64], float]:
    shield = case.shield
    taken = np.isfinite(questions.observations).all(axis=1)
    if isinstance(shield.observation_space, spaces.Dict):
        taken &= np.isin(questions.observations[:, 2], [1, 2, 3])
    _check_refusals(shield, compiled, questions.rows(~taken))
    questions = questions.rows(taken)
    with np.errstate(all="ignore"):
        first = _decide(shield, shield, questions)
        questions = at_bounds(questions, first.upper_bounds, rng)
        ours, theirs = _decide(shield, shield, questions), _decide(shield, compiled, questions)
        same = (ours.stopped == theirs.stopped) & (ours.intervened == theirs.intervened)
        same &= ours.vouched == theirs.vouched
        acted = (ours.actions == theirs.actions).reshape(len(same), -1).all(axis=1)
        same &= acted | ours.stopped
        near = np.array([_at_threshold(shield, questions.rows([k]), tolerance) for k in np.flatnonzero(~same)], bool)
        equal = (ours.upper_bounds == theirs.upper_bounds) | ~same[:, None]
        gap = np.abs(ours.upper_bounds - theirs.upper_bounds) / np.maximum(np.abs(ours.upper_bounds), 1e-300)
    gap = np.where(equal, 0.0, np.where(np.isfinite(gap), gap, np.inf))
    replaced = int((ours.intervened | ours.stopped).sum())
    counts = [len(taken), int((~taken).sum()), replaced, int((~near).sum()), int(near.sum()), int((gap > 1e-10).sum())]
    return np.array(counts), float(gap.max(initial=0.0))


def _decide(shield: safexp.Shield, who: Any, questions: Questions) -> Decisions:
    space = shield.action_space
    shape = (len(questions.proposals), *(space.shape or ()))
    box = isinstance(space, spaces.Box)
    proposals = questions.proposals.reshape(shape) if box else questions.proposals[:, 0].astype(np.int64)
    found = who.filter_batch(
        as_observations(shield.observation_space, questions.observations),
        proposals,
        questions.thresholds,
        measured=questions.measured,
        last_safe=questions.last_safe.reshape(shape) if box else None,
    )
    return found._replace(upper_bounds=found.upper_bounds.reshape(len(questions.proposals), -1))


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
        towards = path_to(space, np.repeat(offers[-2:-1], len(offers), axis=0), offers)
        offers = np.concatenate([offers, towards.reshape(-1, offers.shape[1])])
    mean, width = (
        np.reshape(part, (len(offers), -1)) for part in shield.quantifier.predict(asked.states, offers[None])
    )
    return bool((np.abs(np.clip(mean + width, 0, 1) - question.thresholds) <= tolerance).any())


def _check_refusals(shield: safexp.Shield, compiled: Any, questions: Questions) -> None:
    """Raise `AssertionError` if the compiled shield answers a question with an observation that is not one."""
    for k in range(len(questions.observations)):
        one = questions.rows([k])
        for who in (shield, compiled):
            try:
                _decide(shield, who, one)
            except ValueError:
                continue
            raise AssertionError(f"{type(who).__name__} decided about {one.observations}, which is no observation.")
