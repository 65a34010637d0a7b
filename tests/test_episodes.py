"""Rows of episodes, judged from true signals."""

import numpy as np

from safexp import AllOf, Budget, Instantaneous, StateVisits
from safexp.episodes import Recorder

YES, NO = np.array([True]), np.array([False])


def play(recorder, rewards, penalised, signals, interventions, observation=0.0):
    recorder.begin(YES, np.array([[observation]]))
    for row in zip(rewards, penalised, signals, interventions, strict=True):
        reward, paid, signal, intervened = row
        recorder.step(np.array([reward]), np.array([signal]), np.array([intervened]))
        recorder.pay(np.array([paid]))


def test_true_and_penalised_returns_are_kept_apart():
    recorder = Recorder(Budget(2.0), 1)
    play(recorder, [1.0, 2.0], [1.0, -5.0], [0.5, 1.0], [True, False])
    recorder.end(YES, YES)
    (episode,) = recorder.episodes
    assert episode == (0, 2, 2, 3.0, -4.0, 1.5, 1.0, False, True, 1, 0, 0)


def test_violations_are_judged_by_the_original_constraint():
    recorder = Recorder(Budget(1.0), 1)
    play(recorder, [0.0] * 3, [0.0] * 3, [0.5, 0.5, 0.1], [False] * 3)
    assert recorder.violations == 1
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
