"""Distributions of actions by their parameters, for trust-region steps.

A batch of distributions is one tensor (n, k): the means and log standard deviations of a Gaussian side by side, the
logits of a categorical distribution.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from safexp.learners.trust_region import Product


class Family(Protocol):
    """A family of distributions; every tensor has the batch axis n first."""

    def parameters(self, policy: ActorCriticPolicy, latent: Tensor) -> Tensor:
        """The parameters (n, k) that a policy computes from its last hidden layer."""

    def sample(self, parameters: Tensor) -> Tensor:
        """One action for each distribution."""

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """The log probability (n,) of each action."""

    def distance(self, parameters: Tensor, actions: Tensor) -> Tensor:
        """How far (n,) each distribution is from an action: −log π(a) without what changes the spread alone."""

    def corrected(self, parameters: Tensor, proposed: Tensor, executed: Tensor) -> Tensor:
        """The actions towards which distributions move so that their proposals become the executed actions."""

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """KL(old ‖ new), (n,)."""

    def metric(self, parameters: Tensor) -> Product:
        """The Fisher matrix of each distribution in its parameters, as a product with tangents (n, k)."""


class Gaussian:
    """Independent normal components: parameters (n, 2d), actions (n, d)."""

    def parameters(self, policy: ActorCriticPolicy, latent: Tensor) -> Tensor:
        mean = policy.action_net(latent)
        return th.cat([mean, policy.log_std.expand_as(mean)], dim=1)

    def sample(self, parameters: Tensor) -> Tensor:
        mean, log_std = parameters.chunk(2, dim=1)
        return mean + log_std.exp() * th.randn_like(mean)

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = parameters.chunk(2, dim=1)
        scaled = (actions - mean) * th.exp(-log_std)
        return -(0.5 * scaled**2 + log_std).sum(dim=1) - 0.5 * math.log(2 * math.pi) * mean.shape[1]

    def distance(self, parameters: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = parameters.chunk(2, dim=1)
        return 0.5 * (((actions - mean) * th.exp(-log_std.detach())) ** 2).sum(dim=1)

    def corrected(self, parameters: Tensor, proposed: Tensor, executed: Tensor) -> Tensor:
        return parameters.chunk(2, dim=1)[0] + executed - proposed

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        (old_mean, old_log_std), (new_mean, new_log_std) = old.chunk(2, dim=1), new.chunk(2, dim=1)
        shift = ((old_mean - new_mean) * th.exp(-new_log_std)) ** 2
        gap = old_log_std - new_log_std
        return 0.5 * (th.exp(2 * gap) + shift - 1 - 2 * gap).sum(dim=1)

    def metric(self, parameters: Tensor) -> Product:
        _, log_std = parameters.chunk(2, dim=1)
        diagonal = th.cat([th.exp(-2 * log_std), th.full_like(log_std, 2.0)], dim=1)
        return lambda tangent: diagonal * tangent


class Categorical:
    """One choice of k: parameters (n, k) are logits, actions (n,) or (n, 1) are indices."""

    def parameters(self, policy: ActorCriticPolicy, latent: Tensor) -> Tensor:
        return policy.action_net(latent)

    def sample(self, parameters: Tensor) -> Tensor:
        return th.multinomial(parameters.softmax(dim=1), 1).squeeze(1)

    def log_prob(self, parameters: Tensor, actions: Tensor) -> Tensor:
        return parameters.log_softmax(dim=1).gather(1, actions.long().reshape(-1, 1)).squeeze(1)

    def distance(self, parameters: Tensor, actions: Tensor) -> Tensor:
        return -self.log_prob(parameters, actions)

    def corrected(self, parameters: Tensor, proposed: Tensor, executed: Tensor) -> Tensor:
        return executed

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        log_old = old.log_softmax(dim=1)
        return (log_old.exp() * (log_old - new.log_softmax(dim=1))).sum(dim=1)

    def metric(self, parameters: Tensor) -> Product:
        chances = parameters.softmax(dim=1)

        def product(tangent: Tensor) -> Tensor:
            weighted = chances * tangent
            return weighted - chances * weighted.sum(dim=1, keepdim=True)

        return product


def family_of(action_space: spaces.Space[object]) -> Family:
    """The family of distributions for an action space."""
    return Categorical() if isinstance(action_space, spaces.Discrete) else Gaussian()
