"""Imitation: a supervised step of a policy towards the actions that replaced its proposals."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from safexp.learners.surrogate import PolicyNetwork, Surrogate
from safexp.learners.trust_region import line_search, natural_step

SHRINK, ATTEMPTS = 0.5, 10
"""Factor by which a step that does not come nearer is shortened, and the largest number of steps tried."""

CG_STEPS = 10
"""Largest number of conjugate-gradient steps."""


class Imitated(NamedTuple):
    """Result of a step: mean KL divergence of the policy's change, and mean distances to the executed actions."""

    kl: float
    before: float
    after: float


def imitate(
    actor: PolicyNetwork, observations: Any, proposed: Tensor, executed: Tensor, replaced: Tensor, radius: float
) -> Imitated:
    """One step of a policy towards the `executed` actions where they `replaced` (n,) its proposals.

    A proposal of a Gaussian policy is a = μ + σε. If the shield runs the nearest certified action p(a), the mean
    squared move D = ½ E‖(a − p(a)) / σ‖² has the gradient E[a − p(a)] / σ² in μ: the mean goes where its proposals,
    including their noise, are certified. For a categorical policy D is the mean of −log π(executed).

    The step is Gauss-Newton's −F⁻¹∇D, shortened to √(2δ / ∇DᵀF⁻¹∇D) of it where that is less than 1: the policy changes
    by a KL divergence of at most δ = `radius`. F and the KL divergence are means over *all* observations (n, …), which
    keeps the policy as it is where nothing was replaced. The spread of a Gaussian does not change.
    """
    surrogate, family = Surrogate(actor, observations, executed), actor.family
    wanted = family.corrected(surrogate.outputs, proposed, executed)

    def distances(outputs: Tensor) -> Tensor:
        return family.distance(outputs, wanted) * replaced

    descent = -surrogate.derivative(distances)
    newton = surrogate.natural(descent, CG_STEPS)
    limited = natural_step(descent, newton, radius)
    step = min(limited, newton, key=lambda one: float(one.norm()))
    before = float(distances(surrogate.outputs).mean())
    tried: list[Imitated] = []

    def nearer(point: Tensor) -> bool:
        change = surrogate.evaluate(point)
        tried.append(Imitated(change.kl, before, float(distances(change.outputs).mean())))
        return change.kl <= radius and tried[-1].after < before

    found = line_search(nearer, surrogate.point, step, SHRINK, ATTEMPTS)
    if not found.fraction:
        return Imitated(0.0, before, before)
    surrogate.move(found.point)
    return tried[-1]
