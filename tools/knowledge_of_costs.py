"""What a model of the cost certifies wrongly after a safe log, with and without what the task knows of the cost.

python tools/knowledge_of_costs.py
"""

from __future__ import annotations

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import safexp
from safexp.quantifiers import Transitions
from safexp.tasks.navigation.layouts import STATIC
from safexp.tasks.navigation.vector_env import SOFTNESS, NavigationVectorEnv
from safexp.tasks.seed_controllers import DRIVERS, drive, logged, nearness

LIMIT = 0.5


def transitions(log: safexp.Log) -> Transitions:
    return Transitions(log.observations, log.actions.astype(np.float64), log.costs, log.margins, log.episodes)


def random_driving(copies: int, seed: int) -> Transitions:
    """What drivers do that push and turn at random, forwards more often than not."""
    rng = np.random.default_rng(seed)
    envs = NavigationVectorEnv(copies, layout=STATIC, cost="margin", autoreset_mode="SameStep")
    drift = np.zeros((copies, 2))

    def act():
        drift[:] = 0.95 * drift + 0.31 * rng.standard_normal((copies, 2))
        return drift + np.array([0.5, 0.0])

    return transitions(logged(envs, act, STATIC.steps, rng).log)


def main() -> None:
    torch.set_num_threads(1)
    seed_log = transitions(drive(STATIC, "margin", 16, DRIVERS, np.random.default_rng(0)).log)
    test, matrix = random_driving(100, seed=7), nearness(12, 16)
    models = {
        "the cost, from all 44 inputs": safexp.SparseGP(),
        "the cost, from 5 combinations": safexp.Projected(safexp.SparseGP(), matrix),
        "the margin, from 5 combinations": safexp.Projected(safexp.FromMargin(safexp.SparseGP(), SOFTNESS), matrix),
        "the same, calibrated": safexp.Projected(
            safexp.FromMargin(safexp.Calibrated(safexp.SparseGP(), near=0.4, holdout=0.5), SOFTNESS), matrix
        ),
    }
    table = Table("model of", "covered", "certified", "truly safe", "certified but unsafe")
    for name, quantifier in models.items():
        quantifier.fit(seed_log)
        mean, width = (part[:, 0] for part in quantifier.predict(test.states, test.actions[:, None]))
        safe, truly = mean + width <= LIMIT, test.costs <= LIMIT
        covered = np.abs(test.costs - mean) <= width
        shares = [f"{part.mean():.2%}" for part in (covered, safe, truly)]
        table.add_row(name, *shares, f"{(safe & ~truly).mean():.3%} of {len(safe):,}")
    Console().print(table)


if __name__ == "__main__":
    main()
