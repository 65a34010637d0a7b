"""Surrogate objective: estimates, from one batch, for policies near the one that collected it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch import Tensor, nn

from safexp.learners.distributions import Family
from safexp.learners.jacobian import Jacobian, differentiate
from safexp.learners.trust_region import conjugate_gradient, fisher_product, flatten, split

LEAST_GAIN = 0.03
"""Conjugate gradients stop after a step that adds less than this share of the gain so far."""


class PolicyNetwork(nn.Module):
    """A Stable-Baselines3 policy as a function from observations to distribution parameters (n, k)."""

    def __init__(self, policy: ActorCriticPolicy, family: Family) -> None:
        super().__init__()
        self.policy = policy
        self.family = family
        parts: list[nn.Module] = [policy.pi_features_extractor, policy.mlp_extractor.policy_net, policy.action_net]
        own = {id(parameter) for part in parts for parameter in part.parameters()} | {
            id(getattr(policy, "log_std", None))
        }
        self.trained = {name: parameter for name, parameter in self.named_parameters() if id(parameter) in own}
        """Parameters that determine the actions, by name; fitting critics must not change them."""

    def forward(self, observations: Any) -> Tensor:
        policy = self.policy
        inputs = preprocess_obs(observations, policy.observation_space, normalize_images=policy.normalize_images)
        features = policy.pi_features_extractor(inputs)
        return self.family.parameters(policy, policy.mlp_extractor.forward_actor(features))


class PolicyChange(NamedTuple):
    """A new policy compared with the old one on the same batch: probability ratios (n,) and mean KL divergence.

    `outputs` are its distribution parameters (n, k).
    """

    ratios: Tensor
    kl: float
    outputs: Tensor


class Surrogate:
    """Surrogate objective on a batch of n steps, for policies with flat parameters (p,).

    The importance-weighted mean of an advantage A (n,) is the surrogate objective mean(π/π_old · A); `gradient` is its
    gradient at the old policy, `fisher` the damped Fisher product there, from every `sub_sampling`-th step.
    """

    def __init__(
        self, actor: PolicyNetwork, observations: Any, actions: Tensor, damping: float = 0.1, sub_sampling: int = 1
    ) -> None:
        self.actor = actor
        self._observations = observations
        self._actions = actions
        self._parameters = list(actor.trained.values())
        self.point = flatten(self._parameters).detach()
        self._here = self._jacobian(observations)
        self._old_log_prob = actor.family.log_prob(self._here.outputs, actions)
        some = self._here if sub_sampling == 1 else self._jacobian(strided(observations, sub_sampling))
        metric = actor.family.metric(some.outputs)
        self.fisher = fisher_product(some.push, some.pull, metric, damping)
        self._precondition = some.approximate_inverse(metric, damping)

    def gradient(self, advantages: Tensor) -> Tensor:
        """∇ mean(π/π_old · A) = mean(A ∇log π) at the old policy, (p,)."""
        return self.derivative(lambda outputs: self.actor.family.log_prob(outputs, self._actions) * advantages)

    def derivative(self, values: Callable[[Tensor], Tensor]) -> Tensor:
        """Gradient (p,), at the old policy, of the mean of values (n,) of its distribution parameters (n, k)."""
        outputs = self._here.outputs.clone().requires_grad_()
        return self._here.pull(*th.autograd.grad(values(outputs).mean(), outputs))

    def natural(self, gradient: Tensor, steps: int) -> Tensor:
        """F⁻¹g for a gradient g (p,), by at most `steps` conjugate-gradient steps."""
        return conjugate_gradient(self.fisher, gradient, steps, self._precondition, LEAST_GAIN)

    @property
    def outputs(self) -> Tensor:
        """Distribution parameters (n, k) of the old policy."""
        return self._here.outputs

    @th.no_grad()
    def evaluate(self, point: Tensor) -> PolicyChange:
        """Compare the policy with these parameters to the old one."""
        outputs = self._model(point, self._observations)
        ratios = th.exp(self.actor.family.log_prob(outputs, self._actions) - self._old_log_prob)
        return PolicyChange(ratios, float(self.actor.family.kl(self._here.outputs, outputs).mean()), outputs)

    @th.no_grad()
    def move(self, point: Tensor) -> None:
        """Set the parameters of the policy."""
        for parameter, value in zip(self._parameters, split(point, self._parameters), strict=True):
            parameter.copy_(value)

    def _model(self, point: Tensor, observations: Any) -> Tensor:
        parameters = dict(zip(self.actor.trained, split(point, self._parameters), strict=True))
        return th.func.functional_call(self.actor, parameters, (observations,), tie_weights=False)

    def _jacobian(self, observations: Any) -> Jacobian:
        return differentiate(self.actor, self.actor.trained, observations, tail="policy.log_std")


def strided(observations: Any, stride: int) -> Any:
    """Every `stride`-th observation of a batch."""
    if isinstance(observations, dict):
        return {key: part[::stride] for key, part in observations.items()}
    return observations[::stride]
