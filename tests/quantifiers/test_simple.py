"""Quantifiers that learn nothing, and several side by side."""

import numpy as np
import pytest

from safexp import Calibrated, Each, ExactGP, FromMargin, Known, Projected, SparseGP, Unknown
from safexp.quantifiers import GLM, Transitions

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


@pytest.mark.parametrize(
    "quantifier",
    [
        SparseGP("margin"),
        FromMargin(SparseGP(), softness=0.1),
        Calibrated(Projected(SparseGP("margin"), np.eye(2))),
    ],
)
def test_one_margin_does_not_speak_for_several_costs(quantifier):
    with pytest.raises(ValueError, match="models the margin, and 2 copies of it would predict 2 costs from that alone"):
        Each.of(quantifier, 2)
    assert len(Each.of(quantifier, 1).parts) == 1


def test_a_regulariser_of_zero_is_not_the_usual_one():
    with pytest.raises(ValueError, match=r"regulariser is 0\.0; it must be positive"):
        GLM(lambda states, actions: actions, 1, regulariser=0.0)


def test_several_costs_in_one_process_are_refused():
    data = Transitions(np.zeros((4, 2)), np.zeros((4, 1)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="give each of several costs a quantifier of its own"):
        ExactGP(1.0, 1.0).fit(data)
