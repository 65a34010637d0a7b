"""Environments whose episodes are recorded, for learners without a shield."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from safexp.constraints import Constraint
from safexp.episodes import Recorder
from safexp.signals import Array, Observations, Step, take
from safexp.vector import copied, info_column, put, reset_some
from safexp.wrappers.seen import describe_ends

Flags = NDArray[np.bool_]


class Outcome(NamedTuple):
    """What becomes of a step: the rewards (n,) that the learner gets, and which episodes it stops."""

    rewards: Array
    stopped: Flags


class Recording(VecEnvWrapper, ABC):
    """Environments that count episodes, costs and violations as `Guard` does, and may change rewards, ends and sight.

    A subclass says what the learner sees (`shown`), what a step comes to (`judge`), and forgets an episode (`begin`).
    """

    def __init__(self, venv: VecEnv, constraint: Constraint, observation_space: spaces.Space[Any]) -> None:
        super().__init__(venv, observation_space=observation_space)
        self.constraint = constraint
        self.recorder = Recorder(constraint, venv.num_envs)
        self._raw: Observations = None
        self._actions: NDArray[Any] = np.empty(0)

    @abstractmethod
    def begin(self, fresh: Flags, observations: Observations) -> None:
        """Episodes start in these environments, at these of all observations."""

    @abstractmethod
    def judge(self, rewards: Array, signals: Array, dones: Flags) -> Outcome:
        """What a step with these rewards and signals (n,) comes to."""

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
        observations, rewards, dones, infos = self.venv.step_wait()
        rewards = np.asarray(rewards, dtype=np.float64)
        finished = np.flatnonzero(dones)
        following = put(observations, finished.tolist(), [infos[i]["terminal_observation"] for i in finished])
        step = Step(self._raw, self._actions, following, lambda key: info_column(self.venv, infos, key))
        signals = self.constraint.signal(step)
        given, stopped = self.judge(rewards, signals, dones)
        ended = dones | stopped
        self.recorder.step(rewards, given, signals, np.zeros_like(dones))
        self.recorder.end(ended, stopped)
        describe_ends(infos, ended, stopped, self.recorder, lambda rows: self.shown(take(following, rows), rows))
        cut = stopped & ~dones  # the others have been reset already
        if cut.any():
            observations = reset_some(self.venv, cut, observations)
        self._open(observations, ended)
        return self.shown(self._raw, slice(None)), given.astype(np.float32), ended, infos

    def _open(self, observations: Observations, fresh: Flags) -> None:
        self._raw = copied(observations)  # an environment may write its next ones over them
        if fresh.any():
            self.recorder.begin(fresh, observations)
            self.begin(fresh, observations)


class Recorded(Recording):
    """The environments as they are, recorded."""

    def __init__(self, venv: VecEnv, constraint: Constraint) -> None:
        super().__init__(venv, constraint, venv.observation_space)

    def begin(self, fresh: Flags, observations: Observations) -> None:
        """Nothing is remembered."""

    def judge(self, rewards: Array, signals: Array, dones: Flags) -> Outcome:
        return Outcome(rewards, np.zeros_like(dones))

    def shown(self, observations: Observations, rows: Any) -> Observations:
        return observations
