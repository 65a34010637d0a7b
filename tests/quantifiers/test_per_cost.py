"""A quantifier for each of several costs."""

import numpy as np
import pytest

from safexp import Calibrated, ExactGP, PerCost, SparseGP
from safexp.quantifiers import Transitions

STATES = np.array([[1.0], [2.0]])
ACTIONS = np.array([[[0.0], [1.0], [2.0]]] * 2)


def test_each_learns_its_own_cost_and_adds_up_deltas():
    both = PerCost.of(ExactGP(1.0, delta=0.1), 2)
    assert both.delta == pytest.approx(0.1)
    both.fit(Transitions(STATES, ACTIONS[:, 0], np.array([[0.1, 0.9], [0.2, 0.8]])))
    mean, width = both.predict(STATES, ACTIONS[:, :1])
    assert width.shape == (2, 1, 2)
    np.testing.assert_allclose(mean[:, 0], [[0.1, 0.9], [0.2, 0.8]], atol=1e-3)
    copy = PerCost.of(ExactGP(1.0, delta=0.1), 2)
    copy.restore(both.state())
    np.testing.assert_array_equal(copy.predict(STATES, ACTIONS)[0], both.predict(STATES, ACTIONS)[0])
    assert both.with_delta(0.02).parts[0].delta == 0.01


@pytest.mark.parametrize(
    "quantifier",
    [SparseGP("margin"), Calibrated(SparseGP("margin"))],
)
def test_one_margin_does_not_speak_for_several_costs(quantifier):
    with pytest.raises(ValueError, match="models the margin, and 2 copies of it would predict 2 costs from that alone"):
        PerCost.of(quantifier, 2)
    assert len(PerCost.of(quantifier, 1).parts) == 1
