"""Learning from the shield: supervised steps of an on-policy learner towards the actions that replaced its own."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch as th
from numpy.typing import NDArray
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy

from safexp.core.arrays import Flags, Observations
from safexp.learners.distributions import family_of
from safexp.learners.imitation import Imitated, imitate
from safexp.learners.surrogate import PolicyNetwork


class Step(NamedTuple):
    """A step of n environments: what the learner saw, what it proposed, what was executed, and where that differs."""

    observations: Observations
    proposed: NDArray[Any]
    executed: NDArray[Any]
    replaced: Flags


class Imitation:
    """Supervised step at the end of every epoch, towards the executed actions where proposals were replaced.

    Args:
        learner: an on-policy learner.
        radius: largest mean KL divergence by which a step changes the policy.
    """

    transient = ("steps", "actor")  # empty between two epochs; a view of the learner's policy

    def __init__(self, learner: BaseAlgorithm, radius: float) -> None:
        if not 0 < radius < math.inf:
            raise ValueError(f"imitation={radius} must be a KL divergence above 0, such as 0.01, or 0 for none.")
        if isinstance(learner, OffPolicyAlgorithm):
            raise ValueError(
                f"imitation={radius}: {type(learner).__name__} learns from the executed actions anyway; leave it out."
            )
        self.radius = radius
        self.actor = actor_of(learner, "imitation")
        self.steps: list[Step] = []
        self.last = Imitated(0.0, 0.0, 0.0)

    def add(self, observations: Observations, proposed: NDArray[Any], executed: NDArray[Any], replaced: Flags) -> None:
        """Store a step of n environments."""
        self.steps.append(Step(observations, proposed.copy(), executed.copy(), replaced))

    def update(self) -> None:
        """Take the supervised step for the stored steps, and forget them."""
        steps, self.steps, self.last = self.steps, [], Imitated(0.0, 0.0, 0.0)
        if not any(step.replaced.any() for step in steps):
            return
        policy = self.actor.policy
        policy.set_training_mode(False)
        observations, _ = policy.obs_to_tensor(_joined([step.observations for step in steps]))

        def column(parts: list[NDArray[Any]]) -> th.Tensor:
            rows = np.concatenate(parts)
            return th.as_tensor(rows.reshape(len(rows), -1), dtype=th.float32, device=policy.device)

        proposed, executed = column([step.proposed for step in steps]), column([step.executed for step in steps])
        replaced = column([step.replaced for step in steps])[:, 0]
        self.last = imitate(self.actor, observations, proposed, executed, replaced, self.radius)

    def metrics(self) -> dict[str, Any]:
        """KL divergence of the last supervised step, and the mean distance to the executed actions around it."""
        return {f"imitation_{name}": value for name, value in self.last._asdict().items()}


def actor_of(learner: BaseAlgorithm, option: str) -> PolicyNetwork:
    """Policy of an on-policy learner as a function from observations to distributions, for an option of MASE.

    Raises:
        ValueError: if the learner has no such policy.
    """
    name, policy = type(learner).__name__, learner.policy
    if isinstance(policy, RecurrentActorCriticPolicy) or not isinstance(policy, ActorCriticPolicy) or policy.use_sde:
        raise ValueError(
            f"{option} needs a feed-forward actor-critic policy without use_sde, which {name}'s "
            f"{type(policy).__name__} is not: leave {option} out, or use PPO, A2C or TRPO."
        )
    return PolicyNetwork(policy, family_of(policy.action_space))


def _joined(batches: list[Observations]) -> Any:
    first = batches[0]
    if isinstance(first, dict):
        return {key: np.concatenate([batch[key] for batch in batches]) for key in first}
    return np.concatenate(batches)
