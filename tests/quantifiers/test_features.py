"""Linear regression on features: rank-one against dense algebra, the self-normalised bound, and its state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safexp import FeatureRegression
from safexp.quantifiers import Transitions
from safexp.quantifiers.feature_training import train
from safexp.quantifiers.features import network, random_layer
from safexp.quantifiers.linear_head import FEW, Head


def steps(count, seed=0):
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-2, 2, (count, 2)), rng.uniform(-1, 1, (count, 2))
    margins = np.linalg.norm(states + actions / 4, axis=1) - 1.0
    return Transitions(states, actions, (margins < 0).astype(float), margins)


@given(st.lists(st.integers(1, 2 * FEW), min_size=1, max_size=5), st.integers(0, 99))
def test_rank_one_updates_equal_dense_algebra(sizes, seed):
    rng = np.random.default_rng(seed)
    head, rows, values = Head(6, 0.3), np.zeros((0, 6)), np.zeros(0)
    for size in sizes:
        phi, y = rng.normal(size=(size, 6)), rng.normal(size=size)
        head.absorb(phi, y)
        rows, values = np.concatenate([rows, phi]), np.concatenate([values, y])
    gram = 0.3 * np.eye(6) + rows.T @ rows
    queries = rng.normal(size=(4, 6))
    mean, norm = head.predict(queries)
    np.testing.assert_allclose(mean, queries @ np.linalg.solve(gram, rows.T @ values), atol=1e-9)
    np.testing.assert_allclose(norm, np.sqrt(np.sum(queries * np.linalg.solve(gram, queries.T).T, axis=1)), atol=1e-9)
    information = np.linalg.slogdet(gram / 0.3)[1]
    expected = math.sqrt(0.3) * 2.0 + 0.1 * math.sqrt(information + 2 * math.log(1 / 0.05))
    assert head.scale(2.0, 0.1, 0.05) == pytest.approx(expected)


def test_the_bound_holds_at_all_times_where_the_target_is_linear_in_the_features():
    broken = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        theta = rng.normal(size=8)
        theta /= np.linalg.norm(theta)
        head, queries = Head(8, 0.1), rng.normal(size=(50, 8)) / 3
        missed = False
        for _ in range(10):
            phi = rng.normal(size=(5, 8)) / 3
            head.absorb(phi, phi @ theta + 0.1 * rng.normal(size=5))
            mean, norm = head.predict(queries)
            missed |= bool(np.any(np.abs(mean - queries @ theta) > head.scale(1.0, 0.1, 0.1) * norm))
        broken += missed
    assert broken <= 10, "δ = 0.1 of 100 runs"


def test_a_narrower_width_would_not_hold():
    rng = np.random.default_rng(0)
    theta = np.full(8, 8**-0.5)
    head, queries = Head(8, 0.1), rng.normal(size=(200, 8)) / 3
    phi = rng.normal(size=(5, 8)) / 3
    head.absorb(phi, phi @ theta)
    mean, norm = head.predict(queries)
    error = np.abs(mean - queries @ theta)
    assert np.all(error <= head.scale(1.0, 0.0, 0.1) * norm)
    assert np.any(error > 0.5 * head.scale(1.0, 0.0, 0.1) * norm)


def test_random_features_approximate_an_rbf_kernel():
    x = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 5.0, 0.1] + [0.0, 9.0, -3.0]
    frequencies, phases = random_layer(x, 20_000, 1.5, seed=0)
    phi = math.sqrt(2 / 20_000) * np.cos(x[:20] @ frequencies + phases)
    scaled = (x[:20] - x.mean(axis=0)) / x.std(axis=0) / 1.5
    kernel = np.exp(-0.5 * np.sum((scaled[:, None] - scaled) ** 2, axis=2))
    np.testing.assert_allclose(phi @ phi.T, kernel, atol=0.03)


def test_random_features_learn_a_smooth_margin():
    model = FeatureRegression("margin", lengthscale=1.0, norm_bound=10.0)
    model.fit(steps(2000))
    fresh = steps(1000, seed=1000)
    mean, width = model.interval(fresh.states, fresh.actions[:, None])
    assert np.sqrt(np.mean((mean[:, 0] - fresh.margins) ** 2)) < 0.05
    assert np.mean(np.abs(mean[:, 0] - fresh.margins) <= width[:, 0]) > 0.99


def test_many_small_updates_equal_one_large():
    data = steps(60)
    one, many = FeatureRegression("margin", num_features=20), FeatureRegression("margin", num_features=20)
    one.fit(data)
    many.fit(data)
    extra = steps(45, seed=1)
    one.update(extra)
    for k in range(0, 45, 5):
        many.update(Transitions(*(None if part is None else part[k : k + 5] for part in extra)))
    queries = np.zeros((1, 2)), np.linspace(-1, 1, 6).reshape(1, 3, 2)
    np.testing.assert_allclose(one.interval(*queries), many.interval(*queries), atol=1e-8)


def test_learned_features_fit_better_than_they_began():
    rng = np.random.default_rng(0)
    data = steps(1000)
    pairs = np.concatenate([data.states, data.actions], axis=1)
    errors = []
    for count in (1, 300):
        layers = train(
            pairs, data.margins, [], num_features=8, steps=count, learning_rate=1e-2, rng=np.random.default_rng(0)
        )
        phi = network(layers, pairs)
        assert np.linalg.norm(phi, axis=1).max() <= 1.0
        theta = np.linalg.lstsq(phi, data.margins, rcond=None)[0]
        errors.append(np.std(phi @ theta - data.margins))
    assert errors[1] < 0.5 * errors[0]
    again = train(pairs, data.margins, layers, num_features=8, steps=1, learning_rate=1e-9, rng=rng)
    np.testing.assert_allclose(network(again, pairs), phi, atol=1e-4)


@pytest.mark.parametrize("features", ["random", "learned"])
def test_the_same_seed_gives_the_same_model_also_after_a_file(features):
    settings = {"target": "margin", "features": features, "num_features": 16, "first_steps": 20, "steps": 5}
    model, other = FeatureRegression(**settings), FeatureRegression(**settings)
    model.update(steps(100))
    other.restore(model.state())
    for one in (model, other):
        one.update(steps(7, seed=1))
    queries = np.zeros((1, 2)), np.linspace(-1, 1, 6).reshape(1, 3, 2)
    np.testing.assert_array_equal(model.interval(*queries), other.interval(*queries))
    assert type(model)(**model.settings()).settings() == model.settings()
    assert (model.with_delta(1e-6).interval(*queries)[1] > model.interval(*queries)[1]).all()
    assert FeatureRegression(**settings).state() == {}


def test_a_refit_that_fails_keeps_the_old_model_and_says_so(caplog):
    model = FeatureRegression("margin", features="learned", num_features=8, first_steps=5)
    model.fit(steps(50))
    queries = np.zeros((1, 2)), np.zeros((1, 1, 2))
    before = model.interval(*queries)
    model.learning_rate = 1e38
    model.update(steps(50, seed=1))
    np.testing.assert_array_equal(before, model.interval(*queries))
    assert "FeatureRegression could not be refitted and keeps its old model" in caplog.text


def test_what_cannot_be_answered_or_learned_is_refused():
    model = FeatureRegression(num_features=8)
    assert np.isinf(model.predict(np.zeros((2, 3)), np.zeros((2, 4, 1)))[1]).all()
    model.fit(steps(20))
    with pytest.raises(ValueError, match=r"learned states \(n, 2\) and actions \(n, m, 2\), got"):
        model.predict(np.zeros((1, 3)), np.zeros((1, 4, 2)))
    with pytest.raises(ValueError, match=r"learned states \(n, 2\)"):
        model.update(Transitions(np.zeros((5, 3)), np.zeros((5, 2)), np.zeros(5)))
    with pytest.raises(ValueError, match=r"target='margin'\) received transitions without margins"):
        FeatureRegression("margin").update(steps(5)._replace(margins=None))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "good"}, r"features='good'\) is not one of random, learned"),
        ({"num_features": 0}, r"num_features=0\) must be a whole number"),
        ({"noise": -1.0}, r"noise=-1.0\) must be finite and at least 0"),
        ({"regulariser": 0.0}, r"regulariser=0.0\) must be finite and above 0"),
        ({"delta": 2.0}, r"delta=2.0\) must lie in \(0, 1\)"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        FeatureRegression(**settings)


def test_what_the_features_leave_unexplained_is_that_of_ridge_regression():
    rng = np.random.default_rng(0)
    phi, values = rng.standard_normal((300, 5)), rng.standard_normal(300)
    head = Head(5, 1e-6)
    for part in np.array_split(np.arange(300), [3, 150]):
        head.absorb(phi[part], values[part])
    left = values - phi @ np.linalg.lstsq(phi, values)[0]
    assert head.residual == pytest.approx(np.sqrt(left @ left / 295), rel=1e-4)
    assert Head.of(head.state(), 1e-6).residual == head.residual
    assert Head(5, 1.0).residual == 0.0


def test_as_a_regression_of_changes_it_covers_noise_that_nobody_told_it_of():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (2000, 2))
    data = Transitions(inputs[:, :1], inputs[:, 1:], rng.standard_normal(2000))
    changes, costs = FeatureRegression(num_features=32).as_regression(0.05), FeatureRegression(num_features=32)
    for one in (changes, costs):
        one.fit(data)
    covered = [
        np.mean(np.abs(data.costs - mean[:, 0]) <= width[:, 0])
        for mean, width in (one.interval(data.states, data.actions[:, None]) for one in (changes, costs))
    ]
    assert covered[0] > 0.95
    assert covered[1] < 0.5, "noise=0.03 was its word"
