from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from safexp.studies.finite.grid_gp import GridGP
from safexp.tasks.grid_world import LEFT, RIGHT, GridWorld


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6), st.integers(1, 12))
def test_it_equals_the_textbook_posterior(seed: int, size: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    cells = generator.permutation(size * size)[:count]
    values = generator.normal(size=(2, len(cells)))
    model = GridGP(2, size, noise_variance=1e-4)
    for batch in np.array_split(np.arange(len(cells)), 3):
        if len(batch):
            model.observe(cells[batch], values[:, batch])

    at = np.stack(np.divmod(np.arange(size * size), size), axis=1) * 0.5
    kernel = np.exp(-((at[:, None] - at) ** 2).sum(axis=2) / 8.0)
    gain = kernel[:, cells] @ np.linalg.inv(kernel[np.ix_(cells, cells)] + 1e-4 * np.eye(len(cells)))
    posterior = kernel - gain @ kernel[cells]
    np.testing.assert_allclose(model.mean, values @ gain.T, atol=1e-7)
    np.testing.assert_allclose(model.variance(), np.diag(posterior), atol=1e-9)

    world = GridWorld(np.zeros((size, size)), np.zeros((size, size)), 0)
    here, there = np.arange(size * size)[:, None], world.next_state
    difference = posterior[here, here] + posterior[there, there] - 2 * posterior[here, there]
    np.testing.assert_allclose(model.move_variance(), difference, atol=1e-9)
    single = [[model.difference_variance(cell, after) for after in there[cell]] for cell in range(size * size)]
    np.testing.assert_allclose(single, difference, atol=1e-9)


def test_three_by_three_by_hand() -> None:
    """The middle row of a 3 x 3 grid, its middle and right cell seen: every number from 2 x 2 algebra."""
    noise, near, far = 1e-6, np.exp(-1.0 / 32.0), np.exp(-4.0 / 32.0)
    model = GridGP(1, 3, noise_variance=noise)
    model.observe(np.array([4, 5]), np.array([[0.3, 0.1]]))

    # The inverse of [[1 + noise, near], [near, 1 + noise]], applied to the covariances (near, far) of the left cell.
    determinant = (1.0 + noise) ** 2 - near**2
    first = ((1.0 + noise) * near - near * far) / determinant
    second = ((1.0 + noise) * far - near * near) / determinant
    mean = 0.3 * first + 0.1 * second
    variance = 1.0 - near * first - far * second
    assert model.mean[0, 3] == pytest.approx(mean, abs=1e-12)
    assert model.variance()[3] == pytest.approx(variance, abs=1e-12)

    # The difference of left and middle: its covariances with the two seen cells are near - 1 and far - near.
    to_middle, to_right = near - 1.0, far - near
    explained = ((1.0 + noise) * (to_middle**2 + to_right**2) - 2.0 * near * to_middle * to_right) / determinant
    expected = 2.0 - 2.0 * near - explained
    assert model.move_variance()[3, RIGHT] == pytest.approx(expected, abs=1e-12)
    assert model.move_variance()[4, LEFT] == pytest.approx(expected, abs=1e-12)


def test_seen_cells_are_known() -> None:
    model = GridGP(1, 4)
    assert model.unseen(np.array([1, 2, 5])).tolist() == [1, 2, 5]
    model.observe(np.array([2]), np.array([[0.7]]))
    assert model.unseen(np.array([1, 2, 5])).tolist() == [1, 5]
    assert model.mean[0, 2] == pytest.approx(0.7, abs=1e-5)
    assert model.variance()[2] == pytest.approx(0.0, abs=2e-6)
