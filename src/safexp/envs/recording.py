"""Environments whose episodes are recorded, for learners without a shield."""

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
from safexp.envs.observations import describe_ends
from safexp.envs.receive import receive
from safexp.envs.vector import copied, reset_some
from safexp.records.episodes import Recorder


class Outcome(NamedTuple):
    """What becomes of a step: the rewards (n,) that the learner gets, and which episodes it stops."""

    rewards: Array
    stopped: Flags


class Recording(VecEnvWrapper, ABC):
    """Environments that count episodes, costs and violations as `Guard` does, and may change rewards, ends and sight.

    A subclass says what the learner sees (`shown`), what a step comes to (`judge`), and forgets an episode (`begin`).
    `remaining` is what the last step left of the thresholds, also where it ended its episode.
    """

    def __init__(self, venv: VecEnv, constraint: Constraint, observation_space: spaces.Space[Any]) -> None:
        super().__init__(venv, observation_space=observation_space)
        self.constraint = constraint
        self.recorder = Recorder(constraint, venv.num_envs)
        self.account = Account(constraint, venv.num_envs)
        self.remaining = self.account.thresholds
        self._raw: Observations = None
        self._actions: NDArray[Any] = np.empty(0)

    def begin(self, fresh: Flags) -> None:
        """Episodes start in these environments; most remember nothing beyond the account."""

    @abstractmethod
    def judge(self, rewards: Array, signals: Array, dones: Flags) -> Outcome:
        """What a step with these rewards and signals (n,) comes to, before it is charged to the account."""

    @abstractmethod
    def shown(self, observations: Observations, rows: Any) -> Observations:
        """The observations of these environments as the learner sees them, in the present state of their episodes."""

    def reset(self) -> Observations:
        everywhere = np.ones(self.num_envs, dtype=bool)
        self.recorder.end(self.recorder.running, ~everywhere)
        self._open(self.venv.reset(), everywhere)
        return self.shown(self._raw, slice(None))

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions
        self.venv.step_async(actions.copy())  # what an environment does to its copy is its business

    def step_wait(self) -> VecEnvStepReturn:
        nowhere = np.zeros(self.num_envs, dtype=bool)
        observations, rewards, dones, infos, step, signals = receive(
            self.venv, self.recorder, self._raw, self._actions, nowhere
        )
        given, stopped = self.judge(rewards, signals, dones)
        costs = self.constraint.normalise(signals)
        self.account.charge(costs, costs)
        self.remaining = self.account.thresholds
        self.recorder.pay(given)
        ended = dones | stopped
        self.recorder.end(ended, stopped)
        last = step.next_observations
        describe_ends(infos, ended, stopped, self.recorder, lambda rows: self.shown(take(last, rows), rows))
        cut = stopped & ~dones  # the others have been reset already
        if cut.any():
            observations = reset_some(self.venv, cut, observations)
        self._open(observations, ended)
        return self.shown(self._raw, slice(None)), given.astype(np.float32), ended, infos

    def _open(self, observations: Observations, fresh: Flags) -> None:
        self._raw = copied(observations)  # an environment may write its next ones over them
        if fresh.any():
            self.recorder.begin(fresh, observations)
            self.account.open(fresh, observations)
            self.begin(fresh)


class Recorded(Recording):
    """The environments as they are, recorded."""

    def __init__(self, venv: VecEnv, constraint: Constraint) -> None:
        super().__init__(venv, constraint, venv.observation_space)

    def judge(self, rewards: Array, signals: Array, dones: Flags) -> Outcome:
        return Outcome(rewards, np.zeros_like(dones))

    def shown(self, observations: Observations, rows: Any) -> Observations:
        return observations
