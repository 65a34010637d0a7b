"""Costs from margins: exact intervals, learning, and the limits of its reach."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import ExactGP, FromMargin, Known
from safexp.quantifiers import Transitions


def soft_cost(margin, softness=0.1):
    return 1.0 / (1.0 + np.exp(margin / softness))


@given(st.floats(-1.5, 1.5), st.floats(0.0, 0.4), st.floats(-1.0, 1.0), st.floats(0.02, 0.5))
def test_an_interval_of_the_margin_becomes_the_exact_interval_of_the_cost(margin, width, within, softness):
    even, even_width = 0.5 - margin / 4, width / 4
    inner = Known(lambda states, actions: np.full(len(states), even), even_width)
    mean, found = FromMargin(inner, softness).predict(np.zeros((1, 3)), np.zeros((1, 1, 1)))
    assert mean[0, 0] + found[0, 0] == pytest.approx(soft_cost(margin - width, softness), abs=1e-9)
    assert mean[0, 0] - found[0, 0] == pytest.approx(soft_cost(margin + width, softness), abs=1e-9)
    true = soft_cost(margin + within * width, softness)
    assert abs(true - mean[0, 0]) <= found[0, 0] + 1e-9


def test_beyond_its_reach_any_cost_is_possible():
    inner = Known(lambda states, actions: np.ones(len(states)))  # what all margins from −reach down are learned as
    mean, width = FromMargin(inner, softness=2.0, reach=2.0).predict(np.zeros((1, 3)), np.zeros((1, 1, 1)))
    assert mean[0, 0] + width[0, 0] == 1.0


def test_margins_are_learned_and_costs_predicted():
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (300, 3))
    margins = 0.5 + 0.5 * states[:, 0]
    quantifier = FromMargin(ExactGP([1.0, 99, 99, 99], norm_bound=1.5), softness=0.1)
    quantifier.fit(Transitions(states, np.zeros((300, 1)), soft_cost(margins), margins))
    mean, width = quantifier.predict(np.array([[-0.9, 0, 0]]), np.zeros((1, 1, 1)))
    assert abs(mean[0, 0] - soft_cost(0.05)) <= width[0, 0] < 0.2
    with pytest.raises(ValueError, match="without margins"):
        quantifier.update(Transitions(states, np.zeros((300, 1)), soft_cost(margins)))
