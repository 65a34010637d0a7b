"""A Lagrangian method of one's own: the learner gets the reward less λ times the cost, and λ is learned.

    safexp train --method lagrangian:method --budget 3 --method-options '{"rate": 0.05}'

After each episode λ grows if its cost exceeded the budget, and shrinks otherwise. Nothing is shielded, so the budget is
broken while λ is learned; `episodes.csv` counts how often, by the same code as for MASE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import safexp


class Lagrangian(safexp.Recording):
    """Environments that charge λ times the cost to the learner."""

    def __init__(self, venv: Any, constraint: safexp.Budget, rate: float = 0.05) -> None:
        super().__init__(venv, constraint, venv.observation_space)
        self.limit, self.rate, self.multiplier = constraint.limit, rate, 0.0
        self.spent = np.zeros(venv.num_envs)

    def judge(self, taken: safexp.Taken) -> safexp.Outcome:
        """Charge the costs (n,) of a step, and update λ where an episode has ended; none is stopped."""
        costs, ended = taken.received.signals, taken.received.dones
        rewards = taken.received.rewards - self.multiplier * costs
        self.spent += costs
        for cost in self.spent[ended]:
            self.multiplier = max(self.multiplier + self.rate * (cost / self.limit - 1), 0.0)
        self.spent[ended] = 0.0
        return safexp.Outcome(rewards, np.zeros(len(costs), dtype=bool))

    def shown(self, observations: Any, thresholds: Any, rows: Any = slice(None)) -> Any:
        """The learner sees what the task shows."""
        return observations


def method(config: Any, envs: Any, constraint: Any, learner: Any, options: dict[str, Any]) -> safexp.Agent:
    """The agent of `--method lagrangian:method`."""
    recorded = Lagrangian(safexp.as_vec_env(envs), constraint, **config.method_options)
    return safexp.Baseline(recorded, learner, learner_options=options, seed=config.seed)
