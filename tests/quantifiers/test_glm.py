from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from safexp.quantifiers.base import Transitions
from safexp.quantifiers.glm import GLM, paper_scale, quasi_likelihood
from safexp.quantifiers.links import IDENTITY, LOGISTIC, Link

FALLING = Link(lambda x: 0.5 - 0.4 * x - 0.05 * x**3, lambda x: -0.4 - 0.15 * x**2, 0.4, 0.55, 0.3)
seeds = st.integers(0, 2**32 - 1)
links = st.sampled_from([IDENTITY, LOGISTIC, FALLING])


def as_given(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """The state is the feature."""
    return states


def problem(generator: np.random.Generator, count: int, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Features on the simplex and weights in the ball."""
    theta = generator.normal(size=d)
    return generator.dirichlet(np.full(d, 0.5), count), theta * generator.uniform(0.2, 1.0) / np.linalg.norm(theta)


def data(phi: np.ndarray, costs: np.ndarray) -> Transitions:
    return Transitions(phi, np.zeros((len(phi), 1)), costs)


@settings(max_examples=40, deadline=None)
@given(seeds, links, st.sampled_from([1e-4, 0.01, 1.0]), st.integers(0, 60))
def test_without_noise_the_interval_always_holds(seed: int, link: Link, regulariser: float, count: int) -> None:
    phi, theta = problem(np.random.default_rng(seed), count + 200)
    truth = link.value(phi @ theta)
    model = GLM(as_given, 4, link=link, regulariser=regulariser)
    model.update(data(phi[:count], truth[:count]))
    mean, width = model.predict(phi, np.zeros((len(phi), 1, 1)))
    assert mean.shape == width.shape == (len(phi), 1)
    assert np.all(np.abs(mean[:, 0] - truth) <= width[:, 0] + 1e-9)
    assert model.bounds_realised_cost


@pytest.mark.parametrize("link", [IDENTITY, LOGISTIC])
def test_with_noise_it_misses_in_fewer_runs_than_delta(link: Link) -> None:
    """40 runs of 120 noisy costs, checked at every feature after every twentieth: δ is for the whole run."""
    missed = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        phi, theta = problem(generator, 120)
        truth = link.value(phi @ theta)
        model = GLM(as_given, 4, link=link, noise=0.1, delta=0.1)
        bad = False
        for first in range(0, 120, 20):
            noise = 0.1 * generator.choice([-1.0, 1.0], 20)
            model.update(data(phi[first : first + 20], truth[first : first + 20] + noise))
            mean, width = model.bounds(phi)
            bad |= bool(np.any(np.abs(mean - truth) > width))
        missed += bad
    assert missed <= 4
    assert not model.bounds_realised_cost


def test_the_width_shrinks_as_one_over_the_root_of_the_visits() -> None:
    phi = np.array([[0.6, 0.0]])
    model = GLM(as_given, 2, regulariser=0.01)
    for visits in (1, 10, 100):
        model.fit(data(np.repeat(phi, visits, axis=0), np.full(visits, 0.3)))
        assert model.bounds(phi)[1][0] == pytest.approx(0.1 * 0.6 / np.sqrt(0.01 + visits * 0.36), rel=1e-12)


def test_one_observation_by_hand() -> None:
    """λ = 1, φ = (0.6, 0.8), cost 1/2: θ̂ = φ/4 and the mean there is half of what was seen."""
    phi = np.array([[0.6, 0.8]])
    model = GLM(as_given, 2, regulariser=1.0)
    model.update(data(phi, np.array([0.5])))
    np.testing.assert_allclose(model.theta, [0.15, 0.2], atol=1e-12)
    mean, width = model.bounds(np.array([[0.6, 0.8], [0.8, -0.6]]))
    np.testing.assert_allclose(mean, [0.25, 0.0], atol=1e-12)
    np.testing.assert_allclose(width, [np.sqrt(0.5), 1.0], atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seeds, links)
def test_the_fit_is_the_minimum_in_the_ball(seed: int, link: Link) -> None:
    generator = np.random.default_rng(seed)
    phi = generator.normal(size=(12, 3))
    phi /= np.maximum(np.linalg.norm(phi, axis=1, keepdims=True), 1.0)
    counts = generator.integers(1, 5, 12).astype(float)
    sums = counts * generator.uniform(-2.0, 3.0, 12)
    theta = quasi_likelihood(phi, counts, sums, link, 0.01, np.zeros(3))
    assert np.linalg.norm(theta) <= 1.0 + 1e-9

    def gradient(at: np.ndarray) -> np.ndarray:
        return link.sign * phi.T @ (counts * link.extended(phi @ at)[0] - sums) + link.least_slope * 0.01 * at

    # First-order optimality over the ball: no point of it lies downhill.
    slope = gradient(theta)
    steepest = -slope / max(float(np.linalg.norm(slope)), 1e-300)
    assert slope @ (steepest - theta) >= -1e-6 * (1.0 + np.abs(sums).sum())


def test_a_linear_fit_agrees_with_a_general_optimiser() -> None:
    generator = np.random.default_rng(0)
    phi, values = generator.normal(size=(20, 3)) / 4.0, generator.normal(size=20) * 3.0
    ours = quasi_likelihood(phi, np.ones(20), values, IDENTITY, 0.5, np.zeros(3))
    theirs = minimize(
        lambda theta: ((phi @ theta - values) ** 2).sum() + 0.5 * theta @ theta,
        np.zeros(3),
        constraints={"type": "ineq", "fun": lambda theta: 1.0 - theta @ theta},
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(ours, theirs.x, atol=1e-5)
    assert np.linalg.norm(ours) == pytest.approx(1.0)


def test_the_paper_s_scale_by_hand() -> None:
    assert paper_scale(IDENTITY, 4, 0.05, 1.0) == pytest.approx(np.sqrt(2.0 + 16.0 * np.log(60.0)))
    assert 14.0 <= paper_scale(IDENTITY, 4, 1e-5, 1.0) <= paper_scale(IDENTITY, 16, 1e-5, 1.0) <= 58.0
    model = GLM(as_given, 4, width="paper")
    assert model.regulariser == 1.0
    assert model.bounds(np.eye(4))[1] == pytest.approx(np.full(4, paper_scale(IDENTITY, 4, 0.05, 1.0)))


def test_updating_equals_fitting_and_restoring() -> None:
    phi, theta = problem(np.random.default_rng(1), 30)
    costs = LOGISTIC.value(phi @ theta)
    whole, parts, restored = (GLM(as_given, 4, link=LOGISTIC) for _ in range(3))
    whole.fit(data(phi, costs))
    for first in range(0, 30, 7):
        parts.update(data(phi[first : first + 7], costs[first : first + 7]))
    restored.restore(whole.state())
    for other in (parts, restored, whole.with_delta(0.05)):
        for own, expected in zip(other.bounds(phi), whole.bounds(phi), strict=True):
            np.testing.assert_allclose(own, expected, atol=1e-10)
    restored.update(data(phi[:3], costs[:3]))
    assert restored.state()["counts"][:3].tolist() == [2.0, 2.0, 2.0]
    whole.fit(data(phi[:2], costs[:2]))
    assert len(whole.state()["counts"]) == 2


def test_a_smaller_delta_widens_and_leaves_the_original_alone() -> None:
    phi, theta = problem(np.random.default_rng(2), 20)
    model = GLM(as_given, 4, noise=0.1)
    model.update(data(phi, phi @ theta))
    before = model.bounds(phi)[1]
    assert np.all(model.with_delta(0.01).bounds(phi)[1] > before)
    assert np.array_equal(model.bounds(phi)[1], before)


def test_beyond_its_capacity_it_leaves_data_out_of_fit_and_width_alike() -> None:
    phi, theta = problem(np.random.default_rng(3), 12)
    full, small = GLM(as_given, 4, capacity=5), GLM(as_given, 4)
    full.update(data(phi, phi @ theta))
    small.update(data(phi[:5], phi[:5] @ theta))
    full.update(data(phi[5:], phi[5:] @ theta))
    for own, expected in zip(full.bounds(phi), small.bounds(phi), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-12)


def test_predict_pairs_every_state_with_its_actions() -> None:
    model = GLM(lambda states, actions: np.concatenate([states, actions], axis=1) / 2.0, 3)
    states, actions = np.array([[0.1], [0.9]]), np.eye(2)[[[0, 1, 1], [1, 0, 0]]]
    mean, width = model.predict(states, actions)
    assert mean.shape == width.shape == (2, 3)
    assert width[1, 1] == pytest.approx(np.sqrt(0.81 + 1.0) / 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "delta=0.0 must be a probability strictly between"),
        ({"noise": -1.0}, "got noise -1.0"),
        ({"regulariser": -1.0}, "regulariser=-1.0 must be positive"),
        ({"width": "paper", "regulariser": 0.1}, "the paper's width is defined for 1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GLM(as_given, 4, **arguments)


def test_bad_data() -> None:
    model = GLM(as_given, 2)
    with pytest.raises(ValueError, match=r"features returned shape \(1, 3\) for 1 pairs, expected \(1, 2\)"):
        model.update(data(np.zeros((1, 3)), np.zeros(1)))
    with pytest.raises(ValueError, match="norm 5, but must have at most 1: scale the features down"):
        model.update(data(np.array([[3.0, 4.0]]), np.zeros(1)))
    with pytest.raises(ValueError, match="use one GLM for each cost"):
        model.update(Transitions(np.zeros((1, 2)), np.zeros((1, 1)), np.zeros((1, 2))))
    with pytest.raises(
        TypeError,
        match=r"GLM\(features=...\) has the type function, which a file cannot store; pass the quantifier again",
    ):
        model.settings()


def test_bad_links() -> None:
    with pytest.raises(ValueError, match="must be monotone"):
        Link(np.cos, lambda x: -np.sin(x), 0.1, 1.0, 1.0)
    with pytest.raises(ValueError, match="give wider bounds"):
        Link(np.exp, np.exp, 1.0, 2.0, 3.0)
    with pytest.raises(ValueError, match="0 < least_slope <= largest_slope"):
        Link(np.exp, np.exp, 2.0, 1.0, 3.0)


def test_the_logistic_link_states_its_bounds() -> None:
    x = np.linspace(-1.0, 1.0, 2001)
    slope = LOGISTIC.slope(x)
    assert LOGISTIC.least_slope == pytest.approx(slope.min())
    assert LOGISTIC.largest_slope == pytest.approx(slope.max())
    assert np.abs(np.gradient(slope, x)).max() <= LOGISTIC.curvature


def test_a_regulariser_of_zero_is_not_the_usual_one():
    with pytest.raises(ValueError, match=r"regulariser=0\.0 must be positive"):
        GLM(lambda states, actions: actions, 1, regulariser=0.0)
