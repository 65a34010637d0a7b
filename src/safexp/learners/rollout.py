"""Rollout buffer with rewards and costs, and generalised advantage estimation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from safexp.core.arrays import Observations

Floats = NDArray[np.float32]


def advantages(
    rewards: Floats, values: Floats, following: Floats, ends: Floats, discount: float, decay: float
) -> Floats:
    """Generalised advantage estimates, all (steps, n): δ_t = r_t + γ v_{t+1} − v_t, A_t = δ_t + γλ (1 − end_t) A_{t+1}.

    `following` is the value of the state that each step led to, 0 where the episode terminated there; `ends` is 1 where
    an episode ended in any way.
    """
    estimates = rewards + discount * following - values
    carried = discount * decay * (1 - ends)
    for step in range(len(rewards) - 2, -1, -1):
        estimates[step] += carried[step] * estimates[step + 1]
    return estimates


class TimeOut(NamedTuple):
    """An episode truncated at this step in this environment, and its last observation."""

    step: int
    environment: int
    observation: Any


class CostRolloutBuffer:
    """Buffer of `n_steps` steps of n environments with their costs, in place of SB3's rollout buffer.

    Everything is stored as (n_steps, n, …); only actions are computed during the rollout, values for the whole rollout
    afterwards. Sums over episodes continue from one rollout to the next.
    """

    transient = ("observations", "actions", "rewards", "costs", "ends")  # between two rollouts

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        shape = (buffer_size, n_envs)
        self.device = device
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.observations = _storage(observation_space, shape)
        self.actions = _storage(action_space, shape)
        self.rewards, self.costs, self.ends = (np.zeros(shape, dtype=np.float32) for _ in range(3))
        self.time_outs: list[TimeOut] = []
        self.finished: list[tuple[float, int]] = []
        self._cost_so_far, self._length_so_far = np.zeros(n_envs), np.zeros(n_envs, dtype=np.int64)

    def reset(self) -> None:
        """Start the next rollout."""
        self.time_outs.clear()
        self.finished.clear()

    def observe(self, step: int, observations: Observations) -> Any:
        """Store the observations before a step; returns them as tensors."""
        if isinstance(observations, dict):
            for key, part in observations.items():
                self.observations[key][step] = part
            return {key: self._tensor(part[step]) for key, part in self.observations.items()}
        self.observations[step] = observations
        return self._tensor(self.observations[step])

    def add(
        self,
        step: int,
        actions: NDArray[Any],
        rewards: NDArray[Any],
        costs: NDArray[Any] | float,
        starts: NDArray[Any],
        dones: NDArray[np.bool_],
        infos: list[dict[str, Any]],
    ) -> None:
        """Store the results of a step; `starts` marks the first steps of episodes."""
        self.actions[step], self.rewards[step], self.costs[step], self.ends[step] = actions, rewards, costs, dones
        fresh = np.asarray(starts, dtype=bool)
        self._cost_so_far[fresh], self._length_so_far[fresh] = 0.0, 0
        self._cost_so_far += costs
        self._length_so_far += 1
        for i in np.flatnonzero(dones).tolist():
            self.finished.append((float(self._cost_so_far[i]), int(self._length_so_far[i])))
            if infos[i].get("TimeLimit.truncated", False):
                self.time_outs.append(TimeOut(step, i, infos[i]["terminal_observation"]))

    def episode_cost(self) -> tuple[float, float]:
        """Mean cost and length of the episodes that ended in this rollout, or of the running ones if none did."""
        running = list(zip(self._cost_so_far, self._length_so_far, strict=True))
        cost, length = np.mean(self.finished or running, axis=0).tolist()
        return cost, length

    def flat_observations(self) -> Any:
        """All observations, as tensors (n_steps·n, …)."""
        if isinstance(self.observations, dict):
            return {key: self._tensor(part.reshape(-1, *part.shape[2:])) for key, part in self.observations.items()}
        return self._tensor(self.observations.reshape(-1, *self.observations.shape[2:]))

    def flat_actions(self) -> Tensor:
        """All actions, (n_steps·n, …)."""
        return self._tensor(self.actions.reshape(-1, *self.actions.shape[2:]))

    def last_observations(self, current: Observations) -> Any:
        """The observations at the rollout's end, then those at which episodes timed out, as one batch of tensors."""
        cut = [time_out.observation for time_out in self.time_outs]
        if isinstance(current, dict):
            parts = {key: np.stack([*part, *(row[key] for row in cut)]) for key, part in current.items()}
            return {key: self._tensor(part.astype(self.observations[key].dtype)) for key, part in parts.items()}
        return self._tensor(np.stack([*current, *cut]).astype(self.observations.dtype))

    def following(self, values: Floats, last_values: Floats) -> Floats:
        """The value of the state that each step led to, from those of all states and of `last_observations`.

        A truncated step is followed by the value of its last observation, any other end by 0.
        """
        n = values.shape[1]
        following = np.concatenate([values[1:], last_values[None, :n]]) * (1 - self.ends)
        for time_out, value in zip(self.time_outs, last_values[n:], strict=True):
            following[time_out.step, time_out.environment] = value
        return following

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return th.as_tensor(array, device=self.device)


def _storage(space: spaces.Space[Any], shape: tuple[int, int]) -> Any:
    """Allocate storage for elements of a space; floats in single precision, as networks use."""
    if isinstance(space, spaces.Dict):
        return {key: _storage(part, shape) for key, part in space.spaces.items()}
    kind = np.float32 if np.issubdtype(space.dtype, np.floating) else space.dtype
    return np.zeros((*shape, *(space.shape or ())), dtype=kind)
