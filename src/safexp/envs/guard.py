"""Algorithm 1, lines 3-12: the shield between a learner and its environments."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices

from safexp.backups.drills import Drills, discounts_of
from safexp.backups.penalty import Penalty
from safexp.backups.promises import Promises
from safexp.backups.recovery import Driven, Recovery, Reset
from safexp.backups.takeovers import Takeovers
from safexp.constraints import Constraint
from safexp.core.arrays import Array, Flags, Observations, take
from safexp.envs.after_stop import check_drives_on, drive_on
from safexp.envs.frontier import Frontier
from safexp.envs.harvest import RecentSteps
from safexp.envs.infos import Column, Infos
from safexp.envs.observations import THRESHOLD, threshold_shown, threshold_space, without
from safexp.envs.recording import Chosen, Harvest, Outcome, Recording, StepRecord, Taken
from safexp.envs.refusals import NothingSafeError, advice, check_spaces
from safexp.envs.vector import first_told, owned
from safexp.shield.candidates import Glance, Preferences
from safexp.shield.decisions import Decisions
from safexp.shield.questions import Question
from safexp.shield.shield import Shield

MAX_STARTS = 100
"""Number of consecutive uncertifiable first states that are reset before giving up."""

log = logging.getLogger("safexp")


class Guard(Recording):
    """Environments that run only certified actions, and stop an episode *before* an action could break the constraint.

    The learner sees ordinary environments: a stop is `terminated`, and the transition that led to it receives the
    penalty. If the constraint depends on the past, the threshold b_h, scaled to at most 1, is appended to the learner's
    observation; the shield and the quantifier always see the raw observation. `info["shield"]` describes each step: the
    executed `action`, the `threshold` it was certified under, whether the shield `intervened` or `stopped`, whether the
    action ran on the user's word (`vouched`), and whether the backup drove instead of the learner (`takeover`), which
    the learner sees as a part of the environment, or held a `drill`.

    In each vector step the quantifier is queried about the proposals and about one or two actions of each next state.
    All candidates are queried at most twice: where a proposal is refused, and where none of those actions of the next
    state is safe. If an episode was stopped, the new first states are queried as well. Where the thresholds allow
    everything, the quantifier is never queried.

    Made by `MASE` and `wrap`; use those unless you build an algorithm of your own.

    Args:
        venv: the environments.
        constraint: turns costs into thresholds.
        shield: certifies actions.
        penalty: reward of a transition that leads to a stop, or None to leave it unchanged.
        shielding: False runs every proposal and never stops: the bare learner, with the same records.
        show_threshold: append the threshold to the observation; the constraint's choice by default.
        backup: takes over, or ends the episode, where nothing is certified; `Reset` by default.

    Example:
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> shield = safexp.Shield(safexp.Unknown(), envs.observation_space, envs.action_space)
        >>> guard = safexp.Guard(envs, safexp.Budget(3.0), shield, safexp.Penalty(0.3))
        >>> guard.reset().shape
        (2, 5)
        >>> observations, rewards, dones, infos = guard.step(np.zeros((2, 2), np.float32))
        >>> round(float(infos[0]["shield"]["threshold"]), 3)
        3.0
    """

    def __init__(
        self,
        venv: VecEnv,
        constraint: Constraint,
        shield: Shield,
        penalty: Penalty | None,
        *,
        shielding: bool = True,
        show_threshold: bool | None = None,
        backup: Recovery | None = None,
    ) -> None:
        check_spaces(venv, constraint, shield)
        self.backup = backup or Reset()
        self.backup.check(constraint, venv)
        self.show_threshold = constraint.in_observation if show_threshold is None else show_threshold
        raw = venv.observation_space
        seen = threshold_space(constraint, raw) if self.show_threshold else raw
        super().__init__(venv, constraint, seen, self.backup.braking)
        self.shield = shield
        self.penalty = penalty
        self.shielding = shielding
        if self.backup.after is not None:
            check_drives_on(venv)
            self.recorder.judges_stops = True
        self.preferences: Callable[[Observations, Array], Array] | None = None
        """Scores (k, m) of the encoded candidates (k, m, da) of k states, from what the learner sees in them."""
        self.pupil: Callable[[Observations, NDArray[Any], NDArray[Any], Flags], None] | None = None
        """Is told of every step: what the learner sees, proposals, executed actions, and where these were replaced."""
        self.frontier = Frontier()
        self.last: StepRecord
        n = venv.num_envs
        self._question: Question | None = None
        self._glance: Glance | None = None
        self._decisions: Decisions
        discounts = discounts_of(constraint)
        longest = max((option.steps for option in self.backup.options), default=0)
        self.drills = Drills(n, longest, self.backup.drills, discounts)
        self.takeovers = Takeovers(self.backup.options, n, shield.option_after, self.backup.keep)
        self.promises = Promises(n, ~np.isnan(discounts))
        self._states: Array = np.empty((n, 0))
        self._viable = self._everywhere
        self._last_safe = np.full((n, *(venv.action_space.shape or ())), np.nan)
        self._driving = np.zeros(n, dtype=bool)
        self._drilling = self._nowhere
        self._proposed: NDArray[Any] = np.empty(0)
        self._first = np.ones(n, dtype=bool)  # or reached from a first state by vouched actions alone
        self._recent = RecentSteps(n)

    # Interface to the learner

    def reset(self) -> Observations:
        self.backup.end(self._everywhere, stopped=False)
        self.drills.end(self._everywhere)
        self.recorder.end(self.recorder.running, self._nowhere)
        self._arrive(owned(self.venv, self.venv.reset()), self._everywhere, self._everywhere)
        self.mid_step = False
        if not self._viable.any():
            raise self._nothing_safe("nothing can be certified in the first state")
        self._begin(self._everywhere)
        self.restart(self._nowhere)
        return self.observations

    def choose(self, actions: NDArray[Any]) -> Chosen:
        """Line 3: the proposals, or the actions that the shield certifies instead."""
        if self.mid_step:
            raise RuntimeError("the last step did not finish, so its cost is unknown: call reset() first.")
        nowhere, thresholds = self._nowhere, self.account.thresholds
        self._proposed = actions
        if self._question is None:
            self._decisions = Decisions(actions, nowhere, nowhere, nowhere, np.ones_like(thresholds))
        else:
            if self._driving.any() and not self.backup.horizon:
                actions = actions.copy()
                actions[self._driving] = self.backup.act(take(self._raw, self._driving))
            actions, kept = self.takeovers.kept(actions)
            with self.span("shield"):
                last = self._last_safe if self.backup.horizon and self._glance is None else None
                self._decisions = self.shield.decide(
                    self._question, actions, self._glance, self._preferences_here(), last_safe=last
                )
            if self.backup.horizon:
                self._hand_over(kept)
            elif self._decisions.stopped.any():
                raise NothingSafeError("the shield lost its certificate between two steps; nothing was executed.")
        executed, intervened, _, vouched, bounds = self._decisions
        if self._question is not None:
            asked = self._drilling if self.backup.horizon else self._driving
            self.frontier.propose(~asked, ~(intervened | vouched | self._driving))
        takeovers = self._driving & ~self._drilling
        if self.pupil is not None:
            proposed, run = self._proposed - self.first_action, executed - self.first_action
            self.pupil(self.observations, proposed, run, intervened | takeovers)
        return Chosen(executed, intervened, takeovers, bounds.reshape(thresholds.shape), self._drilling)

    def _hand_over(self, kept: Flags) -> None:
        """Let the backup drive where a drill runs, and where nothing is certified until a proposal is again.

        If replacements are kept, they end a takeover, too: behind the edge of an obstacle the next proposal is seldom
        better. Where an earlier replacement was `kept` (n,) in place of the proposal, that counts as an intervention.
        """
        decided, drilling = self._decisions, self.drills.running
        certified = ~decided.stopped
        if not self.backup.keep:
            certified &= ~(self._driving & decided.intervened & ~decided.vouched)
        self._driving = drilling | ~certified
        if self._driving.any():
            actions, bounds = decided.actions.copy(), decided.upper_bounds.copy()
            actions[self._driving] = self.takeovers.act(self._raw, self._driving)
            lost = self._driving & self.promises.broken
            if lost.any():
                actions[lost] = self.backup.rescue_from(take(self._raw, lost))
            bounds[self._driving] = 1.0
            others = ~self._driving
            self._decisions = Decisions(
                actions, decided.intervened & others, self._nowhere, decided.vouched & others, bounds
            )
        self.takeovers.replaced(self._decisions.intervened, self._driving)
        if kept.any():
            self._decisions = self._decisions._replace(intervened=self._decisions.intervened | (kept & ~self._driving))
        self._drilling = drilling
        own = ~self._driving & ~self._decisions.vouched
        self.takeovers.certify(own, self._states, self._decisions.actions)
        self.takeovers.reset(self._decisions.vouched)
        begins = self.drills.drawn(own)
        if begins.any():
            self.drills.begin(begins, self._decisions.upper_bounds, self.takeovers.steps(begins))
        self.promises.renew(own, self._decisions.upper_bounds)
        self.promises.trust(self._decisions.vouched, self.account.thresholds)

    def note(self, taken: Taken) -> None:
        """Line 4: pass a step to the shield, the quantifier and the next search."""
        executed, _, _, vouched, _ = self._decisions
        self.shield.check_levels(taken.costs)
        self._first = self._first & vouched
        if vouched.any():
            self.shield.note_vouched(self._states[vouched], taken.costs[vouched], self.account.certifiable[vouched])
        self.measured = self.constraint.measured(taken.received.step)
        if self.backup.horizon:
            self.promises.note(taken.costs)
        self.frontier.reach(self.constraint.margins(taken.costs, taken.thresholds, self.measured))
        following = self._states[:, :0]
        if self.shield.quantifier.looks_ahead:
            following = self.shield.states(taken.received.step.next_observations, self.measured)
        self._recent.add(taken, self._states, executed, self.measured, following)
        self._last_safe[:] = executed

    def arrived(self, rows: Flags, fresh: Flags) -> None:
        """Line 6: check that the next state, or the first state of the next episode, has a safe action."""
        if fresh.any() and self.constraint.sources:
            self.measured = np.where(fresh[:, None], self._first_measured(), self.measured)
        self._states = self.shield.states(self._raw, self.measured)
        self._last_safe[fresh] = np.nan
        self._driving[fresh] = False
        self.takeovers.reset(fresh)
        self.promises.trust(fresh, self.account.thresholds)
        self._first = np.where(rows, fresh | self._first, self._first)
        if self.shielding:
            self._look(rows)
        else:
            self._question, self._glance, self._viable = None, None, self._everywhere

    def judge(self, taken: Taken) -> Outcome:
        """Line 7: the penalty of a stop."""
        dones, rewards, driving = taken.received.dones, taken.received.rewards, self._chosen.takeovers
        stopped = ~dones & ~self._viable
        ended = dones | stopped
        penalised = rewards.copy()
        if self.penalty is not None and stopped.any():
            glance = None if self.backup.horizon else self._glance
            width = np.ones(int(stopped.sum())) if glance is None else glance.least_width(stopped)
            penalised[stopped] = self.penalty(width)
        if self.penalty is not None and self.penalty.moved:
            moves = self.penalty.of_moves(self.action_space, self._proposed, self._chosen.actions)
            penalised -= np.where(self._drilling, 0.0, moves)
        if self.backup.horizon:
            penalised[driving] -= self.backup.penalty
            self.drills.note(taken.costs, ended)
        else:
            penalised[self._driving & ~driving & ~ended] -= self.backup.penalty
        self.last = StepRecord(self._chosen.actions, rewards, self.remaining, stopped, self.measured)
        driven = Driven(taken.received.step, taken.costs, driving, self._driving & ~ended, ended, stopped)
        self.backup.note(driven)
        return Outcome(penalised, stopped)

    def describe(self, infos: Infos, taken: Taken, stopped: Flags) -> None:
        executed, intervened, _, vouched, _ = self._decisions
        columns: dict[str, Column] = {
            "action": executed,
            "threshold": taken.thresholds,
            "intervened": intervened.tolist(),
            "stopped": stopped.tolist(),
            "takeover": self._chosen.takeovers.tolist(),
            "drill": self._drilling.tolist(),
            "vouched": vouched.tolist(),
        }
        infos.add("shield", columns)

    def drive_on(self, stopped: Flags) -> None:
        if self.backup.after is None or not stopped.any():
            return
        within, self.mid_step = self.mid_step, True
        with self.span("physics"):
            drive_on(self.venv, self.recorder, self._raw, stopped, self.backup.after, self.backup.steps)
        self.mid_step = within

    def begin(self, fresh: Flags) -> None:
        """Number the episodes; a first state without a safe action (A⁺₁ = ∅) begins none, and is counted separately."""
        self._recent.begin(fresh)
        unviable = fresh & ~self._viable
        if unviable.any():
            level = logging.DEBUG if self.recorder.refused_starts else logging.WARNING
            log.log(level, "no action can be certified in some first states: these environments are reset again")
            self.recorder.refused_starts += int(unviable.sum())

    def restart(self, stopped: Flags) -> None:
        """Line 9: reset until all first states have a safe action."""
        rows = ~self._viable
        for _ in range(MAX_STARTS):
            if not rows.any():
                return
            self._reset_some(rows)
            rows = rows & ~self._viable
        if rows.any():
            raise self._nothing_safe(f"{MAX_STARTS} first states in a row offered no safe action")

    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        """Raw observations with their thresholds (n,) or (n, K), scaled to [0, 1], if the learner sees them."""
        if not self.show_threshold:
            return observations
        return threshold_shown(self.constraint, observations, thresholds, self.observation_space)

    def raw(self, observations: Observations) -> Observations:
        """Observations of the learner without the thresholds."""
        return without(self.venv.observation_space, observations, THRESHOLD) if self.show_threshold else observations

    def evaluate(self, shielded: bool = True) -> None:
        """Switch to evaluation: the backup stops learning, and without `shielded` every proposal is executed."""
        self.shielding = shielded
        self.backup.freeze()
        self.drills.cancel()
        self._driving, self._drilling = np.zeros_like(self._driving), self._nowhere
        if self._raw is not None:
            self._arrive(self._raw, self._everywhere, self._nowhere)

    # Between epochs

    def harvest(self) -> Harvest | None:
        """Executed transitions since the last harvest, for the quantifier."""
        self.takeovers.settle(self._everywhere)
        return self._recent.taken(self.shield.action_space)

    def recheck(self) -> Flags:
        """Query a quantifier that has changed about the current states; stop the episodes it no longer certifies."""
        if self._glance is not None:
            self._look(self._everywhere)
        stopped = ~self._viable
        self._end(stopped, stopped)
        self.backup.end(stopped, stopped=True)
        self.drills.end(stopped)
        self.restart(stopped)
        return stopped

    # Action masks, for learners with discrete actions

    def action_masks(self) -> Flags:
        """A⁺ of the current states, (n, number of actions)."""
        shape = (self.num_envs, len(self.shield.candidates))
        return np.ones(shape, dtype=bool) if self._glance is None else self._glance.few.safe

    def has_attr(self, attr_name: str) -> bool:
        if attr_name == "action_masks":
            return isinstance(self.action_space, spaces.Discrete)
        return super().has_attr(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **named: Any) -> list[Any]:
        if method_name == "action_masks":
            return list(self.action_masks())
        return super().env_method(method_name, *args, indices=indices, **named)

    # Internals

    def _preferences_here(self) -> Preferences | None:
        preferences = self.preferences
        if preferences is None:
            return None
        return lambda rows, candidates: preferences(take(self.observations, rows), candidates)

    def _first_measured(self) -> Array:
        """Signals (n, S) in first states, from the observations or else from the infos of the resets."""
        now = self.constraint.now(self._raw)
        for k, source in enumerate(self.constraint.sources):
            if isinstance(source, str) and np.isnan(now[:, k]).all():
                now[:, k] = first_told(self.venv, source)
        return now

    def _look(self, rows: Flags) -> None:
        """Query the current states of these environments, and determine who drives from there."""
        certifiable, last_safe, driving = self.account.certifiable, self._last_safe, self._driving
        question = self.shield.question(self._raw, certifiable, self._states)._replace(first=self._first)
        self._question = question
        if not rows.all():
            question, certifiable = question.rows(rows), certifiable[rows]
            last_safe, driving = last_safe[rows], driving[rows]
        discrete = not isinstance(self.action_space, spaces.Box)
        if self.backup.horizon:  # a learner without a safe action hands over
            self._viable = ~self.promises.hopeless(self.account.thresholds)
            if not discrete:  # no search is needed
                return
        with self.span("shield"):
            glance = self.shield.glance(question, None if discrete else last_safe)
        self._driving[rows] = self.backup.takes_over(question.observations, certifiable, driving)
        if self._glance is None or len(question.states) == self.num_envs:
            self._glance = glance
        else:
            self._glance.replace(rows, glance)
        if not self.backup.horizon:
            self._viable = self._glance.viable

    def _nothing_safe(self, what: str) -> NothingSafeError:
        return NothingSafeError(f"{what}. {advice(self.constraint, self.shield, self.measured)}")
