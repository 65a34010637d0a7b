"""A policy that begins with the behaviour of a log."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC, TD3

from safexp import MASE, TRPO, Budget, ExactGP, Instantaneous, Log, Unknown
from support.line import Line

RNG = np.random.default_rng(0)
STATES = RNG.uniform(-9.0, 9.0, (600, 1)).astype(np.float32)


def log_of(discrete=False):
    actions = (STATES[:, 0] > 0).astype(np.int64) if discrete else np.where(STATES > 0, 0.5, -0.25).astype(np.float32)
    return Log(STATES, actions, np.zeros(600))


def agent_of(learner, constraint=None, discrete=False, **options):
    model = ExactGP(lengthscale=[9.0, 9.0, 9.0, 9.0][: 4 if discrete else 2], norm_bound=1.0, capacity=50)
    return MASE(
        Line(discrete=discrete),
        constraint or Instantaneous(0.9),
        model,
        learner,
        **{"seed_data": log_of(discrete), "seed": 0, "warm_start": True, **options},
    )


@pytest.mark.slow
@pytest.mark.parametrize("learner", [PPO, TRPO, SAC, TD3])
def test_the_policy_begins_like_the_log(learner):
    agent = agent_of(learner)
    for state, action in [(6.0, 0.5), (-6.0, -0.25)]:
        proposal, _ = agent.propose(np.array([state]), 0.9)
        assert proposal[0] == pytest.approx(action, abs=0.1)
    if learner is TD3:
        tensor, _ = agent.learner.policy.obs_to_tensor(np.array([[6.0]], np.float32))
        assert agent.learner.actor_target(tensor).item() == agent.learner.actor(tensor).item()


@pytest.mark.slow
def test_discrete_actions_and_a_threshold_in_the_observation():
    agent = agent_of(PPO, discrete=True)
    assert [int(agent.propose(np.array([state]))[0]) for state in (6.0, -6.0)] == [1, 0]
    budget = agent_of(PPO, Budget(2.0))
    assert budget.guard.observation_space.shape == (2,)
    assert budget.propose(np.array([6.0]), 2.0)[0][0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_policy():
    first, second = (agent_of(PPO).learner.policy.state_dict() for _ in range(2))
    assert all((first[name] == second[name]).all() for name in first)


def test_what_cannot_be_cloned_is_named():
    with pytest.raises(ValueError, match="warm_start: DQN has action values and no policy to clone; leave warm_start"):
        agent_of(DQN, discrete=True)
    with pytest.raises(ValueError, match="warm_start needs a feed-forward actor-critic policy"):
        agent_of(PPO, learner_options={"use_sde": True})
    with pytest.raises(ValueError, match=r"warm_start=True imitates the actions of a log: give seed_data=\.\.\., or"):
        MASE(Line(), Budget(3.0), Unknown(), PPO, warm_start=True)


def test_a_gaussian_policy_takes_over_the_spread_of_the_log():
    noisy = log_of()
    actions = noisy.actions + 0.05 * np.random.default_rng(1).standard_normal(noisy.actions.shape).astype(np.float32)
    agent = agent_of(PPO, seed_data=Log(STATES, actions, np.zeros(600)))
    spread = float(agent.learner.policy.log_std.detach().exp())
    assert 0.04 < spread < 0.15


def test_the_spread_is_at_least_a_twentieth_of_the_range():
    agent = agent_of(PPO)
    low, high = agent.envs.action_space.low, agent.envs.action_space.high
    assert float(agent.learner.policy.log_std.detach().exp()) == pytest.approx(0.05 * float(high[0] - low[0]), rel=1e-4)


def test_a_given_spread_is_kept():
    agent = agent_of(PPO, learner_options={"policy_kwargs": {"log_std_init": -0.7}})
    assert float(agent.learner.policy.log_std.detach()) == pytest.approx(-0.7)
