"""PPO in one file, in the style of CleanRL, behind a shield: MASE (Algorithm 1) from top to bottom.

    python examples/cleanrl_ppo.py
    python examples/cleanrl_ppo.py --task safexp/PlanarRobot-v0 --budget 3 --steps 60000

It needs nothing of Stable-Baselines3's training. The lines of Algorithm 1 are marked; those that differ from an
ordinary PPO are `safexp.wrap` and `end_epoch`.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from torch import nn
from torch.distributions import Normal

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
    parser.add_argument("--passes", type=int, default=10, help="over each rollout")
    parser.add_argument("--minibatches", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class ActorCritic(nn.Module):
    """A Gaussian policy and a value function."""

    def __init__(self, observations: int, actions: int) -> None:
        super().__init__()
        self.mean = self._network(observations, actions, last_gain=0.01)
        self.value = self._network(observations, 1, last_gain=1.0)
        self.log_std = nn.Parameter(th.zeros(actions))

    @staticmethod
    def _network(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
        layers = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)]
        for layer in layers[::2]:
            nn.init.orthogonal_(layer.weight, last_gain if layer is layers[-1] else 2**0.5)
            nn.init.zeros_(layer.bias)
        return nn.Sequential(*layers)

    def policy(self, observations: th.Tensor) -> Normal:
        """Distribution of actions."""
        return Normal(self.mean(observations), self.log_std.exp())


def tensor(values: Any) -> th.Tensor:
    """As single precision."""
    return th.as_tensor(np.asarray(values), dtype=th.float32)


def advantages_of(
    rewards: th.Tensor, values: th.Tensor, following: th.Tensor, ends: th.Tensor, gamma: float, decay: float
) -> th.Tensor:
    """Generalised advantage estimates (T, n); `following` are the values of the next states, 0 after an end."""
    found, running = th.zeros_like(rewards), th.zeros(rewards.shape[1])
    for t in reversed(range(len(rewards))):
        error = rewards[t] + gamma * following[t] - values[t]
        running = error + gamma * decay * (1.0 - ends[t]) * running
        found[t] = running
    return found


def train(settings: argparse.Namespace) -> Any:
    """Train a policy; returns the environments, with the record of training."""
    th.manual_seed(settings.seed)
    envs = safexp.wrap(
        gym.make_vec(settings.task, num_envs=settings.num_envs),
        safexp.Budget(settings.budget),
        safexp.Unknown(),
        penalty=safexp.Penalty(settings.penalty),
    )
    agent = ActorCritic(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimiser = th.optim.Adam(agent.parameters(), settings.learning_rate, eps=1e-5)
    length = max(settings.rollout // envs.num_envs, 1)

    observations, _ = envs.reset(seed=settings.seed)
    for epoch in range(-(-settings.steps // (length * envs.num_envs))):  # line 1
        seen, proposed, log_probs, rewards, following, ends = [], [], [], [], [], []
        for _ in range(length):  # line 2
            with th.no_grad():
                policy = agent.policy(tensor(observations))
                action = policy.sample()
            # Lines 3-7 and 9: the shield executes the proposal or a certified action, counts its cost, lets the backup
            # drive or stops the episode where nothing is certified, and gives the penalty.
            new, reward, terminated, truncated, infos = envs.step(action.numpy())
            ended, last = terminated | truncated, np.array(new)
            for i in np.flatnonzero(ended):
                last[i] = infos["final_obs"][i]
            with th.no_grad():
                value = agent.value(tensor(last))[:, 0] * (1.0 - tensor(terminated))
            # Lines 8 and 11. The proposal is stored, not the executed action: the shield is part of the environment.
            seen.append(tensor(observations))
            proposed.append(action)
            log_probs.append(policy.log_prob(action).sum(1))
            rewards.append(tensor(reward))
            following.append(value)
            ends.append(tensor(ended))
            observations = new

        # Line 14: an ordinary PPO update.
        with th.no_grad():
            values = agent.value(th.stack(seen))[..., 0]
            found = advantages_of(
                *(th.stack(rewards), values, th.stack(following), th.stack(ends)), settings.gamma, settings.gae_lambda
            )
        states, actions, before = th.cat(seen), th.cat(proposed), th.cat(log_probs)
        advantages, targets = found.flatten(), (found + values).flatten()
        for _ in range(settings.passes):
            for rows in th.randperm(len(states)).tensor_split(settings.minibatches):
                ratio = (agent.policy(states[rows]).log_prob(actions[rows]).sum(1) - before[rows]).exp()
                gain = (advantages[rows] - advantages[rows].mean()) / (advantages[rows].std() + 1e-8)
                clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                policy_loss = -th.min(ratio * gain, clipped * gain).mean()
                value_loss = (agent.value(states[rows])[:, 0] - targets[rows]).square().mean()
                optimiser.zero_grad()
                (policy_loss + 0.5 * value_loss).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimiser.step()

        observations, _ = envs.end_epoch()  # line 15: the quantifier learns from what was executed
        recent = envs.episodes[-100:]
        if recent and epoch % 10 == 0:
            mean = np.mean([episode.true_return for episode in recent])
            print(f"{(epoch + 1) * len(states):>9,} steps  return {mean:.2f}  violations {envs.violations}", flush=True)
    return envs


if __name__ == "__main__":
    envs = train(parse())
    recent = envs.episodes[-100:]
    print(f"{envs.violations} violations in {len(envs.episodes)} episodes")
    print(f"return {np.mean([episode.true_return for episode in recent]):.2f} in the last {len(recent)}")
    print(f"{sum(episode.stopped for episode in recent)} of them were stopped")
