"""Rows of episodes, judged from true signals."""

import numpy as np
import pytest

from safexp import AllOf, Budget, Instantaneous, Schedule, StateVisits
from safexp.episodes import Recorder

YES, NO = np.array([True]), np.array([False])


def play(recorder, rewards, penalised, signals, interventions, observation=0.0):
    recorder.begin(YES, np.array([[observation]]))
    for row in zip(rewards, penalised, signals, interventions, strict=True):
        reward, paid, signal, intervened = row
        recorder.step(np.array([reward]), np.array([paid]), np.array([signal]), np.array([intervened]))


def test_true_and_penalised_returns_are_kept_apart():
    recorder = Recorder(Budget(2.0), 1)
    play(recorder, [1.0, 2.0], [1.0, -5.0], [0.5, 1.0], [True, False])
    recorder.end(YES, YES)
    (episode,) = recorder.episodes
    assert episode == (0, 2, 2, 3.0, -4.0, 1.5, 1.0, False, True, 1, 0)


def test_violations_are_judged_by_the_original_constraint():
    recorder = Recorder(Budget(1.0), 1)
    play(recorder, [0.0] * 3, [0.0] * 3, [0.5, 0.5, 0.1], [False] * 3)
    assert recorder.unfinished_violations() == 1
    recorder.end(YES, NO)
    assert recorder.episodes[0].violated


def test_an_unsafe_first_state_counts():
    recorder = Recorder(StateVisits(0.0, unsafe=lambda observations: observations[:, 0] > 1), 1)
    play(recorder, [0.0], [0.0], [0.0], [False], observation=2.0)
    recorder.end(YES, NO)
    assert recorder.episodes[0].violated
    assert recorder.episodes[0].cost == 1.0


def test_long_episodes_and_several_costs():
    recorder = Recorder(AllOf(Budget(1000.0), Instantaneous(0.5, cost="speed")), 1)
    play(recorder, [1.0] * 700, [1.0] * 700, [[0.25, 0.5]] * 700, [False] * 700)
    recorder.end(YES, NO)
    (episode,) = recorder.episodes
    assert episode.length == 700
    assert episode.cost == 700 * 0.75
    assert not episode.violated


class Dial:
    """A limit that somebody turns while episodes run; it remembers for which steps it was asked."""

    def __init__(self, limit):
        self.limit, self.asked = limit, []

    def __call__(self, steps):
        self.asked.append(steps.tolist())
        return np.full(len(steps), self.limit)


@pytest.mark.parametrize("wrapped", [lambda one: one, lambda one: AllOf(Budget(100.0), one)])
@pytest.mark.parametrize(("before", "after", "violated"), [(0.8, 0.2, False), (0.2, 0.8, True)])
def test_episodes_are_judged_by_the_limits_that_held_and_not_by_those_of_later(wrapped, before, after, violated):
    dial = Dial(before)
    recorder = Recorder(wrapped(Schedule(dial)), 1)
    several = isinstance(recorder.constraint, AllOf)
    recorder.begin(YES, np.zeros((1, 1)))
    for cost in (0.5, 0.5, 0.1, 0.1):
        if cost < 0.5:
            assert recorder.unfinished_violations() == violated
        signals = np.array([[0.0, cost]]) if several else np.array([cost])
        if cost == 0.5 and recorder.steps:
            dial.limit = after  # while the second step is under way, for which the limit of before still holds
        recorder.step(np.zeros(1), np.zeros(1), signals, NO)
    assert recorder.unfinished_violations() == violated
    recorder.end(YES, NO)
    assert recorder.episodes[0].violated == violated
    assert dial.asked == [[0], [1], [2], [3], [4]], "each step is asked for once, when it comes"


def test_limits_that_held_are_kept_for_every_environment_and_in_long_episodes():
    dial, rng = Dial(0.0), np.random.default_rng(0)
    recorder = Recorder(Schedule(dial), 2)
    both, second = np.array([True, True]), np.array([False, True])
    recorder.begin(both, np.zeros((2, 1)))
    for step in range(700):
        held, dial.limit = dial.limit, rng.random()
        recorder.step(np.zeros(2), np.zeros(2), np.full(2, held), ~both)
        if step == 300:
            recorder.end(second, ~both)
            dial.limit = 0.5
            recorder.begin(second, np.zeros((2, 1)))
            dial.limit = held = 0.6
            recorder.step(np.zeros(2), np.zeros(2), np.array([0.0, 0.55]), ~both)  # above the limit of its own
    recorder.end(both, ~both)
    assert [(one.length, one.violated) for one in recorder.episodes] == [(301, False), (701, False), (400, True)]


def test_environments_are_recorded_independently():
    recorder = Recorder(Budget(10.0), 2)
    both = np.array([True, True])
    recorder.begin(both, np.zeros((2, 1)))
    recorder.step(np.array([1.0, 10.0]), np.array([1.0, 10.0]), np.zeros(2), ~both)
    recorder.end(np.array([True, False]), ~both)
    recorder.begin(np.array([True, False]), np.zeros((2, 1)))
    recorder.step(np.array([2.0, 20.0]), np.array([2.0, 20.0]), np.zeros(2), ~both)
    recorder.end(both, ~both)
    assert [(e.length, e.true_return, e.end_step) for e in recorder.episodes] == [
        (1, 1.0, 2),
        (1, 2.0, 4),
        (2, 30.0, 4),
    ]
