"""Warm start: a policy that begins with the behaviour of a log instead of random actions."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch as th
from gymnasium.spaces import Box
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from torch import Tensor

from safexp.core.encoding import decode_actions, decode_observations, encode_actions, encode_observations
from safexp.envs.guard import Guard
from safexp.learners.cloning import Cloned, clone
from safexp.mase.imitation import actor_of
from safexp.shield.logs import Log

logger = logging.getLogger("safexp")

LEAST_NOISE = 0.05
"""Smallest standard deviation of a cloned policy, as a share of the range of an action: with less a learner cannot tell
which of its actions were good."""


def clone_log(learner: BaseAlgorithm, guard: Guard, log: Log, seed: int | None) -> Cloned:
    """Train a policy towards the actions of a log: its mean, or the log probability of discrete actions.

    A Gaussian policy also takes over the spread of the log's actions around that mean, but at least 5% of their range,
    unless `log_std_init` is given.

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

    found = _told(clone(loss, list(actor.trained.values()), len(actions), rng))
    if isinstance(spaces[1], Box) and "log_std_init" not in (learner.policy_kwargs or {}):
        _clone_noise(policy, observations, wanted)
    return found


@th.no_grad()
def _clone_noise(policy: Any, observations: Any, wanted: Tensor) -> None:
    """Set the standard deviation of a Gaussian policy to that of the log's actions around its mean.

    A policy that explores more than the log begins with actions that the log does not have: the shield judges them.
    """
    errors = policy.get_distribution(observations).distribution.mean - wanted
    span = th.as_tensor(policy.action_space.high - policy.action_space.low, device=policy.device).reshape(-1)
    least = LEAST_NOISE * span.to(errors.dtype)
    policy.log_std.copy_(errors.square().mean(dim=0).sqrt().maximum(least).log())


def take_policy(learner: BaseAlgorithm, model: BaseAlgorithm, guard: Guard) -> None:
    """Copy the policy of a model that was trained without thresholds, or with them.

    The weights of thresholds that it has not seen are 0: it acts as before until it has learned to use them.

    Raises:
        TypeError: if it is not a model of the same class.
        ValueError: if its networks have another form.
    """
    if type(model) is not type(learner):
        raise TypeError(
            f"start_from={type(model).__name__}: expected a model of {type(learner).__name__}, such as "
            f"{type(learner).__name__}.load(path)."
        )
    ours, theirs = learner.policy.state_dict(), model.policy.state_dict()
    raw = guard.venv.observation_space
    added = 0
    if guard.show_threshold and isinstance(guard.observation_space, Box) and model.observation_space == raw:
        added = guard.observation_space.shape[0] - raw.shape[0]  # type: ignore[index]
    for name, part in ours.items():
        there, here = (tuple(found[name].shape) if name in found else None for found in (theirs, ours))
        if there == here:
            part.copy_(theirs[name])
        elif added and part.ndim == 2 and there == (part.shape[0], part.shape[1] - added):
            seen = raw.shape[0]  # type: ignore[index]
            part.zero_()
            part[:, :seen] = theirs[name][:, :seen]
            part[:, seen + added :] = theirs[name][:, seen:]  # a critic's actions
        else:
            raise ValueError(
                f"start_from: {name} has the shape {there} there, and {here} here: the model must have been trained "
                f"on {raw} or {guard.observation_space} with the same policy; leave policy_kwargs out, or give "
                "show_threshold=False."
            )
    learner.policy.load_state_dict(ours)


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
