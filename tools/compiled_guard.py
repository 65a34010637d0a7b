"""Training with a compiled shield: time of a guarded vector step with costs predicted in Python and in C, in one run.

    python tools/compiled_guard.py

Robots of `PlanarRobot` drive at random behind a shield with `SparseGP`, 128 inducing points and 64 candidates. Both
guards are given the same proposals.
"""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np

import safexp
from safexp.backups.penalty import Penalty
from safexp.envs.guarded import guarded
from safexp.tasks import planar_robot

STEPS, REPEATS = 200, 5
TASK = "safexp/PlanarRobot-v0"


def stepping(num_envs: int, log: safexp.Log, compiled: bool):
    """A guard, and a function that takes steps with it."""
    envs = gym.make_vec(TASK, num_envs=num_envs)
    guard = guarded(
        envs,
        safexp.Instantaneous(0.3),
        safexp.SparseGP(),
        penalty=Penalty(),
        seed_data=log,
        trust="uncalibrated",
        compiled=compiled,
    )
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS, num_envs, 2)).astype(np.float32)
    guard.seed(0)
    guard.reset()

    def run() -> float:
        start = time.process_time()
        for row in actions:
            guard.step(row)
        return (time.process_time() - start) / STEPS

    return guard, run


def main() -> None:
    """Print a table."""
    log = planar_robot.cautious_log(30, np.random.default_rng(0))
    print(
        "| environments | ms a step, Python | C | with the refit of an epoch of 10,000 steps: refit, of which refresh |"
    )
    print("|---|---|---|---|")
    for num_envs in (1, 8, 50):
        (guard, python), (fast, in_c) = (stepping(num_envs, log, compiled) for compiled in (False, True))
        times = np.array([(python(), in_c()) for _ in range(REPEATS)]).min(axis=0)
        same = [guard.recorder.episodes[k] == fast.recorder.episodes[k] for k in range(len(guard.recorder.episodes))]
        harvest = fast.harvest()
        start = time.process_time()
        fast.shield.quantifier.update(harvest.transitions)
        refit = time.process_time() - start
        start = time.process_time()
        fast.shield.refresh()
        refreshed = time.process_time() - start
        row = f"| {num_envs} | {1e3 * times[0]:.2f} | {1e3 * times[1]:.2f} | {refit:.2f} s, {1e3 * refreshed:.0f} ms |"
        print(row, f"{sum(same)} of {len(same)} episodes the same", flush=True)


if __name__ == "__main__":
    main()
