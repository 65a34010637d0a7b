"""Action and observation spaces of every kind, under MASE and wrap, with costs counted inside the environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, Budget, Instantaneous, Known, Log, Shield, Unknown, wrap
from safexp.core.encoding import decode_actions, encode_actions

VALVES = spaces.MultiDiscrete([3, 2], start=[-1, 4])
SWITCHES = spaces.MultiBinary(3)
SHIFTED = spaces.Discrete(4, start=-2)


class Switchboard(gym.Env[Any, Any]):
    """The cost of an action is the sum of its entries, each as its distance from the first of its choices, over 4."""

    def __init__(self, action_space: spaces.Space[Any], tuples: bool = False) -> None:
        self.action_space = action_space
        box = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space: Any = spaces.Tuple((box, spaces.Discrete(3))) if tuples else box
        self.tuples = tuples
        self.executed: list[Any] = []
        self.worst = 0.0

    def observe(self) -> Any:
        place = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return (place, self.steps % 3) if self.tuples else place

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.steps += 1
        self.executed.append(action)
        cost = float(np.sum(action - least(self.action_space))) / 4
        self.worst = max(self.worst, cost)
        return self.observe(), cost, False, self.steps == 9, {"cost": cost}


def least(space: Any) -> Any:
    return getattr(space, "start", 0)


def known(space: Any) -> Known:
    def cost(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        decoded = decode_actions(space, actions).reshape(len(actions), -1)
        return (decoded - np.ravel(least(space))).sum(axis=1) / 4

    return Known(cost)


@pytest.mark.parametrize("space", [VALVES, SWITCHES, SHIFTED], ids=lambda space: type(space).__name__)
def test_a_limit_on_every_step_is_kept_and_everything_below_it_is_used(space):
    envs = SyncVectorEnv([lambda: Switchboard(space)] * 2)
    options = {"n_steps": 32, "n_epochs": 1}
    agent = MASE(envs, Instantaneous(0.5), known(space), PPO, learner_options=options, seed=0).learn(128)
    assert agent.violations == 0
    assert max(env.worst for env in envs.envs) == 0.5
    assert sum(episode.interventions for episode in agent.episodes) > 0
    decision = agent.predict(np.zeros(2, np.float32))
    assert space.contains(decision.action)


@pytest.mark.parametrize("space", [VALVES, SWITCHES, SHIFTED], ids=lambda space: type(space).__name__)
def test_replacements_change_as_few_entries_as_possible(space):
    shield = Shield(known(space), spaces.Box(-1.0, 1.0, (2,)), space)
    for _ in range(50):
        action = space.sample()
        cost = np.sum(action - least(space)) / 4
        decision = shield.filter(np.zeros(2), action, threshold=0.5)
        assert decision.intervened == (cost > 0.5)
        assert np.sum(decision.action - least(space)) / 4 <= 0.5
        if cost <= 0.5:
            np.testing.assert_array_equal(decision.action, action)
        elif space is not SHIFTED:
            assert np.sum(decision.action != action) == 1


@pytest.mark.parametrize("space", [VALVES, SWITCHES, SHIFTED], ids=lambda space: type(space).__name__)
def test_a_foreign_loop_sees_the_space_as_it_is(space):
    envs = SyncVectorEnv([lambda: Switchboard(space)] * 2)
    wrapped = wrap(envs, Instantaneous(0.5), known(space))
    assert wrapped.single_action_space == space
    wrapped.reset(seed=0)
    wrapped.action_space.seed(0)
    for _ in range(40):
        *_, infos = wrapped.step(wrapped.action_space.sample())
        assert space.contains(infos["shield"]["action"][0])
    assert wrapped.violations == 0 and max(env.worst for env in envs.envs) == 0.5
    number = {spaces.MultiDiscrete: 6, spaces.MultiBinary: 8, spaces.Discrete: 4}[type(space)]
    assert wrapped.action_masks().shape == (2, number)
    with pytest.raises(ValueError, match="has no mask of its actions; finite spaces have"):
        wrap(Switchboard(spaces.Box(0.0, 1.0, (2,))), Budget(3.0), Unknown()).action_masks()


def test_learners_number_shifted_actions_from_zero():
    envs = SyncVectorEnv([lambda: Switchboard(SHIFTED)] * 2)
    options = {"learning_starts": 8, "buffer_size": 200}
    agent = MASE(envs, Instantaneous(0.5), known(SHIFTED), DQN, learner_options=options, seed=0).learn(64)
    assert agent.learner.action_space == spaces.Discrete(4)
    stored = agent.learner.replay_buffer.actions[:30]
    assert set(np.unique(stored)) <= {0, 1, 2}  # what was executed
    assert set(np.unique(envs.envs[0].executed)) <= {-2, -1, 0}
    masked = MASE(
        Switchboard(SHIFTED), Instantaneous(0.5), known(SHIFTED), MaskablePPO, learner_options={"n_steps": 32}
    )
    masked.learn(32)
    assert sum(episode.interventions for episode in masked.episodes) == 0


def test_a_log_has_the_actions_of_the_space_and_a_file_keeps_it(tmp_path):
    log = Log(np.zeros((6, 2)), np.array([[i, j] for i in (-1, 0, 1) for j in (4, 5)]), np.arange(6) / 10)
    assert encode_actions(VALVES, log.actions).shape == (6, 5)
    agent = MASE(
        Switchboard(VALVES), Budget(3.0), known(VALVES), PPO, seed_data=log, learner_options={"n_steps": 16}, seed=0
    )
    agent.save(tmp_path / "agent.safexp")
    again = MASE.load(tmp_path / "agent.safexp", quantifier=known(VALVES))
    assert again.shield.action_space == VALVES
    start = np.zeros(2, np.float32)
    np.testing.assert_array_equal(again.predict(start, 3.0).action, agent.predict(start, 3.0).action)


@pytest.mark.parametrize("vector", [False, True])
def test_tuple_observations_become_numbered_parts(vector):
    env: Any = Switchboard(SHIFTED, tuples=True)
    if vector:
        copies = [lambda: Switchboard(SHIFTED, tuples=True)] * 2
        env = SyncVectorEnv(copies, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = MASE(env, Budget(3.0), Unknown(), PPO, learner_options={"n_steps": 32, "n_epochs": 1}, seed=0).learn(64)
    assert agent.episodes and agent.violations == 0
    assert set(agent.learner.observation_space.spaces) == {"0", "1", "threshold"}
    seen = (np.zeros(2, np.float32), 1)
    assert SHIFTED.contains(agent.predict(seen, threshold=3.0).action)
    states = agent.shield.states((np.zeros((3, 2)), np.array([0, 1, 2])))
    assert states[:, 2:].tolist() == np.eye(3).tolist()


def test_a_recurrent_policy_learns_behind_the_shield():
    options = {"policy": "MultiInputLstmPolicy", "n_steps": 32, "n_epochs": 1, "batch_size": 32}
    env = Switchboard(VALVES, tuples=True)
    agent = MASE(env, Instantaneous(0.5), known(VALVES), RecurrentPPO, learner_options=options, seed=0).learn(64)
    assert agent.violations == 0 and env.worst <= 0.5
    seen = (np.zeros(2, np.float32), 1)
    first = agent.predict(seen, episode_start=True)
    assert VALVES.contains(agent.predict(seen, state=first.state).action)


def test_what_is_refused_says_what_to_do():
    many = Switchboard(spaces.MultiDiscrete([10] * 4))
    with pytest.raises(ValueError, match=r"has 10,000 actions, .* at most 4,096 are supported: decide fewer"):
        MASE(many, Budget(3.0), Unknown(), PPO)
    nested = Switchboard(SWITCHES)
    nested.observation_space = spaces.Tuple((spaces.Dict({"a": spaces.Discrete(2)}),))
    with pytest.raises(ValueError, match="a Dict within a Tuple, which learners cannot see: flatten it"):
        MASE(nested, Budget(3.0), Unknown(), PPO)
    text = Switchboard(spaces.Text(3))
    with pytest.raises(ValueError, match="use a bounded float Box, Discrete, MultiDiscrete or MultiBinary"):
        MASE(text, Budget(3.0), Unknown(), PPO)
    venv = DummyVecEnv([lambda: Switchboard(SWITCHES)])
    venv.observation_space = spaces.Tuple((spaces.Discrete(2),))
    with pytest.raises(ValueError, match="a VecEnv cannot have Tuple observations"):
        MASE(venv, Budget(3.0), Unknown(), PPO)
    shield = Shield(known(VALVES), spaces.Box(-1.0, 1.0, (2,)), VALVES)
    with pytest.raises(ValueError, match="are not all indices of 3 choices"):
        shield.filter(np.zeros(2), [5, 4], threshold=0.5)
