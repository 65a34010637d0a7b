"""Random functions of known RKHS norm, and runs that explore them one point after another, as MASE would."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from safexp import ExactGP
from safexp.core.arrays import Array
from safexp.quantifiers import Transitions
from safexp.quantifiers.gp.kernels import Kernel, covariance

LENGTHSCALE = 0.2
DELTA = 0.05
NUM_STEPS = 40
POOL = np.random.default_rng(0).uniform(size=(80, 2))
"""Points (state, action) of the unit square: what can be chosen, and where the bound is checked."""


@dataclass(frozen=True)
class RandomFunction:
    """A sum of kernels, scaled so that its norm is exactly `norm`."""

    kernel: Kernel
    centres: Array
    weights: Array

    @classmethod
    def draw(cls, kernel: Kernel, norm: float, rng: np.random.Generator) -> RandomFunction:
        centres = rng.uniform(size=(30, 2))
        weights = rng.normal(size=30)
        squared_norm = weights @ covariance(kernel, centres / LENGTHSCALE, centres / LENGTHSCALE) @ weights
        return cls(kernel, centres, weights * norm / math.sqrt(squared_norm))

    def __call__(self, points: Array) -> Array:
        return self.weights @ covariance(self.kernel, self.centres / LENGTHSCALE, points / LENGTHSCALE)


class Run(NamedTuple):
    """How far off a GP was at all points of the pool after each observation: misses |g − μ| / σ (T, m).

    `factor` (T,) is the β that ExactGP multiplies σ by, `sigma` (T, m).
    """

    misses: Array
    sigma: Array
    factor: Array

    def broken_by(self, factor: Array) -> bool:
        """Whether the bound factor·σ failed anywhere at any time."""
        return bool(np.any(self.misses > factor[:, None]))


def observe(gp: ExactGP, point: Array, cost: float) -> None:
    gp.update(Transitions(point[None, :1], point[None, 1:], np.array([cost])))


def predict(gp: ExactGP, points: Array) -> tuple[Array, Array]:
    mean, width = gp.predict(points[:, :1], points[:, None, 1:])
    return mean[:, 0], width[:, 0]


def explore(gp: ExactGP, function: RandomFunction, noise: float, rng: np.random.Generator) -> Run:
    """Observe at the widest of the points whose upper bound is low, so that every choice depends on past noise."""
    misses, sigmas, factors = [], [], []
    truth = function(POOL)
    mean, width = predict(gp, POOL)
    for _ in range(NUM_STEPS):
        low = mean + width <= np.median(mean + width)
        chosen = int(np.where(low, width, -np.inf).argmax())
        observe(gp, POOL[chosen], truth[chosen] + noise * rng.normal())
        mean, width = predict(gp, POOL)
        sigma = width / gp.beta
        misses.append(np.abs(truth - mean) / np.maximum(sigma, 1e-12))
        sigmas.append(sigma)
        factors.append(gp.beta)
    return Run(np.array(misses), np.array(sigmas), np.array(factors))


@cache
def runs(
    kernel: Kernel,
    noise: float,
    count: int,
    norm: float = 1.0,
    claimed_norm: float = 1.0,
    claimed_noise: float | None = None,
    regulariser: float | None = None,
    capacity: int = NUM_STEPS,
    novelty: float = 0.0,
) -> list[Run]:
    """Runs on as many random functions, with a GP that is told the true or another norm and noise."""
    results = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        function = RandomFunction.draw(kernel, norm, rng)
        gp = ExactGP(
            LENGTHSCALE,
            claimed_norm,
            noise=noise if claimed_noise is None else claimed_noise,
            delta=DELTA,
            kernel=kernel,
            regulariser=regulariser,
            capacity=capacity,
            novelty=novelty,
        )
        results.append(explore(gp, function, noise, rng))
    return results


@cache
def paper_factor(kernel: Kernel, omega: float, norm: float = 1.0) -> Array:
    """The paper's B + 4ω√(ν_n + 1 + ln(1/δ)) for n = 1, …, T, with an upper bound on the information capacity ν_n.

    The greedy choice of n points of the pool has at least 1 − 1/e of the largest information. With the paper's own
    posterior (λ = ω²) a point just observed has σ ≈ ω and an error of about ω·|z|, z standard normal; so a factor that
    tends to B as ω → 0 fails as soon as |z| exceeds it. It was derived for a posterior with λ = 1 + 2/n.
    """
    factors = []
    gp = ExactGP(LENGTHSCALE, 1.0, noise=omega, delta=DELTA, kernel=kernel, capacity=NUM_STEPS, novelty=0.0)
    for _ in range(NUM_STEPS):
        widest = POOL[int(predict(gp, POOL)[1].argmax())]
        observe(gp, widest, 0.0)
        information = 0.5 * ((gp.beta - 1.0) ** 2 - 2 * math.log(1 / DELTA))
        capacity = information / (1 - 1 / math.e)
        factors.append(norm + 4 * omega * math.sqrt(capacity + 1 + math.log(1 / DELTA)))
    return np.array(factors)
