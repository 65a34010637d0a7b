"""Costs that are known as functions."""

import numpy as np

from safexp import Known

STATES = np.array([[1.0], [2.0]])
ACTIONS = np.array([[[0.0], [1.0], [2.0]]] * 2)


def test_known_pairs_every_state_with_its_actions():
    mean, width = Known(lambda s, a: s[:, 0] * a[:, 0] / 4, width=lambda s, a: s[:, 0] / 10).predict(STATES, ACTIONS)
    np.testing.assert_allclose(mean, [[0.0, 0.25, 0.5], [0.0, 0.5, 1.0]])
    np.testing.assert_allclose(width, [[0.1] * 3, [0.2] * 3])
