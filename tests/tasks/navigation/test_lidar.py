"""The vectorised lidar against one that looks at one thing after the other."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp.tasks.navigation.lidar import lidar
from safexp.tasks.navigation.robots import rotation_matrices


def one_by_one(things, position, rotation, bins):
    readings = [0.0] * bins
    for x, y in things:
        ahead, left, _ = (np.array([x, y, 0.0]) - position) @ rotation
        closeness = max(0.0, 3.0 - abs(complex(ahead, left))) / 3.0
        angle = cmath.phase(complex(ahead, left)) % (2 * math.pi)
        width = 2 * math.pi / bins
        middle = int(angle / width)
        share = angle / width - middle
        for index, value in ((middle, 1.0), (middle + 1, share), (middle - 1, 1.0 - share)):
            readings[index % bins] = max(readings[index % bins], value * closeness)
    return readings


@pytest.mark.parametrize("bins", [1, 2, 16, 33])
def test_equals_a_loop_over_things(bins: int) -> None:
    rng = np.random.default_rng(bins)
    things = rng.uniform(-2.5, 2.5, (40, 7, 2))
    position = rng.uniform(-1.5, 1.5, (40, 3)) * [1, 1, 0.1]
    quaternions = rng.normal(size=(40, 4))
    rotation = rotation_matrices(quaternions / np.linalg.norm(quaternions, axis=1)[:, None]).reshape(40, 3, 3)
    channels = np.array([0, 1, 1, 1, 2, 1, 2])
    readings = lidar(things, channels, position, rotation, bins=bins).reshape(40, 3, bins)
    for row in range(40):
        for channel in range(3):
            expected = one_by_one(things[row, channels == channel], position[row], rotation[row], bins)
            assert readings[row, channel] == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)  # the machine may be busy
@given(st.floats(-math.pi, math.pi), st.floats(0.01, 4.0))
def test_a_reading_changes_continuously_with_the_angle(angle: float, distance: float) -> None:
    level, origin = np.eye(3)[None], np.zeros((1, 3))
    readings = [
        lidar(distance * np.array([[[np.cos(a), np.sin(a)]]]), np.array([0]), origin, level, bins=16)
        for a in (angle, angle + 1e-9)
    ]
    assert np.abs(readings[0] - readings[1]).max() < 1e-7
    assert ((readings[0] >= 0) & (readings[0] <= 1)).all()


def test_a_thing_out_of_sight_reads_zero() -> None:
    assert not lidar(np.array([[[3.0, 0.0]]]), np.array([0]), np.zeros((1, 3)), np.eye(3)[None], bins=16).any()
