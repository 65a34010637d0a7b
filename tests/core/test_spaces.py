"""Spaces as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from safexp.core.files import CheckpointError
from safexp.core.spaces import build_space, describe_space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-np.inf, np.inf, (2, 3), np.float32),
        spaces.Box(np.array([0.1, -2.0]), np.array([0.3, 5.0]), dtype=np.float64),
        spaces.Discrete(4, start=-1),
        spaces.MultiDiscrete([2, 3]),
        spaces.MultiBinary(3),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (1,))}),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]),
    ],
)
def test_spaces_come_back(space):
    assert build_space(json.loads(json.dumps(describe_space(space)))) == space


def test_a_space_that_cannot_be_saved_is_named():
    with pytest.raises(CheckpointError, match="Graph"):
        describe_space(spaces.Graph(spaces.Box(0, 1, (1,)), None))
