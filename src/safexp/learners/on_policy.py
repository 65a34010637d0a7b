"""Base class of TRPO, TRPO-Lagrangian and CPO: the rollout, the critics, and the line search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    BasePolicy,
    MultiInputActorCriticPolicy,
)
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.type_aliases import Schedule as RateSchedule
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from safexp.envs.infos import Infos
from safexp.learners import critic as critics
from safexp.learners.distributions import family_of
from safexp.learners.rollout import CostRolloutBuffer, advantages
from safexp.learners.surrogate import PolicyChange, PolicyNetwork, Surrogate
from safexp.learners.trust_region import line_search, natural_step


class Estimates(NamedTuple):
    """Estimates for every step of a rollout, (n,) each: advantages, and targets of the critic."""

    advantages: Tensor
    targets: Tensor


class TrustRegionAlgorithm(OnPolicyAlgorithm, ABC):
    """An on-policy algorithm of Stable-Baselines3 whose policy steps within a trust region.

    The defaults are the paper's Table 1. Subclasses implement the policy step in `improve`; `costly` ones also have a
    cost critic and read `info["cost"]` at every step.

    Args:
        policy: "MlpPolicy", "MultiInputPolicy", or a policy class.
        env: the environments; actions are a Box or Discrete.
        learning_rate: learning rate of the critics; the trust region determines the policy's step.
        n_steps: steps of each environment in an epoch.
        gamma: discount of the reward.
        gae_lambda: decay of the advantage estimates, of reward and of cost.
        target_kl: radius δ of the trust region.
        cg_max_steps: conjugate-gradient steps.
        cg_damping: added to the diagonal of the Fisher matrix.
        line_search_shrinking_factor: factor by which a rejected step is shortened.
        line_search_max_iter: largest number of steps tried.
        sub_sampling_factor: the Fisher matrix is estimated from every k-th step; gradients and the line search
            always use all of them.
        critic: schedule for fitting critics, "fast" or that of the "paper" (80 steps on the full batch).
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": ActorCriticPolicy,
        "CnnPolicy": ActorCriticCnnPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
    }
    costly: ClassVar[bool] = False

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str,
        *,
        learning_rate: float | RateSchedule = 5e-3,
        n_steps: int = 2048,
        gamma: float = 0.99,
        gae_lambda: float = 0.97,
        target_kl: float = 0.01,
        cg_max_steps: int = 10,
        cg_damping: float = 0.1,
        line_search_shrinking_factor: float = 0.8,
        line_search_max_iter: int = 10,
        sub_sampling_factor: int = 1,
        critic: critics.CriticSchedule = "fast",
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        critics.Fit.named(critic)  # raises a clear error
        self.target_kl = target_kl
        self.cg_max_steps = cg_max_steps
        self.cg_damping = cg_damping
        self.line_search_shrinking_factor = line_search_shrinking_factor
        self.line_search_max_iter = line_search_max_iter
        self.sub_sampling_factor = sub_sampling_factor
        self.critic = critic
        self.cost_gamma = gamma
        self._episode_cost: tuple[float, float] | None = None
        super().__init__(
            policy,
            env,
            learning_rate,
            n_steps,
            gamma,
            gae_lambda,
            ent_coef=0.0,
            vf_coef=0.0,
            max_grad_norm=0.0,
            use_sde=False,
            sde_sample_freq=-1,
            rollout_buffer_class=CostRolloutBuffer,  # type: ignore[arg-type]
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=_init_setup_model,
            supported_action_spaces=(spaces.Box, spaces.Discrete),
        )

    @abstractmethod
    def improve(self, surrogate: Surrogate, reward: Tensor, cost: Tensor) -> None:
        """Update the policy, given the advantages (n,) of reward and of cost (zeros unless `costly`)."""

    # Collecting experience

    def collect_rollouts(self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        rollout = cast(CostRolloutBuffer, rollout_buffer)
        rollout.reset()
        self.policy.set_training_mode(False)
        bounds = self.action_space if isinstance(self.action_space, spaces.Box) else None
        callback.on_rollout_start()
        for step in range(n_rollout_steps):
            with th.inference_mode():
                distributions = self.actor(rollout.observe(step, self._last_obs))
                actions = self.actor.family.sample(distributions).cpu().numpy()
            executed = actions if bounds is None else np.clip(actions, bounds.low, bounds.high)
            new_obs, rewards, dones, infos = env.step(executed)
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            if dones.any():
                self._update_info_buffer(infos, dones)
            costs = Infos.of(infos).column("cost") if self.costly else 0.0
            assert self._last_episode_starts is not None
            rollout.add(step, actions, rewards, costs, self._last_episode_starts, dones, infos)
            self._last_obs, self._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    # Learning

    def train(self) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self._optimizers())
        rollout = cast(CostRolloutBuffer, self.rollout_buffer)
        observations = rollout.flat_observations()
        reward = self._estimate(self.policy.predict_values, rollout.rewards, self.gamma)
        cost = Estimates(th.zeros_like(reward.advantages), reward.targets)
        if self.costly:
            cost = self._estimate(self.cost_critic, rollout.costs, self.cost_gamma)
        surrogate = Surrogate(
            self.actor, observations, rollout.flat_actions(), self.cg_damping, self.sub_sampling_factor
        )
        self.improve(surrogate, reward.advantages, cost.advantages)

        own = {id(parameter) for parameter in self.actor.trained.values()}
        parts = [self.policy.mlp_extractor.value_net, self.policy.value_net, self.policy.vf_features_extractor]
        free = [parameter for part in parts for parameter in part.parameters() if id(parameter) not in own]
        schedule = critics.Fit.named(self.critic)
        loss = critics.fit(
            self.policy.predict_values, free, self.policy.optimizer, observations, reward.targets, schedule
        )
        self.logger.record("train/value_loss", loss)
        if self.costly:
            free = list(self.cost_critic.parameters())
            loss = critics.fit(self.cost_critic, free, self.cost_critic.optimizer, observations, cost.targets, schedule)
            self.logger.record("train/cost_value_loss", loss)
        values = reward.targets - reward.advantages
        self.logger.record(
            "train/explained_variance", explained_variance(values.cpu().numpy(), reward.targets.cpu().numpy())
        )
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", float(self.policy.log_std.detach().exp().mean()))
        self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")

    def episode_cost(self) -> tuple[float, float]:
        """The mean undiscounted cost and the mean length of the latest episodes.

        These are the episodes that ended in this rollout, or in the last one in which any did; before any has ended,
        the running episodes are used as they are so far.
        """
        rollout = cast(CostRolloutBuffer, self.rollout_buffer)
        if rollout.finished or self._episode_cost is None:
            self._episode_cost = rollout.episode_cost()
        self.logger.record("train/episode_cost", self._episode_cost[0])
        return self._episode_cost

    def ascend(self, surrogate: Surrogate, advantages: Tensor) -> None:
        """Take TRPO's step, √(2δ / gᵀF⁻¹g) F⁻¹g for the gradient g of mean(π/π_old · A), with a line search."""
        before = float(advantages.mean())
        gradient = surrogate.gradient(advantages)
        direction = surrogate.natural(gradient, self.cg_max_steps)
        step = natural_step(gradient, direction, self.target_kl)
        self.search(surrogate, step, lambda change: float((change.ratios * advantages).mean()) > before)

    def search(self, surrogate: Surrogate, step: Tensor, accept: Callable[[PolicyChange], bool]) -> None:
        """Line search: move the policy along a step as far as it stays within the trust region and is accepted."""
        changes: list[PolicyChange] = []

        def good(point: Tensor) -> bool:
            changes.append(surrogate.evaluate(point))
            return changes[-1].kl <= self.target_kl and accept(changes[-1])

        found = line_search(good, surrogate.point, step, self.line_search_shrinking_factor, self.line_search_max_iter)
        if found.fraction:
            surrogate.move(found.point)
        self.logger.record("train/kl_divergence", changes[-1].kl if found.fraction else 0.0)
        self.logger.record("train/step_fraction", found.fraction)

    @th.no_grad()
    def _estimate(self, critic: Callable[[Any], Tensor], rewards: Any, discount: float) -> Estimates:
        """Advantages and targets of rewards or costs, from a critic."""
        rollout = cast(CostRolloutBuffer, self.rollout_buffer)
        values = critic(rollout.flat_observations()).cpu().numpy().reshape(rewards.shape)
        last = critic(rollout.last_observations(self._last_obs)).cpu().numpy().reshape(-1)
        estimates = advantages(
            rewards, values, rollout.following(values, last), rollout.ends, discount, self.gae_lambda
        )
        flat = th.as_tensor(estimates.reshape(-1), device=self.device)
        return Estimates(flat, flat + th.as_tensor(values.reshape(-1), device=self.device))

    # Overrides of Stable-Baselines3

    def _setup_model(self) -> None:
        super()._setup_model()
        self.actor = PolicyNetwork(self.policy, family_of(self.action_space))
        if self.costly:
            self.cost_critic = critics.CostCritic(self.policy, self.lr_schedule(1))

    def _optimizers(self) -> list[th.optim.Optimizer]:
        return [self.policy.optimizer, *([self.cost_critic.optimizer] if self.costly else [])]

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "actor", "cost_critic"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        modules, tensors = super()._get_torch_save_params()
        return [*modules, *(["cost_critic", "cost_critic.optimizer"] if self.costly else [])], tensors


def centred(advantages: Tensor) -> Tensor:
    """Advantages with mean 0, in their own units."""
    return advantages - advantages.mean()


def check_cost_limit(cost_limit: float) -> None:
    """Raise `ValueError` if this cannot be a limit on the cost of an episode."""
    if not (np.isfinite(cost_limit) and cost_limit >= 0):
        raise ValueError(
            f"cost_limit={cost_limit} must be finite and at least 0: it is the largest mean cost of an episode."
        )


def standardised(advantages: Tensor) -> Tensor:
    """Advantages with mean 0 and standard deviation 1."""
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
