"""A square of actions around a state, and a quantifier that fails, for tests of what is deployed."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from safexp import Unknown

STATES = spaces.Box(-1.0, 1.0, (2,), np.float64)
SQUARE = spaces.Box(-1.0, 1.0, (2,), np.float32)
HERE = np.zeros(2)
BRAKE = np.array([0.0, -1.0], dtype=np.float32)
WILD = np.array([1.0, 1.0], dtype=np.float32)


class Raising(Unknown):
    def predict(self, states, actions):
        raise ZeroDivisionError("no")
