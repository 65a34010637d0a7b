"""MASE on the grid world: the planner of SNO-MDP under the GSE problem's thresholds and costs.

Costs and thresholds are in the paper's form, g ≤ b with both in [0, 1], and the threshold of a step is known
only at that step.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from safexp.core.arrays import Array
from safexp.studies.finite.grid_explorer import Belief, PlannerSettings, Walk, walk
from safexp.tasks.grid_world import GridWorld


def grid_mase(
    world: GridWorld,
    thresholds: Iterable[float],
    *,
    beta: float = 4.0,
    settings: PlannerSettings | None = None,
) -> Walk:
    """Run MASE for as many steps as there are cost thresholds b_h, which are taken one at a time.

    Lines 3-9 of Algorithm 1: only actions of A⁺ are executed, and when A⁺ of the next step is empty the run
    stops before anything unsafe happens. Where b ≥ ½ staying is always in A⁺, so that no stop is ever needed.
    """
    judges = (partial(_judge, world, beta, threshold) for threshold in thresholds)
    return walk(world, judges, settings or PlannerSettings())


def _judge(world: GridWorld, beta: float, threshold: float, safety: Array, deviation: Array) -> Belief:
    """The certified actions A⁺ = {min{1, μ + Γ} ≤ b} of Section 4, with Γ = β·σ."""
    mean, deviation = world.cost(safety), deviation / (2.0 * world.scale)
    width = beta * deviation
    return Belief(np.minimum(1.0, mean + width) <= threshold, mean - width <= threshold, threshold - mean, deviation)
