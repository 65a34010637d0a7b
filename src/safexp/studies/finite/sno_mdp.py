"""SNO-MDP (Wachi & Sui, 2020): safe exploration of a known deterministic grid under one fixed threshold."""

from __future__ import annotations

from itertools import repeat

from safexp.core.arrays import Array
from safexp.studies.finite.grid_explorer import Belief, PlannerSettings, Walk, walk
from safexp.tasks.grid_world import GridWorld


def sno_mdp(world: GridWorld, *, steps: int = 200, beta: float = 4.0, settings: PlannerSettings | None = None) -> Walk:
    """Run SNO-MDP, which assumes `world.threshold` throughout.

    `beta` scales the confidence interval of a move's safety. The original's 2 is not safe; see
    docs/results/grid-world.md.
    """

    def judge(mean: Array, deviation: Array) -> Belief:
        slack, width = mean - world.threshold, beta * deviation
        return Belief(slack - width >= 0.0, slack + width >= 0.0, slack, deviation)

    return walk(world, repeat(judge, steps), settings or PlannerSettings())
