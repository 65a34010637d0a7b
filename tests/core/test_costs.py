"""How costs and predicates are read from a step."""

from __future__ import annotations

import numpy as np
import pytest

from safexp.core.costs import SINGLE, Step, indicator, read_cost, refuse

HERE = np.zeros((2, 1))


def costs_of(*values, cost_max=1.0):
    return read_cost("cost", cost_max, Step(HERE, HERE, HERE, lambda key: np.array(values)))


@pytest.mark.parametrize("cost_max", [1.0, 0.1, 250.0])
def test_a_cost_may_exceed_the_largest_by_one_rounding_to_single_precision(cost_max):
    largest = cost_max * (1 + SINGLE)
    np.testing.assert_array_equal(costs_of(0.0, largest, cost_max=cost_max), [0.0, cost_max])
    for bad in (cost_max * (1 + 2 * SINGLE), -1e-12):
        with pytest.raises(ValueError, match=r"environment 1 gave .* must lie in \[0, "):
            costs_of(0.0, bad, cost_max=cost_max)
    assert float(np.float32(0.1)) <= 0.1 * (1 + SINGLE)
    assert np.finfo(np.float32).eps == SINGLE


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_cost_is_finite_and_the_first_bad_one_is_named(bad):
    with pytest.raises(ValueError, match=rf"environment 0 gave {bad}: info\['cost'\] must be a finite number"):
        costs_of(bad, bad)


def test_a_function_of_the_step_is_read_like_an_info():
    step = Step(HERE, HERE + 1, HERE + 2, lambda key: pytest.fail("asked"))
    found = read_cost(lambda before, actions, after: (before + actions + after)[:, 0] / 10, 1.0, step)
    np.testing.assert_allclose(found, [0.3, 0.3])
    with pytest.raises(ValueError, match="the cost function must lie in"):
        read_cost(lambda *_: np.array([0.0, 2.0]), 1.0, step)
    with pytest.raises(ValueError, match=r"the cost function returned shape \(2, 1\), expected \(2,\)"):
        read_cost(lambda *_: np.zeros((2, 1)), 1.0, step)


@pytest.mark.parametrize("flags", [np.zeros(2), np.zeros(3, dtype=bool), np.zeros((2, 1), dtype=bool), True])
def test_a_predicate_gives_a_flag_for_each(flags):
    with pytest.raises(ValueError, match=r"expected bool of shape \(2,\)"):
        indicator(lambda observations: flags, HERE)
    np.testing.assert_array_equal(indicator(lambda observations: [True, False], HERE), [1.0, 0.0])


def test_where_nothing_is_bad_nothing_is_refused():
    refuse(np.zeros(2, dtype=bool), np.zeros(2), "a rule")
    with pytest.raises(ValueError, match=r"environment 1 gave 7\.0: a rule"):
        refuse(np.array([False, True]), np.array([0.0, 7.0]), "a rule")
