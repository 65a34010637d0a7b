"""TorchRL's PPO behind a shield. It needs `pip install torchrl`.

    python examples/torchrl_ppo.py
    python examples/torchrl_ppo.py --task safexp/PlanarRobot-v0 --budget 3 --steps 60000

TorchRL resets environments itself, so the wrapper is told not to (`AutoresetMode.DISABLED`). Everything else is
TorchRL's: collector, advantages, loss.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium.vector import AutoresetMode
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import DoubleToFloat, GymWrapper, TransformedEnv
from torchrl.modules import IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import safexp


def parse() -> argparse.Namespace:
    """Settings, from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="safexp/PointGoalStatic-v0")
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--penalty", type=float, default=1.0)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300_000, help="of all environments")
    parser.add_argument("--rollout", type=int, default=4096, help="steps of all environments between two updates")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Two hidden layers, initialised orthogonally."""
    layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
    for layer in layers[::2]:
        nn.init.orthogonal_(layer.weight, last_gain if layer is layers[-1] else 2**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def train(settings: argparse.Namespace) -> Any:
    """Train a policy; returns the environments, with the record of training."""
    th.manual_seed(settings.seed)
    envs = safexp.wrap(
        gym.make_vec(settings.task, num_envs=settings.num_envs),
        safexp.Budget(settings.budget),
        safexp.Unknown(),
        penalty=safexp.Penalty(settings.penalty),
        autoreset_mode=AutoresetMode.DISABLED,
    )
    env = TransformedEnv(GymWrapper(envs), DoubleToFloat())
    env.set_seed(settings.seed)
    inputs, actions = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    policy = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(network(inputs, actions, last_gain=0.01), AddStateIndependentNormalScale(actions)),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(network(inputs, 1, last_gain=1.0), in_keys=["observation"])
    estimate = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
    loss = ClipPPOLoss(policy, critic, clip_epsilon=0.2, entropy_bonus=False, normalize_advantage=True)
    optimiser = th.optim.Adam(loss.parameters(), 1e-3, eps=1e-5)
    epochs = -(-settings.steps // settings.rollout)
    collector = Collector(
        env,
        policy,
        frames_per_batch=settings.rollout,
        total_frames=epochs * settings.rollout,
        auto_register_policy_transforms=False,  # for policies with a memory
    )

    for epoch, batch in enumerate(collector):
        for _ in range(10):
            with th.no_grad():
                estimate(batch)
            steps = batch.reshape(-1)
            for rows in th.randperm(len(steps)).tensor_split(16):
                losses = loss(steps[rows])
                optimiser.zero_grad()
                (losses["loss_objective"] + 0.5 * losses["loss_critic"]).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        _, stopped = envs.end_epoch()  # the quantifier learns from what was executed
        if stopped.any():  # a collector keeps the observations that it has seen last
            collector.reset()
        recent = envs.episodes[-100:]
        if recent and epoch % 10 == 0:
            mean = np.mean([episode.true_return for episode in recent])
            print(f"{envs.guard.recorder.steps:>9,} steps  return {mean:.2f}  violations {envs.violations}", flush=True)
    collector.shutdown(close_env=False)
    return envs


if __name__ == "__main__":
    envs = train(parse())
    recent = envs.episodes[-100:]
    print(f"{envs.violations} violations in {len(envs.episodes)} episodes")
    print(f"return {np.mean([episode.true_return for episode in recent]):.2f} in the last {len(recent)}")
    print(f"{sum(episode.stopped for episode in recent)} of them were stopped")
