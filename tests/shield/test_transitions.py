"""Logs as quantifiers learn from them: which signals belong before and after which step."""

import numpy as np
import pytest
from gymnasium.spaces import Box

from safexp import AllOf, Budget, Instantaneous, Log, Within
from safexp.shield.transitions import transitions_of

SPACES = Box(-np.inf, np.inf, (2,)), Box(-1.0, 1.0, (1,))
SEEN = np.arange(10.0).reshape(5, 2)
DONE = np.zeros((5, 1))


def test_an_entry_of_the_observation_is_followed_within_its_episode():
    log = Log(SEEN, DONE, episodes=np.array([0, 0, 0, 1, 1]))
    data = transitions_of(log, Within(1, high=10.0), *SPACES)
    np.testing.assert_array_equal(data.states[:, :2], SEEN[[0, 1, 3]])
    np.testing.assert_array_equal(data.states[:, 2], [1, 3, 7])
    np.testing.assert_array_equal(data.signals[:, 0], [3, 5, 9])
    np.testing.assert_array_equal(data.episodes, [0, 0, 1])
    np.testing.assert_allclose(data.costs, 0.5 + (np.array([3, 5, 9]) - 10) / 20)


def test_next_observations_lose_no_step():
    data = transitions_of(Log(SEEN, DONE, next_observations=SEEN + 1), Within(0, high=1.0), *SPACES)
    np.testing.assert_array_equal(data.signals[:, 0] - data.states[:, 2], 1.0)
    assert len(data.costs) == 5


def test_a_named_signal_is_known_before_a_step_if_it_was_after_the_last():
    log = Log(SEEN, DONE, episodes=np.array([0, 0, 0, 1, 1]), signals={"heat": np.arange(5.0)})
    data = transitions_of(log, Within("heat", low=-9.0, high=9.0), *SPACES)
    np.testing.assert_array_equal(data.states[:, 2], [0, 1, 3])
    np.testing.assert_array_equal(data.signals[:, 0], [1, 2, 4])
    assert data.costs.shape == (3, 2)


def test_signals_and_costs_side_by_side():
    constraint = AllOf(Instantaneous(0.5), Within(0, high=10.0))
    log = Log(SEEN, DONE, np.linspace(0, 1, 5), next_observations=SEEN)
    data = transitions_of(log, constraint, *SPACES)
    np.testing.assert_allclose(data.costs[:, 0], np.linspace(0, 1, 5))
    assert data.signals.shape == (5, 1)


@pytest.mark.parametrize(
    ("log", "constraint", "message"),
    [
        (Log(SEEN, DONE, np.zeros((5, 2))), Budget(3.0), r"costs have shape \(5, 2\), expected \(n,\) for Budget"),
        (Log(SEEN, DONE, np.zeros(5)), AllOf(Budget(3.0), Budget(1.0)), r"shape \(5,\), expected \(n, 2\) for AllOf"),
        (Log(SEEN, DONE), Budget(3.0), r"no costs, which Budget reads: give Log\(..., costs=...\)"),
        (Log(SEEN, DONE), Within("heat", high=1.0), r"no signal 'heat' \(it has none\): add a column of that name"),
        (
            Log(SEEN, DONE, episodes=np.arange(5)),
            Within(0, high=1.0),
            r"no step of the log has the signals observation",
        ),
    ],
)
def test_what_a_log_lacks_is_named(log, constraint, message):
    with pytest.raises(ValueError, match=message):
        transitions_of(log, constraint, *SPACES)
