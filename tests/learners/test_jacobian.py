"""The derivative by layers against PyTorch's own, and its approximate inverse against dense linear algebra."""

from __future__ import annotations

import gymnasium as gym
import pytest
import torch as th
from torch import nn

from safexp.learners import TRPO
from safexp.learners.distributions import Categorical, Gaussian
from safexp.learners.jacobian import Jacobian, LayeredJacobian, differentiate
from safexp.learners.trust_region import fisher_product


class WithTail(nn.Module):
    """Two layers, and log standard deviations behind their outputs."""

    def __init__(self):
        super().__init__()
        self.tail = nn.Parameter(th.tensor([-0.5, 0.3], dtype=th.float64))
        self.net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()

    def forward(self, inputs):
        mean = self.net(inputs)
        return th.cat([mean, self.tail.expand_as(mean)], dim=1)


@pytest.fixture
def model():
    th.manual_seed(0)
    return WithTail()


def test_both_ways_give_the_same_jacobian(model):
    inputs = th.randn(7, 3, dtype=th.float64)
    parameters = dict(model.named_parameters())
    layered, plain = differentiate(model, parameters, inputs, "tail"), Jacobian(model, parameters, inputs)
    assert isinstance(layered, LayeredJacobian)
    th.testing.assert_close(layered.outputs, plain.outputs)
    vector, other = th.randn(34, dtype=th.float64), th.randn(7, 4, dtype=th.float64)
    th.testing.assert_close(layered.push(vector), plain.push(vector))
    th.testing.assert_close(layered.pull(other), plain.pull(other))
    small = 1e-6
    moved = vector.clone()
    with th.no_grad():
        nn.utils.vector_to_parameters(
            nn.utils.parameters_to_vector(parameters.values()) + small * moved, parameters.values()
        )
        th.testing.assert_close((model(inputs) - plain.outputs) / small, layered.push(vector), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("task", ["Pendulum-v1", "CartPole-v1"])
def test_the_policies_of_stable_baselines_are_made_of_layers(task):
    learner = TRPO("MlpPolicy", gym.make(task), n_steps=64, seed=0, device="cpu")
    inputs = th.randn(20, *learner.observation_space.shape)
    found = differentiate(learner.actor, learner.actor.trained, inputs, "policy.log_std")
    assert isinstance(found, LayeredJacobian)
    plain = Jacobian(learner.actor, learner.actor.trained, inputs)
    vector = th.randn(sum(part.numel() for part in learner.actor.trained.values()))
    th.testing.assert_close(found.push(vector), plain.push(vector), atol=1e-4, rtol=1e-4)
    back = th.randn_like(found.outputs)
    th.testing.assert_close(found.pull(back), plain.pull(back), atol=1e-4, rtol=1e-4)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, inputs):
        return self.layer(th.tanh(self.layer(inputs)))


@pytest.mark.parametrize(
    "other",
    [
        nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(3, 40)),
        Twice(),
    ],
    ids=["other parameters", "no bias", "many outputs", "a layer used twice"],
)
def test_any_other_model_is_differentiated_by_autograd(other):
    inputs = th.randn(5, 3)
    found = differentiate(other, dict(other.named_parameters()), inputs)
    assert not isinstance(found, LayeredJacobian)
    vector = th.randn(sum(part.numel() for part in other.parameters()))
    back = th.randn_like(found.outputs)
    assert float((found.push(vector) * back).sum()) == pytest.approx(float(found.pull(back) @ vector), rel=1e-3)
    th.testing.assert_close(found.approximate_inverse(lambda tangent: tangent, 0.1)(vector), vector)


@pytest.mark.parametrize("family", [Gaussian(), Categorical()], ids=["gaussian", "categorical"])
def test_for_one_layer_and_one_state_the_approximate_inverse_is_exact(family):
    th.manual_seed(0)
    layer = nn.Sequential(nn.Linear(3, 4)).double()
    inputs = th.randn(1, 3, dtype=th.float64)
    here = differentiate(layer, dict(layer.named_parameters()), inputs)
    metric = family.metric(here.outputs)
    fisher, inverse = fisher_product(here.push, here.pull, metric, 0.1), here.approximate_inverse(metric, 0.1)
    vector = th.randn(16, dtype=th.float64)
    th.testing.assert_close(fisher(inverse(vector)), vector)


def test_the_tail_has_a_block_of_its_own(model):
    inputs = th.randn(1, 3, dtype=th.float64)
    here = differentiate(model, dict(model.named_parameters()), inputs, "tail")
    inverse = here.approximate_inverse(Gaussian().metric(here.outputs), 0.1)
    first = th.zeros(34, dtype=th.float64)
    first[:2] = th.tensor([1.0, -2.0])
    th.testing.assert_close(inverse(first), first / 2.1)
