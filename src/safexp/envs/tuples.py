"""Tuple observations as a Dict of their numbered parts, which learners can see."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from safexp.core.arrays import named
from safexp.core.encoding import as_dict_space


class NamedParts(gym.ObservationWrapper[Any, Any, Any]):
    """An environment whose Tuple observations become a Dict, "0", "1", …."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = flat_dict(env.observation_space)

    def observation(self, observation: Any) -> Any:
        """Parts by number."""
        return named(observation)


class NamedPartsVector(VectorWrapper[Any, Any, Any, Any, Any]):
    """Environments whose Tuple observations become a Dict, "0", "1", …."""

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(envs)
        self.single_observation_space = flat_dict(envs.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, envs.num_envs)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed, options=options)
        return named(observations), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        if "final_obs" in infos:
            final = infos["final_obs"].copy()
            for i, last in enumerate(infos["final_obs"]):
                final[i] = named(last)
            infos = {**infos, "final_obs": final}
        return named(observations), rewards, terminated, truncated, infos


def flat_dict(space: spaces.Space[Any]) -> spaces.Dict:
    """Dict space of a tuple's parts.

    Raises:
        ValueError: if a part has parts of its own.
    """
    assert isinstance(space, spaces.Tuple)
    for part in space.spaces:
        if isinstance(part, spaces.Tuple | spaces.Dict):
            raise ValueError(
                f"observation space {space} has a {type(part).__name__} within a Tuple, which learners cannot see: "
                "flatten it with gymnasium.wrappers.FlattenObservation."
            )
    return as_dict_space(space)
