from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp.tasks.grid_world import (
    DOWN,
    LEFT,
    RIGHT,
    STAY,
    UP,
    GridWorld,
    random_world,
    rising_thresholds,
    violations,
)

FLAT = np.zeros((3, 3))


def test_cells_are_numbered_row_by_row_and_the_border_holds() -> None:
    world = GridWorld(FLAT, FLAT, start=4)
    assert world.next_state[4].tolist() == [4, 5, 7, 3, 1]
    assert world.next_state[0].tolist() == [0, 1, 3, 0, 0]
    assert world.valid[0].tolist() == [True, True, True, False, False]


def test_safety_is_the_drop_in_altitude() -> None:
    altitude = FLAT.copy()
    altitude[1, 2] = 0.2
    world = GridWorld(altitude, FLAT, start=4)
    assert world.safety[4, RIGHT] == -0.2
    assert world.safety[5, LEFT] == 0.2
    assert np.all(world.safety[:, STAY] == 0.0)
    assert np.all(world.safety[4, [DOWN, UP]] == 0.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_costs_and_thresholds_lie_in_the_unit_interval_and_order_moves_alike(seed: int) -> None:
    world = random_world(np.random.default_rng(seed), 8)
    cost, threshold = world.cost(world.safety), float(world.cost(world.threshold))
    assert np.all((cost >= 0.0) & (cost <= 1.0))
    assert 0.0 <= threshold <= 1.0
    assert np.array_equal(cost <= threshold, world.safety >= world.threshold)
    assert np.all(cost[:, STAY] == 0.5)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_seed_of_a_random_world_can_be_entered_and_left(seed: int) -> None:
    world = random_world(np.random.default_rng(seed), 8)
    height = world.altitude.ravel()
    start, horizontal, vertical = world.known
    assert start == world.start
    assert abs(horizontal - start) == 1
    assert abs(vertical - start) == 8
    assert max(abs(height[start] - height[horizontal]), abs(height[start] - height[vertical])) <= 0.25
    assert world.reward.min() == 0.0


def test_maps_have_the_variance_and_length_scale_of_their_kernel() -> None:
    worlds = [random_world(np.random.default_rng(seed), 20) for seed in range(200)]
    maps = np.array([world.altitude for world in worlds])
    assert np.mean(maps**2) == pytest.approx(1.0, abs=0.1)
    # Four cells are one length scale: the correlation there is exp(-1/2).
    assert np.mean(maps[:, :, 4:] * maps[:, :, :-4]) / np.mean(maps**2) == pytest.approx(np.exp(-0.5), abs=0.08)


def test_thresholds_rise_from_the_first_step() -> None:
    assert rising_thresholds(-0.25, 0.05, 5).tolist() == pytest.approx([-0.25, -0.24, -0.23, -0.22, -0.21])


def test_violations_count_climbs_only() -> None:
    altitude = np.array([[0.0, 0.3], [0.0, 0.0]])
    path, limits = np.array([0, 1, 0, 2, 2]), np.full(9, -0.25)
    assert violations(altitude, path, limits).tolist() == [True, False, False, False]
    assert not violations(altitude, path, np.full(9, -0.3)).any()


def test_what_is_seen_from_a_cell() -> None:
    assert GridWorld(FLAT, FLAT, start=4, sight=0).seen_from[4].tolist() == [4]
    assert sorted(GridWorld(FLAT, FLAT, start=4).seen_from[0].tolist()) == [0, 1, 3]
    assert sorted(GridWorld(FLAT, FLAT, start=4, sight=2).seen_from[0].tolist()) == [0, 1, 2, 3, 6]


@pytest.mark.parametrize(
    ("altitude", "start", "threshold", "message"),
    [
        (np.zeros((3, 4)), 0, -0.25, r"altitude map is \(3, 4\); a square map"),
        (np.zeros(9), 0, -0.25, r"altitude map is \(9,\); a square map"),
        (np.full((3, 3), np.nan), 0, -0.25, r"not finite in 9 cells, the first at \(0, 0\)"),
        (FLAT, 9, -0.25, "start 9 is not a cell: cells are numbered row by row from 0 to 8"),
        (np.diag([5.0, 5.0, 5.0]), 0, -0.25, "start 0 is unsafe: no neighbour .* choose another start"),
        (FLAT, 0, 0.1, "no move between cells has a safety of at least 0.1; the safest has 0: lower the threshold"),
    ],
)
def test_errors_say_what_was_wrong(altitude: np.ndarray, start: int, threshold: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GridWorld(altitude, np.zeros((3, 3)), start, threshold)


def test_maps_must_fit_each_other() -> None:
    with pytest.raises(ValueError, match=r"reward map is \(4, 4\), the altitude map \(3, 3\)"):
        GridWorld(FLAT, np.zeros((4, 4)), 4)


def test_a_random_world_that_nothing_satisfies_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no move of a random world has a safety of at least 0\.5"):
        random_world(np.random.default_rng(0), threshold=0.5)
