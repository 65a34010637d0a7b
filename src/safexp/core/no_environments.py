"""Placeholder for the environments of an agent that only predicts."""

from __future__ import annotations

from typing import Any, NoReturn

import gymnasium as gym
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn


class NoEnvironments(VecEnv):
    """Placeholder environments with spaces that cannot step, for an agent loaded without environments."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        super().__init__(1, observation_space, action_space)

    def _refuse(self) -> NoReturn:
        raise RuntimeError("the agent was loaded without environments: load it with env=... to continue learning.")

    def reset(self) -> VecEnvObs:
        self._refuse()

    def step_async(self, actions: NDArray[Any]) -> None:
        self._refuse()

    def step_wait(self) -> VecEnvStepReturn:
        self._refuse()

    def close(self) -> None:
        """Nothing to close."""

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [None]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._refuse()

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **named: Any) -> list[Any]:
        self._refuse()

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return [False]
