"""Rows of episodes, judged from true signals."""

import numpy as np
import pytest

from safexp import AllOf, Budget, Instantaneous, Schedule, StateVisits
from safexp.records.episodes import Drivers, Episode, Recorder, own_share

YES, NO = np.array([True]), np.array([False])


def play(recorder, rewards, penalised, signals, interventions, observation=0.0):
    recorder.begin(YES, np.array([[observation]]))
    for row in zip(rewards, penalised, signals, interventions, strict=True):
        reward, paid, signal, intervened = row
        recorder.step(np.array([reward]), np.array([signal]), Drivers(np.array([intervened])))
        recorder.pay(np.array([paid]))


def test_true_and_penalised_returns_are_kept_apart():
    recorder = Recorder(Budget(2.0), 1)
    play(recorder, [1.0, 2.0], [1.0, -5.0], [0.5, 1.0], [True, False])
    recorder.end(YES, YES)
    (episode,) = recorder.episodes
    assert episode == (0, 2, 2, 3.0, -4.0, 1.5, 1.0, False, True, 1, 0, 0, 0, 0, 0.0, False)


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
            assert recorder.violations == violated
        signals = np.array([[0.0, cost]]) if several else np.array([cost])
        if cost == 0.5 and recorder.steps:
            dial.limit = after  # while the second step is under way, for which the limit of before still holds
        recorder.step(np.zeros(1), signals)
    assert recorder.violations == violated
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
        recorder.step(np.zeros(2), np.full(2, held))
        if step == 300:
            recorder.end(second, ~both)
            dial.limit = 0.5
            recorder.begin(second, np.zeros((2, 1)))
            dial.limit = held = 0.6
            recorder.step(np.zeros(2), np.array([0.0, 0.55]))  # above the limit of its own
    recorder.end(both, ~both)
    assert [(one.length, one.violated) for one in recorder.episodes] == [(301, False), (701, False), (400, True)]


def test_environments_are_recorded_independently():
    recorder = Recorder(Budget(10.0), 2)
    both = np.array([True, True])
    recorder.begin(both, np.zeros((2, 1)))
    recorder.step(np.array([1.0, 10.0]), np.zeros(2))
    recorder.end(np.array([True, False]), ~both)
    recorder.begin(np.array([True, False]), np.zeros((2, 1)))
    recorder.step(np.array([2.0, 20.0]), np.zeros(2))
    recorder.end(both, ~both)
    assert [(e.length, e.true_return, e.end_step) for e in recorder.episodes] == [
        (1, 1.0, 2),
        (1, 2.0, 4),
        (2, 30.0, 4),
    ]


class Told:
    """Writes down what a recorder tells it."""

    def __init__(self):
        self.events = []

    def begin(self, environments):
        self.events.append(("begin", environments.tolist()))

    def step(self):
        self.events.append("step")

    def end(self, environment, episode):
        self.events.append(("end", environment, episode.episode))


def test_a_witness_is_told_of_everything_in_its_order():
    recorder, told = Recorder(Budget(2.0), 1), Told()
    recorder.witness = told
    play(recorder, [1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [False, False])
    recorder.end(YES, NO)
    recorder.end(NO, NO)
    assert told.events == [("begin", [True]), "step", "step", ("end", 0, 0)]


def test_the_counts_are_those_of_all_episodes():
    recorder = Recorder(Budget(1.0), 1)
    for signals, stopped in (([0.5, 0.5], YES), ([1.0, 0.5], NO), ([1.0, 1.0], YES)):
        play(recorder, [1.0, 1.0], [1.0, 1.0], signals, [True, False])
        recorder.end(YES, stopped)
    assert (recorder.violations, recorder.stops, recorder.interventions, recorder.takeovers) == (2, 2, 3, 0)
    assert recorder.steps == 6
    assert [episode.episode for episode in recorder.episodes] == [0, 1, 2]
    assert [episode.max_step_cost for episode in recorder.episodes] == [0.5, 1.0, 1.0]


def test_steps_under_another_controller_are_counted_apart():
    recorder = Recorder(Budget(9.0), 2)
    both = np.array([True, True])
    recorder.begin(both, np.zeros((2, 1)))
    for takeovers in ([True, False], [True, True]):
        recorder.step(np.ones(2), np.array([0.25, 0.5]), Drivers(takeovers=np.array(takeovers)))
    assert recorder.running.all()
    np.testing.assert_array_equal(recorder.returns, [2.0, 2.0])
    np.testing.assert_array_equal(recorder.latest, [0.25, 0.5])
    recorder.end(both, ~both)
    assert [episode.takeovers for episode in recorder.episodes] == [2, 1]
    assert recorder.takeovers == 3
    assert not recorder.running.any()


def test_an_episode_begins_with_nothing_of_the_last():
    recorder = Recorder(Budget(1.0), 1)
    play(recorder, [5.0], [5.0], [1.0], [True])
    recorder.begin(YES, np.zeros((1, 1)))
    assert not recorder.running.any()
    assert recorder.returns.tolist() == [0.0]
    recorder.step(np.ones(1), np.array([0.5]))
    recorder.end(YES, NO)
    (episode,) = recorder.episodes
    assert (episode.length, episode.true_return, episode.cost, episode.interventions) == (1, 1.0, 0.5, 0)
    assert not episode.violated


def test_an_episode_that_ends_before_its_first_step_costs_what_its_first_state_does():
    recorder = Recorder(StateVisits(3.0, unsafe=lambda observations: observations[:, 0] > 1), 2)
    both = np.array([True, True])
    recorder.begin(both, np.array([[0.0], [2.0]]))
    recorder.end(both, both)
    assert [(episode.length, episode.cost, episode.stopped) for episode in recorder.episodes] == [
        (0, 0.0, True),
        (0, 1.0, True),
    ]


def test_violations_are_those_of_finished_and_of_running_episodes():
    recorder = Recorder(Budget(1.0), 3)
    everywhere = np.ones(3, dtype=bool)
    recorder.begin(everywhere, np.zeros((3, 1)))
    for _ in range(2):
        recorder.step(np.zeros(3), np.array([0.5, 0.75, 1.0]))
    assert (recorder.violations, len(recorder.episodes)) == (2, 0)
    recorder.end(np.array([False, False, True]), ~everywhere)
    assert recorder.violations == 2
    recorder.begin(np.array([False, False, True]), np.zeros((3, 1)))
    assert recorder.violations == 2
    recorder.end(everywhere, ~everywhere)
    assert recorder.violations == 2


def test_an_episode_that_tells_of_no_takeovers_had_none():
    assert Episode(0, 1, 1, 0.5, 0.5, 0.0, 0.0, False, False, 0).takeovers == 0


def test_a_long_episode_beside_short_ones_keeps_all_of_its_steps():
    recorder = Recorder(Budget(299.5), 2)
    both, second = np.array([True, True]), np.array([False, True])
    recorder.begin(both, np.zeros((2, 1)))
    for step in range(300):
        recorder.step(np.ones(2), np.ones(2))
        if step % 10 == 9:
            recorder.end(second, ~both)
            recorder.begin(second, np.zeros((2, 1)))
    recorder.end(np.array([True, False]), ~both)
    assert [episode.cost for episode in recorder.episodes] == [10.0] * 30 + [300.0]
    assert [episode.violated for episode in recorder.episodes] == [False] * 30 + [True]


def test_before_a_step_none_has_brought_anything():
    np.testing.assert_array_equal(Recorder(AllOf(Budget(1.0), Budget(1.0)), 2).latest, np.zeros((2, 2)))


def test_the_share_of_own_actions_counts_all_who_drove():
    episode = Episode(0, 10, 10, 0.0, 0.0, 0.0, 0.0, False, False, 2, takeovers=1, drills=3)
    assert own_share([episode]) == pytest.approx(0.4)
    assert own_share([]) is None
