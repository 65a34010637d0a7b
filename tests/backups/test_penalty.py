"""The penalty of a stop as a function of the least width."""

import numpy as np
import pytest

from safexp import Penalty


def test_it_grows_with_certainty_up_to_the_largest():
    widths = np.array([np.inf, 2.0, 1.0, 0.5, 0.1, 0.0])
    np.testing.assert_allclose(Penalty(1.0, largest=4.0)(widths), [-1.0, -1.0, -1.0, -2.0, -4.0, -4.0])


def test_the_default_is_a_constant():
    np.testing.assert_array_equal(Penalty(3.0)(np.array([np.inf, 0.5, 0.0])), -3.0)


@pytest.mark.parametrize("settings", [(-1.0, 1.0), (2.0, 1.0), (1.0, np.inf), (np.nan, 1.0)])
def test_bad_settings_are_named(settings):
    with pytest.raises(ValueError, match="0 ≤ c ≤ largest"):
        Penalty(*settings)


def test_a_certain_stop_overflows_nothing():
    np.testing.assert_array_equal(Penalty(5.0)(np.zeros(2)), -5.0)
    np.testing.assert_array_equal(Penalty(0.0, largest=3.0)(np.zeros(2)), 0.0)


def test_settings_at_their_ends_are_taken():
    assert Penalty(0.0).largest is None
    np.testing.assert_array_equal(Penalty(0.0)(np.array([0.0, 1.0, np.inf])), 0.0)
    np.testing.assert_array_equal(Penalty(2.0, largest=2.0)(np.array([0.0, 1.0, np.inf])), -2.0)
    with pytest.raises(ValueError, match="0 ≤ c ≤ largest"):
        Penalty(np.inf)


def test_the_default_penalty_is_constant():
    np.testing.assert_array_equal(Penalty()(np.array([0.0, 0.5, np.inf])), -0.5)
