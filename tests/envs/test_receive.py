"""A step that raises stays on the record: counted by ledgers inside the environments, which share nothing with it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from safexp import MASE, AllOf, Budget, Instantaneous, Known, Margin, PerCost, StateVisits, Unknown
from safexp.envs.receive import receive
from safexp.envs.recording import Recorded
from safexp.records.episodes import Drivers, Recorder
from support.line import Line, line_cost

LIMIT = 0.3
FAULTY_STEP = 4


class Ledger(Line):
    """A line that keeps its own account of every episode, and whose fault comes at one step of some episodes."""

    def __init__(self, fault=None, faulty_episodes=()):
        super().__init__(horizon=6)
        self.fault, self.faulty_episodes = fault, faulty_episodes
        self.costs: list[list[float]] = []

    def reset(self, **options):
        self.costs.append([])
        return super().reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.costs[-1].append(info["cost"])
        if self.steps == FAULTY_STEP and len(self.costs) - 1 in self.faulty_episodes:
            self.faulty_episodes = tuple(e for e in self.faulty_episodes if e != len(self.costs) - 1)
            observation, info = self.fail(observation, info)
        return observation, reward, terminated, truncated, info

    def fail(self, observation, info):
        match self.fault:
            case "raises":
                raise OSError("the simulator does not answer")
            case "interrupted":
                raise KeyboardInterrupt
            case "no cost":
                return observation, {}
            case "NaN observation":
                return observation * np.nan, info
            case "text":
                return observation, info | {"cost": "high"}
            case float(cost):
                return observation, info | {"cost": cost}
            case None:
                return observation, info

    def broken(self, judge):
        return sum(judge(costs) for costs in self.costs if costs)


FAULTS = [np.nan, np.inf, -1.0, 7.0, "text", "no cost", "raises", "interrupted", "NaN observation"]


def wrong(states, actions):
    """A quantifier that certifies everything, so that violations happen and must be seen."""
    return np.zeros(len(states))


def keeps_learning(agent, steps=120):
    """As a user's loop would: whatever is raised, go on."""
    while agent.guard.recorder.steps < steps:
        try:
            agent.learn(steps)
        except (OSError, ValueError, KeyError, TypeError, KeyboardInterrupt):
            continue


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(
    ("constraint", "judge"),
    [
        (Instantaneous(LIMIT), lambda costs: max(costs) > LIMIT),
        (Budget(1.5), lambda costs: sum(costs) > 1.5),
    ],
    ids=["every step", "budget"],
)
def test_violations_in_steps_that_raised_are_counted(fault, constraint, judge):
    ledgers = [Ledger(), Ledger(fault, faulty_episodes=(0, 2, 5))]
    venv = DummyVecEnv([lambda: ledgers[0], lambda: ledgers[1]])
    agent = MASE(
        venv, constraint, Known(wrong), PPO, learner_options={"n_steps": 8, "batch_size": 8}, shielding=False, seed=1
    )
    keeps_learning(agent)
    assert agent.violations >= sum(ledger.broken(judge) for ledger in ledgers) > 10
    assert (sum(episode.unreadable for episode in agent.episodes) == 0) == (fault in (7.0, "NaN observation"))


def test_the_rows_that_can_be_read_are_recorded_as_they_were():
    ledgers = [Ledger(), Ledger(np.nan, faulty_episodes=(0,))]
    envs = Recorded(DummyVecEnv([lambda: ledgers[0], lambda: ledgers[1]]), Instantaneous(LIMIT))
    envs.reset()
    for _ in range(FAULTY_STEP - 1):
        envs.step(np.zeros((2, 1), dtype=np.float32))
    with pytest.raises(ValueError, match="environment 1 gave nan"):
        envs.step(np.full((2, 1), 0.25, dtype=np.float32))
    assert envs.recorder.violations == 1  # the one that cannot be read, at its worst
    envs.reset()
    readable, judged = envs.recorder.episodes
    assert (readable.violated, readable.cost, readable.unreadable) == (False, 0.25, 0)
    assert (judged.violated, judged.cost, judged.unreadable) == (True, 1.0, 1)
    assert readable.length == judged.length == FAULTY_STEP


def test_a_cost_above_the_largest_counts_as_what_it_is():
    ledger = Ledger(7.0, faulty_episodes=(0,))
    envs = Recorded(DummyVecEnv([lambda: ledger]), Budget(5.0))
    envs.reset()
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        for _ in range(FAULTY_STEP):
            envs.step(np.zeros((1, 1), dtype=np.float32))
    envs.reset()
    (episode,) = envs.recorder.episodes
    assert (episode.violated, episode.cost, episode.unreadable) == (True, 7.0, 0)


def test_each_of_several_costs_is_salvaged_by_itself():
    ledger = Ledger(np.nan, faulty_episodes=(0,))
    constraint = AllOf(Budget(3.0), Margin(2.0))
    envs = Recorded(DummyVecEnv([lambda: ledger]), constraint)
    envs.reset()
    with pytest.raises(ValueError, match="gave nan"):
        for _ in range(FAULTY_STEP):
            envs.step(np.full((1, 1), 0.5, dtype=np.float32))
    np.testing.assert_allclose(envs.recorder.latest, [[1.0, 3.0]])  # the largest cost, and the margin as it was


def test_the_worst_signals():
    constraint = AllOf(
        Budget(3.0, cost_max=4.0), Instantaneous(1.0, cost_max=2.0), Margin(0.5), StateVisits(1.0, np.isnan)
    )
    np.testing.assert_array_equal(constraint.worst_signal, [4.0, 2.0, -0.5, 1.0])
    np.testing.assert_array_equal(constraint.normalise(constraint.worst_signal[None]), [[1.0, 1.0, 1.0, 1.0]])


def test_a_vector_environment_that_raises_in_mid_step_is_judged_at_its_worst():
    class Fails(gym.vector.SyncVectorEnv):
        def step(self, actions):
            super().step(actions)
            raise OSError("the simulator does not answer")

    agent = MASE(
        Fails([Line, Line]),
        Instantaneous(LIMIT),
        Known(line_cost),
        PPO,
        learner_options={"n_steps": 8, "batch_size": 8},
        seed=0,
    )
    with pytest.raises(OSError, match="does not answer"):
        agent.learn(8)
    assert agent.violations == 2


def test_running_episodes_are_counted_where_users_look():
    agent = MASE(
        Line(horizon=10**9),
        Instantaneous(LIMIT),
        Known(wrong),
        PPO,
        learner_options={"n_steps": 64, "batch_size": 8},
        seed=0,
    )
    agent.learn(64)
    assert (agent.violations, len(agent.episodes)) == (1, 0)


def test_a_shield_that_needs_no_model_stays_without_violations_when_a_step_raises():
    ledger = Ledger("raises", faulty_episodes=(1,))
    agent = MASE(
        DummyVecEnv([lambda: ledger]),
        Budget(2.0),
        Unknown(),
        PPO,
        learner_options={"n_steps": 8, "batch_size": 8},
        seed=0,
    )
    keeps_learning(agent, 60)
    assert agent.violations == 0  # at its worst, too, the step was within what remained


def test_quantifiers_of_several_costs_are_salvaged_under_the_guard():
    ledgers = [Ledger(), Ledger(np.nan, faulty_episodes=(1,))]
    constraint = AllOf(Budget(1.5), Instantaneous(LIMIT))
    agent = MASE(
        DummyVecEnv([lambda: ledgers[0], lambda: ledgers[1]]),
        constraint,
        PerCost(Known(wrong), Known(wrong)),
        PPO,
        learner_options={"n_steps": 8, "batch_size": 8},
    )
    keeps_learning(agent)
    assert agent.violations >= sum(
        ledger.broken(lambda costs: sum(costs) > 1.5 or max(costs) > LIMIT) for ledger in ledgers
    )


def recorded_line(ledger, constraint=None):
    envs = Recorded(DummyVecEnv([lambda: ledger]), constraint or Budget(50.0))
    envs.reset()
    return envs


def test_a_step_that_raises_is_recorded_once_with_the_reward_that_is_known():
    for fault, reward in (("raises", 0.0), (np.nan, 1.0), (7.0, 1.0)):
        envs = recorded_line(Ledger(fault, faulty_episodes=(0,)))
        with pytest.raises((OSError, ValueError)):
            for _ in range(FAULTY_STEP):
                envs.step(np.zeros((1, 1), dtype=np.float32))
        assert envs.recorder.steps == FAULTY_STEP
        np.testing.assert_array_equal(envs.recorder.returns, [FAULTY_STEP - 1 + reward])


def test_what_a_witness_raises_does_not_record_a_step_twice():
    class Raises:
        def begin(self, environments):
            pass

        def step(self):
            raise OSError("the disk is full")

    envs = recorded_line(Ledger())
    envs.recorder.witness = Raises()
    with pytest.raises(OSError, match="disk is full"):
        envs.step(np.full((1, 1), 0.25, dtype=np.float32))
    assert envs.recorder.steps == 1
    np.testing.assert_array_equal(envs.recorder.returns, [1.0])
    envs.recorder.witness = None
    envs.reset()
    (episode,) = envs.recorder.episodes
    assert (episode.length, episode.cost, episode.unreadable) == (1, 0.25, 0)


def test_a_step_of_which_one_of_several_costs_cannot_be_read_is_unreadable():
    ledger = Ledger(np.nan, faulty_episodes=(0,))
    envs = recorded_line(ledger, AllOf(Budget(3.0), Margin(2.0)))
    with pytest.raises(ValueError, match="gave nan"):
        for _ in range(FAULTY_STEP):
            envs.step(np.full((1, 1), 0.5, dtype=np.float32))
    envs.reset()
    (episode,) = envs.recorder.episodes
    assert (episode.unreadable, episode.length) == (1, FAULTY_STEP)


@pytest.mark.parametrize("driving", [None, False, True])
@pytest.mark.parametrize("fault", [None, "raises"])
def test_interventions_and_takeovers_are_recorded_whether_or_not_the_step_raises(fault, driving):
    venv = DummyVecEnv([lambda: Ledger(fault, faulty_episodes=(0,)), Ledger])
    recorder, both = Recorder(Budget(50.0), 2), np.ones(2, dtype=bool)
    observations = venv.reset()
    recorder.begin(both, observations)
    takeovers = {} if driving is None else {"takeovers": np.array([driving, False])}
    for _ in range(FAULTY_STEP):
        actions = np.zeros((2, 1), dtype=np.float32)
        venv.step_async(actions)
        try:
            drivers = Drivers(np.array([False, True]), **takeovers)
            observations = receive(venv, recorder, observations, actions, drivers).observations
        except OSError:
            assert fault == "raises"
    recorder.end(both, ~both)
    assert [episode.interventions for episode in recorder.episodes] == [0, FAULTY_STEP]
    assert [episode.takeovers for episode in recorder.episodes] == [FAULTY_STEP if driving else 0, 0]
    assert [episode.unreadable for episode in recorder.episodes] == ([1, 1] if fault else [0, 0])


def test_the_last_state_of_an_episode_is_not_the_first_of_the_next():
    envs = DummyVecEnv([lambda: Line(horizon=1), lambda: Line(horizon=9)])
    recorder = Recorder(StateVisits(9.0, lambda observations: observations[:, 0] > 0.5), 2)
    before = envs.reset()
    recorder.begin(np.ones(2, dtype=bool), before)
    envs.step_async(np.ones((2, 1), dtype=np.float32))
    received = receive(envs, recorder, before, np.ones((2, 1)), Drivers())
    np.testing.assert_array_equal(received.dones, [True, False])
    np.testing.assert_array_equal(received.observations, [[0.0], [1.0]])
    np.testing.assert_array_equal(received.step.next_observations, [[1.0], [1.0]])
    np.testing.assert_array_equal(received.step.observations, [[0.0], [0.0]])
    np.testing.assert_array_equal(received.signals, [1.0, 1.0])
    np.testing.assert_array_equal(received.rewards, [1.0, 1.0])
    assert received.rewards.dtype == np.float64
    np.testing.assert_array_equal(received.step.info("cost"), [1.0, 1.0])
