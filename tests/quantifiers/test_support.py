"""Where a model has data, and how widths grow beyond it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp.quantifiers import support as supports
from safexp.quantifiers.support import LEAST_REACH, REACH, Support


def factors(support, states, actions=None):
    states = np.atleast_2d(np.asarray(states, dtype=np.float64))
    actions = np.zeros((len(states), 1, 0)) if actions is None else actions
    return support.factor(states, actions)[:, 0]


def visited(values, reach=1.0):
    support = Support(reach)
    support.add(np.asarray(values, dtype=np.float64))
    return support


def test_one_inside_and_infinite_beyond_its_reach():
    support = visited([[-1.0], [1.0]], reach=2.0)  # a deviation of 1
    np.testing.assert_allclose(factors(support, [[0.0], [1.0], [2.0], [3.0], [4.0]]), [1, 1, 2, np.inf, np.inf])


def test_an_input_that_never_varied_is_known_at_its_value_alone():
    support = visited([[0.0, 5.0], [1.0, 5.0]])
    np.testing.assert_array_equal(factors(support, [[0.5, 5.0], [0.5, 5.1], [0.5, 0.0]]), [1, np.inf, np.inf])


def test_nothing_is_known_beyond_zero_of_an_input_that_never_changed_its_sign():
    support = visited([[0.1], [3.0]])
    found = factors(support, [[0.05], [-0.01], [3.5]])
    assert np.isfinite(found[[0, 2]]).all()
    assert np.isinf(found[1])
    assert np.isfinite(factors(visited([[-0.1], [3.0]]), [[-0.2]])).all()


def test_actions_count_as_states_do():
    support = visited([[0.0, -1.0], [1.0, 1.0]])
    actions = np.array([[[0.0], [1.5], [9.0]]])
    np.testing.assert_allclose(support.factor(np.array([[0.5]]), actions), [[1.0, 2.0, np.inf]])


def test_it_grows_with_what_is_visited_and_survives_a_file():
    support = visited([[-1.0], [1.0]])
    assert np.isinf(factors(support, [[5.0]])).all()
    support.add(np.array([[5.0]]))
    assert factors(support, [[5.0]]) == 1
    again = Support(1.0)
    again.restore(support.state())
    np.testing.assert_array_equal(factors(again, [[5.0], [6.0], [99.0]]), factors(support, [[5.0], [6.0], [99.0]]))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.floats(0.01, 3.0))
def test_what_was_visited_is_always_known(values, reach):
    support = visited(np.array(values)[:, None], reach)
    np.testing.assert_array_equal(factors(support, np.array(values)[:, None]), 1.0)


def test_a_reach_of_nothing_is_refused():
    with pytest.raises(ValueError, match="reach=0 must be finite and above 0"):
        Support(0)


def test_the_tested_reach_is_that_of_the_boldest_stretches():
    """Ten stretches, each a tenth of a metre further than the one before along the first input."""
    stretches = np.repeat(np.arange(10), 5)
    inputs = np.column_stack([np.linspace(-1, 1, 50) * 0.1 * (1 + stretches), np.tile(np.linspace(-1, 1, 5), 10)])
    inputs = np.column_stack([inputs, np.full(50, 3.0)])
    found = supports.tested_reach(inputs, stretches, np.arange(10), 0.05)
    known, others = inputs[stretches < 8, 0], inputs[stretches >= 8, 0]
    assert LEAST_REACH < found <= (others.max() - known.max()) / known.std()
    even = supports.tested_reach(inputs[:, 1:], stretches, np.arange(10), 0.05)
    assert even == LEAST_REACH < REACH
