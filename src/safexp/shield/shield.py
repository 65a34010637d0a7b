"""Shield: the safe set A⁺, the nearest safe action, and the verdict "nothing is safe"."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.compiled.source import Precision, write_c
from safexp.constraints import Constraint
from safexp.core import files
from safexp.core.arrays import Array, Controller, Flags, Observations, as_batch, batch_size
from safexp.core.encoding import (
    check_action_space,
    decode_observations,
    encode_actions,
    encode_observations,
    encoded_size,
)
from safexp.core.network import Network
from safexp.core.spans import Spans, untimed
from safexp.quantifiers.base import Quantifier, Transitions, rows_of
from safexp.quantifiers.best_backup import BestBackup
from safexp.quantifiers.replays import thinned
from safexp.shield.blueprints import blueprint_of
from safexp.shield.bounds import Compiled, as_levels, ask, check_levels, where_demanded
from safexp.shield.candidates import (
    Glance,
    Outlook,
    Preferences,
    SafeAction,
)
from safexp.shield.certificates import certificate_for, warn_of_backup, warn_of_refusals
from safexp.shield.decisions import Decision, Decisions
from safexp.shield.files import build_shield, describe_shield, restore_shield
from safexp.shield.logs import Log, encode_log, read_log
from safexp.shield.lookahead import BackupController, check_backup, check_memoryless, holds, largest_bound
from safexp.shield.questions import Question, checked_thresholds, steady_thresholds, with_signals
from safexp.shield.rehearsal import Rehearsal, rehearse
from safexp.shield.search import Search
from safexp.shield.transitions import transitions_of
from safexp.shield.vouched import Vouched

log = logging.getLogger("safexp")

SAMPLE = 500
"""Number of logged actions, evenly spaced, by which the certified share is measured."""


class Shield:
    """Safety filter that keeps actions with `min(1, mean + width) ≤ threshold` and replaces any other proposal.

    It needs no reinforcement learning: a control engineer puts a shield around an existing controller.

    Discrete actions are enumerated. In a box the proposal is tried first, then the nearest safe one of `num_candidates`
    fixed actions (the centre, the corners, a low-discrepancy set, and the last safe action), and `filter` goes from
    there towards the proposal as far as is safe. If all thresholds are at least 1, the largest cost, everything is safe
    and the quantifier is not queried. A quantifier that raises, or returns a NaN, a negative width or a wrong shape,
    certifies nothing; `failures` counts such queries, and `last_failure` is the reason of the last one.
    Threads may share a shield as long as none of them fits it.

    If `filter` stops too often, `examine` the log and `rehearse` the shield. For the control loop itself use
    `ShieldedPolicy`, which keeps the account and always answers.

    Args:
        quantifier: predicts the costs, with their uncertainty.
        observation_space: space of the observations.
        action_space: a bounded float Box, or Discrete.
        constraint: the limits to keep. It determines what is read from a log, and the threshold if `filter` is given
            none. Required for limits on measured signals (`Within`), for which the quantifier becomes a `ChangeModel`.
        num_candidates: size of the fixed set searched in a box.
        levels: the only values that a cost can take, for example (0, 1); for several costs a list with one entry per
            cost, None for any value. Bounds are then rounded down to the largest possible level, which is sound only if
            the quantifier bounds the realised cost.
        safe_action: an action, or a function of the observations (n, ...), that the user declares safe in every state;
            a row of NaN means no safe action there.
        verify_safe_action: stop trusting it in states like those in which it broke its promise (`note_vouched`).
        seed_controller: a controller that is safe from the first state of an episode for as long as it drives, such as
            the one that recorded the quantifier's training log; a guard lets it drive there while nothing is certified.
        backup: a controller that takes over where nothing is certified (`Backup`), and to which `Rollout` looks ahead.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> states, actions = rng.uniform(-1, 1, (300, 1)), rng.uniform(-0.3, 0.3, (300, 1))
        >>> log = safexp.Log(states, actions, episodes=np.arange(300) // 10, next_observations=states + actions)
        >>> box = gym.spaces.Box(-2.0, 2.0, (1,), np.float64)
        >>> constraint = safexp.Within(0, low=-1.0, high=1.0)
        >>> shield = safexp.Shield(safexp.ExactGP(), box, box, constraint=constraint)
        >>> shield.fit(log)
        >>> decision = shield.filter(np.array([0.9]), np.array([0.25]))
        >>> decision.intervened, bool(decision.action < 0.1)
        (True, True)
    """

    _counting: ClassVar = Lock()  # of failures in threads; a class attribute, because a lock cannot be copied

    def __init__(
        self,
        quantifier: Quantifier,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        constraint: Constraint | None = None,
        num_candidates: int = 64,
        levels: Sequence[Any] | None = None,
        safe_action: SafeAction | None = None,
        verify_safe_action: bool = True,
        seed_controller: Controller | None = None,
        backup: BackupController | None = None,
    ) -> None:
        self.observation_space, self.action_space = observation_space, check_action_space(action_space)
        if constraint is not None:
            quantifier = certificate_for(constraint, quantifier, observation_space, self.action_space, backup)
        self.quantifier, self.constraint, self.backup = quantifier, constraint, backup
        if backup is not None:
            check_backup(backup, observation_space, self.action_space)
        self.most = largest_bound(constraint, backup)
        self.num_candidates = num_candidates
        self.levels = as_levels(levels, quantifier)
        if safe_action is not None and seed_controller is not None:
            raise ValueError("give safe_action, which is safe in every state, or seed_controller, not both.")
        self.vouched = None if safe_action is None else Vouched(self.action_space, safe_action, verify_safe_action)
        if seed_controller is not None:
            self.vouched = Vouched(self.action_space, seed_controller, verify=False, everywhere=False)
        self.failures, self.last_failure = 0, ""
        self.span: Spans = untimed
        self.compiled: Compiled | None = None  # answers in place of the quantifier
        self._search = Search(
            self.action_space,
            num_candidates,
            by_outcome=isinstance(action_space, spaces.Box) and holds(backup),
            bounds=self._bounds,
            outcomes=self._outcomes,
            vouched=self._vouched_in,
        )

    def fit(self, log: Log | str | Path) -> None:
        """Learn from logged transitions or a log file (`read_log`); without a constraint, from costs in [0, 1]."""
        if not isinstance(log, Log | str | Path):
            raise TypeError(f"got a {type(log).__name__}, expected Log(observations, actions, costs) or a file of one.")
        data = log if isinstance(log, Log) else read_log(log)
        if self.constraint is None:
            self.quantifier.fit(encode_log(data, self.observation_space, self.action_space))
            self.refresh()
            return
        ahead = self.quantifier.looks_ahead
        found = transitions_of(data, self.constraint, self.observation_space, self.action_space, with_next=ahead)
        self.quantifier.fit(found)
        self.refresh()
        if ahead:
            warn_of_backup(self.quantifier, found)
            warn_of_refusals(self.quantifier, self.certified_share(found))

    def rehearse(
        self, env: Any, controller: Controller, episodes: int = 100, *, backup: Controller | None = None, seed: int = 0
    ) -> Rehearsal:
        """Let a controller drive a simulator behind the shield, as `ShieldedPolicy(backup=...)` drives a machine."""
        return rehearse(self, env, controller, episodes, backup=backup, seed=seed)

    def save(self, path: str | Path) -> None:
        """Save the shield to one file, for `load`."""
        document, arrays = self.describe()
        files.write(Path(path), {"versions": files.versions(), "shield": document}, arrays)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        quantifier: Quantifier | None = None,
        constraint: Constraint | None = None,
        safe_action: SafeAction | None = None,
        backup: BackupController | None = None,
    ) -> Self:
        """Saved shield, or the shield of a saved agent; functions cannot be saved and must be passed again."""
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        with files.understood(path):
            return build_shield(cls, document["shield"], arrays, constraint, quantifier, safe_action, backup)

    def export_c(
        self, path: str | Path, *, precision: Precision = "double", policy: Network | None = None, braking: float = 0.0
    ) -> None:
        """Write the shield, and a policy, as C99 without dependencies: `path`, which ends with .c, and its header.

        Its name becomes the prefix of the functions; for `braking` see `ShieldedPolicy`. Raises `ValueError` with the
        reason if a part of the shield cannot be exported.
        """
        write_c(blueprint_of(self), Path(path), precision=precision, policy=policy, braking=braking)

    def restore(self, arrays: files.Arrays) -> None:
        """Restore the learned state of a described shield: its quantifier and the outcomes of its safe action."""
        restore_shield(self, arrays)
        self.refresh()

    def refresh(self) -> None:
        """Let a compiled shield take over what the quantifier has learned."""
        if self.compiled is not None:
            self.compiled.refresh()

    def describe(self) -> tuple[files.Document, files.Arrays]:
        """JSON description of the shield, and the arrays that it learned."""
        return describe_shield(self)

    def filter(
        self,
        observation: Any,
        action: Any,
        threshold: float | ArrayLike | None = None,
        *,
        measured: ArrayLike | None = None,
        last_safe: Any | None = None,
        preferences: Preferences | None = None,
    ) -> Decision:
        """Check whether `action` may be run in a state, and choose a replacement if not: `filter_batch` for one."""
        if self.backup is not None:
            check_memoryless(self.backup)
        batch = as_batch(observation)
        limit = steady_thresholds(self.constraint, batch)[0] if threshold is None else np.asarray(threshold)
        question = self.question(
            batch, limit[None], measured=None if measured is None else np.atleast_1d(measured)[None]
        )
        last = None if last_safe is None else np.asarray(last_safe)[None]
        found = self.decide(question, np.asarray(action)[None], preferences=preferences, last_safe=last, near=True)
        decision = found.first(single=not limit.ndim)
        if decision.stopped and self.backup is not None:
            return decision._replace(action=np.asarray(self.backup.act(batch))[0], stopped=False, takeover=True)
        return decision

    def filter_batch(
        self,
        observations: Observations,
        actions: NDArray[Any],
        thresholds: ArrayLike | None = None,
        *,
        measured: ArrayLike | None = None,
        last_safe: NDArray[Any] | None = None,
        preferences: Preferences | None = None,
    ) -> Decisions:
        """`filter` for n states at once: one query of the quantifier, and one more if a proposal is unsafe.

        Args:
            observations: (n, ...)
            actions: the proposals (n, ...)
            thresholds: (n,) or (n, K); those of the constraint by default, if they are the same at every step
            measured: current signals (n, S), for limits on signals that are not in the observation
            last_safe: the last safe actions (n, ...), rows of NaN for none
            preferences: scores of candidates (`Preferences`), queried only for refused proposals: the best safe one
                replaces each. Without them the nearest does, or the discrete action with the smallest bound.
        """
        thresholds = steady_thresholds(self.constraint, observations) if thresholds is None else thresholds
        question = self.question(observations, thresholds, measured=measured)
        found = self.decide(question, actions, preferences=preferences, last_safe=last_safe, near=True)
        return found._replace(upper_bounds=found.upper_bounds.reshape(np.shape(thresholds)))

    def outlook(
        self,
        observations: Observations,
        thresholds: ArrayLike,
        *,
        measured: ArrayLike | None = None,
        last_safe: NDArray[Any] | None = None,
    ) -> Outlook:
        """Outlook on n states under these thresholds, with at most one query of the quantifier."""
        question = self.question(observations, thresholds, measured=measured)
        return self._search.outlook(question, last_safe)

    def states(self, observations: Observations, measured: ArrayLike | None = None) -> Array:
        """Observations (n, ...) as the quantifier takes them: encoded, followed by the current signals."""
        encoded, count = encode_observations(self.observation_space, observations), self.quantifier.num_signals
        return with_signals(encoded, count, observations, measured, self.constraint) if count else encoded

    def question(
        self,
        observations: Observations,
        thresholds: ArrayLike,
        states: Array | None = None,
        measured: ArrayLike | None = None,
    ) -> Question:
        """Query about n observations with thresholds (n,) or (n, K); pass `states` if they are already encoded.

        Raises:
            ValueError: if they are not observations of the space, or there is not one threshold per cost.
        """
        limits = checked_thresholds(thresholds, batch_size(observations), self.quantifier)
        return Question(observations, self.states(observations, measured) if states is None else states, limits)

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
        """`filter_batch` for a query; `glance` is what is known of it; `near` if replacements approach proposals."""
        return self._search.decide(question, actions, glance, preferences, last_safe, near=near)

    def glance(self, question: Question, last_safe: NDArray[Any] | None = None) -> Glance:
        """Find out which states are viable, with as few queries as possible."""
        return self._search.glance(question, last_safe)

    @property
    def candidates(self) -> Array:
        """Fixed set (m, da) of encoded actions that is searched."""
        return self._search.candidates

    def option_after(self, states: Array, actions: NDArray[Any]) -> NDArray[np.int64]:
        """Option (n,) of the backup on which the certificate of each action (n, ...) in its state (n, ds) rests."""
        if not isinstance(self.quantifier, BestBackup):
            return np.zeros(len(states), dtype=np.int64)
        return self.quantifier.chosen(states, encode_actions(self.action_space, actions))

    def check_levels(self, costs: Array) -> None:
        """Raise `ValueError` if an observed cost (n,) or (n, K), scaled, is not one of its levels."""
        if self.levels is not None:
            check_levels(self.levels, costs)

    def note_vouched(self, states: Array, costs: Array, thresholds: Array) -> None:
        """Record the costs of the safe action in these encoded states (n, ds), for decisions that were `vouched`."""
        if self.vouched is not None:
            self.vouched.note(states, costs, thresholds)

    def certified(
        self,
        observation: Any,
        actions: NDArray[Any],
        threshold: float | ArrayLike,
        *,
        measured: ArrayLike | None = None,
    ) -> Flags:
        """Whether each of these actions (m, ...) is safe in one state, with at most one query of the quantifier."""
        signals = None if measured is None else np.atleast_1d(measured)[None]
        question = self.question(as_batch(observation), np.asarray(threshold)[None], measured=signals)
        candidates = encode_actions(self.action_space, actions)
        bounds, _ = self._bounds(question.states, candidates[None], question.limits)
        return np.asarray((bounds[0] <= question.limits).all(axis=1) & np.isfinite(candidates).all(axis=1))

    def certified_share(self, data: Transitions) -> float:
        """Share of the actions in transitions that are certified under the first limits of an episode, by a sample."""
        if self.constraint is None:
            raise ValueError("the shield has no constraint to take limits from: give Shield(constraint=...).")
        some = rows_of(data, thinned(np.arange(len(data.states)), SAMPLE))
        size = encoded_size(self.observation_space)
        start = self.constraint.start(decode_observations(self.observation_space, some.states[:, :size]))
        limits = self.constraint.threshold(start).reshape(len(start), -1)
        bounds, _ = self._bounds(some.states, some.actions[:, None], limits)
        return float((bounds[:, 0] <= limits).all(axis=1).mean())

    def _outcomes(self, states: Array, actions: Array) -> Array | None:
        return self.quantifier.outcomes(states, actions)

    def _vouched_in(self, question: Question) -> Array | None:
        if self.vouched is None:
            return None
        return self.vouched.actions(question.observations, question.states, question.first)

    def _bounds(self, states: Array, candidates: Array, limits: Array) -> tuple[Array, Array]:
        """Upper bounds and widths (n, m, K) of the candidates' costs (n, m, da)."""
        return where_demanded(self._ask, states, candidates, limits, self.most)

    def _ask(self, states: Array, candidates: Array) -> tuple[Array, Array]:
        with self.span("quantifier"):
            bounds, widths, problem = ask(self.compiled or self.quantifier, states, candidates, self.levels, self.most)
        if problem:
            self._failed(problem)
        return bounds, widths

    def _failed(self, reason: str) -> None:
        with self._counting:
            self.failures, self.last_failure = self.failures + 1, reason
        level = logging.WARNING if self.failures == 1 else logging.DEBUG
        log.log(level, "%s certified nothing: %s", type(self.quantifier).__name__, reason)
