"""What a machine does after its emergency stop: judged on the true costs, and unseen by the learner.

The sled accelerates by 1 a step: it is at 1, 3, 6 and 10, the wall, with a speed of 4. Nothing is certified there, and
braking leads to 13, 15, 16 and 16.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from safexp import AllOf, Budget, Instantaneous, Known, Penalty, PerCost, Reset, Schedule, Shield, Unknown, Within
from safexp.envs.guard import Guard
from safexp.envs.vector import as_vec_env
from support.sled import WALL, Sled, beyond, brake, slid


def guard_of(envs, stop, constraint=None, quantifier=None):
    venv = as_vec_env(envs)
    limits = constraint or Instantaneous(0.5)
    shield = Shield(quantifier or Known(beyond()), venv.observation_space, venv.action_space, constraint=limits)
    return Guard(venv, limits, shield, Penalty(), backup=stop)


def moving(before, actions, after):
    return (after[:, 1] > 0).astype(float)


def drive(guard, steps=4, push=1.0):
    """Steps with the same proposal everywhere, from a reset."""
    guard.reset()
    return [guard.step(np.full((guard.num_envs, 1), push, dtype=np.float32)) for _ in range(steps)]


def test_a_stop_that_violates_afterwards_is_counted_with_its_steps_and_its_cost():
    sled = Sled()
    guard = guard_of(sled, Reset(after=brake, steps=6))
    drive(guard)
    (episode,) = guard.recorder.episodes
    assert sled.ledger[0] == [1, 3, 6, 10, 13, 15, 16, 16, 16, 16]
    assert episode.stopped
    assert (episode.length, episode.cost, episode.max_step_cost, episode.violated) == (4, 0.0, 0.0, False)
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (6, 6.0, True)
    assert (guard.recorder.after_stop_steps, guard.recorder.after_stop_violations) == (6, 1)
    assert guard.recorder.violations == 0
    assert guard.recorder.steps == 4


def test_a_stop_from_which_the_machine_comes_to_rest_in_time_is_not():
    sled = Sled(grip=4.0)
    late = Known(beyond())  # takes the brakes for weaker than they are
    guard = guard_of(sled, Reset(after=brake, steps=6), quantifier=late)
    drive(guard)
    (episode,) = guard.recorder.episodes
    assert sled.ledger[0] == [1, 3, 6, 10, 10, 10, 10, 10, 10, 10]
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (6, 0.0, False)
    assert guard.recorder.after_stop_violations == 0


def test_without_a_controller_nothing_is_driven_and_nothing_is_judged():
    sled = Sled()
    guard = guard_of(sled, Reset())
    drive(guard)
    (episode,) = guard.recorder.episodes
    assert sled.ledger[0] == [1, 3, 6, 10]
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (0, 0.0, False)
    assert not guard.recorder.judges_stops


@pytest.mark.parametrize(("grip", "cost", "violated"), [(1.0, 10.0, True), (11.0, 0.0, False)])
def test_a_budget_is_judged_on_the_whole_stretch(grip, cost, violated):
    guard = guard_of(Sled(grip), Reset(after=brake, steps=50), Budget(11.0, cost=moving), Unknown())
    drive(guard, steps=11)
    (episode,) = guard.recorder.episodes
    assert (episode.length, episode.cost, episode.violated) == (11, 11.0, False)
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (50, cost, violated)
    drive(guard, steps=11)
    assert guard.recorder.episodes[1].cost == 11.0  # the next account begins anew


def test_the_learner_sees_nothing_of_it():
    def seen(stop):
        guard = guard_of(Sled(), stop)
        outcomes = drive(guard, steps=13)
        return outcomes, guard

    (free, plain), (judged, guard) = seen(Reset()), seen(Reset(after=brake, steps=9))
    for one, other in zip(free, judged, strict=True):
        for part, twin in zip(one[:3], other[:3], strict=True):
            np.testing.assert_array_equal(part, twin)
        np.testing.assert_equal(list(one[3]), list(other[3]))
    for part, twin in zip(plain.harvest().transitions, guard.harvest().transitions, strict=True):
        np.testing.assert_equal(part, twin)
    np.testing.assert_array_equal(plain.account.thresholds, guard.account.thresholds)
    assert [tuple(one)[:13] for one in plain.recorder.episodes] == [tuple(one)[:13] for one in guard.recorder.episodes]
    assert plain.recorder.steps == guard.recorder.steps == 13


@pytest.mark.parametrize(("steps", "violated"), [(3, False), (4, True)])
def test_a_scheduled_limit_goes_on_after_the_stop(steps, violated):
    limits = Schedule([0.5] * 4 + [0.9] * 3 + [0.5], cost=lambda before, actions, after: 0.8 * (after[:, 0] > WALL))
    wary = Known(lambda states, actions: np.where(states[:, 0] >= WALL, 1.0, beyond()(states, actions)))
    guard = guard_of(Sled(), Reset(after=brake, steps=steps), limits, wary)
    drive(guard)
    (episode,) = guard.recorder.episodes
    assert (episode.after_stop_steps, episode.after_stop_violated) == (steps, violated)
    np.testing.assert_allclose(episode.after_stop_cost, 0.8 * steps)


def test_several_costs_are_summed_and_each_is_judged():
    limits = AllOf(Budget(100.0, cost=moving), Instantaneous(0.5))
    guard = guard_of(Sled(), Reset(after=brake, steps=3), limits, PerCost(Unknown(), Known(beyond())))
    drive(guard)
    (episode,) = guard.recorder.episodes
    assert (episode.cost, episode.after_stop_cost, episode.after_stop_violated) == (4.0, 6.0, True)


@pytest.mark.parametrize(("grip", "violated"), [(1.0, True), (4.0, False)])
def test_a_limited_signal_is_read_after_the_stop(grip, violated):
    predicted = Known(lambda states, actions: slid(states[:, :2], actions)[:, :1])
    guard = guard_of(Sled(grip), Reset(after=brake, steps=6), Within("x", high=WALL), predicted)
    drive(guard)
    assert guard.recorder.episodes[0].after_stop_violated == violated


def test_an_episode_that_had_violated_before_its_stop_did_not_violate_only_afterwards():
    unaware = Known(lambda states, actions: (states[:, 0] > WALL).astype(float))
    guard = guard_of(Sled(), Reset(after=brake, steps=2), quantifier=unaware)
    drive(guard, steps=5)
    (episode,) = guard.recorder.episodes
    assert episode.violated
    assert (episode.after_stop_cost, episode.after_stop_violated) == (2.0, False)


def test_the_end_of_the_environment_ends_the_driving():
    for sled, steps in [(Sled(end=14.0), 2), (Sled(steps=7), 3)]:
        guard = guard_of(sled, Reset(after=brake, steps=9))
        drive(guard)
        (episode,) = guard.recorder.episodes
        assert (episode.after_stop_steps, episode.after_stop_cost) == (steps, float(steps))
        assert [len(places) for places in sled.ledger] == [4 + steps, 0]


def test_a_step_that_raises_counts_at_its_worst_and_is_not_hidden():
    sled = Sled(crash=14.0)
    guard = guard_of(sled, Reset(after=brake, steps=9))
    with pytest.raises(OSError, match="broke through the ice"):
        drive(guard)
    (episode,) = guard.recorder.episodes
    assert (episode.stopped, episode.length, episode.unreadable) == (True, 4, 1)
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (2, 2.0, True)
    with pytest.raises(RuntimeError, match="did not finish"):
        guard.step(np.ones((1, 1), dtype=np.float32))
    sled.crash = np.inf
    drive(guard)
    assert [one.after_stop_steps for one in guard.recorder.episodes] == [2, 9]


@pytest.mark.parametrize("told", [np.nan, 7.0])
def test_a_cost_that_cannot_be_read_counts_at_its_worst(told):
    class Mute(Sled):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {**info, "cost": told if self.state[0] > 14 else info["cost"]}

    guard = guard_of(Mute(), Reset(after=brake, steps=9))
    with pytest.raises(ValueError, match=r"info\['cost'\]"):
        drive(guard)
    (episode,) = guard.recorder.episodes
    worst = 1.0 if np.isnan(told) else told
    assert (episode.after_stop_steps, episode.after_stop_cost, episode.after_stop_violated) == (2, 1.0 + worst, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda sleds: DummyVecEnv([lambda sled=sled: sled for sled in sleds]),
        lambda sleds: SyncVectorEnv([lambda sled=sled: sled for sled in sleds]),
        lambda sleds: SyncVectorEnv([lambda sled=sled: sled for sled in sleds], autoreset_mode="SameStep"),
    ],
)
def test_only_the_stopped_copies_move(make):
    sleds = [Sled(), Sled(), Sled(end=12.0), Sled()]
    guard = guard_of(make(sleds), Reset(after=brake, steps=5))
    guard.reset()
    pushes = np.array([[1.0], [0.0], [1.0], [0.5]], dtype=np.float32)
    for _ in range(6):
        guard.step(pushes)
    assert sleds[0].ledger == [[1, 3, 6, 10, 13, 15, 16, 16, 16], [1, 3]]
    assert sleds[1].ledger == [[0] * 6]
    assert sleds[2].ledger == [[1, 3, 6, 10, 13], [1, 3]]
    assert sleds[3].ledger == [[0.5, 1.5, 3, 5, 7.5, 10, 11.5, 12, 12, 12, 12], []]  # the shield chose the sixth
    found = [(one.length, one.after_stop_steps, one.after_stop_cost) for one in guard.recorder.episodes]
    assert found == [(4, 5, 5.0), (4, 1, 1.0), (6, 5, 5.0)]


def test_copies_in_other_processes():
    guard = guard_of(SubprocVecEnv([Sled, Sled], start_method="fork"), Reset(after=brake, steps=6))
    try:
        drive(guard)
        assert [tuple(one[-3:]) for one in guard.recorder.episodes] == [(6, 6.0, True)] * 2
    finally:
        guard.close()


def test_a_long_way_to_rest_is_recorded_in_full():
    guard = guard_of(Sled(), Reset(after=brake, steps=700))
    drive(guard)
    assert guard.recorder.episodes[0].after_stop_steps == 700
    assert guard.recorder.episodes[0].after_stop_cost == 700.0


def test_an_epoch_that_takes_a_certificate_back_stops_and_judges_too():
    sled = Sled()
    guard = guard_of(sled, Reset(after=brake, steps=6))
    drive(guard, steps=3)
    guard.shield.quantifier.cost = lambda states, actions: np.where(states[:, 0] > 0, 1.0, 0.0)
    np.testing.assert_array_equal(guard.recheck(), [True])
    (episode,) = guard.recorder.episodes
    assert (episode.length, episode.after_stop_steps, episode.after_stop_violated) == (3, 6, False)
    assert sled.ledger == [[1, 3, 6, 8, 9, 9, 9, 9, 9], []]


class Whole(gym.vector.VectorEnv):
    """Steps all its environments at once."""

    def __init__(self):
        self.num_envs = 2
        self.single_observation_space, self.single_action_space = Sled().observation_space, Sled().action_space


def test_environments_that_only_step_all_at_once_are_refused():
    sync = SyncVectorEnv([Sled, Sled])
    wrapped = gym.wrappers.vector.ClipReward(sync, min_reward=0.0)
    for envs in (Whole(), wrapped, AsyncVectorEnv([Sled, Sled], context="fork")):
        with pytest.raises(ValueError, match=r"steps all environments at once: make it with vectorization_mode='sync'"):
            guard_of(envs, Reset(after=brake, steps=6))
        guard_of(envs, Reset())
        envs.close()


@pytest.mark.parametrize(
    "controller", [lambda seen: np.zeros(2), lambda seen: np.full((len(seen), 1), np.nan), lambda seen: [["on"]]]
)
def test_a_controller_without_valid_actions_is_refused_and_its_stop_counts_at_its_worst(controller):
    guard = guard_of(Sled(), Reset(after=controller, steps=6))
    with pytest.raises((ValueError, TypeError)):
        drive(guard)
    assert guard.recorder.episodes[0].after_stop_violated


def test_a_wrong_shape_is_named():
    guard = guard_of(Sled(), Reset(after=lambda seen: np.zeros(2), steps=6))
    with pytest.raises(ValueError, match=r"returned array\(\[0., 0.\]\), expected finite actions of shape \(1, 1\)"):
        drive(guard)


class Speeds(gym.Wrapper):
    """Gymnasium's mountain car, with the speeds of all its steps."""

    def __init__(self):
        super().__init__(gym.make("MountainCarContinuous-v0"))
        self.ledger: list[list[float]] = []

    def reset(self, **options):
        self.ledger.append([])
        return self.env.reset(**options)

    def step(self, action):
        outcome = self.env.step(action)
        self.ledger[-1].append(abs(float(outcome[0][1])))
        return outcome


def test_gymnasium_s_mountain_car_rolls_faster_than_its_limit_after_every_stop():
    def speed(states, actions):
        """Its equation of motion, away from the walls."""
        return states[:, 1] + 0.0015 * np.clip(actions[:, 0], -1, 1) - 0.0025 * np.cos(3 * states[:, 0])

    slow = Instantaneous(0.5, cost=lambda before, actions, after: np.abs(after[:, 1]) > 0.02 + 1e-6)
    cars = [Speeds(), Speeds()]
    guard = guard_of(
        SyncVectorEnv([lambda car=car: car for car in cars]),
        Reset(after=lambda seen: -np.sign(seen[:, 1:]), steps=30),
        slow,
        Known(lambda states, actions: np.abs(speed(states, actions)) > 0.02),
    )
    guard.seed(3)
    seen = guard.reset()
    for _ in range(400):
        seen, *_ = guard.step(np.sign(seen[:, 1:]).astype(np.float32))
    recorder = guard.recorder
    assert recorder.violations == 0
    assert recorder.stops > 4
    fast = sum(max(speeds, default=0.0) > 0.02 + 1e-6 for car in cars for speeds in car.ledger)
    assert recorder.after_stop_violations == fast == recorder.stops  # gravity is stronger than the brakes
    assert sum(len(speeds) for car in cars for speeds in car.ledger) == 800 + recorder.after_stop_steps
