"""Soak test: long training under continual faults, to check that executed steps are safe and no resources leak.

The environment raises, and returns costs and observations that are not numbers; the quantifier raises, returns NaN, and
runs out of memory when it learns. After each fault training continues with `learn`, as in a user's loop.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3 import PPO

from faults.damage import quiet
from faults.ledger import FAULTS, LIMIT, Faulty
from safexp.bench.shield import resident
from safexp.constraints import Instantaneous
from safexp.core.arrays import Array
from safexp.mase.mase import MASE
from safexp.quantifiers import Known
from safexp.quantifiers.base import Transitions
from safexp.report.terminal import print_rows
from safexp.tasks.planar_robot import cost_of

CHUNK = 512
"""Environment steps between two measurements."""

DOUBTS = ("predict raises", "NaN mean", "negative width", "out of memory")
RATE = 0.004
"""Probabilities that a step, or a prediction, fails."""


class Doubtful(Known):
    """Quantifier that knows the true cost, with random failures."""

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
    """Results of `minutes` of training, and growth of resources since the first tenth.

    `wrong` counts unsafe steps, one for steps that the records do not account for, and one for files or processes that
    were left open.
    """
    if not minutes > 0:
        raise ValueError(f"minutes={minutes} must be above 0.")
    rng = np.random.default_rng(seed)
    envs, quantifier = Faulty(8, rng, FAULTS, RATE), Doubtful(rng)
    options = {"n_steps": 32, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [16]}}
    with quiet():
        agent = MASE(envs, Instantaneous(LIMIT), quantifier, PPO, learner_options=options, seed=0)
        begin, stopped, first = time.monotonic(), 0, None
        while (spent := time.monotonic() - begin) < 60 * minutes or first is None:
            try:
                agent.learn(CHUNK)
            except (ValueError, RuntimeError, OSError, MemoryError, KeyError, KeyboardInterrupt):
                stopped += 1
            agent.episodes[:-1000] = []  # a real run writes them to disk
            if first is None and spent >= 6 * minutes:
                first = _held()
    last = _held()
    counted = agent.guard.recorder.steps == envs.steps
    wrong = envs.unsafe + (not counted) + (last[1:] != first[1:])
    faults = sum(envs.faults.values()) + sum(quantifier.faults.values())
    grown = (last[0] - first[0]) / 2**20
    note = f"{stopped} interruptions; memory {first[0] / 2**20:.0f} MB {grown:+.1f} MB, files {last[1]}"
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


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="faults.soak", description="Training while everything around it fails.")
    parser.add_argument("--minutes", type=float, default=10.0)
    rows = measure(parser.parse_args().minutes)
    print_rows(rows, as_json=False)
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
