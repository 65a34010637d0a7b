"""Quantifiers that learn nothing, and several side by side."""

import numpy as np
import pytest

from safexp import Each, ExactGP, Known, Unknown
from safexp.quantifiers import Transitions

STATES = np.array([[1.0], [2.0]])
ACTIONS = np.array([[[0.0], [1.0], [2.0]]] * 2)


def test_unknown_knows_nothing():
    mean, width = Unknown().predict(STATES, ACTIONS)
    assert mean.shape == width.shape == (2, 3)
    assert np.all(np.isinf(width))


def test_known_pairs_every_state_with_its_actions():
    mean, width = Known(lambda s, a: s[:, 0] * a[:, 0] / 4, width=lambda s, a: s[:, 0] / 10).predict(STATES, ACTIONS)
    np.testing.assert_allclose(mean, [[0.0, 0.25, 0.5], [0.0, 0.5, 1.0]])
    np.testing.assert_allclose(width, [[0.1] * 3, [0.2] * 3])


def test_each_learns_its_own_cost_and_adds_up_deltas():
    both = Each.of(ExactGP(1.0, delta=0.1), 2)
    assert both.delta == pytest.approx(0.1)
    both.fit(Transitions(STATES, ACTIONS[:, 0], np.array([[0.1, 0.9], [0.2, 0.8]])))
    mean, width = both.predict(STATES, ACTIONS[:, :1])
    assert width.shape == (2, 1, 2)
    np.testing.assert_allclose(mean[:, 0], [[0.1, 0.9], [0.2, 0.8]], atol=1e-3)
    copy = Each.of(ExactGP(1.0, delta=0.1), 2)
    copy.restore(both.state())
    np.testing.assert_array_equal(copy.predict(STATES, ACTIONS)[0], both.predict(STATES, ACTIONS)[0])
    assert both.with_delta(0.02).parts[0].delta == 0.01
