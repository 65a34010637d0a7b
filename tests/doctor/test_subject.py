"""The action space that a log shows."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from safexp.doctor.subject import inferred_actions, logged_range

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(st.lists(NUMBERS, min_size=1))
def test_a_range_holds_all_actions_and_hardly_more(values):
    low, high = logged_range(np.array(values))
    room = 1.0001e-5 * max(map(abs, values))
    assert min(values) - room <= low <= min(values)
    assert max(values) <= high <= max(values) + room


@pytest.mark.parametrize(
    ("values", "ends"),
    [([-1.0, 1.0], (-1.0, 1.0)), ([0.1, 0.3], (0.1, 0.3)), ([0.0, 1 / 3], (0.0, 0.333334)), ([5.0], (5.0, 5.0))],
)
def test_round_numbers_remain(values, ends):
    assert logged_range(np.array(values)) == ends


def test_each_entry_has_its_own_range():
    space = inferred_actions(np.array([[0.0, 200.5], [0.95, -10.0]]))
    assert space == spaces.Box(np.array([0.0, -10.0]), np.array([0.95, 200.5]), dtype=np.float64)


def test_few_whole_numbers_are_choices():
    assert inferred_actions(np.array([0, 3, 1])) == spaces.Discrete(4)
