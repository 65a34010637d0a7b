"""Obstacles in the plane: frames, distances, settings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from safexp import Budget, Obstacles
from safexp.constraints.files import build_constraint, describe_constraint
from safexp.core.obstacles import distances_to, distances_to_walls, in_robot_frame, rotated
from safexp.core.signals import column_of, key_and_entry

NUMBERS = st.floats(-5, 5, width=32)


@given(arrays(np.float64, (3, 2), elements=NUMBERS), NUMBERS)
def test_rotation_keeps_lengths_and_is_undone_by_its_inverse(vectors, angle):
    turned = rotated(vectors, np.full(3, angle))
    assert np.linalg.norm(turned, axis=1) == pytest.approx(np.linalg.norm(vectors, axis=1), abs=1e-9)
    assert rotated(turned, np.full(3, -angle)) == pytest.approx(vectors, abs=1e-9)


def test_an_obstacle_ahead_is_ahead_whatever_the_heading():
    for heading in (0.0, 1.0, 3.0):
        ahead = [2.0 + 3 * np.cos(heading), -1.0 + 3 * np.sin(heading)]
        seen = in_robot_frame(np.array([[2.0, -1.0, heading, *ahead]]))
        assert seen[0, 0] == pytest.approx([3.0, 0.0], abs=1e-12)


@given(arrays(np.float64, (1, 4, 2), elements=NUMBERS), arrays(np.float64, (1, 3, 2), elements=NUMBERS))
def test_distances_of_sections_are_those_of_their_nearest_points(path, places):
    begin = np.concatenate([np.zeros((1, 1, 2)), path[:, :-1]], axis=1)
    share = np.linspace(0, 1, 201)[:, None, None, None]
    points = begin + share * (path - begin)  # (201, 1, 4, 2)
    brute = np.linalg.norm(points[..., None, :] - places[:, None], axis=-1).min(axis=(0, -1))
    exact = distances_to(path, places)
    assert (exact <= brute + 1e-9).all()
    assert exact == pytest.approx(brute, abs=0.05)


def test_each_obstacle_has_its_radius():
    path, places = np.array([[[1.0, 0.0], [2.0, 0.0]]]), np.array([[[1.0, 1.0], [2.0, 0.5]]])
    assert distances_to(path, places, np.array([[0.8, 0.1]]))[0] == pytest.approx([0.2, 0.2])
    assert distances_to(path, places, np.array([[0.1, 0.4]]))[0] == pytest.approx([np.sqrt(1.25) - 0.4, 0.1])


@given(arrays(np.float64, (2, 3, 2), elements=NUMBERS), arrays(np.float64, (2, 3), elements=NUMBERS))
def test_distances_to_walls_are_those_of_the_ends_of_a_section(path, pose):
    places = np.concatenate([np.zeros((2, 1, 2)), path], axis=1)
    world = rotated(places, pose[:, None, 2]) + pose[:, None, :2]
    share = np.linspace(0, 1, 11)[:, None, None, None]
    points = world[:, :-1] + share * (world[:, 1:] - world[:, :-1])
    brute = (np.array([2.0, 3.0]) - np.abs(points)).min(axis=(0, -1))
    assert distances_to_walls(path, pose, (2.0, 3.0)) == pytest.approx(brute, abs=1e-9)


@pytest.mark.parametrize(
    "obstacles",
    [Obstacles(4, 0.3, speed=0.01), Obstacles(2, (0.2, 0.3), solid=1), Obstacles(0, walls=(1.0, float("inf")))],
)
def test_obstacles_are_saved_with_their_constraint(obstacles):
    constraint = Budget(3.0, among=obstacles)
    assert build_constraint(describe_constraint(constraint)) == constraint


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"count": 0, "radius": 1.0}, "count=0"),
        ({"count": 1, "radius": 0.0}, "radius=0.0"),
        ({"count": 1, "radius": 1.0, "speed": -1.0}, "speed=-1.0"),
        ({"count": 1, "radius": float("nan")}, "radius=nan"),
        ({"count": 3, "radius": [1.0, 2.0]}, "one for each of 3"),
        ({"count": 1, "radius": 1.0, "solid": 2}, "solid=2"),
        ({"count": 0, "walls": (1.0,)}, "two lengths"),
        ({"count": 0, "walls": (1.0, -1.0)}, "two lengths"),
    ],
)
def test_impossible_obstacles_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem):
        Obstacles(**settings)


def test_entries_of_arrays_are_signals():
    assert key_and_entry("imu[12]") == ("imu", 12)
    assert key_and_entry("plain") == ("plain", None)
    values = np.arange(12.0).reshape(3, 2, 2)
    assert column_of(values, "places[2]").tolist() == [2.0, 6.0, 10.0]
    with pytest.raises(ValueError, match=r"info\['places'\] has 4 entries, counted from 0"):
        column_of(values, "places[4]")
    with pytest.raises(ValueError, match=r"name one of its entries, such as places\[0\]"):
        column_of(values, "places")
