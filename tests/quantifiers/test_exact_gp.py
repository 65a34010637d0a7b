"""The exact GP against dense linear algebra, its rule for keeping points, and its state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from safexp import ExactGP
from safexp.quantifiers import Transitions
from safexp.quantifiers.kernels import covariance

KERNELS = ["rbf", "matern12", "matern32", "matern52"]


def data_of(count, seed=0):
    rng = np.random.default_rng(seed)
    return Transitions(rng.uniform(size=(count, 2)), rng.uniform(size=(count, 1)), rng.uniform(size=count))


def dense(gp, points, costs, queries):
    """Mean and width by solving with the whole covariance matrix."""
    regularised = covariance(gp.kernel, points, points) + gp.regulariser * np.eye(len(points))
    cross = covariance(gp.kernel, points, queries)
    mean = gp.prior_mean + cross.T @ np.linalg.solve(regularised, costs - gp.prior_mean)
    variance = 1.0 - np.sum(cross * np.linalg.solve(regularised, cross), axis=0)
    log_det = np.linalg.slogdet(regularised / gp.regulariser)[1]
    beta = gp.norm_bound + gp.noise / math.sqrt(gp.regulariser) * math.sqrt(log_det + 2 * math.log(1 / gp.delta))
    return mean, beta * np.sqrt(variance)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_incremental_equals_dense(kernel, noise):
    gp = ExactGP(
        [0.5, 0.7, 0.9], norm_bound=1.3, noise=noise, kernel=kernel, prior_mean=0.4, regulariser=0.01, novelty=0.0
    )
    data = data_of(60)
    for part in range(3):
        rows = slice(20 * part, 20 * part + 20)
        gp.update(Transitions(data.states[rows], data.actions[rows], data.costs[rows]))
    assert gp.size == 60
    queries = data_of(7, seed=1)
    mean, width = gp.predict(queries.states, np.repeat(queries.actions[:, None], 2, axis=1))
    scaled = np.concatenate([queries.states, queries.actions], axis=1) / gp.lengthscale
    points = np.concatenate([data.states, data.actions], axis=1) / gp.lengthscale
    expected_mean, expected_width = dense(gp, points, data.costs, scaled)
    np.testing.assert_allclose(mean, np.stack([expected_mean] * 2, axis=1), atol=1e-10)
    np.testing.assert_allclose(width, np.stack([expected_width] * 2, axis=1), atol=1e-10)


def test_before_any_data_the_prior_is_all():
    mean, width = ExactGP(norm_bound=2.0, prior_mean=0.3).predict(np.zeros((1, 2)), np.zeros((1, 4, 1)))
    np.testing.assert_array_equal(mean, 0.3)
    np.testing.assert_array_equal(width, 2.0)


def test_points_are_kept_for_where_they_are_and_never_for_their_cost():
    data = data_of(400)
    kept = []
    for costs in (data.costs, 1 - data.costs):
        gp = ExactGP(0.3, novelty=0.05)
        gp.update(data._replace(costs=costs))
        kept.append(gp.state()["points"])
    np.testing.assert_array_equal(*kept)
    assert 20 < len(kept[0]) < 300


def test_every_point_that_is_not_kept_was_known():
    gp = ExactGP(0.5, norm_bound=1.0, novelty=0.05)
    data = data_of(300)
    gp.update(data)
    assert gp.size < gp.capacity
    _, width = gp.predict(data.states, data.actions[:, None])
    assert (width**2).max() <= 0.05 + 1e-9


def test_a_full_model_keeps_the_points_that_came_first():
    gp = ExactGP(0.05, capacity=25)
    data = data_of(100)
    gp.update(data)
    assert gp.size == 25
    expected = np.concatenate([data.states, data.actions], axis=1)[:25] / 0.05
    np.testing.assert_allclose(gp.state()["points"], expected)
    gp.update(data_of(100, seed=1))
    assert gp.size == 25


def test_widths_shrink_with_data():
    gp = ExactGP(0.5, noise=0.0)
    queries = data_of(50, seed=2)
    before = np.full((50, 1), np.inf)
    for seed in range(5):
        gp.update(data_of(20, seed=seed))
        _, width = gp.predict(queries.states, queries.actions[:, None])
        assert np.all(width <= before + 1e-9)
        before = width


def test_fit_forgets():
    gp = ExactGP(0.5)
    gp.update(data_of(50))
    gp.fit(data_of(5, seed=1))
    assert gp.size == 5


def test_state_and_settings_restore_the_model_to_the_bit():
    gp = ExactGP([0.5, 0.6, 0.7], norm_bound=2.0, noise=0.1, kernel="matern32", capacity=100)
    gp.update(data_of(60))
    other = ExactGP(**gp.settings())
    other.restore(gp.state())
    queries = data_of(9, seed=3)
    for found, expected in zip(
        other.predict(queries.states, queries.actions[:, None]),
        gp.predict(queries.states, queries.actions[:, None]),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    gp.update(data_of(60, seed=4))
    other.update(data_of(60, seed=4))
    np.testing.assert_array_equal(other.state()["inverse_factor"], gp.state()["inverse_factor"])


def test_a_smaller_delta_is_wider():
    gp = ExactGP(0.5, noise=0.1, delta=0.1)
    gp.update(data_of(10))
    assert gp.with_delta(0.01).beta > gp.beta


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengthscale": -1.0}, "lengthscale"),
        ({"norm_bound": 0.0}, r"ExactGP\(norm_bound=0.0\) must be finite and above 0"),
        ({"noise": -1.0}, r"ExactGP\(noise=-1.0\) must be finite and at least 0"),
        ({"delta": 1.0}, r"ExactGP\(delta=1.0\) must lie in \(0, 1\)"),
        ({"kernel": "cubic"}, "ExactGP.kernel='cubic'. is not one of rbf"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        ExactGP(**settings)


def test_wrong_dimensions_are_named():
    gp = ExactGP([1.0, 1.0])
    with pytest.raises(ValueError, match=r"2 lengthscales, but states and actions have 2 \+ 1 entries"):
        gp.update(data_of(3))
    gp = ExactGP(1.0)
    gp.update(data_of(3))
    with pytest.raises(ValueError, match="learned inputs of 3 entries, got 4"):
        gp.predict(np.zeros((1, 3)), np.zeros((1, 1, 1)))
