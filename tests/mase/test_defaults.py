"""Default options of learners: the same amount of data in an update, whatever the number of environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
from gymnasium.vector import SyncVectorEnv
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise

import safexp
from safexp import MASE, Baseline, Budget, Recorded, RunConfig, Unknown
from safexp.mase.defaults import default_options
from support.line import Line


def agent_of(learner, num_envs=2, discrete=False, **options):
    envs = SyncVectorEnv([lambda: Line(discrete=discrete)] * num_envs)
    return MASE(envs, Budget(2.5), Unknown(), learner, learner_options=options or None, seed=0)


@pytest.mark.parametrize("learner", ["TRPO", "PPO", "CPO", "TRPOLagrangian", "MaskablePPO", "RecurrentPPO"])
@pytest.mark.parametrize(("episode_steps", "rollout"), [(None, 2048), (80, 2048), (200, 5000), (1000, 10_000)])
def test_a_rollout_has_some_25_episodes_of_all_environments(learner, episode_steps, rollout):
    for num_envs in (1, 8, 16, 50):
        n_steps = default_options(learner, num_envs, episode_steps)["n_steps"]
        assert rollout - 8 * num_envs < n_steps * num_envs <= rollout
    assert default_options(learner, 5000, episode_steps)["n_steps"] == 8


@pytest.mark.parametrize("learner", ["SAC", "TD3", "DDPG", "DQN"])
def test_gradient_steps_keep_their_share_of_the_steps(learner):
    shares = []
    for num_envs in (1, 4, 16, 64):
        found = default_options(learner, num_envs, 200)
        shares.append(found["gradient_steps"] / (found["train_freq"] * num_envs))
    assert len(set(shares)) == 1


def test_dqn_looks_ahead_by_an_eighth_of_an_episode():
    assert [default_options("DQN", 1, steps)["gamma"] for steps in (20, 80, 400, 9000, None)] == pytest.approx(
        [0.9, 0.9, 0.98, 0.99, 0.99]
    )


def test_options_of_the_user_come_first_and_batches_divide_the_rollout():
    options = agent_of(PPO, n_steps=12, gamma=0.9).learner_options
    assert options == {"n_steps": 12, "batch_size": 3, "learning_rate": 1e-3, "gamma": 0.9}
    assert agent_of(PPO, num_envs=3, n_steps=5).learner.batch_size == 15
    assert agent_of(PPO, n_steps=12, batch_size=6).learner.batch_size == 6
    assert agent_of(A2C).learner_options == {}
    assert agent_of(sb3_contrib.TRPO).learner.n_steps == agent_of(safexp.TRPO).learner.n_steps == 1024


def test_a_number_is_gaussian_noise():
    noise = agent_of(TD3).learner.action_noise
    assert isinstance(noise, NormalActionNoise)
    assert "sigma=[0.3]" in repr(noise)
    assert agent_of(TD3, action_noise=0).learner.action_noise is None


@pytest.mark.parametrize("learner", [PPO, safexp.TRPO, SAC, TD3, DQN])
def test_python_the_command_line_and_baselines_have_the_same(learner):
    kind = "Discrete" if learner is DQN else ""
    task = f"safexp/PlanarRobot{kind}-v0"
    envs = gym.make_vec(task, num_envs=16)
    shielded = MASE(envs, Budget(3.0), Unknown(), learner).learner_options
    recorded = Recorded(safexp.as_vec_env(gym.make_vec(task, num_envs=16)), Budget(3.0))
    assert shielded == Baseline(recorded, learner).learner_options
    assert shielded == RunConfig(task=task, learner=learner.__name__, num_envs=16).settled().learner_options


def test_a_single_environment_tells_the_length_of_its_episodes():
    one = MASE(gym.make("CartPole-v1"), Budget(3.0, cost=no_cost), Unknown(), safexp.TRPO)
    assert one.learner.n_steps == 10_000  # 25 episodes of 500 steps, at most


def no_cost(observations, actions, following):
    return np.zeros(len(observations))


def test_a_file_keeps_the_form_of_the_policy(tmp_path):
    agent = agent_of(SAC)
    agent.save(tmp_path / "agent.safexp")
    again = MASE.load(tmp_path / "agent.safexp")
    for name, part in agent.learner.policy.state_dict().items():
        np.testing.assert_array_equal(part, again.learner.policy.state_dict()[name])
    plain = agent_of(SAC, policy_kwargs=None)  # Stable-Baselines3's own networks
    plain.save(tmp_path / "plain.safexp")
    assert "256" in str(MASE.load(tmp_path / "plain.safexp").learner.policy)
