"""Every kind of learner solves the small task under MASE without one violation; alone, it violates."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib import TRPO
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise, VectorizedActionNoise

import safexp
from safexp.tasks import planar_robot

OFF_POLICY = {
    "learning_starts": 1000,
    "learning_rate": 1e-3,
    "batch_size": 64,
    "policy_kwargs": {"net_arch": [64, 64]},
}
NOISE = VectorizedActionNoise(NormalActionNoise(np.zeros(2), np.full(2, 0.3)), 8)
CASES = {
    "PPO": (PPO, "", 16, 40_000, {"n_steps": 128, "batch_size": 256, "learning_rate": 1e-3}),
    "TRPO": (TRPO, "", 16, 40_000, {"n_steps": 128, "batch_size": 256}),
    "SAC": (SAC, "", 8, 14_000, {**OFF_POLICY, "gradient_steps": 2, "ent_coef": 0.02}),
    "TD3": (TD3, "", 8, 14_000, {**OFF_POLICY, "gradient_steps": 2, "action_noise": NOISE}),
    "DQN": (
        DQN,
        "Discrete",
        8,
        24_000,
        {**OFF_POLICY, "gradient_steps": 4, "gamma": 0.9, "exploration_fraction": 0.5, "target_update_interval": 200},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_learns_with_zero_violations_where_the_bare_learner_violates(name):
    learner, kind, num_envs, steps, options = CASES[name]

    def train(steps, **more):
        env = gym.make_vec(f"safexp/PlanarRobot{kind}-v0", num_envs=num_envs)
        agent = safexp.MASE(
            env,
            safexp.Budget(3.0),
            safexp.Unknown(),
            learner,
            learner_options=options,
            penalty=safexp.Penalty(0.3),
            seed=0,
            **more,
        )
        return agent.learn(steps)

    agent = train(steps)
    late = agent.episodes[-50:]
    assert not any(episode.violated for episode in agent.episodes)
    assert agent.violations == 0
    assert np.mean([episode.true_return for episode in late]) > 2.6  # at best 2.83
    assert np.mean([episode.stopped for episode in late]) < 0.1

    bare = train(3_000, shielding=False, show_threshold=False)
    assert np.mean([episode.violated for episode in bare.episodes]) > 0.2


@pytest.mark.slow
def test_an_instantaneous_limit_is_kept_where_the_shield_intervenes():
    env = gym.make_vec("safexp/PlanarRobot-v0", num_envs=16)
    known = safexp.Known(planar_robot.cost_of)
    agent = safexp.MASE(env, safexp.Instantaneous(0.3), known, PPO, learner_options=CASES["PPO"][4], seed=0).learn(
        20_000
    )
    assert not any(episode.violated for episode in agent.episodes)
    assert max(episode.max_step_cost for episode in agent.episodes) <= 0.3 + 1e-9
    assert sum(episode.interventions for episode in agent.episodes) > 0
    assert np.mean([episode.true_return for episode in agent.episodes[-50:]]) > 2.6
