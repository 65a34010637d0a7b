"""Deep copies of agents, for independent experiments with the same agent.

`copy.deepcopy` alone fails on temporary objects of Stable-Baselines3 and torch: a wrapper's table of its own class, a
logger's open files, and the last training step's distribution with its gradients.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar, cast

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

Agent = TypeVar("Agent")


def copied_agent(agent: Agent, learner: BaseAlgorithm, envs: VecEnv, memo: dict[int, Any]) -> Agent:
    """Copy of an agent with its own learner and environments, for `__deepcopy__`; both log to the same place."""
    wrappers = list(_wrappers(envs))
    shared = [getattr(learner, "_logger", None), *(layer.class_attributes for layer in wrappers)]
    memo |= {id(part): part for part in shared}
    memo |= {id(part): part.detach().clone() for part in _passing_tensors(learner.policy)}
    # Created before they are filled: an empty wrapper would look up attributes in itself without end.
    twins = {id(part): object.__new__(type(part)) for part in (agent, *wrappers)}
    memo |= twins
    for part in (*wrappers, agent):
        vars(twins[id(part)]).update(copy.deepcopy(vars(part), memo))
    return cast(Agent, twins[id(agent)])


def _wrappers(envs: VecEnv) -> Iterator[VecEnvWrapper]:
    while isinstance(envs, VecEnvWrapper):
        yield envs
        envs = envs.venv


def _passing_tensors(policy: th.nn.Module) -> Iterator[th.Tensor]:
    """Tensors with a gradient history, which torch cannot copy, in the distributions that a policy last used."""
    for module in policy.modules():
        actions = getattr(module, "action_dist", None)
        held = list(vars(actions).values()) if actions is not None else []
        inside = [vars(part).values() for part in held if isinstance(part, th.distributions.Distribution)]
        for part in [*held, *(tensor for values in inside for tensor in values)]:
            if isinstance(part, th.Tensor) and not part.is_leaf:
                yield part
