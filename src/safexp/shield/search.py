"""Search for safe actions: is the proposal safe, which candidate replaces it, has a state any safe action at all?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from safexp.core.arrays import Array, Flags, every, some
from safexp.core.encoding import ActionSpace, decode_actions, encode_actions, index_of
from safexp.shield.candidates import (
    Glance,
    Outlook,
    Preferences,
    all_candidates,
    approach,
    best_candidates,
    candidate_actions,
    first_candidates,
    path_to,
    similarities,
)
from safexp.shield.decisions import Decisions
from safexp.shield.questions import Question

Bounds = Callable[[Array, Array, Array], tuple[Array, Array]]
"""Upper bounds and widths (n, m, K) of the costs of candidates (n, m, da) in states (n, ds) under limits (n, K)."""


class Search:
    """Search of a fixed set of candidates for safe actions, with as few queries as possible.

    Args:
        action_space: a bounded Box, or a finite space, of which all actions are candidates.
        num_candidates: size of the fixed set in a box.
        by_outcome: prefer replacements that lead to where the proposal would have led, if `outcomes` knows.
        bounds: bounds the costs of candidates.
        outcomes: where candidates lead, see `Quantifier.outcomes`.
        vouched: the user's safe actions (n, da) in the states of a question, NaN for none; None if there are none.
    """

    def __init__(
        self,
        action_space: ActionSpace,
        num_candidates: int,
        *,
        by_outcome: bool,
        bounds: Bounds,
        outcomes: Callable[[Array, Array], Array | None],
        vouched: Callable[[Question], Array | None],
    ) -> None:
        self.action_space = action_space
        self.candidates = candidate_actions(action_space, num_candidates)
        self.by_outcome = by_outcome
        self.bounds = bounds
        self.outcomes = outcomes
        self.vouched = vouched

    def decide(
        self,
        question: Question,
        actions: NDArray[Any],
        glance: Glance | None = None,
        preferences: Preferences | None = None,
        last_safe: NDArray[Any] | None = None,
        *,
        near: bool = False,
    ) -> Decisions:
        """Keep safe proposals (n, ...) and replace the others; `glance` is what is known of the states already.

        `preferences` score replacements; with `near` these go towards the proposals as far as is safe.
        """
        proposals, limits = encode_actions(self.action_space, actions), question.limits
        if len(proposals) != len(limits):
            raise ValueError(f"{len(proposals)} actions for {len(limits)} states: give one for each.")
        nowhere = np.zeros(len(limits), dtype=bool)
        if not isinstance(self.action_space, spaces.Box):
            glance = glance or self.glance(question)
            at: Any = (np.arange(len(limits)), index_of(self.action_space, proposals))
            bounds, safe, vouched = glance.few.upper_bounds[at], glance.few.safe[at], glance.few.promised == at[1]
        else:
            bounds = self.bounds(question.states, proposals[:, None], limits)[0][:, 0]
            safe = (bounds <= limits).all(axis=1) & np.isfinite(proposals).all(axis=1)
            vouched = nowhere
        if every(safe):
            return Decisions(decode_actions(self.action_space, proposals), nowhere, nowhere, vouched, bounds)
        unsafe = np.flatnonzero(~safe)
        if glance is not None:
            offers = self._offers(question, unsafe, glance)
        else:
            asked: Any = unsafe if some(safe) else slice(None)  # a slice copies nothing
            part = question.rows(asked)
            last = None if last_safe is None else last_safe[asked]
            offers = self._whole(part, self._few(part, last, proposals[asked] if self.by_outcome else None))
        viable = offers.viable
        intervened, stopped = nowhere.copy(), nowhere.copy()
        intervened[unsafe], stopped[unsafe] = viable, ~viable
        if some(viable):
            rows, offers = (unsafe, offers) if every(viable) else (unsafe[viable], offers.rows(viable))
            scores = None if preferences is None else np.asarray(preferences(rows, offers.candidates), np.float64)
            if scores is None and self.by_outcome:
                scores = self._similarities(question.states[rows], proposals[rows], offers.candidates)
            best = np.arange(len(rows)), best_candidates(self.action_space, offers, proposals[rows], scores)
            chosen, found, own = offers.candidates[best], offers.upper_bounds[best], offers.promised == best[1]
            if near and scores is None and isinstance(self.action_space, spaces.Box):
                path = path_to(self.action_space, proposals[rows], chosen)
                own &= ~approach(self.bounds, question.rows(rows), path, chosen, found)
            vouched = vouched.copy()
            proposals[rows], bounds[rows], vouched[rows] = chosen, found, own
        return Decisions(decode_actions(self.action_space, proposals), intervened, stopped, vouched, bounds)

    def glance(self, question: Question, last_safe: NDArray[Any] | None = None) -> Glance:
        """Find out which states are viable, with as few queries as possible.

        The user's safe action needs no query; the centre of the box and the last safe action come next; all candidates
        only if none of these is safe. Discrete actions are few, and all are queried.
        """
        few = self._few(question, last_safe)
        if not isinstance(self.action_space, spaces.Box):
            return Glance.of_all(self._whole(question, few))
        glance = Glance(few)
        known = few.viable
        if not every(known):
            asked: Any = np.flatnonzero(~known) if some(known) else slice(None)  # a slice copies nothing
            limits = question.limits[asked]
            bounds, widths = self.bounds(question.states[asked], few.candidates[asked, :2], limits)
            few.upper_bounds[asked, :2], few.widths[asked, :2] = bounds, widths.max(axis=2)
            few.safe[asked, :2] |= (bounds <= limits[:, None]).all(axis=2)
            known = few.viable
        if not every(known):
            lost = np.flatnonzero(~known)
            glance.fill(lost, self._whole(question.rows(lost), few.rows(lost)))
        return glance

    def outlook(self, question: Question, last_safe: NDArray[Any] | None = None) -> Outlook:
        """All candidates of these states, with at most one query."""
        return self._whole(question, self._few(question, last_safe))

    def _few(self, question: Question, last_safe: NDArray[Any] | None, proposals: Array | None = None) -> Outlook:
        """First candidates, not yet queried."""
        vouched = self.vouched(question)
        return first_candidates(self.action_space, self.candidates, question.limits, vouched, last_safe, proposals)

    def _similarities(self, states: Array, proposals: Array, candidates: Array) -> Array | None:
        """Scores (n, m) of candidates by where they lead, or None if the quantifier does not know."""
        outcomes = self.outcomes(states, np.concatenate([proposals[:, None], candidates], axis=1))
        if outcomes is None or not isinstance(self.action_space, spaces.Box):
            return None
        return similarities(self.action_space, outcomes, proposals, candidates)

    def _whole(self, question: Question, few: Outlook) -> Outlook:
        """Query all candidates of these states; actions already known to be safe remain so, with their bounds."""
        candidates, places, promised = all_candidates(self.action_space, self.candidates, few)
        bounds, widths = self.bounds(question.states, candidates, question.limits)
        safe: Flags = np.all(bounds <= question.limits[:, None], axis=2)
        if some(few.safe):
            bounds[:, places] = np.where(few.safe[..., None], few.upper_bounds, bounds[:, places])
            safe[:, places] |= few.safe
        return Outlook(candidates, safe, bounds, widths.max(axis=2), promised)

    def _offers(self, question: Question, rows: NDArray[np.int64], glance: Glance) -> Outlook:
        """Outlook on all candidates of these states, queried now if they have not been."""
        new = rows[~glance.asked[rows]]
        if len(new):
            glance.fill(new, self._whole(question.rows(new), glance.few.rows(new)))
        assert glance.whole is not None, "at least one state was queried"
        return glance.whole.rows(rows)
