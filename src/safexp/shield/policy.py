"""Shielded controller for deployment: an answer at every step, on time, even after failures.

A control loop calls it at every step and reports the cost of the last action:

    policy = ShieldedPolicy(controller, Shield.load("agent.safexp"), Budget(20), fallback=brake, deadline=0.005)
    policy.reset(observation)
    while running:
        observation, cost = plant(policy.act(observation).action)
        policy.observe(cost)

Under `Within` the loop reports the signals in place of a cost, or nothing if they are entries of the observation.
"""

from __future__ import annotations

import logging
import weakref
from functools import partial
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from safexp.constraints import Account, Constraint
from safexp.constraints.files import build_constraint
from safexp.core import files
from safexp.core.arrays import Array, Controller, Observations, as_batch
from safexp.core.encoding import ActionSpace, decode_actions, encode_actions, fits
from safexp.core.signals import name_of_signal
from safexp.quantifiers.base import Quantifier
from safexp.shield.answers import Answer, Outcome
from safexp.shield.candidates import SafeAction
from safexp.shield.episode_controller import EpisodeController
from safexp.shield.files import build_shield
from safexp.shield.lookahead import BackupController
from safexp.shield.readings import all_observed, by_limit, readings_of, signals_among
from safexp.shield.shield import Shield
from safexp.shield.worker import Worker

log = logging.getLogger("safexp")


class ShieldedPolicy:
    """Controller whose proposals a shield checks, with the constraint's account of the episode.

    `act` always answers. The fallback is run, unchecked, if nothing is safe, if the controller, the quantifier or the
    shield fails, if an observation is not finite or outside its space, and if an answer is late; `counts` holds the
    number of each outcome. A cost that is missing, NaN or negative counts as the largest one, and so does a cost that
    is not passed to `observe` before the next `act`; `bad_costs` counts these, and costs that are not among the
    shield's `levels`, after which it no longer relies on them.

    `violations` counts the steps that broke the constraint, judged from what was measured, whatever the shield had
    certified: the signal was beyond its limit, or the cost was more than remained. The first one of an episode is
    logged as a warning. The outcome of the last step of an episode is known only if it is passed to `observe`.

    If nothing is certified, the shield's backup takes over, or the one given here; the fallback is for failures.

    Limits on measured signals (`Within`) are checked from their current values: entries of the observation are read
    from it, others are passed to `reset` and `observe`. While one of them is missing, the fallback is run.

    With a deadline, a separate thread computes while `act` waits. A late answer is discarded when it arrives; until
    then the thread is busy, and further answers are fallbacks. The guarantee is that `act` stops waiting on time, not
    that the interpreter resumes it at once: while other Python code computes, that takes up to
    `sys.getswitchinterval()` longer (5 ms, which can be set lower), and a C call that holds Python's lock delays it
    until that call returns. A hard real-time guarantee needs a watchdog outside Python.

    Each object belongs to one control loop. Many of them, in as many threads, may share the shield.

    Args:
        policy: a function of the observation, or an object such as a Stable-Baselines3 model with a method
            `predict(observation, deterministic=True)` that returns the action first. A recurrent policy takes `state`
            and `episode_start` as well, as `model.predict` and `agent.propose` do, and returns its next state, which it
            is given at the next step of the episode.
        shield: checks the proposals.
        constraint: turns observed costs into thresholds.
        fallback: the one action for all emergencies, declared safe by the user; not a function, because it must be
            available even without an observation.
        deadline: seconds that an answer may take; None waits for as long as it takes, without a thread.
        show_threshold: call `policy(observation, threshold)`, for a policy that takes the remaining budget into
            account.
        braking: cost of a stop itself while the machine comes to rest, in units of the largest cost of a step: the
            shield is queried as if that much less remained.
        backup: controller that drives where nothing is certified, as in `Shield.rehearse`: a function of observations
            (n, ...) that returns actions (n, ...), run unchecked. For a shield without a backup of its own.

    Example:
        >>> box = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
        >>> shield = safexp.Shield(safexp.Unknown(), box, box)
        >>> policy = safexp.ShieldedPolicy(lambda seen: seen, shield, safexp.Budget(1.5), fallback=[0.0])
        >>> seen = np.array([0.5])
        >>> policy.reset(seen)
        >>> for cost in (0.4, 0.4):
        ...     print(policy.act(seen).outcome, round(policy.threshold, 2))
        ...     policy.observe(cost)
        proposal 1.5
        proposal 1.1
    """

    def __init__(
        self,
        policy: Any,
        shield: Shield,
        constraint: Constraint,
        fallback: ArrayLike,
        *,
        deadline: float | None = None,
        show_threshold: bool = False,
        braking: float = 0.0,
        backup: Controller | None = None,
    ) -> None:
        if backup is not None and not callable(backup):
            raise TypeError(f"backup={backup!r} must be a function of observations (n, ...), as in Shield.rehearse.")
        if backup is not None and shield.backup is not None:
            raise ValueError("the shield has a backup, which its certificates look ahead to: give no other one.")
        if deadline is not None and not 0 < deadline < np.inf:
            raise ValueError(f"deadline={deadline} must be a number of seconds above 0, or None for no deadline.")
        if not callable(policy) and not hasattr(policy, "predict"):
            raise TypeError(f"policy={policy!r} is not a function of the observation and has no method predict.")
        self._propose = EpisodeController(policy)
        self._propose.check_takes("observation", *(["threshold"] if show_threshold else []))
        self.policy = policy
        self.shield = shield
        self.constraint = constraint
        self.fallback = _checked_fallback(shield.action_space, fallback)
        self.deadline = deadline
        self.show_threshold = show_threshold
        self.backup = backup
        self.counts: dict[Outcome, int] = dict.fromkeys(get_args(Outcome), 0)
        self.bad_costs = 0
        self.violations = 0
        self._account = Account(constraint, 1, braking)
        self._begun = self._violated = False
        self._ones = np.ones(np.shape(constraint.largest_threshold))
        if self._ones.size != shield.quantifier.num_costs:
            raise ValueError(
                f"{type(constraint).__name__} limits {self._ones.size} costs, but the shield bounds "
                f"{shield.quantifier.num_costs}: give the shield one quantifier per cost, PerCost(...)."
            )
        if constraint.sources and shield.constraint is not None and shield.constraint != constraint:
            raise ValueError(
                f"the shield certifies {shield.constraint}, not {constraint}: limits on signals are in the shield's "
                "certificates, so give the same constraint to both."
            )
        self._readings = readings_of(constraint)
        self._measured: Array = np.full(shield.quantifier.num_signals, np.nan)
        self._awaited: Answer | None = None
        self._last: NDArray[Any] | None = None
        self._worker = None if deadline is None else Worker[Answer]()
        if self._worker is not None:
            weakref.finalize(self, self._worker.close)

    @classmethod
    def load(
        cls,
        path: str | Path,
        policy: Any,
        fallback: ArrayLike,
        *,
        quantifier: Quantifier | None = None,
        safe_action: SafeAction | None = None,
        constraint: Constraint | None = None,
        deadline: float | None = None,
        show_threshold: bool | None = None,
        backup: Controller | BackupController | None = None,
    ) -> Self:
        """Controller with the shield, constraint and braking of a saved agent; a saved shield has only the first.

        The policy is shown the threshold if the agent's own policy was, unless `show_threshold` says otherwise.
        Functions cannot be saved: pass the `Backup` of a shield that looks ahead again, or any controller as the backup
        of one that does not.
        """
        document, arrays = files.read(Path(path))
        files.expect(document, "shield", path)
        if constraint is None and "constraint" not in document:
            raise files.CheckpointError(f"{path} holds a shield alone: load it with constraint=<a constraint>.")
        with files.understood(path):
            shield = build_shield(Shield, document["shield"], arrays, constraint, quantifier, safe_action, backup)
            constraint = constraint or build_constraint(document["constraint"])
            braking = float(document.get("braking", 0.0))
        if show_threshold is None:
            show_threshold = bool(document.get("show_threshold", False))
        controller = backup if callable(backup) else None if backup is None else backup.act
        return cls(
            policy,
            shield,
            constraint,
            fallback,
            deadline=deadline,
            show_threshold=show_threshold,
            braking=braking,
            backup=controller if shield.backup is None else None,
        )

    @property
    def threshold(self) -> float | Array:
        """Largest allowed next cost, scaled to [0, 1]: b_h, () or (K,)."""
        if not self._begun:
            raise RuntimeError("no episode has begun: call reset(observation) first.")
        return self._account.thresholds[0]

    @property
    def braking(self) -> float:
        """Cost reserved for a stop itself."""
        return self._account.braking

    def reset(self, observation: Any, measured: ArrayLike | None = None) -> None:
        """Begin an episode, with none of its budget spent.

        Args:
            observation: the first observation.
            measured: current values () or (S,) of the signals that `Within` limits; not needed if all of them are
                entries of the observation.
        """
        batch = as_batch(observation)
        self._measured = self._first_signals(batch, measured)
        self._account.open(np.ones(1, dtype=bool), batch)
        self._begun, self._violated, self._awaited, self._last = True, False, None, None
        self._propose = EpisodeController(self.policy)

    def act(self, observation: Any) -> Answer:
        """Action to run now."""
        batch = as_batch(observation) if fits(self.shield.observation_space, observation) else None
        if self._awaited is not None:
            self.observe(None if batch is None else self._told_by(batch))
        threshold = self.threshold
        if batch is None:
            answer = self._emergency("bad observation", f"{observation!r} is not of its space")
        elif unknown := self._measure(batch):
            answer = self._emergency("bad observation", f"{unknown} is not known: tell it to observe(...)")
        elif self._worker is None or self.deadline is None:
            answer = self._decide(self._propose, observation, self._measured, threshold, self._last)
        else:
            call = partial(self._decide, self._propose, observation, self._measured, threshold, self._last)
            try:
                answer = self._worker.ask(call, self.deadline)
            except TimeoutError:
                answer = self._emergency("late", f"no answer within {self.deadline} s")
        self.counts[answer.outcome] += 1
        self._awaited = answer
        if isinstance(self.shield.action_space, spaces.Box):
            self._last = answer.action
        return answer

    def observe(self, told: ArrayLike | None) -> None:
        """Report the last action's outcome: its cost in the constraint's units, or the signal that `Within` limits.

        Several limits take one number per cost and per signal, (M,). If all of them are entries of the observation,
        `act` reads them there and this call may be omitted. None stands for a failed measurement.
        """
        if self._awaited is None:
            raise RuntimeError("there is no action to report on: call act(observation) first.")
        shape = () if self._readings == 1 else (self._readings,)
        readings = np.full(shape, np.nan) if told is None else np.asarray(told, dtype=np.float64)
        if readings.size != self._readings or readings.ndim > 1:
            raise ValueError(
                f"{told!r} has shape {readings.shape}, expected {shape}: one number for each cost and each signal."
            )
        if len(self._measured):
            self._measured = signals_among(self.constraint, readings.reshape(-1))
        given = by_limit(self.constraint, readings.reshape(-1))
        scaled = np.asarray(self.constraint.normalise(given), dtype=np.float64)
        known = scaled >= 0  # false for NaN
        if not ((known & (scaled <= 1)).all() and self._trusts_levels(scaled[None])):
            self.bad_costs += 1
        if self._account.exceeded(scaled[None])[0]:
            self._note_violation(readings)
        costs = np.where(known, scaled, 1.0)  # a cost above the largest one counts in full
        if self._awaited.vouched is not None:
            self.shield.note_vouched(self._awaited.vouched, costs[None], self._account.certifiable)
        self._account.charge(costs[None], self._awaited.upper_bound[None])
        self._awaited = None

    def _note_violation(self, readings: Array) -> None:
        self.violations += 1
        level = logging.DEBUG if self._violated else logging.WARNING
        log.log(level, "the constraint is violated: %s was measured under %s", readings, self.constraint)
        self._violated = True

    def _trusts_levels(self, costs: Array) -> bool:
        """Whether observed costs (n,) or (n, K), scaled, are levels; if one is not, bounds are no longer rounded."""
        try:
            self.shield.check_levels(costs)
        except ValueError as error:
            log.warning("bounds are no longer rounded to levels: %s", error)
            self.shield.levels = None
            return False
        return True

    def close(self) -> None:
        """End the thread, if there is one, once it is idle."""
        if self._worker is not None:
            self._worker.close()

    def _first_signals(self, batch: Observations, measured: ArrayLike | None) -> Array:
        """Signals (S,) in the first state, as passed by the caller or else as observed."""
        if not len(self._measured):
            return self._measured
        given = self.constraint.now(batch)[0] if measured is None else np.atleast_1d(np.asarray(measured, np.float64))
        if given.shape != self._measured.shape or (measured is None and np.isnan(given).any()):
            names = ", ".join(map(name_of_signal, self.constraint.sources))
            raise ValueError(f"measured={measured!r}: give reset(observation, measured=<{names} as they are now>).")
        return given

    def _told_by(self, batch: Observations) -> Array | None:
        """Readings (M,) after the last action, if the observation contains all of them."""
        return self._observed(batch) if all_observed(self.constraint, batch) else None

    def _measure(self, batch: Observations) -> str:
        """Read the signals that are in the observation; returns the name of one that is still unknown, or ''."""
        if not len(self._measured):
            return ""
        observed = self._observed(batch)
        self._measured = np.where(np.isnan(observed), self._measured, observed)
        missing = np.flatnonzero(~np.isfinite(self._measured))
        return f"the signal {name_of_signal(self.constraint.sources[missing[0]])}" if missing.size else ""

    def _observed(self, batch: Observations) -> Array:
        """Signals (S,) in an observation, NaN where they are not in it or a user's function raises."""
        try:
            return self.constraint.now(batch)[0]
        except Exception as error:  # any failure means that nothing was measured
            log.warning("signals could not be read from an observation: %s: %s", type(error).__name__, error)
            return np.full(len(self.constraint.sources), np.nan)

    def _decide(
        self,
        propose: EpisodeController,
        observation: Any,
        measured: Array,
        threshold: float | Array,
        last_safe: NDArray[Any] | None,
    ) -> Answer:
        try:
            seen = (observation, threshold) if self.show_threshold else (observation,)
            proposal = np.asarray(propose(*seen))
            encode_actions(self.shield.action_space, proposal[None])  # raises if this is not an action
            if not np.isfinite(proposal).all():
                raise ValueError(f"{proposal} is not finite")
        except Exception as error:  # whatever a controller raises, the plant needs an action
            return self._emergency("policy error", f"{type(error).__name__}: {error}")
        try:
            signals = measured if len(measured) else None
            certifiable = threshold - self.braking
            decision = self.shield.filter(observation, proposal, certifiable, measured=signals, last_safe=last_safe)
        except Exception as error:
            return self._emergency("shield error", f"{type(error).__name__}: {error}")
        if decision.stopped:
            failed = np.isinf(decision.upper_bound).any()  # a quantifier that works bounds every cost by 1
            if self.backup is not None and not failed:
                return self._taken_over(self.backup, observation)
            reason = f"upper bound {decision.upper_bound} of the proposal's cost, threshold {certifiable}"
            return self._emergency("quantifier error" if failed else "stop", reason)
        if decision.takeover:
            return Answer(decision.action, "backup", self._ones)
        outcome: Outcome = "replacement" if decision.intervened else "proposal"
        row = None if signals is None else signals[None]
        state = self.shield.states(as_batch(observation), row) if decision.vouched else None
        return Answer(decision.action, outcome, np.asarray(decision.upper_bound, dtype=np.float64), state)

    def _taken_over(self, backup: Controller, observation: Any) -> Answer:
        """Answer of the backup, or the fallback if it fails."""
        try:
            actions = np.asarray(backup(as_batch(observation)))
            encoded = encode_actions(self.shield.action_space, actions)  # clipped to the box
            if len(encoded) != 1 or not np.isfinite(encoded).all():
                raise ValueError(f"{actions} is not one finite action")
        except Exception as error:  # whatever a backup raises, the plant needs an action
            return self._emergency("policy error", f"backup: {type(error).__name__}: {error}")
        return Answer(decode_actions(self.shield.action_space, encoded)[0], "backup", self._ones)

    def _emergency(self, outcome: Outcome, reason: str) -> Answer:
        level = logging.DEBUG if self.counts[outcome] else logging.WARNING
        log.log(level, "the fallback action is run (%s): %s", outcome, reason)
        return Answer(self.fallback.copy(), outcome, self._ones)


def _checked_fallback(space: ActionSpace, fallback: ArrayLike) -> NDArray[Any]:
    if callable(fallback):
        raise TypeError(
            f"fallback={fallback!r} is a function; it must be one action, which can be run after any failure, "
            "even without an observation."
        )
    action = np.asarray(fallback, dtype=space.dtype)
    if not fits(space, action):
        raise ValueError(f"fallback={fallback!r} is not an action of {space}.")
    return action
