"""The step's mathematics against dense linear algebra, finite differences and numerical optimisation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch as th
from scipy.optimize import minimize
from torch import nn
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, Normal, kl_divergence

from safexp.learners.distributions import Categorical, Gaussian
from safexp.learners.jacobian import differentiate
from safexp.learners.trust_region import (
    StepCase,
    conjugate_gradient,
    constrained_step,
    fisher_product,
    flatten,
    line_search,
    natural_step,
    split,
)

FAMILIES = {"gaussian": Gaussian(), "categorical": Categorical()}


def torch_distribution(name, parameters):
    if name == "categorical":
        return TorchCategorical(logits=parameters)
    mean, log_std = parameters.chunk(2, dim=1)
    return Independent(Normal(mean, log_std.exp()), 1)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_agree_with_torch(name):
    th.manual_seed(0)
    old, new = th.randn(2, 6, 4, dtype=th.float64)
    family = FAMILIES[name]
    actions = torch_distribution(name, old).sample()
    th.testing.assert_close(family.log_prob(old, actions), torch_distribution(name, old).log_prob(actions))
    expected = kl_divergence(torch_distribution(name, old), torch_distribution(name, new))
    th.testing.assert_close(family.kl(old, new), expected)


@pytest.mark.parametrize("name", FAMILIES)
def test_samples_follow_the_distribution(name):
    th.manual_seed(0)
    parameters = th.tensor([[0.3, -1.0, 0.2, -0.5]]).repeat(20_000, 1)
    samples = FAMILIES[name].sample(parameters)
    if name == "categorical":
        frequencies = th.bincount(samples, minlength=4) / len(samples)
        th.testing.assert_close(frequencies, parameters[0].softmax(0), atol=0.015, rtol=0)
    else:
        th.testing.assert_close(samples.mean(0), parameters[0, :2], atol=0.03, rtol=0)
        th.testing.assert_close(samples.std(0), parameters[0, 2:].exp(), atol=0.03, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_fisher_product_is_the_hessian_of_the_kl(name):
    th.manual_seed(1)
    family = FAMILIES[name]
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()
    parameters, names = list(net.parameters()), [name for name, _ in net.named_parameters()]
    states = th.randn(7, 3, dtype=th.float64)

    def model(point):
        return th.func.functional_call(net, dict(zip(names, split(point, parameters), strict=True)), (states,))

    point = flatten(parameters).detach().requires_grad_()
    outputs = model(point)
    slope = differentiate(net, dict(net.named_parameters()), states)
    product = fisher_product(slope.push, slope.pull, family.metric(slope.outputs), damping=0.1)
    dense = th.stack([product(row) for row in th.eye(len(point), dtype=th.float64)])

    old = outputs.detach()
    hessian = th.autograd.functional.hessian(lambda other: family.kl(old, model(other)).mean(), point.detach())
    th.testing.assert_close(dense, hessian + 0.1 * th.eye(len(point), dtype=th.float64), atol=1e-10, rtol=1e-8)

    vector, small = th.randn_like(point), 1e-4
    ahead, behind = (family.kl(old, model(point.detach() + sign * small * vector)).mean() for sign in (1, -1))
    curvature = float((ahead + behind).detach()) / small**2  # the KL itself is zero at the point
    assert curvature == pytest.approx(float(vector @ (product(vector) - 0.1 * vector)), rel=1e-4)


def spd(rng, size):
    root = rng.normal(size=(size, size))
    return th.as_tensor(root @ root.T + 0.5 * np.eye(size))


def test_conjugate_gradient_solves_the_system_in_as_many_steps_as_unknowns():
    rng = np.random.default_rng(0)
    matrix, target = spd(rng, 8), th.as_tensor(rng.normal(size=8))
    found = conjugate_gradient(lambda vector: matrix @ vector, target, steps=9)
    th.testing.assert_close(found, th.linalg.solve(matrix, target), atol=1e-5, rtol=1e-5)
    assert not conjugate_gradient(lambda vector: matrix @ vector, 0 * target, steps=5).any()


def test_a_good_preconditioner_saves_products_and_the_last_step_is_one_that_gains_little():
    rng = np.random.default_rng(0)
    matrix, target = spd(rng, 8), th.as_tensor(rng.normal(size=8))
    asked = []

    def product(vector):
        asked.append(vector)
        return matrix @ vector

    inverse = th.linalg.inv(matrix)
    found = conjugate_gradient(product, target, 8, precondition=lambda vector: inverse @ vector)
    th.testing.assert_close(found, inverse @ target)
    assert len(asked) == 1

    gains = [float(target @ conjugate_gradient(lambda vector: matrix @ vector, target, steps)) for steps in range(1, 9)]
    assert gains == sorted(gains), "every step adds to what is gained"
    shares = [(after - before) / after for before, after in pairwise(gains)]
    asked.clear()
    conjugate_gradient(product, target, 8, least_gain=0.1)
    assert len(asked) == 2 + next(place for place, share in enumerate(shares) if share <= 0.1)


def test_the_natural_step_ends_on_the_trust_region_s_boundary():
    rng = np.random.default_rng(1)
    matrix, gradient = spd(rng, 5), th.as_tensor(rng.normal(size=5))
    step = natural_step(gradient, th.linalg.solve(matrix, gradient), 0.01)
    assert float(0.5 * step @ matrix @ step) == pytest.approx(0.01)
    assert not natural_step(0 * gradient, 0 * gradient, 0.01).any()


def test_the_line_search_takes_the_first_point_that_is_accepted():
    found = line_search(lambda point: float(point) <= 3.0, th.tensor(2.0), th.tensor(4.0), 0.5, attempts=5)
    assert (float(found.point), found.fraction) == (3.0, 0.25)
    found = line_search(lambda point: False, th.tensor(2.0), th.tensor(4.0), 0.5, attempts=5)
    assert (float(found.point), found.fraction) == (2.0, 0.0)


RADIUS = 0.05


def solve(matrix, gradient, cost_gradient, excess):
    direction, cost_direction = th.linalg.solve(matrix, gradient), th.linalg.solve(matrix, cost_gradient)
    return constrained_step(gradient, cost_gradient, excess, direction, cost_direction, RADIUS)


@pytest.mark.parametrize("excess", [-2.0, -0.2, -0.05, 0.0, 0.05, 0.2])
@pytest.mark.parametrize("seed", range(6))
def test_the_constrained_step_is_the_optimum(seed, excess):
    rng = np.random.default_rng(seed)
    matrix, size = spd(rng, 4), 4
    gradient, cost_gradient = th.as_tensor(rng.normal(size=size)), th.as_tensor(rng.normal(size=size))
    found = solve(matrix, gradient, cost_gradient, excess)
    step, dense, g, b = found.step.numpy(), matrix.numpy(), gradient.numpy(), cost_gradient.numpy()
    assert 0.5 * step @ dense @ step <= RADIUS * (1 + 1e-6)
    if found.case is StepCase.RECOVERY:
        nearest = -np.sqrt(2 * RADIUS / (b @ np.linalg.solve(dense, b))) * np.linalg.solve(dense, b)
        assert excess + b @ nearest > 0, "not even the best step would have kept the constraint"
        np.testing.assert_allclose(step, nearest)
        return
    assert excess + b @ step <= 1e-9
    best = minimize(
        lambda x: -g @ x,
        0.1 * step,
        jac=lambda x: -g,
        method="SLSQP",
        constraints=[
            {"type": "ineq", "fun": lambda x: RADIUS - 0.5 * x @ dense @ x, "jac": lambda x: -dense @ x},
            {"type": "ineq", "fun": lambda x: -excess - b @ x, "jac": lambda x: -b},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert best.success
    assert g @ step == pytest.approx(-best.fun, abs=1e-5)
    if found.kl_multiplier > 0:  # the step is the one that the multipliers say
        by_multipliers = np.linalg.solve(dense, g - found.cost_multiplier * b) / found.kl_multiplier
        np.testing.assert_allclose(step, by_multipliers, atol=1e-9)
        assert found.cost_multiplier >= 0


@pytest.mark.parametrize("excess", [-1.0, 1.0])
def test_without_a_cost_gradient_the_step_is_the_unconstrained_one(excess):
    rng = np.random.default_rng(3)
    matrix, gradient = spd(rng, 4), th.as_tensor(rng.normal(size=4))
    found = solve(matrix, gradient, 1e-12 * gradient, excess)
    assert found.case is StepCase.NO_GRADIENT
    th.testing.assert_close(found.step, natural_step(gradient, th.linalg.solve(matrix, gradient), RADIUS))


def test_where_reward_and_cost_pull_the_same_way_the_step_goes_to_the_plane_and_no_further():
    rng = np.random.default_rng(4)
    matrix, gradient = spd(rng, 4), th.as_tensor(rng.normal(size=4))
    found = solve(matrix, gradient, gradient, -0.01)
    assert found.case is StepCase.ACTIVE
    assert float(gradient @ found.step) == pytest.approx(0.01)
    assert not solve(matrix, gradient, gradient, 0.0).step.any()


def test_no_reward_gradient_and_too_much_cost_still_lowers_the_cost():
    rng = np.random.default_rng(5)
    matrix, cost_gradient = spd(rng, 4), th.as_tensor(rng.normal(size=4))
    found = solve(matrix, 0 * cost_gradient, cost_gradient, 0.01)
    assert float(cost_gradient @ found.step) == pytest.approx(-0.01)
