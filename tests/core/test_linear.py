"""Linear models and controllers with visible coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from safexp import Linear, LinearFeedback


def test_linear_returns_one_number_or_several():
    states, actions = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[3.0], [4.0]])
    np.testing.assert_allclose(Linear([1.0, 10.0], [100.0], 0.5)(states, actions), [321.5, 410.5])
    both = Linear([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]], [0.0, 1.0])(states, actions)
    np.testing.assert_allclose(both, [[1.0, 6.0], [0.0, 6.0]])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([1.0], [[1.0]]), r"must have the shapes \(ds,\) and \(da,\), or \(ds, S\) and \(da, S\)"),
        (([1.0], [1.0], [1.0, 2.0]), "must be a number, or one for each value"),
        (([np.nan], [1.0]), "has a coefficient that is not finite"),
    ],
)
def test_linear_refuses_coefficients_that_do_not_fit(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        Linear(*arguments)


def test_feedback_is_clipped():
    brake = LinearFeedback([[0.0, -2.0]], centre=[0.0, 1.0], target=0.5, low=-1.0, high=0.6)
    np.testing.assert_allclose(brake(np.array([[9.0, 1.0], [0.0, 2.0], [0.0, 0.0]])), [[0.5], [-1.0], [0.6]])


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ({"gains": [1.0]}, r"must be a finite matrix \(da, ds\)"),
        ({"gains": [[1.0]], "low": [0.0, 1.0]}, "must be one number, or one for each of 1 entries"),
        ({"gains": [[1.0]], "low": 1.0, "high": 0.0}, "low at most high"),
    ],
)
def test_feedback_refuses_what_is_no_controller(named, reason):
    with pytest.raises(ValueError, match=reason):
        LinearFeedback(**named)
