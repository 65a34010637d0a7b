"""The certified action that the learner's critic prefers."""

from __future__ import annotations

import numpy as np
import pytest
import torch as th
from stable_baselines3 import PPO, SAC, TD3

from safexp import MASE, Budget, Instantaneous, Known, Unknown
from support.line import Line

OPTIONS = {"learning_starts": 10, "batch_size": 16, "buffer_size": 500}


def known(states, actions):
    return np.abs(actions[:, 0])


def cost(observations, actions, following):
    return np.abs(actions[:, 0])


def agent_of(learner, replacement):
    constraint = Instantaneous(0.5, cost=cost)
    return MASE(Line(), constraint, Known(known), learner, learner_options=OPTIONS, seed=0, replacement=replacement)


@pytest.mark.parametrize("learner", [SAC, TD3])
def test_a_refused_proposal_becomes_the_candidate_with_the_highest_value(learner):
    agent = agent_of(learner, "critic")
    agent.learn(60)
    observations = agent.guard.observations
    candidates = agent.shield.outlook(agent.guard.raw(observations), np.array([0.5])).candidates
    scores = agent.guard.preferences(observations, candidates)
    state, _ = agent.learner.policy.obs_to_tensor(observations)
    for k, action in enumerate(candidates[0]):
        values = agent.learner.critic(state, th.as_tensor(action[None], dtype=th.float32))
        assert scores[0, k] == pytest.approx(min(value.item() for value in values), abs=1e-5)
    certified = np.abs(candidates[0, :, 0]) <= 0.5
    best = candidates[0, np.where(certified, scores[0], -np.inf).argmax()]
    ask = {"preferences": lambda rows, offered: agent.guard.preferences(observations[rows], offered)}
    decision = agent.shield.filter(observations[0], np.array([0.9], np.float32), 0.5, **ask)
    np.testing.assert_allclose(decision.action, best, atol=1e-6)
    assert agent.violations == 0


def test_the_nearest_is_the_default_and_a_critic_is_required():
    agent = agent_of(SAC, "nearest")
    assert agent.guard.preferences is None
    with pytest.raises(
        ValueError, match=r"replacement='critic' needs a learner with values of actions .* PPO does not"
    ):
        MASE(Line(), Budget(3.0), Unknown(), PPO, replacement="critic")
    with pytest.raises(ValueError, match="replacement='best' is not one of nearest, critic"):
        MASE(Line(), Budget(3.0), Unknown(), PPO, replacement="best")


def test_a_rule_of_ones_own_chooses_among_the_certified():
    """Of the certified actions, which are those of at most 0.5, the smallest replaces a refused one."""
    agent = agent_of(SAC, lambda observations, candidates: -candidates[..., 0])
    env = agent.guard
    env.reset()
    _, _, _, infos = env.step(np.array([[0.9]], np.float32))
    executed = agent.guard.venv.get_attr("executed")[0][-1]
    assert executed == pytest.approx(-0.5, abs=0.05)
    assert infos[0]["cost"] <= 0.5
