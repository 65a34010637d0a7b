"""Agents that go on learning where they were: optimisers, replay buffer and policies of other models."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium.vector import SyncVectorEnv
from stable_baselines3 import DQN, PPO, SAC

import safexp
from safexp import MASE, Budget, CheckpointError, Unknown
from support.line import Line

SMALL = {"learning_starts": 10, "buffer_size": 60, "policy_kwargs": {"net_arch": [8]}}


def lines(num_envs=2, **options):
    return SyncVectorEnv([lambda: Line(**options)] * num_envs)


@pytest.mark.parametrize("learner", [SAC, DQN, PPO, safexp.TRPO])
def test_optimisers_and_replay_buffer_are_as_they_were(learner, tmp_path):
    discrete = learner is DQN
    options = SMALL if learner in (SAC, DQN) else {"n_steps": 16}
    agent = MASE(lines(discrete=discrete), Budget(2.5), Unknown(), learner, learner_options=options, seed=0).learn(96)
    agent.save(tmp_path / "agent.safexp", training=True)
    envs = lines(discrete=discrete)
    again = MASE.load(tmp_path / "agent.safexp", envs, learner_options=options)
    assert again.learner.num_timesteps == agent.learner.num_timesteps == 96
    for name in agent.learner._get_torch_save_params()[0]:  # noqa: SLF001 (Stable-Baselines3's own list)
        ours, theirs = agent.learner, again.learner
        for part in name.split("."):
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        if isinstance(ours, th.optim.Optimizer):
            before, after = ours.state_dict()["state"], theirs.state_dict()["state"]
            assert before.keys() == after.keys() and before
            for index, state in before.items():
                assert all(th.equal(value, after[index][key]) for key, value in state.items())
    if learner in (SAC, DQN):
        old, new = agent.learner.replay_buffer, again.learner.replay_buffer
        assert (old.pos, old.full) == (new.pos, new.full)
        np.testing.assert_array_equal(old.observations, new.observations)
        np.testing.assert_array_equal(old.history.stopped, new.history.stopped)
        assert new.history.stopped.any()
    again.learn(32)
    assert again.learner.num_timesteps >= 128


def test_without_asking_a_file_is_small_and_learning_starts_anew(tmp_path):
    agent = MASE(lines(), Budget(2.5), Unknown(), SAC, learner_options=SMALL, seed=0).learn(96)
    agent.save(tmp_path / "small.safexp")
    agent.save(tmp_path / "whole.safexp", training=True)
    assert (tmp_path / "small.safexp").stat().st_size < (tmp_path / "whole.safexp").stat().st_size
    fresh = MASE.load(tmp_path / "small.safexp", lines(), learner_options=SMALL)
    assert fresh.learner.num_timesteps == 0 and fresh.learner.replay_buffer.size() == 0
    assert MASE.load(tmp_path / "whole.safexp").learner.replay_buffer.size() == 0  # without environments
    with pytest.raises(CheckpointError, match="give as many environments as in training, and learner_options="):
        MASE.load(tmp_path / "whole.safexp", lines(3), learner_options=SMALL)


@pytest.mark.parametrize("learner", [PPO, SAC, safexp.TRPO])
def test_a_model_of_stable_baselines3_goes_on_behind_the_shield(learner):
    options = {SAC: {"learning_starts": 10}, PPO: {"n_steps": 32, "batch_size": 32}}.get(learner, {"n_steps": 32})
    model = learner("MlpPolicy", gym.make("safexp/PlanarRobot-v0"), seed=1, **options)
    model.learn(32)
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    agent = MASE(envs, Budget(3.0), Unknown(), learner, learner_options=options, start_from=model, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        observation = rng.uniform(-1, 1, 4)
        expected, _ = model.predict(observation, deterministic=True)
        for threshold in (1.0, 3.0):  # it has not learned to use it yet
            np.testing.assert_allclose(agent.propose(observation, threshold)[0], expected, atol=1e-6)
    if learner is SAC:
        seen = th.as_tensor(np.append(rng.uniform(-1, 1, 4), 0.7)[None], dtype=th.float32)
        action = th.zeros(1, 2)
        assert th.allclose(agent.learner.critic(seen, action)[0], model.critic(seen[:, :4], action)[0], atol=1e-6)
    assert agent.learn(64).violations == 0


def test_models_that_do_not_fit_are_refused():
    model = PPO("MlpPolicy", gym.make("safexp/PlanarRobot-v0"), n_steps=64)
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    with pytest.raises(TypeError, match=r"start_from=PPO: expected a model of SAC, such as SAC\.load\(path\)"):
        MASE(envs, Budget(3.0), Unknown(), SAC, start_from=model)
    other = {"policy_kwargs": {"net_arch": [7]}}
    with pytest.raises(ValueError, match=r"start_from: .* has the shape .*: the model must have been trained on"):
        MASE(envs, Budget(3.0), Unknown(), PPO, learner_options=other, start_from=model)
