"""The sparse GP against gpytorch, its closed forms, and what it does when something goes wrong."""

from __future__ import annotations

import sys

import gpytorch
import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from safexp import Log, Shield, SparseGP
from safexp.bench.references import SparseReference
from safexp.quantifiers import Transitions
from safexp.quantifiers.base import rows_of
from safexp.quantifiers.gp import sparse_model, variational
from safexp.quantifiers.gp.sparse_training import continued, slopes, train
from safexp.quantifiers.gp.variational import Layer
from safexp.quantifiers.regression import pairs_of

SMALL = {"num_inducing": 16, "capacity": 200, "first_steps": 40, "steps": 10, "batch_size": 64}


def circle(count, seed=0):
    """The margin of a disc of radius 1 after a step: |state + action / 4| − 1."""
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-2, 2, (count, 2)), rng.uniform(-1, 1, (count, 2))
    margins = np.linalg.norm(states + actions / 4, axis=1) - 1.0
    return Transitions(states, actions, (margins < 0).astype(float), margins)


@pytest.fixture(scope="module")
def learned():
    gp = SparseGP("margin", **SMALL)
    gp.fit(circle(400))
    return gp


def standardised(model, data):
    pairs = np.concatenate([data.states, data.actions], axis=1)
    return th.from_numpy((pairs - model.shift) / model.scale)


def test_predictions_equal_gpytorchs(learned):
    model, seen, queries = learned.model, pairs_of(circle(400)), circle(50, seed=1)
    inside = ((pairs_of(queries) >= seen.min(axis=0)) & (pairs_of(queries) <= seen.max(axis=0))).all(axis=1)
    assert inside.sum() > 40, "beyond its data a width is more than the process'"
    queries = rows_of(queries, inside)
    reference = SparseReference(model).eval()
    with th.no_grad():
        expected = reference(standardised(model, queries))
    mean, width = learned.interval(queries.states, queries.actions[:, None])
    deviation = np.sqrt(expected.variance.numpy() - reference.jitter + np.exp(model.log_noise))
    np.testing.assert_allclose(mean[:, 0], expected.mean.numpy(), atol=1e-6)
    np.testing.assert_allclose(width[:, 0], 2.5758293035 * deviation, rtol=1e-6)


def bound(layer, log_noise, mean, root, x, y, total):
    """The evidence lower bound per transition, put together from our parts of it."""
    a = variational.whitened(layer, x[None])
    f_mean, f_variance = variational.marginals(a, layer.log_variance, mean[None], root)
    likelihood = variational.log_likelihood(y, f_mean[0], f_variance[0], log_noise).mean()
    return likelihood - variational.divergence(mean[None], root) / total


def test_slopes_equal_automatic_ones():
    rng = np.random.default_rng(0)
    x, y = th.from_numpy(rng.normal(size=(9, 3))), th.from_numpy(rng.normal(size=9))
    parts = rng.normal(size=(1, 5, 3)), rng.normal(size=(1, 3)), np.array([0.7])
    layer = Layer(*(th.from_numpy(part).requires_grad_() for part in parts))
    mean, root = th.from_numpy(rng.normal(size=5)), th.from_numpy(np.tril(rng.normal(size=(5, 5))))
    log_noise = th.tensor(-0.4, dtype=th.float64)
    expected = th.autograd.grad(bound(layer, log_noise, mean, root[None], x, y, total=9), layer)
    plain = Layer(*(part.detach() for part in layer))
    for ours, automatic in zip(slopes(plain, log_noise, mean, root, x, y), expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), automatic.numpy(), rtol=1e-7, atol=1e-9)


def test_the_bound_equals_gpytorchs(learned):
    model, data = learned.model, circle(30, seed=2)
    reference = SparseReference(model).train()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = float(np.exp(model.log_noise))
    x, y = standardised(model, data), th.from_numpy(data.margins)
    expected = gpytorch.mlls.VariationalELBO(likelihood, reference, num_data=300)(reference(x), y)
    layer = Layer(
        *(th.from_numpy(part)[None] for part in (model.inducing, model.log_lengthscales)), log_variance(model)
    )
    root = th.linalg.cholesky(th.from_numpy(model.covariance))[None]
    ours = bound(layer, th.tensor(float(model.log_noise)), th.from_numpy(model.mean), root, x, y, 300)
    added = 0.5 * reference.jitter / np.exp(model.log_noise)
    assert float(ours) == pytest.approx(float(expected.detach()) + added, rel=1e-5)


def log_variance(model):
    return th.from_numpy(np.array(model.log_variance))[None]


def test_the_closed_form_is_the_best_posterior_and_its_noise_the_best_noise():
    rng = np.random.default_rng(0)
    x, y = th.from_numpy(rng.normal(size=(40, 2))), th.from_numpy(rng.normal(size=40))
    log_noise = th.tensor(-1.0, dtype=th.float64)
    layer = Layer(x[:6][None], th.zeros(1, 2, dtype=th.float64), th.ones(1, dtype=th.float64))
    best = variational.best_posterior(layer, x, y, log_noise)

    def value(mean, root, log_noise):
        return bound(layer, log_noise, mean, root[None], x, y, total=40)

    mean, root = best.mean.requires_grad_(), best.root.requires_grad_()
    slopes = th.autograd.grad(value(mean, root, log_noise), (mean, root))
    assert float(slopes[0].abs().max()) < 1e-9
    assert float(slopes[1].triu().abs().max()) < 1e-9
    assert value(mean, root, log_noise) > value(mean + 0.1, root, log_noise) + 1e-4
    assert value(mean, root, log_noise) > value(mean, 1.1 * root, log_noise) + 1e-4
    noise = best.log_noise.requires_grad_()
    assert abs(float(th.autograd.grad(value(best.mean, best.root, noise), noise)[0])) < 1e-9


def test_a_warm_start_begins_with_the_same_function_in_other_standards(learned):
    model, x = learned.model, circle(20, seed=3)
    pairs = np.concatenate([x.states, x.actions], axis=1)
    shift, scale = pairs.mean(axis=0) + 1.0, 2.0 * pairs.std(axis=0)
    layer, _ = continued(model, shift, scale)
    old = Layer(*(th.from_numpy(part)[None] for part in (model.inducing, model.log_lengthscales)), log_variance(model))
    np.testing.assert_allclose(
        variational.whitened(layer, th.from_numpy((pairs - shift) / scale)[None]).numpy(),
        variational.whitened(old, standardised(model, x)[None]).numpy(),
        atol=1e-6,
    )


def test_it_learns_the_margin_and_certifies_only_what_is_safe(learned):
    fresh = circle(2000, seed=1000)
    mean, width = learned.interval(fresh.states, fresh.actions[:, None])
    assert np.sqrt(np.mean((mean[:, 0] - fresh.margins) ** 2)) < 0.1
    assert np.mean(np.abs(mean[:, 0] - fresh.margins) <= width[:, 0]) > 0.97
    cost, unsure = (part[:, 0] for part in learned.predict(fresh.states, fresh.actions[:, None]))
    assert set(zip(cost, unsure, strict=True)) == {(0.0, 0.0), (0.5, 0.5), (1.0, 0.0)}
    certified = cost + unsure == 0.0
    assert certified[fresh.margins > 0].mean() > 0.5
    assert (certified & (fresh.margins <= 0)).sum() <= 2


def test_far_from_all_data_the_worst_is_predicted_and_nothing_is_certified():
    data = circle(200)
    far = np.full((1, 2), 1e3)
    for target, worst in (("cost", 1.0), ("margin", 0.0)):
        gp = SparseGP(target, **SMALL)
        gp.fit(data._replace(costs=np.zeros(200), margins=np.abs(data.margins) + 1.0))
        mean, width = gp.interval(far, np.zeros((1, 1, 2)))
        assert mean[0, 0] == pytest.approx(worst)
        assert width[0, 0] > 2.0, "not one cost was seen, and still the prior knows that there may be"
        assert sum(gp.predict(far, np.zeros((1, 1, 2))))[0, 0] >= 1.0


def test_nothing_is_known_before_there_is_data():
    gp = SparseGP()
    _, width = gp.predict(np.zeros((2, 3)), np.zeros((2, 4, 1)))
    assert width.shape == (2, 4)
    assert np.isinf(width).all()


def test_the_answer_does_not_depend_on_what_else_is_asked(learned):
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(3, 2)), rng.normal(size=(3, 5, 2))
    actions[:, :3] = actions[:1, :3]  # some that all states share, some of their own
    together = np.array(learned.interval(states, actions))
    for i in range(3):
        for j in range(5):
            alone = np.array(learned.interval(states[i : i + 1], actions[i : i + 1, j : j + 1]))
            np.testing.assert_allclose(together[:, i, j], alone[:, 0, 0], rtol=1e-10)


def test_the_same_seed_gives_the_same_model_also_after_a_file():
    gp, other = SparseGP("margin", **SMALL), SparseGP("margin", **SMALL)
    gp.update(circle(150))
    other.restore(gp.state())
    for model in (gp, other):
        model.update(circle(150, seed=1))
    queries = np.zeros((1, 2)), np.linspace(-1, 1, 6).reshape(1, 3, 2)
    np.testing.assert_array_equal(gp.interval(*queries), other.interval(*queries))
    assert type(gp)(**gp.settings()).settings() == gp.settings()


def test_a_smaller_delta_widens(learned):
    queries = np.zeros((1, 2)), np.zeros((1, 1, 2))
    mean, width = learned.interval(*queries)
    strict_mean, strict_width = learned.with_delta(0.0001).interval(*queries)
    assert strict_mean == mean
    assert strict_width == pytest.approx(width * 3.8905919 / 2.5758293)


def test_updates_do_not_grow_with_the_run():
    gp = SparseGP("cost", **SMALL)
    for seed in range(5):
        gp.update(circle(300, seed))
    assert {part.shape for name, part in gp.state().items() if name == "data.costs"} == {(200,)}


def test_missing_margins_name_the_remedy():
    with pytest.raises(ValueError, match=r"target='margin'\).*info\['margin'\].*Log\(\.\.\., margins=.*target='cost'"):
        SparseGP("margin").update(circle(5)._replace(margins=None))


def test_a_refit_that_fails_keeps_the_old_model_and_says_so(learned, caplog, monkeypatch):
    gp = learned.with_delta(0.01)
    queries = np.zeros((1, 2)), np.zeros((1, 1, 2))
    before = gp.interval(*queries)
    monkeypatch.setattr("safexp.quantifiers.gp.sparse_training.best_posterior", lambda *_: 1 / 0)
    gp.update(circle(50, seed=5))
    np.testing.assert_array_equal(before, gp.interval(*queries))
    assert "SparseGP could not be refitted and keeps its old model: ZeroDivisionError" in caplog.text
    gp.fit(circle(50))
    assert np.isinf(gp.predict(*queries)[1]).all()
    assert "no model and certifies nothing" in caplog.text


def test_a_singular_matrix_is_tried_four_times_and_then_named(monkeypatch):
    tries = []
    real = th.linalg.cholesky_ex
    monkeypatch.setattr(th.linalg, "cholesky_ex", lambda matrix: tries.append(1) or real(matrix))
    with pytest.raises(np.linalg.LinAlgError, match="covariance of 3 points is not positive definite"):
        variational.factor(-th.ones(1, 3, 3, dtype=th.float64))
    assert len(tries) == 4
    variational.factor(th.ones(1, 3, 3, dtype=th.float64))


def test_equal_inputs_are_no_trouble():
    data = Transitions(np.ones((30, 2)), np.ones((30, 1)), np.zeros(30))
    model = train(
        np.ones((30, 3)),
        np.ones(30),
        None,
        num_inducing=16,
        steps=5,
        batch_size=8,
        learning_rate=0.05,
        rng=np.random.default_rng(0),
    )
    assert np.isfinite(model.mean).all()
    gp = SparseGP(**SMALL)
    gp.fit(data)
    mean, _ = gp.predict(np.ones((1, 2)), np.ones((1, 1, 1)))
    assert mean[0, 0] == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize(
    ("states", "actions"), [((1, 3), (1, 4, 2)), ((1, 2), (1, 4, 1)), ((2, 2), (1, 4, 2)), ((2,), (1, 4, 2))]
)
def test_a_question_of_another_shape_is_refused(learned, states, actions):
    with pytest.raises(ValueError, match=r"learned states \(n, 2\) and actions \(n, m, 2\), got"):
        learned.predict(np.zeros(states), np.zeros(actions))


@pytest.mark.parametrize("part", [0, 1], ids=["mean", "width"])
@pytest.mark.parametrize("target", ["cost", "margin"])
def test_the_shield_lets_nothing_through_where_a_prediction_is_not_a_number(target, part, caplog, monkeypatch):
    box = spaces.Box(-1, 1, (2,), np.float64)
    shield = Shield(SparseGP(target, **SMALL), spaces.Box(-np.inf, np.inf, (2,), np.float64), box)
    data = circle(100)
    shield.fit(Log(data.states, data.actions, np.zeros(100), np.full(100, 2.0)))
    assert not shield.filter(data.states[0], data.actions[0], 0.6).stopped
    usual = shield.quantifier.interval

    def broken(states, actions):
        answer = usual(states, actions)
        answer[part][:] = np.nan
        return answer

    monkeypatch.setattr(shield.quantifier, "interval", broken)
    assert shield.filter(data.states[0], data.actions[0], 0.6).stopped
    assert "predictions are NaN" in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "reward"}, r"SparseGP\(target='reward'\) is not one of cost, margin"),
        ({"num_inducing": 0}, r"SparseGP\(num_inducing=0\) must be a whole number of at least 1"),
        ({"delta": 1.0}, r"SparseGP\(delta=1.0\) must lie in \(0, 1\)"),
        ({"multiplier": -1.0}, r"SparseGP\(multiplier=-1.0\) must be finite and above 0"),
        ({"learning_rate": float("nan")}, r"SparseGP\(learning_rate=nan\)"),
        ({"capacity": 2}, "capacity=2 must be at least 4"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        SparseGP(**settings)


def test_another_thread_may_ask_between_any_two_lines():
    rng = np.random.default_rng(0)
    quantifier = SparseGP(num_inducing=8, capacity=40, first_steps=5)
    quantifier.fit(Transitions(rng.normal(size=(40, 2)), rng.uniform(-1, 1, (40, 1)), rng.uniform(size=40)))
    states, mine, others = rng.normal(size=(1, 2)), rng.uniform(-1, 1, (1, 5, 1)), rng.uniform(-1, 1, (1, 5, 1))
    expected = quantifier.predict(states, mine)

    def ask(frame, event, _):
        if frame.f_code.co_filename != sparse_model.__file__:
            return None
        if event == "line":
            quantifier.predict(states, others)
            asked.append(frame.f_lineno)
        return ask

    asked, usual = [], sys.gettrace()
    sys.settrace(ask)
    try:
        found = quantifier.predict(states, mine)
    finally:
        sys.settrace(usual)
    assert len(asked) > 10
    np.testing.assert_array_equal(found, expected)
