"""Landmarks: few points, all others near one of them, and distances from the nearest."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safexp.quantifiers.landmarks import CAPACITY, Landmarks


@given(arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 3)), elements=st.floats(-1e3, 1e3)))
def test_all_points_are_within_the_radius_of_a_landmark(points):
    landmarks = Landmarks.covering(points)
    assert (landmarks.nearest(points) <= landmarks.radius + 1e-2).all()


def test_many_points_are_covered_by_few_landmarks():
    points = np.random.default_rng(0).normal(size=(9000, 3))
    landmarks = Landmarks.covering(points)
    assert len(landmarks.points) == CAPACITY
    assert landmarks.nearest(points).max() <= landmarks.radius < 0.7
    far = np.array([[9.0, 9.0, 9.0]])
    assert landmarks.nearest(far) > 5
    assert landmarks.and_covering(far).nearest(far) < 1e-5


def test_more_of_the_same_leaves_the_radius_as_it_was():
    rng = np.random.default_rng(0)
    landmarks = first = Landmarks.covering(rng.uniform(size=(5000, 3)))
    for _ in range(5):
        landmarks = landmarks.and_covering(rng.uniform(size=(2000, 3)))
    assert landmarks.radius < 1.5 * first.radius


def test_repeated_points_are_covered_exactly():
    points = np.tile([[0.1, 0.7], [3.0, -2.0]], (5000, 1))
    landmarks = Landmarks.covering(points)
    assert landmarks.radius < 1e-6
    assert landmarks.nearest(np.array([[3.1, -2.0]])).round(6) == 0.1


def test_distances_are_those_from_the_nearest_landmark():
    rng = np.random.default_rng(0)
    landmarks, points = Landmarks(rng.normal(size=(7, 3))), rng.normal(size=(20, 3))
    expected = np.linalg.norm(points[:, None] - landmarks.points, axis=2).min(axis=1)
    np.testing.assert_allclose(landmarks.nearest(points), expected)
    pairs = landmarks.distance_of_pairs(points[:, :2], np.repeat(points[:, None, 2:], 2, axis=1))
    np.testing.assert_allclose(pairs, np.repeat(expected[:, None], 2, axis=1))
