"""Nothing is known."""

import numpy as np

from safexp import Unknown

STATES = np.array([[1.0], [2.0]])
ACTIONS = np.array([[[0.0], [1.0], [2.0]]] * 2)


def test_unknown_knows_nothing():
    mean, width = Unknown().predict(STATES, ACTIONS)
    assert mean.shape == width.shape == (2, 3)
    assert np.all(np.isinf(width))
