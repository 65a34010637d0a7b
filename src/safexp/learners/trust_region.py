"""The mathematics of a trust-region step, as pure functions of flat parameter vectors (p,).

A step x from the current parameters solves, to first order in the objective and second order in the KL divergence,

    maximise gᵀx  subject to  ½ xᵀF x ≤ δ                 (TRPO)
                         and  c + bᵀx ≤ 0                 (CPO)

with F the Fisher matrix of the policy, of which only products with vectors are ever computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

import torch as th
from torch import Tensor

Product = Callable[[Tensor], Tensor]
"""A matrix as a function: its product with a vector, or with every row of a batch."""

TINY = 1e-8
"""Squared lengths below this are zero in float32 arithmetic."""

TINY_RESIDUAL = 1e-10
"""Squared residual at which conjugate gradients have converged."""


def flatten(parts: Sequence[Tensor]) -> Tensor:
    """Join tensors into one vector (p,)."""
    return th.cat([part.reshape(-1) for part in parts])


def split(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Split a vector from `flatten` into tensors, as views."""
    pieces = th.split(vector, [part.numel() for part in like])
    return [piece.view_as(part) for piece, part in zip(pieces, like, strict=True)]


def fisher_product(push: Product, pull: Product, metric: Product, damping: float) -> Product:
    """The Fisher matrix JᵀMJ / n + damping, for the Jacobian J of a policy's outputs (n, k) in its parameters (p,).

    `push` is v ↦ Jv, `pull` is u ↦ Jᵀu, and `metric` multiplies a tangent (n, k) by M, the Fisher matrix of each
    row's distribution in its own parameters.
    """

    def product(vector: Tensor) -> Tensor:
        tangent = push(vector)
        return pull(metric(tangent) / len(tangent)) + damping * vector

    return product


def conjugate_gradient(
    product: Product, target: Tensor, steps: int, precondition: Product | None = None, least_gain: float = 0.0
) -> Tensor:
    """Solve A x ≈ target (p,) for a positive definite A, by at most `steps` products with A.

    `precondition` is a product with an approximation of A⁻¹. Each step adds to targetᵀx, which approaches its value at
    the solution from below; the iteration ends with the first step that adds no more than the share `least_gain` of it.
    """
    solution, total = th.zeros_like(target), 0.0
    residual = target.clone()
    refined = residual if precondition is None else precondition(residual)
    direction, error = refined.clone(), residual @ refined
    for _ in range(steps):
        if error <= TINY_RESIDUAL:
            break
        image = product(direction)
        length = error / (direction @ image)
        solution += length * direction
        gain = float(length * error)
        total += gain
        if gain <= least_gain * total:
            break
        residual -= length * image
        refined = residual if precondition is None else precondition(residual)
        previous, error = error, residual @ refined
        direction = refined + (error / previous) * direction
    return solution


def natural_step(gradient: Tensor, direction: Tensor, radius: float) -> Tensor:
    """TRPO's step √(2δ / gᵀF⁻¹g) F⁻¹g, from the gradient g and the direction F⁻¹g."""
    squared = float(gradient @ direction)
    return direction * math.sqrt(2 * radius / squared) if squared > TINY * radius else th.zeros_like(direction)


class LineSearch(NamedTuple):
    """Result of a line search: a point, and the fraction of the step that leads there, 0 if none was accepted."""

    point: Tensor
    fraction: float


def line_search(
    accept: Callable[[Tensor], bool], point: Tensor, step: Tensor, shrink: float, attempts: int
) -> LineSearch:
    """The first of point + shrinkʲ·step, j = 0, 1, …, that is accepted; the point itself if none is."""
    fraction = 1.0
    for _ in range(attempts):
        candidate = point + fraction * step
        if accept(candidate):
            return LineSearch(candidate, fraction)
        fraction *= shrink
    return LineSearch(point, 0.0)


class StepCase(Enum):
    """Cases of CPO's step, by how the linear constraint meets the trust region."""

    NO_GRADIENT = "the cost does not change to first order"
    INACTIVE = "the unconstrained step keeps the constraint"
    ACTIVE = "the constraint's plane cuts the trust region"
    RECOVERY = "no point of the trust region keeps the constraint"


class ConstrainedStep(NamedTuple):
    """CPO's step x, the multipliers (λ of the KL, ν of the cost) it is optimal for, and the case it belongs to."""

    step: Tensor
    kl_multiplier: float
    cost_multiplier: float
    case: StepCase


def constrained_step(
    gradient: Tensor,
    cost_gradient: Tensor,
    cost_excess: float,
    direction: Tensor,
    cost_direction: Tensor,
    radius: float,
) -> ConstrainedStep:
    """CPO's step: maximise gᵀx subject to c + bᵀx ≤ 0 and ½xᵀFx ≤ δ, from F⁻¹g and F⁻¹b.

    The dual's optimum is x = F⁻¹(g − νb) / λ. With q = gᵀF⁻¹g, r = gᵀF⁻¹b, s = bᵀF⁻¹b, A = q − r²/s, B = 2δ − c²/s:

    - the unconstrained step keeps the constraint: ν = 0, λ = √(q / 2δ);
    - else, if B ≥ 0, the optimum lies where the plane c + bᵀx = 0 cuts the trust region's boundary: from the point of
      the plane nearest to 0 in F's norm, −(c/s) F⁻¹b, along what b leaves of g for the radius that remains,
      √(B/A) F⁻¹(g − (r/s) b); so λ = √(A/B), ν = (r + λc) / s;
    - if B < 0 and c > 0, no step within the region suffices: the longest one that lowers the cost, −√(2δ/s) F⁻¹b;
    - where b = 0, no step changes the cost to first order, with slack (c ≤ 0) or without: the unconstrained step. No
      step at all would keep a policy that costs too much forever.

    c is the excess *per episode*, so b must be the gradient of the cost per episode.
    """
    q, s = float(gradient @ direction), float(cost_gradient @ cost_direction)
    r = float(gradient @ cost_direction)
    free = natural_step(gradient, direction, radius)
    free_multiplier = math.sqrt(max(q, 0.0) / (2 * radius))
    if s <= TINY:
        return ConstrainedStep(free, free_multiplier, 0.0, StepCase.NO_GRADIENT)
    if cost_excess + float(cost_gradient @ free) <= 0:
        return ConstrainedStep(free, free_multiplier, 0.0, StepCase.INACTIVE)
    remaining = 2 * radius - cost_excess**2 / s
    if remaining < 0:
        return ConstrainedStep(-math.sqrt(2 * radius / s) * cost_direction, 0.0, math.inf, StepCase.RECOVERY)
    nearest = -(cost_excess / s) * cost_direction
    along = q - r**2 / s
    if along <= TINY * max(q, TINY) or remaining == 0:  # no part of g in the plane, or no radius left
        return ConstrainedStep(nearest, 0.0, r / s, StepCase.ACTIVE)
    multiplier = math.sqrt(along / remaining)
    step = nearest + (direction - (r / s) * cost_direction) / multiplier
    return ConstrainedStep(step, multiplier, (r + multiplier * cost_excess) / s, StepCase.ACTIVE)
