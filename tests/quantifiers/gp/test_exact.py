"""The exact GP against dense linear algebra, its rule for keeping points, and its state."""

from __future__ import annotations

import math

import numpy as np
import pytest

from safexp import ExactGP
from safexp.quantifiers import Transitions
from safexp.quantifiers.gp.kernels import covariance

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


def same_predictions(one, other):
    queries = data_of(9, seed=3)
    for found, expected in zip(
        one.predict(queries.states, queries.actions[:, None]),
        other.predict(queries.states, queries.actions[:, None]),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_second_fit_is_as_good_as_the_first():
    refitted, fresh = ExactGP(0.5, noise=0.1), ExactGP(0.5, noise=0.1)
    refitted.fit(data_of(200))
    refitted.fit(data_of(50, seed=1))
    fresh.fit(data_of(50, seed=1))
    assert refitted.beta == fresh.beta
    same_predictions(refitted, fresh)


def test_a_fit_of_other_inputs_forgets_their_number():
    gp = ExactGP(0.5)
    gp.fit(Transitions(np.zeros((1, 4)), np.zeros((1, 1)), np.zeros(1)))
    gp.fit(data_of(5))
    assert gp.size == 5


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_beta_is_the_closed_form(noise):
    gp = ExactGP(0.5, norm_bound=1.5, noise=noise, delta=0.1, regulariser=0.02, novelty=0.0)
    gp.fit(data_of(30))
    points = gp.state()["points"]
    assert len(points) == 30
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    _, information = np.linalg.slogdet(np.eye(30) + np.exp(-squares / 2) / 0.02)
    expected = 1.5 + noise / np.sqrt(0.02) * np.sqrt(information + 2 * np.log(10.0))
    assert gp.beta == pytest.approx(expected)
    assert ExactGP(norm_bound=1.5, noise=noise, delta=0.1, regulariser=0.02).beta == pytest.approx(
        1.5 + noise / np.sqrt(0.02) * np.sqrt(2 * np.log(10.0))
    )


def test_a_restored_model_is_as_sure_as_the_saved_one():
    gp = ExactGP(0.5, noise=0.1)
    gp.fit(data_of(60))
    other = ExactGP(0.5, noise=0.1)
    other.fit(data_of(90, seed=5))
    other.restore(gp.state())
    assert other.beta == pytest.approx(gp.beta, rel=1e-12)
    assert other.size == gp.size
    same_predictions(gp.with_delta(gp.delta), other)


def test_many_points_at_once_and_in_parts_give_the_same_model(monkeypatch):
    data = data_of(90)
    whole = ExactGP(0.3, novelty=0.05)
    whole.fit(data)
    monkeypatch.setattr("safexp.quantifiers.gp.exact.CHUNK", 7)
    chunks, parts = ExactGP(0.3, novelty=0.05), ExactGP(0.3, novelty=0.05)
    chunks.fit(data)
    for start in range(0, 90, 30):
        parts.update(Transitions(*(None if part is None else part[start : start + 30] for part in data)))
    for other in (chunks, parts):
        np.testing.assert_array_equal(other.state()["points"], whole.state()["points"])
        np.testing.assert_array_equal(other.state()["costs"], whole.state()["costs"])
        assert other.beta == pytest.approx(whole.beta)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm_bound": np.inf},
        {"norm_bound": np.nan},
        {"noise": np.inf},
        {"novelty": -0.1},
        {"novelty": np.nan},
        {"capacity": 0},
        {"regulariser": 0.0},
        {"regulariser": np.inf},
        {"delta": 0.0},
        {"delta": np.nan},
        {"lengthscale": [1.0, 0.0]},
        {"lengthscale": np.nan},
    ],
)
def test_settings_that_void_the_bound_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        ExactGP(**settings)


def test_settings_at_their_ends_are_taken():
    gp = ExactGP(0.5, noise=0.0, novelty=0.0, capacity=1)
    gp.fit(data_of(3))
    assert gp.size == 1
    assert (gp.regulariser, ExactGP(noise=0.5).regulariser, ExactGP(noise=0.5, regulariser=0.1).regulariser) == (
        1e-6,
        0.25,
        0.1,
    )
    assert (gp.bounds_realised_cost, ExactGP(noise=0.1).bounds_realised_cost) == (True, False)


def test_a_file_of_too_many_points_is_refused():
    gp = ExactGP(0.5, capacity=10, novelty=0.0)
    gp.fit(data_of(10))
    other = ExactGP(0.5, capacity=10)
    other.restore(gp.state())
    with pytest.raises(ValueError, match=r"10 saved points do not fit into ExactGP\(capacity=9\)"):
        ExactGP(0.5, capacity=9).restore(gp.state())


def test_a_fit_that_fails_changes_nothing():
    gp, twin, bad = ExactGP(0.5, noise=0.1), ExactGP(0.5, noise=0.1), data_of(5)
    gp.fit(data_of(50))
    twin.fit(data_of(50))
    with pytest.raises(ValueError, match="cost"):
        gp.fit(bad._replace(costs=np.full(5, np.nan)))
    same_predictions(gp, twin)


def test_the_defaults_are_those_of_the_documentation():
    assert ExactGP().settings() == {
        "lengthscale": [1.0],
        "norm_bound": 1.0,
        "noise": 0.0,
        "delta": 0.05,
        "kernel": "rbf",
        "regulariser": 1e-6,
        "prior_mean": 0.0,
        "capacity": 1000,
        "novelty": 1e-3,
    }


def test_only_a_variance_above_the_novelty_is_worth_a_place():
    nothing = ExactGP(0.5, novelty=1.0)
    nothing.fit(data_of(20))
    assert nothing.size == 0
    same_predictions(nothing, ExactGP(0.5, novelty=1.0))


def test_several_costs_in_one_process_are_refused():
    data = Transitions(np.zeros((4, 2)), np.zeros((4, 1)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match="use one quantifier for each of several costs"):
        ExactGP(1.0, 1.0).fit(data)
