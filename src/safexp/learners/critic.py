"""Critics: networks that predict what is still to come, of reward or of cost, and how they are fitted."""

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
"""Fewer steps than this give too noisy a gradient."""


class Fit(NamedTuple):
    """How often the batch is passed through, and in how many parts."""

    passes: int
    parts: int

    @classmethod
    def named(cls, schedule: CriticSchedule) -> Fit:
        """`paper`: 80 steps on the full batch (Table 1). `fast`: as good a fit in a fraction of the time."""
        if schedule not in ("fast", "paper"):
            raise ValueError(f"critic={schedule!r} is not one of 'fast', 'paper'.")
        return cls(80, 1) if schedule == "paper" else cls(6, 20)


class CostCritic(nn.Module):
    """A value network for costs beside the reward's, built as the policy's own and with an optimiser of its own."""

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
    """Move a critic towards targets (n,) by least squares; returns the mean squared error of the last pass.

    Only `parameters` move: what a critic shares with the actor is left as it is.
    """
    total = len(targets)
    size = min(max(total // schedule.parts, SMALLEST_PART), total)
    losses: list[Tensor] = []
    for _ in range(schedule.passes):
        order = th.randperm(total, device=targets.device) if size < total else None
        losses.clear()
        # A last part smaller than half of the others is left to the next pass, whose order is another.
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
