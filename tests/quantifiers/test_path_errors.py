"""Widths from errors of replays: a level, a growth with the distance, and what was never replayed."""

from __future__ import annotations

import numpy as np

from safexp.quantifiers.path_errors import LEAST_WIDTH, PathErrors, distances
from safexp.quantifiers.replays import Prediction, Replay


def replays(errors, moves, within=None):
    """Replays of one signal that moves by `moves` (w,) in each of two steps, with these errors (w,)."""
    predicted = np.stack([0.0 * moves, moves, 2 * moves])[..., None]
    within = np.ones((2, len(moves)), dtype=bool) if within is None else within
    found = Replay(Prediction(predicted, np.zeros((2, len(moves), 1))), predicted[1:] - errors[:, None], within)
    return [(found, predicted)]


def test_errors_of_slow_replays_are_the_level_and_the_excess_of_fast_ones_grows_with_distance():
    errors, moves = np.array([0.1, -0.1, 0.3, -0.3]), np.array([1.0, 1.0, 5.0, 5.0])
    found = PathErrors.none(2, 1).with_replays(replays(errors, moves))
    np.testing.assert_allclose(found.level, 0.01)
    np.testing.assert_allclose(found.slope[:, 0], [0.08 / 25, 0.08 / 100])
    np.testing.assert_allclose(found.deviations(np.array([[[5.0]], [[10.0]]])), 0.3)
    np.testing.assert_allclose(found.least, LEAST_WIDTH * np.sqrt(13.0))


def test_errors_add_up_over_updates_and_medians_stay_those_of_the_first():
    rng = np.random.default_rng(0)
    errors, moves = rng.normal(size=100), rng.uniform(1, 3, 100)
    at_once = PathErrors.none(2, 1).with_replays(replays(errors, moves))
    again = at_once.with_replays(replays(errors, 10 * moves))
    np.testing.assert_array_equal(again.middle, at_once.middle)
    assert again.moments[1, 0, 0, 0] == at_once.moments[1, 0, 0, 0] + 100


def test_a_step_that_no_replay_reached_is_unknown():
    within = np.array([[True, True], [False, False]])
    found = PathErrors.none(2, 1).with_replays(replays(np.array([0.1, 0.2]), np.ones(2), within))
    assert np.isfinite(found.level[0, 0]) and np.isinf(found.level[1, 0])


def test_distances_add_up_in_both_directions():
    np.testing.assert_array_equal(distances(np.array([0.0, 2.0, -1.0])[:, None, None])[:, 0, 0], [2.0, 5.0])
