"""Environments whose episodes are recorded: what every method has in common, with a shield and without."""

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
from safexp.core.spans import Spans, untimed
from safexp.envs.infos import Infos
from safexp.envs.observations import describe_ends
from safexp.envs.receive import Received, receive
from safexp.envs.vector import copied, owned, reset_some
from safexp.quantifiers.base import Transitions
from safexp.records.episodes import Drivers, Recorder


class Chosen(NamedTuple):
    """What is executed: actions (n, ...), where they are not the proposals, and where another controller drives.

    `upper_bounds` (n,) or (n, K) were certified of their costs; None charges the costs themselves to the account.
    `drills` (n,) tells where it drives as a drill, which is no takeover.
    """

    actions: NDArray[Any]
    interventions: Flags
    takeovers: Flags
    upper_bounds: Array | None = None
    drills: Flags | bool = False

    @property
    def drivers(self) -> Drivers:
        """Who chose what is executed."""
        return Drivers(self.interventions, self.takeovers, self.drills)


class Taken(NamedTuple):
    """What a step brought, its scaled costs, and the thresholds that they had to keep, both (n,) or (n, K)."""

    received: Received
    costs: Array
    thresholds: Array


class Outcome(NamedTuple):
    """What becomes of a step: the rewards (n,) that the learner gets, and which episodes it stops."""

    rewards: Array
    stopped: Flags


class Harvest(NamedTuple):
    """What really happened in some steps, and the thresholds (n,) or (n, K) that their costs had to keep."""

    transitions: Transitions
    thresholds: Array


class Recording(VecEnvWrapper, ABC):
    """Environments that count episodes, costs and violations, and keep the account of what remains.

    A step is on the record before anything else is done with it. A subclass says what the learner sees (`shown`) and
    what a step comes to (`judge`); it may execute other actions than were proposed (`choose`), see a step (`note`) and
    the states in which environments arrive (`arrived`), and start episodes in its own way (`begin`, `restart`).

    Args:
        venv: the environments.
        constraint: what violations are judged by.
        observation_space: of what the learner sees.
        braking: what is kept back of the thresholds (`Account`).
    """

    def __init__(
        self, venv: VecEnv, constraint: Constraint, observation_space: spaces.Space[Any], braking: float = 0.0
    ) -> None:
        super().__init__(venv, observation_space=observation_space)
        self.constraint = constraint
        self.recorder = Recorder(constraint, venv.num_envs)
        self.account = Account(constraint, venv.num_envs, braking)
        self.remaining = self.account.thresholds
        """What the last step left of the thresholds, also where it ended its episode."""
        self.measured: Array = np.full((venv.num_envs, len(constraint.sources)), np.nan)
        """The signals (n, S) that the constraint limits, as they are now, where a shield asks for them."""
        self.mid_step = False
        """Whether a step was begun, or states arrived at, that something broke off: nothing can go on from there."""
        self.span: Spans = untimed
        self._raw: Observations = None
        self._chosen: Chosen
        self._everywhere, self._nowhere = np.ones(venv.num_envs, dtype=bool), np.zeros(venv.num_envs, dtype=bool)
        for flags in (self._everywhere, self._nowhere):
            flags.setflags(write=False)

    def choose(self, actions: NDArray[Any]) -> Chosen:
        """What is executed in place of the proposals; most execute them."""
        return Chosen(actions, self._nowhere, self._nowhere)

    def arrived(self, rows: Flags, fresh: Flags) -> None:
        """These environments have new observations, first ones where `fresh`; most take them as they are."""

    def note(self, taken: Taken) -> None:
        """See a step before it is charged to the account; most have nothing to note."""

    @abstractmethod
    def judge(self, taken: Taken) -> Outcome:
        """What a step comes to, after it was charged to the account and the environments have arrived."""

    def describe(self, infos: Infos, taken: Taken, stopped: Flags) -> None:
        """Put more into the infos of a step; most have nothing to tell."""

    def begin(self, fresh: Flags) -> None:
        """Episodes start in these environments; most remember nothing beyond the account."""

    def restart(self, stopped: Flags) -> None:
        """Reset environments whose episodes were stopped."""
        if stopped.any():
            self._reset_some(stopped)

    @abstractmethod
    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        """The observations of these environments as the learner sees them, with so much remaining."""

    def harvest(self) -> Harvest | None:
        """The executed transitions since the last harvest, for a quantifier; most have none, and keep nothing."""
        return None

    @property
    def observations(self) -> Observations:
        """The current observations, as the learner sees them, in memory of its own."""
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
            self._chosen = self.choose(actions)
            self.mid_step = True
            given = self._chosen.actions.copy()  # what an environment does to its copy is its business
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
        self.recorder.end(ended, stopped)
        self.describe(infos, taken, stopped)
        describe_ends(
            infos, ended, stopped, self.recorder, lambda rows: self.shown(take(last, rows), self.remaining[rows], rows)
        )
        self._begin(dones)
        self.restart(stopped & ~dones)
        self.mid_step = False
        return self.observations, rewards.astype(np.float32), ended, infos  # type: ignore[return-value]

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
    """The environments as they are, recorded."""

    def __init__(self, venv: VecEnv, constraint: Constraint) -> None:
        super().__init__(venv, constraint, venv.observation_space)

    def judge(self, taken: Taken) -> Outcome:
        return Outcome(taken.received.rewards, self._nowhere)

    def shown(self, observations: Observations, thresholds: Array, rows: Any = slice(None)) -> Observations:
        return observations
