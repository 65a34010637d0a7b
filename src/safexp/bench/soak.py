"""Training on and on while everything around it fails: is what is executed safe, and does anything pile up?

The environment raises, and gives costs and observations that are no numbers; the quantifier raises, answers NaN, and
runs out of memory when it learns. After each fault training goes on with `learn`, as a user's loop would.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3 import PPO

from safexp.bench.damage import quiet
from safexp.bench.shield import resident
from safexp.constraints import Instantaneous
from safexp.mase import MASE
from safexp.quantifiers import Known
from safexp.quantifiers.base import Transitions
from safexp.signals import Array
from safexp.tasks.planar_robot import PlanarRobotVector, cost_of

LIMIT = 0.3
CHUNK = 512
"""Environment steps between two looks."""

FAULTS = ("step raises", "NaN cost", "infinite cost", "cost above 1", "NaN observation", "reset raises")
DOUBTS = ("predict raises", "NaN mean", "negative width", "out of memory")
RATE = 0.004
"""How often a step, or a question, fails."""


class Faulty(PlanarRobotVector):
    """The task, failing now and then; it counts by itself what its robots really did."""

    def __init__(self, num_envs: int, rng: np.random.Generator) -> None:
        super().__init__(num_envs)
        self.rng = rng
        self.faults = dict.fromkeys(FAULTS, 0)
        self.steps = self.lost = self.unsafe = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        if self._fails() == "reset raises":
            self.faults["reset raises"] += 1
            raise OSError("the simulator does not answer")
        return super().reset(seed=seed, options=options)

    def step(self, actions: NDArray[Any]) -> tuple[Array, Array, Any, Any, dict[str, Any]]:
        observations, rewards, reached, late, infos = super().step(actions)
        self.steps += self.num_envs
        self.unsafe += int((infos["cost"] > LIMIT * (1 + 1e-9)).sum())
        fault = self._fails()
        if fault is not None:
            self.faults[fault] += 1
            self.lost += self.num_envs
        match fault:
            case "step raises" | "reset raises":
                raise OSError("the simulator does not answer")
            case "NaN cost":
                infos = {**infos, "cost": np.full(self.num_envs, np.nan)}
            case "infinite cost":
                infos = {**infos, "cost": np.full(self.num_envs, np.inf)}
            case "cost above 1":
                infos = {**infos, "cost": infos["cost"] + 1.5}
            case "NaN observation":
                observations[0] = np.nan
        return observations, rewards, reached, late, infos

    def _fails(self) -> str | None:
        return FAULTS[int(self.rng.integers(len(FAULTS)))] if self.rng.random() < RATE else None


class Doubtful(Known):
    """The true cost, unless the quantifier fails now and then."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(cost_of)
        self.rng = rng
        self.faults = dict.fromkeys(DOUBTS, 0)

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        mean, width = super().predict(states, actions)
        if self.rng.random() >= RATE:
            return mean, width
        fault = DOUBTS[int(self.rng.integers(3))]
        self.faults[fault] += 1
        if fault == "predict raises":
            raise RuntimeError("the model is gone")
        return (mean * np.nan, width) if fault == "NaN mean" else (mean, width - 1.0)

    def update(self, data: Transitions) -> None:
        if self.rng.random() < 0.2:
            self.faults["out of memory"] += 1
            raise MemoryError("no room for a model")


def measure(minutes: float = 10.0, seed: int = 1000) -> list[dict[str, Any]]:
    """A row of what was done in so many minutes, and what piled up since the first tenth of them.

    `wrong` counts unsafe steps, one for steps that the records do not account for, and one for files or processes that
    were left open.
    """
    if not minutes > 0:
        raise ValueError(f"minutes={minutes} must be above 0.")
    rng = np.random.default_rng(seed)
    envs, quantifier = Faulty(8, rng), Doubtful(rng)
    options = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [16]}}
    with quiet():
        agent = MASE(envs, Instantaneous(LIMIT), quantifier, PPO, options, seed=0)
        begin, stopped, first = time.monotonic(), 0, None
        while (spent := time.monotonic() - begin) < 60 * minutes or first is None:
            try:
                agent.learn(CHUNK)
            except (ValueError, RuntimeError, OSError, MemoryError):
                stopped += 1
            agent.episodes[:-1000] = []  # a run writes them down
            if first is None and spent >= 6 * minutes:
                first = _held()
    last = _held()
    counted = agent.guard.recorder.steps + envs.lost == envs.steps  # a step that broke is not recorded
    wrong = envs.unsafe + (not counted) + (last[1:] != first[1:])
    faults = sum(envs.faults.values()) + sum(quantifier.faults.values())
    grown = (last[0] - first[0]) / 2**20
    note = f"{stopped} times ended and taken up; memory {first[0] / 2**20:.0f} MB {grown:+.1f} MB, files {last[1]}"
    return [
        {
            "what": f"{envs.steps:,} steps with {faults} faults",
            "minutes": round(spent / 60, 2),
            "unsafe": envs.unsafe,
            "wrong": wrong,
            "note": note,
        }
    ]


def _held() -> tuple[int, int, int]:
    """Bytes of memory, open files and child processes of this process."""
    gc.collect()
    return resident(), len(list(Path("/proc/self/fd").iterdir())), len(multiprocessing.active_children())
