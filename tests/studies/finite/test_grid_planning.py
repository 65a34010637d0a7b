from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from safexp.studies.finite.grid_planning import evaluate_policy, policy_iteration, returnable, shortest_route
from safexp.tasks.grid_world import GridWorld

seeds = st.integers(0, 2**32 - 1)


def world_and_moves(seed: int) -> tuple[GridWorld, np.ndarray, np.random.Generator]:
    generator = np.random.default_rng(seed)
    size = int(generator.integers(2, 7))
    world = GridWorld(np.zeros((size, size)), np.zeros((size, size)), 0)
    return world, world.valid & (generator.random((size * size, 5)) < generator.uniform(0.3, 0.9)), generator


def graph(world: GridWorld, allowed: np.ndarray) -> csr_array:
    rows, _ = np.nonzero(allowed)
    return csr_array((np.ones(len(rows)), (rows, world.next_state[allowed])), shape=(world.size, world.size))


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_returnable_is_the_strongly_connected_component(seed: int) -> None:
    world, allowed, generator = world_and_moves(seed)
    state = int(generator.integers(world.size))
    labels = connected_components(graph(world, allowed), connection="strong")[1]
    assert np.array_equal(returnable(allowed, state), labels == labels[state])


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_routes_are_allowed_and_shortest(seed: int) -> None:
    world, allowed, generator = world_and_moves(seed)
    start = int(generator.integers(world.size))
    distances = shortest_path(graph(world, allowed), unweighted=True, indices=start)
    for end in np.flatnonzero(np.isfinite(distances)):
        cell = start
        route = shortest_route(allowed, start, int(end))
        for here, action in route:
            assert here == cell
            assert allowed[here, action]
            cell = int(world.next_state[here, action])
        assert cell == end
        assert len(route) == distances[end]


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_policy_values_solve_the_linear_system(seed: int) -> None:
    generator = np.random.default_rng(seed)
    following = generator.integers(0, 12, 12)
    reward, discount = generator.normal(size=12), generator.uniform(0.0, 0.99, 12)
    transition = np.zeros((12, 12))
    transition[np.arange(12), following] = discount
    expected = np.linalg.solve(np.eye(12) - transition, reward)
    np.testing.assert_allclose(evaluate_policy(following, reward, discount), expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_policy_iteration_ends_at_the_optimum(seed: int) -> None:
    world, allowed, generator = world_and_moves(seed)
    reward, discount = generator.normal(size=allowed.shape), np.full(allowed.shape, 0.9)
    start = generator.integers(0, 5, world.size)
    values = [value for _, value in policy_iteration(world.next_state, allowed, reward, discount, start)]
    optimal = np.zeros(world.size)
    for _ in range(400):
        best = np.where(allowed, reward + discount * optimal[world.next_state], -np.inf).max(axis=1)
        optimal = np.where(allowed.any(axis=1), best, 0.0)
    if values:
        np.testing.assert_allclose(values[-1], optimal, atol=1e-9)
        assert all(np.all(later >= earlier - 1e-9) for earlier, later in pairwise(values))


def test_three_by_three_by_hand() -> None:
    """Only the last cell pays, 2 each time it is entered or kept, discounted by one half: worth 4, halved per step."""
    reward = np.zeros((3, 3))
    reward[2, 2] = 2.0
    world = GridWorld(np.zeros((3, 3)), reward, 0)
    paid = reward.ravel()[world.next_state]
    *_, (_, value) = policy_iteration(world.next_state, world.valid, paid, np.full((9, 5), 0.5), np.zeros(9, dtype=int))
    expected = [[0.5, 1.0, 2.0], [1.0, 2.0, 4.0], [2.0, 4.0, 4.0]]
    np.testing.assert_allclose(value.reshape(3, 3), expected, atol=1e-12, rtol=0)
