"""Acting with a trained agent, step by step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from safexp.core.arrays import Observations
from safexp.envs.infos import Info
from safexp.mase.agent import Agent


class Acted(NamedTuple):
    """A step of n environments: proposed actions, next observations, ended episodes, and infos."""

    proposed: NDArray[Any]
    following: Observations
    dones: NDArray[np.bool_]
    infos: list[Info]


class Actor:
    """Steps an agent's environments with its policy, and carries the state of a recurrent policy.

    Args:
        agent: the agent; its environments have just been reset.
        deterministic: whether to take the policy's mode instead of a sample.
    """

    def __init__(self, agent: Agent, deterministic: bool) -> None:
        self._agent = agent
        self._deterministic = deterministic
        self._state: Any = None
        self._starts = np.ones(agent.envs.num_envs, dtype=bool)

    def step(self, observations: Observations) -> Acted:
        """Act in the current states, given the learner's observations (n, ...)."""
        agent = self._agent
        proposed, self._state = agent.learner.predict(
            observations, self._state, self._starts, self._deterministic, **agent.masks()
        )
        following, _, self._starts, infos = agent.envs.step(proposed)
        return Acted(proposed, following, self._starts, infos)
