"""Algorithm 1, lines 3-12: the shield between a learner and its environments."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from safexp.backups.penalty import Penalty
from safexp.backups.stops import Driven, Reset, Stop
from safexp.constraints import Account, Constraint
from safexp.core.arrays import Array, Flags, Observations, take
from safexp.core.costs import refuse
from safexp.core.encoding import encode_actions, encode_observations
from safexp.envs.observations import THRESHOLD, describe_ends, threshold_shown, threshold_space, without
from safexp.envs.receive import receive
from safexp.envs.vector import Infos, copied, gives, info_column, reset_some
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.unknown import Unknown
from safexp.records.episodes import Recorder
from safexp.shield.candidates import Outlook
from safexp.shield.decisions import Decisions
from safexp.shield.shield import Shield

MAX_STARTS = 100
"""How many uncertifiable first states in a row are reset before giving up."""

ADVICE = (
    "Give seed_data=Log(...) of safe transitions from there, safe_action=<an action that is safe there>, or a "
    "constraint or quantifier that allows one."
)
UNKNOWN = (
    "Unknown certifies nothing where less remains than the largest cost of a step: give a budget of at least cost_max, "
    "safe_action=<an action that is safe there>, or a quantifier that learns or knows the costs."
)

MAX_RECENT_STEPS = 100_000
"""How many environment steps are kept for the quantifier if nobody takes them; the oldest go first."""

log = logging.getLogger("safexp")


class NothingSafeError(RuntimeError):
    """No action can be certified in any first state."""


class StepRecord(NamedTuple):
    """What the last step of n environments really was, for the replay buffer."""

    executed: NDArray[Any]
    rewards: Array
    next_thresholds: Array
    stopped: Flags


class Harvest(NamedTuple):
    """What really happened in some steps, and the thresholds (n,) or (n, K) that their costs had to keep."""

    transitions: Transitions
    thresholds: Array


class Guard(VecEnvWrapper):
    """Runs only certified actions and stops an episode *before* its next action could break the constraint.

    The learner sees ordinary environments: a stop is `terminated`, and the transition that led to it is paid the
    penalty. Its observation gets the threshold b_h, scaled to at most 1, where the constraint remembers the past; the
    shield and the quantifier always see the raw observation. `info["shield"]` tells what was done at a step: the
    executed `action`, the `threshold` it was certified under, whether the shield `intervened` or `stopped`, whether the
    action ran on the user's word (`vouched`), and whether the stop drove (`takeover`) instead of the learner, to whom
    that is a part of the environment.

    In a vector step the quantifier is asked about the proposals and about an action or two of each next state. All
    candidates are asked about at most twice: where a proposal is refused, and where the next state offers none of those
    actions. Once more come the fresh first states if an episode was stopped. Where the thresholds allow everything it
    is never asked.

    Args:
        venv: the environments.
        constraint: turns costs into thresholds.
        shield: certifies actions.
        penalty: the reward of a transition that leads to a stop, or None to leave it as it was.
        shielding: False runs every proposal and never stops: the bare learner, with the same records.
        show_threshold: append the threshold to the observation; by default where the constraint says so.
        stop: what is done before an episode has to be stopped.
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
        stop: Stop | None = None,
    ) -> None:
        check_spaces(venv)
        self.stop = stop or Reset()
        self.stop.check(constraint, venv)
        self.constraint = constraint
        self.shield = shield
        self.penalty = penalty
        self.shielding = shielding
        self.show_threshold = constraint.in_observation if show_threshold is None else show_threshold
        self.recorder = Recorder(constraint, venv.num_envs)
        self.preferences: Callable[[Observations], Array] | None = None
        self.last: StepRecord
        n = venv.num_envs
        self._raw: Observations = None
        self._states: Array = np.empty((n, 0))
        self.account = Account(constraint, n, self.stop.braking)
        self._outlook: Outlook | None = None
        self._decisions: Decisions
        self._last_safe = np.full((n, *(venv.action_space.shape or ())), np.nan)
        self._driving = np.zeros(n, dtype=bool)
        self._stopped_at_start = 0
        self.mid_step = False
        self._recent: deque[tuple[NDArray[Any], ...]] = deque(maxlen=max(MAX_RECENT_STEPS // n, 1))
        self._tells_margins: bool | None = None
        self._episodes = np.zeros(n, dtype=np.int64)
        seen = threshold_space(constraint, venv.observation_space) if self.show_threshold else venv.observation_space
        super().__init__(venv, observation_space=seen)

    # The environments, as the learner sees them

    def reset(self) -> Observations:
        everywhere = np.ones(self.num_envs, dtype=bool)
        self.recorder.end(self.recorder.running, ~everywhere)
        self.stop.end(everywhere, stopped=False)
        self._enter(self.venv.reset(), everywhere)
        self.mid_step = False
        if self.shielding:
            self._look(everywhere)
        if not self._viable.any():
            raise NothingSafeError(f"nothing can be certified in the first state. {self._advice()}")
        self._open(everywhere)
        self._restart(~self._viable)
        return self.observations

    def step_async(self, actions: NDArray[Any]) -> None:
        if self.mid_step:
            raise RuntimeError(
                "the last step did not come to its end, so what it cost is not known: call reset() first."
            )
        if self._outlook is None:
            nothing = np.zeros(self.num_envs, dtype=bool)
            self._decisions = Decisions(actions, nothing, nothing, nothing, np.ones_like(self.account.thresholds))
        else:
            if self._driving.any():
                actions = actions.copy()
                actions[self._driving] = self.stop.act(take(self._raw, self._driving))
            self._decisions = self.shield.filter_batch(
                self._raw,
                actions,
                self.account.certifiable,
                preferences=self._preferences_here(),
                outlook=self._outlook,
            )
            if self._decisions.stopped.any():
                raise NothingSafeError("the shield lost its certificate between two steps; nothing was executed.")
        self.mid_step = True
        self.venv.step_async(self._decisions.actions.copy())  # what an environment does to its copy is its business

    def step_wait(self) -> VecEnvStepReturn:
        # Lines 4 and 5: the cost, in the user's units and scaled, and the threshold of the next step.
        executed, intervened, _, vouched, upper_bounds = self._decisions
        thresholds, driving = self.account.thresholds, self._driving.copy()
        observations, rewards, dones, infos, step, signals = receive(
            self.venv, self.recorder, self._raw, executed, intervened, driving
        )
        costs = self.constraint.normalise(signals)
        self.shield.check_levels(costs)
        if vouched.any():
            self.shield.note_vouched(self._states[vouched], costs[vouched], self.account.certifiable[vouched])
        self._recent.append((self._states, executed, costs, thresholds, self._episodes.copy(), *self._margins(infos)))
        self._last_safe[:] = executed
        self.account.charge(costs, upper_bounds)
        next_thresholds = self.account.thresholds

        # Line 6: does the next state offer a safe action? Where an episode is over, the next one's first state?
        self._enter(observations, dones)
        if self.shielding:
            self._look(np.ones_like(dones))
        stopped = ~dones & ~self._viable
        ended = dones | stopped
        penalised = rewards.copy()
        if self.penalty is not None and self._outlook is not None:
            penalised[stopped] = self.penalty(self._outlook.least_width[stopped])  # line 7
        penalised[self._driving & ~driving & ~ended] -= self.stop.penalty
        self.last = StepRecord(executed, rewards, next_thresholds, stopped)
        self.stop.note(Driven(step, costs, driving, self._driving & ~ended, ended, stopped))
        self.recorder.pay(penalised)
        self.recorder.end(ended, stopped)
        self._describe(infos, thresholds, driving, step.next_observations, ended)

        self._open(dones)
        self._restart(~self._viable)  # line 9
        self.mid_step = False
        return self.observations, penalised.astype(np.float32), ended, infos

    @property
    def remaining(self) -> Array:
        """What the last step left of the thresholds, also where it ended its episode."""
        return self.last.next_thresholds

    @property
    def observations(self) -> Observations:
        """The current observations, as the learner sees them."""
        return self.shown(self._raw, self.account.thresholds)

    def shown(self, observations: Observations, thresholds: Array) -> Observations:
        """Raw observations with their thresholds (n,) or (n, K), scaled to [0, 1], where the learner sees them."""
        if not self.show_threshold:
            return observations
        return threshold_shown(self.constraint, observations, thresholds, self.observation_space)

    def raw(self, observations: Observations) -> Observations:
        """What the learner sees, without the thresholds."""
        return without(self.venv.observation_space, observations, THRESHOLD) if self.show_threshold else observations

    # Between epochs

    def harvest(self) -> Harvest | None:
        """The executed transitions since the last harvest, for the quantifier."""
        if not self._recent:
            return None
        columns = [np.concatenate(parts) for parts in zip(*self._recent, strict=True)]
        self._recent.clear()
        states, actions, costs, thresholds, episodes, *margins = columns
        executed = encode_actions(self.shield.action_space, actions)
        return Harvest(Transitions(states, executed, costs, margins[0] if margins else None, episodes), thresholds)

    def recheck(self) -> Flags:
        """Ask a quantifier that has changed about the current states; stops the episodes it no longer certifies."""
        if self._outlook is not None:
            self._look(np.ones(self.num_envs, dtype=bool))
        stopped = ~self._viable
        self.recorder.end(stopped, stopped)
        self.stop.end(stopped, stopped=True)
        self._restart(stopped)
        return stopped

    # Discrete actions, for learners that can mask them

    def action_masks(self) -> Flags:
        """A⁺ of the current states, (n, number of actions)."""
        assert isinstance(self.action_space, spaces.Discrete)
        shape = (self.num_envs, int(self.action_space.n))
        return np.ones(shape, dtype=bool) if self._outlook is None else self._outlook.safe

    def has_attr(self, attr_name: str) -> bool:
        if attr_name == "action_masks":
            return isinstance(self.action_space, spaces.Discrete)
        return super().has_attr(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **named: Any) -> list[Any]:
        if method_name == "action_masks":
            return list(self.action_masks())
        return super().env_method(method_name, *args, indices=indices, **named)

    # Inside

    def _preferences_here(self) -> Callable[[], Array] | None:
        preferences = self.preferences
        return None if preferences is None else lambda: preferences(self.observations)

    def _margins(self, infos: Infos) -> list[Array]:
        """The signed distances (n,) after a step, or nothing from a task whose first step did not tell them."""
        if self._tells_margins is None:
            self._tells_margins = gives(self.venv, infos, "margin")
        if not self._tells_margins:
            return []
        margins = info_column(self.venv, infos, "margin").astype(np.float64)
        refuse(~np.isfinite(margins), margins, "info['margin'] must be a finite signed distance")
        return [margins]

    @property
    def _viable(self) -> Flags:
        return np.ones(self.num_envs, dtype=bool) if self._outlook is None else self._outlook.viable

    def _enter(self, observations: Observations, fresh: Flags) -> None:
        """Arrive at these observations, which are first states where `fresh`."""
        self._raw = observations = copied(observations)  # an environment may write its next ones over them
        self._states = encode_observations(self.venv.observation_space, observations)
        self._last_safe[fresh] = np.nan
        self._driving[fresh] = False
        self.account.open(fresh, observations)

    def _look(self, rows: Flags) -> None:
        """Ask what the current states of these environments offer, and who drives from there."""
        last_safe = None if isinstance(self.action_space, spaces.Discrete) else self._last_safe[rows]
        raw, limits = take(self._raw, rows), self.account.certifiable[rows]
        offers = self.shield.glance(raw, limits, last_safe)
        self._driving[rows] = self.stop.takes_over(raw, limits, self._driving[rows])
        if self._outlook is None or rows.all():
            self._outlook = offers
        else:
            for old, new in zip(self._outlook, offers, strict=True):
                old[rows] = new

    def _open(self, fresh: Flags) -> None:
        """Begin episodes here; one whose first state offers no safe action (A⁺₁ = ∅) ends at once, and is counted."""
        self.recorder.begin(fresh, self._raw)
        self._episodes[fresh] = self._episodes.max() + 1 + np.arange(np.count_nonzero(fresh))
        unviable = fresh & ~self._viable
        self.recorder.end(unviable, unviable)
        if unviable.any():
            level = logging.DEBUG if self._stopped_at_start else logging.WARNING
            log.log(level, "no action can be certified in some first states: their episodes are stopped there")
            self._stopped_at_start += int(unviable.sum())

    def _restart(self, rows: Flags) -> None:
        """Reset these environments until their first states offer a safe action."""
        for _ in range(MAX_STARTS):
            if not rows.any():
                return
            self._enter(reset_some(self.venv, rows, self._raw), rows)
            self._look(rows)
            self._open(rows)
            rows = rows & ~self._viable
        if rows.any():
            raise NothingSafeError(f"{MAX_STARTS} first states in a row offered no safe action. {self._advice()}")

    def _advice(self) -> str:
        """What may be wrong where no first state offers a safe action."""
        if self.shield.last_failure:
            return f"The quantifier failed: {self.shield.last_failure}."
        return UNKNOWN if isinstance(self.shield.quantifier, Unknown) else ADVICE

    def _describe(self, infos: Infos, thresholds: Array, driving: Flags, next_raw: Observations, ended: Flags) -> None:
        """Fill in the infos of a step: what the shield did, and what SB3 wants to know of an episode's end."""
        executed, intervened, _, vouched, _ = self._decisions
        stopped = self.last.stopped
        for i, info in enumerate(infos):
            info["shield"] = {
                "action": executed[i],
                "threshold": thresholds[i],
                "intervened": bool(intervened[i]),
                "stopped": bool(stopped[i]),
                "takeover": bool(driving[i]),
                "vouched": bool(vouched[i]),
            }
        describe_ends(
            infos,
            ended,
            stopped,
            self.recorder,
            lambda rows: self.shown(take(next_raw, rows), self.last.next_thresholds[rows]),
        )


def check_spaces(venv: VecEnv) -> None:
    """Refuse what Stable-Baselines3 would turn into something else on the learner's side of the guard."""
    actions, observations = venv.action_space, venv.observation_space
    if isinstance(actions, spaces.Discrete) and actions.start != 0:
        raise ValueError(
            f"{actions} does not begin at 0, but learners propose 0 to {actions.n - 1}: shift the actions."
        )
    parts = observations.spaces.values() if isinstance(observations, spaces.Dict) else [observations]
    if any(is_image_space(part) for part in parts):
        raise ValueError(
            "image observations are not supported: Stable-Baselines3 would transpose what the shield must see raw; "
            "extract features in the environment."
        )
