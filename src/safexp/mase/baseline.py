"""Baselines for MASE: a learner without a shield, on environments that keep the same records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from stable_baselines3.common.base_class import BaseAlgorithm

from safexp.core import files
from safexp.core.arrays import Array, Observations, as_batch
from safexp.core.no_environments import NoEnvironments
from safexp.core.spaces import build_space, describe_space
from safexp.envs.recording import Recording
from safexp.mase.agent import Agent
from safexp.mase.learner import (
    build_policy,
    check_policy,
    complete_options,
    describe_policy,
    find_learner,
    learner_settings,
    load_weights,
    name_of,
)
from safexp.shield.decisions import Decision


class Baseline(Agent):
    """Learner on recorded environments: `Recorded`, `Saute` or `EarlyTermination`.

    Nothing here prevents violations, they are counted; use `MASE` to prevent them.

    Args:
        envs: the environments.
        learner: an SB3 algorithm class.
        learner_options: arguments of its constructor, including "policy"; our defaults where there are none.
        seed: seed of the learner and the environments.
        epoch_steps: number of steps of an off-policy learner in an epoch; for an on-policy one an epoch is a rollout.

    Example:
        >>> from stable_baselines3 import PPO
        >>> envs = safexp.as_vec_env(gym.make_vec("safexp/PlanarRobot-v0", num_envs=2))
        >>> options = {"n_steps": 64, "batch_size": 64, "n_epochs": 1}
        >>> agent = safexp.Baseline(safexp.Recorded(envs, safexp.Budget(3.0)), PPO, learner_options=options, seed=0)
        >>> agent.learn(128).learner.num_timesteps
        128
    """

    def __init__(
        self,
        envs: Recording,
        learner: type[BaseAlgorithm],
        *,
        learner_options: dict[str, Any] | None = None,
        seed: int | None = None,
        epoch_steps: int = 1000,
    ) -> None:
        super().__init__(envs, epoch_steps)
        self.learner_options = complete_options(learner, envs, learner_options)
        self.learner = learner(env=envs, **learner_settings(learner, envs, self.learner_options, seed))

    def propose(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> tuple[NDArray[Any], Any]:
        """Action of the policy for an observation as in training; it takes no threshold."""
        starts = np.reshape(np.asarray(episode_start, dtype=bool), 1)
        actions, remembered = self.learner.predict(as_batch(observation), state, starts, deterministic)
        return actions[0] + self.envs.first_action, remembered

    def predict(
        self,
        observation: Observations,
        threshold: float | Array | None = None,
        deterministic: bool = True,
        *,
        state: Any = None,
        episode_start: ArrayLike = False,
    ) -> Decision:
        """Action that the policy proposes, unchecked."""
        action, remembered = self.propose(
            observation, threshold, deterministic, state=state, episode_start=episode_start
        )
        return Decision(action, False, False, False, math.inf, remembered)

    def save(self, path: str | Path) -> None:
        weights = {name: part.cpu().numpy() for name, part in self.learner.policy.state_dict().items()}
        spaces = (self.envs.observation_space, self.envs.action_space)
        document = {
            "versions": files.versions(),
            "spaces": [describe_space(space) for space in spaces],
            "learner": name_of(type(self.learner)),
            "policy": describe_policy(self.learner_options),
        }
        files.write(Path(path), document, weights)

    @staticmethod
    def load(path: str | Path) -> BaseAlgorithm:
        """Learner from a saved file, to `predict` from observations as in training."""
        document, arrays = files.read(Path(path))
        files.expect(document, "spaces", path)
        with files.understood(path):
            envs = NoEnvironments(*(build_space(space) for space in document["spaces"]))
            kind = find_learner(document["learner"])
            policy = build_policy(check_policy(document["policy"], arrays), {})
            learner = kind(env=envs, **learner_settings(kind, envs, policy, None))
            load_weights(learner, arrays)
            return learner

    def restore(self, path: str | Path) -> None:
        document, arrays = files.read(Path(path))
        files.expect(document, "spaces", path)
        with files.understood(path):
            load_weights(self.learner, arrays)
