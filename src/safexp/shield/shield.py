"""The safe set A⁺, the nearest safe action, and the verdict "nothing is safe".

No reinforcement learning in here: a control engineer puts a shield around her own controller,

    shield = Shield(quantifier, observation_space, action_space)
    shield.fit(Log(observations, actions, costs))  # or a file of them
    decision = shield.filter(observation, action, threshold=0.2)

and executes `decision.action` unless `decision.stopped`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.core import files
from safexp.core.arrays import Array, Flags, Observations, as_batch, batch_size
from safexp.core.encoding import check_action_space, encode_actions, encode_observations
from safexp.core.spaces import build_space, describe_space
from safexp.quantifiers.base import Quantifier
from safexp.quantifiers.files import build_quantifier, describe_quantifier
from safexp.quantifiers.foreign import take_back
from safexp.quantifiers.per_cost import Each
from safexp.shield.bounds import as_levels, ask, check_levels, describe_levels
from safexp.shield.candidates import Outlook, SafeAction, candidate_actions, unasked, with_extra
from safexp.shield.decisions import Decision, Decisions
from safexp.shield.logs import Log, encode_log, read_log
from safexp.shield.vouched import Vouched

LEARNED = "quantifier."
"""What the names of a quantifier's arrays begin with in a file."""
VOUCHED = "vouched."
"""What the names of the safe action's outcomes begin with in a file."""

log = logging.getLogger("safexp")


class _Case(NamedTuple):
    """n questions as numbers: states (n, ds), thresholds (n, K), proposals (n, da), and what is known of these."""

    observations: Observations
    states: Array
    limits: Array
    proposals: Array
    bounds: Array
    safe: Flags
    vouched: Flags
    outlook: Outlook | None


class Shield:
    """Keeps the actions with `min(1, mean + width) ≤ threshold` and replaces a proposal outside them.

    Discrete actions are enumerated. In a box the proposal is tried first, then the nearest safe one of
    `num_candidates` fixed actions: the centre, the corners, a low-discrepancy set, and the last safe action. Where
    all thresholds are at least 1, the largest cost, everything is safe and the quantifier is not asked. A quantifier
    that raises, or returns a NaN, a negative width or a wrong shape, certifies nothing; `failures` counts that, and
    `last_failure` tells why. Threads may share a shield as long as none of them fits it.

    Args:
        quantifier: predicts the costs.
        observation_space: what `observation`s are.
        action_space: a bounded float Box, or Discrete.
        num_candidates: size of the fixed set searched in a box.
        levels: the only values that a cost can take, for example (0, 1); of several costs a list for each, or None.
            Bounds are then rounded down to the largest level that can occur, which is sound only if the quantifier
            bounds the realised cost.
        safe_action: an action, or a function of the observations (n, ...), that the user vouches for in every
            state; a row of NaN vouches for nothing there.
        verify_safe_action: stop believing in it where it broke its promise (`note_vouched`).
    """

    _counting: ClassVar = Lock()  # of failures, where threads share a shield; of the class, since a lock has no copy

    def __init__(
        self,
        quantifier: Quantifier,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        num_candidates: int = 64,
        levels: Sequence[Any] | None = None,
        safe_action: SafeAction | None = None,
        verify_safe_action: bool = True,
    ) -> None:
        if num_candidates > files.MOST:
            raise ValueError(f"num_candidates={num_candidates} must be at most {files.MOST:,}.")
        self.quantifier = quantifier
        self.observation_space = observation_space
        self.action_space = check_action_space(action_space)
        self.num_candidates = num_candidates
        self.levels = as_levels(levels, quantifier)
        self.vouched = None if safe_action is None else Vouched(self.action_space, safe_action, verify_safe_action)
        self.failures = 0
        self.last_failure = ""
        self._fixed = candidate_actions(self.action_space, num_candidates)

    def fit(self, log: Log | str | Path) -> None:
        """Learn the costs from logged transitions alone; `read_log` says what a file of them looks like."""
        if not isinstance(log, Log | str | Path):
            raise TypeError(f"got a {type(log).__name__}, expected Log(observations, actions, costs) or a file of one.")
        data = log if isinstance(log, Log) else read_log(log)
        self.quantifier.fit(encode_log(data, self.observation_space, self.action_space))

    def save(self, path: str | Path) -> None:
        """Write the shield to one file, for `load`."""
        document, arrays = self.describe()
        files.write(Path(path), {"versions": files.versions(), "shield": document}, arrays)

    @classmethod
    def load(
        cls, path: str | Path, *, quantifier: Quantifier | None = None, safe_action: SafeAction | None = None
    ) -> Self:
        """The shield of a saved agent; a quantifier or a safe action that are functions must be given again."""
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        with files.understood(path):
            return cls.build(document["shield"], arrays, quantifier=quantifier, safe_action=safe_action)

    @classmethod
    def build(
        cls,
        document: files.Document,
        arrays: files.Arrays,
        *,
        quantifier: Quantifier | None = None,
        safe_action: SafeAction | None = None,
    ) -> Self:
        """The shield that `describe` described."""
        if safe_action is None and document["safe_action"] == "function":
            raise files.CheckpointError(
                "the file's shield has a function for its safe action, which a file cannot hold: load it with "
                "safe_action=<the same function>."
            )
        if quantifier is None:
            quantifier = build_quantifier(document["quantifier"])
        elif document["quantifier"]["name"] == "Each" and not isinstance(quantifier, Each):
            quantifier = Each.of(quantifier, len(document["quantifier"]["parts"]))  # as it was when it was trained
        shield = cls(
            quantifier,
            build_space(document["observation_space"]),
            build_space(document["action_space"]),
            num_candidates=files.count(document["num_candidates"], "num_candidates"),
            levels=document["levels"],
            safe_action=document["safe_action"] if safe_action is None else safe_action,
            verify_safe_action=document["verify_safe_action"],
        )
        shield.restore(arrays)
        return shield

    def restore(self, arrays: files.Arrays) -> None:
        """Take back what a described shield had learned: its quantifier, and what became of the safe action."""
        take_back(self.quantifier, _named(arrays, LEARNED))
        if self.vouched is not None:
            self.vouched.restore(_named(arrays, VOUCHED))

    def describe(self) -> tuple[files.Document, files.Arrays]:
        """The shield as JSON, and what it learned as arrays."""
        safe_action = None if self.vouched is None else self.vouched.action
        given = None if safe_action is None else np.asarray(safe_action).tolist()
        document = {
            "quantifier": describe_quantifier(self.quantifier),
            "observation_space": describe_space(self.observation_space),
            "action_space": describe_space(self.action_space),
            "num_candidates": self.num_candidates,
            "levels": describe_levels(self.levels),
            "safe_action": "function" if callable(safe_action) else given,
            "verify_safe_action": self.vouched is None or self.vouched.verify,
        }
        outcomes = {} if self.vouched is None else self.vouched.state()
        return document, {
            **{f"{LEARNED}{name}": part for name, part in self.quantifier.state().items()},
            **{f"{VOUCHED}{name}": part for name, part in outcomes.items()},
        }

    def filter(
        self,
        observation: Any,
        action: Any,
        threshold: float | ArrayLike,
        *,
        last_safe: Any | None = None,
        preferences: Callable[[], Array] | None = None,
        outlook: Outlook | None = None,
    ) -> Decision:
        """Whether `action` may be run in this state, and what to run instead.

        The arguments are those of `filter_batch` for one state; `outlook` and `preferences` have one row.
        """
        limit = np.asarray(threshold)
        case = self._case(as_batch(observation), np.asarray(action)[None], limit[None], outlook)
        intervened = stopped = False
        if not case.safe[0]:
            last = None if last_safe is None else np.asarray(last_safe)[None]
            case, replaced, stops = self._replaced(case, preferences, last)
            intervened, stopped = bool(replaced[0]), bool(stops[0])
        bound = case.bounds[0] if limit.ndim else float(case.bounds[0, 0])
        action = None if stopped else self._decode(case.proposals)[0]
        return Decision(action, intervened, stopped, bool(case.vouched[0]), bound)

    def filter_batch(
        self,
        observations: Observations,
        actions: NDArray[Any],
        thresholds: ArrayLike,
        *,
        last_safe: NDArray[Any] | None = None,
        preferences: Callable[[], Array] | None = None,
        outlook: Outlook | None = None,
    ) -> Decisions:
        """`filter` for n states at once: one call of the quantifier, and one more if a proposal is unsafe.

        Args:
            observations: (n, ...)
            actions: the proposals (n, ...)
            thresholds: (n,) or (n, K)
            last_safe: the last safe actions (n, ...), rows of NaN for none
            preferences: tells scores (n, number of actions) of discrete actions, and is asked only where a proposal
                is unsafe: the best safe one replaces it. Without them it is the one with the smallest bound.
            outlook: what `outlook` or `glance` said of these very states and thresholds; it is filled in where a
                proposal is unsafe and not all candidates were asked about
        """
        case = self._case(observations, actions, thresholds, outlook)
        intervened = stopped = np.zeros(len(case.safe), dtype=bool)
        if not case.safe.all():
            case, intervened, stopped = self._replaced(case, preferences, last_safe)
        bounds = case.bounds.reshape(np.shape(thresholds))
        return Decisions(self._decode(case.proposals), intervened, stopped, case.vouched, bounds)

    def outlook(
        self, observations: Observations, thresholds: ArrayLike, last_safe: NDArray[Any] | None = None
    ) -> Outlook:
        """What n states offer under these thresholds, in one call of the quantifier or none."""
        return self._outlook(observations, *self._question(observations, thresholds), last_safe)

    def glance(
        self, observations: Observations, thresholds: ArrayLike, last_safe: NDArray[Any] | None = None
    ) -> Outlook:
        """An outlook that asks no more than it takes to know which states are viable.

        The action that the user vouches for needs no question; then come the centre of the box and the last safe
        action; all candidates only where none of these is safe. Discrete actions are few, and all are asked about.
        """
        if isinstance(self.action_space, spaces.Discrete):
            return self.outlook(observations, thresholds)
        states, limits = self._question(observations, thresholds)
        offers = self._before_asking(observations, states, limits, last_safe)
        open_rows = ~offers.viable
        if open_rows.any():
            self._learn(offers, states, limits, open_rows, np.array([0, len(self._fixed)]))
            self._complete(offers, states, limits, ~offers.viable)
        return offers

    def check_levels(self, costs: Array) -> None:
        """Raise `ValueError` where an observed cost (n,) or (n, K), scaled, is none of its levels."""
        if self.levels is not None:
            check_levels(self.levels, costs)

    def trusts_levels(self, costs: Array) -> bool:
        """Whether observed costs (n,) or (n, K), scaled, are levels; bounds are no longer rounded if one is not."""
        try:
            self.check_levels(costs)
        except ValueError as error:
            log.warning("bounds are no longer rounded to levels: %s", error)
            self.levels = None
            return False
        return True

    def note_vouched(self, states: Array, costs: Array, thresholds: Array) -> None:
        """Tell what the safe action cost in these encoded states (n, ds) where decisions were `vouched`."""
        if self.vouched is not None:
            self.vouched.note(states, costs, thresholds)

    def certified(self, observation: Any, actions: NDArray[Any], threshold: float | ArrayLike) -> Flags:
        """Which of these actions (m, ...) are safe in one state, in one call of the quantifier or none."""
        state, limits = self._question(as_batch(observation), np.asarray(threshold)[None])
        candidates = encode_actions(self.action_space, actions)
        bounds, _ = self._bounds(state, candidates[None], limits)
        return np.asarray((bounds[0] <= limits).all(axis=1) & np.isfinite(candidates).all(axis=1))

    def _case(
        self, observations: Observations, actions: NDArray[Any], thresholds: ArrayLike, outlook: Outlook | None = None
    ) -> _Case:
        """Ask about the proposals, or about all actions where these are few."""
        states, limits = self._question(observations, thresholds)
        proposals = encode_actions(self.action_space, actions)
        if len(proposals) != len(limits):
            raise ValueError(f"{len(proposals)} actions for {len(limits)} states: give one for each.")
        if isinstance(self.action_space, spaces.Discrete):
            outlook = outlook or self._outlook(observations, states, limits)
            rows, chosen = np.arange(len(limits)), proposals.argmax(axis=1)
            bounds, safe = outlook.upper_bounds[rows, chosen], outlook.safe[rows, chosen]
            vouched = outlook.promised == chosen
        else:
            bounds = self._bounds(states, proposals[:, None], limits)[0][:, 0]
            safe = (bounds <= limits).all(axis=1) & np.isfinite(proposals).all(axis=1)
            vouched = np.zeros(len(limits), dtype=bool)
        return _Case(observations, states, limits, proposals, bounds, safe, vouched, outlook)

    def _replaced(
        self, case: _Case, preferences: Callable[[], Array] | None, last_safe: NDArray[Any] | None
    ) -> tuple[_Case, Flags, Flags]:
        """The case with the best safe actions in place of unsafe proposals, where that was done, and where none is."""
        outlook, unsafe = case.outlook, ~case.safe
        if outlook is None:
            outlook = self._outlook(case.observations, case.states, case.limits, last_safe)
        else:
            self._complete(outlook, case.states, case.limits, unsafe)
        viable = outlook.viable
        intervened = unsafe & viable
        if intervened.any():
            ranking = np.nan_to_num(self._ranking(outlook, case.proposals, preferences), nan=np.finfo(np.float64).max)
            ranking = np.where(outlook.safe, ranking, np.inf)  # which no safe action has
            rows, best = np.flatnonzero(intervened), ranking.argmin(axis=1)[intervened]
            case = case._replace(
                proposals=case.proposals.copy(), bounds=case.bounds.copy(), vouched=case.vouched.copy()
            )
            case.proposals[rows], case.bounds[rows] = outlook.candidates[rows, best], outlook.upper_bounds[rows, best]
            case.vouched[rows] = outlook.promised[rows] == best
        return case, intervened, unsafe & ~viable

    def _outlook(
        self, observations: Observations, states: Array, limits: Array, last_safe: NDArray[Any] | None = None
    ) -> Outlook:
        offers = self._before_asking(observations, states, limits, last_safe)
        self._complete(offers, states, limits, ~offers.whole)
        return offers

    def _before_asking(
        self, observations: Observations, states: Array, limits: Array, last_safe: NDArray[Any] | None
    ) -> Outlook:
        n, num_costs = limits.shape
        vouched = None if self.vouched is None else self.vouched.actions(observations, states)
        if isinstance(self.action_space, spaces.Discrete):
            return unasked(np.repeat(self._fixed[None], n, axis=0), num_costs, vouched)
        last = np.nan if last_safe is None else encode_actions(self.action_space, last_safe)
        extra = [last] if vouched is None else [last, vouched]
        return unasked(with_extra(self._fixed, n, extra), num_costs, vouched)

    def _complete(self, offers: Outlook, states: Array, limits: Array, rows: Flags) -> None:
        """Ask about all candidates of these states, where that was not done before."""
        rows = rows & ~offers.whole
        if rows.any():
            self._learn(offers, states, limits, rows)
            offers.whole[rows] = True

    def _learn(self, offers: Outlook, states: Array, limits: Array, rows: Flags, columns: Any = None) -> None:
        """Ask some states about some candidates or all; what is already known to be safe stays so, with its bound."""
        some: Any = slice(None) if rows.all() else np.flatnonzero(rows)  # a slice copies nothing
        at = (some, slice(None)) if columns is None else np.ix_(np.flatnonzero(rows), columns)
        bounds, widths = self._bounds(states[some], offers.candidates[at], limits[some])
        known = offers.safe[at]
        offers.upper_bounds[at] = np.where(known[..., None], offers.upper_bounds[at], bounds)
        offers.safe[at] = known | (bounds <= limits[some, None]).all(axis=2)
        offers.widths[at] = widths.max(axis=2)

    def _ranking(self, outlook: Outlook, proposals: Array, preferences: Callable[[], Array] | None) -> Array:
        """How good a replacement each candidate (n, m) is: less is better."""
        if preferences is not None:
            return -np.asarray(preferences(), dtype=np.float64)
        largest_bound = outlook.upper_bounds.max(axis=2)
        if isinstance(self.action_space, spaces.Discrete):
            return largest_bound
        span = np.maximum(self.action_space.high - self.action_space.low, np.finfo(np.float32).tiny).ravel()
        distance = np.linalg.norm((outlook.candidates - proposals[:, None]) / span, axis=2)
        return np.where(np.isnan(distance), largest_bound, distance)

    def _bounds(self, states: Array, candidates: Array, limits: Array) -> tuple[Array, Array]:
        """Upper bounds and widths (n, m, K) of the candidates' costs (n, m, da).

        Where the thresholds allow everything the quantifier is not asked: bound 1, width infinite.
        """
        below = limits < 1.0
        if below.all():
            return self._ask(states, candidates)
        demanding = below.any(axis=1)
        shape = (*candidates.shape[:2], limits.shape[1])
        bounds, widths = np.ones(shape), np.full(shape, np.inf)
        if demanding.any():
            bounds[demanding], widths[demanding] = self._ask(states[demanding], candidates[demanding])
        return bounds, widths

    def _ask(self, states: Array, candidates: Array) -> tuple[Array, Array]:
        bounds, widths, problem = ask(self.quantifier, states, candidates, self.levels)
        if problem:
            self._failed(problem)
        return bounds, widths

    def _failed(self, reason: str) -> None:
        with self._counting:
            self.failures += 1
            self.last_failure = reason
        level = logging.WARNING if self.failures == 1 else logging.DEBUG
        log.log(level, "%s certified nothing: %s", type(self.quantifier).__name__, reason)

    def _question(self, observations: Observations, thresholds: ArrayLike) -> tuple[Array, Array]:
        """The states (n, ds) and thresholds (n, K) as numbers; raises `ValueError` where they are not."""
        n, limits = batch_size(observations), np.asarray(thresholds, dtype=np.float64)
        if limits.ndim not in (1, 2) or len(limits) != n:
            raise ValueError(f"thresholds have shape {limits.shape}, expected ({n},) or, for K costs, ({n}, K).")
        if np.isnan(limits).any():
            raise ValueError(f"a threshold is NaN: {limits}; without one nothing can be certified.")
        limits = limits.reshape(n, -1)
        if limits.shape[1] != self.quantifier.num_costs:
            raise ValueError(
                f"{limits.shape[1]} thresholds for each state, but {type(self.quantifier).__name__} bounds "
                f"{self.quantifier.num_costs} costs: give one threshold for each cost."
            )
        return encode_observations(self.observation_space, observations), limits

    def _decode(self, encoded: Array) -> NDArray[Any]:
        if isinstance(self.action_space, spaces.Discrete):
            return encoded.argmax(axis=1) + self.action_space.start
        return encoded.reshape(len(encoded), *self.action_space.shape).astype(self.action_space.dtype)


def _named(arrays: files.Arrays, prefix: str) -> files.Arrays:
    """The arrays whose names begin so, without that beginning."""
    return {name[len(prefix) :]: part for name, part in arrays.items() if name.startswith(prefix)}
