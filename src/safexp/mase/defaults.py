"""Default options of learners, from the number of environments and the length of their episodes.

Stable-Baselines3's defaults are for one environment: with 50 of them a rollout of 2,048 steps of each leaves three
updates in 300,000 steps, and an off-policy learner takes one gradient step for every 50 steps. These keep the amount of
data in an update, whatever the number of environments.
"""

from __future__ import annotations

from typing import Any

SHORTEST, LONGEST = 2048, 10_000
"""Bounds on the number of steps between two updates of an on-policy learner; the paper's tasks have the larger one."""
EPISODES = 25
"""Number of whole episodes between two updates, within these bounds."""
PPO_LIKE = ("PPO", "MaskablePPO", "RecurrentPPO")
TRUST_REGION = ("TRPO", "TRPOLagrangian", "CPO", "sb3_contrib.TRPO")
OFF_POLICY = ("SAC", "TD3", "DDPG", "DQN")


def default_options(
    learner: str, num_envs: int, episode_steps: int | None, n_steps: int | None = None
) -> dict[str, Any]:
    """Options of a learner, by its name (`name_of`), where the user gives none; other learners keep their own.

    Args:
        learner: its name.
        num_envs: number of environments.
        episode_steps: largest number of steps of an episode, None if it is unknown.
        n_steps: length of a rollout, if the user gives it.
    """
    rollout = SHORTEST if episode_steps is None else min(max(EPISODES * episode_steps, SHORTEST), LONGEST)
    n_steps = n_steps or max(rollout // num_envs // 8, 1) * 8
    if learner in TRUST_REGION:
        return {"n_steps": n_steps}
    if learner in PPO_LIKE:
        whole = n_steps * num_envs
        return {"n_steps": n_steps, "batch_size": whole if whole % 8 else max(whole // 8, 2), "learning_rate": 1e-3}
    if learner not in OFF_POLICY:
        return {}
    common = {
        "learning_rate": 1e-3,
        "learning_starts": 1000,
        "batch_size": 64,
        "policy_kwargs": {"net_arch": [64, 64]},
    }
    if learner == "SAC":
        return {**common, **_updates(num_envs, every=4), "ent_coef": "auto_0.02"}
    if learner == "DQN":
        horizon = 100 if episode_steps is None else min(max(episode_steps // 8, 10), 100)
        values = {"gamma": 1 - 1 / horizon, "exploration_fraction": 0.2, "target_update_interval": 200}
        return {**common, **_updates(num_envs, every=16), **values}
    slower = {"learning_rate": 3e-4, "batch_size": 256}  # at 1e-3 a deterministic policy unlearned a solved task
    return {**common, **_updates(num_envs, every=4), **slower, "action_noise": 0.3}


def _updates(num_envs: int, every: int) -> dict[str, Any]:
    """One gradient step for this many steps of all environments."""
    return {"train_freq": max(every // num_envs, 1), "gradient_steps": max(num_envs // every, 1)}
