"""Environments whose episodes are recorded: the common part of all methods, with or without a shield."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from safexp.constraints import Account, Constraint
from safexp.core.arrays import Array, Flags, Observations, take
from safexp.core.encoding import from_zero
from safexp.core.spans import Spans, untimed
from safexp.envs.infos import Infos
from safexp.envs.observations import describe_ends
from safexp.envs.receive import Received, receive
from safexp.envs.vector import copied, owned, reset_some
from safexp.quantifiers.base import Transitions
from safexp.records.episodes import Drivers, Recorder


class Chosen(NamedTuple):
    """Actions (n, ...) to execute, where they differ from the proposals, and where another controller drives.

    `upper_bounds` (n,) or (n, K) are the certified bounds of their costs; None charges the costs themselves to the
    account. `drills` (n,) marks drills, which do not count as takeovers.
    """

    actions: NDArray[Any]
    interventions: Flags
    takeovers: Flags
    upper_bounds: Array | None = None
    drills: Flags | bool = False

    @property
    def drivers(self) -> Drivers:
        """Driver who chose each executed action."""
        return Drivers(self.interventions, self.takeovers, self.drills)


class Taken(NamedTuple):
    """Result of a step, its scaled costs, and the thresholds of these costs, both (n,) or (n, K).

    Example:
        >>> class Charged(safexp.Recording):
        ...     def judge(self, taken: safexp.Taken) -> safexp.Outcome:
        ...         return safexp.Outcome(taken.received.rewards - taken.costs, np.zeros(self.num_envs, dtype=bool))
        ...     def shown(self, observations, thresholds, rows=slice(None)):
        ...         return observations
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> charged = Charged(envs, safexp.Budget(3.0), envs.observation_space)
        >>> _ = charged.reset()
        >>> charged.step(np.zeros((2, 2), np.float32))[1].shape
        (2,)
    """

    received: Received
    costs: Array
    thresholds: Array


class Outcome(NamedTuple):
    """Rewards (n,) of a step as the learner gets them, and the episodes that it stops.

    Example:
        >>> safexp.Outcome(rewards=np.array([1.0, -1.0]), stopped=np.array([False, True])).stopped
        array([False,  True])
    """

    rewards: Array
    stopped: Flags


class StepRecord(NamedTuple):
    """Executed last step of n environments, for the replay buffer."""

    executed: NDArray[Any]
    rewards: Array
    next_thresholds: Array
    stopped: Flags
    measured: Array


class Harvest(NamedTuple):
    """Executed transitions, and the thresholds (n,) or (n, K) of their costs."""

    transitions: Transitions
    thresholds: Array


class Recording(VecEnvWrapper, ABC):
    """Environments that count episodes, costs and violations, and keep the account of the remaining budget.

    A step is recorded before anything else is done with it. A subclass defines the learner's observations (`shown`) and
    the outcome of a step (`judge`); it may execute other actions than the proposals (`choose`), inspect a step (`note`)
    and the states in which environments arrive (`arrived`), and start episodes in its own way (`begin`, `restart`).

    If `read` fails, `SignalError` names the environment and the value.

    Args:
        venv: the environments.
        constraint: defines violations.
        observation_space: space of the learner's observations.
        braking: reserved part of the thresholds (`Account`).

    Example:
        >>> class Halved(safexp.Recording):
        ...     def judge(self, taken):
        ...         return safexp.Outcome(taken.received.rewards / 2, np.zeros(self.num_envs, dtype=bool))
        ...     def shown(self, observations, thresholds, rows=slice(None)):
        ...         return observations
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> halved = Halved(envs, safexp.Budget(3.0), envs.observation_space)
        >>> halved.reset().shape
        (2, 4)
    """

    def __init__(
        self, venv: VecEnv, constraint: Constraint, observation_space: spaces.Space[Any], braking: float = 0.0
    ) -> None:
        super().__init__(venv, observation_space, from_zero(venv.action_space))
        self.first_action: Any = getattr(venv.action_space, "start", 0)
        """First of the environments' discrete actions, or of each entry; learners number them from 0."""
        self.constraint = constraint
        self.recorder = Recorder(constraint, venv.num_envs)
        self.account = Account(constraint, venv.num_envs, braking)
        self.remaining = self.account.thresholds
        """Remaining thresholds after the last step, even if it ended its episode."""
        self.measured: Array = np.full((venv.num_envs, len(constraint.sources)), np.nan)
        """Current values (n, S) of the signals that the constraint limits, if a shield needs them."""
        self.mid_step = False
        """Whether a step was interrupted before it was complete: nothing can continue from there."""
        self.span: Spans = untimed
        self._raw: Observations = None
        self._chosen: Chosen
        self._everywhere, self._nowhere = np.ones(venv.num_envs, dtype=bool), np.zeros(venv.num_envs, dtype=bool)
        for flags in (self._everywhere, self._nowhere):
            flags.setflags(write=False)

    def choose(self, actions: NDArray[Any]) -> Chosen:
        """Actions to execute; the proposals by default."""
        return Chosen(actions, self._nowhere, self._nowhere)

    def arrived(self, rows: Flags, fresh: Flags) -> None:
        """Handle new observations of these environments, first ones where `fresh`; does nothing by default."""

    def note(self, taken: Taken) -> None:
        """Inspect a step before it is charged to the account; does nothing by default."""

    @abstractmethod
    def judge(self, taken: Taken) -> Outcome:
        """Outcome of a step, after it was charged to the account and the environments have arrived."""

    def describe(self, infos: Infos, taken: Taken, stopped: Flags) -> None:
        """Add entries to the infos of a step; none by default."""

    def drive_on(self, stopped: Flags) -> None:
        """Drive environments on whose episodes are being stopped; does nothing by default."""

    def begin(self, fresh: Flags) -> None:
        """Start episodes in these environments; nothing beyond the account by default."""

    def restart(self, stopped: Flags) -> None:
        """Reset environments whose episodes were stopped."""
        if stopped.any():
            self._reset_some(stopped)

    @abstractmethod
    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        """Observations of these environments as the learner sees them, with these thresholds."""

    def harvest(self) -> Harvest | None:
        """Executed transitions since the last harvest, for a quantifier; none are kept by default."""
        return None

    @property
    def observations(self) -> Observations:
        """Current observations as the learner sees them, copied."""
        seen = self.shown(self._raw, self.account.thresholds)
        return copied(seen) if seen is self._raw else seen

    def reset(self) -> Observations:
        self.recorder.end(self.recorder.running, self._nowhere)
        self._arrive(owned(self.venv, self.venv.reset()), self._everywhere, self._everywhere)
        self.mid_step = False
        self._begin(self._everywhere)
        return self.observations

    def step_async(self, actions: NDArray[Any]) -> None:
        with self.span("records"):
            self._chosen = self.choose(actions + self.first_action if np.any(self.first_action) else actions)
            self.mid_step = True
            given = self._chosen.actions.copy()  # an environment may modify its copy
            with self.span("physics"):
                self.venv.step_async(given)

    def step_wait(self) -> VecEnvStepReturn:
        with self.span("records"):
            return self._step_wait()

    def _step_wait(self) -> VecEnvStepReturn:
        executed, _, _, bounds, _ = self._chosen
        received = receive(self.venv, self.recorder, self._raw, executed, self._chosen.drivers, self.span)
        dones, infos, last = received.dones, received.infos, received.step.next_observations
        costs = self.constraint.normalise(received.signals)
        taken = Taken(received, costs, self.account.thresholds)
        self.note(taken)
        self.account.charge(costs, costs if bounds is None else bounds)
        self.remaining = self.account.thresholds
        self._arrive(received.observations, self._everywhere, dones)
        rewards, stopped = self.judge(taken)
        ended = dones | stopped
        self.recorder.pay(rewards)
        self._end(ended, stopped)
        self.describe(infos, taken, stopped)
        describe_ends(
            infos, ended, stopped, self.recorder, lambda rows: self.shown(take(last, rows), self.remaining[rows], rows)
        )
        self._begin(dones)
        self.restart(stopped & ~dones)
        self.mid_step = False
        return self.observations, rewards.astype(np.float32), ended, infos  # type: ignore[return-value]

    def _end(self, ended: Flags, stopped: Flags) -> None:
        """End these episodes, of which some were stopped in the current state."""
        try:
            self.drive_on(stopped)
        finally:
            self.recorder.end(ended, stopped)

    def _arrive(self, observations: Observations, rows: Flags, fresh: Flags) -> None:
        within, self.mid_step = self.mid_step, True
        self._raw = observations
        self.account.open(fresh, observations)
        self.arrived(rows, fresh)
        self.mid_step = within

    def _reset_some(self, rows: Flags) -> None:
        with self.span("physics"):
            observations = reset_some(self.venv, rows, self._raw)
        self._arrive(observations, rows, rows)
        self._begin(rows)

    def _begin(self, fresh: Flags) -> None:
        if fresh.any():
            self.recorder.begin(fresh, self._raw)
            self.begin(fresh)


class Recorded(Recording):
    """Unmodified environments whose episodes, costs and violations are recorded.

    Args:
        venv: the environments (`as_vec_env`).
        constraint: defines violations.

    Example:
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> recorded = safexp.Recorded(envs, safexp.Budget(3.0))
        >>> _ = recorded.reset()
        >>> for _ in range(200):
        ...     _ = recorded.step(np.zeros((2, 2), np.float32))
        >>> len(recorded.recorder.episodes)
        4
    """

    def __init__(self, venv: VecEnv, constraint: Constraint) -> None:
        super().__init__(venv, constraint, venv.observation_space)

    def judge(self, taken: Taken) -> Outcome:
        return Outcome(taken.received.rewards, self._nowhere)

    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        return observations
