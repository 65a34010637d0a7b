"""What a shield costs a controller that hardly needs it: `python tools/behind_the_shield.py`.

A Point in Goal1 is steered towards the goal and around hazards at a moderate speed, from its true pose, without the
shield and behind it (`PlanarPath`, budget 25). What it earns less behind the shield is the price of the certificate.
With `--run FOLDER` the policy of a run is driven instead of that controller, without exploration.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from rich.console import Console

import safexp
from safexp.core.arrays import Array, Controller
from safexp.tasks.knowledge import knowledge_of
from safexp.tasks.navigation import NavigationVectorEnv

SPEED, AWARE, FIRM, PUSHED = 0.6, 0.5, 0.25, 0.3
"""Speed in m/s, distance from a hazard from which it is avoided, within which fully, and from which it also repels."""


def steered(envs: NavigationVectorEnv) -> Array:
    """Actions (n, 2) towards the goals, past the hazards."""
    place, axis = envs.physics.position[:, :2], envs.physics.rotation[:, :2, 0]
    to_goal, to_hazards = envs.goal - place, envs.hazards - place[:, None]
    want = _unit(to_goal)
    gaps, towards = np.linalg.norm(to_hazards, axis=2) - envs.layout.hazard_radius, _unit(to_hazards)
    for rank in np.argsort(-gaps, axis=1).T:  # the nearest hazard has the last word
        rows = np.arange(len(want))
        hazard, gap = towards[rows, rank], gaps[rows, rank][:, None]
        ahead = (want * hazard).sum(axis=1, keepdims=True)
        near = np.clip((AWARE - gap) / FIRM, 0.0, 1.0)
        past = _unit(want - ahead * hazard) - np.clip((PUSHED - gap) / PUSHED, 0.0, 1.0) * hazard
        want = np.where((ahead > 0) & (near > 0), _unit((1.0 - near) * want + near * past), want)
    error = np.arctan2(axis[:, 0] * want[:, 1] - axis[:, 1] * want[:, 0], (axis * want).sum(axis=1))
    push = 4.0 * ((SPEED * want - envs.physics.velocity()[:, :2]) * axis).sum(axis=1)
    return np.clip(np.stack([push, 3.0 * error], axis=1), -1.0, 1.0).astype(np.float32)


def _unit(vectors: Array) -> Array:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def main() -> None:
    """Print the returns without and behind the shield."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="run folder of a policy to drive instead")
    parser.add_argument("--robot", default="Point", choices=("Point", "Car"))
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--keep", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    if asked.robot == "Car" and asked.run is None:
        raise SystemExit("the controller drives the Point alone: give --run for the Car.")
    envs: Any = gym.make_vec(f"safexp/{asked.robot}Goal1-v0", num_envs=asked.episodes)
    known, console = knowledge_of(envs), Console(width=120)
    assert known.backup is not None and known.drill_log is not None
    shielded: Any = safexp.wrap(
        envs,
        safexp.Budget(25.0, among=known.obstacles),
        safexp.Calibrated(safexp.PlanarPath()),
        seed_data=known.drill_log(np.random.default_rng(asked.seed)),
        backup=safexp.Backup(*known.backup, hold=known.hold, keep=asked.keep, drills=0.0, rescue=known.rescue),
    )
    propose: Controller = lambda _: steered(envs.unwrapped)  # noqa: E731
    if asked.run is not None:
        learner: Any = safexp.load(asked.run).learner
        size = envs.single_observation_space.shape[0]
        propose = lambda seen: learner.predict(seen[:, :size], deterministic=True)[0]  # noqa: E731
    for name in ("behind the shield", "without it"):
        seen, _ = shielded.reset(seed=asked.seed)
        before, total, cost = len(shielded.episodes), np.zeros(asked.episodes), np.zeros(asked.episodes)
        for _ in range(envs.unwrapped.layout.steps):
            seen, rewards, _, _, infos = shielded.step(propose(seen))
            total, cost = total + rewards, cost + infos["cost"]
        found = shielded.episodes[before:]
        console.print(
            f"{name}: return {total.mean():.1f} ± {total.std() / np.sqrt(len(total)):.1f}, cost {cost.mean():.1f}, "
            f"largest {cost.max():.0f}; replaced {np.mean([one.interventions for one in found]):.0f}, taken over "
            f"{np.mean([one.takeovers for one in found]):.0f} of {envs.unwrapped.layout.steps:,} steps"
        )
        shielded.evaluate(shielded=False)


if __name__ == "__main__":
    main()
