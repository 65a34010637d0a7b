"""Look-ahead to a brake on the Goal tasks, from a log of driving and braking: docs/results/obstacles.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import gymnasium as gym
import numpy as np
import tyro

from safexp.runs.config import RunConfig
from safexp.studies.lookahead import controller_return, reproduce
from safexp.tasks.knowledge import knowledge_of

NUM_ENVS = 50

RobotName = Literal["Point", "Car"]


@dataclass(frozen=True)
class Goal1Study:
    """Train a robot among hazards behind a certificate of its path, which looks ahead to its brake.

    Args:
        robots: which robots.
        layout: `Goal1` (eight hazards, 1,000 steps) or `GoalStatic` (one large hazard, 200 steps).
        budget: on the steps of an episode within a hazard; 0 allows none.
        seeds: seeds of the runs.
        steps: environment steps of a run.
        drills: share of the steps spent on drills.
        keep: steps for which the replacement of a refused proposal is kept.
        moved_penalty: penalty of a replaced proposal, in proportion to how far it was moved.
        epoch: environment steps of an epoch.
        workers: number of runs at a time.
        out: folder of the run folders; finished runs are not repeated, interrupted ones are resumed.
    """

    robots: tuple[RobotName, ...] = ("Point", "Car")
    layout: Literal["Goal1", "GoalStatic"] = "Goal1"
    budget: float = 25.0
    seeds: tuple[int, ...] = (1000, 1001, 1002)
    steps: int = 1_000_000
    drills: float = 0.01
    keep: int = 20
    moved_penalty: float = 0.02
    epoch: int = 10_000
    workers: int = 2
    out: Path = Path("runs/goal1")

    def runs(self) -> list[RunConfig]:
        """Settings of the runs."""
        return [
            RunConfig(
                task=f"safexp/{robot}{self.layout}-v0",
                limit=self.budget,
                quantifier="planar-path",
                backup="controller",
                backup_options={"drills": self.drills, "keep": self.keep},
                learner="TRPO",
                learner_options={"n_steps": self.epoch // NUM_ENVS, "target_kl": 0.02},
                penalty=1.0,
                moved_penalty=self.moved_penalty,
                num_envs=NUM_ENVS,
                steps=self.steps,
                seed=seed,
                out=self.out / f"{robot}-{self.layout}-{self.budget:g}-{seed}",
            )
            for robot in self.robots
            for seed in self.seeds
        ]

    def references(self, task: str) -> dict[str, float | None]:
        """Return of the brake; the log was driven elsewhere, at random."""
        envs = gym.make_vec(task, num_envs=1)
        backup = knowledge_of(envs).backup
        envs.close()
        assert backup is not None, "Goal tasks have a brake"
        controller = backup[0]
        return {
            "backup_return": controller_return(task, lambda seen: controller(np.asarray(seen))),
            "log_return": None,
        }


def main(
    study: Annotated[Goal1Study, tyro.conf.arg(name="")],
    *,
    json_output: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Learn to drive among hazards behind a certificate that looks ahead to the brake."""
    return reproduce(study, json_output)
