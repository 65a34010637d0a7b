"""Critics: value networks of reward or cost, and how they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.torch_layers import MlpExtractor
from torch import Tensor, nn

CriticSchedule = Literal["fast", "paper"]

SMALLEST_PART = 50
"""Smallest minibatch: fewer steps give too noisy a gradient."""


class Fit(NamedTuple):
    """Number of passes over the batch, and of minibatches in a pass."""

    passes: int
    parts: int

    @classmethod
    def named(cls, schedule: CriticSchedule) -> Fit:
        """`paper`: 80 steps on the full batch (Table 1). `fast`: an equally good fit in a fraction of the time."""
        if schedule not in ("fast", "paper"):
            raise ValueError(f"critic={schedule!r} is not one of 'fast', 'paper'.")
        return cls(80, 1) if schedule == "paper" else cls(6, 20)


class CostCritic(nn.Module):
    """Value network of costs, built like the policy's value network of rewards, with its own optimiser."""

    def __init__(self, policy: ActorCriticPolicy, learning_rate: float) -> None:
        super().__init__()
        self._space, self._normalize_images = policy.observation_space, policy.normalize_images
        self.features = policy.make_features_extractor()
        self.hidden = MlpExtractor(
            self.features.features_dim, policy.net_arch, policy.activation_fn, policy.device
        ).value_net
        width = policy.value_net.in_features
        self.output = nn.Linear(width, 1)
        for part, gain in ((self.features, 2**0.5), (self.hidden, 2**0.5), (self.output, 1.0)):
            part.apply(partial(policy.init_weights, gain=gain))
        self.to(policy.device)
        self.optimizer = policy.optimizer_class(self.parameters(), lr=learning_rate, **policy.optimizer_kwargs)  # type: ignore[call-arg]

    def forward(self, observations: Any) -> Tensor:
        """Values (n, 1)."""
        inputs = preprocess_obs(observations, self._space, normalize_images=self._normalize_images)
        return self.output(self.hidden(self.features(inputs)))


def fit(
    critic: Callable[[Any], Tensor],
    parameters: list[nn.Parameter],
    optimizer: th.optim.Optimizer,
    observations: Any,
    targets: Tensor,
    schedule: Fit,
) -> float:
    """Fit a critic to targets (n,) by least squares; returns the mean squared error of the last pass.

    Only `parameters` change: layers that a critic shares with the actor stay as they are.
    """
    total = len(targets)
    size = min(max(total // schedule.parts, SMALLEST_PART), total)
    losses: list[Tensor] = []
    for _ in range(schedule.passes):
        order = th.randperm(total, device=targets.device) if size < total else None
        losses.clear()
        # A last minibatch smaller than half of the others is skipped; the next pass has another order.
        for start in range(0, total - size // 2 if size < total else total, size):
            rows = slice(None) if order is None else order[start : start + size]
            loss = nn.functional.mse_loss(critic(_rows(observations, rows)).flatten(), targets[rows])
            gradients = th.autograd.grad(loss, parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
            losses.append(loss.detach())
    optimizer.zero_grad()
    return float(th.stack(losses).mean())


def _rows(observations: Any, rows: Any) -> Any:
    if isinstance(observations, dict):
        return {key: part[rows] for key, part in observations.items()}
    return observations[rows]
