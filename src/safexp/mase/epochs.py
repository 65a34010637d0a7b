"""When an epoch of a learner is over."""

from __future__ import annotations

from typing import Protocol

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm


class Agent(Protocol):
    """Who wants to know; `epoch_steps` steps of an off-policy learner make an epoch, of an on-policy one a rollout."""

    epoch_steps: int
    epoch_began: int

    def end_epoch(self) -> None:
        """An epoch is over."""


class EndOfEpoch(BaseCallback):
    """Ends an epoch when the learner starts its next rollout, which is after it has been optimised, or stops."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self.agent = agent

    def _on_training_start(self) -> None:
        self.agent.epoch_began = self.model.num_timesteps

    def _on_rollout_start(self) -> None:
        steps = self.model.num_timesteps - self.agent.epoch_began
        if steps >= (1 if isinstance(self.model, OnPolicyAlgorithm) else self.agent.epoch_steps):
            self.agent.end_epoch()
            self.agent.epoch_began = self.model.num_timesteps

    def _on_training_end(self) -> None:
        self.agent.end_epoch()

    def _on_step(self) -> bool:
        return True
