"""The deep GP against gpytorch's, layer by layer and whole, and what it shares with the sparse one."""

from __future__ import annotations

import gpytorch
import numpy as np
import pytest
import torch as th
from gpytorch.mlls import DeepApproximateMLL, VariationalELBO

from safexp import DeepGP
from safexp.bench.references import DeepReference
from safexp.quantifiers import Transitions
from safexp.quantifiers.gp import deep_model, deep_training
from safexp.quantifiers.gp.deep_model import JITTERS, DeepModel, LayerModel, draws
from safexp.quantifiers.gp.deep_training import Hidden, bound
from safexp.quantifiers.gp.variational import Layer

SMALL = {"widths": (3, 3), "num_inducing": 16, "capacity": 200, "first_steps": 60, "steps": 20, "batch_size": 32}


def circle(count, seed=0):
    """The margin of a disc of radius 1 after a step: |state + action / 4| − 1."""
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-2, 2, (count, 2)), rng.uniform(-1, 1, (count, 2))
    margins = np.linalg.norm(states + actions / 4, axis=1) - 1.0
    return Transitions(states, actions, (margins < 0).astype(float), margins)


def random_model(shared, seed=0):
    """A deep model with nothing about it fitted: 4 inputs, hidden widths 3 and 3, 8 inducing points."""
    rng = np.random.default_rng(seed)
    layers = []
    for inputs, width, alone in ((4, 3, shared), (3, 3, shared), (3, 1, False)):
        groups = 1 if alone else width
        root = 0.3 * np.tril(rng.normal(size=(width, 8, 8))) + 0.5 * np.eye(8)
        layers.append(
            LayerModel(
                rng.normal(size=(groups, 8, inputs)),
                rng.uniform(0, 1, (groups, inputs)),
                np.full(groups, -0.5),
                rng.normal(size=(inputs, width)) if width > 1 else np.zeros((inputs, 1)),
                rng.normal(size=(width, 8)),
                rng.uniform(0.2, 0.9, (width, 8)) if alone else root,
            )
        )
    return DeepModel(np.zeros(4), np.ones(4), tuple(layers), np.array(-3.0))


def fixed_draws(monkeypatch, values):
    """Let gpytorch sample its hidden layers with these standard normal values (s, n, Q), one for each layer."""
    remaining = [th.from_numpy(np.asarray(part, dtype=np.float64)) for part in values]
    monkeypatch.setattr(
        "torch.distributions.Normal.rsample",
        lambda normal, shape=th.Size(): normal.loc + normal.scale * remaining.pop(0).expand(normal.loc.shape),
    )


def as_hidden(layer):
    inducing, lengthscales, variance, weights, mean, root = (
        th.from_numpy(part) for part in (*layer.kernel, layer.weights, layer.mean, layer.root)
    )
    return Hidden(Layer(inducing, lengthscales, variance), weights, mean, root)


@pytest.mark.parametrize("shared", [False, True])
def test_predictions_equal_gpytorchs_with_the_same_samples(shared, monkeypatch):
    gp = DeepGP("margin", **SMALL, shared=shared, num_samples=4)
    gp.fit(circle(200))
    model, queries = gp.model, circle(30, seed=1)
    fixed_draws(monkeypatch, [draws(4, 3, gp.seed, layer)[:, None] for layer in range(2)])
    pairs = th.from_numpy((np.concatenate([queries.states, queries.actions], axis=1) - model.shift) / model.scale)
    with th.no_grad(), gpytorch.settings.num_likelihood_samples(4):
        answer = DeepReference(model).eval()(pairs)
    means, variances = answer.mean.numpy(), answer.variance.numpy()
    mean, width = gp.interval(queries.states, queries.actions[:, None])
    deviation = np.sqrt(variances.mean(axis=0) + means.var(axis=0) + np.exp(model.log_noise))
    np.testing.assert_allclose(mean[:, 0], means.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(width[:, 0], 2.5758293 * deviation, rtol=5e-3)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("solved", [False, True])
def test_the_bound_equals_gpytorchs(shared, solved, monkeypatch):
    for module in (deep_model, deep_training):  # gpytorch adds its jitter to every variance as well: make it small
        monkeypatch.setattr(module, "JITTERS", (1e-10,))
    model, rng = random_model(shared), np.random.default_rng(1)
    x, y = th.from_numpy(rng.normal(size=(9, 4))), th.from_numpy(rng.normal(size=9))
    normal = [rng.normal(size=(9, 3)) for _ in range(2)]
    fixed_draws(monkeypatch, [part[None] for part in normal])
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=gpytorch.constraints.Positive()).double()
    likelihood.noise = float(np.exp(model.log_noise))
    reference = DeepReference(model).train()
    with gpytorch.settings.num_likelihood_samples(1):
        expected = DeepApproximateMLL(VariationalELBO(likelihood, reference, num_data=50))(reference(x), y)
    layers = [as_hidden(layer) for layer in model.layers]
    ready = [deep_training.solve(layer) for layer in layers] if solved else [None] * 3
    log_noise = th.tensor(-3.0, dtype=th.float64)
    ours = bound(layers, ready, log_noise, x, y, [th.from_numpy(part) for part in normal], 50)
    assert float(ours) == pytest.approx(float(expected.detach()), rel=1e-6)


def test_draws_have_mean_0_and_variance_1_and_do_not_change():
    some = draws(10, 16, seed=3, layer=0)
    np.testing.assert_allclose(some.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(some.var(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(some, draws(10, 16, seed=3, layer=0))
    assert not np.allclose(some, draws(10, 16, seed=3, layer=1))
    np.testing.assert_array_equal(draws(1, 4, seed=0, layer=0), 0)


@pytest.mark.parametrize("shared", [False, True])
def test_it_learns_the_margin_and_certifies_only_what_is_safe(shared):
    gp = DeepGP("margin", **SMALL | {"first_steps": 200}, shared=shared)
    gp.fit(circle(200))
    gp.update(circle(200, seed=1))
    fresh = circle(2000, seed=1000)
    mean, width = gp.interval(fresh.states, fresh.actions[:, None])
    assert np.sqrt(np.mean((mean[:, 0] - fresh.margins) ** 2)) < 0.15
    assert np.mean(np.abs(mean[:, 0] - fresh.margins) <= width[:, 0]) > 0.95
    upper = sum(gp.predict(fresh.states, fresh.actions[:, None]))[:, 0]
    assert np.mean(upper[fresh.margins > 0] == 0.0) > 0.3
    assert np.mean(upper[fresh.margins <= 0] == 0.0) < 0.01


def test_the_same_seed_gives_the_same_model_also_after_a_file():
    gp, other = DeepGP("margin", **SMALL), DeepGP("margin", **SMALL)
    gp.update(circle(150))
    other.restore(gp.state())
    queries = np.zeros((1, 2)), np.linspace(-1, 1, 6).reshape(1, 3, 2)
    for _ in range(2):
        np.testing.assert_array_equal(gp.interval(*queries), other.interval(*queries))
        for model in (gp, other):
            model.update(circle(150, seed=1))
    assert type(gp)(**gp.settings()).settings() == gp.settings()
    strict = gp.with_delta(0.0001).interval(*queries)
    np.testing.assert_allclose(strict[1], gp.interval(*queries)[1] * 3.8905919 / 2.5758293, rtol=1e-6)


def test_a_refit_that_fails_keeps_the_old_model_and_says_so(caplog, monkeypatch):
    gp = DeepGP("margin", **SMALL | {"first_steps": 2})
    gp.fit(circle(50))
    queries = np.zeros((1, 2)), np.zeros((1, 1, 2))
    before = gp.interval(*queries)
    singular = th.full((1, 3, 3), float("nan"))
    monkeypatch.setattr("safexp.quantifiers.gp.deep_training.covariance", lambda *_: singular)
    gp.update(circle(50, seed=5))
    np.testing.assert_array_equal(before, gp.interval(*queries))
    assert "DeepGP could not be refitted and keeps its old model: LinAlgError" in caplog.text
    assert f"even with {JITTERS[-1]} of its diagonal" in caplog.text


def test_training_that_ends_in_nan_is_refused(caplog):
    gp = DeepGP("margin", **SMALL | {"learning_rate": 1e30})
    gp.fit(circle(50))
    assert "DeepGP could not be refitted" in caplog.text
    assert np.isinf(gp.predict(np.zeros((1, 2)), np.zeros((1, 1, 2)))[1]).all()


def test_a_question_of_another_shape_is_refused_and_nothing_is_known_before_data():
    gp = DeepGP(**SMALL | {"first_steps": 1})
    assert np.isinf(gp.predict(np.zeros((2, 3)), np.zeros((2, 4, 1)))[1]).all()
    gp.fit(circle(50))
    with pytest.raises(ValueError, match=r"DeepGP learned states \(n, 2\) and actions \(n, m, 2\), got"):
        gp.predict(np.zeros((1, 3)), np.zeros((1, 4, 2)))
    with pytest.raises(ValueError, match=r"DeepGP\(target='margin'\) received transitions without margins"):
        DeepGP("margin").update(circle(5)._replace(margins=None))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"widths": (16, 0)}, r"DeepGP\(widths\[1\]=0\) must be a whole number of at least 1"),
        ({"num_samples": 0}, r"DeepGP\(num_samples=0\)"),
        ({"target": "reward"}, r"DeepGP\(target='reward'\) is not one of cost, margin"),
        ({"delta": 0.0}, r"DeepGP\(delta=0.0\) must lie in \(0, 1\)"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        DeepGP(**settings)
