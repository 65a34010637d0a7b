"""Candidate actions of a shield, with their bounds and widths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.core import files
from safexp.core.arrays import Array, Flags, Observations, batch_size
from safexp.core.encoding import ActionSpace, changed_entries, choices, encode_actions, encoded_action_size
from safexp.shield.questions import Question

SafeAction = ArrayLike | Callable[[Observations], ArrayLike]

APPROACH, SHORTER = 16, 0.75
"""Number of actions tried between a safe candidate and the proposal, and the ratio of each way to the next longer."""

COMPONENT_LEVELS = 9
"""Number of values of the one component in which a candidate differs from the proposal."""

OWN_SHARE = 0.05
"""Weight of the distance between actions, beside that between their outcomes."""

Preferences = Callable[[NDArray[np.int64], Array], ArrayLike]
"""Scores (k, m), larger is better, of the encoded candidates (k, m, da) of the states with these indices (k,)."""


class Outlook(NamedTuple):
    """Candidate actions of n states, m each: which are known to be safe, with bounds and uncertainty.

    Candidates (n, m, da) are encoded; `upper_bounds` (n, m, K) bound their K costs; `widths` (n, m) hold the largest
    width over all costs. Bounds and widths of candidates that were not queried are infinite. `promised` (n,) is the
    index of the candidate that the user vouches for, -1 for none.
    """

    candidates: Array
    safe: Flags
    upper_bounds: Array
    widths: Array
    promised: NDArray[np.int64]

    @property
    def viable(self) -> Flags:
        """Whether each state (n,) has a safe action: A⁺ ≠ ∅."""
        return np.asarray(self.safe.any(axis=1))

    @property
    def least_width(self) -> Array:
        """The smallest width (n,) of any candidate, min_a Γ(s, a)."""
        return np.asarray(self.widths.min(axis=1))

    def rows(self, index: Any) -> Outlook:
        """Outlook of a subset of the states."""
        return Outlook(*(part[index] for part in self))


class Glance:
    """Partial knowledge of n states: the fewest queries that show which of them have a safe action.

    `few` is the outlook on a few candidates of each state, starting with the centre of the fixed set; `whole` is the
    outlook on all candidates, filled in for the states marked in `asked` (n,), and None while there are none.
    """

    def __init__(self, few: Outlook) -> None:
        self.few = few
        self.whole: Outlook | None = None
        self.asked = np.zeros(len(few.safe), dtype=bool)

    @classmethod
    def of_all(cls, outlook: Outlook) -> Self:
        """Glance at states whose candidates were all queried at once."""
        glance = cls(outlook)
        glance.whole = outlook
        glance.asked[:] = True
        return glance

    @property
    def viable(self) -> Flags:
        """States (n,) known to have a safe action; complete once all candidates of the others were queried."""
        viable = self.few.viable
        if self.whole is not None and self.whole is not self.few:
            viable[self.asked] |= self.whole.safe[self.asked].any(axis=1)
        return viable

    def least_width(self, rows: Flags) -> Array:
        """Smallest width of any candidate of these states; all of their candidates must have been queried."""
        assert self.whole is not None and self.asked[rows].all(), "query all candidates before giving up a state"
        return np.asarray(self.whole.widths[rows].min(axis=1))

    def fill(self, rows: Any, outlook: Outlook) -> None:
        """Store the outlook on all candidates of these states."""
        if self.whole is None:
            self.whole = Outlook(*(np.empty((len(self.asked), *part.shape[1:]), part.dtype) for part in outlook))
        for whole, part in zip(self.whole, outlook, strict=True):
            whole[rows] = part
        self.asked[rows] = True

    def replace(self, rows: Flags, glance: Glance) -> None:
        """Replace these states, and what is known of them, by those of another glance."""
        for old, new in zip(self.few, glance.few, strict=True):
            old[rows] = new
        self.asked[rows] = False
        if glance.whole is not None:
            self.fill(np.flatnonzero(rows)[glance.asked], glance.whole.rows(glance.asked))


def candidate_actions(space: ActionSpace, count: int) -> Array:
    """Fixed set (m, da) to search: all discrete actions; for a box its centre, corners and a low-discrepancy set.

    The corners are included if they fill at most half of the set, otherwise the two ends of each axis; a scrambled
    Halton sequence with a fixed seed fills the rest.
    """
    if not isinstance(space, spaces.Box):
        return choices(space)
    dimension = int(np.prod(space.shape))
    if count < 1:
        raise ValueError(f"num_candidates={count} must be at least 1.")
    if count > files.MOST:
        raise ValueError(f"num_candidates={count} must be at most {files.MOST:,}.")
    centre = np.full((1, dimension), 0.5)
    if 2**dimension <= count // 2:
        ends = np.stack(np.meshgrid(*[[0.0, 1.0]] * dimension), axis=-1).reshape(-1, dimension)
    else:
        ends = np.concatenate([np.where(np.eye(dimension) > 0, end, 0.5) for end in (0.0, 1.0)])
    from scipy.stats import qmc  # imported here because it is slow to import

    spread = qmc.Halton(dimension, scramble=True, rng=0).random(max(count - 1 - len(ends), 0))
    unit = np.concatenate([centre, ends, spread])[:count]
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    # The certified action must be the executed one: round to the precision of the space first.
    return np.clip((low + unit * (high - low)).astype(space.dtype), low, high).astype(np.float64)


def with_extra(fixed: Array, n: int, extra: Sequence[Array | float]) -> Array:
    """Fixed set (m, da) for each of n states, followed by these actions (n, da); NaN becomes the first fixed action."""
    candidates = np.empty((n, len(fixed) + len(extra), fixed.shape[1]))
    candidates[:, : len(fixed)] = fixed
    for column, actions in enumerate(extra, start=len(fixed)):
        candidates[:, column] = np.where(np.isnan(actions), fixed[0], actions)
    return candidates


def first_candidates(
    space: ActionSpace,
    fixed: Array,
    limits: Array,
    vouched: Array | None,
    last_safe: NDArray[Any] | None,
    proposals: Array | None = None,
) -> Outlook:
    """Candidates to try first, not yet queried: the centre, the last safe action, and the user's safe action.

    With `proposals` (n, da) also those that differ from them in one component. For discrete actions, all of them.
    """
    n, num_costs = limits.shape
    if not isinstance(space, spaces.Box):
        return unasked(np.repeat(fixed[None], n, axis=0), num_costs, vouched)
    last = np.nan if last_safe is None else encode_actions(space, last_safe)
    extra = [last] if vouched is None else [last, vouched]
    if proposals is not None:
        extra += list(one_changed(space, proposals).transpose(1, 0, 2))
    return unasked(with_extra(fixed[:1], n, extra), num_costs, vouched)


def one_changed(space: spaces.Box, proposals: Array) -> Array:
    """Actions (n, m, da) that equal a proposal (n, da) in all but one component, which takes evenly spaced values."""
    low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
    n, size = proposals.shape
    found = np.tile(np.clip(proposals, low, high)[:, None, None], (1, size, COMPONENT_LEVELS, 1))
    for k in range(size):
        found[:, k, :, k] = np.linspace(low[k], high[k], COMPONENT_LEVELS)
    rounded = np.clip(found.astype(space.dtype), space.low.ravel(), space.high.ravel())
    return np.asarray(rounded.astype(np.float64).reshape(n, -1, size))


def similarities(space: spaces.Box, outcomes: Array, proposals: Array, candidates: Array) -> Array:
    """Scores (n, m) of candidates (n, m, da) by the similarity of their outcomes to that of the proposal (n, da).

    `outcomes` (n, 1 + m, e) begin with those of the proposals. Of equal outcomes the nearer action scores more.
    """
    gaps = np.linalg.norm(outcomes[:, 1:] - outcomes[:, :1], axis=2)
    largest = np.maximum(gaps.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    span = np.maximum(space.high - space.low, np.finfo(np.float32).tiny).ravel()
    return -(gaps / largest + OWN_SHARE * np.linalg.norm((candidates - proposals[:, None]) / span, axis=2))


def unasked(candidates: Array, num_costs: int, vouched: Array | None) -> Outlook:
    """Outlook on candidates (n, m, da) before any query; only the user's safe actions (n, da), NaN for none, are known.

    The candidate equal to the user's action gets a bound of 0; if several are equal, the last one.
    """
    shape = candidates.shape[:2]
    offers = Outlook(
        candidates,
        np.zeros(shape, dtype=bool),
        np.full((*shape, num_costs), np.inf),
        np.full(shape, np.inf),
        np.full(len(candidates), -1),
    )
    if vouched is not None:
        promised = np.flatnonzero(~np.isnan(vouched).any(axis=1))
        same = (candidates[promised] == vouched[promised, None]).all(axis=2)
        column = same.shape[1] - 1 - same[:, ::-1].argmax(axis=1)
        offers.safe[promised, column], offers.upper_bounds[promised, column] = True, 0.0
        offers.promised[promised] = column
    return offers


def all_candidates(
    space: ActionSpace, fixed: Array, few: Outlook
) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """All candidates (n, m, da) of the states of an outlook on few: the fixed set, and those that are only theirs.

    Also the places of the few among them, and the index (n,) of the candidate that the user vouches for, -1 for none.
    """
    if not isinstance(space, spaces.Box):
        return few.candidates, np.arange(len(fixed)), few.promised
    rest, size = few.candidates[:, 1:], len(fixed)
    candidates = np.empty((len(rest), size + rest.shape[1], rest.shape[2]))
    candidates[:, :size], candidates[:, size:] = fixed, rest
    places = np.array([0, *range(size, candidates.shape[1])])
    return candidates, places, np.where(few.promised < 0, -1, places[few.promised])


def vouched_actions(space: ActionSpace, safe_action: SafeAction, observations: Observations) -> Array:
    """User's safe actions, encoded (n, da), NaN where there is none.

    Raises:
        ValueError: if they are not actions of the space.
    """
    n = batch_size(observations)
    given = safe_action(observations) if callable(safe_action) else safe_action
    actions = np.asarray(given, dtype=np.float64)
    single = space.shape or ()
    if actions.shape == single:
        actions = np.broadcast_to(actions, (n, *single))
    if actions.shape != (n, *single):
        raise ValueError(f"safe_action has shape {actions.shape}, expected {single} or {(n, *single)} for {n} states.")
    promised = ~np.isnan(actions).reshape(n, -1).any(axis=1)
    encoded = np.full((n, encoded_action_size(space)), np.nan)
    if isinstance(space, spaces.Box):
        given_there = actions[promised].astype(space.dtype)
        outside = ~((given_there >= space.low) & (given_there <= space.high)).all(axis=tuple(range(1, actions.ndim)))
        if outside.any():
            raise ValueError(
                f"safe_action {given_there[outside][0]} is not an action of {space}, and clipping it would give an "
                "action that nobody vouched for."
            )
    if promised.any():
        encoded[promised] = encode_actions(space, actions[promised])
    return encoded


def best_candidates(space: ActionSpace, offers: Outlook, proposals: Array, scores: Array | None) -> NDArray[np.int64]:
    """Index (n,) of each proposal's replacement: the best score, the nearest, or the smallest bound."""
    ranking = offers.upper_bounds.max(axis=2)
    if scores is not None:
        ranking = -scores
    elif isinstance(space, spaces.Box):
        span = np.maximum(space.high - space.low, np.finfo(np.float32).tiny).ravel()
        distance = np.linalg.norm((offers.candidates - proposals[:, None]) / span, axis=2)
        ranking = np.where(np.isnan(distance), ranking, distance)
    elif not isinstance(space, spaces.Discrete):  # the fewest changed entries, then the smallest bound
        ranking = changed_entries(space, offers.candidates, proposals) + ranking / (1.0 + np.abs(ranking)) / 2
    ranking = np.nan_to_num(ranking, nan=np.finfo(np.float64).max)
    return np.where(offers.safe, ranking, np.inf).argmin(axis=1)  # safe actions have finite rankings


def path_to(space: spaces.Box, proposals: Array, starts: Array) -> Array:
    """Actions (n, APPROACH, da) on the way from starts to proposals (n, da), those nearest to the proposal first.

    The ways that they go are a geometric sequence, because the start may be near to the boundary of the safe set or
    far from it. They are rounded to the precision of the space: the certified action must be the executed one. A
    proposal that is not a number is ignored.
    """
    way = proposals - starts
    way[np.isnan(way)] = 0.0
    path = starts[:, None] + way[:, None] * SHORTER ** np.arange(1, APPROACH + 1)[:, None]
    rounded = path.astype(space.dtype)
    return np.minimum(np.maximum(rounded, space.low.ravel()), space.high.ravel()).astype(np.float64)


def approach(
    ask: Callable[[Array, Array, Array], tuple[Array, Array]],
    question: Question,
    path: Array,
    chosen: Array,
    bounds: Array,
) -> Flags:
    """Replace chosen actions (n, da) and their bounds (n, K), in place, by the first safe ones of a path (n, m, da).

    `ask` bounds the costs of actions (n, m, da) in states (n, ds) under thresholds (n, K). Returns which were replaced.
    """
    n, m, size = path.shape
    # Each action in a row of its own: models that cache the fixed candidates keep them.
    states, limits = np.repeat(question.states, m, axis=0), np.repeat(question.limits, m, axis=0)
    found = ask(states, path.reshape(n * m, 1, size), limits)[0].reshape(n, m, -1)
    safe: Flags = np.all(found <= question.limits[:, None], axis=2)
    nearer: Flags = np.any(safe, axis=1)
    at = np.flatnonzero(nearer), safe[nearer].argmax(axis=1)
    chosen[nearer], bounds[nearer] = path[at], found[at]
    return nearer
