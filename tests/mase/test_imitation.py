"""Learning from the shield: which steps are imitated, what they change, and for which learners."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO, SAC

from safexp import MASE, TRPO, Backup, Budget, Instantaneous, Known, Unknown
from support.line import Line

LIMIT = 0.2


def push_cost(states, actions):
    """The cost of a push is its strength."""
    return np.abs(actions[:, 0])


def strong(observations, actions, following):
    return np.abs(actions[:, 0])


def agent_of(learner=PPO, imitation=0.05, backup=None, **options):
    rollout = {"n_steps": 32, **({"batch_size": 32} if learner is PPO else {}), **options}
    constraint = Instantaneous(LIMIT, cost=strong)
    return MASE(
        Line(),
        constraint,
        Known(push_cost),
        learner,
        learner_options=rollout,
        penalty=None,
        seed=0,
        imitation=imitation,
        backup=backup,
    )


def test_replaced_proposals_are_told_and_drills_are_not():
    agent = agent_of(backup=Backup(lambda observations: np.zeros((len(observations), 1)), horizon=3, drills=0.5))
    told, infos = [], []
    agent.guard.pupil = lambda *step: told.append([np.copy(part) for part in step])
    observations = agent.guard.reset()
    for k in range(200):
        before, action = observations, np.array([[0.9 if k % 2 else 0.1]])
        observations, _, _, info = agent.guard.step(action)
        infos.append(info[0]["shield"])
        np.testing.assert_array_equal(told[-1][0], before)
        np.testing.assert_array_equal(told[-1][1], action)
        np.testing.assert_array_equal(told[-1][2][0], infos[-1]["action"])
    replaced = [bool(step[3][0]) for step in told]
    assert replaced == [info["intervened"] or info["takeover"] for info in infos]
    assert any(replaced)
    assert any(info["drill"] for info in infos)
    assert not any(flag and info["drill"] for flag, info in zip(replaced, infos, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("learner", [PPO, A2C, TRPO])
def test_the_policy_learns_to_propose_what_is_certified(learner):
    def excess(states, actions):
        return np.maximum(actions[:, 0] + 0.5, 0.0) / 1.5  # pushes of -0.5 and below are free

    constraint = Instantaneous(0.0, cost=lambda observations, actions, following: excess(observations, actions))
    rollout = {"n_steps": 32, "policy_kwargs": {"log_std_init": -2.0}} | ({"batch_size": 32} if learner is PPO else {})
    proposals, certified = {}, {}
    for imitation in (0.0, 0.05):
        agent = MASE(Line(), constraint, Known(excess), learner, learner_options=rollout, seed=0, imitation=imitation)
        agent.learn(960)
        proposals[imitation] = agent.propose(np.zeros(1))[0][0]
        certified[imitation] = agent.metrics()["proposals_certified"] / agent.metrics()["proposals"]
        assert agent.violations == 0
    assert proposals[0.05] < -0.5 < proposals[0.0]
    assert certified[0.05] > certified[0.0] + 0.3
    assert 0 <= agent.metrics()["imitation_kl"] <= 0.05


def test_a_copy_and_an_agent_in_use_leave_the_policy_alone():
    agent = agent_of().learn(64)
    twin = copy.deepcopy(agent)
    assert twin.guard.pupil.__self__ is twin.imitation
    assert twin.imitation.actor.policy is twin.learner.policy
    agent.evaluate()
    assert agent.guard.pupil is None


@pytest.mark.parametrize(
    ("learner", "options", "message"),
    [
        (SAC, {}, "imitation=0.01: SAC learns from the executed actions anyway; leave it out"),
        (
            RecurrentPPO,
            {"policy": "MlpLstmPolicy"},
            "imitation needs a feed-forward actor-critic policy without use_sde",
        ),
        (PPO, {"use_sde": True}, "which PPO's ActorCriticPolicy is not: leave imitation out, or use PPO, A2C or TRPO"),
    ],
)
def test_learners_without_such_a_policy_are_named(learner, options, message):
    with pytest.raises(ValueError, match=message):
        MASE(Line(), Budget(3.0), Unknown(), learner, learner_options=options, imitation=0.01)


def test_wrong_values_and_masked_policies_are_named():
    with pytest.raises(ValueError, match=r"imitation=-1 must be a KL divergence above 0, such as 0.01, or 0 for none"):
        agent_of(imitation=-1)
    with pytest.raises(ValueError, match="which MaskablePPO's MaskableActorCriticPolicy is not"):
        MASE(Line(discrete=True), Budget(3.0), Unknown(), MaskablePPO, imitation=0.01)
