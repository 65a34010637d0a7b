"""Critics of off-policy learners as preferences among certified actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import torch as th
from stable_baselines3 import DQN
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ContinuousCritic

from safexp.core.arrays import Array, Observations
from safexp.core.encoding import decode_actions

StatePreferences = Callable[[Observations, Array], Array]
"""Scores (k, m) of encoded candidates (k, m, da), from the learner's observations (k, …)."""

Rule = Literal["nearest", "critic"]

Replacement = Rule | StatePreferences
"""What replaces a refused proposal: a rule by name, or a function whose highest score among certified actions does."""


def preferences_of(learner: BaseAlgorithm, replacement: Replacement) -> StatePreferences | None:
    """What replaces a refused proposal: the candidate with the highest score, or None for the nearest one.

    Raises:
        ValueError: if the learner has no critic of states and actions.
    """
    if callable(replacement):
        return replacement
    if replacement not in get_args(Rule):
        raise ValueError(
            f"replacement={replacement!r} is not one of {', '.join(get_args(Rule))}, nor a function of observations "
            "(k, ...) and candidates (k, m, da) that returns scores (k, m)."
        )
    if isinstance(learner, DQN):
        return partial(discrete_values, learner)
    if replacement == "nearest":
        return None
    if not isinstance(getattr(learner, "critic", None), ContinuousCritic):
        raise ValueError(
            f"replacement='critic' needs a learner with values of actions (SAC, TD3, DDPG), which "
            f"{type(learner).__name__} does not have: use replacement='nearest'."
        )
    return partial(continuous_values, learner)


def discrete_values(learner: Any, observations: Observations, candidates: Array) -> Array:
    """Values (k, number of actions) of DQN, whose candidates are all actions in order."""
    tensor, _ = learner.policy.obs_to_tensor(observations)
    with th.no_grad():
        return np.asarray(learner.q_net(tensor).cpu().numpy(), dtype=np.float64)


def continuous_values(learner: Any, observations: Observations, candidates: Array) -> Array:
    """Smallest values (k, m) that the critics of SAC, TD3 or DDPG give to candidates (k, m, da)."""
    k, m, size = candidates.shape
    policy = learner.policy
    actions = policy.scale_action(decode_actions(learner.action_space, candidates.reshape(k * m, size)))
    tensor, _ = policy.obs_to_tensor(observations)
    repeated: Any = (
        {key: part.repeat_interleave(m, dim=0) for key, part in tensor.items()}
        if isinstance(tensor, dict)
        else tensor.repeat_interleave(m, dim=0)
    )
    with th.no_grad():
        flat = th.as_tensor(actions.reshape(k * m, -1), dtype=th.float32, device=policy.device)
        values = th.cat(learner.critic(repeated, flat), dim=1).min(dim=1).values
    return np.asarray(values.cpu().numpy(), dtype=np.float64).reshape(k, m)
