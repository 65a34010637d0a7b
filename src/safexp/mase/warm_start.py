"""Warm start: a policy that begins with the behaviour of a log instead of random actions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from safexp.core.encoding import decode_actions, decode_observations, encode_actions, encode_observations
from safexp.envs.guard import Guard
from safexp.learners.cloning import Cloned, clone
from safexp.mase.imitation import actor_of
from safexp.shield.logs import Log

logger = logging.getLogger("safexp")


def clone_log(learner: BaseAlgorithm, guard: Guard, log: Log, seed: int | None) -> Cloned:
    """Train a policy towards the actions of a log: its mean, or the log probability of discrete actions.

    The log's observations are completed by the threshold at the start of an episode, if the learner sees one.

    Raises:
        ValueError: if the learner's policy cannot be cloned.
    """
    spaces = guard.shield.observation_space, guard.shield.action_space
    raw = decode_observations(spaces[0], encode_observations(spaces[0], log.observations))
    shown = guard.shown(raw, guard.constraint.threshold(guard.constraint.start(raw)))
    actions = decode_actions(spaces[1], encode_actions(spaces[1], np.asarray(log.actions))) - guard.first_action
    policy: Any = learner.policy
    policy.set_training_mode(False)
    observations, _ = policy.obs_to_tensor(shown)
    rng = np.random.default_rng(seed)
    if isinstance(learner, OffPolicyAlgorithm):
        return _clone_actor(learner, observations, actions, rng)
    actor = actor_of(learner, "warm_start")
    wanted = th.as_tensor(actions.reshape(len(actions), -1), dtype=th.float32, device=policy.device)

    def loss(rows: Any) -> Tensor:
        return actor.family.distance(actor(_rows(observations, rows)), wanted[rows])

    return _told(clone(loss, list(actor.trained.values()), len(actions), rng))


def _clone_actor(learner: OffPolicyAlgorithm, observations: Any, actions: Any, rng: np.random.Generator) -> Cloned:
    """Clone the deterministic action of SAC, TD3 or DDPG, scaled to [−1, 1]."""
    policy: Any = learner.policy
    if not hasattr(policy, "actor"):
        raise ValueError(
            f"warm_start: {type(learner).__name__} has action values and no policy to clone; leave warm_start out, or "
            "use PPO, TRPO, SAC or TD3."
        )
    scaled = policy.scale_action(actions).reshape(len(actions), -1)
    wanted = th.as_tensor(scaled, dtype=th.float32, device=policy.device)

    def loss(rows: Any) -> Tensor:
        return ((policy._predict(_rows(observations, rows), deterministic=True) - wanted[rows]) ** 2).sum(dim=1)

    found = clone(loss, list(policy.actor.parameters()), len(actions), rng)
    if hasattr(policy, "actor_target"):
        policy.actor_target.load_state_dict(policy.actor.state_dict())
    return _told(found)


def _told(found: Cloned) -> Cloned:
    logger.info("the policy was cloned from the log: mean loss %.3g before, %.3g after", found.before, found.after)
    return found


def _rows(observations: Any, rows: Any) -> Any:
    return (
        {key: part[rows] for key, part in observations.items()}
        if isinstance(observations, dict)
        else observations[rows]
    )
