"""Failing environments with an internal ledger of true costs, and comparison of the records with it.

The ledger is independent of shields, recorders and constraints: it sums the true costs of each episode as they occur.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import PPO

from faults.damage import quiet
from safexp.constraints import Budget, Constraint, Instantaneous
from safexp.core.arrays import Array
from safexp.mase.mase import MASE
from safexp.quantifiers import Known
from safexp.tasks.planar_robot import PlanarRobotVector

LIMIT = 0.3
"""Limit on the cost of a step."""
BUDGET = 2.0
"""Limit on the cost of an episode."""

FAULTS = (
    "step raises",
    "step interrupted",
    "NaN cost",
    "infinite cost",
    "negative cost",
    "cost above 1",
    "no cost",
    "NaN observation",
    "reset raises",
)


class Faulty(PlanarRobotVector):
    """PlanarRobot for n robots with random failures, of one robot or of all.

    `unsafe` counts the steps that cost more than LIMIT; `broken` the episodes that cost more than LIMIT in a step, and
    more than BUDGET in all; `corrupted` the steps of robots in a vector step that failed.
    """

    def __init__(self, num_envs: int, rng: np.random.Generator, faults: tuple[str, ...], rate: float) -> None:
        super().__init__(num_envs)
        self.rng = rng
        self.rate = rate
        self.faults = dict.fromkeys(faults, 0)
        self.steps = self.unsafe = self.corrupted = 0
        self.broken = {"every step": 0, "budget": 0}
        self._spent = np.zeros(num_envs)
        self._exceeded = {name: np.zeros(num_envs, dtype=bool) for name in self.broken}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        if "reset raises" in self.faults and self.rng.random() < self.rate:
            self.faults["reset raises"] += 1
            raise OSError("the simulator does not answer")
        self._close((options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool)))
        return super().reset(seed=seed, options=options)

    def step(self, actions: NDArray[Any]) -> tuple[Array, Array, Any, Any, dict[str, Any]]:
        observations, rewards, reached, late, infos = super().step(actions)
        self._enter(infos["cost"], reached | late)
        if self.rng.random() >= self.rate:
            return observations, rewards, reached, late, infos
        fault = list(self.faults)[int(self.rng.integers(len(self.faults)))]
        self.faults[fault] += 1
        self.corrupted += self.num_envs
        robots = np.ones(self.num_envs, dtype=bool)
        if self.rng.random() < 0.5:
            robots = np.arange(self.num_envs) == self.rng.integers(self.num_envs)
        match fault:
            case "step raises" | "reset raises":
                raise OSError("the simulator does not answer")
            case "step interrupted":
                raise KeyboardInterrupt
            case "NaN observation":
                observations[robots] = np.nan
            case "no cost":
                infos = {**infos, "_cost": ~robots}
            case _:
                told = {"NaN cost": np.nan, "infinite cost": np.inf, "negative cost": -1.0, "cost above 1": 2.5}[fault]
                infos = {**infos, "cost": np.where(robots, told, infos["cost"])}
        return observations, rewards, reached, late, infos

    def _enter(self, costs: Array, ended: NDArray[np.bool_]) -> None:
        """Enter the true costs (n,) of a step, which ended some episodes, into the ledger."""
        self.steps += self.num_envs
        self._spent += costs
        unsafe = costs > LIMIT * (1 + 1e-6)
        self.unsafe += int(unsafe.sum())
        for name, now in (("every step", unsafe), ("budget", self._spent > BUDGET * (1 + 1e-6))):
            self.broken[name] += int((now & ~self._exceeded[name]).sum())
            self._exceeded[name] |= now
        self._close(ended)

    def _close(self, rows: NDArray[np.bool_]) -> None:
        self._spent[rows] = 0.0
        for exceeded in self._exceeded.values():
            exceeded[rows] = False


def compare(fault: str, steps: int, seed: int) -> dict[str, Any]:
    """Train without a working shield through one fault, and compare the violations counted with the ledger's.

    `wrong` counts violations that the record misses, and those it adds beyond the steps that were corrupted.
    """
    row: dict[str, Any] = {"what": f"training, {fault}", "tried": 0, "accepted": 0, "refused": 0, "wrong": 0}
    kinds: dict[str, Constraint] = {"every step": Instantaneous(LIMIT), "budget": Budget(BUDGET)}
    for name, constraint in kinds.items():
        envs = Faulty(8, np.random.default_rng(seed), (fault,), rate=0.02)
        options = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
        with quiet():
            agent = MASE(envs, constraint, Known(_nothing), PPO, learner_options=options, shielding=False, seed=seed)
            while envs.steps < steps:
                try:
                    agent.learn(512)
                except (OSError, ValueError, KeyError, KeyboardInterrupt):
                    continue
        truth, counted = envs.broken[name], agent.violations
        row["tried"] += sum(envs.faults.values())
        row["accepted"] += counted
        row["wrong"] += max(truth - counted, 0) + max(counted - truth - envs.corrupted, 0)
    return row | {"note": f"{row['accepted']:,} violations counted"}


def _nothing(states: Array, actions: Array) -> Array:
    return np.zeros(len(states))
