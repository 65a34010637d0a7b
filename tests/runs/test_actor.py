"""Recurrent policies: what they remember is carried from step to step, wherever an agent is put to use."""

from __future__ import annotations

import itertools
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import RecurrentPPO

import safexp
from safexp import Budget, Instantaneous, Shield, ShieldedPolicy, Unknown
from safexp.audit.audit import WIDTH, audit, replay
from safexp.runs import evaluate as evaluation
from safexp.runs.config import RunConfig
from safexp.runs.play import Player
from safexp.runs.run import run

OPTIONS = {
    "policy": "MlpLstmPolicy",
    "n_steps": 16,
    "batch_size": 32,
    "n_epochs": 1,
    "policy_kwargs": {"net_arch": [8], "lstm_hidden_size": 8},
}
WAY = np.linspace([-1.0, 0.0, 0.2, 0.0], [1.0, 0.5, 0.0, 0.4], 6)


@pytest.fixture(scope="module")
def agent():
    envs = gym.make_vec("safexp/PlanarRobot-v0", num_envs=2)
    return safexp.MASE(envs, Instantaneous(1.0), Unknown(), RecurrentPPO, learner_options=OPTIONS, seed=0).learn(64)


def carried(learner, observations):
    """The actions of an episode as Stable-Baselines3 says to ask for them."""
    state, actions = None, []
    for step, observation in enumerate(observations):
        action, state = learner.predict(observation, state, np.array([step == 0]), deterministic=True)
        actions.append(action)
    return np.array(actions)


def forgotten(learner, observations):
    return np.array([learner.predict(observation, deterministic=True)[0] for observation in observations])


def test_memory_matters_here(agent):
    assert np.abs(carried(agent.learner, WAY) - forgotten(agent.learner, WAY))[1:].max(axis=1).min() > 1e-4


@pytest.mark.parametrize("name", ["predict", "propose"])
def test_an_agent_gets_back_what_it_remembers(agent, name):
    state, actions = None, []
    for step, observation in enumerate(WAY):
        answer = getattr(agent, name)(observation, state=state, episode_start=step == 0)
        action, state = (answer.action, answer.state) if name == "predict" else answer
        actions.append(action)
    np.testing.assert_array_equal(actions, carried(agent.learner, WAY))
    again = getattr(agent, name)(WAY[0], state=state, episode_start=np.array([True]))
    np.testing.assert_array_equal(again[0], actions[0])  # what it remembered is of another episode


@pytest.mark.parametrize("name", ["predict", "propose"])
def test_an_agent_that_would_forget_says_so(agent, name):
    with pytest.raises(
        ValueError, match=r"RecurrentPPO has a memory .*: give episode_start=True .* and state=<the state"
    ):
        getattr(agent, name)(WAY[0])


def test_a_loaded_agent_remembers_too(agent, tmp_path):
    agent.save(tmp_path / "agent.safexp")
    loaded = safexp.MASE.load(tmp_path / "agent.safexp")
    np.testing.assert_array_equal(carried(loaded.learner, WAY), carried(agent.learner, WAY))


@pytest.mark.parametrize("deadline", [None, 60.0])
@pytest.mark.parametrize("policy", ["model", "agent"])
def test_a_deployed_policy_remembers_within_an_episode(agent, policy, deadline):
    asked = agent.learner if policy == "model" else agent.propose
    around = ShieldedPolicy(asked, agent.shield, agent.constraint, np.zeros(2), deadline=deadline)
    for _ in range(2):
        around.reset(WAY[0])
        answers = [around.act(observation) for observation in WAY]
        assert {answer.outcome for answer in answers} == {"proposal"}
        np.testing.assert_array_equal([answer.action for answer in answers], carried(agent.learner, WAY))
    around.close()


STATES, ACTIONS = spaces.Box(-1.0, 1.0, (1,), np.float64), spaces.Box(-100.0, 100.0, (1,), np.float64)


class Counting:
    """Its action is the number of its step in the episode; the first time it waits at a gate."""

    def __init__(self):
        self.gate, self.calls = threading.Event(), itertools.count()

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        if next(self.calls) == 0:
            assert self.gate.wait(60)
        number = 1 if episode_start[0] else state + 1
        return np.array([float(number)]), number


@pytest.mark.parametrize(("new_episode", "following"), [(True, [1.0, 2.0]), (False, [2.0, 3.0])])
def test_a_late_answer_is_remembered_in_its_own_episode_alone(new_episode, following):
    policy, here = Counting(), np.zeros(1)
    around = ShieldedPolicy(policy, Shield(Unknown(), STATES, ACTIONS), Budget(100.0), [0.0], deadline=0.05)
    around.reset(here)
    assert around.act(here).outcome == "late"
    if new_episode:
        around.reset(here)
    policy.gate.set()
    around.deadline = 60.0
    assert [around.act(here).action[0] for _ in range(2)] == following
    around.close()


def test_a_policy_that_fails_remembers_what_it_did_before():
    class Failing(Counting):
        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            if observation[0] < 0:
                raise ZeroDivisionError
            return super().predict(observation, state, episode_start, deterministic)

    policy = Failing()
    policy.gate.set()
    around = ShieldedPolicy(policy, Shield(Unknown(), STATES, ACTIONS), Budget(100.0), [-1.0])
    around.reset(np.zeros(1))
    assert [around.act(np.array([place])).action[0] for place in (0.0, -0.5, 0.0)] == [1.0, -1.0, 2.0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("recurrent") / "run"
    return run(RunConfig(out=out, learner="RecurrentPPO", learner_options=OPTIONS, num_envs=2, steps=64, limit=1.5))


class Spy:
    """Notes how a learner is asked, step by step."""

    def __init__(self, learner):
        self.states, self.starts, self.returned = [], [], []
        self._predict = learner.predict
        learner.predict = self

    def __call__(self, observation, state=None, episode_start=None, deterministic=False):
        action, following = self._predict(observation, state, episode_start, deterministic)
        self.states.append(state)
        self.starts.append(episode_start)
        self.returned.append(following)
        return action, following

    def check(self):
        assert self.states[0] is None
        assert self.starts[0].all()
        assert all(given is before for given, before in zip(self.states[1:], self.returned[:-1], strict=True))


@pytest.mark.slow
def test_a_played_agent_remembers(folder):
    player = Player.load(folder)
    spy = Spy(player.agent.learner)
    lengths = [moment.outcome.length for moment in player.play(2) if moment.outcome]
    spy.check()
    first = np.cumsum([0, *lengths])[:2]
    assert np.flatnonzero(np.concatenate(spy.starts)).tolist() == first.tolist()


def test_an_evaluated_agent_remembers(folder):
    subject = evaluation.load_subject(folder, 3)
    spy = Spy(subject.agent.learner)
    episodes = evaluation.first_episodes(subject, seed=5)
    subject.envs.close()
    spy.check()
    for row, episode in enumerate(episodes):
        starts = np.array([one[row] for one in spy.starts])
        assert np.flatnonzero(starts)[:2].tolist()[1:] in ([], [episode.length])


def test_an_audited_agent_remembers_and_its_episodes_can_be_played_again(folder):
    found = audit(folder, 20, 3 * WIDTH)
    worst = found.worst[0]
    again = replay(folder, worst.seed).episode
    unnumbered = {"episode": 0, "end_step": 0}
    assert again._replace(**unnumbered) == worst.episode._replace(**unnumbered)
    bare = audit(folder, 20, 3 * WIDTH, shielded=False)
    assert bare.latency.decisions > 0
