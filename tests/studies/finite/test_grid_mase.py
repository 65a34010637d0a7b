from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from safexp.studies.finite.grid_mase import grid_mase
from safexp.studies.finite.sno_mdp import sno_mdp
from safexp.tasks.grid_world import GridWorld, random_world, rising_thresholds, violations


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beta", [2.0, 4.0])
def test_under_a_fixed_threshold_it_walks_as_sno_mdp_does(seed: int, beta: float) -> None:
    world = random_world(np.random.default_rng(seed))
    fixed = world.cost(rising_thresholds(world.threshold, 0.0, 150))
    ours, theirs = grid_mase(world, fixed, beta=beta), sno_mdp(world, steps=150, beta=beta)
    assert np.array_equal(ours.path, theirs.path)
    assert np.array_equal(ours.certified, theirs.certified)


@pytest.mark.parametrize("seed", range(8))
def test_it_keeps_a_rising_threshold(seed: int) -> None:
    world = random_world(np.random.default_rng(seed))
    limits = rising_thresholds(world.threshold, 0.05, 200)
    run = grid_mase(world, world.cost(limits))
    assert not run.stopped
    assert not violations(world.altitude, run.path, limits).any()


def test_it_asks_for_a_threshold_only_when_it_is_due() -> None:
    world = random_world(np.random.default_rng(0), 8)
    asked = []

    def thresholds() -> Iterator[float]:
        for step in range(20):
            asked.append(step)
            yield 1.0 if step == 5 else float(world.cost(world.threshold))

    unlimited = grid_mase(world, thresholds())
    assert asked == list(range(20))
    fixed = grid_mase(world, [float(world.cost(world.threshold))] * 20)
    assert np.array_equal(unlimited.path[:6], fixed.path[:6])


def test_it_stops_before_a_threshold_that_not_even_staying_satisfies() -> None:
    """Staying costs exactly 1/2, so b < 1/2 leaves A⁺ empty on flat ground: the stop comes before the step."""
    world = GridWorld(np.zeros((4, 4)), np.ones((4, 4)), start=5)
    run = grid_mase(world, [0.6, 0.6, 0.4, 0.6])
    assert run.stopped
    assert len(run.rewards) == 2


def test_everything_is_allowed_where_the_threshold_is_one() -> None:
    altitude = np.random.default_rng(0).normal(size=(5, 5))
    altitude[0, :2] = 0.0
    world = GridWorld(altitude, np.ones((5, 5)), start=0)
    run = grid_mase(world, [1.0] * 5)
    assert np.array_equal(run.certified, world.valid)
