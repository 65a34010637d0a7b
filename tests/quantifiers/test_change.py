"""Models of change: what they say where the data has been, and that they say nothing where it has not."""

import numpy as np
import pytest

from safexp import GLM, Calibrated, ChangeModel, DeepGP, ExactGP, FeatureRegression, SparseGP, Within
from safexp.quantifiers.base import Transitions
from safexp.quantifiers.known import Known

REGRESSIONS = {
    "SparseGP": lambda: SparseGP(num_inducing=32, first_steps=60),
    "DeepGP": lambda: DeepGP(num_inducing=16, first_steps=30, shared=True),
    "FeatureRegression": lambda: FeatureRegression(num_features=64),
    "ExactGP": lambda: ExactGP(0.5, capacity=100),
    "GLM": lambda: GLM(lambda states, actions: np.concatenate([states, actions], axis=1) / 10.0, 2),
}


def walk(n=600, low=-1.0, high=1.0, *, seed=0, fold=False):
    """x moves by a tenth of the action; the log has x between `low` and `high`. With `fold` the signal is |x|."""
    rng = np.random.default_rng(seed)
    x, a = rng.uniform(low, high, (n, 1)), rng.uniform(-1.0, 1.0, (n, 1))
    after = x + 0.1 * a
    before, after = (np.abs(x), np.abs(after)) if fold else (x, after)
    costs = np.clip(0.5 + (after[:, 0] - 2.0) / 4.0, 0, 1)
    return Transitions(np.concatenate([x, before], axis=1), a, costs, episodes=np.arange(n) // 10, signals=after)


def model_of(name, constraint, **options):
    return ChangeModel(REGRESSIONS[name](), **options).bound_to(constraint.sides, (0,))


def asked(x, actions, fold=False):
    x = np.asarray(x, dtype=np.float64).reshape(-1, 1)
    return np.concatenate([x, np.abs(x) if fold else x], axis=1), np.tile(
        np.asarray(actions)[None, :, None], (len(x), 1, 1)
    )


@pytest.mark.parametrize("name", REGRESSIONS)
def test_it_adds_the_change_to_what_is_measured_now(name):
    model = model_of(name, Within("x", -2.0, 2.0))
    model.fit(walk())
    mean, width = model.interval(*asked([0.5], [-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(mean[0, :, 0], [0.4, 0.5, 0.6], atol=0.01)
    assert np.isfinite(width).all()


@pytest.mark.parametrize("name", ["SparseGP", "DeepGP", "FeatureRegression"])
def test_nothing_is_certified_far_beyond_the_data(name):
    model = model_of(name, Within("x", -9.0, 9.0))
    model.fit(walk())
    deviation = walk().states[:, 0].std()
    bounds = sum(model.predict(*asked([1.0 + 3 * deviation, -1.0 - 3 * deviation], [0.0])))
    assert (bounds > 0.5).all()


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_one_sided_log_of_an_absolute_value_certifies_nothing_on_the_other_side(name):
    model = model_of(name, Within("size", high=2.0))
    model.fit(walk(low=0.0, high=1.9, fold=True))
    there = sum(model.predict(*asked(np.linspace(0.2, 1.0, 9), [0.0], fold=True)))
    assert (there <= 0.5).mean() > (0.0 if name in ("GLM", "ExactGP") else 0.5)
    beyond = sum(model.predict(*asked(np.linspace(-1.9, -0.2, 18), np.linspace(-1, 1, 5), fold=True)))
    if name in ("SparseGP", "DeepGP", "FeatureRegression"):
        assert (beyond > 0.5).all()


@pytest.mark.parametrize("name", ["SparseGP", "DeepGP", "FeatureRegression", "ExactGP"])
def test_discrete_actions_that_were_never_taken_are_never_certified(name):
    rng = np.random.default_rng(0)
    x, taken = rng.uniform(-1, 1, (400, 1)), rng.integers(0, 2, 400)
    actions = np.eye(5)[taken]
    after = x + 0.1 * (taken[:, None] - 0.5)
    data = Transitions(
        np.concatenate([x, x], axis=1), actions, np.zeros(400), signals=after, episodes=np.arange(400) // 10
    )
    model = model_of(name, Within("x", -3.0, 3.0))
    model.fit(data)
    bounds = sum(model.predict(data.states, np.tile(np.eye(5), (400, 1, 1)))).max(axis=2)
    assert (bounds[:, 2:] > 0.5).all()
    if name != "ExactGP":
        assert (bounds[:, :2] <= 0.5).mean() > 0.9


def test_an_update_carries_the_model_further():
    model = model_of("SparseGP", Within("x", -9.0, 9.0))
    model.fit(walk())
    question = asked([3.0], [0.0])
    assert np.isinf(model.interval(*question)[1]).all()
    model.update(walk(low=2.0, high=4.0))
    mean, width = model.interval(*question)
    assert abs(mean.item() - 3.0) < width.item() < 1.0


def test_a_known_signal_needs_no_data():
    model = ChangeModel(Known(lambda states, actions: states[:, 0] + 0.1 * actions[:, 0])).bound_to(
        Within("x", -2.0, 2.0).sides, (0,)
    )
    mean, width = model.predict(*asked([1.95], [1.0, -1.0]))
    np.testing.assert_allclose(mean[0, :, 0], [0.5125, 0.4625])
    np.testing.assert_array_equal(width, 0.0)


def test_what_it_learned_survives_a_copy():
    model = Calibrated(model_of("SparseGP", Within("x", -2.0, 2.0)))
    model.fit(walk())
    copied = model.with_delta(model.delta)
    for mine, theirs in zip(model.predict(*asked([0.3], [0.5])), copied.predict(*asked([0.3], [0.5])), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_without_limits_it_says_so():
    with pytest.raises(ValueError, match=r"has no limits yet: pass it to a Shield or MASE together with Within"):
        ChangeModel(SparseGP()).predict(np.zeros((1, 2)), np.zeros((1, 1, 1)))
    with pytest.raises(ValueError, match="transitions without signals"):
        model_of("SparseGP", Within("x", high=1.0)).update(walk()._replace(signals=None))


def test_no_width_is_below_one_percent_of_the_changes():
    model = model_of("FeatureRegression", Within("x", -2.0, 2.0))
    data = walk()
    model.fit(data)
    size = np.sqrt(np.mean((data.signals - data.states[:, 1:]) ** 2))
    _, width = model.interval(data.states, data.actions[:, None])
    assert (width >= 0.01 * size).all()
    restored = model_of("FeatureRegression", Within("x", -2.0, 2.0))
    restored.restore(model.state())
    np.testing.assert_array_equal(restored.interval(data.states, data.actions[:, None])[1], width)


def test_how_near_a_step_came_is_told_beyond_the_range_of_costs():
    model = model_of("SparseGP", Within("x", -2.0, 2.0))
    signals = np.array([[0.0], [1.0], [-1.5], [7.0]])
    data = walk(n=4)._replace(signals=signals)
    np.testing.assert_allclose(model.nearness(data), [0.0, 0.25, 0.375, 1.75])
